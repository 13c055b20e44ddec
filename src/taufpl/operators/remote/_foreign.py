"""Arrays of other libraries than NumPy: how they come here, how results go there, and scores that stay there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from taufpl.operators._compat import is_foreign_array, like, namespace, plain, to_numpy
from taufpl.operators.remote._local import as_block
from taufpl.operators.remote._sparse_torch import is_sparse_tensor

Array = NDArray[Any]


def as_floats(X: Any) -> Any:
    """The array itself, or one of double precision where it holds integers or truth values.

    Raises
    ------
    TypeError
        If it holds anything else than real numbers.
    """
    layout = str(getattr(X, "layout", "torch.strided"))
    if layout not in ("torch.strided", "torch.sparse_csr"):
        raise TypeError(
            f"X must be a dense tensor or a sparse one in CSR format, got {layout}: X.to_sparse_csr() makes it."
        )
    xp = namespace(X)
    X = plain(X)
    if xp.isdtype(X.dtype, "real floating") and X.dtype in (xp.float32, xp.float64):
        return X
    if xp.isdtype(X.dtype, "complex floating"):
        raise TypeError(f"X must hold real numbers, got dtype {X.dtype}.")
    return xp.astype(X, xp.float64)


def rows_on_host(X: Any) -> Any:
    """X itself; or, of an array of another library, the same rows as a NumPy array or a SciPy CSR matrix of floats."""
    if not is_foreign_array(X):
        return X
    X = as_floats(X)
    if not is_sparse_tensor(X):
        return to_numpy(X)
    return sparse.csr_array(tuple(map(to_numpy, (X.values(), X.col_indices(), X.crow_indices()))), tuple(X.shape))


def array_scores(X: Any, coef: Array, intercept: float) -> Any:
    """X w + b, added up in double precision on the device of X."""
    return as_block(as_floats(X)).dot(coef, exact=True) + intercept


def array_labels(scores: Any, classes: Array) -> Any:
    """The second class where a score is above 0, the first elsewhere; labels that are text can only be NumPy's."""
    if classes.dtype.kind not in "fiub":
        return classes[to_numpy(scores > 0).astype(np.intp)]
    xp = namespace(scores)
    return xp.take(like(scores, classes), xp.astype(scores > 0, xp.int64), axis=0)
