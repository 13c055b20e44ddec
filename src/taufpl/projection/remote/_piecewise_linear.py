"""The equation Psi(L) = 0 of docs/projection.md for functions that are given by their corners.

Write S(u) and G(t) for the excess of alpha0 and beta0 over a threshold: convex, decreasing, piecewise linear. Where
some values of them are known, with the counts on both sides, the chords through those values lie above and the
tangents below. Both are piecewise linear themselves, and so are S and G: one routine solves the projection for all of
them. Psi falls when S falls or the level sets of T(t) = G(t) + k t grow. So the solution for the chords bounds the
level L from above, that for the tangents from below. Between two thresholds whose entries are all known, one by one, a
function is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from taufpl._types import Matrix, Vector

Numbers = TypeVar("Numbers", float, Vector)

# Candidates around a guess, in units of the distance at which the answer is expected.
_SCALES = 4.0 ** np.arange(-7, 2)
AROUND = np.concatenate((-_SCALES[::-1], [0.0], _SCALES))
# Candidates inside an interval that still holds too many entries, as shares of it.
INSIDE = np.linspace(0.0, 1.0, 18)[1:-1]


def distinct(values: Vector) -> Vector:
    """Numbers in ascending order, each once: `numpy.unique` without the rest of it, which takes longer than this."""
    values = np.sort(values)
    is_new = np.empty(len(values), dtype=bool)
    is_new[:1] = True
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return values[is_new]


@dataclass(frozen=True, slots=True)
class Pieces:
    """A convex and decreasing function with p corners."""

    at: Vector  # corners, ascending
    value: Vector  # the function there
    count: Vector  # minus the slopes, p + 1 of them: left of the first corner, between corners, right of the last

    def __call__(self, t: Vector) -> Vector:
        """The function, entry by entry."""
        inside = np.interp(t, self.at, self.value)
        inside += self.count[0] * np.maximum(self.at[0] - t, 0.0)
        inside -= self.count[-1] * np.maximum(t - self.at[-1], 0.0)
        return inside

    def inverse(self, value: float) -> float:
        """The largest t where the function is at least `value`; inf where it stays above."""
        if value > self.value[0]:
            return float(self.at[0] - (value - self.value[0]) / self.count[0]) if self.count[0] > 0 else -math.inf
        if value < self.value[-1]:
            return float(self.at[-1] + (self.value[-1] - value) / self.count[-1]) if self.count[-1] > 0 else math.inf
        return float(np.interp(-value, -self.value, self.at))


@dataclass(frozen=True, slots=True)
class Samples:
    """The excess of a vector over some thresholds, known exactly."""

    at: Vector  # thresholds, ascending, each once
    n_above: Vector  # entries above a threshold
    n_from: Vector  # entries at it or above
    excess: Vector  # sum of [x - threshold]_+

    def joined(self, other: Samples) -> Samples:
        """Both, in order."""
        at, places = np.unique(np.concatenate((self.at, other.at)), return_index=True)
        pairs = zip((self.n_above, self.n_from, self.excess), (other.n_above, other.n_from, other.excess), strict=True)
        above, upward, excess = (np.concatenate(pair)[places] for pair in pairs)
        return Samples(at, above, upward, excess)

    def chords(self, size: int) -> Pieces:
        """The function from above, for a vector of `size` entries."""
        slopes = (self.excess[:-1] - self.excess[1:]) / (self.at[1:] - self.at[:-1])
        # Of a short chord, rounding leaves little; the tangents at both ends know better.
        slopes = np.minimum(np.maximum(slopes, self.n_from[1:]), self.n_above[:-1])
        return Pieces(self.at, self.excess, np.concatenate(([size], slopes, [0.0])))

    def tangents(self) -> Pieces:
        """The function from below: the highest of all tangents."""
        width = self.at[1:] - self.at[:-1]
        left, right = self.n_above[:-1], self.n_from[1:]
        apart = left - right
        with np.errstate(invalid="ignore", divide="ignore"):
            reach = (self.excess[:-1] - self.excess[1:] - right * width) / apart
        # Without an entry in between, both tangents are the same line.
        reach = np.minimum(np.maximum(np.where(apart > 0, reach, 0.5 * width), 0.0), width)
        at = np.empty(2 * len(self.at))
        value = np.empty_like(at)
        at[::2], value[::2] = self.at, self.excess
        at[1:-1:2] = self.at[:-1] + reach
        value[1:-1:2] = np.maximum(self.excess[:-1] - left * reach, self.excess[1:])
        # The last tangent meets zero.
        last = self.n_above[-1]
        at[-1] = self.at[-1] + (self.excess[-1] / last if last > 0 else 1.0)
        value[-1] = 0.0 if last > 0 else self.excess[-1]
        count = np.empty(len(at) + 1)
        count[0], count[-1] = self.n_from[0], 0.0
        count[1:-1:2] = self.n_above
        count[2:-1:2] = right
        return Pieces(at, value, count)


@dataclass(frozen=True, slots=True)
class Root:
    """A solution: the level, thresholds of alpha (lambda / weight) and beta, and the total; 0 means zero."""

    level: float
    u: float
    mu: float
    delta: float
    total: float


class Equation:
    """Psi for the functions S of alpha and G of beta, each relative to an origin.

    The balance is minus (origin of beta + weight * origin of alpha).
    """

    def __init__(self, alpha: Pieces, beta: Pieces, k: float, weight: float, balance: float) -> None:
        self.alpha, self.beta = alpha, beta
        self.k, self.weight, self.balance = k, weight, balance
        height = beta.value + k * beta.at
        slope = k - beta.count
        self.n_falling = int(np.count_nonzero(slope < 0))
        n_left = int(np.count_nonzero(slope <= 0))
        self.fall = (height[: self.n_falling][::-1], beta.at[: self.n_falling][::-1])
        first = max(n_left - 1, 0)
        self.rise = (height[first:], beta.at[first:])
        self.first_rising = first
        self.minimum = float(height[first]) if first < len(height) else float(height[-1])
        self.flat_left = float(self.fall[1][0]) if self.n_falling else -math.inf
        self.flat_right = float(self.rise[1][0]) if n_left < len(slope) else math.inf

    def ends(self, level: Vector) -> tuple[Vector, Vector]:
        """Both ends of the level sets of T."""
        left = np.interp(level, *self.fall)
        left -= np.maximum(level - self.fall[0][-1], 0.0) / (self.beta.count[0] - self.k)
        right = np.interp(level, *self.rise)
        last = self.k - self.beta.count[-1]
        right += np.maximum(level - self.rise[0][-1], 0.0) / last if last > 0 else 0.0
        return left, right

    def ends_at(self, level: float) -> tuple[float, float]:
        """Both ends of one level set; of the lowest one where the level lies below."""
        if level <= self.minimum or not self.n_falling:
            return self.flat_left, self.flat_right
        left, right = self.ends(np.array([level]))
        return float(left[0]), float(right[0])

    def threshold(self, total: Numbers, level: Numbers) -> Numbers:
        """Threshold of alpha: lambda = (C - L) / k."""
        return ((total - level) / self.k + self.balance) / self.weight

    def solve(self) -> Root:
        """Find the root."""
        widest = self.k * (self.flat_right - self.flat_left)
        if not math.isfinite(widest):
            return self._flat()
        levels = distinct(np.concatenate((self.fall[0], self.rise[0])))
        levels = levels[levels >= self.minimum]
        left, right = self.ends(levels)
        left[0], right[0] = self.flat_left, self.flat_right
        total = self.k * (right - left)
        u = self.threshold(total, levels)
        psi = self.alpha(u) - total
        if psi[0] <= 0.0:
            return self._flat()
        i = int(np.argmax(psi <= 0.0)) - 1 if psi[-1] <= 0.0 else len(levels) - 1
        beyond = float(levels[i + 1]) if i + 1 < len(levels) else math.inf
        return self._on_piece(float(levels[i]), beyond, float(left[i]), float(right[i]))

    def _on_piece(self, level: float, beyond: float, left: float, right: float) -> Root:
        """Between two levels all but S is linear."""
        middle = 0.5 * (level + beyond) if math.isfinite(beyond) else level + 1.0
        falling = self.n_falling - max(1, int(self.fall[0].searchsorted(middle)))
        rising = self.first_rising + max(1, int(self.rise[0].searchsorted(middle)))
        widening = 1.0 / (self.beta.count[falling] - self.k) + 1.0 / (self.k - self.beta.count[rising])
        total = self.k * (right - left)
        start = self.threshold(total, level)
        speed = (widening - 1.0 / self.k) / self.weight
        growth = self.k * widening / speed
        u = self._meet(start, total, growth)
        shift = (u - start) / speed
        left -= shift / (self.beta.count[falling] - self.k)
        right += shift / (self.k - self.beta.count[rising])
        numbers = (level + shift, u, left, right, self.k * (right - left))
        return Root(*(float(x) for x in numbers))

    def _flat(self) -> Root:
        """The k largest entries share the total: S(u) = k lambda + L."""
        start = self.minimum - self.k * self.balance
        u = self._meet(-start / (self.k * self.weight), 0.0, self.k * self.weight)
        total = max(self.k * self.weight * u + start, 0.0)
        # Far from zero, the sum of what is above tells the total better.
        total = float(self.alpha(np.array([u]))[0]) if total > 0 else 0.0
        left = self.flat_left
        if not math.isfinite(left) and math.isfinite(self.flat_right):
            left = self.flat_right - total / self.k  # all that lies under it is a solution, down to the next entry
        return Root(self.minimum, u, left, left + total / self.k, max(total, 0.0))

    def _meet(self, start: float, value: float, growth: float) -> float:
        """The u >= start, if there is one, where S(u) = value + growth (u - start)."""
        at = self.alpha.at
        above = self.alpha.value - (value + growth * (at - start)) > 0.0
        j = int(np.count_nonzero(above))  # S falls and the line grows, so that these come first
        near = min(max(j - 1, 0), len(at) - 1)
        residual = float(self.alpha.value[near]) - (value + growth * (float(at[near]) - start))
        return float(at[near]) + residual / (growth + float(self.alpha.count[j]))


@dataclass(frozen=True, slots=True)
class Segment:
    """All that is known between two thresholds."""

    low: float
    high: float
    sums: Vector  # count, excess, moves and excess times moves of the entries at `high` or above
    entries: Vector  # in between, ascending
    moves: Vector  # of these

    @classmethod
    def of(cls, low: float, high: float, sums: Vector, parts: list[Matrix]) -> Segment:
        """Put together the entries of all blocks."""
        if len(parts) == 1:
            return cls(low, high, sums, parts[0][0], parts[0][1])
        entries, moves = np.concatenate(parts, axis=1)
        order = np.argsort(entries, kind="stable")
        return cls(low, high, sums, entries[order], moves[order])

    def corners(self) -> tuple[Vector, Vector, Vector]:
        """Where the function bends, its values, and the counts right of all corners but the last."""
        at = np.concatenate(([self.low], self.entries, [self.high]))
        count = self.sums[0] + np.arange(len(self.entries), -1.0, -1.0)
        value = np.zeros(len(at))
        np.cumsum((count * (at[1:] - at[:-1]))[::-1], out=value[-2::-1])
        value += self.sums[1]
        return at, value, count

    def moved(self, threshold: float) -> float:
        """Sum of excess times moves over a threshold in this segment, or past its ends by no more than rounding."""
        beyond = np.maximum(self.entries - threshold, 0.0)
        return float(self.sums[3] + (self.high - threshold) * self.sums[2] + beyond @ self.moves)


def moved_over(segments: list[Segment], threshold: float) -> float:
    nearest = min(segments, key=lambda s: max(s.low - threshold, threshold - s.high, 0.0))
    return nearest.moved(threshold)


def assembled(segments: list[Segment]) -> Pieces:
    """The function on all segments. In a gap between two of them, where no solution lies, their tangents go on."""
    first = segments[0].corners()
    at, value, count = [first[0]], [first[1]], [first[2][:1], first[2]]
    for segment in segments[1:]:
        ats, values, counts = segment.corners()
        width = ats[0] - at[-1][-1]
        if width > 0:
            left, right = count[-1][-1], counts[0]
            drop = value[-1][-1] - values[0]
            reach = min(max((drop - right * width) / max(left - right, 1e-300), 0.0), width)
            middle = at[-1][-1] + reach
            at.append(np.array([middle]))
            value.append(np.array([value[-1][-1] - left * reach]))
            count.append(np.array([left, right]))
        at.append(ats if width > 0 else ats[1:])
        value.append(values if width > 0 else values[1:])
        count.append(counts)
    count.append(count[-1][-1:])
    return Pieces(np.concatenate(at), np.concatenate(value), np.concatenate(count))
