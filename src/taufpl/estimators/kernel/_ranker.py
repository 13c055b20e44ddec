"""Kernel rankings: a score on kernel expansions with a threshold, and the ranker that fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import Interval, StrOptions, fit_context
from taufpl._types import Vector
from taufpl._warnings import warn_user
from taufpl.estimators._linear import (
    REG_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    TAU_SCALE_CONSTRAINT,
    RankingScorer,
    warn_not_converged,
)
from taufpl.estimators._predictions import finite
from taufpl.estimators._reading import TwoClasses, in_memory
from taufpl.estimators._table import score_rounding
from taufpl.estimators.kernel._solve import Approximation, KernelReport, rank_rows
from taufpl.exceptions import RankingCollapseWarning
from taufpl.kernels import Kernel, KernelEstimator, score_sizes
from taufpl.solvers import Callback
from taufpl.thresholding import top_threshold


class KernelScorer(KernelEstimator, RankingScorer):
    """A score sum_i c_i k(x_i, x) with a threshold: subclasses write `fit`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RankingScorer._parameter_constraints,
        **KernelEstimator._parameter_constraints,
        **{name: SOLVER_CONSTRAINTS[name] for name in ("solver", "tol", "max_iter")},
        "tau": TAU_CONSTRAINT,
        "approximation": [StrOptions({"auto", "exact", "low-rank"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "refine": ["boolean"],
        "landmark_tol": [Interval(Real, 0, 1, closed="left")],
    }

    def decision_function(self, X: Any) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive. Rows are taken a few at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            kernel="precomputed": k of each row with every training row, of shape (n_samples, n_training).

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return finite(self._raw_scores(X) + self.intercept_[0])

    def _raw_scores(self, X: Any) -> Vector:
        check_is_fitted(self)
        X, _ = in_memory(type(self).__name__, X)
        X = self._checked(X, reset=False)
        return self._make_kernel(self.gamma_).expansion(X, self.support_vectors_, self.dual_coef_[0])

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        # A kernel matrix in single precision must be known for one: its rounding is not that of another kernel.
        dtype = [np.float64, np.float32] if self.kernel == "precomputed" else np.float64
        return self._validated(X, y, dtype=dtype, reset=reset)

    def _read(self, X: Any, y: Any) -> tuple[Any, TwoClasses]:
        """Validate the data of a fit; set `classes_`."""
        X, y = self._checked(*in_memory(type(self).__name__, X, y))
        return X, self._keep_labels(y)

    def _approximation(self) -> Approximation:
        return Approximation(
            self.approximation, self.n_components, self.pivoting, self.n_candidates, self.landmark_tol, self.refine
        )

    def _keep_expansion(self, X: Any, weights: Vector, kernel: Kernel) -> None:
        """Keep the rows with a weight."""
        self.gamma_ = kernel.gamma
        self.support_ = np.flatnonzero(weights)
        self.support_vectors_ = kernel.points(X, self.support_)
        self.dual_coef_ = weights[np.newaxis, self.support_]

    def _score_size(self, X: Any, kernel: Kernel, share: float) -> float:
        """A number that, times eps, bounds the rounding of the scores of all but a share of the rows."""
        sizes = score_sizes(kernel, X, self.support_, self.dual_coef_[0])
        return float(np.quantile(sizes, 1.0 - share))

    def _keep_report(self, found: KernelReport) -> None:
        """Set what the solver and the certificate said, and warn where the ranking has no or no certified use."""
        self._keep_result(found.ranking)
        self.kernel_dual_objective_ = found.exact_dual
        self.kernel_gap_ = (self.primal_objective_ - self.kernel_dual_objective_) / self.primal_objective_
        # All pivots above rounding may still leave out what matters, where values lie many decades apart.
        left_out = self.kernel_gap_ - self.dual_gap_
        self.exact_ = bool(found.exact and left_out <= 10 * self.tol)
        residual_trace, trace = found.traces
        self.residual_trace_ = 0.0 if self.exact_ else residual_trace
        self.relative_error_ = self.residual_trace_ / trace
        self.n_components_ = found.n_components
        if not self.converged_:
            warn_not_converged(type(self).__name__, found.ranking.result.n_iter, self.dual_gap_, self.tol)
        elif self.collapsed_:
            self._warn_collapsed(found, only_features=left_out > self.tol)

    def _warn_collapsed(self, found: KernelReport, *, only_features: bool) -> None:
        n_positive, n_negative, k = found.counts
        if only_features:
            reason = (
                f" among the functions of its {self.n_components_} features; the kernel itself may do better "
                f"(kernel_gap_={self.kernel_gap_:.2g}). Nothing is predicted positive. Raise n_components, or scale "
                "the features."
            )
        else:
            reason = (
                f", for any reg: in the space of the kernel the mean of the {n_positive} positives is an "
                f"average of negatives in which the worst {k} of {n_negative} decide. Nothing is "
                "predicted positive. Raise tau_scale, to train on a larger share of the negatives than tau, or gamma "
                "or n_components, to tell more rows apart, or tau itself."
            )
        warn_user(f"{type(self).__name__} found nothing better than the score 0{reason}", RankingCollapseWarning)


class KernelTauFPLRanker(KernelScorer):
    """Rank positives above the mean of the worst tau share of the negatives, by a function of a kernel's space.

    The problem of :class:`TauFPLRanker` with phi(x) in the place of x, where phi(x) . phi(y) = k(x, y). It is solved
    exactly for few rows, and for many on features of low rank; in either case P is the objective of the exact kernel at
    the score that was found, and `kernel_gap_` certifies how far it can be from the best function of the whole space.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerated false-positive rate, between 0 and 1.
    reg : float, default=0.01
        Weight of the penalty, positive.
    kernel : str or callable, default="rbf"
        "linear", "rbf", "poly", "sigmoid", "laplacian", "chi2", "cosine", "precomputed", a kernel of
        :mod:`sklearn.gaussian_process.kernels`, or a function of two rows; positive semidefinite. See
        :func:`taufpl.kernels.make_kernel`.
    gamma : float or {"median", "scale", "auto"}, default="median"
        Scale of the kernel. "median" is 1 over the median squared distance between rows, which outliers and sparse
        columns do not move, and "scale" is 1 / (d var X), as in SVC.
    degree, coef0, kernel_params
        As in :func:`taufpl.kernels.make_kernel`.
    n_components : int, default=None
        Most landmarks of an approximation of low rank; None: 500.
    approximation : {"auto", "exact", "low-rank"}, default="auto"
        "exact" takes memory for two matrices of n x n numbers, and seconds for some thousands of rows. "auto" is exact
        up to 2,000 rows, unless `n_components` is given.
    pivoting, n_candidates, landmark_tol
        How landmarks are chosen: `pivoting`, `n_candidates` and `tol` of :class:`PivotedCholeskyFeatures`. Candidates
        are as many rows of either class, as far as there are: rare positives get landmarks too.
    refine : bool, default=True
        Choose the landmarks a second time, among the rows that have a dual weight in a first, rough solution, where
        what the features leave out widens the gap by more than 10 tol; the lower objective is kept.
    tau_scale : float, default=1.0
        The ranking trains at tau_scale tau, the threshold stays at tau.
    solver, tol, max_iter, pos_label, callback
        As in :class:`TauFPLRanker`.
    random_state : int, RandomState or None, default=None
        Draws landmarks.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of the training data that have a weight: those with a dual one, or, with low rank, the landmarks.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        These rows; kernel="precomputed": the same as `support_`.
    dual_coef_ : ndarray of shape (1, n_support)
        c, in score(x) = sum_i c_i k(x_i, x).
    intercept_ : ndarray of shape (1,)
        Minus the threshold, the (floor(tau n) + 1)-th largest score of a training negative.
    gamma_ : float
        The scale that was used; 1 for kernels that have none.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    primal_objective_ : float
        P at the score that was found, of the exact kernel.
    dual_objective_, dual_gap_ : float
        A lower bound on P over all functions that the features can express, and the relative gap to it.
    kernel_dual_objective_, kernel_gap_ : float
        A lower bound on P over the whole space of the kernel, and the relative gap to it: no kernel machine with this
        kernel and these parameters has a lower objective than this bound.
    exact_ : bool
        Whether the features express all of the space, as far as `kernel_gap_` can tell.
    n_components_ : int
        Number of features.
    residual_trace_, relative_error_ : float
        trace(K - F F') for the features F, and the same relative to trace K; 0 if exact.
    n_iter_, n_passes_, converged_, collapsed_, history_
        As in :class:`TauFPLRanker`, on the features.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import KernelTauFPLRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(1500, 2))
    >>> y = (np.hypot(*X.T) < 0.5).astype(int)
    >>> ranker = KernelTauFPLRanker(tau=0.01, reg=1e-3).fit(X, y)
    >>> bool(ranker.predict(X)[y == 0].mean() <= 0.01), bool(ranker.predict(X)[y == 1].mean() > 0.9)
    (True, True)
    >>> bool(ranker.kernel_gap_ < 2e-4)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelScorer._parameter_constraints,
        "reg": REG_CONSTRAINT,
        "tau_scale": TAU_SCALE_CONSTRAINT,
        "callback": SOLVER_CONSTRAINTS["callback"],
    }

    def __init__(
        self,
        tau: float = 0.01,
        reg: float = 0.01,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | str = "median",
        degree: int = 3,
        coef0: float = 1,
        kernel_params: Mapping[str, Any] | None = None,
        n_components: int | None = None,
        approximation: str = "auto",
        pivoting: str = "random",
        n_candidates: int | None = 20_000,
        landmark_tol: float = 1e-8,
        refine: bool = True,
        tau_scale: float = 1.0,
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int | None = None,
        pos_label: Any = None,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.tau = tau
        self.reg = reg
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.pivoting = pivoting
        self.n_candidates = n_candidates
        self.landmark_tol = landmark_tol
        self.refine = refine
        self.tau_scale = tau_scale
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.random_state = random_state
        self.callback = callback

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the ranking.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real numbers; computed with in double precision. kernel="precomputed": the matrix of k(x_i, x_j), dense.
        y : array-like of shape (n_samples,)
            Two different labels.

        Returns
        -------
        self
        """
        X, labels = self._read(X, y)
        kernel = self._make_kernel(self.gamma, X)
        classes = (labels.positive_rows, labels.negative_rows)
        settings = (self.tau_scale * self.tau, self.reg, self._approximation(), self._choice(), self._rng())
        found = rank_rows(kernel, X, classes, *settings, self.callback)
        self._keep_expansion(X, found.weights, kernel)
        negative = kernel.expansion(X[labels.negative_rows], self.support_vectors_, self.dual_coef_[0])
        # Raised by what another order of summation can do to a score.
        threshold = top_threshold(negative, self.tau) + score_rounding(self._score_size(X, kernel, 0.0))
        self.intercept_ = np.array([-threshold])
        self._keep_report(found.report())
        return self
