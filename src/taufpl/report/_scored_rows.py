"""Labelled rows with the scores that a fitted model gives them: all that a report is about."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from taufpl._checks import check_scores
from taufpl._sklearn import num_samples
from taufpl._types import Vector
from taufpl.estimators import (
    KernelScorer,
    LinearScorer,
    ThresholdedMixin,
    labels_of_rows,
    steps_and_last,
    transformed,
    wrapped_head,
)
from taufpl.exceptions import UnseenSegmentWarning
from taufpl.operators import as_operator
from taufpl.thresholding import USUAL_DELTA, Evidence

Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """A fitted model, labelled rows, and the scores that the model gives them.

    `final` is the estimator in the model that has the threshold, a pipeline's last step or a search's best. `outer` are
    the rows as given, `inner` as `final` sees them. A row is positive if its raw score is strictly above the threshold.
    `negative` and `positive` are the scores of the two classes, sorted upward. Taus, thresholds and evidence have one
    entry a tolerance; the evidence is None where the threshold is a training quantile without any. Where the model has
    a threshold for each segment, `segments` has the label of each row's, and scores are measured from its threshold.
    """

    model: Any
    final: Any
    outer: Any
    inner: Any
    scores: Vector
    is_positive: Mask
    taus: tuple[float, ...]
    thresholds: tuple[float, ...]
    evidence: tuple[Evidence | None, ...]
    negative: Vector
    positive: Vector
    segments: Any = None

    @property
    def main(self) -> int:
        """Number of the tolerance that `predict` uses: the strictest."""
        return int(np.argmin(self.taus))

    @property
    def tau(self) -> float:
        """The strictest tolerance."""
        return self.taus[self.main]

    @property
    def threshold(self) -> float:
        """The threshold that `predict` uses."""
        return self.thresholds[self.main]

    @property
    def is_flagged(self) -> Mask:
        """Which rows are predicted positive."""
        return self.scores > self.threshold

    @property
    def delta(self) -> float:
        """The model's own probability of failure, or the usual one."""
        own = getattr(self.final, "delta", None)
        return USUAL_DELTA if own is None else float(own)

    @property
    def labels(self) -> list[Any]:
        """Label of negatives, then of positives."""
        return list(np.asarray(self.final.classes_).tolist())

    def nearest(self, n: int) -> tuple[Positions, Positions]:
        """At most n rows above the threshold, the lowest first, and at most n at or below it, the highest first."""
        above, below = np.flatnonzero(self.is_flagged), np.flatnonzero(~self.is_flagged)
        return above[lowest(self.scores[above], n)], below[lowest(-self.scores[below], n)]


def score_rows(model: Any, X: Any, y: Any, segments: Any = None) -> ScoredRows:
    """Check a fitted model and labelled rows, and score the rows."""
    final, inner = _unwrapped(model, X)
    is_positive = _check_labels(y, X, final.classes_)
    labels = None
    if getattr(final, "segments_", None) is not None:
        labels = labels_of_rows(final.segments, inner, segments)
    elif segments is not None:
        raise ValueError("segments are for models with a threshold for each segment; use by= for rates by a column.")
    raw = _raw_scores(final, inner) if labels is None else _decisions(final, inner, labels)
    scores = check_scores("the scores of the model", raw)
    evidence: tuple[Evidence | None, ...]
    if isinstance(final, ThresholdedMixin):
        evidence = final.evidence_ if isinstance(final.evidence_, tuple) else (final.evidence_,)
        taus = tuple(float(each.tau) for each in evidence if each is not None)
        thresholds = (0.0,) if labels is not None else tuple(float(each) for each in final.thresholds_)
    else:
        evidence, taus, thresholds = (None,), (float(final.tau),), (-float(final.intercept_[0]),)
    negative, positive = np.sort(scores[~is_positive]), np.sort(scores[is_positive])
    return ScoredRows(
        model, final, X, inner, scores, is_positive, taus, thresholds, evidence, negative, positive, labels
    )


def _unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """The estimator with the threshold, and the rows as it sees them."""
    check_is_fitted(model)
    steps, final = steps_and_last(model)
    if not isinstance(final, (ThresholdedMixin, KernelScorer, LinearScorer)) or not hasattr(final, "tau"):
        raise TypeError(
            "model must be a classifier or a ranker of this library (TauFPLClassifier, KernelTauFPLClassifier, "
            f"NeymanPearsonClassifier, ...) or a pipeline that ends in one; got {type(final).__name__}. Any fitted "
            "scorer can be put under a tolerance first: "
            "NeymanPearsonClassifier(scorer, tau=0.01, cv='prefit').fit(X_new, y_new)."
        )
    return wrapped_head(model), transformed(steps, X)


def _decisions(final: Any, X: Any, labels: Any) -> Vector:
    """Scores measured from the threshold of each row's segment."""
    with warnings.catch_warnings():
        # The table by segment shows those that were never seen.
        warnings.simplefilter("ignore", UnseenSegmentWarning)
        found: Vector = final.decision_function(X, segments=labels)
    return found


def _raw_scores(final: Any, X: Any) -> Vector:
    """Scores before the threshold is taken off: with an infinite one nothing would be left of them."""
    if isinstance(final, ThresholdedMixin | KernelScorer):
        return final._raw_scores(X)
    return as_operator(final._checked(X, reset=False)).matvec(final.coef_[0])


def _check_labels(y: Any, X: Any, classes: NDArray[Any]) -> Mask:
    """Which rows are positive."""
    labels = np.asarray(column_or_1d(y))
    n_rows = num_samples(X)
    if labels.size != n_rows:
        raise ValueError(f"y must have one label a row of X, {n_rows}; got {labels.size}.")
    if not labels.size:
        raise ValueError("X and y must hold at least one row to report on, got none.")
    is_negative, is_positive = (labels == each for each in classes)
    strange = ~(is_negative | is_positive)
    if strange.any():
        raise ValueError(
            f"y must hold the labels that the model was fitted with, {np.asarray(classes).tolist()}; "
            f"got {labels[strange][0]!r} ({int(strange.sum())} of {n_rows} rows have others). "
            "Leave rows without a label out."
        )
    return is_positive


def lowest(keys: Vector, n: int) -> Positions:
    """Positions of the n lowest keys, the lowest first, and among equal ones the first."""
    kept = np.argpartition(keys, n)[:n] if n < keys.size else np.arange(keys.size)
    order: Positions = kept[np.lexsort((kept, keys[kept]))]
    return order
