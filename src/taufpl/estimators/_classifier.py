"""The linear classifier under a tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import Interval, StrOptions, fit_context
from taufpl._types import Vector
from taufpl.estimators._linear import (
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    TAU_SCALE_CONSTRAINT,
    LinearScorer,
)
from taufpl.estimators._predictions import decisions_of, finite, linear_scores
from taufpl.estimators._reading import follow, make_table
from taufpl.estimators._search import PaperFitter
from taufpl.estimators._table import Table
from taufpl.estimators._thresholded import SEGMENT_CONSTRAINT, THRESHOLD_CONSTRAINTS, SegmentedMixin, forget
from taufpl.estimators.rankings import AutoFitter
from taufpl.estimators.strategies import Outcome, Plan, Strategy, takes_earlier_parameters


class TauFPLClassifier(SegmentedMixin, LinearScorer):
    """A linear classifier whose false-positive rate stays at or under tau.

    It learns a ranking for the tolerance, and then chooses the threshold on negatives that the ranking had not seen.

    Parameters
    ----------
    tau : float or mapping, default=0.01
        Tolerated false-positive rate, between 0 and 1. With `segments`, a mapping has a tolerance for each of them by
        its name, and under "others" that of all which it does not name; the ranking is learned for the strictest.
    ranking : {"auto", "paper"}, default="auto"
        - "auto": eighteen linear rankings, from logistic regression to those that give up the positives which cannot be
          reached, on all features or on those that tell the classes apart, are compared on folds, by the share of
          held-out positives above the thresholds of tau/2, tau and 2 tau; those that cannot be told from the best, five
          at most, are averaged. Up to 4,000 rows are divided into folds twice. Where the paper's objective has its
          optimum at w = 0, these still find what there is (``docs/recall.md``). From 20 million values of X on, support
          vector machines, which would take twice its memory, are not among them. For remote rows (dask
          collections, tensors) they are the twelve on all features.
        - "paper": the ranking of :class:`TauFPLRanker`. It is taken, too, where `reg` or `tau_scale` is a number.
    reg : "cv" or float, default="cv"
        Weight of the penalty of the paper's ranking, or "cv" to choose it as :class:`TauFPLRankerCV` does.
    tau_scale : "cv" or float, default="cv"
        The paper's ranking trains at tau_scale tau; 2 is the 2tau variant. "cv" chooses it together with reg.
    threshold : {"auto", "np", "cross", "oob", "train"} or strategy, default="auto"
        How the threshold is chosen: a name, or an object with settings of its own.

        - "auto": "np" where there are enough negatives for a proof, and "cross", with a warning that says how many it
          would take, where there are not.
        - "np", :class:`~taufpl.thresholding.HeldOut`: the order statistic that keeps P(FPR > tau) <= delta, on
          negatives that are held out of everything else. Proven, whatever the distribution; the ranking sees fewer
          negatives.
        - "cross", :class:`~taufpl.thresholding.CrossFit`: the model is fitted on all rows, and its false positives
          among them are counted and corrected by what models of folds lose on negatives that they have not seen. Uses
          all data. Measured rather than proven.
        - "oob", :class:`~taufpl.thresholding.OutOfBootstrap`: the paper's out-of-bootstrap. In each of some rounds a
          random part of the rows trains, and the rest picks a threshold by a rule, or, with a `delta`, by the order
          statistic; the mean is taken. Nothing is proven; with ``delta=None`` up to six of ten fits exceed the
          tolerance.
        - "train", :class:`~taufpl.thresholding.TrainQuantile`: the quantile of the training negatives. Optimistic.

        .. deprecated:: 0.2
           `n_rounds`, `train_share`, `rule`, `combine`, `holdout` and `measure_recall` are settings of these objects
           now. As parameters of a classifier they give a warning that says what to write, and go in 0.4.
    delta : float or None, default=0.05
        Probability with which tau may be exceeded. None is for "oob" by its rule, the paper's way; where "np" or
        "cross" need a value it then is 0.05.
    insufficient : {"raise", "infinite"}, default="raise"
        What "np" does with too few negatives: refuse, saying how many it needs, or predict nobody positive, which
        keeps the promise: with "infinite", "auto" is always "np". Of segments, those with too few negatives share a
        limit, "others", or, with "infinite", get no alarms.
    looks : int or "any", default=1
        How many thresholds, over the life of the model, `delta` is for: that of `fit` by "np", and those of
        `recalibrate`.

        - 1: each has its own delta, so that with every recalibration one more threshold may fail.
        - n: each of n thresholds gets delta/n, and one more is refused.
        - "any": the negatives of all recalibrations are kept, and added to those of "np". All thresholds hold together,
          however many there are (:class:`taufpl.thresholding.SequenceStatistic`), with half of delta; the rest is for
          ``recalibrate(..., restart=True)``. With `segments` each limit has its own negatives, and limits stay as they
          are until a restart.
    segments : str, int, callable or None, default=None
        Where limits are by segment: the column of X, by name or position, with the segment of each row, or a function
        that gets X and gives one label a row. None where labels are given to `fit`, `predict` and the others, or where
        one threshold is for all rows. The column remains a feature.
    regs : int or array-like of float, default=10
        The grid for ``reg="cv"``, as in :class:`TauFPLRankerCV`.
    cv : int, default=5
        Folds of the search for reg, of "cross", and of the recall of "np". With very many positives the search takes as
        few of its folds as hold 20,000 of them.
    solver, tol, max_iter, pos_label
        As in :class:`TauFPLRanker`.
    n_jobs : int, default=None
        Folds and rounds that are fitted at the same time, in threads that share the rows; -1 is all cores. Those of
        fewer than 2,000,000 values of X, or of remote rows, follow each other. None is 1 beyond 20,000,000 values, for
        every thread copies rows, and below that the threads of products (all cores, or `OMP_NUM_THREADS`).
    random_state : int, RandomState or None, default=None
        Decides how rows are divided. The first folds of the search are not shuffled: shuffle rows that are sorted.
    verbose : int, default=0
        1 prints the steps of the fit (folds, rounds, settings) on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Minus the threshold.
    threshold_ : float
    strategy_ : str
        The name of the strategy: what "auto" stood for, "np" or "cross", else that of `threshold`.
    evidence_ : taufpl.thresholding.Evidence
        What the threshold rests on: how many negatives, how many of them above it, whether the tolerance is guaranteed,
        the rounds of "oob", and the recall on positives that were not fitted on.
    fpr_estimate_, fpr_upper_bound_ : float
        From negatives that the model that scored them had not been fitted on (its reg may have been chosen on all rows,
        but for "np"). The bound is at 1 - delta (0.95 where delta is None): exact for "np" and after `recalibrate`,
        close for "cross", and leaning to the good side for "oob", whose rounds picked their thresholds on those rows.
    threshold_history_ : tuple of taufpl.thresholding.ThresholdRecord
        When the threshold was chosen, by `fit` and by every `recalibrate` since, on how many negatives, and what that
        has spent of delta.
    sequences_ : tuple of taufpl.thresholding.NegativeSequence
        With ``looks="any"``: the negatives so far, in one sequence; with segments in one a limit. Else empty.
    segments_ : SegmentThresholds or None
        With limits by segment: the threshold and the evidence of each. `evidence_` then is one record for all rows, and
        `threshold_` the strictest threshold.
    selection_ : dict
        What "auto" compared: `candidate`, its `mean_share` and `std_share` over the folds, `over_logistic` (by how much
        it is ahead of the best logistic regression), and whether it was `kept`.
    reg_, tau_scale_ : float
        Of the paper's ranking.
    cv_results_ : dict of ndarrays
        Of the search of the paper's ranking, if there was one.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    primal_objective_, dual_objective_, dual_gap_, n_iter_, n_passes_, converged_, collapsed_, history_
        Of the paper's ranking on all rows, or, for "np", on those that are not held out. An average of rankings has no
        objective and no certificate: with "auto" the objectives, the gap and the passes are NaN, and
        `converged_` says nothing: it is True.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 5)) + y[:, np.newaxis]
    >>> classifier = TauFPLClassifier(tau=0.05, random_state=0).fit(X, y)
    >>> new = rng.normal(size=(100_000, 5))
    >>> bool(classifier.predict(new).mean() <= 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearScorer._parameter_constraints,
        **{name: SOLVER_CONSTRAINTS[name] for name in ("solver", "tol", "max_iter")},
        **THRESHOLD_CONSTRAINTS,
        "tau": [*TAU_CONSTRAINT, Mapping],
        "segments": SEGMENT_CONSTRAINT,
        "reg": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither")],
        "tau_scale": [*TAU_SCALE_CONSTRAINT, StrOptions({"cv"})],
        "ranking": [StrOptions({"auto", "paper"})],
        "regs": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }

    @takes_earlier_parameters()
    def __init__(
        self,
        tau: float | Mapping[Any, float] = 0.01,
        *,
        ranking: str = "auto",
        reg: float | str = "cv",
        tau_scale: float | str = "cv",
        threshold: str | Strategy = "auto",
        delta: float | None = 0.05,
        insufficient: str = "raise",
        looks: int | str = 1,
        segments: Any = None,
        regs: int | ArrayLike = 10,
        cv: int = 5,
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int | None = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tau = tau
        self.ranking = ranking
        self.reg = reg
        self.tau_scale = tau_scale
        self.threshold = threshold
        self.delta = delta
        self.insufficient = insufficient
        self.looks = looks
        self.segments = segments
        self.regs = regs
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None, order: Any = None, segments: Any = None) -> Self:
        """Learn the ranking and choose its threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            As in :class:`TauFPLRanker`.
        y : {array-like, dask collection, tensor} of shape (n_samples,)
            Two different labels.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group (a customer, a device, a mail sent many times) belong together: folds, hold-outs and
            searches never divide a group, and a group gives the threshold one negative, drawn at random. What is then
            guaranteed is the false-positive rate on a random negative of a random group. For rows in memory.
        order : array-like of shape (n_samples,), default=None
            When each row came, as numbers or dates: the ranking learns from the earlier rows, and the latest negatives
            choose the threshold. For "np" and rows in memory.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where the parameter `segments` names no column of X. Labels are compared as texts:
            1, 1.0 and "1" are the same; rows without a label are the segment "missing". For rows in memory.

        Returns
        -------
        self
        """
        forget(self, "selection_", "reg_", "tau_scale_", "cv_results_")
        plan = self._plan(self._row_segments(X, segments))
        with make_table(self, X, y, groups, order, segments=plan.segment_codes) as table:
            return self._fit_plan(table, plan, X)

    def _fit_table(self, table: Table) -> Self:
        return self._fit_plan(table, self._plan())

    def _fit_plan(self, table: Table, plan: Plan, X: Any = None) -> Self:
        (tau,) = plan.taus
        fitter: AutoFitter | PaperFitter
        if self._is_automatic():
            fitter = AutoFitter(tau, self.cv)
        else:
            fitter = PaperFitter(tau, self.tau_scale, self.reg, self._choice(), regs=self.regs, cv=self.cv)
        outcome = self._run_strategy(fitter, table, plan)
        self.coef_ = np.mean([model.coef for model in outcome.models], axis=0, keepdims=True)
        if isinstance(fitter, PaperFitter):
            self._keep_paper(fitter)
        else:
            self._keep_average(fitter)
        self._keep_evidence(outcome, X)
        return self

    def _is_automatic(self) -> bool:
        return self.ranking == "auto" and self.reg == "cv" and self.tau_scale == "cv"

    def _keep_paper(self, fitter: PaperFitter) -> None:
        self.reg_, self.tau_scale_ = fitter.reg, fitter.tau_scale
        if fitter.cv_results is not None:
            self.cv_results_ = fitter.cv_results
        assert fitter.first is not None
        self._keep_ranking(*fitter.first)

    def _keep_average(self, fitter: AutoFitter) -> None:
        """An average has no objective of its own: where there is no certificate, none is shown."""
        self.selection_ = fitter.selection
        self.primal_objective_ = self.dual_objective_ = self.dual_gap_ = math.nan
        self.n_iter_, self.n_passes_, self.history_ = 1, math.nan, ()
        self.converged_, self.collapsed_ = True, not self.coef_.any()

    def _keep_evidence(self, outcome: Outcome, X: Any) -> None:
        super()._keep_evidence(outcome, X)
        self.intercept_ = -self.thresholds_
        follow(self, self.coef_)

    def decision_function(self, X: Any, segments: Any = None) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Of any kind, whatever the model was fitted on.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where limits are by segment and the parameter `segments` names no column of X.

        Returns
        -------
        ndarray, dask array or tensor of shape (n_samples,)
            Where X is, in double precision. A dask array is not computed, and has the chunks of X; rows with NaN, which
            are refused in memory, then have the score NaN and are not predicted positive.
        """
        check_is_fitted(self)
        threshold = self._threshold_of(X, segments)
        if self.segments_ is None:
            return finite(LinearScorer.decision_function(self, X))
        return decisions_of(self._raw_scores(X), threshold)

    def _raw_scores(self, X: Any) -> Any:
        return linear_scores(self, X)
