"""What a fitted model consists of: steps, scorers whose mean counts, a threshold, two labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import BaseSearchCV
from taufpl.estimators import KernelScorer, LinearScorer, NeymanPearsonClassifier, known_positive, scores_of
from taufpl.exceptions import ExportError

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Linear:
    """The score is X coef + intercept."""

    coef: Vector
    intercept: float


@dataclass(frozen=True, slots=True)
class Scorer:
    """One of the scorers whose mean is the score.

    Attributes
    ----------
    steps : tuple of transformers
        What its own pipeline does before it.
    final : estimator
    positive : label
        What `final` calls the label that a high score stands for.
    linear : Linear or None
    """

    steps: tuple[Any, ...]
    final: Any
    positive: Any
    linear: Linear | None

    def scores(self, features: Any) -> Vector:
        """Of rows that have gone through the steps."""
        if isinstance(self.linear, Linear) and isinstance(self.final, LinearScorer):
            return np.asarray(features @ self.linear.coef + self.linear.intercept)
        return scores_of(self.final, features, self.positive)


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A fitted model, taken apart: positive is a row whose mean score is above the threshold.

    Attributes
    ----------
    head : TauFPLClassifier, KernelTauFPLClassifier, NeymanPearsonClassifier or a ranker
        The estimator of this library.
    steps : tuple of transformers
        What the pipeline around it does before.
    scorers : tuple of Scorer
    threshold : float
    classes : ndarray of shape (2,)
        The label of negatives, then that of positives.
    known_names : tuple of str or None
        Of the columns of X; x0, x1, ... where the model was fitted without names; None where it does not know them.
    named : bool
        Whether it was fitted with names.
    """

    head: Any
    steps: tuple[Any, ...]
    scorers: tuple[Scorer, ...]
    threshold: float
    classes: NDArray[Any]
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


def take_apart(model: Any) -> Anatomy:
    """Steps, scorers and threshold of a fitted model.

    Raises
    ------
    TypeError
        There is no estimator of this library where the decision is made.
    NotFittedError
        It has not been fitted.
    """
    steps, head = unwrapped(model)
    if not isinstance(head, LinearScorer | KernelScorer | NeymanPearsonClassifier):
        raise TypeError(
            "model must be a TauFPLClassifier, a KernelTauFPLClassifier, a NeymanPearsonClassifier or a ranker of this "
            f"library, or a pipeline or a search that ends in one; got {type(head).__name__}."
        )
    check_is_fitted(head)
    scorers: tuple[Scorer, ...]
    if isinstance(head, NeymanPearsonClassifier):
        scorers, threshold = tuple(_scorer(each, head.classes_) for each in head.estimators_), head.threshold_
    else:
        is_kernel = isinstance(head, KernelScorer)
        linear = None if is_kernel else Linear(np.asarray(head.coef_[0], dtype=np.float64), 0.0)
        scorers, threshold = (Scorer((), head, head.classes_[1], linear),), -float(head.intercept_[0])
    names, named = _names(model, steps or scorers[0].steps, scorers[0])
    return Anatomy(head, steps, scorers, float(threshold), head.classes_, names, named)


def unwrapped(model: Any) -> tuple[tuple[Any, ...], Any]:
    """The transformers before the last estimator, and that estimator: out of pipelines, searches and freezers."""
    steps: tuple[Any, ...] = ()
    while True:
        if isinstance(model, Pipeline):
            steps += tuple(step for _, step in model.steps[:-1])
            model = model.steps[-1][1]
        elif isinstance(model, BaseSearchCV):
            check_is_fitted(model)
            model = model.best_estimator_
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            return steps, model


def _scorer(model: Any, classes: NDArray[Any]) -> Scorer:
    steps, final = unwrapped(model)
    positive = known_positive(final, classes)
    return Scorer(steps, final, positive, _linear(final, positive))


def _linear(final: Any, positive: Any) -> Linear | None:
    """Coefficients, if the score is linear; probabilities are not, and outlier detectors have an offset too."""
    if is_outlier_detector(final) or not isinstance(final, LinearScorer | LinearClassifierMixin):
        return None
    usual = type(final).decision_function in (LinearScorer.decision_function, LinearClassifierMixin.decision_function)
    if not usual and not type(final).__module__.startswith(("sklearn.", "taufpl.")):
        return None
    coef = final.coef_.toarray() if hasattr(final.coef_, "toarray") else final.coef_
    sign = 1.0 if final.classes_[1] == positive else -1.0
    intercept = float(np.ravel(final.intercept_)[0])
    return Linear(sign * np.asarray(coef, dtype=np.float64).reshape(1, -1)[0], sign * intercept)


def _names(model: Any, steps: tuple[Any, ...], scorer: Scorer) -> tuple[tuple[str, ...] | None, bool]:
    given = getattr(model, "feature_names_in_", None)
    if given is not None:
        return tuple(str(name) for name in given), True
    count = getattr(model, "n_features_in_", None)
    if count is None and not steps and scorer.linear is not None:
        count = scorer.linear.coef.size
    if count is None:
        return None, False
    return tuple(f"x{column}" for column in range(count)), False
