"""The equation Psi(L) = 0 of docs/projection.md in terms of reductions alone.

The compiled kernel solves the same equation on pruned copies. Here nothing is known of a vector but what one sum,
count or extremum over all of it tells, so that it may live on a GPU or on many machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

_MAX_STEPS = 200  # against cycling in floating point; a solve takes about ten


class Above(NamedTuple):
    """What lies above a threshold."""

    strictly: int  # entries greater than it
    at_least: int  # entries greater than or equal to it
    excess: float  # sum of [x - threshold]_+


class Reductions(Protocol):
    """One vector, minus an origin, seen through reductions. Entries of -inf never count."""

    def above(self, threshold: float) -> Above:
        """Count and add up what lies above a threshold."""

    def total(self) -> tuple[int, float]:
        """Count and add up all finite entries."""

    def smallest_above(self, threshold: float) -> float:
        """The least entry greater than a threshold; inf if there is none."""

    def largest_below(self, threshold: float) -> float:
        """The largest entry less than or equal to a threshold; -inf if there is none."""


class Kind(Enum):
    """The sets that share the equation."""

    SIMPLEX = "top-k simplex"
    CONE = "top-k cone"
    CAPPED = "capped simplex"


class InfeasibleError(ValueError):
    """The capped simplex is empty."""


@dataclass
class Problem:
    """A projection: the two vectors relative to their origins, and what closes the system."""

    kind: Kind
    beta: Reductions
    beta_origin: float
    k: float
    alpha: Reductions | None = None
    alpha_origin: float = 0.0
    weight: float = 1.0
    total: float = 0.0

    @property
    def balance(self) -> float:
        """Minus what lambda and mu add up to at the two origins."""
        return -math.fsum((self.beta_origin, self.weight * self.alpha_origin))


@dataclass
class Solution:
    """Thresholds relative to the origins, and the common total; a total of 0 means the zero answer."""

    u: float  # lambda / weight
    v: float  # mu
    w: float  # delta
    total: float


class _BelowMinimum(Exception):  # noqa: N818 (not an error: no point has this level)
    pass


@dataclass
class _End:
    """One end of a level set of T, and what lies above it."""

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


class _Solver:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.k = problem.k

    def solve(self) -> Solution:
        left: _Point | None = None
        right: _Point | None = None
        before: _Point | None = None
        now = self.start()
        for _ in range(_MAX_STEPS):
            if now is None:
                found = self.minimum()
                if isinstance(found, Solution):
                    return found
                if found.value <= 0.0:
                    return self.flat(found.level, found.lower, found.upper)
                now = found
            if now.value == 0.0 or (before is not None and before.counts() == now.counts()):
                break
            left, right = (now, right) if now.value > 0.0 else (left, now)
            level = now.level - now.value / now.slope
            if left is not None and level <= left.level:
                level = left.level - left.value / left.slope
            if level == now.level or (left is not None and not left.level < level < _level_of(right)):
                break
            before = now
            try:
                now = self.psi(level, now.lower, now.upper)
            except _BelowMinimum:
                if left is not None:
                    break
                now = None
        assert now is not None
        return Solution(now.u, now.lower.at, now.upper.at, self.k * (now.upper.at - now.lower.at))

    def height(self, end: _End) -> float:
        return end.excess + self.k * end.at

    def evaluate(self, at: float, *, lower: bool) -> _End:
        above = self.problem.beta.above(at)
        return _End(at, above.at_least if lower else above.strictly, above.excess)

    def find_end(self, end: _End, level: float, *, lower: bool) -> _End:
        """Newton on T: the lower end from the left, the upper end from the right."""
        sign = -1.0 if lower else 1.0
        for _ in range(_MAX_STEPS):
            slope = self.k - end.count
            if sign * slope <= 0.0:
                raise _BelowMinimum
            at = end.at - (self.height(end) - level) / slope
            if at == end.at:
                break
            before, end = end, self.evaluate(at, lower=lower)
            if end.count == before.count:
                break
        return end

    def start(self) -> _Point | None:
        """Psi at the level of the origin or of the smallest entry; None where T has no falling branch there."""
        lower = self.evaluate(0.0, lower=True)
        if lower.count <= self.k:
            lower = self.evaluate(self.problem.beta.smallest_above(-math.inf), lower=True)
        if lower.count <= self.k:
            return None
        level = self.height(lower)
        try:
            return self.psi(level, lower, self.evaluate(level / self.k, lower=False))
        except _BelowMinimum:
            return None

    def psi(self, level: float, lower: _End, upper: _End) -> _Point:
        lower = self.find_end(lower, level, lower=True)
        upper = self.find_end(upper, level, lower=False)
        return self.measure(level, lower, upper)

    def measure(self, level: float, lower: _End, upper: _End) -> _Point:
        p, k = self.problem, self.k
        widening = 1.0 / (lower.count - k) + 1.0 / (k - upper.count)
        total, slope = k * (upper.at - lower.at), -k * widening
        if p.kind is Kind.CONE:
            return _Point(level, level + k * p.beta_origin - total, 1.0 + slope, 0.0, 0, lower, upper)
        if p.kind is Kind.CAPPED:
            return _Point(level, p.total - total, slope, 0.0, 0, lower, upper)
        assert p.alpha is not None
        u = ((p.balance - lower.at) - upper.excess / k) / p.weight
        above = p.alpha.above(u)
        slope -= above.strictly / p.weight * (widening - 1.0 / k)
        return _Point(level, above.excess - total, slope, u, above.strictly, lower, upper)

    def minimum(self) -> _Point | Solution:
        """Psi at the minimum of T, which lies between entries k+1 and k; or the answer, where k is all there is."""
        n_finite, total = self.problem.beta.total()
        if self.k > n_finite:
            if self.problem.kind is Kind.CAPPED:
                raise InfeasibleError
            return Solution(math.inf, 0.0, 0.0, 0.0)
        if self.k == n_finite:
            return self.flat(total, _End(-math.inf, n_finite, math.inf), _End(math.inf, n_finite, 0.0))
        left = self.select(math.floor(self.k) + 1)
        lower = self.evaluate(left, lower=True)
        right = left
        if self.k == math.floor(self.k) and self.problem.beta.above(left).strictly == self.k:
            right = self.problem.beta.smallest_above(left)
        return self.measure(self.height(lower), lower, self.evaluate(right, lower=False))

    def select(self, rank: int) -> float:
        """The rank-th largest entry, by bisection between entries: at least half of a range goes in every round."""
        low = self.problem.beta.smallest_above(-math.inf)
        high = self.problem.beta.largest_below(math.inf)
        while low < high:
            half = low + (high - low) / 2
            middle = self.problem.beta.largest_below(half) if half < high else low  # no number lies between
            if self.problem.beta.above(middle).strictly >= rank:
                low = self.problem.beta.smallest_above(middle)
            else:
                high = middle
        return low

    def flat(self, level: float, lower: _End, upper: _End) -> Solution:
        """The k largest entries share the total: S(u) = k lambda + L_min, or what closes the other sets."""
        p = self.problem
        if p.kind is Kind.CAPPED:
            return Solution(0.0, lower.at, upper.at, p.total)
        if p.kind is Kind.CONE:
            return Solution(0.0, lower.at, upper.at, max(0.0, level + self.k * p.beta_origin))
        assert p.alpha is not None
        constant, steepness = self.k * p.balance - level, self.k * p.weight
        u = constant / steepness
        above = p.alpha.above(u)
        for _ in range(_MAX_STEPS):
            residual = above.excess - (steepness * u - constant)
            step = residual / (above.strictly + steepness)
            if u + step == u:
                break
            before, u = above, u + step
            above = p.alpha.above(u)
            if above.strictly == before.strictly:
                break
        return Solution(u, lower.at, upper.at, above.excess)


def _level_of(right: _Point | None) -> float:
    return math.inf if right is None else right.level


def solve(problem: Problem) -> Solution:
    """Find the thresholds of a projection."""
    return _Solver(problem).solve()
