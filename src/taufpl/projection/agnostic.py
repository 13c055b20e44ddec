"""The projections for arrays of any library that follows the array API standard, by reductions alone.

The answers are those of :mod:`taufpl.projection`, up to rounding relative to the largest entry; where entries lie so
many decades apart that this loses the sum, an ArithmeticError says so. NumPy arrays are projected much faster there.

This is also the readable version: the equation Psi(L) = 0 of docs/projection.md, solved with nothing known of a vector
but what one sum, count or extremum over all of it tells, so that it may be on a GPU or on many machines. The compiled
kernel solves the same equation on pruned copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from taufpl.projection._project import check_k, check_total, check_weight

__all__ = ["ArrayReductions", "project_capped_simplex", "project_topk_cone", "project_topk_simplex"]

_MAX_STEPS = 200  # against cycling in floating point; a solve takes about ten


def project_topk_simplex(
    alpha: Any, beta: Any, k: int, *, weight: float = 1.0, xp: Any | None = None
) -> tuple[Any, Any]:
    """Project a pair of arrays on the top-k simplex.

    Parameters
    ----------
    alpha, beta : one-dimensional floating-point arrays of one library
        Finite values or -inf.
    k : int
        Between 1 and the size of beta.
    weight : float, default=1.0
        Weight of alpha's part of the distance, between 1e-12 and 1e12.
    xp : namespace, default=None
        The array library; needed for arrays that do not name it themselves (``__array_namespace__``).

    Returns
    -------
    alpha, beta : arrays like the inputs

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.projection import agnostic
    >>> agnostic.project_topk_simplex(np.array([1.0, 0.2]), np.array([1.0, 0.6, -0.3]), k=2, xp=np)
    (array([1.1, 0.3]), array([0.7, 0.7, 0. ]))
    """
    xp = _namespace(alpha, xp)
    _check(xp, alpha=alpha, beta=beta)
    count = check_k(k, beta.shape[0])
    weight = check_weight(weight)

    def problem(u: float, v: float) -> _LevelEquation:
        first, second = ArrayReductions(alpha, xp, u), ArrayReductions(beta, xp, v)
        return _LevelEquation(second, v, count, alpha=first, alpha_origin=u, weight=weight)

    u, v, answer = _solve_twice(problem)
    if answer.total == 0.0:
        return xp.zeros_like(alpha), xp.zeros_like(beta)
    new_alpha = _clip(ArrayReductions(alpha, xp, u), answer.u, math.inf)
    total = float(xp.sum(new_alpha))
    new_beta = _write_beta(ArrayReductions(beta, xp, v), answer.v, total, total / count)
    return xp.astype(new_alpha, alpha.dtype), xp.astype(new_beta, beta.dtype)


def project_topk_cone(beta: Any, k: int, *, xp: Any | None = None) -> Any:
    """Project an array on the top-k cone ``{0 <= b_j <= (1/k) sum b}``.

    Parameters and returned value are as in :func:`project_topk_simplex`, without alpha.
    """
    xp = _namespace(beta, xp)
    _check(xp, beta=beta)
    count = check_k(k, beta.shape[0])
    return _project_beta(beta, xp, count)


def project_capped_simplex(beta: Any, total: float, cap: float, *, xp: Any | None = None) -> Any:
    """Project an array on the capped simplex ``{0 <= b_j <= cap, sum b = total}``.

    Parameters and returned value are as in :func:`project_topk_simplex`, without alpha.
    """
    xp = _namespace(beta, xp)
    _check(xp, beta=beta)
    total, most, count = check_total(total, cap, beta.shape[0])
    if total == 0.0:
        return xp.zeros_like(beta)
    try:
        return _project_beta(beta, xp, count, total, most)
    except _InfeasibleError:
        raise ValueError(
            f"total must be at most cap times the number of finite entries of beta; got {total}, cap {cap}."
        ) from None


def _project_beta(beta: Any, xp: Any, k: float, total: float | None = None, cap: float | None = None) -> Any:
    def problem(u: float, v: float) -> _LevelEquation:
        return _LevelEquation(ArrayReductions(beta, xp, v), v, k, total=total)

    _, v, answer = _solve_twice(problem)
    if answer.total == 0.0:
        return xp.zeros_like(beta)
    cap = answer.total / k if cap is None else cap
    return xp.astype(_write_beta(ArrayReductions(beta, xp, v), answer.v, answer.total, cap), beta.dtype)


def _solve_twice(problem: Callable[[float, float], _LevelEquation]) -> tuple[float, float, _Solution]:
    """Once to find out where the thresholds are, once more with them as origins: differences are exact there."""
    rough = problem(0.0, 0.0).solve()
    u = rough.u if math.isfinite(rough.u) else 0.0
    v = rough.v if math.isfinite(rough.v) else 0.0
    return u, v, problem(u, v).solve()


def _clip(vector: ArrayReductions, offset: float, cap: float) -> Any:
    xp = vector.xp
    if offset == -math.inf:  # every finite entry is at its cap
        return xp.where(xp.isfinite(vector.x), xp.full_like(vector.x, cap), xp.zeros_like(vector.x))
    over = vector.x - offset
    over = xp.where(over > 0, over, xp.zeros_like(over))
    return xp.where(over < cap, over, xp.full_like(over, cap)) if cap < math.inf else over


def _write_beta(vector: ArrayReductions, offset: float, total: float, cap: float) -> Any:
    """Beta under its cap, with mu nudged until the sum is right to a few ulps."""
    xp = vector.xp
    for _ in range(4):
        beta = _clip(vector, offset, cap)
        surplus = float(xp.sum(beta)) - total
        free = int(xp.sum(xp.astype((beta > 0) & (beta < cap), xp.int64)))
        if abs(surplus) <= 8 * 2.0**-52 * total or free == 0:
            break
        offset += surplus / free
    if abs(surplus) > 1e-9 * total + beta.shape[0] * 2.0**-1022:
        raise ArithmeticError(
            "the entries differ too much in size for double precision to hold their projection; please report them."
        )
    return beta


def _namespace(x: Any, xp: Any | None) -> Any:
    if xp is not None:
        return xp
    if not hasattr(x, "__array_namespace__"):
        raise TypeError(
            f"xp must be given for arrays of type {type(x).__name__}, which do not name their library; "
            "pass the namespace, for example xp=array_api_compat.torch."
        )
    return x.__array_namespace__()


def _check(xp: Any, **vectors: Any) -> None:
    for name, x in vectors.items():
        if len(x.shape) != 1 or x.shape[0] == 0:
            raise ValueError(f"{name} must be one-dimensional and not empty, got shape {tuple(x.shape)}.")
        if not xp.isdtype(x.dtype, "real floating"):
            raise TypeError(f"{name} must have a real floating-point dtype, got {x.dtype}.")
        if bool(xp.any(xp.isnan(x) | (x == math.inf))):
            raise ValueError(f"{name} must hold finite numbers or -inf, got NaN or inf.")


class _Above(NamedTuple):
    """Entries above a threshold, counted and added up."""

    strictly: int  # entries greater than it
    at_least: int  # entries greater than or equal to it
    excess: float  # sum of [x - threshold]_+


class ArrayReductions:
    """Reductions over one array, minus an origin. Only scalars leave the device; entries of -inf never count."""

    def __init__(self, x: Any, xp: Any, origin: float = 0.0) -> None:
        self.xp = xp
        self.x = xp.astype(x, xp.float64) - origin

    def above(self, threshold: float) -> _Above:
        """Count and add up the entries above a threshold."""
        over = self.x - threshold
        excess = self.xp.sum(self.xp.where(over > 0, over, self.xp.zeros_like(over)))
        return _Above(self._count(self.x > threshold), self._count(self.x >= threshold), float(excess))

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


class _InfeasibleError(ValueError):
    """The capped simplex is empty."""


class _Solution(NamedTuple):
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
class _LevelEquation:
    """A projection, with its vectors relative to their origins.

    With alpha, on the top-k simplex; with a total, on the capped simplex; with neither, on the top-k cone.
    """

    beta: ArrayReductions
    beta_origin: float
    k: float
    alpha: ArrayReductions | None = None
    alpha_origin: float = 0.0
    weight: float = 1.0
    total: float | None = None

    @property
    def balance(self) -> float:
        """Minus what lambda and mu add up to at the two origins."""
        return -math.fsum((self.beta_origin, self.weight * self.alpha_origin))

    def solve(self) -> _Solution:
        """Find the thresholds of the projection."""
        left: _Point | None = None
        right: _Point | None = None
        before: _Point | None = None
        now = self._start()
        for _ in range(_MAX_STEPS):
            if now is None:
                found = self._minimum()
                if isinstance(found, _Solution):
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
        return _Solution(now.u, now.lower.at, now.upper.at, self.k * (now.upper.at - now.lower.at))

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
        if self.total is not None:
            return _Point(level, self.total - total, slope, 0.0, 0, lower, upper)
        if self.alpha is None:
            return _Point(level, level + k * self.beta_origin - total, 1.0 + slope, 0.0, 0, lower, upper)
        u = ((self.balance - lower.at) - upper.excess / k) / self.weight
        above = self.alpha.above(u)
        slope -= above.strictly / self.weight * (widening - 1.0 / k)
        return _Point(level, above.excess - total, slope, u, above.strictly, lower, upper)

    def _minimum(self) -> _Point | _Solution:
        """Psi at the minimum of T, which lies between entries k+1 and k; or the answer, where k is all there is."""
        n_finite, total = self.beta.total()
        if self.k > n_finite:
            if self.total is not None:
                raise _InfeasibleError
            return _Solution(math.inf, 0.0, 0.0, 0.0)
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

    def _flat(self, level: float, lower: _End, upper: _End) -> _Solution:
        """The k largest entries share the total: S(u) = k lambda + L_min, or what closes the other sets."""
        if self.total is not None:
            return _Solution(0.0, lower.at, upper.at, self.total)
        if self.alpha is None:
            return _Solution(0.0, lower.at, upper.at, max(0.0, level + self.k * self.beta_origin))
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
        return _Solution(u, lower.at, upper.at, above.excess)
