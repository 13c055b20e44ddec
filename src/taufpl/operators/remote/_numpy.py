"""Vectors of blocks in NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from taufpl._types import Matrix, Vector
from taufpl.operators.remote._blocks import Block, Deferred, Selected, Terms

Index = NDArray[np.intp]

# Entries that are worked on at a time: a few vectors of this length fit the second-level cache.
_CHUNK = 1 << 14
# Quantiles that stand in for entries which are too many to be sent.
N_QUANTILES = 65


def stack_rows(parts: Sequence[Any]) -> Any:
    """Rows below each other: an array, or a CSR matrix where some are sparse."""
    if len(parts) == 1:
        return parts[0]
    if any(scipy.sparse.issparse(part) for part in parts):
        return scipy.sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


class NumpyBlock(Block):
    """Rows whose vectors are NumPy arrays."""

    xp = np

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sys.getsizeof(self.rows)

    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> NumpySelected:
        if not len(terms[0][1]):
            return NumpySelected(np.empty(0, np.intp), np.empty(0))
        parts = (slice(start, start + _CHUNK) for start in range(0, len(terms[0][1]), _CHUNK))
        found = [_select_chunk(part, floor, offset, terms, among) for part in parts]
        rows, values = zip(*found, strict=True)
        return NumpySelected(np.concatenate(rows), np.concatenate(values))

    def asarray(self, values: Any) -> Any:
        return np.asarray(values)

    def counting(self, count: int) -> Any:
        return np.arange(count)

    def shuffled(self, values: Any, seed: tuple[int, ...]) -> Any:
        return np.random.default_rng(seed).permutation(values)

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        return values

    def combined(self, offset: float, terms: Terms) -> Any:
        (factor, vector), *rest = terms
        total = offset + factor * vector
        for factor, vector in rest:
            total = total + factor * vector
        return total


def _select_chunk(part: slice, floor: float, offset: float, terms: Terms, among: Any | None) -> tuple[Index, Vector]:
    (factor, vector), *rest = terms
    total = factor * vector[part]
    for factor, vector in rest:
        total += vector[part] if factor == 1.0 else factor * vector[part]
    total += offset
    chosen = total > floor
    if among is not None:
        chosen &= among[part]
    places = np.flatnonzero(chosen)
    return places + part.start, total[places]


class NumpySelected(Selected):
    """Entries above a floor, in the order of their rows."""

    def __init__(self, rows: Index, values: Vector) -> None:
        self.rows = rows
        self.values = values

    def tally(self, edges: Vector) -> Deferred:
        size = len(edges)
        if not size:
            return Deferred.known(np.zeros((3, 0)))
        ladder = _Ladder(edges, self.values)
        n_from, excess = ladder.sums()
        middle, at = ladder.middle, ladder.place - 1
        n_at = np.bincount(at[edges[at] == middle], minlength=size)
        n_at[-1] += np.count_nonzero(ladder.beyond == 0.0)
        return Deferred.known(np.vstack((n_from - n_at, n_from, excess)))

    def fetch(self, intervals: Matrix, moves: Vector | None, most: int) -> Deferred:
        if not len(intervals):
            return Deferred.known(Deferred.known((np.zeros((0, 4)), [])))
        ladder = _Ladder(np.unique(intervals), self.values)
        sums = np.zeros((len(ladder.edges), 4))
        sums[:, 0], sums[:, 1] = ladder.sums()
        if moves is not None:
            sums[:, 2], sums[:, 3] = ladder.sums(moves[self.rows[ladder.above]], moves[self.rows[ladder.inside]])
        starts, ends = np.searchsorted(ladder.edges, intervals.T)
        inside = []
        for low, start in zip(intervals[:, 0], starts, strict=True):
            places = ladder.inside[(ladder.place == start + 1) & (ladder.middle > low)]
            inside.append(self._inside(places, moves, most))
        return Deferred.known(Deferred.known((sums[ends], inside)))

    def split(self, low: float, cap: float) -> Deferred:
        over = self.values - low
        free, capped = np.flatnonzero((over > 0) & (over < cap)), np.flatnonzero((over > 0) & (over >= cap))
        return Deferred.known((self.rows[free], over[free], self.rows[capped]))

    def _inside(self, places: Index, moves: Vector | None, most: int) -> Matrix | Vector:
        values = self.values[places]
        if len(places) > most:
            ranks = np.linspace(0, len(values) - 1, N_QUANTILES).astype(np.intp)
            return np.partition(values, ranks)[ranks]
        order = np.argsort(values, kind="stable")
        moved = np.zeros(len(values)) if moves is None else moves[self.rows[places[order]]]
        return np.vstack((values[order], moved))


class _Ladder:
    """Entries between edges (ascending): only those that are not above all of them are looked up."""

    def __init__(self, edges: Vector, values: Vector) -> None:
        self.edges = edges
        self.above = np.flatnonzero(values >= edges[-1])
        self.beyond = values[self.above] - edges[-1]
        self.inside = np.flatnonzero((values >= edges[0]) & (values < edges[-1]))
        self.middle = values[self.inside]
        self.place = np.searchsorted(edges, self.middle, side="right")  # edges at or below the entry

    def sums(self, above: Vector | None = None, inside: Vector | None = None) -> tuple[Vector, Vector]:
        """For every edge: the sum of weights of the entries at it or above, and of weight times excess."""
        size = len(self.edges)
        # Relative to the highest edge below an entry, differences are small and exact.
        over = self.middle - self.edges[self.place - 1]
        weights = np.bincount(self.place, inside, minlength=size + 1)[1 : size + 1].astype(np.float64)
        over = over if inside is None else over * inside
        products = np.bincount(self.place, over, minlength=size + 1)[1 : size + 1].astype(np.float64)
        weights[-1] += len(self.above) if above is None else above.sum()
        products[-1] += self.beyond.sum() if above is None else self.beyond @ above
        total = np.cumsum(weights[::-1])[::-1]
        # From one edge down to the next, every entry above gains the step between them.
        products[:-1] += total[1:] * np.diff(self.edges)
        return total, np.cumsum(products[::-1])[::-1]
