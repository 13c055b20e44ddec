"""The models that ``taufpl fit`` offers, with the preprocessing that their columns need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from taufpl._sklearn import safe_indexing
from taufpl._types import Array, RowIndices
from taufpl.cli._errors import CommandLineError
from taufpl.cli._layout import Layout
from taufpl.cli._options import RANKINGS, USUAL_EFFORT
from taufpl.estimators import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
)
from taufpl.preprocessing import encoding_parts
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


def fit(data: FitRows, options: FitOptions) -> Any:
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
        "threshold": options.threshold,
        "delta": options.delta,
        "looks": options.looks,
        "holdout": options.holdout,
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
