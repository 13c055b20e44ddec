"""The arrays that X is made of, in one order whatever its layout: for those who compare or hash data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def contents(X: Any) -> tuple[str, tuple[NDArray[Any], ...]]:
    """How X is stored, and its parts.

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
    csr = X.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is X else csr
        csr.sum_duplicates()
    return "csr", (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64))
