"""``taufpl fit``: a model, with its preprocessing and its threshold, from a file of labelled rows."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from taufpl._choices import OTHERS, USUAL_DELTA
from taufpl.cli._data_file import find_data_file
from taufpl.cli._errors import CommandLineError, note, with_options
from taufpl.cli._options import (
    AlarmsPerDay,
    Data,
    Delta,
    Drop,
    Effort,
    Group,
    Holdout,
    Jobs,
    Json,
    Looks,
    LowerIsPositive,
    ModelName,
    MostPositives,
    Penalty,
    Positive,
    Score,
    Seed,
    Segment,
    SegmentTolerance,
    TauFor,
    TauOrBudget,
    Threshold,
    TrainingTarget,
    Volume,
)
from taufpl.cli._output import (
    BUDGET,
    budget_promise,
    check_output,
    confidence,
    evidence_record,
    fpr_facts,
    guarantee_in_words,
    limits_record,
    np_score_fact,
    np_score_of,
    number,
    percent,
    print_limits,
    print_result,
    print_rows,
    progress_bar,
    working,
)
from taufpl.exceptions import UnseenValuesWarning

if TYPE_CHECKING:
    from taufpl._types import Array
    from taufpl.cli._columns import Layout
    from taufpl.cli._training_file import FitOptions, FitRows
    from taufpl.planning import AlarmBudget
    from taufpl.thresholding import Evidence

# Groups of options in the help, in the order of the parameters.
_PANELS = {
    "Rows and columns": ("target", "positive", "drop", "group", "time_column"),
    "Tolerance and threshold": ("tau", "delta", "threshold", "holdout", "looks"),
    "Model": ("model", "effort", "reg", "seed", "jobs"),
    "A tolerance for each segment": ("segment", "tau_for"),
    "Scores of your own": ("score", "lower_is_positive"),
    "A budget of alarms in the place of --tau": ("alarms_per_day", "volume", "base_rate"),
}

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
# Other budgets of the table, as multiples of the one that is asked for.
_OTHER_BUDGETS = (0.5, 2.0)
# The most important columns, which are printed; --json has all.
_MOST_IMPORTANT = 10
# Negatives that typical values are told from, and columns of which a header keeps something.
_MOST_NEGATIVES = 10_000
_MOST_TYPICAL = 100_000


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write, by custom .skops.")],
    as_json: Json = False,
    target: TrainingTarget = None,
    positive: Positive = None,
    drop: Drop = None,
    group: Group = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", help="A column that says when a row came: the latest negatives choose the threshold."),
    ] = None,
    tau: TauOrBudget = None,
    delta: Delta = USUAL_DELTA,
    threshold: Threshold = "auto",
    holdout: Holdout = None,
    looks: Looks = "1",
    model: ModelName = "auto",
    effort: Effort = None,
    reg: Penalty = "cv",
    seed: Seed = 0,
    jobs: Jobs = None,
    segment: Segment = None,
    tau_for: TauFor = None,
    score: Score = None,
    lower_is_positive: LowerIsPositive = False,
    alarms_per_day: AlarmsPerDay = None,
    volume: Volume = None,
    base_rate: MostPositives = None,
) -> None:
    """Fit a model on a file and write it, with its preprocessing, to another.

    Numbers are filled and scaled, texts become one feature a level, dates a few numbers; identifiers and constant
    columns are left out. What was done is printed and kept in the model file. --model auto, the default, joins
    boosting, forests and others, and prints how each stands at the tolerance.

    --segment country gives every country a threshold, --score model_score chooses one for scores that the file has
    already, and --alarms-per-day finds the tolerance that a budget allows.
    """
    if score is not None:
        _refuse_beside_score(model, threshold, effort, reg, holdout, drop, time_column)
    elif lower_is_positive:
        raise CommandLineError("--lower-is-positive is about the column of --score, which is not given.")
    if reg != "cv" and model not in ("paper", "kernel"):
        raise CommandLineError(f"--reg {reg} is the penalty of --model paper and kernel; --model {model} has none.")
    _refuse_tolerances(segment, tau_for or ())
    if segment is not None:
        _refuse_beside_segment(model, threshold, alarms_per_day)
    _refuse_beside_budget(alarms_per_day, volume, base_rate, tau, threshold, group)

    from taufpl.cli._training_file import FitOptions, effort_for
    from taufpl.estimators.strategies import STRATEGIES

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
        budget = _BudgetRequest(alarms_per_day, volume, base_rate)
    document, layout = _fit_file(data, output, options, budget)
    print_result(document, as_json, f"{output}: {model}", _facts(document))
    if not as_json:
        if segment is not None:
            print_limits(document, segment, document["delta"])
        _print_budgets(document)
        _print_leaderboard(document)
        if score is None:
            _print_columns(layout)


class FitCommand(TyperCommand):
    """``fit``, whose help shows its many options in groups."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        panels = {name: panel for panel, names in _PANELS.items() for name in names}
        for option in self.params:
            if option.name in panels:
                option.rich_help_panel = panels[option.name]  # type: ignore[attr-defined]


def _refuse_beside_score(
    model: str, threshold: str, effort: Any, reg: Any, holdout: Any, drop: Any, time: str | None
) -> None:
    """Refuse options of ``fit`` that mean nothing where there is nothing to fit but the threshold."""
    unfitted, all_choose = "the scores are there, and no model is fitted", "all negatives choose the threshold"
    given = {
        f"--model {model}": (model != "auto", unfitted),
        "--effort": (effort is not None, unfitted),
        "--reg": (reg != "cv", unfitted),
        "--holdout": (holdout is not None, all_choose),
        f"--threshold {threshold}": (threshold not in ("auto", "np"), "the threshold is that with the guarantee, np"),
        "--drop": (bool(drop), "all other columns are left out anyway"),
        "--time": (time is not None, f"{all_choose}; give a file of the latest rows instead"),
    }
    for option, (is_given, why) in given.items():
        if is_given:
            raise CommandLineError(f"{option} means nothing with --score: {why}.")


def _refuse_tolerances(segment: str | None, tau_for: Sequence[SegmentTolerance]) -> None:
    """Refuse ``--tau-for`` without segments, for all others, and twice for one segment."""
    if tau_for and segment is None:
        raise CommandLineError("--tau-for is for --segment COLUMN, which says of which segment a row is.")
    found = set[str]()
    for name, _ in tau_for:
        if name == OTHERS:
            raise CommandLineError(f"--tau-for {OTHERS}: --tau is the tolerance of all segments without their own.")
        if name in found:
            raise CommandLineError(f"--tau-for {name} is given twice.")
        found.add(name)


def _refuse_beside_segment(model: str, threshold: str, budget: float | None) -> None:
    """Refuse options of ``fit`` that have no meaning with a threshold for each segment."""
    if threshold not in ("auto", "np"):
        raise CommandLineError(f"--segment is for --threshold auto or np; {threshold} has one threshold for all rows.")
    if model == "kernel":
        raise CommandLineError("--segment is not for --model kernel, which has one threshold for all rows.")
    if budget is not None:
        raise CommandLineError("--alarms-per-day is for one threshold; with --segment give --tau and --tau-for.")


def _refuse_beside_budget(
    alarms_per_day: int | None,
    volume: int | None,
    base_rate: float | None,
    tau: float | None,
    threshold: str,
    group: str | None,
) -> None:
    """Refuse half a budget of alarms, and options that contradict one."""
    if alarms_per_day is None:
        if volume is not None or base_rate is not None:
            raise CommandLineError("--volume and --base-rate belong to --alarms-per-day, which is not given.")
        return
    if tau is not None:
        raise CommandLineError("--tau and --alarms-per-day exclude each other: the budget finds the tolerance.")
    if volume is None:
        raise CommandLineError("--alarms-per-day needs --volume, the number of rows a day.")
    if alarms_per_day >= volume:
        raise CommandLineError(
            f"--alarms-per-day {alarms_per_day} must be less than --volume {volume}: no day has more alarms than rows."
        )
    if threshold not in ("auto", "np"):
        raise CommandLineError(f"--alarms-per-day is a promise, which --threshold {threshold} cannot prove.")
    if group is not None:
        raise CommandLineError(
            "--alarms-per-day counts rows, and with --group the guarantee is about one row of each group."
        )


def _fit_file(
    data: Path, output: Path, options: FitOptions, budget: _BudgetRequest | None = None
) -> tuple[dict[str, Any], Layout]:
    """Read, fit, write; a document about it, and the layout."""
    from taufpl._row_hashes import telling_hash
    from taufpl.cli._loaded_model import NEGATIVES
    from taufpl.cli._training_file import about, plan_training, read_source
    from taufpl.estimators import last_step
    from taufpl.estimators.strategies import at_other_tolerances
    from taufpl.persistence import SeenRows, save_model
    from taufpl.planning import AlarmBudget

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
        negatives = _training_negatives(rows, options.seed)
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
        header = save_model(fitted, output, training=record | _typical_record(fitted, negatives), seen=seen)
    written = time.perf_counter()
    document = {
        "output": str(output),
        **{name: header.training.get(name) for name in _OF_HEADER},
        **_found(head, options),
        **_budget_record(budgets, others.evidence),
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
        **_leaderboard_record(head, options),
        **limits_record(head),
        "segment": options.segment,
        "group": options.group,
        "time": options.time,
    }


def _record(rows: FitRows) -> dict[str, Any]:
    """What the header of the model file says about the training rows."""
    from taufpl.cli._loaded_model import GROUPS, record_groups
    from taufpl.persistence import fingerprint

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
    from sklearn.exceptions import ConvergenceWarning

    from taufpl.cli._training_file import fit_rows
    from taufpl.estimators import watching

    bar = progress_bar(f"fitting on {len(rows.y):,} rows")
    with warnings.catch_warnings(record=True) as caught, bar as move, watching(move):
        warnings.simplefilter("always")
        fitted = fit_rows(rows, options)
    usual = (ConvergenceWarning, UnseenValuesWarning)
    texts = [with_options(each.message) for each in caught if each.category not in usual]
    return fitted, list(dict.fromkeys(texts))


def _training_negatives(rows: FitRows, seed: int) -> Any:
    """A copy of some negatives that the scorer learns from, in no order; held-out ones are not looked at."""
    import numpy as np

    from taufpl._sklearn import safe_indexing

    train = np.arange(len(rows.y)) if rows.train is None else rows.train
    negatives = train[rows.y[train] != rows.positive]
    return safe_indexing(rows.X, np.random.default_rng(seed).permutation(negatives)[:_MOST_NEGATIVES])


def _typical_record(model: Any, negatives: Any) -> dict[str, Any]:
    """The entry of the header that reasons need; none where no reasons can be told."""
    from taufpl.inspection import typical_negatives

    if negatives.shape[1] > _MOST_TYPICAL:
        return {}
    try:
        return typical_negatives(model, negatives).record()
    except ValueError:  # a score that is not linear in thousands of columns
        return {}


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
        *_budget_facts(document),
        *fpr_facts(document),
        ("recall", _recall(document)),
        np_score_fact(document["np_score"]),
        ("threshold", f"one for each {document['segment']}" if document["segment"] else _threshold(document)),
    ]  # fmt: skip
    if gap is not None and not math.isnan(gap):
        facts.append(("gap", f"{number(gap)}: the objective of the ranking is within this share of its minimum"))
    if kernel_gap is not None:
        facts.append(("gap to the exact kernel", number(kernel_gap)))
    used = f"{document['n_negative_used']:,}" + (", one of each group" if document["group"] else "")
    times = ", ".join(f"{name} {spent:.1f} s" for name, spent in document["seconds"].items())
    facts += [("negatives used", used), ("guaranteed", _guarantee(document)), ("time", times)]
    return facts + [("note", text) for text in document["notes"]]


def _threshold(document: dict[str, Any]) -> str:
    """The threshold as it is printed: of a column of scores, as the comparison that it is."""
    threshold, name = document["threshold"], document["score"]
    if name is None:
        return number(threshold)
    # All digits, for whoever takes it elsewhere.
    return f"{name} {'<' if document['lower_is_positive'] else '>'} {threshold!r}"


def _print_columns(layout: Layout) -> None:
    columns = layout.columns
    listed = columns if len(columns) <= _MOST_LISTED else [each for each in columns if each.note or each.n_missing]
    rows = [[each.name, each.kind, f"{each.n_missing:,}", each.note] for each in listed[:_MOST_LISTED]]
    if rows:
        print_rows("Columns", ["column", "taken as", "missing", "note"], rows, numeric=(2,))
    rest = len(columns) - len(rows)
    if rest:
        print(f"{rest:,} more columns, taken as numbers.")


def _leaderboard_record(head: Any, options: FitOptions) -> dict[str, Any]:
    """Candidates with their recall, weight and seconds, the stack first, and columns with the recall that they bring.

    Both are None for models that are no stack; so is what wide sparse data have no answer to.
    """
    if options.model != "auto":
        return {"effort": None, "leaderboard": None, "importances": None}
    return {
        "effort": options.effort,
        "leaderboard": head.leaderboard_.to_dict("records"),
        "importances": _importances(head),
    }


def _importances(head: Any) -> list[dict[str, Any]] | None:
    """Columns, the most important first."""
    import numpy as np

    values = getattr(head, "feature_importances_", None)
    if values is None:
        return None
    names = getattr(head, "feature_names_in_", [f"x{place}" for place in range(len(values))])
    order = np.argsort(-values, kind="stable").tolist()
    return [{"column": str(names[place]), "recall_lost": float(values[place])} for place in order]


def _print_leaderboard(document: dict[str, Any]) -> None:
    """Print what a document tells of a stack; nothing for other models."""
    if document["leaderboard"] is None:
        return
    rows = [
        [
            each["candidate"],
            percent(each["recall"]),
            f"{percent(each['recall_low'])} to {percent(each['recall_high'])}",
            "" if place == 0 else f"{each['weight']:.2f}",
            f"{each['seconds']:.1f}",
        ]
        for place, each in enumerate(document["leaderboard"])
    ]
    head = ["candidate", "recall", f"at {confidence(USUAL_DELTA)}", "weight", "seconds"]
    title = f"Leaderboard: recall at {percent(document['tau'])} FPR, on training rows that were left out"
    print_rows(title, head, rows, numeric=(1, 3, 4))
    important = [each for each in document["importances"] or () if each["recall_lost"] > 0][:_MOST_IMPORTANT]
    if important:
        rows = [[each["column"], f"{100 * each['recall_lost']:.2f}"] for each in important]
        print_rows("Columns that bring most of the recall", ["column", "points of recall lost without it"], rows, (1,))


class _BudgetRequest(NamedTuple):
    """A budget of alarms as it was asked for, before the labels are read."""

    alarms_per_day: int
    volume: int
    base_rate: float | None

    def settle(self, options: FitOptions, y: Array, positive: Any) -> tuple[FitOptions, list[AlarmBudget]]:
        """Options with the tolerance that the budget allows and its share of delta; then the budget, and others.

        The others are half of it and its double, as far as they can be promised.
        """
        try:
            found = [self._budget(self.alarms_per_day, options, y, positive)]
        except ValueError as error:
            hint = " The labels in DATA bound the base rate; --base-rate states that of the traffic."
            raise ValueError(f"{error}{hint if self.base_rate is None else ''}") from error
        for times in _OTHER_BUDGETS:
            with suppress(ValueError):
                found.append(self._budget(round(times * self.alarms_per_day), options, y, positive))
        return replace(options, tau=found[0].tau, delta=found[0].delta_threshold, threshold="np"), found

    def _budget(self, alarms: int, options: FitOptions, y: Array, positive: Any) -> AlarmBudget:
        from taufpl.estimators.strategies import most_held_out
        from taufpl.planning import alarm_budget

        n_positive = int((y == positive).sum())
        n_negative = len(y) - n_positive
        n_choosing = max(0, most_held_out(n_negative, options.holdout)) if options.score is None else n_negative
        return alarm_budget(
            alarms,
            self.volume,
            self.base_rate,
            positives=(n_positive, len(y)) if self.base_rate is None else None,
            n_negative=n_choosing,
            delta=options.delta,
            looks=options.looks,
        )


def _budget_record(budgets: Sequence[AlarmBudget], evidence: Sequence[Evidence]) -> dict[str, Any]:
    """The budget of a fit, and the recall of others beside it, for its document; nothing without a budget."""
    if not budgets:
        return {}
    budget = budgets[0]
    ascending = sorted(zip(budgets, evidence, strict=False), key=lambda pair: pair[0].tau)
    table = [
        {
            "alarms_per_day": each.alarms_per_day,
            "tau": each.tau,
            "recall": found.tpr_estimate,
            "recall_interval": found.tpr_interval,
        }
        for each, found in ascending
    ]
    named = {**asdict(budget), "delta": budget.delta, "expected_alarms": budget.expected_alarms}
    return {BUDGET: {**named, "recalls": table}}


def _budget_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What is promised about the alarms of a day."""
    budget = document.get(BUDGET)
    if budget is None:
        return []
    shares = f"threshold {budget['delta_threshold']:.4g}, day {budget['delta_day']:.4g}"
    source = "as given"
    if budget["delta_base_rate"]:
        shares += f", base rate {budget['delta_base_rate']:.4g}"
        source = (
            f"from {document['n_positive']:,} positives of {document['n_rows']:,} rows; give --base-rate where the "
            "traffic has fewer"
        )
    return [
        budget_promise(budget, document["guaranteed"]),
        ("base rate", f"at most {percent(budget['base_rate'])}, {source}"),
        ("delta", f"{budget['delta']:.4g}, shared: {shares}"),
    ]


def _print_budgets(document: dict[str, Any]) -> None:
    """The recall under other budgets, each by itself, where it was measured."""
    rows = [row for row in document.get(BUDGET, {}).get("recalls", []) if row["recall_interval"]]
    if len(rows) < 2:
        return
    print_rows(
        "What other budgets would find",
        ["alarms a day", "tolerance", "recall", f"interval, {confidence(document['delta'])}"],
        [
            [f"{row['alarms_per_day']:,}", percent(row["tau"]), percent(row["recall"]),
             " to ".join(percent(end) for end in row["recall_interval"])]
            for row in rows
        ],
        numeric=(0, 1, 2),
    )  # fmt: skip
