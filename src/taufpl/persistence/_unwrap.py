"""A fitted model taken out of pipelines and searches: its steps, scorers, threshold and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from taufpl._types import Array, Vector
from taufpl.estimators import (
    KernelScorer,
    LinearScorer,
    ScorerClassifier,
    ScoreScreen,
    StackedScorer,
    TauFPLClassifier,
    known_positive,
    steps_and_last,
    wrapped_head,
)
from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline import TakeColumns

# Decision functions that are X coef + intercept. All linear classifiers of scikit-learn have one of the last two.
_LINEAR = tuple(
    each.decision_function for each in (LinearScorer, TauFPLClassifier, LogisticRegression, LinearDiscriminantAnalysis)
)


@dataclass(frozen=True, slots=True)
class PipelineScorer:
    """One of the scorers whose mean is the score: an estimator behind the steps of its own pipeline.

    `positive` is what the estimator calls the label that a high score stands for. The score of a linear one is
    features @ coef + intercept; `coef` is None for others. The score of a stack is the sum of its terms + intercept.
    """

    steps: tuple[Any, ...]
    final: Any
    positive: Any
    coef: Vector | None
    intercept: float = 0.0
    terms: tuple[StackTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class StackTerm:
    """What one model adds to the score of a stack: factor (log-odds - center)."""

    scorer: PipelineScorer
    center: float
    factor: float


@dataclass(frozen=True, slots=True)
class UnwrappedModel:
    """A fitted model in parts: a row is positive where the mean of its scores is above the threshold.

    `known_names` are those of the columns of X: x0, x1, ... for a model that was fitted without names, which `named`
    tells; None if it does not know how many columns X had.
    """

    head: Any  # the estimator of this library, with the caveats of what is around it
    steps: tuple[Any, ...]  # of the pipeline around it
    scorers: tuple[PipelineScorer, ...]
    threshold: float
    classes: Array  # the label of negatives, then that of positives
    known_names: tuple[str, ...] | None
    named: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of X, which an export needs."""
        if self.known_names is None:
            raise ExportError(
                f"{type(self.head).__name__} does not know how many columns it was fitted on: its estimator has no "
                "n_features_in_."
            )
        return self.known_names


def unwrap(model: Any) -> UnwrappedModel:
    """Take a fitted model apart; a TypeError where no estimator of this library makes the decision."""
    steps, head = steps_and_last(model)[0], wrapped_head(model)
    if not isinstance(head, LinearScorer | KernelScorer | ScorerClassifier):
        raise TypeError(
            "model must be a ScreeningClassifier, a TauFPLClassifier, a KernelTauFPLClassifier, a "
            "NeymanPearsonClassifier, a ScoreScreen or a ranker of this library, or a pipeline or a search that ends "
            f"in one; got {type(head).__name__}."
        )
    check_is_fitted(head)
    scorers: tuple[PipelineScorer, ...]
    if isinstance(head, ScorerClassifier):
        scorers, threshold = _scorers(head), head._raw_threshold
    else:
        coef = None if isinstance(head, KernelScorer) else np.asarray(head.coef_[0], dtype=np.float64)
        scorers, threshold = (PipelineScorer((), head, head.classes_[1], coef),), -float(head.intercept_[0])
    given, count = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    if count is None and not steps and not scorers[0].steps and scorers[0].coef is not None:
        count = scorers[0].coef.size
    names = given if given is not None or count is None else [f"x{column}" for column in range(count)]
    known_names = None if names is None else tuple(str(name) for name in names)
    return UnwrappedModel(head, steps, scorers, threshold, head.classes_, known_names, given is not None)


def _scorers(head: ScorerClassifier) -> tuple[PipelineScorer, ...]:
    if not isinstance(head, ScoreScreen):
        return tuple(_scorer(each, head.classes_) for each in head.estimators_)
    # The column of scores itself, or minus it.
    place = head.column % head.n_features_in_ if isinstance(head.column, int | np.integer) else 0
    return (PipelineScorer((TakeColumns((place,)),), head, head.classes_[1], np.array([head._sign])),)


def _scorer(model: Any, classes: Array) -> PipelineScorer:
    steps, final = steps_and_last(model)
    positive = known_positive(final, classes)
    if isinstance(final, StackedScorer):
        return _stack(steps, final, positive)
    if getattr(type(final), "decision_function", None) not in _LINEAR:
        return PipelineScorer(steps, final, positive, None)
    sign = 1.0 if final.classes_[1] == positive else -1.0
    coef = final.coef_.toarray() if hasattr(final.coef_, "toarray") else final.coef_
    intercept = float(np.ravel(final.intercept_)[0])
    return PipelineScorer(steps, final, positive, sign * np.asarray(coef, dtype=np.float64).ravel(), sign * intercept)


def _stack(steps: tuple[Any, ...], stack: StackedScorer, positive: Any) -> PipelineScorer:
    """A stack behind its encoder; it is linear where all its models are."""
    sign = 1.0 if stack.classes_[1] == positive else -1.0
    terms = tuple(
        StackTerm(_scorer(model, np.array([0, 1])), center, sign * member.weight / (len(member.models) * scale))
        for member in stack.members_
        for model, center, scale in zip(member.models, member.centers, member.scales, strict=True)
    )
    coef, intercept = None, sign * stack.intercept_
    weights = [
        term.factor * term.scorer.coef for term in terms if term.scorer.coef is not None and not term.scorer.steps
    ]
    if len(weights) == len(terms):
        coef = np.sum(weights, axis=0)
        intercept += sum(term.factor * (term.scorer.intercept - term.center) for term in terms)
    return PipelineScorer((*steps, stack.encoder_), stack, positive, coef, intercept, terms)


def finite(threshold: float) -> float:
    """The threshold, or the largest number in the place of infinity: no score is above either."""
    return min(threshold, float(np.finfo(np.float64).max))
