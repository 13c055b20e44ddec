"""The one question whether X is in memory."""

from __future__ import annotations

import sys
from typing import Any

from taufpl._extras import require
from taufpl.operators._compat import is_foreign_array


def is_remote(X: Any) -> bool:
    """Whether X is for :func:`as_blocks`: a dask collection, or an array of another library than NumPy and SciPy.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import is_remote
    >>> is_remote(np.eye(2)), is_remote([[1, 2]])
    (False, False)
    """
    return is_collection(X) or is_foreign_array(X)


def is_collection(X: Any) -> bool:
    """Whether X is any collection of dask, without importing dask where it is not used."""
    return "dask" in sys.modules and bool(require("dask.base", "dask", "for dask collections").is_dask_collection(X))
