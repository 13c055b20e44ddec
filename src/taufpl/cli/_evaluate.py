"""``taufpl evaluate``: whether labelled rows bear the tolerance out."""

from __future__ import annotations

from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from taufpl.cli._by_level import LevelTally, counted_levels, in_words, levels_record, print_levels
from taufpl.cli._data_file import DataFile, find_data_file
from taufpl.cli._errors import BROKEN, note
from taufpl.cli._loaded_model import LoadedModel, open_model
from taufpl.cli._options import BaseRateRange, By, ChunkRows, Data, Json, Model, OtherDelta, ShareRange, Target
from taufpl.cli._output import confidence, np_score_fact, np_score_of, percent, print_result, working
from taufpl.cli._row_reader import CHUNK_ROWS, RowReader
from taufpl.cli._seen import SeenCounter, counting_rows, group_column, in_known_group, seen_before
from taufpl.cli._unseen import Unseen
from taufpl.estimators import ScoreScreen
from taufpl.planning import precision_at, precision_lower_bound
from taufpl.thresholding import (
    fpr_upper_bound,
    negatives_to_settle,
    share_interval,
    share_lower_bound,
    tolerance_verdict,
)


def evaluate_command(
    model: Model,
    data: Data,
    target: Target = None,
    delta: OtherDelta = None,
    base_rate: BaseRateRange = None,
    by: By = None,
    chunk_rows: ChunkRows = CHUNK_ROWS,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it has not seen.

    FPR, the false-alarm rate, is the share of negatives that the model flags; recall is that of positives. Exit code 3
    says that the tolerance is provably broken: the lower bound on FPR, at confidence 1 - delta, is above it. With --by
    the rates of each level of a column follow, with bounds that hold for all levels together at confidence 1 - delta;
    then exit code 3 says that the tolerance is provably broken over all rows or in a level.
    """
    file, loaded = find_data_file(data), open_model(model)
    by = by or loaded.layout.segment
    reader = loaded.labelled_reader(file, target, group_column(file, loaded), by)
    seen, unseen = SeenCounter(file, loaded), Unseen.by(loaded)
    rows_by, n_known = _count(loaded, reader, seen, unseen, chunk_rows)
    found, tally = seen.note(), rows_by.whole
    only_fresh = ((found.n_seen and found.separable) or n_known > 0) and tally[0, :, 0].sum() > 0
    tally = tally[0] if only_fresh else tally.sum(axis=0)
    may_be_training = _check(file, loaded, tally, found.n_seen)
    unseen.note(file)
    delta = loaded.delta if delta is None else delta
    document = {
        **_measure(loaded, tally, delta),
        **_precision(tally, base_rate, delta),
        "n_seen_before": found.n_seen,
        "n_known_group": n_known,
        **unseen.record(),
    }
    why, may_be_kept = _verdict(document), not (may_be_training or ((found.n_seen or n_known) and not only_fresh))
    if document["verdict"] != "broken" and not may_be_kept:
        document["verdict"], why = "open", "open: the model has seen these rows, or some of them"
    facts = _facts(document, why)
    if by is not None:
        rates = rows_by.rates(bool(only_fresh), loaded.tolerance_of(by), delta)
        verdicts = ["open" if each.verdict == "kept" and not may_be_kept else each.verdict for each in rates]
        document["by"] = levels_record(by, rates, verdicts, delta)
        facts.append((f"by {by}", _by_in_words(document["by"])))
    _end(document, as_json, str(data), facts)


def _count(
    model: LoadedModel, reader: RowReader, seen: SeenCounter, unseen: Unseen, chunk_rows: int
) -> tuple[LevelTally, int]:
    """Count the rows of a file, one of each group, and those of known groups."""
    tally, counted, n_known = LevelTally(), set[tuple[str, int]](), 0
    with working(f"reading {reader.file.name}") as tell:
        for rows in reader.batches(chunk_rows):
            assert rows.labels is not None
            known, counting = in_known_group(model, rows), counting_rows(rows, counted)
            is_seen, is_flagged = seen.hits(rows) | known, model.scores(rows) > 0
            levels = None if rows.levels is None else rows.levels[counting]
            tally.add(levels, is_seen[counting], is_flagged[counting], rows.labels[counting])
            n_known += int(known.sum())
            unseen.update(rows)
            tell(f"{rows.start + len(rows):,} rows")
    return tally, n_known


def _end(document: dict[str, Any], as_json: bool, title: str, facts: list[tuple[str, str]]) -> None:
    """Print what was found, and exit by it."""
    print_result(document, as_json, title, facts)
    levels = document.get("by", {}).get("levels", [])
    if levels and not as_json:
        print_levels(document["by"])
    if "broken" in (document["verdict"], *(each["verdict"] for each in levels)):
        raise typer.Exit(BROKEN)


def _by_in_words(record: dict[str, Any]) -> str:
    """In which levels the tolerance is provably broken."""
    levels = record["levels"]
    broken = [each["level"] for each in levels if each["verdict"] == "broken"]
    if broken:
        return f"broken in {len(broken)} of {counted_levels(len(levels))}: {in_words(broken)}"
    n_kept = sum(each["verdict"] == "kept" for each in levels)
    settled = f"kept in {n_kept} of {counted_levels(len(levels))}"
    return f"{settled}, open in the others" if n_kept < len(levels) else settled


def _check(file: DataFile, model: LoadedModel, tally: NDArray[np.int64], n_seen: int | None) -> bool:
    """Refuse rows on which nothing can be measured; say whether they may be the training rows, and nothing tells."""
    n_negative, n_positive, n_unlabelled = tally.sum(axis=0).tolist()
    if n_unlabelled:
        note(f"{file.name}: {n_unlabelled:,} rows without a label are left out.")
    if not n_negative:
        raise ValueError(f"{file.name}: there are no negatives, {model.classes[0]!r}, to measure FPR on.")
    known = model.training
    same_size = (n_negative, n_positive) == (known.get("n_negative"), known.get("n_positive"))
    may_be_training = n_seen is None and same_size and _flags_as_in_fit(model, tally)
    if may_be_training:
        note(f"{file.name}: has as many rows of each class as the training data; if it is that, the rates flatter.")
    return may_be_training


def _flags_as_in_fit(model: LoadedModel, tally: NDArray[np.int64]) -> bool:
    """Whether as many rows are flagged as when the threshold was chosen; that is told of scores without groups alone.

    All rows of their fit chose the threshold, so that the very rows have the very counts.
    """
    found = model.head.evidence_
    if not isinstance(model.head, ScoreScreen) or model.layout.group is not None or isinstance(found, tuple):
        return True
    counts: list[int] = tally[1, :2].tolist()
    return counts == [found.n_false_positive, found.n_true_positive]


def _measure(model: LoadedModel, tally: NDArray[np.int64], delta: float) -> dict[str, Any]:
    """Rates, bounds and a verdict, from numbers of rows by flagged or not, and by label."""
    (n_false, n_true, _), (n, n_positive, _) = tally[1].tolist(), tally.sum(axis=0).tolist()
    tau, fpr = model.tau, n_false / n
    verdict = tolerance_verdict(n_false, n, tau, delta)
    recall = n_true / n_positive if n_positive else None
    low, high = (None, None) if recall is None else share_interval(n_true, n_positive, delta)
    return {
        "tau": tau,
        "delta": delta,
        "n_negative": n,
        "n_positive": n_positive,
        "n_false_positive": n_false,
        "n_true_positive": n_true,
        "fpr": fpr,
        "fpr_lower_bound": share_lower_bound(n_false, n, delta),
        "fpr_upper_bound": fpr_upper_bound(n_false, n, delta),
        "recall": recall,
        "recall_low": low,
        "recall_high": high,
        "np_score": np_score_of(fpr, recall, tau),
        "precision": n_true / (n_false + n_true) if n_positive and n_false + n_true else None,
        "verdict": verdict,
        "n_negative_to_settle": negatives_to_settle(n_false, n, tau, delta) if verdict == "open" else None,
        "promised_upper_bound": float(np.max(model.head.fpr_upper_bound_)),
    }


def _precision(tally: NDArray[np.int64], base_rate: ShareRange | None, delta: float) -> dict[str, Any]:
    """Precision at both ends of the base rate, and its lower bound over the range."""
    (n_false, n_true, _), (n, n_positive, _) = tally[1].tolist(), tally.sum(axis=0).tolist()
    if base_rate is None:
        return {"base_rate": None, "precision_at_base_rate": None, "precision_lower_bound": None}
    if not n_positive:
        raise ValueError("--base-rate is for precision, and there are no positives to measure the recall on.")
    return {
        "base_rate": base_rate,
        "precision_at_base_rate": [precision_at(each, n_true / n_positive, n_false / n) for each in base_rate],
        "precision_lower_bound": precision_lower_bound(n_false, n, n_true, n_positive, base_rate, delta),
    }


def _precision_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Precision in the traffic, where its base rate is known."""
    if document["base_rate"] is None:
        return []
    base_rate, measured = (
        percent(low) if low == high else f"{percent(low)} to {percent(high)}"
        for low, high in (document["base_rate"], document["precision_at_base_rate"])
    )
    bound = f"at least {percent(document['precision_lower_bound'])} at {confidence(document['delta'])}"
    return [(f"precision, base rate {base_rate}", f"{measured}; {bound}")]


def _facts(document: dict[str, Any], verdict: str) -> list[tuple[str, str]]:
    sure, recall = confidence(document["delta"]), percent(document["recall"])
    if document["recall"] is not None:
        recall += f", between {percent(document['recall_low'])} and {percent(document['recall_high'])} at {sure}"
    return [
        ("rows", f"{document['n_negative']:,} negative, {document['n_positive']:,} positive"),
        ("seen before", seen_before(document["n_seen_before"])),
        ("tolerance", percent(document["tau"])),
        ("false-alarm rate (FPR)", f"{percent(document['fpr'])} ({document['n_false_positive']:,} false alarms)"),
        ("FPR bounds", f"at least {percent(document['fpr_lower_bound'])}, at most "
                       f"{percent(document['fpr_upper_bound'])}, each at {sure}"),
        ("recall", recall),
        np_score_fact(document["np_score"]),
        ("precision", percent(document["precision"])),
        *_precision_facts(document),
        ("verdict", verdict),
    ]  # fmt: skip


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
