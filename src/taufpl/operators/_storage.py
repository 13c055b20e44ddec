"""Questions about the values of an array or a sparse matrix, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Squares of larger numbers, added up over many rows, are beyond double precision.
LARGEST_VALUE = 1e150


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
    """Refuse values whose squares a fit would take for infinite.

    Parameters
    ----------
    X : ndarray, or SciPy sparse matrix or array
        Of finite numbers.

    Raises
    ------
    ValueError
        A value is beyond LARGEST_VALUE, 1e150.

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
