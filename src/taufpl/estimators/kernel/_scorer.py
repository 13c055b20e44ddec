"""What kernel estimators share: validation, the score as an expansion over training rows, what a fit leaves behind."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import Interval, StrOptions
from taufpl._types import Vector
from taufpl._warnings import warn_user
from taufpl.estimators._linear import SOLVER_CONSTRAINTS, TAU_CONSTRAINT, RankingScorer, warn_not_converged
from taufpl.estimators._predictions import finite
from taufpl.estimators._reading import TwoClasses, in_memory
from taufpl.estimators.kernel._rows import Approximation
from taufpl.estimators.kernel._solve import KernelReport
from taufpl.exceptions import RankingCollapseWarning
from taufpl.kernels import Kernel, KernelEstimator, score_sizes


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
