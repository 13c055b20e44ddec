"""Tables whose cells are put together from several rows of others: frames and arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._extras import require
from taufpl._types import Array
from taufpl.estimators import in_memory


def read_rows(X: Any, name: str) -> Any:
    """Rows in memory as a frame of pandas, an array or a CSR matrix; `name` is what an error calls them."""
    X, _ = in_memory("taufpl.inspection", X)
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    X = X.tocsr() if hasattr(X, "tocsr") else X
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"{name} must be rows of shape (n_samples, n_features), at least one; got shape {X.shape}.")
    return X


def cells(X: Any, index: Array) -> Any:
    """A table in which the cell of row i and column j is that of row index[i, j] of X."""
    if not hasattr(X, "iloc"):
        return X[index, np.arange(X.shape[1])]
    made = type(X)({place: X.iloc[:, place].take(rows).array for place, rows in enumerate(index.T)})
    made.columns = X.columns
    return made


def joined(X: Any, others: Any) -> Any:
    """The rows of one table, then those of another, as the first holds them."""
    if hasattr(X, "iloc"):
        others = others if hasattr(others, "iloc") else type(X)(others)
        parts = [X, others.set_axis(X.columns, axis=1)]
        return require("pandas", "cli", "to hold tables").concat(parts, ignore_index=True)
    return np.vstack([X, others.to_numpy() if hasattr(others, "iloc") else others])
