"""Fits on the rows of a file: options, models, what the columns are by the rows that train alone, and fits by folds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from taufpl._row_hashes import copies_among
from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Mask, RowIndices, Vector
from taufpl.cli._columns import (
    Layout,
    check_finite,
    frame_of,
    frame_of_batches,
    plan_columns,
    read_labels,
    take_segments,
    texts_as_planned,
)
from taufpl.cli._data_file import DataFile, arrow, doubles_of, is_number, read_table
from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import RANKINGS, USUAL_EFFORT
from taufpl.cli._output import Move, looks_in_words
from taufpl.cli._row_reader import check_present, dense_where_full, read_matrix, used_columns
from taufpl.estimators import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
    last_step,
    next_threshold,
    steps_within,
    watching,
)
from taufpl.estimators.strategies import Automatic, HeldOut, Strategy
from taufpl.preprocessing import ColumnPlan, encoding_parts, plan_numbers, reasons_against
from taufpl.thresholding import OTHERS, USUAL_DELTA


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Options of ``taufpl fit``."""

    target: str | None = None
    positive: str | None = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None
    score: str | None = None  # a column of scores, of which a threshold is all that is fitted
    lower_is_positive: bool = False
    segment: str | None = None  # a column; each of its levels has a threshold
    tau: float
    tau_for: tuple[tuple[str, float], ...] = ()  # tolerances of segments, by canonical name
    delta: float = USUAL_DELTA
    looks: int | str = 1
    threshold: str = "auto"
    model: str = "auto"
    effort: str = USUAL_EFFORT
    reg: float | str = "cv"
    holdout: float | str = "auto"
    seed: int = 0
    jobs: int | None = None

    @property
    def tolerances(self) -> float | dict[str, float]:
        """The tolerance, or those by segment."""
        return {**dict(self.tau_for), OTHERS: self.tau} if self.tau_for else self.tau

    @property
    def strategy(self) -> str | Strategy:
        """The way to choose the threshold, with the share that is held out where it is one that holds out."""
        if self.holdout == "auto" or self.threshold not in ("auto", "np"):
            return self.threshold
        held_out = HeldOut(share=self.holdout)
        return held_out if self.threshold == "np" else Automatic(held_out)


@dataclass(frozen=True, slots=True)
class FitRows:
    """All rows of a file for a fit, as a frame or a CSR matrix, with a layout that is told from the rows that train."""

    X: Any
    y: Array
    layout: Layout
    positive: Any  # the label
    groups: Array | None = None
    times: Array | None = None
    train: RowIndices | None = None  # the rows that the scorer learns from; None: all
    segments: Array | None = None

    def fit_params(self) -> dict[str, Any]:
        """What a fit takes beside X and y."""
        given = {"groups": self.groups, "order": self.times, "segments": self.segments}
        return {name: each for name, each in given.items() if each is not None}


def effort_for(wanted: str | None, models: Iterable[str]) -> str:
    """The effort that is asked for, or the usual one; only the stack takes any."""
    if wanted is not None and "auto" not in models:
        raise CommandLineError(f"--effort {wanted} is for --model auto; other models have one way to be fitted.")
    return wanted or USUAL_EFFORT


def fit_rows(data: FitRows, options: FitOptions) -> Any:
    """Fit a model with its preprocessing. The rows of a frame without texts are scaled where they lie.

    Means, levels and scales are part of the scorer, and the proof of "np" is about a scorer that has never seen
    the negatives that choose its threshold. So they are learned from the rows that train: the layout, too, has been
    told from those alone (`FitRows.train`). "cross", "oob" and "train" prove nothing, and measure on rows that
    their fold, or round, has not fitted on:

    - ScreeningClassifier and scorers of scikit-learn have the preprocessing inside, where every fold fits its own.
    - Our own classifiers choose their ranking once for all folds, and run on preprocessing that is learned once, from
      all rows that train: without labels, one row moves a mean by one in n, which is nothing beside what the choice of
      the ranking does.
    """
    screen = screen_for(data.positive, options)
    if options.score is not None:
        return screen.fit(data.X, data.y, **data.fit_params())
    if options.model in RANKINGS:
        return _fit_in_place(data, options, screen)
    if options.model != "auto":
        screen.set_params(estimator=Pipeline([*_steps(data.layout, options), ("scorer", screen.estimator)]))
    return screen.fit(data.X, data.y, **data.fit_params())


def _fit_in_place(data: FitRows, options: FitOptions, screen: Any) -> Pipeline:
    """The same as the fit of a pipeline, without a second copy of the rows."""
    X, steps = data.X, _steps(data.layout, options)
    for _, step in steps:
        if data.train is None:
            _overwrite(step, True)
            X = step.fit_transform(X)
        else:
            # The held-out rows go through what the others have taught. Rows that pandas hands out may be the very ones
            # that it was given, so that a fit, which transforms them too, must leave them alone.
            step.fit(safe_indexing(X, data.train))
            _overwrite(step, True)
            X = step.transform(X)
        # Only here the rows were ours to overwrite.
        _overwrite(step, False)
    screen.fit(X, data.y, **data.fit_params())._steps_divided = True
    return Pipeline([*steps, ("screen", screen)])


def screen_for(positive: Any, options: FitOptions) -> Any:
    """The estimator with the threshold; around a scorer of scikit-learn without its preprocessing."""
    if options.score is not None:
        return ScoreScreen(
            options.score,
            options.tolerances,
            delta=options.delta,
            looks=options.looks,
            higher_is_positive=not options.lower_is_positive,
            pos_label=positive,
            random_state=options.seed,
        )
    shared = {
        "tau": options.tolerances,
        "threshold": options.strategy,
        "delta": options.delta,
        "looks": options.looks,
        "pos_label": positive,
        "random_state": options.seed,
    }
    if options.model == "auto":
        return ScreeningClassifier(effort=options.effort, n_jobs=options.jobs, **shared)
    if options.model == "kernel":
        return KernelTauFPLClassifier(reg=options.reg, n_jobs=options.jobs, **shared)
    if options.model in RANKINGS:
        ranking = "auto" if options.model == "linear" else "paper"
        return TauFPLClassifier(ranking=ranking, reg=options.reg, n_jobs=options.jobs, **shared)
    # A forest uses all cores for one fit.
    n_jobs = None if options.model == "forest" else options.jobs
    return NeymanPearsonClassifier(_scorer(options), n_jobs=n_jobs, **shared)


def _scorer(options: FitOptions) -> Any:
    if options.model == "logistic":
        return LogisticRegression(max_iter=1000)
    if options.model == "boosting":
        return HistGradientBoostingClassifier(random_state=options.seed)
    return RandomForestClassifier(300, min_samples_leaf=3, n_jobs=options.jobs, random_state=options.seed)


def _overwrite(step: Any, wanted: bool) -> None:
    """Let transformers overwrite the rows that they are given, or copy them."""
    for each in transformers(step):
        if "copy" in each.get_params(deep=False):
            each.set_params(copy=not wanted)


def _steps(layout: Layout, options: FitOptions) -> list[tuple[str, Any]]:
    """Preprocessing that looks at no label."""
    if layout.is_sparse:
        # Zeros stay zeros.
        return [("scale", MaxAbsScaler())]
    is_sparse = options.model not in ("boosting", "forest")
    parts = encoding_parts(layout.columns, sparse_levels=is_sparse)
    if [name for name, _ in parts] == ["numbers"]:
        return list(parts[0][1].steps)
    names = {"numbers": layout.numbers, "dates": layout.dates, "categories": layout.categories}
    return [("columns", ColumnTransformer([(name, each, names[name]) for name, each in parts], sparse_threshold=0.3))]


def transformers(model: Any) -> Iterator[BaseEstimator]:
    """Every estimator in a fitted model, its own parts and those of its clones."""
    yield model
    if isinstance(model, Pipeline):
        parts = [step for _, step in model.steps]
    elif isinstance(model, ColumnTransformer):
        fitted = getattr(model, "transformers_", [])
        parts = [step for _, step, _ in [*model.transformers, *fitted] if isinstance(step, BaseEstimator)]
    elif isinstance(model, NeymanPearsonClassifier):
        parts = [model.estimator, *model.estimators_]
    elif isinstance(model, ScreeningClassifier):
        parts = [scorer.encoder_ for scorer in model.estimators_]
    else:
        return
    for part in parts:
        yield from transformers(part)


@contextmanager
def about(file: DataFile) -> Iterator[None]:
    """Let errors begin with the name of the file whose rows they are about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from error


def check_enough(
    file: DataFile,
    screen: Any,
    is_negative: Mask,
    groups: Array | None,
    *,
    holdout: float | str | None = None,
    advice: str = "",
    unseen: str = "",
    restart: bool = False,
) -> int:
    """How many negatives there are for the next threshold of a classifier, fitted or not; too few are refused.

    With a `holdout`, not all of them can choose.
    """
    delta, needed = next_threshold(screen, restart)
    n_negative = int(is_negative.sum()) if groups is None else np.unique(groups[is_negative]).size
    most = (
        n_negative if holdout is None else n_negative - 1 if holdout == "auto" else round(float(holdout) * n_negative)
    )
    # Limits by segment count negatives by segment.
    if most < needed and screen.segments_ is None:
        what = "negatives" if groups is None else "groups with negatives"
        raise ValueError(
            f"{file.name}: {n_negative:,} {what}{unseen} are too few for the guarantee at tau {np.min(screen.tau):g} "
            f"and delta {delta:g}{looks_in_words(screen.looks)}; {needed:,} are needed.{advice}"
        )
    return n_negative


def plan_scores(file: DataFile, table: Any, options: FitOptions) -> tuple[Any, Layout]:
    """A frame of nothing but the scores, and the layout of the file; rows without a score are refused."""
    name = options.score
    assert name is not None
    for option, other in (("--group", options.group), ("--segment", options.segment)):
        if name == other:
            raise CommandLineError(f"--score {name} is the column of {option}, too.")
    scores = _read_scores(file, name, table.column(name))
    columns = tuple(
        ColumnPlan(name, "number", low=float(scores.min()), high=float(scores.max()))
        if each == name
        else ColumnPlan(each, "dropped", "is not the score")
        for each in table.column_names
        if each != options.target
    )
    layout = Layout(
        columns, options.target, group=options.group, segment=options.segment, score=name, n_rows=scores.size
    )
    return frame_of(scores[:, np.newaxis], [name], {}), layout


def _read_scores(file: DataFile, name: str, values: Any) -> Vector:
    types = arrow().types
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if not any(is_kind(values.type) for is_kind in kinds):
        texts = [(row, each) for row, each in enumerate(values.to_pylist(), 1) if each is not None]
        row, first = next(((row, each) for row, each in texts if not is_number(each)), texts[0])
        raise ValueError(
            f"{file.name}, row {row:,}: column {name!r} must hold numbers, the scores; got {first!r}, of type "
            f"{values.type}."
        )
    scores = doubles_of(values.cast(arrow().uint8()) if types.is_boolean(values.type) else values)
    is_wrong = ~np.isfinite(scores)
    if is_wrong.any():
        raise ValueError(
            f"{file.name}: column {name!r} has no finite number in {int(is_wrong.sum()):,} rows, first in row "
            f"{int(is_wrong.argmax()) + 1:,}. Leave those rows out, or give them a score."
        )
    return scores


@dataclass(slots=True)
class SourceRows:
    """All rows of a file as they were read, with their labels, groups and times."""

    file: DataFile
    columns: Any  # a pyarrow.Table or a LabelledMatrix
    y: Array
    positive: Any  # the label
    groups: Array | None = None
    times: Array | None = None
    segments: Array | None = None

    def give_up_columns(self) -> Any:
        """The columns, which are not kept here: rows that become a frame must not be held twice for long."""
        columns, self.columns = self.columns, None
        return columns


def plan_training(source: SourceRows, options: FitOptions) -> FitRows:
    """Tell which rows of a file train, what the columns are by those alone, and make X and y of all rows.

    The source gives up its columns. A file on which no model can be fitted is a ValueError, which says why.
    """
    if options.score is not None:
        X, layout = plan_scores(source.file, source.give_up_columns(), options)
        if source.segments is None:
            screen, is_negative = screen_for(source.positive, options), source.y != source.positive
            check_enough(source.file, screen, is_negative, source.groups, advice=" Take a larger --tau or --delta.")
        return FitRows(X, source.y, layout, source.positive, source.groups, segments=source.segments)
    train = rows_that_train(source, options)
    return plan_rows(source, options, train)


def read_source(file: DataFile, options: FitOptions) -> SourceRows:
    """Read a file with its labels; one that is damaged is a ValueError, which says why."""
    return _read_table(file, options) if file.is_table else _read_matrix(file, options)


def plan_rows(source: SourceRows, options: FitOptions, train: RowIndices | None) -> FitRows:
    """Tell what the columns are from the rows that train, or all (None), and make X of all rows.

    The source gives up its columns.
    """
    make = _plan_table if source.file.is_table else _plan_matrix
    X, layout = make(source, options, train)
    return FitRows(X, source.y, layout, source.positive, source.groups, source.times, train, source.segments)


def _read_table(file: DataFile, options: FitOptions) -> SourceRows:
    target = options.target
    if target is None:
        raise CommandLineError("--target is needed: the name of the column with the labels.")
    table, segments = read_table(file, options.segment), None
    for option, named in (("--drop", options.drop), *((option, (name,)) for option, name in _named(options))):
        names = [name for name in named if name is not None]
        check_present(file, table.column_names, names)
        if target in names:
            raise CommandLineError(f"{option} {target} is the target.")
    check_present(file, table.column_names, [target])
    if options.segment is not None:
        table, segments = take_segments(file, table, options.segment)
    y, positive = read_labels(file, target, table.column(target), options.positive)
    groups, times = (_values(file, table, name) for name in (options.group, options.time))
    if times is not None and times.dtype.kind not in "iufmM":
        raise ValueError(
            f"{file.name}: column {options.time!r} holds texts, which do not sort by time. Write dates as 2024-12-31 "
            "or 2024-12-31 23:59:00, or give numbers."
        )
    return SourceRows(file, table, y, positive, groups, times, segments)


def _plan_table(source: SourceRows, options: FitOptions, train: RowIndices | None) -> tuple[Any, Layout]:
    file, target, table = source.file, options.target, source.give_up_columns()
    assert target is not None
    with about(file):
        columns = plan_columns(table, target, _unused(options), train, guess_types=file.format == "csv")
    n_rows = len(source.y if train is None else train)
    layout = Layout(columns, target, group=options.group, time=options.time, segment=options.segment, n_rows=n_rows)
    _check_left(file, layout)
    used = table.select([column.name for column in layout.used])
    del table
    batches = texts_as_planned(file, used, layout).to_batches()
    del used
    arrow().default_memory_pool().release_unused()
    X = frame_of_batches(file, batches, layout)
    arrow().default_memory_pool().release_unused()
    return X, layout


def _named(options: FitOptions) -> tuple[tuple[str, str | None], ...]:
    """Options that name one column each."""
    return (
        ("--group", options.group),
        ("--time", options.time),
        ("--score", options.score),
        ("--segment", options.segment),
    )


def _unused(options: FitOptions) -> dict[str, str]:
    """Columns that are no features, and why."""
    reasons = dict.fromkeys(options.drop, "as asked")
    if options.group is not None:
        reasons[options.group] = "--group: rows with the same value belong together"
    if options.time is not None:
        reasons[options.time] = "--time: the scorer learns from earlier rows, the latest choose the threshold"
    return reasons


def _values(file: DataFile, table: Any, name: str | None) -> Array | None:
    """A column of groups or times, as values that can be compared and sorted."""
    if name is None:
        return None
    values = table.column(name)
    if values.null_count:
        raise ValueError(
            f"{file.name}: column {name!r} has no value in {values.null_count:,} rows. Fill them, or leave those "
            "rows out."
        )
    return np.asarray(values.to_numpy())


def _read_matrix(file: DataFile, options: FitOptions) -> SourceRows:
    if options.target not in (None, "y", "label"):
        raise CommandLineError(
            f"--target {options.target}: the labels of a {file.format} file have no other name than y."
        )
    for option, name in _named(options):
        if name is not None:
            raise CommandLineError(f"{option} {name} is for tables; a {file.format} file has numbers and labels only.")
    matrix = read_matrix(file)
    if matrix.y is None:
        raise ValueError(f"{file.name}: has no y, the labels of the rows.")
    return SourceRows(file, matrix, *read_labels(file, "y", matrix.y, options.positive))


def _plan_matrix(source: SourceRows, options: FitOptions, train: RowIndices | None) -> tuple[Any, Layout]:
    file, matrix = source.file, dense_where_full(source.give_up_columns(), train)
    X, layout = matrix.X, Layout((), None, zero_based=matrix.zero_based)
    if matrix.is_sparse:
        if options.drop:
            raise CommandLineError("--drop is not for sparse data, whose columns have no names.")
        if not np.isfinite(X.data).all():
            raise ValueError(f"{file.name}: a value is infinite or not a number.")
        layout = replace(layout, n_columns=X.shape[1], is_sparse=True)
        return X, layout
    names = matrix.names or [f"x{place}" for place in range(X.shape[1])]
    check_present(file, names, options.drop)
    check_finite(file, names, X, 0)
    seen = X if train is None else X[train]
    columns = tuple(
        ColumnPlan(plan.name, "dropped", "as asked") if plan.name in options.drop else plan
        for plan in plan_numbers(names, ["number"] * len(names), seen, may_be_identifier=False)
    )
    layout = replace(layout, columns=columns, n_rows=len(seen))
    _check_left(file, layout)
    return used_columns(X, layout), layout


def rows_that_train(source: SourceRows, options: FitOptions) -> RowIndices | None:
    """The rows that the scorer may learn from (None: all), once it is clear that the others suffice for a guarantee."""
    y, groups, screen = source.y, source.groups, screen_for(source.positive, options)
    if options.threshold == "np" and source.segments is None:
        without = "" if options.holdout == "auto" else "no --holdout, "
        advice = f" Others must be left to learn from. Take {without}--threshold cross, or a larger --tau or --delta."
        check_enough(source.file, screen, y != source.positive, groups, holdout=options.holdout, advice=advice)
    beside = {} if source.segments is None else {"segments": source.segments}
    with about(source.file):
        found: RowIndices | None = screen.training_rows(y, groups, source.times, **beside)
    return found


def _check_left(file: DataFile, layout: Layout) -> None:
    if not layout.used:
        reasons = reasons_against(layout.columns) or "there is only the target"
        raise ValueError(f"{file.name}: no column is left to learn from ({reasons}).")


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """The decisions of a model on every row of a file, each made by a fit without the rows of its fold."""

    name: str
    flagged: Mask
    guaranteed: tuple[bool, ...]  # of each fit
    caveats: tuple[str, ...]
    strategies: tuple[str, ...]
    seconds: float  # of planning the columns, fitting and predicting in all folds


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Rows that count, their classes and folds, and what each model says of them.

    Of the rows of a group or, without groups, of the copies of a row, one of each class counts.
    """

    is_positive: Mask
    is_counted: Mask
    folds: RowIndices
    models: tuple[EvaluatedModel, ...]

    @property
    def n_folds(self) -> int:
        """How often each model was fitted."""
        return int(self.folds.max()) + 1


def cross_evaluate(source: SourceRows, options: FitOptions, models: list[str], n_folds: int, move: Move) -> Evaluation:
    """Fit every model without each fold, preprocessing and threshold included, and let it decide on the fold's rows.

    Rows of one group or, without groups, copies of a row lie in the same fold.
    """
    is_positive = source.y == source.positive
    units = _units(source, options)
    folds = _assign_folds(source, units, is_positive, n_folds, options.seed)
    evaluated = []
    for place, name in enumerate(models):
        own_move = steps_within(move, place, len(models), name)
        evaluated.append(_evaluate_model(source, replace(options, model=name), folds, n_folds, own_move))
    move(len(models), len(models), "done")
    _, first = np.unique(np.column_stack((units, is_positive)), axis=0, return_index=True)
    return Evaluation(is_positive, np.isin(np.arange(folds.size), first), folds, tuple(evaluated))


def _evaluate_model(
    source: SourceRows, options: FitOptions, folds: RowIndices, n_folds: int, move: Move
) -> EvaluatedModel:
    """The decisions of one model on all rows."""
    began, flagged, found = time.perf_counter(), np.zeros(folds.size, np.bool_), []
    for fold in range(n_folds):
        text = f"fold {fold + 1} of {n_folds}"
        move(fold, n_folds, text)
        with watching(steps_within(move, fold, n_folds, text)):
            head, flagged[folds == fold] = _evaluate_fold(source, options, folds == fold)
        found.append((head.evidence_, str(head.strategy_)))
    return EvaluatedModel(
        options.model,
        flagged,
        tuple(bool(evidence.guaranteed) for evidence, _ in found),
        tuple(dict.fromkeys(caveat for evidence, _ in found for caveat in evidence.caveats)),
        tuple(dict.fromkeys(strategy for _, strategy in found)),
        time.perf_counter() - began,
    )


def _evaluate_fold(source: SourceRows, options: FitOptions, held_out: Mask) -> tuple[Any, Mask]:
    """A model without some rows, and which of them it flags."""
    rows = np.flatnonzero(~held_out)
    y = source.y[rows]
    groups = None if source.groups is None else source.groups[rows]
    train = rows_that_train(replace(source, columns=None, y=y, groups=groups, times=None), options)
    # A copy of the record, not of the rows: planning gives up what it holds.
    planned = plan_rows(replace(source), options, rows if train is None else rows[train])
    part = FitRows(safe_indexing(planned.X, rows), y, planned.layout, source.positive, groups, train=train)
    held_out_X = safe_indexing(planned.X, np.flatnonzero(held_out))
    del planned
    with warnings.catch_warnings():
        # What is worth saying of a fit stands in its evidence.
        warnings.simplefilter("ignore")
        model = fit_rows(part, options)
    return last_step(model), np.asarray(model.decision_function(held_out_X)) > 0


def _units(source: SourceRows, options: FitOptions) -> RowIndices:
    """A code for each row, which it shares with those of its group, or else with its copies."""
    if source.groups is not None:
        return np.unique(source.groups, return_inverse=True)[1]
    alone = np.arange(source.y.size)
    copies = copies_among(plan_rows(replace(source), options, None).X)
    return alone if copies is None else np.where(copies < 0, copies.max() + 1 + alone, copies)


def _assign_folds(source: SourceRows, units: RowIndices, is_positive: Mask, n_folds: int, seed: int) -> RowIndices:
    """The fold of each row: units with positives, and units with negatives, are spread evenly and at random."""
    codes, places = np.unique(units, return_inverse=True)
    has_positive = np.isin(codes, units[is_positive])
    has_negative = np.isin(codes, units[~is_positive])
    what = "" if source.groups is None else " groups with"
    for name, n_units in (("positives", int(has_positive.sum())), ("negatives", int(has_negative.sum()))):
        if n_units < 2 * n_folds:
            raise ValueError(
                f"{source.file.name}: {n_units:,}{what} {name} are too few for {n_folds} folds, each of which needs "
                "two. Take a smaller --folds, or more rows."
            )
    # Units of either class lie one after the other here, so that taking turns spreads both classes evenly.
    folds, rng = np.empty(codes.size, np.intp), np.random.default_rng(seed)
    strata = (~has_negative, has_positive & has_negative, ~has_positive)
    order = np.concatenate([rng.permutation(np.flatnonzero(stratum)) for stratum in strata])
    folds[order] = np.arange(order.size) % n_folds
    return folds[places]
