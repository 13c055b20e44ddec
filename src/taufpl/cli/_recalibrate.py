"""``taufpl recalibrate``: a new threshold from fresh negatives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from taufpl.cli._errors import note
from taufpl.cli._fresh import fresh_rows, seen_before
from taufpl.cli._groups import RECORD, met_before, record_groups
from taufpl.cli._options import Model, Target
from taufpl.cli._output import Json, check_output, confidence, number, percent, print_facts, print_json, working
from taufpl.cli._rows import Rows, load_rows
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import TABLES, Source, find_source
from taufpl.cli._tables import read_names
from taufpl.persistence import save_model
from taufpl.thresholding import negatives_needed

# What a header says that only the fit could know.
_KEPT = ("n_rows", "n_negative", "n_positive", "fingerprint", "layout")


def recalibrate_command(
    model: Model,
    negatives: Annotated[Path, typer.Argument(metavar="NEGATIVES", help="Rows that the model has never seen.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The model file to write. [default: MODEL is replaced]")
    ] = None,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Choose the threshold anew from fresh negatives, with a guarantee; the scorer stays as it is.

    Where the file has the column with the labels, its negatives choose and its positives tell the recall. Without that
    column all rows count as negatives. Where the model was fitted with --group, the file must have that column, too.
    """
    source = find_source(negatives)
    path = output or model
    check_output(path, negatives)
    saved = open_model(model)
    labelled = _target(source, target, saved.layout.target)
    with working(f"reading {negatives}"):
        classes = saved.classes if labelled is not None else None
        rows = load_rows(source, saved.layout, classes, labelled, id_column=saved.layout.group)
        before = saved.head.threshold_
        known = met_before(saved, rows.ids)
        if known.any():
            note(f"{source.name}: {known.sum():,} rows belong to groups that the model has met, and are left out.")
            rows = rows.take(~known)
        fresh, n_seen = fresh_rows(source, saved, rows)
        _recalibrate(source, saved, fresh, n_seen, path)
    found = saved.head.evidence_
    evidence = min(found, key=lambda each: each.tau) if isinstance(found, tuple) else found
    document = {
        "output": str(path),
        "tau": evidence.tau,
        "delta": saved.delta,
        "threshold_before": before,
        "threshold": saved.head.threshold_,
        "fpr_estimate": evidence.fpr_estimate,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall_estimate": evidence.tpr_estimate,
        "n_negative_used": evidence.n_negative,
        "n_seen_before": n_seen,
        "guaranteed": evidence.guaranteed,
        "caveats": list(evidence.caveats),
    }
    if as_json:
        print_json(document)
    else:
        _print(document)


def _recalibrate(source: Source, saved: Saved, rows: Rows, n_seen: int | None, path: Path) -> None:
    """Choose the threshold and write the model, once there are enough negatives that it has not seen."""
    is_negative = np.ones(len(rows), np.bool_) if rows.labels is None else rows.labels == 0
    n_negative = int(is_negative.sum()) if rows.ids is None else np.unique(rows.ids[is_negative]).size
    needed = negatives_needed(saved.tau, saved.delta)
    if n_negative < needed:
        what = "negatives" if rows.ids is None else "groups with negatives"
        unseen = f" that the model has not seen ({n_seen:,} rows are left out, which it has seen)" if n_seen else ""
        raise ValueError(
            f"{source.name}: {n_negative:,} {what}{unseen} are too few for the guarantee at tau {saved.tau:g} and "
            f"delta {saved.delta:g}; {needed:,} are needed."
        )
    saved.recalibrate(rows)
    seen = None if saved.seen is None else saved.seen.add(rows.X)
    # What the model tells itself is told anew; what was added when it was fitted stays.
    kept = {name: saved.header.training[name] for name in _KEPT if name in saved.header.training}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    training = {**kept, "recalibrated": {"at": now, "n_negative": n_negative}}
    if rows.ids is not None:
        training[RECORD] = record_groups(rows.ids, saved.header.training.get(RECORD))
    save_model(saved.model, path, training=training, seen=seen)


def _print(document: dict[str, Any]) -> None:
    print_facts(
        document["output"],
        [
            ("threshold", f"{number(document['threshold_before'])} before, {number(document['threshold'])} now"),
            ("FPR estimate", percent(document["fpr_estimate"])),
            ("FPR upper bound", f"{percent(document['fpr_upper_bound'])} at {confidence(document['delta'])}"),
            ("recall", percent(document["recall_estimate"])),
            ("negatives used", f"{document['n_negative_used']:,}"),
            ("seen before", seen_before(document["n_seen_before"])),
            ("guaranteed", "yes" if document["guaranteed"] else f"no: {'; '.join(document['caveats'])}"),
        ],
    )


def _target(source: Source, given: str | None, known: str | None) -> str | None:
    """The column with the labels, if the file has one; of a file without names, y if that holds both classes."""
    if source.format not in TABLES:
        return given
    names = read_names(source)
    return given if given is not None else known if known in names else None
