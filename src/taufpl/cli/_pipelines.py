"""The models that ``taufpl fit`` offers, with the preprocessing that their columns need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from taufpl.cli._layout import MAX_LEVELS, MIN_ROWS, Layout
from taufpl.cli._rows import Training
from taufpl.estimators import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
)

OWN = ("linear", "paper", "kernel")


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for."""

    tau: float
    delta: float
    threshold: str
    model: str
    reg: float | str
    holdout: float
    seed: int
    jobs: int


def fit(data: Training, settings: Settings) -> Any:
    """Fit a model with its preprocessing. The rows of a frame without texts are scaled where they lie.

    What holds for a threshold depends on what the preprocessing has seen:

    - "np" is a proof about a scorer that has never met the negatives that choose its threshold. Means, medians, levels
      and scales are part of the scorer, so that they are learned inside it, from the rows that are left:
      NeymanPearsonClassifier around the whole pipeline.
    - "cross", "oob" and "train" prove nothing, and measure on rows that their fold, or round, has not fitted on. For
      scorers of scikit-learn the pipeline stays inside, as it costs nothing. Our own classifiers choose their ranking
      once for all folds, and run on preprocessing that is learned once, from all rows: without labels, one row moves
      a mean by one in n, which is nothing beside what the choice of the ranking does.

    The layout (which column is a number, which is dropped) is told from the whole file in either case, as if whoever
    gave it had said so: by types and values, never by labels.
    """
    if settings.model in OWN and settings.threshold != "np":
        model: Any = _in_place(data, settings)
    else:
        scorer = Pipeline([*_steps(data.layout, settings), ("scorer", _scorer(data, settings))])
        model = NeymanPearsonClassifier(
            scorer,
            settings.tau,
            threshold=settings.threshold,
            delta=settings.delta,
            holdout=settings.holdout,
            pos_label=data.positive,
            n_jobs=None if settings.model in ("forest", *OWN) else settings.jobs,
            random_state=settings.seed,
        ).fit(data.X, data.y)
    for step in _transformers(model):
        # Only here the rows were ours to overwrite.
        if "copy" in step.get_params(deep=False):
            step.set_params(copy=True)
    return model


def _in_place(data: Training, settings: Settings) -> Pipeline:
    """The same as the fit of a pipeline, without a second copy of the rows."""
    X, steps = data.X, _steps(data.layout, settings)
    for _, step in steps:
        X = step.fit_transform(X)
    return Pipeline([*steps, ("screen", _classifier(data, settings, settings.threshold).fit(X, data.y))])


def _classifier(data: Training, settings: Settings, threshold: str) -> TauFPLClassifier | KernelTauFPLClassifier:
    if settings.model == "kernel":
        return _kernel(data, settings, threshold=threshold, delta=settings.delta)
    return TauFPLClassifier(
        settings.tau,
        ranking="auto" if settings.model == "linear" else "paper",
        reg=settings.reg,
        threshold=threshold,
        delta=settings.delta,
        pos_label=data.positive,
        n_jobs=settings.jobs,
        random_state=settings.seed,
    )


def _kernel(data: Training, settings: Settings, **threshold: Any) -> KernelTauFPLClassifier:
    return KernelTauFPLClassifier(
        settings.tau,
        reg=settings.reg,
        **threshold,
        pos_label=data.positive,
        n_jobs=settings.jobs,
        random_state=settings.seed,
    )


def _scorer(data: Training, settings: Settings) -> Any:
    if settings.model == "kernel":
        # Its own threshold is not used, and of all the cheapest to choose: one fit beside that on all rows.
        return _kernel(data, settings, threshold="oob", delta=None, n_rounds=1, combine="refit")
    if settings.model == "linear":
        # Its own threshold is not used, and the cheapest to choose.
        return _classifier(data, settings, "train")
    if settings.model == "paper" and settings.reg == "cv":
        return TauFPLRankerCV(settings.tau, tau_scale="cv", pos_label=data.positive, n_jobs=settings.jobs)
    if settings.model == "paper":
        return TauFPLRanker(settings.tau, float(settings.reg), pos_label=data.positive)
    if settings.model == "logistic":
        return LogisticRegression(max_iter=1000)
    if settings.model == "boosting":
        return HistGradientBoostingClassifier(random_state=settings.seed)
    return RandomForestClassifier(300, min_samples_leaf=3, n_jobs=settings.jobs, random_state=settings.seed)


def _steps(layout: Layout, settings: Settings) -> list[tuple[str, Any]]:
    """Preprocessing that looks at no label."""
    if layout.is_sparse:
        # Zeros stay zeros.
        return [("scale", MaxAbsScaler(copy=False))]
    numbers = _number_steps(layout)
    if not layout.categories:
        return numbers
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=MIN_ROWS,
        max_categories=MAX_LEVELS + 1,
        sparse_output=settings.model not in ("boosting", "forest"),
    )
    parts: list[tuple[str, Any, list[str]]] = [("categories", levels, layout.categories)]
    if layout.numbers:
        parts.insert(0, ("numbers", Pipeline(numbers), layout.numbers))
    return [("columns", ColumnTransformer(parts, sparse_threshold=0.3))]


def _number_steps(layout: Layout) -> list[tuple[str, Any]]:
    """Fill, mark what was missing, scale.

    Where nothing is missing there is nothing to mark, and a value that is missing later becomes the mean, which takes
    one pass over the rows instead of sorting them.
    """
    if layout.has_missing:
        fill = SimpleImputer(strategy="median", add_indicator=True, copy=False)
    else:
        fill = SimpleImputer(strategy="mean", copy=False)
    return [("fill", fill), ("scale", StandardScaler(copy=False))]


def _transformers(model: Any) -> Iterator[BaseEstimator]:
    """Every estimator in a fitted model, its own parts and those of its clones."""
    yield model
    if isinstance(model, Pipeline):
        parts = [step for _, step in model.steps]
    elif isinstance(model, ColumnTransformer):
        fitted = getattr(model, "transformers_", [])
        parts = [step for _, step, _ in [*model.transformers, *fitted] if isinstance(step, BaseEstimator)]
    elif isinstance(model, NeymanPearsonClassifier):
        parts = [model.estimator, *model.estimators_]
    else:
        return
    for part in parts:
        yield from _transformers(part)


def head_of(model: Any) -> Any:
    """The estimator with the threshold."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def before(model: Any, X: Any) -> Any:
    """Rows as the estimator with the threshold takes them."""
    return model[:-1].transform(X) if isinstance(model, Pipeline) and len(model.steps) > 1 else X
