"""What classifiers with a chosen threshold share: what they report, and how they are calibrated anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from taufpl.estimators._block_calibrate import check_known, counted, held_scores
from taufpl.estimators._strategies import STRATEGIES, Plan
from taufpl.operators import is_elsewhere
from taufpl.operators._foreign import to_numpy
from taufpl.thresholding import USUAL_DELTA, Evidence, JointOrderStatistic

Vector = NDArray[np.float64]

THRESHOLD_CONSTRAINTS: dict[str, list[Any]] = {
    "threshold": [StrOptions(set(STRATEGIES))],
    "delta": [Interval(Real, 0, 1, closed="neither"), None],
    "n_rounds": [Interval(Integral, 1, None, closed="left")],
    "train_share": [Interval(Real, 0, 1, closed="neither")],
    "rule": [StrOptions({"np_score", "quantile"})],
    "combine": [StrOptions({"mean", "refit"})],
    "holdout": [Interval(Real, 0, 1, closed="neither")],
    "insufficient": [StrOptions({"raise", "infinite"})],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


class ThresholdedMixin(ABC):
    """Thresholds on a score, with their evidence.

    A class that uses it has `_raw_scores(X)`, and calls `_keep_evidence` at the end of `fit`.
    """

    tau: Any
    cv: Any
    classes_: NDArray[Any]
    threshold: str
    delta: float | None
    n_rounds: int
    train_share: float
    rule: str
    combine: str
    holdout: float
    insufficient: Any
    random_state: Any
    n_jobs: int | None
    thresholds_: Vector

    def recalibrate(self, X: Any, y: Any = None) -> Self:
        """Choose the threshold anew from fresh negatives, without refitting: after a drift, say.

        It becomes the order statistic with a guarantee at `delta` (0.05 if that is None), provided that the scorer has
        never seen these negatives.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Fresh negatives; with `y`, the negatives among the rows choose, and the positives tell the recall.
        y : array-like of shape (n_samples,), default=None
            Labels; None says that all rows are negatives.

        Returns
        -------
        self
            Its `threshold_`, `evidence_`, `fpr_estimate_` and `fpr_upper_bound_` are new.
        """
        check_is_fitted(self)
        scores = self._raw_scores(X)
        delta = USUAL_DELTA if self.delta is None else self.delta
        rule = JointOrderStatistic(self._taus(), delta, self.insufficient)
        if is_elsewhere(scores):
            with held_scores(scores, y, to_numpy(self.classes_)) as held:
                evidence = held.with_recall(rule.choose_all(held.negative))
        else:
            negative, positive = self._by_class(scores, y)
            evidence = tuple(each.with_recall(positive) for each in rule.choose_all(negative))
        self._keep_evidence(evidence, self._score_rounding)
        return self

    def _by_class(self, scores: Vector, y: Any) -> tuple[Vector, Vector]:
        """Scores of negatives and of positives; all are of negatives where there are no labels."""
        if y is None:
            return scores, scores[:0]
        labels, classes = to_numpy(y), to_numpy(self.classes_)
        if labels.shape != scores.shape:
            raise ValueError(f"y must have one label a row of X, {scores.shape}; got shape {labels.shape}.")
        check_known(counted(labels), classes)
        return scores[labels == classes[0]], scores[labels == classes[1]]

    @abstractmethod
    def _raw_scores(self, X: Any) -> Any:
        """Scores, before any threshold is taken off; where X is."""

    def _taus(self) -> tuple[float, ...]:
        return tuple(np.atleast_1d(self.tau).astype(float).tolist())

    def _plan(self) -> Plan:
        return Plan(
            self._taus(),
            self.delta,
            self.n_rounds,
            self.train_share,
            self.rule,
            self.combine,
            self.holdout,
            5 if isinstance(self.cv, str) else int(self.cv),
            self.insufficient,
            int(check_random_state(self.random_state).randint(2**31 - 1)),
            self.n_jobs,
        )

    def _keep_evidence(self, evidence: tuple[Evidence, ...], rounding: float) -> None:
        """Set thresholds and evidence; the thresholds are raised by what rounding can do to a score.

        Without that, negatives tied with the threshold could be predicted positive because their scores were summed in
        another order than when the threshold was chosen.
        """
        self._score_rounding = rounding
        raised = tuple(replace(each, threshold=each.threshold + rounding) for each in evidence)
        self.thresholds_ = np.array([each.threshold for each in raised])
        strictest = int(np.argmin(self._taus()))
        self.threshold_ = float(self.thresholds_[strictest])
        single = np.ndim(self.tau) == 0
        self.evidence_ = raised[0] if single else raised
        estimates = np.array([each.fpr_estimate for each in raised])
        bounds = np.array([each.fpr_upper_bound for each in raised])
        self.fpr_estimate_ = float(estimates[0]) if single else estimates
        self.fpr_upper_bound_ = float(bounds[0]) if single else bounds


def finite(decisions: Vector) -> Vector:
    """Decisions without infinities, which metrics refuse: a threshold of +inf makes all of them as low as can be."""
    most = float(np.finfo(np.float64).max)
    return np.nan_to_num(decisions, nan=-most, posinf=most, neginf=-most)


def forget(estimator: Any, *names: str) -> None:
    """Remove what an earlier fit with other settings has left."""
    for name in names:
        estimator.__dict__.pop(name, None)
