"""Values of X, an array or a sparse matrix, whichever it is: their squares, their spread, distances between rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils.extmath import safe_sparse_dot

from taufpl._types import Array
from taufpl.operators._formats import canonical_csr
from taufpl.operators._threads import scratch

# Squares of larger numbers, added up over many rows, are beyond double precision.
LARGEST_VALUE = 1e150
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


def is_dense(X: Any) -> bool:
    """Whether X holds its zeros too."""
    return not sparse.issparse(X)


def contents(X: Any) -> tuple[str, tuple[NDArray[Any], ...]]:
    """How X is stored, and the arrays that it is made of: for those who compare or hash data.

    Parameters
    ----------
    X : array-like, or SciPy sparse matrix or array

    Returns
    -------
    kind : {"dense", "csr"}
    parts : tuple of ndarray
        X itself; or the values, column indices and row pointers of X as CSR with sorted indices, without duplicates.

    Examples
    --------
    >>> from scipy import sparse
    >>> from taufpl.operators import contents
    >>> kind, (values, columns, pointers) = contents(sparse.eye(2, format="coo"))
    >>> kind, columns.tolist(), pointers.tolist()
    ('csr', [0, 1], [0, 1, 2])
    """
    if not sparse.issparse(X):
        return "dense", (np.asarray(X),)
    csr = canonical_csr(X)
    return "csr", (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64))


def check_squares(X: Any) -> None:
    """Refuse values whose squares a fit would take for infinite, or all of whose squares are 0.

    Parameters
    ----------
    X : ndarray, or SciPy sparse matrix or array
        Of finite numbers.

    Raises
    ------
    ValueError
        A value is beyond LARGEST_VALUE, 1e150, or all are under 1/LARGEST_VALUE.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import check_squares
    >>> check_squares(np.array([[1e100, -1e150]]))
    """
    values = X.data if sparse.issparse(X) else X
    largest = float(max(values.max(), -values.min())) if values.size else 0.0
    if largest > LARGEST_VALUE:
        raise ValueError(
            f"X must hold values of at most {LARGEST_VALUE:g}, whose squares are finite too; got {largest:g}. Divide "
            "such columns by a constant, or drop such rows."
        )
    if 0.0 < largest < 1.0 / LARGEST_VALUE:
        raise ValueError(
            f"X must hold some value of at least {1.0 / LARGEST_VALUE:g}, whose square is not 0; the largest is "
            f"{largest:g}. Multiply X by a constant."
        )


def square_sums(X: Any) -> NDArray[np.float64]:
    """Squared Euclidean norm of every row, summed in double precision."""
    if sparse.issparse(X):
        squares = X.astype(np.float64).power(2)
        return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def spread(X: Any) -> float:
    """Variance of all entries of X."""
    n_entries = X.shape[0] * X.shape[1]
    if sparse.issparse(X):
        values = X.tocsr().data.astype(np.float64)
        return float((values**2).sum() / n_entries - (values.sum() / n_entries) ** 2)
    return float(X.var(dtype=np.float64))


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of several arrays in one; sparse if the first array that has rows is."""
    filled = [part for part in parts if part.shape[0]]
    if filled and sparse.issparse(filled[0]):
        return sparse.vstack(filled, format="csr")
    return np.vstack(filled or parts)


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
