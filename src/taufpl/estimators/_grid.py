"""Grids of tolerances and penalties, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def reg_grid(regs: ArrayLike) -> Array:
    """The values of reg, as given."""
    values = np.atleast_1d(np.asarray(regs, dtype=np.float64))
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"regs must be one or more positive finite numbers, got {regs!r}.")
    return values


def tau_grid(taus: ArrayLike) -> Array:
    """The values of tau, as given."""
    values = np.atleast_1d(np.asarray(taus, dtype=np.float64))
    if values.ndim != 1 or values.size == 0 or not ((values > 0).all() and (values < 1).all()):
        raise ValueError(f"taus must be one or more numbers strictly between 0 and 1, got {taus!r}.")
    return values
