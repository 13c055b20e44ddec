"""Products and distances between the rows of two matrices, whatever their storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils.extmath import safe_sparse_dot

from taufpl._types import Array
from taufpl.operators._chunks import scratch
from taufpl.operators._storage import square_sums

# Rows with scale |x - shift|^2 above this are far: products with each other round by more than distances may.
FAR = 100.0
# exp(-64) is nothing beside 1, whatever its rounding.
_GONE = 64.0
# From this share of pairs on, all of them are computed: that takes less time than to pick some.
_MANY_PAIRS = 0.1
# Rows of which a median is taken: it takes far longer than a mean, and more rows make it no better.
_ROWS_FOR_MIDDLE = 128
# Values of picked pairs that are held at a time.
_VALUES_AT_ONCE = 1 << 18


def work_type(*matrices: Any) -> np.dtype[Any]:
    """Type in which pairs of rows are computed: float32 if all are float32, else float64."""
    return np.dtype(np.float32 if all(matrix.dtype == np.float32 for matrix in matrices) else np.float64)


class FixedRows:
    """Rows Y, an array or a CSR matrix, that many others are held against: what depends on Y alone is computed once.

    `dtype` is the type of the results, float32 or float64.
    """

    def __init__(self, Y: Any, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._is_sparse = sparse.issparse(Y)
        self.rows = Y.astype(dtype, copy=False)

    def inner(self, X: Any, out: Array) -> None:
        """Write x . y for every x and y."""
        X = X.astype(self.dtype, copy=False)
        if self._is_sparse or sparse.issparse(X):
            out[...] = safe_sparse_dot(X, self.rows.T, dense_output=True)
        else:
            np.matmul(X, self.rows.T, out=out)

    # Squares that overflow are those of far rows, whose distances are then infinite or come from differences.
    @np.errstate(over="ignore", invalid="ignore")
    def negative_distances(self, scale: float) -> Callable[[Any, Array], None]:
        """Function of X and out that writes -scale |x - y|^2, never above 0, for every x and y.

        Dense rows take one product, of rows with two columns more::

            -scale |x - y|^2 = [x, -scale |x|^2, 1] . [2 scale y, 1, -scale |y|^2]

        Its rounding is relative to the norms, not to the distance. So rows are shifted to the middle of Y, and where
        both rows are far from there and their distance is not so large that exp of it is nothing, it is computed from
        their difference.
        """
        if self._is_sparse:
            of_rows = (scale * square_sums(self.rows)).astype(self.dtype)
            return lambda X, out: self._sparse_distances(X, scale, of_rows, out)
        shift = middle(self.rows).astype(self.dtype)
        shifted = self.rows - shift
        norms = (-scale * square_sums(shifted)).astype(self.dtype)[:, None]
        factor = np.hstack([shifted * self.dtype.type(2.0 * scale), np.ones_like(norms), norms])
        far = np.flatnonzero(~(norms[:, 0] >= -FAR))

        @np.errstate(over="ignore", invalid="ignore")
        def fill(X: Any, out: Array) -> None:
            if sparse.issparse(X):
                self._sparse_distances(X, scale, (scale * square_sums(self.rows)).astype(self.dtype), out)
                return
            left = scratch("rows", (X.shape[0], factor.shape[1]), self.dtype)
            np.subtract(X, shift, out=left[:, :-2], casting="same_kind")
            left[:, -2] = -scale * square_sums(left[:, :-2])
            left[:, -1] = 1.0
            np.matmul(left, factor.T, out=out)
            rows = np.flatnonzero(~(left[:, -2] >= -FAR)) if far.size else far
            if rows.size:
                # What rounding can do to products of far rows; infinite where their squared norms are.
                bounds = -8.0 * np.finfo(self.dtype).eps * (left[rows, -2:-1] + norms[far].T)
                self._repair(X, rows, far, bounds, scale, out)
            np.minimum(out, 0.0, out=out)

        return fill

    def _repair(self, X: Any, rows: Array, columns: Array, bounds: Array, scale: float, out: Array) -> None:
        """Distances from differences, for pairs of some rows and columns, given bounds on their rounding."""
        wanted = ~(out[np.ix_(rows, columns)] <= -_GONE - bounds)
        if wanted.mean() > _MANY_PAIRS:
            out[np.ix_(rows, columns)] = -scale * cdist(X[rows], self.rows[columns], "sqeuclidean")
            return
        first, second = np.nonzero(wanted)
        first, second = rows[first], columns[second]
        step = max(1, _VALUES_AT_ONCE // X.shape[1])
        for start in range(0, first.size, step):
            some, others = first[start : start + step], second[start : start + step]
            out[some, others] = -scale * square_sums(X[some].astype(self.dtype, copy=False) - self.rows[others])

    def _sparse_distances(self, X: Any, scale: float, of_rows: Array, out: Array) -> None:
        self.inner(X, out)
        out *= 2.0 * scale
        out -= (scale * square_sums(X)).astype(self.dtype)[:, None]
        out -= of_rows
        np.minimum(out, 0.0, out=out)


def middle(Y: Array) -> Array:
    """Median of every column, of some of the rows: unlike the mean, a few far rows do not move it."""
    return np.asarray(np.median(Y[:: max(1, len(Y) // _ROWS_FOR_MIDDLE)], axis=0))
