"""Entries of a vector above a floor, in arrays that follow the array API standard."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators.remote._blocks import Deferred, Selected
from taufpl.operators.remote._numpy import N_QUANTILES

if TYPE_CHECKING:
    from taufpl.operators.remote._arrays import ArrayLibrary


class Order(NamedTuple):
    """The entries downward with their sign turned, where each was, and sums of the first 1, 2, ... of them."""

    turned: Any
    places: Any
    running: Any


class ArraySelected(Selected):
    """Entries above a floor, sorted once they are looked at: thresholds are then looked up.

    A device sorts millions of entries in the time of a few dozen launches: to sort some of them would gain nothing.
    """

    def __init__(self, library: ArrayLibrary, rows: Any | None, shifted: Any, offset: float) -> None:
        self._library = library
        self._rows = rows  # None: all
        self._shifted, self._offset = shifted, offset

    @cached_property
    def rows(self) -> Any:
        if self._rows is not None:
            return self._rows
        return self._library.xp.arange(self._shifted.shape[0], device=self._shifted.device)

    @cached_property
    def values(self) -> Any:
        return self._shifted + self._offset

    @cached_property
    def order(self) -> Order:
        """The entries, downward."""
        turned, places = self._library.sorted(-self._offset - self._shifted)
        return Order(turned, places, self._library.xp.cumulative_sum(turned))

    @cached_property
    def rows_in_order(self) -> Any:
        """Where they are, downward."""
        places = self.order.places
        return places if self._rows is None else self._library.xp.take(self._rows, places, axis=0)

    @cached_property
    def _sums(self) -> Any:
        """Of the first 0, 1, 2, ... entries, with their sign turned."""
        return self._library.xp.concat((self._library.zero, self.order.running))

    def tally(self, edges: Vector) -> Deferred:
        size = len(edges)
        if not size:
            return Deferred.known(np.zeros((3, 0)))
        places = self._places_of(edges, edges)

        def finish(counts: Vector, sums: Vector) -> Matrix:
            n_above = counts[:size]
            return np.stack((n_above, counts[size:], -sums[:size] - n_above * edges))

        return Deferred((places, self._library.xp.take(self._sums, places, axis=0)), finish)

    @property
    def size(self) -> int:
        """How many entries there are."""
        return int(self._shifted.shape[0])

    def top_mean(self, k: int) -> Any:
        """Mean of the k largest entries, a number that stays on the device."""
        return self.order.running[k - 1] / -k

    def at_rank(self, k: int) -> Deferred:
        """The k-th largest entry, how many lie above it, how many at it or above, and by how much in all: (4, 1)."""
        xp, order = self._library.xp, self.order
        turned = order.turned[k - 1 : k]
        places = [xp.searchsorted(order.turned, turned, side=side) for side in ("left", "right")]

        def finish(turned: Vector, n_above: Vector, n_from: Vector, total: Vector) -> Matrix:
            return np.stack((-turned, n_above, n_from, k * turned - total))

        return Deferred((turned, *places, order.running[k - 1 : k]), finish)

    def fetch(self, intervals: Matrix, moves: Any | None, most: int) -> Deferred:
        """In two steps: where the intervals begin and end with the sums above, then the entries inside."""
        size = len(intervals)
        if not size:
            return Deferred.known(Deferred.known((np.zeros((0, 4)), [])))
        xp, order, high = self._library.xp, self.order, intervals[:, 1]
        places = self._places_of(intervals[:, 0], high)
        starts = places[size:]
        asked = [places, xp.take(self._sums, starts, axis=0)]
        moved = None if moves is None else xp.take(moves, self.rows_in_order, axis=0)
        if moved is not None:
            asked += [xp.take(self._prefix(x), starts, axis=0) for x in (moved, moved * order.turned)]

        def finish(
            counts: Vector, sums: Vector, weights: Vector | float = 0.0, products: Vector | float = 0.0
        ) -> Deferred:
            result = np.empty((size, 4))
            result[:, 0] = counts[size:]
            result[:, 1] = -sums - counts[size:] * high
            result[:, 2] = weights
            result[:, 3] = -products - high * weights
            ends = counts.astype(np.intp)
            return self._between(result, moved, ends[size:], ends[:size], most)

        return Deferred(tuple(asked), finish)

    def _places_of(self, above: Vector, upward: Vector) -> Any:
        """Counts of entries above each of some thresholds, then of entries at others or above."""
        edges = np.concatenate((-above, np.nextafter(-upward, np.inf)))
        return self._library.xp.searchsorted(self.order.turned, self._library.asarray(edges))

    def _prefix(self, x: Any) -> Any:
        return self._library.xp.concat((self._library.zero, self._library.xp.cumulative_sum(x)))

    def _between(self, sums: Matrix, moved: Any | None, starts: Any, stops: Any, most: int) -> Deferred:
        """Entries at some ranges of places, or quantiles of them, beside sums that are known."""
        ranks = [
            np.arange(start, stop) if stop - start <= most else np.linspace(start, stop - 1, N_QUANTILES).astype(int)
            for start, stop in zip(starts, stops, strict=True)
        ]
        cuts = np.cumsum([0, *map(len, ranks)])
        if not cuts[-1]:
            return Deferred.known((sums, [np.zeros((2, 0)) for _ in ranks]))
        places = self._library.asarray(np.concatenate(ranks))
        asked = [self._library.xp.take(x, places, axis=0) for x in (self.order.turned, moved) if x is not None]

        def finish(turned: Vector, moves: Vector | None = None) -> tuple[Matrix, list[Matrix | Vector]]:
            pairs = np.stack((-turned, np.zeros_like(turned) if moves is None else moves))[:, ::-1]
            last = len(turned)
            parts = [pairs[:, last - b : last - a] for a, b in pairwise(cuts.tolist())]
            return sums, [p[0] if many else p for p, many in zip(parts, stops - starts > most, strict=True)]

        return Deferred(tuple(asked), finish)

    def split(self, low: float, cap: float) -> Deferred:
        if "order" not in self.__dict__:
            return self._split_as_they_lie(low, cap)
        under = self.order.turned + low

        def finish(counts: Vector) -> tuple[Any, Any, Any]:
            n_capped, n_above = (int(x) for x in counts)
            rows = self.rows_in_order
            return rows[n_capped:n_above], -under[n_capped:n_above], rows[:n_capped]

        edges = self._library.asarray(np.array([np.nextafter(-cap, np.inf), 0.0]))
        return Deferred((self._library.xp.searchsorted(under, edges),), finish)

    def _split_as_they_lie(self, low: float, cap: float) -> Deferred:
        """What `split` answers, where the entries are not sorted yet: three masks cost less."""
        xp, over = self._library.xp, self.values - low
        is_above, is_capped = over > 0, over >= cap
        free, capped = (xp.nonzero(mask)[0] for mask in (is_above & ~is_capped, is_above & is_capped))
        return Deferred.known(
            (xp.take(self.rows, free, axis=0), xp.take(over, free, axis=0), xp.take(self.rows, capped, axis=0))
        )
