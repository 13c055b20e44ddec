"""``taufpl recalibrate``: a new threshold from fresh negatives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from taufpl.cli._budget import BUDGET
from taufpl.cli._data_file import DataFile, find_data_file
from taufpl.cli._enough import about, check_enough
from taufpl.cli._errors import note
from taufpl.cli._limits import guarantee_in_words, limits_record, print_limits
from taufpl.cli._loaded_model import LoadedModel, open_model
from taufpl.cli._options import Json, Model, Target
from taufpl.cli._output import check_output, evidence_record, fpr_facts, number, percent, print_result, working
from taufpl.cli._row_reader import RowBatch, RowReader
from taufpl.cli._seen import GROUPS, fresh_rows, in_known_group, record_groups, scores_record, seen_before
from taufpl.cli._tables import read_names
from taufpl.inspection import TYPICAL_NEGATIVES
from taufpl.persistence import save_model

# What a header says that only the fit could know.
_KEPT = ("n_rows", "n_negative", "n_positive", "fingerprint", "layout", BUDGET, TYPICAL_NEGATIVES)


def recalibrate_command(
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
    column all rows count as negatives. Where the model was fitted with --group, the file must have that column, too.
    """
    file = find_data_file(negatives)
    path = output or model
    check_output(path, negatives)
    loaded = open_model(model)
    before = loaded.head.threshold_
    with working(f"reading {negatives}"):
        rows = _reader(file, loaded, target).load()
        scores = scores_record(file, loaded, rows)
        known = in_known_group(loaded, rows)
        if known.any():
            note(f"{file.name}: {known.sum():,} rows belong to groups that the model has seen, and are left out.")
            rows = rows.take(~known)
        fresh, n_seen = fresh_rows(file, loaded, rows)
        _recalibrate(file, loaded, fresh, n_seen, path, restart, scores)
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
        **limits_record(loaded.head),
    }
    facts = [
        ("threshold", f"{number(before)} before, {number(document['threshold'])} now"),
        *fpr_facts(document),
        ("recall", percent(document["recall_estimate"])),
        ("negatives used", f"{document['n_negative_used']:,}"),
        ("seen before", seen_before(n_seen)),
        ("guaranteed", guarantee_in_words(document, loaded.layout.segment)),
    ]
    print_result(document, as_json, str(path), facts)
    if not as_json and loaded.limits is not None:
        print_limits(document, loaded.layout.segment, document["delta"])


def _reader(file: DataFile, model: LoadedModel, target: str | None) -> RowReader:
    """A reader with labels, where the file has their column or one is named; of a matrix, where --target is given."""
    if target is None and file.is_table and model.layout.target in read_names(file):
        target = model.layout.target
    classes = None if target is None else model.classes
    return RowReader(file, model.layout, classes, target, model.layout.group)


def _recalibrate(
    file: DataFile,
    model: LoadedModel,
    rows: RowBatch,
    n_seen: int | None,
    path: Path,
    restart: bool,
    scores: dict[str, list[str]],
) -> None:
    """Choose the threshold and write the model, once there are enough negatives that it has not seen."""
    is_negative = np.ones(len(rows), np.bool_) if rows.labels is None else rows.labels == 0
    unseen = f" that the model has not seen ({n_seen:,} rows are left out, which it has seen)" if n_seen else ""
    n_negative = check_enough(file, model.head, is_negative, rows.ids, unseen=unseen, restart=restart)
    with about(file):
        model.recalibrate(rows, restart, file.source)
    # What the model tells itself is told anew; what was added when it was fitted stays.
    training = {name: model.training[name] for name in _KEPT if name in model.training} | scores
    now = datetime.now(UTC).isoformat(timespec="seconds")
    training["recalibrated"] = {"at": now, "n_negative": n_negative}
    if rows.ids is not None:
        training[GROUPS] = record_groups(rows.ids, model.training.get(GROUPS))
    seen = model.saved.seen
    save_model(model.model, path, training=training, seen=None if seen is None else seen.add(rows.X))
