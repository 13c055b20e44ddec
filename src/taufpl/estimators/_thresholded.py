"""What classifiers with a chosen threshold share: the run of a strategy, what is reported, recalibration."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from taufpl._row_hashes import copies_among
from taufpl._sklearn import Interval, StrOptions
from taufpl._types import Array, RowIndices, Vector
from taufpl.estimators._array_table import ArrayScores, ArrayTable
from taufpl.estimators._reading import check_known, count_labels, read_units, score_table, split_labels
from taufpl.estimators._table import Scores, Table
from taufpl.estimators.strategies import STRATEGIES, Fitter, Outcome, Plan, Strategy, choose_strategy, held_out_count
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.operators import to_numpy
from taufpl.thresholding import FIT, RECALIBRATE, Evidence, ThresholdRecord

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
    classes_: Array
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
    threshold_history_: tuple[ThresholdRecord, ...] = ()  # models of older files have none

    @property
    def _raw_threshold(self) -> float:
        """The strictest threshold, on the scale of `_raw_scores`."""
        return float(to_numpy(self.thresholds_)[int(np.argmin(self._taus()))])

    def recalibrate(self, X: Any, y: Any = None, groups: Any = None, *, source: str | None = None) -> Self:
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
        source : str, default=None
            Where the rows came from, for `threshold_history_`.

        Returns
        -------
        self
            Its `threshold_`, `evidence_`, `fpr_estimate_` and `fpr_upper_bound_` are new, and `threshold_history_` has
            one more entry.
        """
        check_is_fitted(self)
        plan = self._plan()
        with score_table(self, self._raw_scores(X), X, y, groups, plan) as (table, scores):
            evidence = fresh_evidence(table, scores, plan.guarantee.choose_all(scores.negative))
        before, history = self.threshold_, self.threshold_history_
        self._keep_evidence(evidence, self._score_rounding)
        self.threshold_history_ = (*history, self._record(RECALIBRATE, before, source))
        return self

    def training_rows(self, y: Any, groups: Any = None, order: Any = None) -> RowIndices | None:
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
        units = read_units(groups, order, len(y))
        table, plan = ArrayTable(None, labels.positive_rows, labels.negative_rows, units), self._plan()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewNegativesWarning)
            name = choose_strategy(self.threshold, table, plan)
        if not STRATEGIES[name].holds_out:
            return None
        with table.hold_out(held_out_count(table, plan), plan.seed, needs_positives=True) as (train, _):
            return train.rows

    def _read_scores(self, scores: Vector, X: Any, y: Any, groups: Any, plan: Plan) -> tuple[ArrayTable, ArrayScores]:
        """Rows in memory that a fitted scorer has not seen; all are negatives where there are no labels."""
        classes, n_rows = to_numpy(self.classes_), scores.size
        labels = np.full(n_rows, classes[0]) if y is None else to_numpy(y)
        if labels.shape != (n_rows,):
            raise ValueError(f"y must have one label a row of X, {(n_rows,)}; got shape {labels.shape}.")
        check_known(count_labels(labels), classes)
        rows = (np.flatnonzero(labels == classes[1]), np.flatnonzero(labels == classes[0]))
        table = ArrayTable(X, *rows, read_units(groups, None, n_rows))
        if self._strategy().promises(plan):
            table = table.with_copies(self._copies_among)
        drawn = replace(table, negative_rows=table.units.one_each(table.negative_rows, plan.seed))
        return drawn, drawn.with_scores(scores[drawn.by_class])

    def _copies_among(self, X: Any) -> RowIndices | None:
        """Copies among rows that a fitted scorer has not seen."""
        return copies_among(X)

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
        )

    def _strategy(self) -> Strategy:
        """The strategy of fitted scorers, and of what is promised."""
        return STRATEGIES["np" if self.threshold == "auto" else self.threshold]

    def _run_strategy(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Divide the rows, fit, and choose the threshold."""
        self.strategy_ = choose_strategy(self.threshold, table, plan)
        strategy = STRATEGIES[self.strategy_]
        table = table.with_copies() if strategy.promises(plan) else table
        outcome = strategy.run(fitter, table, plan)
        # One that holds out knows on which side of its division copies lie.
        return outcome if strategy.holds_out else outcome.without_guarantee(table.copies())

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
        self.threshold_history_ = (self._record(FIT),)

    def _record(self, event: str, before: float | None = None, source: str | None = None) -> ThresholdRecord:
        """The entry of `threshold_history_` about the threshold as it is now."""
        several = self.evidence_ if isinstance(self.evidence_, tuple) else (self.evidence_,)
        spent = max(each.delta or 0.0 if each.guaranteed else 0.0 for each in several)
        return ThresholdRecord.now(
            event, several[0].n_negative, before, self.threshold_, delta_spent=spent, source=source
        )


def fresh_evidence(table: Table, scores: Scores, evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """Evidence from rows that a fitted scorer has not seen, with what copies among them void, and with the recall."""
    outcome = Outcome((), evidence, 0.0).without_guarantee(table.copies())
    return tuple(each.with_recall(scores.positive) for each in outcome.evidence)


def forget(estimator: Any, *names: str) -> None:
    """Remove what an earlier fit with other settings has left."""
    for name in names:
        estimator.__dict__.pop(name, None)
