r"""Partial Cholesky factor of a kernel matrix that is never formed.

Let K be the matrix of k(x_i, x_j). A pivot p takes its share out of the residual R::

    R_0 = K,    f_j = R_{j-1}[:, p] / sqrt(R_{j-1}[p, p]),    R_j = R_{j-1} - f_j f_j'

After r pivots, F = [f_1 .. f_r] gives F F' = K[:, S] K[S, S]^-1 K[S, :], the Nystroem approximation on the pivots S.
The residual R_r = K - F F' is positive semidefinite where K is. Its diagonal is known without any other entry of it,
and bounds them all: \|R_ij\|^2 <= R_ii R_jj. So its trace is at once an error and a bound on every other error: the
spectral norm of R_r is at most trace R_r, and so is its Frobenius norm.

Pivots are the largest diagonal entry of the residual ("greedy"), or drawn with probabilities in proportion to the
diagonal ("random": Chen, Epperly, Tropp & Webber, 2025). Both come in blocks, so that products of matrices do the work,
and both in the very order, or distribution, that they would have one by one:

- Random pivots of a block are proposed independently by the diagonal before the block. Each is kept with the
  probability (diagonal now) / (diagonal before), which is that of rejection sampling (Epperly, Tropp & Webber, 2024).
- Greedy pivots of a block are proposed by the largest diagonal entries. The largest of the block is taken as long as it
  is no smaller than the largest outside was before the block: the diagonal never grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy.linalg import solve_triangular

from taufpl._types import Array, Matrix, RowIndices, Vector
from taufpl.kernels._functions import Fill, Kernel
from taufpl.operators import map_chunks, one_blas_thread, scratch

# Pivots that are proposed at a time.
_BLOCK = 64
_SMALLEST_BLOCK = 4
# Beside the largest diagonal entry: a pivot this small is rounding; a diagonal entry this far below 0 is not.
_ROUNDING = {np.dtype(np.float64): (1e-12, 1e-8), np.dtype(np.float32): (1e-5, 1e-3)}
# Advice where a kernel that is known to be positive semidefinite has lost its digits.
_DECADES = " The values of X lie too many decades apart for it; scale or clip the features."


@dataclass(frozen=True, slots=True)
class PartialFactor:
    """K = F F' + R, with the pivots S in the order in which they were chosen.

    `path` is trace R / trace K after each pivot, `residual` the diagonal of R, up to rounding.
    """

    pivots: RowIndices
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
    rows: RowIndices | None = None,
) -> PartialFactor:
    """Factor the kernel matrix of some rows, or of all, until trace R <= tol trace K, or to `n_components` pivots.

    At a tol of 0 it ends where the residual is rounding. X is the kernel matrix for a "precomputed" kernel. Pivots are
    counted among `rows`. Computed in double precision, in memory of n x n_components numbers and a few columns. A
    kernel that is zero on all rows, or not symmetric, or not positive semidefinite, is a ValueError.
    """
    with one_blas_thread:  # blocks are small
        growing, greedy = _GrowingFactor(kernel, X, n_components, rows), pivoting == "greedy"
        block = _BLOCK
        while growing.goes_on(tol):
            if greedy:
                proposed, outside = _largest(growing.residual, block)
                residual = growing.residual_between(proposed)
                least = np.full(len(proposed), max(outside, growing.floor))
            else:
                proposed = _draw(growing.residual, growing.floor, rng)
                residual = growing.residual_between(proposed)
                least = np.maximum(rng.random(len(proposed)) * residual.diagonal(), growing.floor)
            positions, columns = _eliminate(residual, least, growing.room, greedy=greedy)
            if positions:
                growing.append(proposed[positions], np.column_stack(columns)[positions])
            block = min(_BLOCK, max(_SMALLEST_BLOCK, 2 * len(positions)))
        return growing.finish(tol)


class _GrowingFactor:
    """A factor F that gets more columns, with the diagonal of the residual, K - F F'."""

    def __init__(self, kernel: Kernel, X: Any, n_components: int, rows: RowIndices | None) -> None:
        self.kernel, self.X = kernel, X
        self.rows = np.arange(X.shape[0]) if rows is None else rows
        self.own = X if rows is None else X[rows]
        if rows is None or kernel.function == "precomputed":
            self.residual = kernel.diagonal(X)[self.rows]
        else:
            self.residual = kernel.diagonal(self.own)
        self.trace = float(self.residual.sum())
        precision = X.dtype if kernel.function == "precomputed" else np.dtype(np.float64)
        self.floor, self.slack = (share * float(self.residual.max()) for share in _ROUNDING[precision])
        self._check_diagonal()
        self.factor = np.empty((len(self.rows), min(n_components, len(self.rows))))
        self.pivots = np.empty(0, np.intp)
        self.path = np.empty(0)

    @property
    def room(self) -> int:
        return self.factor.shape[1] - len(self.pivots)

    def goes_on(self, tol: float) -> bool:
        """Whether there is room for columns, and the residual is neither small nor rounding."""
        error = self.path[-1] if len(self.path) else 1.0
        return self.room > 0 and error > tol and bool(self.residual.max() > self.floor)

    def residual_between(self, rows: RowIndices) -> Matrix:
        """Block of the residual between rows; a diagonal entry that is rounding is corrected, to be no pivot again."""
        values = np.empty((len(rows), len(rows)))
        self._against(rows)(self.own[rows], values)
        if not np.abs(values - values.T).max() <= self.slack:
            raise ValueError(
                "The kernel must be symmetric, k(x, y) = k(y, x), and finite; on some pair of rows it is not."
                + (_DECADES if self._has_known_form else "")
            )
        known = self.factor[rows, : len(self.pivots)]
        values -= known @ known.T
        self._check_block(values, self.residual[rows])
        fresh = values.diagonal()
        self.residual[rows] = np.where(fresh > self.floor, self.residual[rows], fresh)
        np.fill_diagonal(values, self.residual[rows])
        return values

    def append(self, pivots: RowIndices, triangle: Matrix) -> None:
        """Add the columns of some pivots, given the triangle that these have in them."""
        first, last = len(self.pivots), len(self.pivots) + len(pivots)
        fill = self._against(pivots)
        known = self.factor[pivots, :first]
        inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True, check_finite=False).T

        def work(part: slice) -> Vector:
            shape = (part.stop - part.start, len(pivots))
            values, explained = scratch("values", shape, np.float64), scratch("product", shape, np.float64)
            fill(self.own[part], values)
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
        lowest = float(self.residual.min())
        if not lowest >= -self.slack:
            self._refuse(f"after {last} pivots the residual of some k(x, x) is {lowest:.3g}, which may not be negative")

    def finish(self, tol: float) -> PartialFactor:
        """The factor up to the first pivot at which the error is small enough."""
        # For the checks of `residual_between`, on rows that may never have been proposed.
        self.residual_between(np.unique(np.linspace(0, len(self.factor) - 1, _BLOCK).astype(np.intp)))
        small_enough = np.flatnonzero(self.path <= tol)
        n_kept = int(small_enough[0]) + 1 if small_enough.size else len(self.pivots)
        surplus = self.factor[:, n_kept : len(self.pivots)]
        self.residual += np.einsum("ij,ij->i", surplus, surplus)
        factor = narrowed(self.factor, n_kept)
        return PartialFactor(self.pivots[:n_kept], factor, self.path[:n_kept], self.residual)

    def _against(self, rows: RowIndices) -> Fill:
        return self.kernel.against(self.kernel.points(self.X, self.rows[rows]), np.float64)

    @property
    def _has_known_form(self) -> bool:
        """Whether the kernel is computed here from a name, so that it is symmetric, without noise on its diagonal."""
        return isinstance(self.kernel.function, str) and self.kernel.function != "precomputed"

    def _check_diagonal(self) -> None:
        if not self.residual.min() >= 0:
            self._refuse(f"k(x, x) is {self.residual.min():g} for some row")
        if not 0 < self.trace < np.inf:
            raise ValueError(
                f"k(x, x) sums to {self.trace:g} over all rows: a kernel that is 0 on every row, or infinite, has no "
                "features. Give other rows, or another kernel."
            )

    def _check_block(self, left: Matrix, residual: Vector) -> None:
        """Compare a block of the residual with the diagonal of it that is known."""
        if not np.abs(left.diagonal() - residual).max() <= self.slack:
            if self._has_known_form:
                raise ValueError(
                    f"The kernel ({self.kernel.function}) is too uneven: rounding hides the residual of some k(x, x)."
                    + _DECADES
                )
            raise ValueError(
                "k(x, x) of a row with itself differs from k(x, y) of two equal rows. A kernel with noise on its "
                "diagonal has no features; add the noise to the model instead."
            )
        bound = np.sqrt(np.maximum(residual, 0.0))
        if (np.abs(left) > np.outer(bound, bound) + self.slack).any():
            self._refuse("the residual of some k(x, y) is more than those of k(x, x) and k(y, y) allow")

    def _refuse(self, what: str) -> NoReturn:
        name = self.kernel.function if isinstance(self.kernel.function, str) else "a callable"
        if name == "precomputed":
            raise ValueError(
                f"The precomputed kernel matrix is not positive semidefinite, or not finite: {what}. Give one that is; "
                "one that was computed in single precision must be of type float32, so that its rounding is known."
            )
        raise ValueError(
            f"The kernel ({name}) is not positive semidefinite on these rows, or not finite: {what}. Take another "
            'kernel, or other parameters: "rbf", "laplacian", "linear" and "poly" with coef0 >= 0 are safe, "sigmoid" '
            "is not. Where values of X lie many decades apart, scale or clip the features."
        )


def _largest(residual: Vector, count: int) -> tuple[RowIndices, float]:
    """Positions of the largest entries in ascending order, of equals the first; and the largest of the others."""
    if len(residual) <= count:
        return np.arange(len(residual)), -np.inf
    outside = float(np.partition(residual, -count - 1)[-count - 1])
    above = np.flatnonzero(residual > outside)
    equal = np.flatnonzero(residual == outside)[: count - len(above)]
    return np.sort(np.concatenate([above, equal])), outside


def _draw(residual: Vector, floor: float, rng: np.random.Generator) -> RowIndices:
    """Independent rows, with probabilities in proportion to their residuals."""
    sums = np.cumsum(np.where(residual > floor, residual, 0.0))
    drawn = np.searchsorted(sums, rng.random(_BLOCK) * sums[-1], side="right")
    return np.minimum(drawn, len(residual) - 1)


def _eliminate(residual: Matrix, least: Vector, room: int, *, greedy: bool) -> tuple[list[int], list[Vector]]:
    """Positions of pivots among proposed rows, and their columns of the factor; `residual` is overwritten.

    A row becomes a pivot if its diagonal entry of the residual is at least `least`. Greedily, the row with the largest
    entry is next until that is too small; else every row has its turn.
    """
    positions: list[int] = []
    columns: list[Vector] = []
    for turn in range(len(residual)):
        row = int(np.argmax(residual.diagonal())) if greedy else turn
        if len(positions) == room or (greedy and not residual[row, row] >= least[row]):
            break
        if residual[row, row] >= least[row]:
            column = residual[:, row] / np.sqrt(residual[row, row])
            column[positions] = 0.0  # the residual of a pivot is rounding
            residual -= np.outer(column, column)
            positions.append(row)
            columns.append(column)
    return positions, columns


def narrowed(matrix: Array, n_columns: int) -> Array:
    """The first columns of a matrix with contiguous rows, moved together in its own memory, without a copy of it."""
    if n_columns == matrix.shape[1]:
        return matrix
    flat = matrix.reshape(-1)
    step = max(1, len(matrix) // 64)
    for start in range(0, len(matrix), step):
        rows = matrix[start : start + step, :n_columns].copy()
        flat[start * n_columns : start * n_columns + rows.size] = rows.ravel()
    return flat[: len(matrix) * n_columns].reshape(len(matrix), n_columns)
