"""``taufpl fit``."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from taufpl._row_hashes import telling_hash
from taufpl.cli._budget import BUDGET, BudgetRequest, budget_facts, budget_record, print_budgets
from taufpl.cli._data_file import find_data_file
from taufpl.cli._enough import about
from taufpl.cli._errors import CommandLineError, note, with_options
from taufpl.cli._layout import Layout
from taufpl.cli._leaderboard import leaderboard_record, print_leaderboard
from taufpl.cli._limits import guarantee_in_words, limits_record, print_limits
from taufpl.cli._options import SegmentTolerance
from taufpl.cli._output import (
    check_output,
    confidence,
    evidence_record,
    fpr_facts,
    np_score_fact,
    np_score_of,
    number,
    percent,
    print_result,
    print_rows,
    progress_bar,
    working,
)
from taufpl.cli._own_scores import threshold_text
from taufpl.cli._pipelines import FitOptions, FitRows, effort_for, fit
from taufpl.cli._reasons import training_negatives, typical_record
from taufpl.cli._seen import GROUPS, NEGATIVES, record_groups
from taufpl.cli._training import plan_training, read_source
from taufpl.estimators import last_step, watching
from taufpl.estimators.strategies import STRATEGIES, at_other_tolerances
from taufpl.exceptions import UnseenValuesWarning
from taufpl.persistence import SeenRows, fingerprint, save_model
from taufpl.planning import AlarmBudget

# Entries of the header of the model file that the document repeats.
_OF_HEADER = (
    "threshold_strategy", "dual_gap", "kernel_gap", "reg",
    "n_rows", "n_negative", "n_positive", "negative_label", "positive_label",
)  # fmt: skip
_USUAL_TAU = 0.01
# More rows than this take a kernel minutes.
_MANY_FOR_KERNEL = 10_000
# More columns than that are counted, not listed.
_MOST_LISTED = 40


def fit_command(
    data: Path,
    output: Path,
    as_json: bool,
    target: str | None,
    positive: str | None,
    drop: list[str] | None,
    group: str | None,
    time_column: str | None,
    tau: float | None,
    delta: float,
    threshold: str,
    holdout: float | None,
    looks: str,
    model: str,
    effort: str | None,
    reg: str,
    seed: int,
    jobs: int | None,
    segment: str | None,
    tau_for: list[SegmentTolerance] | None,
    score: str | None,
    lower_is_positive: bool,
    alarms_per_day: int | None,
    volume: int | None,
    base_rate: float | None,
) -> None:
    """Run ``taufpl fit``."""
    if score is not None:
        model, threshold = "score", "np"
    check_output(output, data)
    if time_column is not None and threshold != "auto" and not STRATEGIES[threshold].holds_out:
        able = " or ".join(["auto", *(name for name, strategy in STRATEGIES.items() if strategy.holds_out)])
        raise CommandLineError(
            f"--time is for --threshold {able}; the folds of {threshold} mix earlier and later rows."
        )
    options = FitOptions(
        target=target, positive=positive, drop=tuple(drop or ()), group=group, time=time_column,
        score=score, lower_is_positive=lower_is_positive, segment=segment, tau_for=tuple(tau_for or ()),
        tau=_USUAL_TAU if tau is None else tau, delta=delta, looks=looks, threshold=threshold, model=model,
        effort=effort_for(effort, [model]), reg=reg,
        holdout="auto" if holdout is None else holdout, seed=seed, jobs=jobs,
    )  # fmt: skip
    budget = None
    if alarms_per_day is not None and volume is not None:
        budget = BudgetRequest(alarms_per_day, volume, base_rate)
    document, layout = _fit_file(data, output, options, budget)
    print_result(document, as_json, f"{output}: {model}", _facts(document))
    if not as_json:
        if segment is not None:
            print_limits(document, segment, document["delta"])
        print_budgets(document)
        print_leaderboard(document)
        if score is None:
            _print_columns(layout)


def _fit_file(
    data: Path, output: Path, options: FitOptions, budget: BudgetRequest | None = None
) -> tuple[dict[str, Any], Layout]:
    """Read, fit, write; a document about it, and the layout."""
    began = time.perf_counter()
    file = find_data_file(data)
    with working(f"reading {file.name}"):
        source, budgets = read_source(file, options), list[AlarmBudget]()
        if budget is not None:
            options, budgets = budget.settle(options, source.y, source.positive)
        rows = plan_training(source, options)
        # Before the fit, which overwrites the rows.
        record, seen = _record(rows), None if options.score else SeenRows(rows.X)
        if options.score:
            told = telling_hash(rows.X[rows.y != rows.positive])
            record[NEGATIVES] = [] if told is None else [told]
        if budgets:
            record[BUDGET] = asdict(budgets[0])
        negatives = training_negatives(rows, options.seed)
    if options.model == "kernel" and len(rows.y) > _MANY_FOR_KERNEL:
        note(
            "--model kernel solves about a hundred rankings to choose its parameters, which takes minutes on "
            f"{len(rows.y):,} rows. --model linear takes seconds."
        )
    read = time.perf_counter()
    with about(file), at_other_tolerances([each.tau for each in budgets]) as others:
        fitted, notes = _fit_noting(rows, options)
    made = time.perf_counter()
    head = last_step(fitted)
    head.threshold_history_ = tuple(replace(each, source=file.source) for each in head.threshold_history_)
    with working(f"writing {output}"):
        header = save_model(fitted, output, training=record | typical_record(fitted, negatives), seen=seen)
    written = time.perf_counter()
    document = {
        "output": str(output),
        **{name: header.training.get(name) for name in _OF_HEADER},
        **_found(head, options),
        **budget_record(budgets, others.evidence),
        "columns": record["layout"]["columns"],
        "n_columns": rows.layout.n_columns or len(rows.layout.used),
        "notes": [*notes, *_dates(rows)],
        "seconds": {"reading": read - began, "fitting": made - read, "writing": written - made, "all": written - began},
        "created": header.created,
    }
    return document, rows.layout


def _found(head: Any, options: FitOptions) -> dict[str, Any]:
    """What the fit has found, and the options that it is read by."""
    evidence = head.evidence_
    return {
        **evidence_record(evidence),
        "recall_interval": evidence.tpr_interval,
        "np_score": np_score_of(evidence.fpr_estimate, evidence.tpr_estimate, evidence.tau),
        "threshold": head.threshold_,
        "looks": options.looks,
        "model_kind": options.model,
        "score": options.score,
        "lower_is_positive": options.lower_is_positive,
        **leaderboard_record(head, options),
        **limits_record(head),
        "segment": options.segment,
        "group": options.group,
        "time": options.time,
    }


def _record(rows: FitRows) -> dict[str, Any]:
    """What the header of the model file says about the training rows."""
    n_positive = int((rows.y == rows.positive).sum())
    groups = {} if rows.groups is None else {GROUPS: record_groups(rows.groups)}
    return {
        **groups,
        "n_rows": len(rows.y),
        "n_negative": len(rows.y) - n_positive,
        "n_positive": n_positive,
        "fingerprint": fingerprint(rows.X, rows.y),
        "layout": asdict(rows.layout),
    }


def _dates(rows: FitRows) -> list[str]:
    """A hint that a date, which is a feature, may say which rows are the latest."""
    dates = rows.layout.dates
    if not dates or rows.times is not None:
        return []
    return [
        f"dates are features: {', '.join(dates)}. --time {dates[0]} removes the column from the features, "
        "and lets the latest negatives choose the threshold."
    ]


def _fit_noting(rows: FitRows, options: FitOptions) -> tuple[Any, list[str]]:
    """A fitted model, and what the fit has warned of, each once.

    That a candidate has not converged to the last digit, or that rows beside those that train have levels of their own,
    is no news.
    """
    bar = progress_bar(f"fitting on {len(rows.y):,} rows")
    with warnings.catch_warnings(record=True) as caught, bar as move, watching(move):
        warnings.simplefilter("always")
        fitted = fit(rows, options)
    usual = (ConvergenceWarning, UnseenValuesWarning)
    texts = [with_options(each.message) for each in caught if each.category not in usual]
    return fitted, list(dict.fromkeys(texts))


def _guarantee(document: dict[str, Any]) -> str:
    group = document["group"]
    about = "" if group is None else f", FPR being that of a random negative of a random {group}"
    return guarantee_in_words(document, document["segment"], about)


def _tolerances(document: dict[str, Any]) -> str:
    taus = sorted({each["tau"] for each in document["limits"]})
    return percent(taus[0]) if len(taus) == 1 else f"{percent(taus[0])} to {percent(taus[-1])} by {document['segment']}"


def _recall(document: dict[str, Any]) -> str:
    if document["recall_estimate"] is None:
        return "not measured: that takes two positives, of two groups where there are groups"
    text, interval = percent(document["recall_estimate"]), document["recall_interval"]
    if interval is None:
        return text
    return f"{text}, {percent(interval[0])} to {percent(interval[1])} at {confidence(document['delta'])}"


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    gap, kernel_gap = document["dual_gap"], document["kernel_gap"]
    facts = [
        ("rows", f"{document['n_negative']:,} negative ({document['negative_label']}), "
                 f"{document['n_positive']:,} positive ({document['positive_label']})"),
        ("tolerance", f"{_tolerances(document)}, threshold by {document['threshold_strategy']}"),
        *budget_facts(document),
        *fpr_facts(document),
        ("recall", _recall(document)),
        np_score_fact(document["np_score"]),
        ("threshold", f"one for each {document['segment']}" if document["segment"] else threshold_text(document)),
    ]  # fmt: skip
    if gap is not None and not math.isnan(gap):
        facts.append(("gap", f"{number(gap)}: the objective of the ranking is within this share of its minimum"))
    if kernel_gap is not None:
        facts.append(("gap to the exact kernel", number(kernel_gap)))
    used = f"{document['n_negative_used']:,}" + (", one of each group" if document["group"] else "")
    facts += [("negatives used", used), ("guaranteed", _guarantee(document)), ("time", _times(document["seconds"]))]
    return facts + [("note", text) for text in document["notes"]]


def _times(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {spent:.1f} s" for name, spent in seconds.items())


def _print_columns(layout: Layout) -> None:
    columns = layout.columns
    listed = columns if len(columns) <= _MOST_LISTED else [each for each in columns if each.note or each.n_missing]
    rows = [[each.name, each.kind, f"{each.n_missing:,}", each.note] for each in listed[:_MOST_LISTED]]
    if rows:
        print_rows("Columns", ["column", "taken as", "missing", "note"], rows, numeric=(2,))
    rest = len(columns) - len(rows)
    if rest:
        print(f"{rest:,} more columns, taken as numbers.")
