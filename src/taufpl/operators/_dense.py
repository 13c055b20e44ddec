"""Operator on a dense array whose rows, or whose columns, are contiguous."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from taufpl._kernels import _csr as triangles, _dense as kernels
from taufpl._types import Array, Matrix, Vector
from taufpl.operators._base import Index, Operator, PassCount
from taufpl.operators._threads import n_threads, share

# Values of rows that are copied at a time, where rows must be copied: they stay in the second-level cache.
_CHUNK_VALUES = 1 << 16
# Groups of rows with a sum each: a fixed number, because the order of additions must not depend on the threads.
MOST_GROUPS = 32
GROUP_VALUES = 1 << 13
# One line of a Gram matrix must be long enough to be worth cutting it off, and a range of lines must fit a cache.
_LEAST_LINES = 16
_RANGE_VALUES = 1 << 17
# With more columns than this, BLAS makes up for the copy of the rows that it needs.
_KERNEL_COLUMNS = 256
_BLAS_VALUES = 1 << 20


class DenseOperator(Operator):
    """Operator on a NumPy array, float32 or float64; X itself is kept, not a copy.

    Rows are contiguous, any distance apart, or columns are.
    """

    def __init__(self, X: Array, passes: PassCount | None = None) -> None:
        n_rows, n_columns = X.shape
        self._x = X
        self._value_bytes = X.itemsize
        self._by_rows = has_contiguous_rows(X)
        super().__init__((n_rows, n_columns), X.dtype, passes)

    def _stored(self, rows: Index | None) -> int:
        return (self.shape[0] if rows is None else len(rows)) * self.shape[1]

    def _dot(self, rows: Index | None, w: Vector) -> Vector:
        if self._by_rows:
            return dot(self._x, rows, w)
        if rows is None:
            return add(self._x.T, None, w, n_groups=1)
        out = np.empty(len(rows))
        for part in parts(rows, self.shape[1]):
            out[part] = add(self._columns(rows[part]), None, w, n_groups=1)
        return out

    def _add(self, rows: Index | None, v: Vector) -> Vector:
        if self._by_rows:
            return add(self._x, rows, v, n_groups=max(1, min(MOST_GROUPS, len(v) * self.shape[1] // GROUP_VALUES)))
        if rows is None:
            return dot(self._x.T, None, v)
        total = np.zeros(self.shape[1])
        for part in parts(rows, self.shape[1]):
            total += dot(self._columns(rows[part]), None, v[part])
        return total

    def _gram(self, rows: Index, weights: Vector, shift: Vector) -> Matrix:
        out = np.zeros((self.shape[1], self.shape[1]))
        if self._by_rows:
            add_gram(self._x, rows, weights, shift, out)
        else:
            for part in parts(rows, self.shape[1], _BLAS_VALUES):
                add_gram(self._copy(rows[part]), None, weights[part], shift, out)
        triangles.mirror(out)
        return out

    def _row_gram(self, left: Index, right: Index) -> Matrix:
        out = np.zeros((len(left), len(right)))
        # A few columns at a time: wide rows are copied in parts, not whole.
        step = max(256, _BLAS_VALUES // max(1, len(left), len(right)))
        for start in range(0, self.shape[1], step):
            columns = self._x[:, start : start + step]
            a = columns[left].astype(np.float64, copy=False)
            b = a if right is left else columns[right].astype(np.float64, copy=False)
            out += a @ b.T
        return out

    def _squares(self, rows: Index) -> tuple[Vector, Vector]:
        along, down = np.empty(len(rows)), np.zeros(self.shape[1])
        for part in parts(rows, self.shape[1]):
            squares = np.square(self._copy(rows[part]), dtype=np.float64)
            along[part] = squares.sum(axis=1)
            down += squares.sum(axis=0)
        return along, down

    def _take(self, rows: Index) -> Self:
        taken = self._x[rows] if self._by_rows else self._columns(rows).T
        return type(self)(taken, self._passes)

    def _columns(self, rows: Index) -> Array:
        """Some rows of an array with contiguous columns, as columns: gathered along the storage."""
        return np.take(self._x.T, rows, axis=1)

    def _copy(self, rows: Index) -> Array:
        """Some rows, contiguous."""
        return self._x[rows] if self._by_rows else np.ascontiguousarray(self._columns(rows).T)


def has_contiguous_rows(X: Array) -> bool:
    """Whether a compiled loop can read X row by row where it is."""
    is_native = X.flags.aligned and X.dtype.isnative
    return bool(is_native and X.strides[1] == X.itemsize and X.strides[0] % X.itemsize == 0)


def dot(x: Array, rows: Index | None, w: Vector) -> Vector:
    """x_i . w for rows of an array with contiguous rows."""
    n_rows = len(x) if rows is None else len(rows)
    out = np.empty(n_rows)
    share(kernels.dot, x, rows, w, out, work=n_rows * len(w))
    return out


def add(x: Array, rows: Index | None, v: Vector, *, n_groups: int) -> Vector:
    """Sum of v_i x_i over rows of an array with contiguous rows."""
    partial = np.empty((n_groups, x.shape[1]))
    share(kernels.add, x, rows, v, partial, work=len(v) * x.shape[1])
    return partial[0] if n_groups == 1 else partial.sum(axis=0)


def add_gram(x: Array, rows: Index | None, weights: Vector, shift: Vector, out: Matrix) -> None:
    """Add the sum of weights_i (x_i - shift)(x_i - shift)' to the lower triangle of out."""
    if x.shape[1] <= _KERNEL_COLUMNS:
        _add_gram_kernel(x, rows, weights, shift, out)
    else:
        for part in parts(weights, x.shape[1], _BLAS_VALUES):
            _add_gram_blas(x[part if rows is None else rows[part]], weights[part], shift, out)


def _add_gram_kernel(x: Array, rows: Index | None, weights: Vector, shift: Vector, out: Matrix) -> None:
    d = x.shape[1]
    work = len(weights) * d * d / 16  # in products of a dot product, which take longer: memory is slower
    n_ranges = max(2 * n_threads() if n_threads() > 1 else 1, d * d // 2 // _RANGE_VALUES)
    n_ranges = max(1, min(n_ranges, d // _LEAST_LINES))
    scratch = np.empty((n_ranges, kernels.SCRATCH_ROWS, d))
    share(kernels.gram, x, rows, weights, shift, _cuts(d, n_ranges), scratch, out, work=work)


@lru_cache(maxsize=64)
def _cuts(d: int, n_ranges: int) -> NDArray[np.intp]:
    """Ranges of lines with about the same share of a triangle; where they are cut does not show in the result."""
    return np.rint(d * np.sqrt(np.linspace(0, 1, n_ranges + 1))).astype(np.intp)


def _add_gram_blas(x: Array, weights: Vector, shift: Vector, out: Matrix) -> None:
    centred = x - shift
    if np.any(weights < 0):
        out += centred.T @ (weights[:, None] * centred)
        return
    if np.any(weights != 1):
        centred *= np.sqrt(weights)[:, None]
    out += centred.T @ centred  # NumPy sees the square and does half the work


def parts(rows: Array, n_columns: int, n_values: int = _CHUNK_VALUES) -> Iterator[slice]:
    """Cuts of rows into parts of about `n_values` values, small enough to copy."""
    step = max(64, n_values // n_columns)
    return (slice(start, start + step) for start in range(0, len(rows), step))
