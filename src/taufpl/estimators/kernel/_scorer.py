"""What kernel estimators share: validation, the score as an expansion over rows, what a fit leaves behind."""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import Interval, StrOptions
from taufpl.estimators._block_table import in_memory
from taufpl.estimators._labels import TwoClasses, split_labels
from taufpl.estimators._linear import AccuracyMixin, score_rounding, warn_not_converged
from taufpl.estimators._solve import SolverChoice
from taufpl.estimators.kernel._rows import Approximation, KernelRows, Vector, expand, named
from taufpl.estimators.kernel._solve import KernelRanking, exact_dual
from taufpl.exceptions import RankingCollapseWarning
from taufpl.kernels import KERNEL_NAMES, Kernel, check_suits, score_sizes, takes_sparse
from taufpl.problem import RankingProblem

GAMMA_RULES = {"median", "scale", "auto"}
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
    "degree": [Interval(Real, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "approximation": [StrOptions({"auto", "exact", "low-rank"})],
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "pivoting": [StrOptions({"random", "greedy"})],
    "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
    "refine": ["boolean"],
    "landmark_tol": [Interval(Real, 0, 1, closed="left")],
    "random_state": ["random_state"],
}


class KernelScorer(AccuracyMixin, BaseEstimator):
    """A score sum_i c_i k(x_i, x) with a threshold: subclasses write `fit`.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of the training data that have a weight.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        These rows; "precomputed": the same as `support_`.
    dual_coef_ : ndarray of shape (1, n_support)
        c.
    intercept_ : ndarray of shape (1,)
        Minus the threshold.
    gamma_ : float
        Of the kernel; 1 for kernels that have none.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"pos_label": "no_validation"}

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
        return self._raw_scores(X) + self.intercept_[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row: positive where the score is strictly above the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            kernel="precomputed": k of each row with every training row, of shape (n_samples, n_training).

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        is_positive = self.decision_function(X) > 0
        return self.classes_[is_positive.astype(np.intp)]

    def _raw_scores(self, X: Any) -> Vector:
        check_is_fitted(self)
        X, _ = in_memory(type(self).__name__, X)
        X = self._checked(X, reset=False)
        check_suits(self.kernel, X)
        return expand(self._kernel(), X, self.support_vectors_, self.dual_coef_[0])

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        sparse = False if self.kernel == "precomputed" else "csr"
        # A kernel matrix in single precision must be known for one: its rounding is not that of another kernel.
        dtype = [np.float64, np.float32] if self.kernel == "precomputed" else np.float64
        return validate_data(self, X, y, reset=reset, accept_sparse=sparse, dtype=dtype)

    def _read(self, X: Any, y: Any) -> tuple[Any, TwoClasses]:
        """Validate the data of a fit; set `classes_`."""
        X, y = self._checked(*in_memory(type(self).__name__, X, y))
        labels = split_labels(y, self.pos_label)
        self.classes_ = labels.classes
        return X, labels

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma_, int(self.degree), float(self.coef0), dict(self.kernel_params or {}))

    def _approximation(self) -> Approximation:
        return Approximation(
            self.approximation, self.n_components, self.pivoting, self.n_candidates, self.landmark_tol, self.refine
        )

    def _choice(self) -> SolverChoice:
        return SolverChoice(self.solver, self.tol, self.max_iter)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _keep_expansion(self, X: Any, weights: Vector, kernel: Kernel) -> None:
        """Keep the rows with a weight."""
        self.gamma_ = kernel.gamma
        self.support_ = np.flatnonzero(weights)
        self.support_vectors_ = named(kernel, X, self.support_)
        self.dual_coef_ = weights[np.newaxis, self.support_]

    def _score_size(self, X: Any, kernel: Kernel, share: float) -> float:
        """What, times eps, bounds the rounding of the scores of all but a share of the rows."""
        sizes = score_sizes(kernel, X, self.support_, self.dual_coef_[0])
        return float(np.quantile(sizes, 1.0 - share))

    def _keep_ranking(self, found: KernelRanking, rows: KernelRows) -> None:
        """Set what the solver and the certificate said, and warn where it did not go as hoped."""
        result = found.ranking.result
        self.primal_objective_ = result.primal
        self.dual_objective_ = result.dual
        self.dual_gap_ = (result.primal - result.dual) / result.primal
        self.kernel_dual_objective_ = exact_dual(rows, found.problem, result)
        self.kernel_gap_ = (result.primal - self.kernel_dual_objective_) / result.primal
        # All pivots above rounding may still leave out what matters, where values lie many decades apart.
        left_out = self.kernel_gap_ - self.dual_gap_
        self.exact_ = bool(rows.exact and left_out <= 10 * self.tol)
        self.residual_trace_ = 0.0 if self.exact_ else float(rows.residual.sum())
        self.relative_error_ = self.residual_trace_ / rows.trace
        self.n_components_ = rows.operator.shape[1]
        self.n_iter_ = max(1, result.n_iter)
        self.n_passes_ = result.n_passes
        self.history_ = result.history
        self.converged_ = bool(self.dual_gap_ <= self.tol)
        self.collapsed_ = found.ranking.collapsed
        if not self.converged_:
            warn_not_converged(type(self).__name__, result.n_iter, self.dual_gap_, self.tol, stacklevel=5)
        elif self.collapsed_ and left_out > self.tol:
            _warn_features_collapsed(type(self).__name__, self.n_components_, self.kernel_gap_)
        elif self.collapsed_:
            _warn_collapsed(type(self).__name__, found.problem)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = self.kernel == "chi2"
        tags.classifier_tags.multi_class = False
        return tags


def raised_by_rounding(threshold: float, size: float) -> float:
    """The threshold, raised by what another order of summation can do to a score with terms of this size."""
    return threshold + score_rounding(size) if math.isfinite(threshold) else threshold


def _warn_collapsed(name: str, problem: RankingProblem) -> None:
    warnings.warn(
        f"{name} found nothing better than the score 0, for any reg: in the space of the kernel the mean of the "
        f"{problem.n_positive} positives is an average of negatives in which the worst {problem.k} of "
        f"{problem.n_negative} decide. Nothing is predicted positive. Raise tau_scale, to train on a larger share of "
        "the negatives than tau, or gamma or n_components, to tell more rows apart, or tau itself.",
        RankingCollapseWarning,
        stacklevel=5,
    )


def _warn_features_collapsed(name: str, n_components: int, gap: float) -> None:
    warnings.warn(
        f"{name} found nothing better than the score 0 among the functions of its {n_components} features; the kernel "
        f"itself may do better (kernel_gap_={gap:.2g}). Nothing is predicted positive. Raise n_components, or scale "
        "the features.",
        RankingCollapseWarning,
        stacklevel=5,
    )
