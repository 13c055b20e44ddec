"""``taufpl evaluate``: whether labelled rows bear the tolerance out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from taufpl.cli._errors import BROKEN, note
from taufpl.cli._fresh import Comparison, left_out, seen_before
from taufpl.cli._groups import GroupCounter
from taufpl.cli._options import ChunkRows, Data, Model, OtherDelta, Target
from taufpl.cli._output import Json, confidence, number, percent, print_facts, print_json, working
from taufpl.cli._rows import CHUNK_ROWS, stream_rows
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import Source, find_source
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

    def add(self, scores: NDArray[np.float64], labels: NDArray[Any]) -> None:
        """Count some rows, by their scores and labels (0, 1, or less than 0 where there is none)."""
        flagged, negative, positive = scores > 0, labels == 0, labels == 1
        self.n_negative += int(negative.sum())
        self.n_positive += int(positive.sum())
        self.false_positives += int((flagged & negative).sum())
        self.true_positives += int((flagged & positive).sum())
        self.n_unlabelled += int((labels < 0).sum())

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
    fresh, met, comparison = Counts(), Counts(), Comparison(source, saved)
    unseen_values, groups = unseen_counter(saved), GroupCounter(source, saved)
    options: dict[str, Any] = {"target": saved.target_in(source, target), "id_column": groups.column}
    with working(f"reading {data}") as tell:
        for rows in stream_rows(source, saved.layout, classes=saved.classes, chunk=chunk_rows, **options):
            assert rows.labels is not None
            hit, scores, counting = comparison.hits(rows) | groups.known(rows), saved.scores(rows), groups.counts(rows)
            for counts, chosen in ((fresh, counting & ~hit), (met, counting & hit)):
                counts.add(scores[chosen], rows.labels[chosen])
            unseen_values.update(rows.X)
            tell(f"{rows.start + len(rows):,} rows")
    found = comparison.judge_and_note()
    n_seen = None if found is None else found.n_seen
    only_fresh = (left_out(found) or groups.n_known > 0) and fresh.n_negative > 0
    counts = fresh if only_fresh else fresh + met
    may_be_known = _check(source, saved, counts, n_seen)
    note_unseen(source.name, unseen_values)
    document = {
        **measure(saved, counts, saved.delta if delta is None else delta),
        "n_seen_before": n_seen,
        "n_known_group": groups.n_known,
        "unseen": unseen_values.record(),
    }
    flattered = document["verdict"] != "broken" and (
        may_be_known or (bool(n_seen or groups.n_known) and not only_fresh)
    )
    if flattered:
        document["verdict"] = "open"
    if as_json:
        print_json(document)
    else:
        why = "open: the model has seen these rows, or some of them" if flattered else _verdict(document)
        _print(document, str(data), why)
    if document["verdict"] == "broken":
        raise typer.Exit(BROKEN)


def _check(source: Source, saved: Saved, counts: Counts, n_seen: int | None) -> bool:
    """Refuse rows on which nothing can be measured; say whether they may be the training rows, and nothing tells."""
    if counts.n_unlabelled:
        note(f"{source.name}: {counts.n_unlabelled:,} rows without a label are left out.")
    if not counts.n_negative:
        raise ValueError(f"{source.name}: there are no negatives, {saved.classes[0]!r}, to measure FPR on.")
    known = saved.header.training
    same_size = (counts.n_negative, counts.n_positive) == (known.get("n_negative"), known.get("n_positive"))
    if n_seen is None and same_size:
        note(f"{source.name}: has as many rows of each class as the training data; if it is that, the rates flatter.")
    return n_seen is None and same_size


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
    sure = confidence(document["delta"])
    print_facts(
        title,
        [
            ("rows", f"{document['n_negative']:,} negative, {document['n_positive']:,} positive"),
            ("seen before", seen_before(document["n_seen_before"])),
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
