"""Oracles for the compiled projections.

Two kinds, both written without the level sets that the library uses:

- ``exact_*`` work in rational arithmetic on small vectors. They try every shape an answer can have (how many
  entries of alpha are positive, how many of beta sit at the cap, how many are strictly between), solve the
  linear equations of that shape, and return the one point that passes ``certifies_*``. The certificate is
  Moreau's: x is the projection of x0 on a closed convex cone exactly when x is in the cone, x0 - x is
  orthogonal to x, and x0 - x makes no acute angle with any point of the cone. It knows nothing of thresholds.
- ``sorted_*`` are the plain twins for long vectors, O(n log n): sort, take exact prefix sums as integers, and
  find the shape by Newton's method on the total C. Only the last subtraction is in floating point, so the
  answer is right to the last bits even where it is tiny beside the input.

Entries of -inf are never active. A weight, a total and a cap are taken at their exact binary value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from math import floor, fsum, inf, lcm
from typing import NamedTuple

import numpy as np

ZERO = Fraction(0)


class Answer(NamedTuple):
    """A projection; `lam` and `mu` are None where the answer does not determine them."""

    alpha: list[Fraction]
    beta: list[Fraction]
    total: Fraction
    lam: Fraction | None
    mu: Fraction | None

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([float(x) for x in self.alpha]), np.array([float(x) for x in self.beta])


# Certificates ---------------------------------------------------------------------------------------------


def _residual(start: Sequence[float], point: Sequence[Fraction]) -> list[Fraction] | None:
    """start - point over the finite entries; None where the point puts weight on an entry of -inf."""
    if any(x != 0 for s, x in zip(start, point, strict=True) if s == -inf):
        return None
    return [Fraction(s) - x for s, x in zip(start, point, strict=True) if s != -inf]


def _dot(start: Sequence[float], residual: list[Fraction], point: Sequence[Fraction]) -> Fraction:
    finite = [x for s, x in zip(start, point, strict=True) if s != -inf]
    return sum((r * x for r, x in zip(residual, finite, strict=True)), ZERO)


def certifies_simplex(alpha0, beta0, k, weight, alpha, beta) -> bool:
    """Whether (alpha, beta) is exactly the projection of (alpha0, beta0) on the top-k simplex."""
    total = sum(alpha, ZERO)
    if min(*alpha, *beta) < 0 or sum(beta, ZERO) != total or k * max(beta) > total:
        return False
    rest_a, rest_b = _residual(alpha0, alpha), _residual(beta0, beta)
    if rest_a is None or rest_b is None:
        return False
    weight = Fraction(weight)
    if weight * _dot(alpha0, rest_a, alpha) + _dot(beta0, rest_b, beta) != 0:
        return False
    if not rest_a or len(rest_b) < k:  # every other point of the set is infinitely far away
        return True
    # the extreme rays of the set are (e_i, indicator of k entries / k)
    return k * weight * max(rest_a) + sum(sorted(rest_b)[-k:], ZERO) <= 0


def certifies_cone(beta0, k, beta) -> bool:
    """Whether beta is exactly the projection of beta0 on { 0 <= beta_j <= sum(beta) / k }."""
    if min(beta) < 0 or k * max(beta) > sum(beta, ZERO):
        return False
    rest = _residual(beta0, beta)
    if rest is None or _dot(beta0, rest, beta) != 0:
        return False
    return len(rest) < k or sum(sorted(rest)[-k:], ZERO) <= 0


def certifies_capped(beta0, total, cap, beta) -> bool:
    """Whether beta is exactly the projection of beta0 on { 0 <= beta_j <= cap, sum(beta) = total }."""
    total, cap = Fraction(total), Fraction(cap)
    if min(beta) < 0 or max(beta) > cap or sum(beta, ZERO) != total:
        return False
    rest = _residual(beta0, beta)
    if rest is None:
        return False
    support, left = ZERO, total
    for r in sorted(rest, reverse=True):  # the best point of the set in the direction of the residual
        step = min(cap, left)
        support, left = support + r * step, left - step
    return _dot(beta0, rest, beta) == support


# Rational projections -------------------------------------------------------------------------------------


def _descending(values: Sequence[float]) -> list[Fraction]:
    return sorted((Fraction(v) for v in values if v != -inf), reverse=True)


def _beta_shapes(b: list[int], sums: list[int], k: int) -> Iterator[tuple[int, int, int, int]]:
    """(capped, positive, r, s): entries at the cap, entries above zero, and that shape's equation r C = s.

    The equation is stationarity in C without the alpha term, times k^2 * free (times k^2 if none is free).
    """
    n = len(b)
    yield k, k, k, k * sums[k]
    for capped in range(k):
        for positive in range(k + 1, n + 1):  # fewer could not carry C with k - capped < free
            free, open_ = positive - capped, k - capped
            inner = sums[positive] - sums[capped]
            yield capped, positive, open_ * open_ + free * capped, k * (open_ * inner + free * sums[capped])


def _beta_fits(b: list[int], sums: list[int], k: int, capped: int, positive: int, num: int, den: int) -> bool:
    """Whether the order of the entries agrees with the shape when C = num / den."""
    n = len(b)
    if capped == k:
        return k == n or num <= den * k * (b[k - 1] - b[k])
    free = positive - capped
    unit = k * free * den
    mu = k * (sums[positive] - sums[capped]) * den - (k - capped) * num
    delta = mu + free * num
    return (
        b[positive - 1] * unit >= mu
        and (positive == n or b[positive] * unit <= mu)
        and (capped == 0 or b[capped - 1] * unit >= delta)
        and b[capped] * unit <= delta
    )


def _beta_point(beta0, sums, k, capped, positive, total, scale) -> tuple[list[Fraction], Fraction | None]:
    cap = total / k
    if capped == k:
        order = sorted(range(len(beta0)), key=lambda j: -beta0[j])
        top = set(order[:k])
        return [cap if j in top else ZERO for j in range(len(beta0))], None
    inner = Fraction(sums[positive] - sums[capped], scale)
    mu = (inner - total + capped * cap) / (positive - capped)
    return [ZERO if x == -inf else min(max(Fraction(x) - mu, ZERO), cap) for x in beta0], mu


def exact_simplex(alpha0, beta0, k, weight=1) -> Answer:
    """Project (alpha0, beta0) on the top-k simplex, exactly."""
    alpha0, beta0, weight = list(map(float, alpha0)), list(map(float, beta0)), Fraction(weight)
    zero = [ZERO] * len(alpha0), [ZERO] * len(beta0)
    if certifies_simplex(alpha0, beta0, k, weight, *zero):
        return Answer(*zero, ZERO, None, None)
    fa, fb = _descending(alpha0), _descending(beta0)
    scale = lcm(*(x.denominator for x in fa + fb))
    a, b = [int(x * scale) for x in fa], [int(x * scale) for x in fb]
    sums_a, sums_b = [0, *accumulate(a)], [0, *accumulate(b)]
    up, down = weight.numerator, weight.denominator
    for capped, positive, r, s in _beta_shapes(b, sums_b, k):
        head = up * k * k * (positive - capped or 1)
        for p in range(1, len(a) + 1):
            # (weight/p) C - (weight/p) sum(top p of alpha0) added to the equation of beta
            den = head + down * p * r
            num = head * sums_a[p] + down * p * s
            level = sums_a[p] * den - num  # p * den * lambda / weight
            if num <= 0 or a[p - 1] * p * den < level or (p < len(a) and a[p] * p * den > level):
                continue
            if not _beta_fits(b, sums_b, k, capped, positive, num, den):
                continue
            total = Fraction(num, den * scale)
            shift = Fraction(level, p * den * scale)
            alpha = [ZERO if x == -inf else max(Fraction(x) - shift, ZERO) for x in alpha0]
            beta, mu = _beta_point(beta0, sums_b, k, capped, positive, total, scale)
            if certifies_simplex(alpha0, beta0, k, weight, alpha, beta):
                return Answer(alpha, beta, total, shift * weight, mu)
    raise AssertionError(f"no shape passed the certificate: {alpha0!r}, {beta0!r}, {k}, {weight}")


def exact_cone(beta0, k) -> Answer:
    """Project beta0 on { 0 <= beta_j <= sum(beta) / k }, exactly."""
    beta0 = list(map(float, beta0))
    zero = [ZERO] * len(beta0)
    if certifies_cone(beta0, k, zero):
        return Answer([], zero, ZERO, ZERO, None)
    fb = _descending(beta0)
    scale = lcm(*(x.denominator for x in fb))
    b = [int(x * scale) for x in fb]
    sums = [0, *accumulate(b)]
    for capped, positive, den, num in _beta_shapes(b, sums, k):
        if num > 0 and _beta_fits(b, sums, k, capped, positive, num, den):
            total = Fraction(num, den * scale)
            beta, mu = _beta_point(beta0, sums, k, capped, positive, total, scale)
            if certifies_cone(beta0, k, beta):
                return Answer([], beta, total, ZERO, mu)
    raise AssertionError(f"no shape passed the certificate: {beta0!r}, {k}")


def exact_capped(beta0, total, cap) -> Answer:
    """Project beta0 on { 0 <= beta_j <= cap, sum(beta) = total }, exactly."""
    beta0, total, cap = list(map(float, beta0)), Fraction(total), Fraction(cap)
    b = _descending(beta0)
    if not 0 <= total <= len(b) * cap:
        raise ValueError("the set is empty")
    order = sorted(range(len(beta0)), key=lambda j: -beta0[j])
    if total % cap == 0:
        top = set(order[: total // cap])
        beta = [cap if j in top else ZERO for j in range(len(beta0))]
        if certifies_capped(beta0, total, cap, beta):
            return Answer([], beta, total, None, None)
    for capped in range(len(b)):
        for positive in range(capped + 1, len(b) + 1):
            mu = (sum(b[capped:positive], ZERO) + capped * cap - total) / (positive - capped)
            if b[positive - 1] < mu or b[capped] > mu + cap:
                continue
            beta = [ZERO if x == -inf else min(max(Fraction(x) - mu, ZERO), cap) for x in beta0]
            if certifies_capped(beta0, total, cap, beta):
                return Answer([], beta, total, None, mu)
    raise AssertionError(f"no shape passed the certificate: {beta0!r}, {total}, {cap}")


# Twins for long vectors -----------------------------------------------------------------------------------


def _minus(x: np.ndarray, threshold: Fraction) -> np.ndarray:
    """x - threshold to the last bit, also where the two nearly cancel."""
    high = float(threshold)
    return (x - high) - float(threshold - Fraction(high))


class _Sorted:
    """Finite entries in descending order, as integers times `unit`, with the sums of the largest ones."""

    def __init__(self, values: np.ndarray):
        ratios = [x.as_integer_ratio() for x in np.sort(values[np.isfinite(values)]).tolist()]
        scale = max((d for _, d in ratios), default=1)  # denominators are powers of two
        self.unit = Fraction(1, scale)
        self.ascending = [n * (scale // d) for n, d in ratios]
        self.sums = [0, *accumulate(reversed(self.ascending))]

    def __len__(self) -> int:
        return len(self.ascending)

    def __getitem__(self, rank: int) -> Fraction:
        """The entry of the given rank, 0 for the largest."""
        return self.ascending[-1 - rank] * self.unit

    def top(self, count: int) -> Fraction:
        return self.sums[count] * self.unit

    def above(self, level: Fraction) -> int:
        """How many entries exceed the level."""
        return len(self) - bisect_right(self.ascending, floor(level / self.unit))

    def excess(self, level: Fraction) -> Fraction:
        count = self.above(level)
        return self.top(count) - count * level

    def waterline(self, total: Fraction, cap: Fraction) -> Fraction:
        """The largest mu with sum_j min([x_j - mu]_+, cap) = total, by bisection over the kinks."""

        def carried(mu: Fraction) -> Fraction:
            return self.excess(mu) - self.excess(mu + cap)

        low = self[len(self) - 1] - cap
        for drop in (ZERO, cap):  # the kinks are the entries and the entries less the cap
            rank = bisect_left(range(len(self)), total, key=lambda r: carried(self[r] - drop))
            if rank < len(self):
                low = max(low, self[rank] - drop)
        free = self.above(low) - self.above(low + cap)
        return low + (carried(low) - total) / free if free else low


def _beta_shape(b: _Sorted, k: int, total: Fraction) -> tuple[int, int]:
    """(capped, positive) where the total is known."""
    cap = total / k
    if k == len(b) or cap <= b[k - 1] - b[k]:
        return k, k
    mu = b.waterline(total, cap)
    return b.above(mu + cap), b.above(mu)


def _top_k(a: _Sorted | None, b: _Sorted, k: int, weight: Fraction):
    """(total, lambda / weight, mu) on the top-k simplex, or on the cone where `a` is None; None for zero.

    Newton's method on the total: the slope of the dual function is convex in it and piecewise linear, so the
    iterates climb to the root and stop there exactly.
    """
    if len(b) < k or (a is not None and not len(a)):
        return None
    if (k * weight * a[0] if a is not None else ZERO) + b.top(k) <= 0:
        return None
    total = ZERO
    while True:
        capped, positive = _beta_shape(b, k, total) if total else (k, k)
        free, share = positive - capped, 1 - Fraction(capped, k)
        inner = b.top(positive) - b.top(capped)
        left, right = Fraction(capped, k * k), b.top(capped) / k
        if free:
            left, right = left + share * share / free, right + share * inner / free
        p, shift = 0, ZERO
        if a is not None:  # p entries are positive once the total exceeds the sum of their leads over the p-th
            p = max(bisect_left(range(len(a)), total, key=lambda r: a.top(r + 1) - (r + 1) * a[r]), 1)
            left, right = left + weight / p, right + weight * a.top(p) / p
        following = right / left
        if following == total:
            shift = (a.top(p) - total) / p if a is not None else ZERO
            return total, shift, (inner - share * total) / free if free else None
        total = following


def _spread(beta0: np.ndarray, k: int, total: Fraction, mu: Fraction | None) -> np.ndarray:
    cap = float(total / k)
    if mu is not None:
        return np.clip(_minus(beta0, mu), 0.0, cap)
    beta = np.zeros(len(beta0))
    beta[np.argsort(-beta0, kind="stable")[:k]] = cap
    return beta


def sorted_simplex(alpha0, beta0, k, weight=1.0) -> tuple[np.ndarray, np.ndarray]:
    """Project (alpha0, beta0) on the top-k simplex; float64, right to the last bits."""
    alpha0, beta0 = np.asarray(alpha0, float), np.asarray(beta0, float)
    found = _top_k(_Sorted(alpha0), _Sorted(beta0), k, Fraction(weight))
    if found is None:
        return np.zeros(len(alpha0)), np.zeros(len(beta0))
    total, shift, mu = found
    return np.maximum(_minus(alpha0, shift), 0.0), _spread(beta0, k, total, mu)


def sorted_cone(beta0, k) -> np.ndarray:
    """Project beta0 on { 0 <= beta_j <= sum(beta) / k }; float64, right to the last bits."""
    beta0 = np.asarray(beta0, float)
    found = _top_k(None, _Sorted(beta0), k, Fraction(1))
    return np.zeros(len(beta0)) if found is None else _spread(beta0, k, found[0], found[2])


def sorted_capped(beta0, total, cap) -> np.ndarray:
    """Project beta0 on { 0 <= beta_j <= cap, sum(beta) = total }; float64, right to the last bits."""
    beta0 = np.asarray(beta0, float)
    mu = _Sorted(beta0).waterline(Fraction(total), Fraction(cap))
    return np.clip(_minus(beta0, mu), 0.0, float(cap))


# What rounding allows -------------------------------------------------------------------------------------


def _matter(values: np.ndarray, answer: np.ndarray, k: int) -> np.ndarray:
    """The finite entries that decide the answer: those positive in it, and the k largest."""
    matter = np.asarray(answer) > 0
    matter[np.argsort(-values, kind="stable")[:k]] = True
    return values[matter & np.isfinite(values)]


def tolerances(alpha0, beta0, k, weight, alpha, beta, dtype=np.float64) -> tuple[float, float]:
    """What one rounding of every entry that matters can do to an entry of alpha, and to one of beta.

    The projection does not expand distances in the norm sqrt(weight |alpha|^2 + |beta|^2), so relative errors
    of eps in the input move the answer by about eps (sqrt(weight) max|alpha0| + max|beta0|) in that norm.
    """
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).smallest_subnormal)
    root = float(weight) ** 0.5
    error = [
        eps * float(np.abs(_matter(np.asarray(x0, float), x, count)).max(initial=0.0)) + tiny
        for x0, x, count in ((alpha0, alpha, 1), (beta0, beta, k))
    ]
    return error[0] + error[1] / root, root * error[0] + error[1]


def distance_in_roundings(alpha0, beta0, k, weight, found, expected, dtype=np.float64) -> float:
    """The distance of two answers over what one rounding of every entry that matters can cause.

    Both are lengths in the norm sqrt(weight |alpha|^2 + |beta|^2), which suits long vectors: a stable
    method stays below a small constant whatever the length.
    """

    def length(a, b):
        return float(np.hypot(weight**0.5 * np.linalg.norm(a), np.linalg.norm(b)))

    alpha0, beta0 = np.asarray(alpha0, float), np.asarray(beta0, float)
    rounding = length(_matter(alpha0, expected[0], 1), _matter(beta0, expected[1], k)) + length(*expected)
    rounding *= np.finfo(dtype).eps
    apart = length(found[0] - expected[0], found[1] - expected[1])
    return apart / rounding if rounding else (np.inf if apart else 0.0)


def assert_feasible(alpha, beta, k, dtype=np.float64, problem="", weight=1.0) -> None:
    """sum(alpha) = sum(beta) = C and 0 <= beta_j <= C/k, to a few roundings relative to C itself."""
    assert alpha.dtype == beta.dtype == np.dtype(dtype), problem
    for x in (alpha, beta):
        assert np.isfinite(x).all(), problem
        assert (x >= 0).all(), problem
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).smallest_subnormal)
    sums = fsum(alpha.tolist()), fsum(beta.tolist())
    slack = 16 * eps * sums[0] + (len(alpha) + len(beta)) * tiny * max(1.0, 1.0 / weight)
    assert abs(sums[0] - sums[1]) <= slack, f"sum(alpha) = {sums[0]!r}, sum(beta) = {sums[1]!r}: {problem}"
    assert beta.max() <= sums[0] / k * (1 + 8 * eps) + 2 * tiny, f"an entry of beta exceeds C/k: {problem}"
