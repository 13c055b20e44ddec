"""The equation Psi(L) = 0 of docs/projection.md in terms of reductions alone.

The compiled kernel solves the same equation on pruned copies. Here nothing is known of a vector but what one sum,
count or extremum over all of it tells, so that it may be on a GPU or on many machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

_MAX_STEPS = 200  # against cycling in floating point; a solve takes about ten


class Above(NamedTuple):
    """Entries above a threshold, counted and added up."""

    strictly: int  # entries greater than it
    at_least: int  # entries greater than or equal to it
    excess: float  # sum of [x - threshold]_+


class ArrayReductions:
    """Reductions over one array, minus an origin. Only scalars leave the device; entries of -inf never count."""

    def __init__(self, x: Any, xp: Any, origin: float = 0.0) -> None:
        self.xp = xp
        self.x = xp.astype(x, xp.float64) - origin

    def above(self, threshold: float) -> Above:
        """Count and add up the entries above a threshold."""
        over = self.x - threshold
        excess = self.xp.sum(self.xp.where(over > 0, over, self.xp.zeros_like(over)))
        return Above(self._count(self.x > threshold), self._count(self.x >= threshold), float(excess))

    def total(self) -> tuple[int, float]:
        """Count and add up all finite entries."""
        finite = self.xp.isfinite(self.x)
        kept = self.xp.where(finite, self.x, self.xp.zeros_like(self.x))
        return self._count(finite), float(self.xp.sum(kept))

    def smallest_above(self, threshold: float) -> float:
        """The least entry greater than a threshold; inf if there is none."""
        nothing = self.xp.full_like(self.x, math.inf)
        return float(self.xp.min(self.xp.where(self.x > threshold, self.x, nothing)))

    def largest_below(self, threshold: float) -> float:
        """The largest entry less than or equal to a threshold; -inf if there is none."""
        nothing = self.xp.full_like(self.x, -math.inf)
        return float(self.xp.max(self.xp.where(self.x <= threshold, self.x, nothing)))

    def _count(self, condition: Any) -> int:
        return int(self.xp.sum(self.xp.astype(condition, self.xp.int64)))


class Kind(Enum):
    """The sets that share the equation."""

    SIMPLEX = "top-k simplex"
    CONE = "top-k cone"
    CAPPED = "capped simplex"


class InfeasibleError(ValueError):
    """The capped simplex is empty."""


class Solution(NamedTuple):
    """Thresholds lambda / weight, mu and delta, relative to the origins, and the total; 0 means the zero answer."""

    u: float
    v: float
    w: float
    total: float


class _BelowMinimum(Exception):  # noqa: N818 (not an error: no point has this level)
    pass


@dataclass
class _End:
    """One end of a level set of T, with count and excess of the entries above it."""

    at: float
    count: int
    excess: float


@dataclass
class _Point:
    """Psi at a level."""

    level: float
    value: float
    slope: float
    u: float
    n_alpha: int
    lower: _End
    upper: _End

    def counts(self) -> tuple[int, int, int]:
        return self.n_alpha, self.lower.count, self.upper.count


@dataclass
class LevelEquation:
    """A projection: its set, and the two vectors relative to their origins."""

    kind: Kind
    beta: ArrayReductions
    beta_origin: float
    k: float
    alpha: ArrayReductions | None = None
    alpha_origin: float = 0.0
    weight: float = 1.0
    total: float = 0.0

    @property
    def balance(self) -> float:
        """Minus what lambda and mu add up to at the two origins."""
        return -math.fsum((self.beta_origin, self.weight * self.alpha_origin))

    def solve(self) -> Solution:
        """Find the thresholds of the projection."""
        left: _Point | None = None
        right: _Point | None = None
        before: _Point | None = None
        now = self._start()
        for _ in range(_MAX_STEPS):
            if now is None:
                found = self._minimum()
                if isinstance(found, Solution):
                    return found
                if found.value <= 0.0:
                    return self._flat(found.level, found.lower, found.upper)
                now = found
            if now.value == 0.0 or (before is not None and before.counts() == now.counts()):
                break
            left, right = (now, right) if now.value > 0.0 else (left, now)
            level = now.level - now.value / now.slope
            if left is not None and level <= left.level:
                level = left.level - left.value / left.slope
            if level == now.level or (
                left is not None and not left.level < level < (math.inf if right is None else right.level)
            ):
                break
            before = now
            try:
                now = self._psi(level, now.lower, now.upper)
            except _BelowMinimum:
                if left is not None:
                    break
                now = None
        assert now is not None
        return Solution(now.u, now.lower.at, now.upper.at, self.k * (now.upper.at - now.lower.at))

    def _height(self, end: _End) -> float:
        return end.excess + self.k * end.at

    def _evaluate(self, at: float, *, lower: bool) -> _End:
        above = self.beta.above(at)
        return _End(at, above.at_least if lower else above.strictly, above.excess)

    def _find_end(self, end: _End, level: float, *, lower: bool) -> _End:
        """Newton on T: the lower end from the left, the upper end from the right."""
        sign = -1.0 if lower else 1.0
        for _ in range(_MAX_STEPS):
            slope = self.k - end.count
            if sign * slope <= 0.0:
                raise _BelowMinimum
            at = end.at - (self._height(end) - level) / slope
            if at == end.at:
                break
            before, end = end, self._evaluate(at, lower=lower)
            if end.count == before.count:
                break
        return end

    def _start(self) -> _Point | None:
        """Psi at the level of the origin or of the smallest entry; None where T has no falling branch there."""
        lower = self._evaluate(0.0, lower=True)
        if lower.count <= self.k:
            lower = self._evaluate(self.beta.smallest_above(-math.inf), lower=True)
        if lower.count <= self.k:
            return None
        level = self._height(lower)
        try:
            return self._psi(level, lower, self._evaluate(level / self.k, lower=False))
        except _BelowMinimum:
            return None

    def _psi(self, level: float, lower: _End, upper: _End) -> _Point:
        lower = self._find_end(lower, level, lower=True)
        upper = self._find_end(upper, level, lower=False)
        return self._measure(level, lower, upper)

    def _measure(self, level: float, lower: _End, upper: _End) -> _Point:
        k = self.k
        widening = 1.0 / (lower.count - k) + 1.0 / (k - upper.count)
        total, slope = k * (upper.at - lower.at), -k * widening
        if self.kind is Kind.CONE:
            return _Point(level, level + k * self.beta_origin - total, 1.0 + slope, 0.0, 0, lower, upper)
        if self.kind is Kind.CAPPED:
            return _Point(level, self.total - total, slope, 0.0, 0, lower, upper)
        assert self.alpha is not None
        u = ((self.balance - lower.at) - upper.excess / k) / self.weight
        above = self.alpha.above(u)
        slope -= above.strictly / self.weight * (widening - 1.0 / k)
        return _Point(level, above.excess - total, slope, u, above.strictly, lower, upper)

    def _minimum(self) -> _Point | Solution:
        """Psi at the minimum of T, which lies between entries k+1 and k; or the answer, where k is all there is."""
        n_finite, total = self.beta.total()
        if self.k > n_finite:
            if self.kind is Kind.CAPPED:
                raise InfeasibleError
            return Solution(math.inf, 0.0, 0.0, 0.0)
        if self.k == n_finite:
            return self._flat(total, _End(-math.inf, n_finite, math.inf), _End(math.inf, n_finite, 0.0))
        left = self._select(math.floor(self.k) + 1)
        lower = self._evaluate(left, lower=True)
        right = left
        if self.k == math.floor(self.k) and self.beta.above(left).strictly == self.k:
            right = self.beta.smallest_above(left)
        return self._measure(self._height(lower), lower, self._evaluate(right, lower=False))

    def _select(self, rank: int) -> float:
        """The rank-th largest entry, by bisection between entries: at least half of a range goes in every round."""
        low = self.beta.smallest_above(-math.inf)
        high = self.beta.largest_below(math.inf)
        while low < high:
            half = low + (high - low) / 2
            middle = self.beta.largest_below(half) if half < high else low  # no number lies between
            if self.beta.above(middle).strictly >= rank:
                low = self.beta.smallest_above(middle)
            else:
                high = middle
        return low

    def _flat(self, level: float, lower: _End, upper: _End) -> Solution:
        """The k largest entries share the total: S(u) = k lambda + L_min, or what closes the other sets."""
        if self.kind is Kind.CAPPED:
            return Solution(0.0, lower.at, upper.at, self.total)
        if self.kind is Kind.CONE:
            return Solution(0.0, lower.at, upper.at, max(0.0, level + self.k * self.beta_origin))
        assert self.alpha is not None
        constant, steepness = self.k * self.balance - level, self.k * self.weight
        u = constant / steepness
        above = self.alpha.above(u)
        for _ in range(_MAX_STEPS):
            residual = above.excess - (steepness * u - constant)
            step = residual / (above.strictly + steepness)
            if u + step == u:
                break
            before, u = above, u + step
            above = self.alpha.above(u)
            if above.strictly == before.strictly:
                break
        return Solution(u, lower.at, upper.at, above.excess)
