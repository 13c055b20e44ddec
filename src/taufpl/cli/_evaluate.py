"""``taufpl evaluate``: whether labelled rows bear the tolerance out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import typer

from taufpl.cli._errors import BROKEN, note
from taufpl.cli._options import ChunkRows, Data, Model, OtherDelta, Target
from taufpl.cli._output import Json, number, percent, print_facts, print_json, working
from taufpl.cli._rows import CHUNK_ROWS, Rows, stream_rows
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import find_source
from taufpl.metrics import fpr_upper_bound

_VERDICTS = {
    "kept": "kept: the upper bound is within the tolerance",
    "broken": "BROKEN: even the lower bound is above the tolerance",
    "open": "cannot be told from so few negatives",
}


@dataclass(slots=True)
class Counts:
    """Rows and alarms of both classes."""

    n_negative: int = 0
    n_positive: int = 0
    false_positives: int = 0
    true_positives: int = 0
    n_unlabelled: int = 0

    def add(self, scores: Any, rows: Rows) -> None:
        """Count some rows."""
        assert rows.labels is not None
        flagged, negative, positive = scores > 0, rows.labels == 0, rows.labels == 1
        self.n_negative += int(negative.sum())
        self.n_positive += int(positive.sum())
        self.false_positives += int((flagged & negative).sum())
        self.true_positives += int((flagged & positive).sum())
        self.n_unlabelled += int((rows.labels < 0).sum())


def evaluate_command(
    model: Model,
    data: Data,
    target: Target = None,
    delta: OtherDelta = None,
    chunk_rows: ChunkRows = CHUNK_ROWS,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it has not seen.

    Exit code 3 says that the tolerance is provably broken: the lower bound on FPR, at confidence 1 - delta, is above
    it.
    """
    source = find_source(data)
    saved = open_model(model)
    counts = Counts()
    wanted = saved.target_in(source, target)
    with working(f"reading {data}") as tell:
        for rows in stream_rows(source, saved.layout, classes=saved.classes, target=wanted, chunk=chunk_rows):
            counts.add(saved.scores(rows), rows)
            tell(f"{rows.start + len(rows):,} rows")
    if counts.n_unlabelled:
        note(f"{source.name}: {counts.n_unlabelled:,} rows without a label are left out.")
    if not counts.n_negative:
        raise ValueError(f"{source.name}: there are no negatives, {saved.classes[0]!r}, to measure FPR on.")
    known = saved.header.training
    if (counts.n_negative, counts.n_positive) == (known.get("n_negative"), known.get("n_positive")):
        note(f"{source.name}: has as many rows of each class as the training data; if it is that, the rates flatter.")
    document = measure(saved, counts, saved.delta if delta is None else delta)
    if as_json:
        print_json(document)
    else:
        _print(document, str(data))
    if document["verdict"] == "broken":
        raise typer.Exit(BROKEN)


def measure(saved: Saved, counts: Counts, delta: float) -> dict[str, Any]:
    """Rates, bounds and a verdict."""
    n, tau = counts.n_negative, saved.tau
    fpr = counts.false_positives / n
    upper = float(fpr_upper_bound(counts.false_positives, n, delta))
    # The lower bound of a share is one minus the upper bound of what is left.
    lower = 1.0 - float(fpr_upper_bound(n - counts.false_positives, n, delta))
    recall = counts.true_positives / counts.n_positive if counts.n_positive else None
    return {
        "tau": tau,
        "delta": delta,
        "n_negative": n,
        "n_positive": counts.n_positive,
        "n_false_positive": counts.false_positives,
        "n_true_positive": counts.true_positives,
        "fpr": fpr,
        "fpr_lower_bound": lower,
        "fpr_upper_bound": upper,
        "recall": recall,
        "np_score": None if recall is None else max(fpr, tau) / tau - recall,
        "precision": _precision(counts),
        "verdict": "kept" if upper <= tau else "broken" if lower > tau else "open",
        "promised_upper_bound": float(np.max(saved.head.fpr_upper_bound_)),
    }


def _precision(counts: Counts) -> float | None:
    alarms = counts.false_positives + counts.true_positives
    return counts.true_positives / alarms if alarms and counts.n_positive else None


def _print(document: dict[str, Any], title: str) -> None:
    sure = f"{1 - document['delta']:.0%} confidence"
    print_facts(
        title,
        [
            ("rows", f"{document['n_negative']:,} negative, {document['n_positive']:,} positive"),
            ("tolerance", percent(document["tau"])),
            ("FPR", f"{percent(document['fpr'])} ({document['n_false_positive']:,} false alarms)"),
            ("FPR bounds", f"at least {percent(document['fpr_lower_bound'])}, at most "
                           f"{percent(document['fpr_upper_bound'])}, each at {sure}"),
            ("recall", percent(document["recall"])),
            ("NP-score", number(document["np_score"])),
            ("precision", percent(document["precision"])),
            ("tolerance", _VERDICTS[document["verdict"]]),
        ],
    )  # fmt: skip
