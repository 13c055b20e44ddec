"""Seconds of a call, and how they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np


def seconds(call: Callable[[], object], *, budget: float = 1.0, most: int = 15) -> float:
    """The least time of several calls: as many as fit into a budget, one at least."""
    times: list[float] = []
    while not times or (sum(times) < budget and len(times) < most):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Exponent of the power of size that time grows by, by least squares in log-log; NaN for fewer than two sizes."""
    size, time_taken = (np.log(part) for part in np.array(sorted(points), dtype=np.float64).reshape(-1, 2).T)
    return float(np.polyfit(size, time_taken, 1)[0]) if np.unique(size).size > 1 else float("nan")
