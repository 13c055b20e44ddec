"""The projection where all entries lie in one place, in order.

On a device a round trip costs as much as thousands of operations on a host, and a launch as much as a dozen. So the
entries are sorted there, with their sums, and the search works on few of them here. Chords of the excess go through
a regular sample of the entries first; a compiled sweep (`_kernels/_chords.pyx`) solves the projection for them. The
entries on the chords where its thresholds lie come next, all of them where they are few, and so on. A chord between
neighbours is exact: where all three thresholds lie on such chords, so is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._kernels import _chords
from taufpl._types import Matrix, Vector
from taufpl.operators.remote import ArraySelected, Block, Deferred, Selected, State, Sums
from taufpl.projection.remote._piecewise_linear import Root
from taufpl.projection.remote._tasks import Source

# Entries of each vector that the first chords go through, and of each chord that is looked at more closely.
_SAMPLE, _CLOSER_SAMPLE = 256, 64
# Entries of a chord that come all at once.
_MANY = 4096
_MOST_LOOKS = 12


@dataclass(frozen=True, slots=True)
class SolveOnDevice:
    """Task for blocks in one place: the answer, if there is one, and whether it takes entries below the floor.

    There is none where it is special: zero, or shared by the k largest entries. Entries are finite.
    """

    alpha: Source
    beta: Source
    floor: float  # entries of beta below are left out
    k: int
    weight: float
    balance: float  # as in `Equation`

    def __call__(self, block: Block, state: State) -> Sums:
        """An answer or None, which cannot be added to others, and a bool.

        The answer is the root, the products of alpha and beta with the moves of their sources (0 where there are none),
        and the number of entries of beta above the floor, or above a lower one where those were held already.
        """
        alpha = _Line(self.alpha.above(block, state, -math.inf, "alpha"))
        # This waits for the device, which sorts alpha meanwhile.
        beta = _Line(self.beta.above(block, state, self.floor, "beta"))
        if beta.size <= self.k or not alpha.size:
            return None, beta.size <= self.k
        parts = alpha.first_parts(), beta.first_parts()
        for _ in range(_MOST_LOOKS):
            block.settle(alpha.learn_deferred(parts[0]), beta.learn_deferred(parts[1]))
            found = _chords.solve(alpha.known, alpha.size, beta.known, beta.size, self.k, self.weight, self.balance)
            if found is None:
                break
            level, u, mu, delta, *places = found
            if beta.is_last(places[1]):
                return None, True
            parts = alpha.closer(places[:1]), beta.closer(places[1:])
            if not (parts[0] or parts[1]):
                root = Root(level, u, mu, delta, self.k * (delta - mu))
                moved = self._moved(block, state, root, alpha.above(places[0]), beta.above(places[1]))
                return (root, moved, float(beta.size)), False
        return None, False

    def _moved(
        self, block: Block, state: State, root: Root, alpha: tuple[Any, Any], beta: tuple[Any, Any]
    ) -> tuple[float, float]:
        """Products with the moves, over the turned entries that have a part and their rows."""
        xp, moves = block.xp, (self.alpha.moved(state), self.beta.moved(state))
        asked = []
        if moves[0] is not None:
            asked.append(xp.matmul(xp.take(moves[0], alpha[1], axis=0), alpha[0] + root.u))
        if moves[1] is not None:
            under = xp.clip(beta[0] + root.mu, root.mu - root.delta, None)
            asked.append(xp.matmul(xp.take(moves[1], beta[1], axis=0), under))
        told = iter(block.to_host(*asked))
        ours, theirs = (0.0 if each is None else -float(next(told)) for each in moves)
        return ours, theirs


class _Line:
    """A vector in order, and what is known of it here."""

    known: Matrix  # in three rows: ranks, ascending, the turned entries there, and the sums of those before

    def __init__(self, entries: Selected) -> None:
        assert isinstance(entries, ArraySelected)
        self.entries = entries
        self.turned, self.running = entries.order.turned, entries.order.running
        self.size: int = self.turned.shape[0]
        self.known = np.empty((3, 0))

    def first_parts(self) -> list[slice]:
        """Ranks of a sample of all entries."""
        return [slice(0, self.size, -(-self.size // _SAMPLE))]

    def learn_deferred(self, parts: list[slice]) -> Deferred:
        """Learn about the entries at some ranks, and forget others between these."""
        asked = [x[part] for part in parts for x in (self.turned, self.running)]

        def finish(*found: Vector) -> None:
            for part, turned, running in zip(parts, found[::2], found[1::2], strict=True):
                new = np.empty((3, len(turned)))
                new[0] = np.arange(part.start, part.stop, part.step)
                new[1], new[2] = turned, running - turned
                start, stop = self.known[0].searchsorted((part.start, part.stop))
                pieces = [x for x in (self.known[:, :start], new, self.known[:, stop:]) if x.shape[1]]
                self.known = np.concatenate(pieces, axis=1) if len(pieces) > 1 else new

        return Deferred(tuple(asked), finish)

    def closer(self, places: list[int]) -> list[slice]:
        """Ranks to learn about for thresholds on chords below some known entries; none where these are exact."""
        parts = []
        for place in set(places):
            if not self._is_exact(place):
                first, last = (int(rank) for rank in (*self.known[0, place : place + 2], self.size)[:2])
                parts.append(slice(first, last, 1 if last - first <= _MANY else -(-(last - first) // _CLOSER_SAMPLE)))
        return parts

    def is_last(self, place: int) -> bool:
        """Whether a known entry is the last one of all."""
        return place >= 0 and bool(self.known[0, place] == self.size - 1)

    def above(self, place: int) -> tuple[Any, Any]:
        """Entries above a threshold on an exact chord below a known entry, and their rows."""
        count = 0 if place < 0 else int(self.known[0, place]) + 1
        return self.turned[:count], self.entries.rows_in_order[:count]

    def _is_exact(self, place: int) -> bool:
        after = self.known[0, place : place + 2]
        return place < 0 or self.is_last(place) or (len(after) == 2 and bool(after[1] - after[0] == 1.0))
