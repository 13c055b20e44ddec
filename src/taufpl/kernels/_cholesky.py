r"""Partial Cholesky factor of a kernel matrix that is never formed.

Let K be the matrix of k(x_i, x_j). A pivot p takes its share out of what is left of it::

    R_0 = K,    f_j = R_{j-1}[:, p] / sqrt(R_{j-1}[p, p]),    R_j = R_{j-1} - f_j f_j'

After r pivots, F = [f_1 .. f_r] gives F F' = K[:, S] K[S, S]^-1 K[S, :], the Nystroem approximation on the pivots S.
What is left, R_r = K - F F', is positive semidefinite where K is. Its diagonal is known without any other entry of it,
and bounds them all: \|R_ij\|^2 <= R_ii R_jj. So its trace is at once an error and a bound on every other error: the
spectral norm of R_r is at most trace R_r, and so is its Frobenius norm.

Pivots are the largest diagonal entry of what is left ("greedy"), or drawn with probabilities in proportion to the
diagonal ("random": Chen, Epperly, Tropp & Webber, 2025). Both come in blocks, so that products of matrices do the work,
and both in the very order, or distribution, that they would have one by one:

- Random pivots of a block are proposed independently by the diagonal before the block. Each is kept with the
  probability (diagonal now) / (diagonal before), which is that of rejection sampling (Epperly, Tropp & Webber, 2024).
- Greedy pivots of a block are proposed by the largest diagonal entries. The largest of the block is taken as long as it
  is no smaller than the largest outside was before the block: the diagonal never grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from taufpl.kernels._functions import Kernel
from taufpl.operators import map_chunks, one_blas_thread, scratch

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

# Pivots that are proposed at a time.
_BLOCK = 64
_SMALLEST_BLOCK = 4
# Beside the largest diagonal entry: a pivot this small is rounding; a diagonal entry this far below 0 is not.
_ROUNDING = {np.dtype(np.float64): (1e-12, 1e-8), np.dtype(np.float32): (1e-5, 1e-3)}

# Keeps some of the proposed rows, given what is left between them: positions, and the columns of their factor.
_Kept = tuple[list[int], list[Vector]]


@dataclass(frozen=True, slots=True)
class PartialFactor:
    """K = F F' + R.

    Attributes
    ----------
    pivots : ndarray of shape (r,)
        Rows S, in the order in which they were chosen.
    factor : ndarray of shape (n, r)
        F.
    path : ndarray of shape (r,)
        trace R / trace K after each pivot.
    residual : ndarray of shape (n,)
        Diagonal of R, up to rounding.
    """

    pivots: Rows
    factor: Matrix
    path: Vector
    residual: Vector

    @property
    def triangle(self) -> Matrix:
        """Rows S of F, a lower triangle T: F = K[:, S] T^-T."""
        return np.tril(self.factor[self.pivots])


def partial_cholesky(
    kernel: Kernel,
    X: Any,
    n_components: int,
    tol: float,
    pivoting: str,
    rng: np.random.Generator,
    rows: Rows | None = None,
) -> PartialFactor:
    """Factor the kernel matrix of some rows until its trace is small or there are pivots enough.

    Computed in double precision, in memory of n x n_components numbers and a few columns.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix of shape (n_all, d)
        "precomputed": the kernel matrix.
    n_components : int
        Most pivots.
    tol : float
        Stop at trace R <= tol trace K. At 0, stop where what is left is rounding.
    pivoting : {"random", "greedy"}
    rng : numpy.random.Generator
        Draws random pivots.
    rows : ndarray of int, default=None
        The rows that are factored; None: all of them.

    Returns
    -------
    PartialFactor
        Its pivots are positions among `rows`.

    Raises
    ------
    ValueError
        The kernel is zero on all rows, or not symmetric, or not positive semidefinite.
    """
    with one_blas_thread:  # blocks are small
        return _factor(_Growing(kernel, X, n_components, rows), tol, pivoting, rng)


def _factor(growing: _Growing, tol: float, pivoting: str, rng: np.random.Generator) -> PartialFactor:
    block = _BLOCK
    while growing.goes_on(tol):
        if pivoting == "greedy":
            proposed, outside = _largest(growing.residual, block)
            between = growing.refresh(proposed)
            positions, columns = _keep_largest(between, outside, growing.floor)
            block = min(_BLOCK, max(_SMALLEST_BLOCK, 2 * len(positions)))
        else:
            proposed = _draw(growing.residual, growing.floor, rng)
            between = growing.refresh(proposed)
            positions, columns = _keep_by_chance(between, rng.random(len(proposed)), growing.floor)
        room = growing.room
        if positions:
            triangle = np.column_stack(columns[:room])[positions[:room]]
            growing.append(proposed[positions[:room]], triangle)
    return growing.finish(tol)


class _Growing:
    """A factor that gets more columns."""

    def __init__(self, kernel: Kernel, X: Any, n_components: int, rows: Rows | None) -> None:
        self.kernel = kernel
        self.X = X if rows is None else X[rows]
        self.residual = kernel.diagonal(X) if rows is None else _diagonal_of(kernel, X, rows)
        self.names = np.arange(X.shape[0]) if rows is None else rows
        self.trace = float(self.residual.sum())
        rounding = X.dtype if kernel.function == "precomputed" else np.dtype(np.float64)
        largest = float(self.residual.max())
        self.floor, self.slack = (share * largest for share in _ROUNDING[rounding])
        self._check_diagonal()
        n_rows = self.X.shape[0]
        self.factor = np.empty((n_rows, min(n_components, n_rows)))
        self.pivots = np.empty(0, np.intp)
        self.path = np.empty(0)

    @property
    def room(self) -> int:
        return self.factor.shape[1] - len(self.pivots)

    def goes_on(self, tol: float) -> bool:
        """Whether there is room, and something left to explain."""
        error = self.path[-1] if len(self.path) else 1.0
        return self.room > 0 and error > tol and bool(self.residual.max() > self.floor)

    def refresh(self, rows: Rows) -> Matrix:
        """What is left between some rows; where it is rounding the diagonal is corrected, so that none comes twice."""
        values = np.empty((len(rows), len(rows)))
        self.kernel.against(self._named(rows), np.float64)(self.X[rows], values)
        self._check_symmetry(values)
        known = self.factor[rows, : len(self.pivots)]
        values -= known @ known.T
        self._check_pairs(values, self.residual[rows])
        fresh = values.diagonal()
        self.residual[rows] = np.where(fresh > self.floor, self.residual[rows], fresh)
        np.fill_diagonal(values, self.residual[rows])
        return values

    def append(self, pivots: Rows, triangle: Matrix) -> None:
        """Add the columns of some pivots, given the triangle that these have in them."""
        first, last = len(self.pivots), len(self.pivots) + len(pivots)
        fill = self.kernel.against(self._named(pivots), np.float64)
        known = self.factor[pivots, :first]
        inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True, check_finite=False).T

        def work(part: slice) -> Vector:
            shape = (part.stop - part.start, len(pivots))
            values, explained = scratch("values", shape, np.float64), scratch("product", shape, np.float64)
            fill(self.X[part], values)
            values -= np.matmul(self.factor[part, :first], known.T, out=explained)
            new = self.factor[part, first:last]
            np.matmul(values, inverse, out=new)
            np.square(new, out=values)
            self.residual[part] -= values.sum(axis=1)
            return values.sum(axis=0)

        row_bytes = self.factor.itemsize * (last + len(pivots))
        taken = np.sum(map_chunks(work, len(self.factor), row_bytes), axis=0)
        before = self.path[-1] if first else 1.0
        self.path = np.append(self.path, np.maximum(before - np.cumsum(taken) / self.trace, 0.0))
        self.pivots = np.append(self.pivots, pivots)
        self._check_residual()

    def finish(self, tol: float) -> PartialFactor:
        """The factor up to the first pivot at which the error is small enough."""
        self.refresh(np.unique(np.linspace(0, len(self.factor) - 1, _BLOCK).astype(np.intp)))  # for its checks
        small_enough = np.flatnonzero(self.path <= tol)
        n_kept = int(small_enough[0]) + 1 if small_enough.size else len(self.pivots)
        surplus = self.factor[:, n_kept : len(self.pivots)]
        self.residual += np.einsum("ij,ij->i", surplus, surplus)
        factor = narrowed(self.factor, n_kept)
        return PartialFactor(self.pivots[:n_kept], factor, self.path[:n_kept], self.residual)

    def _named(self, rows: Rows) -> Any:
        """What the kernel knows the rows by."""
        return self.names[rows] if self.kernel.function == "precomputed" else self.X[rows]

    def _check_diagonal(self) -> None:
        if not self.residual.min() >= 0:
            raise ValueError(_not_semidefinite(self.kernel, f"k(x, x) is {self.residual.min():g} for some row"))
        if not 0 < self.trace < np.inf:
            raise ValueError(
                f"k(x, x) sums to {self.trace:g} over all rows: a kernel that is 0 on every row, or infinite, has no "
                "features. Give other rows, or another kernel."
            )

    def _check_symmetry(self, values: Matrix) -> None:
        if not np.abs(values - values.T).max() <= self.slack:
            raise ValueError(
                "The kernel must be symmetric, k(x, y) = k(y, x), and finite; on some pair of rows it is not."
                + _if_named(self.kernel)
            )

    def _check_pairs(self, left: Matrix, residual: Vector) -> None:
        """Hold what is left between some rows against what is known of its diagonal."""
        if not np.abs(left.diagonal() - residual).max() <= self.slack:
            if _is_named(self.kernel):
                what = "rounding hides what is left of some k(x, x)"
                raise ValueError(f"The kernel ({self.kernel.function}) is too uneven: {what}." + _if_named(self.kernel))
            raise ValueError(
                "k(x, x) of a row with itself differs from k(x, y) of two equal rows. A kernel with noise on its "
                "diagonal has no features; add the noise to the model instead."
            )
        bound = np.sqrt(np.maximum(residual, 0.0))
        if (np.abs(left) > np.outer(bound, bound) + self.slack).any():
            what = "what is left of some k(x, y) is more than k(x, x) and k(y, y) allow"
            raise ValueError(_not_semidefinite(self.kernel, what))

    def _check_residual(self) -> None:
        lowest = float(self.residual.min())
        if not lowest >= -self.slack:
            what = f"after {len(self.pivots)} pivots {lowest:.3g} is left of some k(x, x), which may not be negative"
            raise ValueError(_not_semidefinite(self.kernel, what))


def _diagonal_of(kernel: Kernel, X: Any, rows: Rows) -> Vector:
    return kernel.diagonal(X)[rows] if kernel.function == "precomputed" else kernel.diagonal(X[rows])


def _is_named(kernel: Kernel) -> bool:
    """Whether the kernel is computed here from a name: it has no noise on its diagonal, and is symmetric."""
    return isinstance(kernel.function, str) and kernel.function != "precomputed"


def _if_named(kernel: Kernel) -> str:
    """What helps where a kernel that is known to be sound has lost its digits."""
    if not _is_named(kernel):
        return ""
    return " The values of X lie too many decades apart for it; scale or clip the features."


def _not_semidefinite(kernel: Kernel, what: str) -> str:
    name = kernel.function if isinstance(kernel.function, str) else "a callable"
    if name == "precomputed":
        return (
            f"The precomputed kernel matrix is not positive semidefinite, or not finite: {what}. Give one that is; "
            "one that was computed in single precision must be of type float32, so that its rounding is known."
        )
    return (
        f"The kernel ({name}) is not positive semidefinite on these rows, or not finite: {what}. Take another kernel, "
        'or other parameters: "rbf", "laplacian", "linear" and "poly" with coef0 >= 0 are safe, "sigmoid" is not. '
        "Where values of X lie many decades apart, scale or clip the features."
    )


def _largest(residual: Vector, count: int) -> tuple[Rows, float]:
    """Positions of the largest entries in ascending order, of equals the first; and the largest of the others."""
    if len(residual) <= count:
        return np.arange(len(residual)), -np.inf
    outside = float(np.partition(residual, -count - 1)[-count - 1])
    above = np.flatnonzero(residual > outside)
    equal = np.flatnonzero(residual == outside)[: count - len(above)]
    return np.sort(np.concatenate([above, equal])), outside


def _keep_largest(between: Matrix, outside: float, floor: float) -> _Kept:
    """The largest diagonal entry of what is left, again and again, as long as none outside can be larger."""
    return _eliminate(between, lambda left, _: _largest_if(left, max(outside, floor)), len(between))


def _largest_if(diagonal: Vector, least: float) -> int | None:
    best = int(np.argmax(diagonal))
    return best if diagonal[best] >= least else None


def _draw(residual: Vector, floor: float, rng: np.random.Generator) -> Rows:
    """Independent rows, with probabilities in proportion to what is left of them."""
    sums = np.cumsum(np.where(residual > floor, residual, 0.0))
    drawn = np.searchsorted(sums, rng.random(_BLOCK) * sums[-1], side="right")
    return np.minimum(drawn, len(residual) - 1)


def _keep_by_chance(between: Matrix, chances: Vector, floor: float) -> _Kept:
    """Each row in turn, with the probability (what is left of it now) / (what was left of it before)."""
    least = np.maximum(chances * between.diagonal(), floor)
    return _eliminate(between, lambda left, row: row if left[row] > least[row] else None, len(between), in_turn=True)


def _eliminate(
    between: Matrix, choose: Callable[[Vector, int], int | None], n_turns: int, *, in_turn: bool = False
) -> _Kept:
    """Take chosen rows out of what is left, one after the other; without `in_turn`, the first refusal is the last."""
    left = between.copy()
    positions: list[int] = []
    columns: list[Vector] = []
    for turn in range(n_turns):
        row = choose(left.diagonal(), turn)
        if row is None:
            if in_turn:
                continue
            break
        column = left[:, row] / np.sqrt(left[row, row])
        column[positions] = 0.0  # what is left of a pivot is rounding
        left -= np.outer(column, column)
        positions.append(row)
        columns.append(column)
    return positions, columns


def narrowed(matrix: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """The first columns of a matrix with contiguous rows, moved together in its own memory: there is no second one."""
    if n_columns == matrix.shape[1]:
        return matrix
    flat = matrix.reshape(-1)
    step = max(1, len(matrix) // 64)
    for start in range(0, len(matrix), step):
        rows = matrix[start : start + step, :n_columns].copy()
        flat[start * n_columns : start * n_columns + rows.size] = rows.ravel()
    return flat[: len(matrix) * n_columns].reshape(len(matrix), n_columns)
