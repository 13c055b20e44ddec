"""Classifiers with a chosen threshold: the run of a strategy, what is reported, looks, segments, recalibration."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from taufpl._row_hashes import copies_among
from taufpl._sklearn import Interval, StrOptions, num_samples
from taufpl._types import Array, RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.estimators._array_table import ArrayScores, ArrayTable
from taufpl.estimators._predictions import (
    accuracy,
    differs_in_precision,
    in_other_precision,
    labels_of,
    precision_of,
    some_rows,
    steps_and_last,
)
from taufpl.estimators._progress import printing
from taufpl.estimators._reading import (
    RowSegments,
    check_known,
    count_labels,
    labels_of_rows,
    read_segments,
    read_units,
    score_table,
    split_labels,
)
from taufpl.estimators._search import tau_grid
from taufpl.estimators._table import Table
from taufpl.estimators.strategies import (
    STRATEGIES,
    Fitter,
    HeldOut,
    Outcome,
    Plan,
    Strategy,
    check_segment_strategy,
    limits_of,
    strategy_of,
    without_earlier_parameters,
)
from taufpl.exceptions import TooFewNegativesWarning, UnseenSegmentWarning
from taufpl.operators import ignoring, is_remote, to_numpy
from taufpl.preprocessing import without_unseen_warnings
from taufpl.thresholding import (
    ANY,
    FIT,
    RECALIBRATE,
    RESTART,
    Evidence,
    NegativeSequence,
    SegmentThresholds,
    ThresholdRecord,
    level_codes,
    shown_names,
)

LOOKS_CONSTRAINT: list[Any] = [Interval(Integral, 1, None, closed="left"), StrOptions({ANY})]


def share_of_delta(looks: int | str, delta: float, history: Sequence[ThresholdRecord]) -> float:
    """The delta of the next threshold, or of the next sequence of thresholds, after those that were chosen before.

    - 1: all of it, every time.
    - n: one n-th for each threshold. A little more, 1 - (1 - delta)^(1/n), would do where no negative chooses twice,
      which nobody can tell; for n = 50 and delta = 0.05 that is 0.001026 beside 0.001.
    - "any": half of what is left, so that there is always something left for a new sequence.
    """
    if looks == 1:
        return delta
    spent = [each.delta_spent for each in history if each.delta_spent > 0]
    left = delta - sum(spent)
    if looks == ANY:
        share = left / 2.0
    else:
        n_left = int(looks) - len(spent)
        share = left / n_left if n_left > 0 else 0.0
    if share <= 0.0:
        raise ValueError(
            f"delta={delta:g} is spent: with looks={looks!r}, {len(spent)} thresholds have been chosen, which hold "
            "together. Fit a new model, with looks='any' where the number of thresholds is not known beforehand."
        )
    return share


def with_looks(plan: Plan, looks: int | str, history: Sequence[ThresholdRecord]) -> Plan:
    """A plan with the share of delta that the next threshold has, or the next sequence of negatives."""
    if looks == 1:
        return plan
    share = share_of_delta(looks, plan.bound_delta, history)
    return replace(plan, delta=share, sequences=() if looks == ANY else None)


def check_restart(looks: int | str, restart: bool) -> None:
    """Refuse to restart what is no sequence."""
    if restart and looks != ANY:
        raise ValueError(
            f"restart=True begins a new sequence of negatives, for looks='any'; got looks={looks!r}, where every "
            "threshold rests on new negatives alone."
        )


THRESHOLD_CONSTRAINTS: dict[str, list[Any]] = {
    "threshold": [StrOptions({"auto", *STRATEGIES}), Strategy],
    "delta": [Interval(Real, 0, 1, closed="neither"), None],
    "insufficient": [StrOptions({"raise", "infinite"})],
    "looks": LOOKS_CONSTRAINT,
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}


_silently = ignoring(Warning)


class ThresholdedMixin(ABC):
    """Thresholds on a score, with their evidence.

    A class that uses it has `_raw_scores(X)`, and calls `_keep_evidence` at the end of `fit`.
    """

    tau: Any
    cv: Any
    pos_label: Any
    classes_: Array
    threshold: str | Strategy
    delta: float | None
    insufficient: Any
    looks: int | str = 1  # models of older files do not say
    random_state: Any
    n_jobs: int | None
    verbose: int = 0  # models of older files do not say
    thresholds_: Vector
    threshold_history_: tuple[ThresholdRecord, ...] = ()  # models of older files have none
    segments_: SegmentThresholds | None = None
    _hidden_terms: float | None = None  # the size of the intercept of a linear score; None for other scores
    # The precision of the rows that chose the threshold; None where another one does no harm.
    _precision: Array | None = None
    sequences_: tuple[NegativeSequence, ...] = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(without_earlier_parameters(state))  # type: ignore[misc]

    @property
    def _sign(self) -> float:
        """-1 where low scores mean positive."""
        return 1.0

    @property
    def _raw_threshold(self) -> float:
        """The strictest threshold, on the scale of `_raw_scores`."""
        return float(to_numpy(self.thresholds_)[int(np.argmin(self._taus()))])

    def _recalibrate(
        self, X: Any, y: Any, groups: Any, restart: bool, source: str | None, segments: RowSegments | None = None
    ) -> Self:
        """Choose the threshold anew from fresh negatives, and those of its sequence, unless that is to begin anew."""
        check_is_fitted(self)
        source = None if source is None else os.fspath(source)  # before anything is changed
        plan = self._next_plan(restart, segments)
        with without_unseen_warnings, score_table(self, self._raw_scores(X), X, y, groups, plan) as (table, scores):
            rounded = scores.with_rounding(self._score_rounding, self._hidden_terms)
            outcome = limits_of(plan, table).calibrate(table, rounded)
        before, history = self.threshold_, self.threshold_history_
        self._keep_evidence(self._looked_at(outcome, X), X)
        record = self._record(RESTART if restart else RECALIBRATE, before, source)
        if plan.sequences:  # which were paid for when they began
            record = replace(record, delta_spent=0.0)
        self.threshold_history_ = (*history, record)
        return self

    def _looked_at(self, outcome: Outcome, X: Any) -> Outcome:
        """The outcome, without its guarantee where scores or segments are seen to hang on more than the row."""
        return outcome

    def _next_plan(self, restart: bool = False, segments: RowSegments | None = None) -> Plan:
        """The plan of a recalibration."""
        check_restart(self.looks, restart)
        plan, sequences = replace(self._whole_delta_plan(segments), segments_before=self.segments_), self.sequences_
        if restart or self.looks != ANY or not sequences:
            return with_looks(plan, self.looks, self.threshold_history_)
        if self.segments_ is None:
            if segments is not None:
                raise ValueError("limits by segment begin sequences of their own: give restart=True.")
            before = self.evidence_ if isinstance(self.evidence_, tuple) else (self.evidence_,)
            if plan.taus != tuple(each.tau for each in before):
                raise ValueError(
                    "tau has changed, and a sequence of thresholds is for the tau it began with: give restart=True."
                )
            return replace(plan, delta=sequences[0].delta, sequences=sequences)
        assert isinstance(self.evidence_, Evidence)
        division = None if segments is None else self.segments_.division(self.insufficient, list(segments.taus))
        return replace(plan, delta=self.evidence_.delta, sequences=sequences, division=division)

    def _training_rows(
        self, y: Any, groups: Any, order: Any, segments: RowSegments | None = None, kept: RowIndices | None = None
    ) -> RowIndices | None:
        """The rows that `fit` learns from, of those that are kept; None where it learns from all."""
        kept = np.arange(len(y)) if kept is None else kept
        labels = split_labels(np.asarray(y)[kept], self._positive_label())
        plan = self._plan(segments)
        units = read_units(groups, order, len(y), plan.segment_codes)
        table = ArrayTable(None, kept[labels.positive_rows], kept[labels.negative_rows], units)
        strategy = self._strategy().for_rows(table, plan, warns=False)
        if not isinstance(strategy, HeldOut):
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                f"training_rows needs a random_state that is a number, got {self.random_state!r}: with any other, fit "
                "divides the rows anew. Set random_state=0, say."
            )
        has_positives = self._learns_from_positives()
        with strategy.divide(table, plan, needs_positives=has_positives) as (train, _, _):
            rows: RowIndices = train.rows if has_positives else train.negatives().rows
            return rows

    def _positive_label(self) -> Any:
        """The label of the positives, as far as it is given."""
        return self.pos_label

    def _learns_from_positives(self) -> bool:
        """Whether a fit looks at positives."""
        return True

    def _read_scores(self, scores: Vector, X: Any, y: Any, groups: Any, plan: Plan) -> tuple[ArrayTable, ArrayScores]:
        """Rows in memory that a fitted scorer has not seen; all are negatives where there are no labels."""
        classes, n_rows = to_numpy(self.classes_), scores.size
        labels = np.full(n_rows, classes[0]) if y is None else to_numpy(y)
        if labels.shape != (n_rows,):
            raise ValueError(f"y must have one label a row of X, {(n_rows,)}; got shape {labels.shape}.")
        check_known(count_labels(labels), classes)
        rows = (np.flatnonzero(labels == classes[1]), np.flatnonzero(labels == classes[0]))
        table = ArrayTable(X, *rows, read_units(groups, None, n_rows, plan.segment_codes))
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
        """The tolerances; of those by segment the strictest."""
        if isinstance(self.tau, Mapping):
            return (float(min(self.tau.values())),)
        return tuple(np.atleast_1d(self.tau).astype(float).tolist())

    def _plan(self, segments: RowSegments | None = None) -> Plan:
        """The plan of a fit."""
        return with_looks(self._whole_delta_plan(segments), self.looks, ())

    def _whole_delta_plan(self, segments: RowSegments | None = None) -> Plan:
        """The plan with the whole of delta."""
        if segments is not None:
            check_segment_strategy(self._strategy())
        return Plan(
            self._taus(),
            self.delta,
            5 if isinstance(self.cv, str) else int(self.cv),
            self.insufficient,
            int(check_random_state(self.random_state).randint(2**31 - 1)),
            segments,
        )

    def _strategy(self) -> Strategy:
        """The strategy that `threshold` names or is."""
        return strategy_of(self.threshold)

    def _run_strategy(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Divide the rows, fit, and choose the threshold."""
        forget(self, "_steps_divided")
        strategy = self._strategy().for_rows(table, plan)
        self.strategy_ = strategy.name
        table = table.with_copies() if strategy.promises(plan) else table
        with printing(self.verbose):
            outcome = strategy.run(fitter, table, plan)
        # One that holds out knows on which side of its division copies lie.
        return outcome if strategy.holds_out else outcome.without_guarantee(table.copies())

    def _keep_evidence(self, outcome: Outcome, X: Any) -> None:
        """Set thresholds and evidence, from these rows."""
        if outcome.segments is not None:
            _warn_unproven(outcome.segments.unproven)  # first of all: a warning may be made an error
        if any(each.threshold == math.inf and each.rank is not None for each in outcome.evidence):
            warn_user(
                "so many negatives have an infinite score that the threshold is infinite, too: no row can be above it, "
                "and none is predicted positive. Let the estimator give finite scores.",
                UserWarning,
            )
        rounding = outcome.rounding
        self._score_rounding, self._hidden_terms = rounding.sums, rounding.hidden
        limits = outcome.evidence if outcome.segments is None else outcome.segments.evidence
        thresholds = [each.threshold for each in limits if math.isfinite(each.threshold)]
        margin = min(map(rounding.of_input, thresholds), default=0.0)
        is_safe = margin > 0.0 and not steps_and_last(getattr(self, "estimator_", self))[0]
        self._precision = None if is_safe or X is None else self._precision_of(X, margin)
        forget(self, "segments_", "sequences_")
        kept = tuple(map(self._as_kept, outcome.evidence))
        if outcome.sequences is not None:
            self.sequences_ = outcome.sequences
        if outcome.segments is not None:
            self.segments_ = outcome.segments.with_evidence(self._as_kept)
            kept = tuple(replace(each, threshold=self.segments_.strictest) for each in kept)
        self.thresholds_ = np.array([each.threshold for each in kept])
        strictest = int(np.argmin(self._taus()))
        self.threshold_ = self._sign * float(self.thresholds_[strictest]) + 0.0  # and no -0.0
        single = np.ndim(self.tau) == 0
        self.evidence_ = kept[0] if single else kept
        estimates = np.array([each.fpr_estimate for each in kept])
        bounds = np.array([each.fpr_upper_bound for each in kept])
        self.fpr_estimate_ = float(estimates[0]) if single else estimates
        self.fpr_upper_bound_ = float(bounds[0]) if single else bounds
        self.threshold_history_ = (self._record(FIT),)

    def _record(self, event: str, before: float | None = None, source: str | None = None) -> ThresholdRecord:
        """The entry of `threshold_history_` about the threshold as it is now."""
        several = self.evidence_ if isinstance(self.evidence_, tuple) else (self.evidence_,)
        limits = several if self.segments_ is None else self.segments_.evidence
        # A sequence is paid for when it begins, whatever comes of it.
        is_paid = bool(self.sequences_) or any(each.guaranteed for each in limits)
        spent = several[0].delta or 0.0 if is_paid else 0.0
        return ThresholdRecord.now(
            event, several[0].n_negative, before, self.threshold_, delta_spent=spent, source=source
        )

    def _as_kept(self, evidence: Evidence) -> Evidence:
        """Evidence as it is kept: with the number of looks."""
        return replace(evidence, looks=self.looks)

    def _precision_of(self, X: Any, margin: float) -> Array | None:
        """The precision of each column of X, or of all, in bytes; None where scores move by no more than a margin."""
        if is_remote(X):
            return precision_of(X)
        rows = some_rows(X)
        try:
            with _silently, np.errstate(over="ignore", invalid="ignore"):
                scores, others = self._raw_scores(rows), self._raw_scores(in_other_precision(rows))
                same = np.allclose(scores, others, rtol=0.0, atol=margin, equal_nan=True)
        except Exception:  # whatever refuses these rows minds
            same = False
        return None if same else precision_of(rows)

    def _check_precision(self, X: Any) -> None:
        """Warn where X is of another precision than the rows that chose the threshold."""
        if self._precision is not None and differs_in_precision(X, self._precision):
            warn_user(
                "X is not of the precision of the rows that the threshold was chosen on (float32 here and float64 "
                "there, or the reverse): rows whose score is tied with the threshold may come to lie above it, and tau "
                "is not promised for them. Give X as it was given to fit, or recalibrate on rows as they come now.",
                UserWarning,
            )


def next_threshold(estimator: ThresholdedMixin, restart: bool = False) -> tuple[float, int]:
    """The delta of a classifier's next threshold, and how many new negatives it takes.

    A ValueError where delta is spent, or where there is nothing to restart.
    """
    plan = estimator._next_plan(restart)
    n_before = sum(each.n_negative for each in plan.sequences or ())
    return plan.bound_delta, max(1, plan.n_needed - n_before)


def _warn_unproven(unproven: tuple[str, ...]) -> None:
    if unproven:
        warn_user(
            f"too few negatives for a proof in {len(unproven)} segment{'s' * (len(unproven) > 1)}, even together, "
            f"beside the other limits: {shown_names(unproven)}. They get the strictest threshold, without a guarantee. "
            "Collect more of their negatives, raise their tolerance, or set insufficient='infinite': no alarms there.",
            TooFewNegativesWarning,
        )


def forget(estimator: Any, *names: str) -> None:
    """Remove what an earlier fit with other settings has left."""
    for name in names:
        estimator.__dict__.pop(name, None)


SEGMENT_CONSTRAINT: list[Any] = [str, Interval(Integral, 0, None, closed="left"), callable, None]

_NO_LABELS = (
    "this model has a threshold for each segment, and nothing says of which segment a row is: give segments=, one "
    "label a row."
)


class SegmentedMixin(ThresholdedMixin):
    """A threshold for all rows, or one for each segment."""

    segments: str | int | Callable[[Any], Any] | None = None  # models of older files do not say

    @abstractmethod
    def decision_function(self, X: Any, segments: Any = None) -> Vector:
        """Score minus threshold."""

    def predict(self, X: Any, segments: Any = None) -> Array:
        """The label of each row: positive where the score is strictly above the threshold.

        Parameters
        ----------
        X : rows of shape (n_samples, n_features)
            As `decision_function` takes them.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where limits are by segment and the parameter `segments` names no column of X.

        Returns
        -------
        array of shape (n_samples,)
            Where X is; labels that are text are a NumPy array where X is a tensor.
        """
        return labels_of(self.decision_function(X, segments), self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None, segments: Any = None) -> float:
        """Share of rows whose label is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
        y : {array-like, dask collection, tensor} of shape (n_samples,)
        sample_weight : {array-like, dask collection, tensor} of shape (n_samples,), default=None
        segments : array-like of shape (n_samples,), default=None
            As in `predict`.

        Returns
        -------
        float
        """
        return accuracy(y, self.predict(X, segments), sample_weight)

    def recalibrate(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        segments: Any = None,
        *,
        restart: bool = False,
        source: str | None = None,
    ) -> Self:
        """Choose the threshold anew from fresh negatives, without refitting: after a drift, say.

        It becomes the order statistic with a guarantee at `delta` (0.05 if that is None), provided that the scorer has
        never seen these negatives. `looks` says what holds for all thresholds over the life of the model together; with
        ``looks="any"`` the negatives are added to those before.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Fresh negatives; with `y`, the negatives among the rows choose, and the positives tell the recall.
        y : array-like of shape (n_samples,), default=None
            Labels; None says that all rows are negatives.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together: each group gives the threshold one negative, drawn at random.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, as in `predict`. All thresholds are chosen anew: a segment without fresh negatives
            has no limit afterwards, and a threshold that is not below the one that it had; one that was not there
            before can have its own.
        restart : bool, default=False
            With ``looks="any"``: forget the negatives so far, and begin a new sequence, with half of the delta that is
            left. After a drift, say: thresholds of a sequence are about one source of negatives.
        source : str, default=None
            Where the rows came from, for `threshold_history_`.

        Returns
        -------
        self
            Its `threshold_`, `evidence_`, `segments_`, `fpr_estimate_` and `fpr_upper_bound_` are new, and
            `threshold_history_` has one more entry.
        """
        check_is_fitted(self)
        before = self.segments_
        if before is not None and segments is None and self.segments is None:
            raise ValueError(_NO_LABELS)
        known = () if before is None else (*before.members, *before.unproven)
        return self._recalibrate(X, y, groups, restart, source, self._row_segments(X, segments, known))

    def training_rows(self, y: Any, groups: Any = None, order: Any = None, segments: Any = None) -> RowIndices | None:
        """The rows that `fit` would learn from, for those who prepare the rows beforehand.

        What is decided before a fit (which columns are used, how they are scaled) is part of the scorer: for "np" it
        must not look at the rows that choose the threshold. It takes a `random_state` that is a number; with None every
        call divides the rows anew. A file of the classifier behind steps that have learned is not called guaranteed,
        whichever rows they learned from: it cannot tell.

        Parameters
        ----------
        y, groups, order : array-like of shape (n_samples,)
            As they will be given to `fit`.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, also where `fit` finds them in a column of X.

        Returns
        -------
        ndarray of int, or None
            Row numbers, ascending; None where `fit` learns from all rows, because the threshold is not "np".
        """
        return self._training_rows(y, groups, order, self._segments_alone(segments, len(y)))

    def _segments_alone(self, given: Any, n_rows: int) -> RowSegments | None:
        """The segments of rows of which no columns are known."""
        if given is None and self.segments is not None:
            raise ValueError("training_rows sees no columns: give segments=, the label of each row's segment.")
        return read_segments(given, self.tau, n_rows)

    def _row_segments(self, X: Any, given: Any, known: Sequence[str] = ()) -> RowSegments | None:
        """The segments of rows that choose thresholds, with their tolerances; `known` ones may have no row."""
        labels = labels_of_rows(self.segments, X, given)
        found = read_segments(labels, self.tau, 0 if labels is None else num_samples(X), known)
        if found is None:
            tau_grid(self.tau, "tau")
            return None
        return found if callable(self.segments) else replace(found, column=self.segments)

    def _threshold_of(self, X: Any, given: Any) -> float | Vector:
        """The threshold of all rows, or that of each row's segment."""
        self._check_precision(X)
        if self.segments_ is None:
            if given is not None:
                raise ValueError(
                    "segments are given, and this model has one threshold for all rows: fit it with segments, or leave "
                    "them out."
                )
            return self._raw_threshold
        labels = labels_of_rows(self.segments, X, given)
        if labels is None:
            raise ValueError(_NO_LABELS)
        names, codes, _ = level_codes(labels, "segments", num_samples(X))
        _warn_unseen(self.segments_, names, codes)
        return self.segments_.thresholds(names)[codes]


def _warn_unseen(limits: SegmentThresholds, names: Sequence[str], codes: RowIndices) -> None:
    """Say which segments have no proven limit: those that had no negatives, or too few."""
    unseen = [place for place, name in enumerate(names) if name not in limits.members]
    if unseen:
        n_rows, shown = int(np.count_nonzero(np.isin(codes, unseen))), shown_names([names[place] for place in unseen])
        warn_user(
            f"{n_rows:,} of {codes.size:,} rows are of segments without a proven limit, which get the strictest "
            f"threshold and no guarantee: {shown}. Recalibrate with negatives of theirs.",
            UnseenSegmentWarning,
        )
