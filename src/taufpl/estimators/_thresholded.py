"""What classifiers with a chosen threshold share: what they report, and how they are calibrated anew."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import Interval, StrOptions
from taufpl.estimators._block_calibrate import check_known, counted, held_scores
from taufpl.estimators._block_strategies import BLOCK_STRATEGIES, BlockFitter
from taufpl.estimators._block_table import Part
from taufpl.estimators._holdout import choose_strategy, divide
from taufpl.estimators._labels import TwoClasses, split_labels
from taufpl.estimators._plan import Plan
from taufpl.estimators._repeats import find_repeats, repeats_caveat
from taufpl.estimators._strategies import STRATEGIES, Fitter, Outcome
from taufpl.estimators._units import Rows, read_units, refuse_units
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.operators import is_remote, to_numpy
from taufpl.thresholding import USUAL_DELTA, Evidence, JointOrderStatistic

Vector = NDArray[np.float64]

THRESHOLD_CONSTRAINTS: dict[str, list[Any]] = {
    "threshold": [StrOptions({"auto", *STRATEGIES})],
    "delta": [Interval(Real, 0, 1, closed="neither"), None],
    "n_rounds": [Interval(Integral, 1, None, closed="left")],
    "train_share": [Interval(Real, 0, 1, closed="neither")],
    "rule": [StrOptions({"np_score", "quantile"})],
    "combine": [StrOptions({"mean", "refit"})],
    "holdout": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
    "measure_recall": ["boolean"],
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
    pos_label: Any
    classes_: NDArray[Any]
    threshold: str
    delta: float | None
    n_rounds: int
    train_share: float
    rule: str
    combine: str
    holdout: float | str
    measure_recall: bool = True  # models of older files do not say
    insufficient: Any
    random_state: Any
    n_jobs: int | None
    thresholds_: Vector

    def recalibrate(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Choose the threshold anew from fresh negatives, without refitting: after a drift, say.

        It becomes the order statistic with a guarantee at `delta` (0.05 if that is None), provided that the scorer has
        never seen these negatives.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Fresh negatives; with `y`, the negatives among the rows choose, and the positives tell the recall.
        y : array-like of shape (n_samples,), default=None
            Labels; None says that all rows are negatives.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together: each group gives the threshold one negative, drawn at random.

        Returns
        -------
        self
            Its `threshold_`, `evidence_`, `fpr_estimate_` and `fpr_upper_bound_` are new.
        """
        check_is_fitted(self)
        scores = self._raw_scores(X)
        delta = USUAL_DELTA if self.delta is None else self.delta
        rule = JointOrderStatistic(self._taus(), delta, self.insufficient)
        if is_remote(scores):
            refuse_units(groups, None)
            with held_scores(scores, y, to_numpy(self.classes_)) as held:
                evidence = held.with_recall(rule.choose_all(held.negative))
        else:
            labels = self._known_labels(y, scores.size)
            evidence = self._fresh_evidence(X, scores, labels, groups, rule.choose_all)
        self._keep_evidence(evidence, self._score_rounding)
        return self

    def training_rows(self, y: Any, groups: Any = None, order: Any = None) -> Rows | None:
        """The rows that `fit` would learn from, for those who prepare the rows beforehand.

        What is decided before a fit (which columns are used, how they are scaled) is part of the scorer: for "np" it
        must not look at the rows that choose the threshold. It takes a `random_state` that is a number; with None every
        call divides the rows anew.

        Parameters
        ----------
        y, groups, order : array-like of shape (n_samples,)
            As they will be given to `fit`.

        Returns
        -------
        ndarray of int, or None
            Row numbers, ascending; None where `fit` learns from all rows, because the threshold is not "np".
        """
        labels = split_labels(np.asarray(y), self.pos_label)
        units, plan = read_units(groups, order, len(y)), self._plan()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewNegativesWarning)
            name = choose_strategy(self.threshold, units.count(labels.negative_rows), plan, ordered=order is not None)
        return divide(labels.positive_rows, labels.negative_rows, units, plan).train if name == "np" else None

    def _known_labels(self, y: Any, n_rows: int) -> TwoClasses:
        """Rows by class; all are negatives where there are no labels."""
        classes = to_numpy(self.classes_)
        if y is None:
            return TwoClasses(classes, np.arange(0), np.arange(n_rows))
        labels = to_numpy(y)
        if labels.shape != (n_rows,):
            raise ValueError(f"y must have one label a row of X, {(n_rows,)}; got shape {labels.shape}.")
        check_known(counted(labels), classes)
        return TwoClasses(classes, np.flatnonzero(labels == classes[1]), np.flatnonzero(labels == classes[0]))

    def _fresh_evidence(
        self, X: Any, scores: Vector, labels: TwoClasses, groups: Any, choose: Callable[..., tuple[Evidence, ...]]
    ) -> tuple[Evidence, ...]:
        """Evidence from scores of rows that a fitted scorer has not seen: one negative of each group chooses."""
        units = self._with_units(labels, X, groups).units
        negatives = units.one_each(labels.negative_rows, self._plan().seed)
        evidence = choose(scores[negatives])
        caveat = repeats_caveat(units.repeats, negatives[:0], negatives)
        if caveat is not None:
            evidence = tuple(each.without_guarantee(caveat) for each in evidence)
        return tuple(each.with_recall(scores[labels.positive_rows]) for each in evidence)

    def _with_units(self, labels: TwoClasses, X: Any, groups: Any, order: Any = None) -> TwoClasses:
        """Labels with the units of the rows; copies are looked for where a promise is made and no groups are given."""
        units = read_units(groups, order, X.shape[0] if hasattr(X, "shape") else len(X))
        promises = self.threshold != "train" and (self.threshold != "oob" or self.delta is not None)
        if groups is None and promises:
            units = replace(units, repeats=find_repeats(X, labels.negative_rows))
        return replace(labels, units=units)

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
            bool(self.measure_recall),
            5 if isinstance(self.cv, str) else int(self.cv),
            self.insufficient,
            int(check_random_state(self.random_state).randint(2**31 - 1)),
            self.n_jobs,
        )

    def _choose_strategy(self, n_units: int, plan: Plan, *, ordered: bool = False) -> str:
        """The strategy that `threshold` stands for, kept as `strategy_`."""
        self.strategy_ = choose_strategy(self.threshold, n_units, plan, ordered=ordered)
        return self.strategy_

    def _run_strategy(self, fitter: Fitter, plan: Plan) -> Outcome:
        """Divide the rows, fit, and choose the threshold."""
        units, negatives = fitter.units, fitter.negative_rows
        name = self._choose_strategy(units.count(negatives), plan, ordered=units.times is not None)
        outcome = STRATEGIES[name](fitter, plan)
        # "np" itself knows on which side of its division copies lie.
        caveat = None if name == "np" else repeats_caveat(units.repeats, negatives[:0], negatives)
        return outcome if caveat is None else outcome.without_guarantee(caveat)

    def _run_block_strategy(self, fitter: BlockFitter, part: Part, plan: Plan) -> Outcome:
        """The same for rows that live elsewhere."""
        return BLOCK_STRATEGIES[self._choose_strategy(part.n_negative, plan)](fitter, part, plan)

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
