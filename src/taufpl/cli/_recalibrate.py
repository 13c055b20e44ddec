"""``taufpl recalibrate``: a new threshold from fresh negatives."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taufpl.cli._data_file import DataFile, digest_of, find_data_file, read_names
from taufpl.cli._errors import note
from taufpl.cli._options import Json, Model, Target
from taufpl.cli._output import (
    BUDGET,
    check_output,
    evidence_record,
    fpr_facts,
    guarantee_in_words,
    limits_record,
    number,
    percent,
    print_limits,
    print_result,
    working,
)

if TYPE_CHECKING:
    from taufpl.cli._loaded_model import LoadedModel
    from taufpl.cli._row_reader import RowBatch, RowReader

# What a header says that only the fit could know, typical negatives beside it.
_KEPT = ("n_rows", "n_negative", "n_positive", "fingerprint", "layout", BUDGET)


def recalibrate(
    model: Model,
    negatives: Annotated[Path, typer.Argument(metavar="NEGATIVES", help="Rows that the model has never seen.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The model file to write.", show_default="MODEL is replaced")
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Of a model with --looks any: forget its negatives, for half of the delta left."
        ),
    ] = False,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Choose the threshold anew from fresh negatives, with a guarantee; the scorer stays as it is.

    Where the file has the column with the labels, its negatives choose and its positives tell the recall. Without that
    column all rows count as negatives, and the result says so. Where the model was fitted with --group, the file must
    have that column, too.
    """
    from taufpl.cli._loaded_model import fresh_rows, in_known_group, open_model, scores_record, seen_before

    file = find_data_file(negatives)
    path = output or model
    check_output(path, negatives)
    digest = digest_of(model)
    loaded = open_model(model)
    before = loaded.head.threshold_
    with working(f"reading {negatives}"):
        rows = _reader(file, loaded, target).load()
        unlabelled = _unlabelled(file, loaded, rows)
        scores = scores_record(file, loaded, rows)
        known = in_known_group(loaded, rows)
        if known.any():
            note(f"{file.name}: {known.sum():,} rows belong to groups that the model has seen, and are left out.")
            rows = rows.take(~known)
        fresh, n_seen = fresh_rows(file, loaded, rows)
        training = _recalibrate(file, loaded, fresh, n_seen, restart, scores)
        _save(loaded, path, training, fresh, digest)
    found = loaded.head.evidence_
    found = min(found, key=lambda each: each.tau) if isinstance(found, tuple) else found
    document = {
        "output": str(path),
        **evidence_record(found),
        "looks": loaded.head.looks,
        "delta_spent": loaded.history[-1].delta_spent,
        "threshold_before": before,
        "threshold": loaded.head.threshold_,
        "n_seen_before": n_seen,
        "has_labels": unlabelled is None,
        **limits_record(loaded.head),
    }
    facts = [
        ("threshold", f"{number(before)} before, {number(document['threshold'])} now"),
        *fpr_facts(document),
        ("recall", percent(document["recall_estimate"])),
        ("negatives used", f"{document['n_negative_used']:,}"),
        *([] if unlabelled is None else [("labels", unlabelled)]),
        ("seen before", seen_before(n_seen)),
        ("guaranteed", guarantee_in_words(document, loaded.layout.segment)),
    ]
    print_result(document, as_json, str(path), facts)
    if not as_json and loaded.limits is not None:
        print_limits(document, loaded.layout.segment, document["delta"])


def _reader(file: DataFile, model: LoadedModel, target: str | None) -> RowReader:
    """A reader with labels, where the file has them, or --target names their column."""
    from taufpl.cli._row_reader import RowReader

    needs_labels = target is not None
    if target is None and file.is_table:
        target = _label_column(file, model)
    classes = None if target is None and file.is_table else model.classes
    return RowReader(file, model.layout, classes, target, model.layout.group, needs_labels=needs_labels)


def _label_column(file: DataFile, model: LoadedModel) -> str | None:
    """The name of the column of labels, where the table has it; one that is spelled almost so is refused."""
    names, target = read_names(file), model.layout.target
    if target is None or target in names:
        return target
    features = {column.name for column in model.layout.columns}
    for name in names:
        if _folded(name) == _folded(target) and name not in features:
            raise ValueError(
                f"{file.name}: there is no column {target!r} with the labels, but {name!r}. If it holds them, say "
                f"--target {shlex.quote(name)}; if not, give it another name."
            )
    return None


def _folded(name: str) -> str:
    """A name without spaces, in lower case."""
    return "".join(name.split()).casefold()


def _unlabelled(file: DataFile, model: LoadedModel, rows: RowBatch) -> str | None:
    """What is told where the rows have no labels."""
    if rows.labels is not None:
        return None
    lacking = "no y"
    if file.is_table:
        target = model.layout.target
        lacking = "no column of labels is named by --target" if target is None else f"no column {target!r}"
    told = f"{lacking}: all {len(rows):,} rows are taken as negatives"
    note(f"{file.name}: {told}.")
    return told


def _recalibrate(
    file: DataFile,
    model: LoadedModel,
    rows: RowBatch,
    n_seen: int | None,
    restart: bool,
    scores: dict[str, list[str]],
) -> dict[str, Any]:
    """Choose the threshold, once there are enough negatives that the model has not seen; the header to write."""
    import numpy as np

    from taufpl.cli._loaded_model import GROUPS, record_groups
    from taufpl.cli._training_file import about, check_enough
    from taufpl.inspection import TYPICAL_NEGATIVES

    is_negative = np.ones(len(rows), np.bool_) if rows.labels is None else rows.labels == 0
    unseen = f" that the model has not seen ({n_seen:,} rows are left out, which it has seen)" if n_seen else ""
    n_negative = check_enough(file, model.head, is_negative, rows.ids, unseen=unseen, restart=restart)
    with about(file):
        model.recalibrate(rows, restart, file.source)
    # What the model tells itself is told anew; what was added when it was fitted stays.
    training = {name: model.training[name] for name in (*_KEPT, TYPICAL_NEGATIVES) if name in model.training} | scores
    now = datetime.now(UTC).isoformat(timespec="seconds")
    training["recalibrated"] = {"at": now, "n_negative": n_negative}
    if rows.ids is not None:
        training[GROUPS] = record_groups(rows.ids, model.training.get(GROUPS))
    return training


def _save(model: LoadedModel, path: Path, training: dict[str, Any], rows: RowBatch, digest: str) -> None:
    """Write the model, which has seen these rows, too; one that replaces its own file finds it as it was read."""
    from taufpl._files import write_whole
    from taufpl.persistence import model_bytes

    def check() -> None:
        if path.exists() and path.samefile(model.path) and digest_of(model.path) != digest:
            raise ValueError(f"{path}: another call has written it meanwhile, and it stays so. Recalibrate it again.")

    seen = model.saved.seen
    _, data = model_bytes(model.model, training=training, seen=None if seen is None else seen.add(rows.X))
    write_whole(path, data, check)
