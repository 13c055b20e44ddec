"""The scale of a kernel, from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import paired_euclidean_distances, paired_manhattan_distances

from taufpl._types import RowIndices, Vector
from taufpl.operators import spread, square_sums

WITH_GAMMA = frozenset({"rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid"})
GAMMA_RULES = ("median", "scale", "auto")
_N_PAIRS = 4096
# Values of rows that are held at a time, for one side of the pairs.
_VALUES_AT_ONCE = 1 << 22


def resolve_gamma(gamma: Any, kernel: str, X: Any) -> float:
    """Gamma as a number, by the rules of :func:`taufpl.kernels.make_kernel`; 1 for kernels that have none."""
    is_number = isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 < float(gamma) < math.inf
    if not is_number and gamma not in GAMMA_RULES:
        raise ValueError(f'gamma must be a positive number, "median", "scale" or "auto", got {gamma!r}.')
    if kernel not in WITH_GAMMA:
        return 1.0
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        return _one_over(X.shape[1] * spread(X))
    if gamma == "median":
        return _one_over(_typical_size(kernel, X))
    return float(gamma)


def _one_over(size: float) -> float:
    """1/size; 1 where all rows are equal, so that gamma makes no difference."""
    return 1.0 / size if size > 0 else 1.0


def _typical_size(kernel: str, X: Any) -> float:
    """Median of the quantity that gamma multiplies, or of its positive values where that median is 0."""
    if kernel not in ("rbf", "laplacian", "chi2"):
        sizes = square_sums(X)
    else:
        sizes = np.concatenate([np.zeros(0), *_distances(kernel, X)])
    if sizes.size and np.median(sizes) == 0:
        sizes = sizes[sizes > 0]
    return float(np.median(sizes)) if sizes.size else 0.0


def _distances(kernel: str, X: Any) -> Iterator[Vector]:
    left, right = _pairs(X.shape[0])
    step = max(1, _VALUES_AT_ONCE // X.shape[1])
    for start in range(0, len(left), step):
        some, others = X[left[start : start + step]], X[right[start : start + step]]
        if kernel == "rbf":
            yield np.asarray(paired_euclidean_distances(some, others), dtype=np.float64) ** 2
        elif kernel == "laplacian":
            yield np.asarray(paired_manhattan_distances(some, others), dtype=np.float64)
        else:
            total = (some + others).astype(np.float64)
            yield ((some - others) ** 2 / np.where(total > 0, total, 1.0)).sum(axis=1)


def _pairs(n_rows: int) -> tuple[RowIndices, RowIndices]:
    """Pairs of different rows: all where they are few, else a sample that depends on their number alone."""
    if n_rows * (n_rows - 1) // 2 <= _N_PAIRS:
        left, right = np.triu_indices(n_rows, 1)
        return left, right
    rng = np.random.default_rng(0)
    left = rng.integers(n_rows, size=_N_PAIRS)
    return left, (left + rng.integers(1, n_rows, size=_N_PAIRS)) % n_rows
