"""An array or a sparse matrix, whichever X is: the operator on it, and questions about its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from taufpl.operators._base import Operator
from taufpl.operators._csr import CSROperator
from taufpl.operators._dense import DenseOperator, has_contiguous_rows

# Squares of larger numbers, added up over many rows, are beyond double precision.
LARGEST_VALUE = 1e150


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
    return X if has_contiguous_rows(X) or has_contiguous_rows(X.T) else X.copy(order="C")


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


def canonical_csr(X: Any) -> Any:
    """X in CSR format with sorted indices and without duplicates; X itself stays as it is."""
    csr = X.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is X else csr
        csr.sum_duplicates()
    return csr


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
