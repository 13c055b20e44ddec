"""``taufpl evaluate``: whether labelled rows bear the tolerance out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import typer

from taufpl.cli._errors import BROKEN, note
from taufpl.cli._fresh import Comparison, left_out
from taufpl.cli._options import ChunkRows, Data, Model, OtherDelta, Target
from taufpl.cli._output import Json, number, percent, print_facts, print_json, working
from taufpl.cli._rows import CHUNK_ROWS, Rows, stream_rows
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import find_source
from taufpl.cli._unseen import note_unseen, unseen_counter
from taufpl.thresholding import (
    fpr_upper_bound,
    negatives_to_settle,
    share_interval,
    share_lower_bound,
    tolerance_verdict,
)


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

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: count + getattr(other, name) for name, count in asdict(self).items()})


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
    unseen, repeated, comparison = Counts(), Counts(), Comparison(source, saved)
    unseen_values = unseen_counter(saved)
    wanted = saved.target_in(source, target)
    with working(f"reading {data}") as tell:
        for rows in stream_rows(source, saved.layout, classes=saved.classes, target=wanted, chunk=chunk_rows):
            hit, scores = comparison.hits(rows), saved.scores(rows)
            unseen.add(scores[~hit], rows.take(~hit))
            repeated.add(scores[hit], rows.take(hit))
            unseen_values.update(rows.X)
            tell(f"{rows.start + len(rows):,} rows")
    found = comparison.result()
    n_seen, only_unseen = None if found is None else found.n_seen, left_out(found) and unseen.n_negative > 0
    counts = unseen if only_unseen else unseen + repeated
    if counts.n_unlabelled:
        note(f"{source.name}: {counts.n_unlabelled:,} rows without a label are left out.")
    if not counts.n_negative:
        raise ValueError(f"{source.name}: there are no negatives, {saved.classes[0]!r}, to measure FPR on.")
    known = saved.header.training
    same_size = (counts.n_negative, counts.n_positive) == (known.get("n_negative"), known.get("n_positive"))
    if n_seen is None and same_size:
        note(f"{source.name}: has as many rows of each class as the training data; if it is that, the rates flatter.")
    note_unseen(source.name, unseen_values)
    document = {
        **measure(saved, counts, saved.delta if delta is None else delta),
        "n_seen_before": n_seen,
        "unseen": unseen_values.record(),
    }
    flattered = document["verdict"] != "broken" and bool(n_seen) and not only_unseen
    if flattered:
        document["verdict"] = "open"
    verdict = "open: the model has seen these rows, or some of them" if flattered else _verdict(document)
    if as_json:
        print_json(document)
    else:
        _print(document, str(data), verdict)
    if document["verdict"] == "broken":
        raise typer.Exit(BROKEN)


def measure(saved: Saved, counts: Counts, delta: float) -> dict[str, Any]:
    """Rates, bounds and a verdict."""
    n, tau = counts.n_negative, saved.tau
    fpr = counts.false_positives / n
    verdict = tolerance_verdict(counts.false_positives, n, tau, delta)
    recall = counts.true_positives / counts.n_positive if counts.n_positive else None
    low, high = (None, None) if recall is None else share_interval(counts.true_positives, counts.n_positive, delta)
    return {
        "tau": tau,
        "delta": delta,
        "n_negative": n,
        "n_positive": counts.n_positive,
        "n_false_positive": counts.false_positives,
        "n_true_positive": counts.true_positives,
        "fpr": fpr,
        "fpr_lower_bound": share_lower_bound(counts.false_positives, n, delta),
        "fpr_upper_bound": fpr_upper_bound(counts.false_positives, n, delta),
        "recall": recall,
        "recall_low": low,
        "recall_high": high,
        "np_score": None if recall is None else max(fpr, tau) / tau - recall,
        "precision": _precision(counts),
        "verdict": verdict,
        "n_negative_to_settle": negatives_to_settle(counts.false_positives, n, tau, delta)
        if verdict == "open"
        else None,
        "promised_upper_bound": float(np.max(saved.head.fpr_upper_bound_)),
    }


def _precision(counts: Counts) -> float | None:
    alarms = counts.false_positives + counts.true_positives
    return counts.true_positives / alarms if alarms and counts.n_positive else None


def _print(document: dict[str, Any], title: str, verdict: str) -> None:
    sure, n_seen = f"{100 * (1 - document['delta']):.12g}% confidence", document["n_seen_before"]
    print_facts(
        title,
        [
            ("rows", f"{document['n_negative']:,} negative, {document['n_positive']:,} positive"),
            ("seen before", "cannot be told" if n_seen is None else f"{n_seen:,} rows"),
            ("tolerance", percent(document["tau"])),
            ("FPR", f"{percent(document['fpr'])} ({document['n_false_positive']:,} false alarms)"),
            ("FPR bounds", f"at least {percent(document['fpr_lower_bound'])}, at most "
                           f"{percent(document['fpr_upper_bound'])}, each at {sure}"),
            ("recall", _recall(document, sure)),
            ("NP-score", number(document["np_score"])),
            ("precision", percent(document["precision"])),
            ("verdict", verdict),
        ],
    )  # fmt: skip


def _recall(document: dict[str, Any], sure: str) -> str:
    if document["recall"] is None:
        return percent(None)
    return (
        f"{percent(document['recall'])}, between {percent(document['recall_low'])} and "
        f"{percent(document['recall_high'])} at {sure}"
    )


def _verdict(document: dict[str, Any]) -> str:
    """The verdict on the tolerance in a word, and why."""
    if document["verdict"] == "kept":
        return "kept: the upper bound on FPR is within the tolerance"
    if document["verdict"] == "broken":
        return "broken: even the lower bound on FPR is above the tolerance"
    needed = document["n_negative_to_settle"]
    if needed is None:
        return "open: FPR is as good as equal to the tolerance, and no number of negatives would tell"
    return f"open: {document['n_negative']:,} negatives cannot tell; about {needed:,} would, at this FPR"
