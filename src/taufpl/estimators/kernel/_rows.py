"""Rows in coordinates in which a kernel is an inner product, exactly or up to a known error.

K = F F' + E, where the rows of F are features and E is positive semidefinite with a diagonal that is known. With all
the pivots that the rows have, E is rounding, and the linear problem on F *is* the kernel problem: w lies in the span of
the rows. With fewer, F w are the scores of functions in the span of the landmarks, with |w| for their norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from taufpl.kernels import Kernel, LandmarkMap, PartialFactor, partial_cholesky
from taufpl.operators import KnownGramOperator, Operator, as_operator, map_chunks

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

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


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Rows, a kernel, and the features that it gives them.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
        The rows; "precomputed": their kernel matrix.
    operator : Operator
        F, of shape (n, r).
    pivots : ndarray of shape (r,)
        The landmarks among the rows.
    triangle : ndarray of shape (r, r)
        Their rows of F, lower.
    residual : ndarray of shape (n,)
        Diagonal of E.
    trace : float
        Of K.
    exact : bool
        Whether E is rounding.
    """

    kernel: Kernel
    X: Any
    operator: Operator
    pivots: Rows
    triangle: Matrix
    residual: Vector
    trace: float
    exact: bool

    def weights(self, coef: Vector) -> Vector:
        """Weights c with sum_i c_i k(x_i, x_j) = F_j w: zero but for the landmarks."""
        weights = np.zeros(self.operator.shape[0])
        weights[self.pivots] = solve_triangular(self.triangle, coef, lower=True, trans="T", check_finite=False)
        return weights

    def gram(self, rows: Rows) -> Matrix:
        """Kernel between some of the rows."""
        part = take(self.kernel, self.X, rows)
        return np.asarray(self.kernel.between(part), dtype=np.float64)


def make_rows(
    kernel: Kernel, X: Any, how: Approximation, rng: np.random.Generator, classes: tuple[Rows, Rows]
) -> KernelRows:
    """Factor the kernel of these rows.

    Landmarks are chosen among as many rows of either class, as far as there are: where positives are rare, landmarks by
    the error of all rows alone would leave most of them out, and what sets them apart.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix of shape (n, d)
        "precomputed": the kernel matrix.
    how : Approximation
    rng : numpy.random.Generator
        Draws landmarks.
    classes : pair of ndarray of int
        All rows, by class.
    """
    n_rows = X.shape[0]
    if how.is_exact(n_rows):
        trace = float(kernel.diagonal(X).sum())
        chosen = partial_cholesky(kernel, X, n_rows, 0.0, "greedy", rng)
        operator = _exact_operator(kernel, X, chosen)
        return KernelRows(kernel, X, operator, chosen.pivots, chosen.triangle, _at_least_0(chosen), trace, exact=True)
    candidates = _candidates(how.n_candidates, min(how.n_components or USUAL_COMPONENTS, n_rows), rng, classes)
    return make_rows_from(candidates, kernel, X, how, rng)


def make_rows_from(
    candidates: Rows, kernel: Kernel, X: Any, how: Approximation, rng: np.random.Generator
) -> KernelRows:
    """Low rank, with landmarks that are chosen among some of the rows."""
    n_rows = X.shape[0]
    diagonal = kernel.diagonal(X)
    trace = float(diagonal.sum())
    n_components = min(how.n_components or USUAL_COMPONENTS, n_rows)
    chosen = partial_cholesky(kernel, X, n_components, how.tol, how.pivoting, rng, candidates)
    if candidates.size == n_rows:
        return KernelRows(
            kernel,
            X,
            as_operator(chosen.factor),
            chosen.pivots,
            chosen.triangle,
            _at_least_0(chosen),
            trace,
            exact=False,
        )
    pivots = candidates[chosen.pivots]
    landmarks = pivots if kernel.function == "precomputed" else X[pivots]
    triangle = chosen.triangle
    features, residual = LandmarkMap(kernel, landmarks, triangle).features_and_residuals(X, diagonal)
    residual = np.maximum(residual, 0.0)
    return KernelRows(kernel, X, as_operator(features), pivots, triangle, residual, trace, exact=False)


def _candidates(
    n_candidates: int | None, n_components: int, rng: np.random.Generator, classes: tuple[Rows, Rows]
) -> Rows:
    """As many rows of either class as of the smaller one, or as there are landmarks, within the given number."""
    count = max(min(rows.size for rows in classes), n_components)
    if n_candidates is not None:
        count = min(count, max(n_candidates, n_components) // 2 + 1)
    parts = [rows if rows.size <= count else rng.choice(rows, count, replace=False) for rows in classes]
    return np.sort(np.concatenate(parts))


def _at_least_0(chosen: PartialFactor) -> Vector:
    return np.maximum(chosen.residual, 0.0)


def _exact_operator(kernel: Kernel, X: Any, chosen: PartialFactor) -> Operator:
    n_rows, rank = chosen.factor.shape
    if n_rows <= _FEW_ROWS or rank < _MANY_FEATURES * n_rows:
        return as_operator(chosen.factor)
    return KnownGramOperator(chosen.factor, np.asarray(kernel.between(X), dtype=np.float64))


def take(kernel: Kernel, X: Any, rows: Rows) -> Any:
    """Some rows; of a kernel matrix the columns too."""
    return X[np.ix_(rows, rows)] if kernel.function == "precomputed" else X[rows]


def named(kernel: Kernel, X: Any, rows: Rows) -> Any:
    """What the kernel knows some training rows by: the rows, or their places in a kernel matrix."""
    return rows if kernel.function == "precomputed" else X[rows]


def expand(kernel: Kernel, X: Any, support: Any, weights: Vector) -> Vector:
    """sum_i weights_i k(support_i, x) for every row x, in memory for a few rows at a time."""
    scores = np.zeros(X.shape[0])
    if not weights.size:
        return scores
    fill = kernel.against(support, np.float64)

    def work(part: slice) -> None:
        values = np.empty((part.stop - part.start, weights.size))
        fill(X[part], values)
        np.matmul(values, weights, out=scores[part])

    map_chunks(work, X.shape[0], 8 * weights.size)
    return scores
