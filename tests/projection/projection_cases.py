"""Small problems that are hard on a projection: each family draws (alpha, beta, k, weight)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from hypothesis import settings

Problem = tuple[np.ndarray, np.ndarray, int, float]
FAMILIES: dict[str, Callable[[np.random.Generator], Problem]] = {}
WEIGHTS = np.array([1.0, 1.0, 0.5, 2.0, 3.0, 0.1, 1e-6, 1e6])


def family(make: Callable[[np.random.Generator], Problem]) -> Callable[[np.random.Generator], Problem]:
    FAMILIES[make.__name__] = make
    return make


def draw(name: str, count: int, seed: int = 0) -> Iterator[Problem]:
    """`count` problems of one family, the same ones every time; of them the first in the quick run."""
    count = math.ceil(count * settings().max_examples / 100)
    rng = np.random.default_rng([seed, *name.encode()])
    return (FAMILIES[name](rng) for _ in range(count))


def sizes(rng: np.random.Generator, smallest: int = 1) -> tuple[int, int, int]:
    m, n = int(rng.integers(1, 9)), int(rng.integers(smallest, 9))
    return m, n, int(rng.integers(1, n + 1))


@family
def normal(rng):
    m, n, k = sizes(rng)
    return rng.normal(size=m), rng.normal(size=n), k, 1.0


@family
def weighted(rng):
    m, n, k = sizes(rng)
    return rng.normal(size=m), rng.normal(size=n), k, float(10 ** rng.uniform(-6, 6))


@family
def small_integers(rng):
    m, n, k = sizes(rng)
    alpha, beta = rng.integers(-3, 4, m), rng.integers(-3, 4, n)
    return alpha.astype(float), beta.astype(float), k, float(rng.choice(WEIGHTS))


@family
def ties(rng):
    m, n, k = sizes(rng)
    levels = rng.normal(size=3)
    return rng.choice(levels, m), rng.choice(levels[:2], n), k, float(rng.choice(WEIGHTS))


@family
def constants(rng):
    m, n, k = sizes(rng)
    a, b = rng.choice([-1.0, -0.1, 0.0, 0.1, 1.0, 1 / 3], 2)
    return np.full(m, a), np.full(n, b), k, float(rng.choice(WEIGHTS))


@family
def k_is_one(rng):
    m, n, _ = sizes(rng)
    return rng.normal(size=m), rng.normal(size=n).round(1), 1, float(rng.choice(WEIGHTS))


@family
def k_is_n(rng):
    m, n, _ = sizes(rng)
    return rng.normal(size=m).round(1), rng.normal(size=n), n, float(rng.choice(WEIGHTS))


@family
def single_entries(rng):
    m, n = (1, int(rng.integers(1, 9))) if rng.random() < 0.5 else (int(rng.integers(1, 9)), 1)
    return rng.normal(size=m), rng.normal(size=n), int(rng.integers(1, n + 1)), float(rng.choice(WEIGHTS))


@family
def zero_boundary(rng):
    """k * weight * max(alpha) + (sum of the k largest beta) is 0: the answer is zero, and only just."""
    m, n, k = sizes(rng)
    beta = k * rng.integers(-4, 5, n).astype(float)
    weight = float(rng.choice([0.25, 0.5, 1.0, 2.0, 4.0]))
    largest = -np.sort(beta)[-k:].sum() / (k * weight)
    alpha = largest - rng.integers(0, 3, m).astype(float)
    alpha[rng.integers(m)] = largest
    return alpha, beta, k, weight


@family
def next_to_zero_boundary(rng):
    """The same, with one entry moved to a neighbouring number."""
    alpha, beta, k, weight = zero_boundary(rng)
    vector = alpha if rng.random() < 0.5 else beta
    i = np.argmax(vector)
    vector[i] = np.nextafter(vector[i], rng.choice([-np.inf, np.inf]))
    return alpha, beta, k, weight


@family
def gap_after_top_k(rng):
    """The k largest beta stand far above the rest and share the total evenly."""
    m, n, k = sizes(rng)
    beta = rng.normal(size=n)
    beta[rng.permutation(n)[:k]] += rng.choice([1.0, 3.0, 10.0, 1e3])
    return rng.normal(size=m), beta, k, float(rng.choice(WEIGHTS))


@family
def gap_exactly_used_up(rng):
    """C = k (beta_[k] - beta_[k+1]) exactly: the corner between the even share and the rest."""
    m, n, _ = sizes(rng, smallest=2)
    k = int(rng.integers(1, n))
    above = rng.integers(0, 4, m) * k
    above[0] += k
    gap = above.sum() / k
    extra = rng.integers(0, 3, k) * k
    extra[-1] = 0
    level = float(rng.integers(-5, 6))
    shift = gap - level - extra.sum() / k
    alpha = shift + np.where(above > 0, above, -rng.integers(0, 3, m))
    beta = np.concatenate([level + extra, level - gap - rng.integers(0, 3, n - k)])
    beta[k] = level - gap
    return rng.permutation(alpha).astype(float), rng.permutation(beta).astype(float), k, 1.0


@family
def scales_apart(rng):
    m, n, k = sizes(rng)
    a, b = 10.0 ** rng.integers(-9, 10, 2)
    return a * rng.normal(size=m), b * rng.normal(size=n), k, float(rng.choice(WEIGHTS))


@family
def scales_mixed(rng):
    m, n, k = sizes(rng)
    alpha, beta = (rng.normal(size=size) * 10.0 ** rng.integers(-9, 10, size) for size in (m, n))
    return alpha, beta, k, float(rng.choice(WEIGHTS))


@family
def large_offset(rng):
    """Entries near +-1e9 with a small answer."""
    m, n, k = sizes(rng)
    noise = 10.0 ** rng.integers(-6, 3)
    offset = float(rng.choice([-1e9, 1e9]))
    return offset + noise * rng.normal(size=m), noise * rng.normal(size=n) - offset, k, 1.0


@family
def large_common_offset(rng):
    """All entries near 1e9, so that the answer is as large."""
    m, n, k = sizes(rng)
    return 1e9 + rng.normal(size=m), 1e9 + rng.integers(-3, 4, n), k, float(rng.choice(WEIGHTS))


@family
def subnormal(rng):
    m, n, k = sizes(rng)
    tiny = np.finfo(float).smallest_subnormal
    top = 10 ** int(rng.integers(1, 7))
    return rng.integers(-top, top, m) * tiny, rng.integers(-top, top, n) * tiny, k, 1.0


@family
def minus_infinity(rng):
    m, n, k = sizes(rng)
    alpha, beta = rng.normal(size=m).round(1), rng.normal(size=n).round(1)
    alpha[rng.random(m) < 0.3] = -np.inf
    beta[rng.random(n) < rng.choice([0.2, 0.8])] = -np.inf
    return alpha, beta, k, float(rng.choice(WEIGHTS))
