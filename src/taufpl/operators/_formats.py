"""Rows in memory by storage format: dense, sparse, and with inner products that are known."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from taufpl._kernels import _csr as csr_kernels, _dense as dense_kernels
from taufpl._types import Array, Matrix, Vector
from taufpl.operators._operator import Index, Operator, PassCount, add_square
from taufpl.operators._threads import n_threads, share

# Values of rows that are copied at a time, where rows must be copied: they stay in the second-level cache.
_CHUNK_VALUES = 1 << 16
# Groups of rows with a sum each: a fixed number, because the order of additions must not depend on the threads.
_MOST_GROUPS = 32
_GROUP_VALUES = 1 << 13
# One line of a Gram matrix must be long enough to be worth cutting it off, and a range of lines must fit a cache.
_LEAST_LINES = 16
_RANGE_VALUES = 1 << 17
# With more columns than this, BLAS makes up for the copy of the rows that it needs.
_KERNEL_COLUMNS = 256
_BLAS_VALUES = 1 << 20
# A group of rows must hold many more values than there are columns, or adding up the groups costs more than they do.
_VALUES_PER_COLUMN = 16
# Cost of one product in a Gram matrix between sparse rows, relative to one between dense rows.
_SPARSE_PENALTY = 12
_CSR_CHUNK_VALUES = 1 << 18


class DenseOperator(Operator):
    """Operator on a NumPy array, float32 or float64; X itself is kept, not a copy.

    Rows are contiguous, any distance apart, or columns are.
    """

    def __init__(self, X: Array, passes: PassCount | None = None) -> None:
        n_rows, n_columns = X.shape
        self._x = X
        self._value_bytes = X.itemsize
        self._by_rows = _has_contiguous_rows(X)
        super().__init__((n_rows, n_columns), X.dtype, passes)

    def _stored(self, rows: Index | None) -> int:
        return (self.shape[0] if rows is None else len(rows)) * self.shape[1]

    def _dot(self, rows: Index | None, w: Vector) -> Vector:
        if self._by_rows:
            return _dense_dot(self._x, rows, w)
        if rows is None:
            return _dense_add(self._x.T, None, w, n_groups=1)
        out = np.empty(len(rows))
        for part in _chunks(rows, self.shape[1]):
            out[part] = _dense_add(self._columns(rows[part]), None, w, n_groups=1)
        return out

    def _add(self, rows: Index | None, v: Vector) -> Vector:
        if self._by_rows:
            return _dense_add(
                self._x, rows, v, n_groups=max(1, min(_MOST_GROUPS, len(v) * self.shape[1] // _GROUP_VALUES))
            )
        if rows is None:
            return _dense_dot(self._x.T, None, v)
        total = np.zeros(self.shape[1])
        for part in _chunks(rows, self.shape[1]):
            total += _dense_dot(self._columns(rows[part]), None, v[part])
        return total

    def _gram(self, rows: Index, weights: Vector, shift: Vector) -> Matrix:
        out = np.zeros((self.shape[1], self.shape[1]))
        if self._by_rows:
            _add_gram(self._x, rows, weights, shift, out)
        else:
            for part in _chunks(rows, self.shape[1], _BLAS_VALUES):
                _add_gram(self._copy(rows[part]), None, weights[part], shift, out)
        csr_kernels.mirror(out)
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
        for part in _chunks(rows, self.shape[1]):
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


def _has_contiguous_rows(X: Array) -> bool:
    """Whether a compiled loop can read X row by row where it is."""
    is_native = X.flags.aligned and X.dtype.isnative
    return bool(is_native and X.strides[1] == X.itemsize and X.strides[0] % X.itemsize == 0)


def _dense_dot(x: Array, rows: Index | None, w: Vector) -> Vector:
    """x_i . w for rows of an array with contiguous rows."""
    n_rows = len(x) if rows is None else len(rows)
    out = np.empty(n_rows)
    share(dense_kernels.dot, x, rows, w, out, work=n_rows * len(w))
    return out


def _dense_add(x: Array, rows: Index | None, v: Vector, *, n_groups: int) -> Vector:
    """Sum of v_i x_i over rows of an array with contiguous rows."""
    partial = np.empty((n_groups, x.shape[1]))
    share(dense_kernels.add, x, rows, v, partial, work=len(v) * x.shape[1])
    return partial[0] if n_groups == 1 else partial.sum(axis=0)


def _add_gram(x: Array, rows: Index | None, weights: Vector, shift: Vector, out: Matrix) -> None:
    """Add the sum of weights_i (x_i - shift)(x_i - shift)' to the lower triangle of out."""
    if x.shape[1] <= _KERNEL_COLUMNS:
        _add_gram_kernel(x, rows, weights, shift, out)
    else:
        for part in _chunks(weights, x.shape[1], _BLAS_VALUES):
            _add_gram_blas(x[part if rows is None else rows[part]], weights[part], shift, out)


def _add_gram_kernel(x: Array, rows: Index | None, weights: Vector, shift: Vector, out: Matrix) -> None:
    d = x.shape[1]
    work = len(weights) * d * d / 16  # in products of a dot product, which take longer: memory is slower
    n_ranges = max(2 * n_threads() if n_threads() > 1 else 1, d * d // 2 // _RANGE_VALUES)
    n_ranges = max(1, min(n_ranges, d // _LEAST_LINES))
    scratch = np.empty((n_ranges, dense_kernels.SCRATCH_ROWS, d))
    share(dense_kernels.gram, x, rows, weights, shift, _cuts(d, n_ranges), scratch, out, work=work)


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


def _chunks(rows: Array, n_columns: int, n_values: int = _CHUNK_VALUES) -> Iterator[slice]:
    """Cuts of rows into parts of about `n_values` values, small enough to copy."""
    step = max(64, n_values // n_columns)
    return (slice(start, start + step) for start in range(0, len(rows), step))


class CSROperator(Operator):
    """Operator on a SciPy matrix in CSR format, float32 or float64; its arrays are kept, not copied.

    Indices are sorted, without duplicates and within the shape.
    """

    def __init__(self, X: Any, passes: PassCount | None = None) -> None:
        n_rows, n_columns = X.shape
        self._x = X
        self._value_bytes = X.dtype.itemsize + X.indices.itemsize
        self._parts = (X.indptr, X.indices, X.data)
        self._lengths = np.diff(X.indptr)  # every product with some rows adds up theirs
        super().__init__((n_rows, n_columns), X.dtype, passes)

    def _stored(self, rows: Index | None) -> int:
        return int(self._x.indptr[-1] if rows is None else self._lengths.take(rows).sum(dtype=np.int64))

    def _dot(self, rows: Index | None, w: Vector) -> Vector:
        out = np.empty(self.shape[0] if rows is None else len(rows))
        share(csr_kernels.dot, *self._parts, rows, w, out, work=self._work(len(out)))
        return out

    def _add(self, rows: Index | None, v: Vector) -> Vector:
        work = self._work(len(v))
        group_values = max(_GROUP_VALUES, _VALUES_PER_COLUMN * self.shape[1])
        partial = np.empty((max(1, min(_MOST_GROUPS, int(work) // group_values)), self.shape[1]))
        share(csr_kernels.add, *self._parts, rows, v, partial, work=work)
        return partial[0] if len(partial) == 1 else partial.sum(axis=0)

    def _gram(self, rows: Index, weights: Vector, shift: Vector) -> Matrix:
        d = self.shape[1]
        out = np.zeros((d, d))
        work = np.zeros(d)
        csr_kernels.gram_work(*self._parts[:2], rows, work)
        if _SPARSE_PENALTY * work.sum() > len(rows) * d * d / 2:
            # Through dense copies of a few rows at a time: they are mostly full.
            for part in _chunks(rows, d, _CSR_CHUNK_VALUES):
                _add_gram(self._x[rows[part]].toarray(), None, weights[part], shift, out)
        else:
            bounds = _even_cuts(work, 2 * n_threads() if n_threads() > 1 else 1)
            share(csr_kernels.gram, *self._parts, rows, weights, bounds, out, work=work.sum())
            # With shift = mean, sum (x - mean)(x - mean)' = sum x x' - total mean mean'.
            if shift.any():
                add_square(out, -float(weights.sum()), shift)
        csr_kernels.mirror(out)
        return out

    def moments(self, rows: ArrayLike, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift; sparse rows are shifted after the products."""
        taken = self._rows(rows)
        count, ones = len(taken), np.ones(len(taken))
        total = self.add(ones, taken) - count * shift
        crossed = np.outer(shift, total)
        gram = self._gram(taken, ones, np.zeros(self.shape[1]))
        gram -= crossed + crossed.T + count * np.outer(shift, shift)
        return gram, total

    def _row_gram(self, left: Index, right: Index) -> Matrix:
        if right is left and len(left):
            # The same rows on both sides: columns one after the other, each with the rows that it meets.
            columns = CSROperator(self._x[left].tocsc().T)
            return columns._gram(np.arange(columns.shape[0]), np.ones(columns.shape[0]), np.zeros(len(left)))
        a = self._x[left].astype(np.float64)
        return np.asarray((a @ self._x[right].astype(np.float64).T).toarray())

    def _squares(self, rows: Index) -> tuple[Vector, Vector]:
        along, down = np.empty(len(rows)), np.zeros(self.shape[1])
        csr_kernels.squares(*self._parts, rows, along, down)
        return along, down

    def _take(self, rows: Index) -> Self:
        return type(self)(self._x[rows], self._passes)

    def _work(self, n_rows: int) -> float:
        """Values in `n_rows` rows of average length: to count them would cost too much beside a product."""
        return n_rows * self._stored(None) / max(1, self.shape[0])


def _even_cuts(work: Vector, n_ranges: int) -> Index:
    """Bounds of ranges with about the same sum of work."""
    upto = np.cumsum(work)
    cuts = np.searchsorted(upto, upto[-1] * np.arange(1, n_ranges) / n_ranges)
    return np.concatenate([[0], cuts, [len(work)]]).astype(np.intp)


class KnownGramOperator(DenseOperator):
    """Rows L with the matrix K = L L', which is read where it would have to be computed.

    K may be that of other rows too: `index` says where these rows are in it (None: they are all of it, in order).
    """

    knows_row_gram = True

    def __init__(self, rows: Matrix, gram: Matrix, index: Index | None = None, passes: PassCount | None = None) -> None:
        super().__init__(rows, passes)
        self._known = gram
        self._index = np.arange(len(rows)) if index is None else index

    def _row_gram(self, left: Index, right: Index) -> Matrix:
        return self._known[np.ix_(self._index[left], self._index[right])]

    def _take(self, rows: Index) -> Self:
        return type(self)(self._x[rows], self._known, self._index[rows], self._passes)


def as_operator(X: Any) -> Operator:
    """Operator on X, which is not copied if a kernel can read it where it lies.

    Parameters
    ----------
    X : ndarray or SciPy sparse matrix or array of shape (n, d)
        float32 and float64 stay what they are, other real types become float64. Dense: C or Fortran order, rows or
        columns may lie apart. Sparse: CSR with sorted indices and without duplicates, int32 or int64, is taken as
        it is; other formats are converted once. An operator is returned unchanged.

    Returns
    -------
    Operator

    Raises
    ------
    TypeError
        X is neither, or does not hold real numbers.
    ValueError
        X does not have two dimensions, or no rows, or no columns; or the indices of a sparse X are not valid.

    Examples
    --------
    >>> from scipy import sparse
    >>> from taufpl.operators import as_operator
    >>> as_operator(sparse.eye(3, format="coo"))
    <CSROperator: 3 x 3, float64>
    """
    return operator_on(X, least_rows=1)


def operator_on(X: Any, *, least_rows: int = 0) -> Operator:
    """Operator on X, as :func:`as_operator` makes it, but of X without rows too: some blocks of a table have none."""
    if isinstance(X, Operator):
        return X
    is_sparse = sparse.issparse(X)
    if not is_sparse and not isinstance(X, np.ndarray):
        raise TypeError(
            f"X must be a NumPy array or a SciPy sparse matrix, got {type(X).__name__}; "
            "numpy.asarray, or the object's own to_numpy, makes an array of it."
        )
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers, got dtype {X.dtype}.")
    if X.ndim != 2 or X.shape[0] < least_rows or not X.shape[1]:
        raise ValueError(f"X must have two dimensions, with rows and columns; got shape {X.shape}.")
    return CSROperator(_as_csr(X)) if is_sparse else DenseOperator(_as_walkable(np.asarray(X)))


def _real_type(dtype: np.dtype[Any]) -> type[np.float32] | type[np.float64]:
    return np.float32 if dtype.newbyteorder("=") == np.float32 else np.float64


def _as_walkable(X: NDArray[Any]) -> NDArray[Any]:
    """The same numbers with contiguous rows or contiguous columns."""
    X = X.astype(_real_type(X.dtype), copy=False)
    return X if _has_contiguous_rows(X) or _has_contiguous_rows(X.T) else X.copy(order="C")


def _as_csr(X: Any) -> Any:
    """The same numbers in CSR format, checked: a kernel does not look where an index points."""
    csr = X.tocsr()
    _check_csr(csr)
    csr = canonical_csr(csr)
    index = np.int32 if csr.indices.dtype == csr.indptr.dtype == np.int32 else np.int64
    parts = (
        np.require(csr.data, _real_type(csr.dtype), ["C", "A"]),
        np.require(csr.indices, index, ["C", "A"]),
        np.require(csr.indptr, index, ["C", "A"]),
    )
    if all(new is old for new, old in zip(parts, (csr.data, csr.indices, csr.indptr), strict=True)):
        return csr
    plain = type(csr)(csr.shape, dtype=parts[0].dtype)
    plain.data, plain.indices, plain.indptr = parts
    return plain


def _check_csr(csr: Any) -> None:
    indptr, indices, data = csr.indptr, csr.indices, csr.data
    n_stored = indptr[-1] if len(indptr) else -1
    if (
        len(indptr) != csr.shape[0] + 1
        or indptr[0] != 0
        or (np.diff(indptr) < 0).any()
        or min(len(indices), len(data)) < n_stored
    ):
        raise ValueError("X must be a valid CSR matrix; its indptr does not fit its shape and its data.")
    used = indices[:n_stored]
    if n_stored and not (used.min() >= 0 and used.max() < csr.shape[1]):
        raise ValueError(
            f"X must be a valid CSR matrix: column indices between 0 and {csr.shape[1] - 1}, "
            f"got {used.min()} to {used.max()}."
        )


def canonical_csr(X: Any) -> Any:
    """X in CSR format with sorted indices and without duplicates; X itself stays as it is."""
    csr = X.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is X else csr
        csr.sum_duplicates()
    return csr
