"""How large values may be: fits add up their squares."""

from __future__ import annotations

from typing import Any

from scipy import sparse

# Squares of larger numbers, added up over many rows, are beyond double precision.
LARGEST_VALUE = 1e150


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
