"""Training rows in coordinates in which a kernel is an inner product, exactly or up to a known error.

K = F F' + E, where the rows of F are features and E is positive semidefinite with a diagonal that is known. With all
the pivots that the rows have, E is rounding, and the linear problem on F *is* the kernel problem: w lies in the span of
the rows. With fewer, F w are the scores of functions in the span of the landmarks, with |w| for their norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from taufpl._types import Matrix, RowIndices, Vector
from taufpl.kernels import Kernel, LandmarkMap, PartialFactor, partial_cholesky
from taufpl.operators import KnownGramOperator, Operator, as_operator
from taufpl.problem import RankingProblem, top_count

# Up to this many rows "auto" is exact.
MOST_EXACT_ROWS = 2000
# Landmarks where no number is given.
USUAL_COMPONENTS = 500
# With as many features as this share of the rows, systems of the rows with weight are smaller than those of features;
# with few rows either is small, and the second way takes fewer steps.
_MANY_FEATURES = 0.25
_FEW_ROWS = 400


@dataclass(frozen=True, slots=True)
class Approximation:
    """How the kernel matrix is represented: the parameters of that name of :class:`KernelTauFPLRanker`."""

    mode: str = "auto"
    n_components: int | None = None
    pivoting: str = "random"
    n_candidates: int | None = 20_000
    tol: float = 1e-8
    refine: bool = True

    def is_exact(self, n_rows: int) -> bool:
        """Whether all pivots are taken."""
        if self.mode == "auto":
            return self.n_components is None and n_rows <= MOST_EXACT_ROWS
        return self.mode == "exact"

    def n_landmarks(self, n_rows: int) -> int:
        """Most landmarks of an approximation of low rank."""
        return min(self.n_components or USUAL_COMPONENTS, n_rows)

    def candidates(self, classes: tuple[RowIndices, RowIndices], rng: np.random.Generator) -> RowIndices:
        """Rows among which landmarks are chosen: as many of either class, as far as there are, ascending.

        Where positives are rare, landmarks by the error of all rows alone would leave most of them out, and what sets
        them apart.
        """
        n_landmarks = self.n_landmarks(sum(rows.size for rows in classes))
        count = max(min(rows.size for rows in classes), n_landmarks)
        if self.n_candidates is not None:
            count = min(count, max(self.n_candidates, n_landmarks) // 2 + 1)
        parts = [rows if rows.size <= count else rng.choice(rows, count, replace=False) for rows in classes]
        return np.sort(np.concatenate(parts))


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Training rows X (or their precomputed kernel matrix) with the features F that a kernel gives them.

    F is the operator, of shape (n, r). The pivots are the landmarks among the rows, the lower triangle their rows of F.
    The residual is the diagonal of E; it is rounding if the features are exact. The trace is that of K.
    """

    kernel: Kernel
    X: Any
    operator: Operator
    pivots: RowIndices
    triangle: Matrix
    residual: Vector
    trace: float
    exact: bool

    def pose(self, classes: tuple[RowIndices, RowIndices], tau: float, reg: float) -> RankingProblem:
        """The ranking problem on the features, with k = floor(tau n) + 1."""
        return RankingProblem(self.operator, *classes, top_count(tau, classes[1].size), reg)

    def weights(self, coef: Vector) -> Vector:
        """Weights c with sum_i c_i k(x_i, x_j) = F_j w: zero but for the landmarks."""
        weights = np.zeros(self.operator.shape[0])
        weights[self.pivots] = solve_triangular(self.triangle, coef, lower=True, trans="T", check_finite=False)
        return weights


def make_rows(
    kernel: Kernel, X: Any, how: Approximation, rng: np.random.Generator, candidates: RowIndices | None
) -> KernelRows:
    """Factor the kernel of all rows: with landmarks among the candidates, or, without candidates, exactly."""
    n_rows = X.shape[0]
    diagonal = kernel.diagonal(X)
    if candidates is None:
        chosen = partial_cholesky(kernel, X, n_rows, 0.0, "greedy", rng)
        pivots, residual, operator = chosen.pivots, chosen.residual, _exact_operator(kernel, X, chosen)
    else:
        chosen = partial_cholesky(kernel, X, how.n_landmarks(n_rows), how.tol, how.pivoting, rng, candidates)
        pivots, features, residual = candidates[chosen.pivots], chosen.factor, chosen.residual
        if candidates.size < n_rows:
            features, squares = LandmarkMap(kernel, kernel.points(X, pivots), chosen.triangle).features(X)
            residual = diagonal - squares
        operator = as_operator(features)
    residual, trace = np.maximum(residual, 0.0), float(diagonal.sum())
    return KernelRows(kernel, X, operator, pivots, chosen.triangle, residual, trace, exact=candidates is None)


def _exact_operator(kernel: Kernel, X: Any, chosen: PartialFactor) -> Operator:
    n_rows, rank = chosen.factor.shape
    if n_rows <= _FEW_ROWS or rank < _MANY_FEATURES * n_rows:
        return as_operator(chosen.factor)
    return KnownGramOperator(chosen.factor, np.asarray(kernel.between(X), dtype=np.float64))
