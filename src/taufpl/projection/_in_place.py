"""The projection where all entries lie in one place, in order.

On a device a round trip costs as much as thousands of operations on a host, and a launch as much as a dozen. So the
entries are sorted there, with their sums, and the search works on few of them here. Chords of the excess go through
every so many-th entry first; a compiled sweep (`_kernels/_chords.pyx`) solves the projection for them. Entries near its
thresholds come next, all of them where they are few, and so on. A chord between neighbours is exact: where all three
thresholds lie on such chords, so is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from taufpl._kernels import _chords
from taufpl.operators._blocks import Block, Later, Matrix, Ordered, Selected, State, Sums, Vector
from taufpl.projection._pieces import Root
from taufpl.projection._round_tasks import Source

# Entries of each vector that the first chords go through, and around each threshold where many lie between two of them.
_SAMPLE, _CLOSER_SAMPLE = 256, 64
_MANY = 4096
# Entries on both sides of a threshold, as a share of how many lie between the two that enclose it, and at least.
_MARGIN, _LEAST_MARGIN = 0.125, 16
_MOST_LOOKS = 12


@dataclass(frozen=True, slots=True)
class Found:
    """What `SolveInPlace` tells.

    Attributes
    ----------
    root : Root
    moved : tuple of float
        Products of the projected alpha and beta with the moves of their sources; 0 where there are none.
    n_held : int
        Entries of beta above the floor.
    """

    root: Root
    moved: tuple[float, float]
    n_held: int


@dataclass(frozen=True, slots=True)
class SolveInPlace:
    """Task for blocks in one place: the answer; or None where it takes entries below the floor, or is special.

    Special is an answer of zero, or one that the k largest entries share.

    Attributes
    ----------
    alpha, beta : Source
    floor : float
        Entries of beta below are left out.
    k, weight, balance : float
        As in `Equation`.
    """

    alpha: Source
    beta: Source
    floor: float
    k: int
    weight: float
    balance: float

    def __call__(self, block: Block, state: State) -> Sums:
        """One answer, which cannot be added to others."""
        alpha = _Line(self.alpha.above(block, state, -math.inf, "alpha"))
        # This waits for the device, which sorts alpha meanwhile.
        beta = _Line(self.beta.above(block, state, self.floor, "beta"))
        if beta.size <= self.k or not alpha.size:
            return (None,)
        parts = alpha.first_parts(), beta.first_parts()
        for _ in range(_MOST_LOOKS):
            block.settle(alpha.learn_later(parts[0]), beta.learn_later(parts[1]))
            found = _chords.solve(alpha.known, alpha.size, beta.known, beta.size, self.k, self.weight, self.balance)
            if found is None:
                return (None,)
            level, u, mu, delta, *places = found
            if beta.is_last(places[1]):
                return (None,)
            parts = alpha.closer([(places[0], u)]), beta.closer([(places[2], delta), (places[1], mu)])
            if not (parts[0] or parts[1]):
                root = Root(level, u, mu, delta, self.k * (delta - mu))
                n_above = alpha.n_above(places[0]), beta.n_above(places[1])
                return (Found(root, self._moved(block, state, (alpha, beta), root, n_above), beta.size),)
        return (None,)

    def _moved(
        self, block: Block, state: State, lines: tuple[_Line, _Line], root: Root, n_above: tuple[int, int]
    ) -> tuple[float, float]:
        """Products with the moves, over the entries that have a part."""
        xp, own, others = block.xp, self.alpha.moved(state), self.beta.moved(state)
        if own is None or others is None:
            return 0.0, 0.0
        alpha, beta = lines[0].turned[: n_above[0]], lines[1].turned[: n_above[1]]
        own = xp.take(own, lines[0].entries.rows_in_order[: n_above[0]], axis=0)
        others = xp.take(others, lines[1].entries.rows_in_order[: n_above[1]], axis=0)
        under = xp.clip(beta + root.mu, root.mu - root.delta, None)
        products = block.to_host(xp.matmul(own, alpha + root.u), xp.matmul(others, under))
        return -float(products[0]), -float(products[1])


class _Line:
    """A vector in order, and what is known of it here.

    Attributes
    ----------
    entries : Ordered
    turned, running : arrays
        Its order.
    size : int
    known : ndarray of shape (3, p)
        Ranks, ascending, with the turned entries there and the sums of those before.
    """

    known: Matrix

    def __init__(self, entries: Selected) -> None:
        assert isinstance(entries, Ordered)
        self.entries = entries
        self.turned, self.running = entries.order.turned, entries.order.running
        self.size: int = self.turned.shape[0]
        self.known = np.empty((3, 0))

    def first_parts(self) -> list[slice]:
        """Ranks of a sample of all entries, with the last one."""
        return [slice(0, self.size, -(-self.size // _SAMPLE)), slice(self.size - 1, self.size, 1)]

    def learn_later(self, parts: list[slice]) -> Later:
        """Learn about the entries at some ranks, and forget others between these."""
        asked = [x[part] for part in parts for x in (self.turned, self.running)]

        def finish(*found: Vector) -> None:
            for part, turned, running in zip(parts, found[::2], found[1::2], strict=True):
                new = np.empty((3, len(turned)))
                new[0] = np.arange(part.start, part.stop, part.step)
                new[1], new[2] = turned, running - turned
                start, stop = self.known[0].searchsorted((part.start, part.stop))
                self.known = np.concatenate((self.known[:, :start], new, self.known[:, stop:]), axis=1)

        return Later(tuple(asked), finish)

    def closer(self, places: list[tuple[int, float]]) -> list[slice]:
        """Ranks to learn about for thresholds below some known entries; none for those on an exact chord."""
        parts: list[slice] = []
        for place, threshold in places:
            if self._is_exact(place):
                continue
            (first, last), (at, beyond) = self.known[0, place : place + 2], -self.known[1, place : place + 2]
            gap = int(last - first)
            share = (at - threshold) / (at - beyond) if at > beyond else 0.0
            rank = int(first + min(max(share, 0.0), 1.0) * gap)
            margin = int((_MARGIN if gap <= _MANY else 1.0) * gap) + _LEAST_MARGIN
            start, stop = max(rank - margin, 0), min(rank + margin, self.size)
            if parts and start <= parts[-1].stop:
                start = parts.pop().start
            parts.append(slice(start, stop, 1 if gap <= _MANY else -(-(stop - start) // _CLOSER_SAMPLE)))
        return parts

    def is_last(self, place: int) -> bool:
        """Whether a known entry is the last one of all."""
        return place == self.known.shape[1] - 1

    def n_above(self, place: int) -> int:
        """Entries above a threshold on an exact chord below a known entry."""
        return 0 if place < 0 else int(self.known[0, place]) + 1

    def _is_exact(self, place: int) -> bool:
        ranks = self.known[0]
        return place < 0 or self.is_last(place) or bool(ranks[place + 1] - ranks[place] == 1.0)
