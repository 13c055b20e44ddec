"""Blocks of arrays that follow the array API standard: PyTorch, CuPy and others, on a GPU or not.

Products run in the type of the data. Everything that a certificate rests on is added up in double precision: a few rows
at a time are converted. A number that goes to the host waits for the device, so that few do, together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from taufpl.operators._compat import array_compat, namespace
from taufpl.operators.remote._blocks import Block, Deferred, Matrix, Order, Ordered, Terms, Vector
from taufpl.operators.remote._numpy import N_QUANTILES

# Values that are converted to double precision at a time: 128 MiB on a host, 1 GiB on a device.
_CHUNK_VALUES = 1 << 24
_DEVICE_CHUNK_VALUES = 1 << 27


class ArrayBlock(Block):
    """Rows of a two-dimensional array on any device.

    Parameters
    ----------
    X : array of shape (n, d)
        float32 or float64; PyTorch, CuPy or any library of the array API standard.
    """

    def __init__(self, X: Any) -> None:
        self.xp = namespace(X)
        if len(X.shape) != 2 or not self.xp.isdtype(X.dtype, "real floating"):
            raise ValueError(
                f"a block must be a two-dimensional array of real floating-point numbers, got shape {tuple(X.shape)} "
                f"and dtype {X.dtype}; convert it first."
            )
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.scratch = {}
        self._x = X
        self._compat = array_compat()
        self._device = self._compat.device(X)
        self.exact = X.dtype == self.xp.float64
        self.zero = self._zeros(1)
        self._is_torch = self._compat.is_torch_array(X)
        self._on_host = "cpu" in str(self._device).lower()

    def __getstate__(self) -> dict[str, Any]:
        # Modules do not travel.
        kept = {**super().__getstate__(), "xp": None, "_compat": None}
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compat = array_compat()
        self.xp = namespace(self._x)

    def dot(self, coef: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for every row of the block or for some."""
        xp = self.xp
        if rows is None and (self.exact or not exact):
            scores = xp.matmul(self._x, self._feature(coef, self._x.dtype))
            return scores if self.exact else xp.astype(scores, xp.float64)
        w = self._feature(coef, xp.float64)
        parts = [xp.matmul(part, w) for part, _ in self._parts(rows)]
        return xp.concat(parts) if parts else self._zeros(0)

    def add(self, values: Any, rows: Any | None) -> Vector:
        """Sum of values_i x_i over some rows."""
        total: Vector = self.settle(self.add_deferred(values, rows))[0]
        return total

    def add_deferred(self, values: Any, rows: Any | None) -> Deferred:
        """What `add` tells, together with other things."""
        whole = values.shape[0] <= self._chunk_rows()
        parts = (self.xp.matmul(values if whole else values[at], part) for part, at in self._parts(rows))
        return Deferred.one(self._sum(parts, self.shape[1]))

    def moments(self, rows: Any, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over some rows."""
        found: tuple[Matrix, Vector] = self.settle(self.moments_deferred(rows, shift))[0]
        return found

    def moments_deferred(self, rows: Any, shift: Vector) -> Deferred:
        """What `moments` tells, together with other things."""
        xp, d = self.xp, self.shape[1]
        origin = self._feature(shift, xp.float64)
        grams, totals = [], []
        for part, _ in self._parts(rows):
            centred = part - origin
            grams.append(xp.matmul(centred.T, centred))
            totals.append(xp.sum(centred, axis=0))
        return Deferred.plain(self._sum(grams, d, d), self._sum(totals, d))

    def squares(self, rows: Any) -> Vector:
        """Sum of squares of every column over some rows."""
        squares = (self.xp.sum(part * part, axis=0) for part, _ in self._parts(rows))
        return self._vector(self._sum(squares, self.shape[1]))

    def norms(self, rows: Any | None = None) -> Any:
        """Squared norm of every row of the block or of some."""
        parts = [self.xp.sum(part * part, axis=1) for part, _ in self._parts(rows)]
        return self.xp.concat(parts) if parts else self._zeros(0)

    def take(self, rows: Any) -> Matrix:
        """Some rows as a NumPy array."""
        taken: Matrix = self.to_host(self.xp.take(self._x, rows, axis=0))[0]
        return taken

    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> ArraySelected:
        """Entries of a linear combination that lie above a floor."""
        xp = self.xp
        total = self.combined(0.0, terms)
        if floor == -math.inf and among is None:
            return ArraySelected(self, None, total, offset)
        # Comparing with a lower floor costs less than adding the offset to every entry.
        chosen = total > floor - offset
        rows = xp.nonzero(chosen if among is None else chosen & among)[0]
        return ArraySelected(self, rows, xp.take(total, rows, axis=0), offset)

    def combined(self, offset: float, terms: Terms) -> Any:
        """Offset + sum of factor * vector."""
        (factor, vector), *rest = sorted(terms, key=lambda term: term[0] != 1.0)
        total = vector if factor == 1.0 else factor * vector
        for factor, vector in rest:
            if factor:
                # PyTorch does both in one pass.
                total = total.add(vector, alpha=factor) if self._is_torch else total + factor * vector
        return total + offset if offset else total

    def sorted(self, x: Any) -> tuple[Any, Any]:
        """A vector in ascending order, and where its entries were."""
        if self._is_torch:
            values, places = x.sort()
            return values, places
        order = self.xp.argsort(x)
        return self.xp.take(x, order, axis=0), order

    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array on the block's device."""
        if self._is_torch and self._device.type == "cuda" and isinstance(values, np.ndarray):
            # What lies in ordinary memory is copied before the call returns, and the device need not be waited for.
            host = self.xp.from_numpy(np.require(values, requirements=("C", "W")))
            return host.to(self._device, non_blocking=True)
        return self.xp.asarray(values, device=self._device)

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Arrays and scalars as NumPy arrays, in one transfer."""
        if not values:
            return ()
        xp = self.xp
        flat = [v if len(v.shape) == 1 else xp.reshape(v, (-1,)) for v in values]
        # PyTorch converts while it puts together; integers so small stay what they are.
        if not self._is_torch:
            flat = [xp.astype(v, xp.float64) for v in flat]
        elif all(v.dtype != xp.float64 for v in flat):
            flat[0] = flat[0].to(xp.float64)
        packed = self._copied(flat[0] if len(flat) == 1 else xp.concat(flat))
        host, start = [], 0
        for v in values:
            shape = tuple(v.shape)
            stop = start + math.prod(shape)
            host.append(packed[start:stop].reshape(shape))
            start = stop
        return tuple(host)

    def _copied(self, x: Any) -> Vector:
        """An array as one of NumPy; each library has its own way off its device."""
        if self._is_torch:
            # A tensor on the host shares its memory, and belongs to somebody else.
            host: Vector = x.cpu().numpy()
            return host.copy() if self._on_host else host
        return np.asarray(x.get() if self._compat.is_cupy_array(x) else np.from_dlpack(x), dtype=np.float64)

    def _parts(self, rows: Any | None) -> Any:
        """Some rows in double precision, a few at a time, with their places."""
        n_rows = self.shape[0] if rows is None else rows.shape[0]
        step = self._chunk_rows()
        for start in range(0, n_rows, step):
            at = slice(start, min(start + step, n_rows))
            if rows is None:
                part = self._x[at, :]
            else:
                part = self.xp.take(self._x, rows if n_rows <= step else rows[at], axis=0)
            yield self.xp.astype(part, self.xp.float64, copy=False), at

    def _chunk_rows(self) -> int:
        return max(64, (_CHUNK_VALUES if self._on_host else _DEVICE_CHUNK_VALUES) // max(1, self.shape[1]))

    def _sum(self, parts: Iterable[Any], *shape: int) -> Any:
        """Sum of some arrays; most often there is one."""
        total = None
        for part in parts:
            total = part if total is None else total + part
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self._device) if total is None else total

    def _feature(self, vector: Vector, dtype: Any) -> Any:
        return self.xp.astype(self.asarray(vector), dtype, copy=False)

    def _zeros(self, length: int) -> Any:
        return self.xp.zeros(length, dtype=self.xp.float64, device=self._device)

    def _vector(self, x: Any) -> Vector:
        host: Vector = self.to_host(x)[0]
        return host


class ArraySelected(Ordered):
    """Entries above a floor, sorted once they are looked at: thresholds are then looked up.

    A device sorts millions of entries in the time of a few dozen launches: to sort some of them would gain nothing.
    """

    def __init__(self, block: ArrayBlock, rows: Any | None, shifted: Any, offset: float) -> None:
        self._block = block
        self._rows = rows  # None: all
        self._shifted, self._offset = shifted, offset

    @cached_property
    def rows(self) -> Any:
        """Where they are."""
        if self._rows is not None:
            return self._rows
        return self._block.xp.arange(self._shifted.shape[0], device=self._shifted.device)

    @cached_property
    def values(self) -> Any:
        """The entries."""
        return self._shifted + self._offset

    @cached_property
    def order(self) -> Order:
        """The entries, downward."""
        turned, places = self._block.sorted(-self._offset - self._shifted)
        return Order(turned, places, self._block.xp.cumulative_sum(turned))

    @cached_property
    def rows_in_order(self) -> Any:
        """Where they are, downward."""
        places = self.order.places
        return places if self._rows is None else self._block.xp.take(self._rows, places, axis=0)

    @cached_property
    def _sums(self) -> Any:
        """Of the first 0, 1, 2, ... entries, with their sign turned."""
        return self._block.xp.concat((self._block.zero, self.order.running))

    def tally(self, edges: Vector) -> Matrix:
        """Counts above every edge and at it or above, and the excess over it."""
        found: Matrix = self._block.settle(self.tally_deferred(edges))[0]
        return found

    def tally_deferred(self, edges: Vector) -> Deferred:
        """What `tally` tells, together with other things."""
        size = len(edges)
        if not size:
            return Deferred.known(np.zeros((3, 0)))
        places = self._places_of(edges, edges)

        def finish(counts: Vector, sums: Vector) -> Matrix:
            n_above = counts[:size]
            return np.stack((n_above, counts[size:], -sums[:size] - n_above * edges))

        return Deferred((places, self._block.xp.take(self._sums, places, axis=0)), finish)

    def fetch(self, intervals: Matrix, moves: Any | None, most: int) -> tuple[Matrix, list[Matrix | Vector]]:
        """What lies above every interval, and the entries inside."""
        found: tuple[Matrix, list[Matrix | Vector]]
        found = self._block.settle(*self._block.settle(self.fetch_deferred(intervals, moves, most)))[0]
        return found

    def fetch_deferred(self, intervals: Matrix, moves: Any | None, most: int) -> Deferred:
        """What `fetch` tells, in two steps: where the intervals begin and end, then the entries inside."""
        size = len(intervals)
        if not size:
            return Deferred.known(Deferred.known((np.zeros((0, 4)), [])))
        xp, order, high = self._block.xp, self.order, intervals[:, 1]
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
        """How many entries lie above some thresholds, then how many at others or above."""
        edges = np.concatenate((-above, np.nextafter(-upward, np.inf)))
        return self._block.xp.searchsorted(self.order.turned, self._block.asarray(edges))

    def _prefix(self, x: Any) -> Any:
        return self._block.xp.concat((self._block.zero, self._block.xp.cumulative_sum(x)))

    def _between(self, sums: Matrix, moved: Any | None, starts: Any, stops: Any, most: int) -> Deferred:
        """Entries at some ranges of places, or quantiles of them, beside sums that are known."""
        ranks = [
            np.arange(start, stop) if stop - start <= most else np.linspace(start, stop - 1, N_QUANTILES).astype(int)
            for start, stop in zip(starts, stops, strict=True)
        ]
        cuts = np.cumsum([0, *map(len, ranks)])
        if not cuts[-1]:
            return Deferred.known((sums, [np.zeros((2, 0)) for _ in ranks]))
        places = self._block.asarray(np.concatenate(ranks))
        asked = [self._block.xp.take(x, places, axis=0) for x in (self.order.turned, moved) if x is not None]

        def finish(turned: Vector, moves: Vector | None = None) -> tuple[Matrix, list[Matrix | Vector]]:
            pairs = np.stack((-turned, np.zeros_like(turned) if moves is None else moves))[:, ::-1]
            last = len(turned)
            parts = [pairs[:, last - b : last - a] for a, b in pairwise(cuts.tolist())]
            return sums, [p[0] if many else p for p, many in zip(parts, stops - starts > most, strict=True)]

        return Deferred(tuple(asked), finish)

    def split_deferred(self, low: float, cap: float) -> Deferred:
        """Rows and excess of the entries between `low` and `low + cap`, and rows of those above: parts of the order."""
        if "order" not in self.__dict__:
            return self._split_as_they_lie(low, cap)
        under = self.order.turned + low

        def finish(counts: Vector) -> tuple[Any, Any, Any]:
            n_capped, n_above = (int(x) for x in counts)
            rows = self.rows_in_order
            return rows[n_capped:n_above], -under[n_capped:n_above], rows[:n_capped]

        edges = self._block.asarray(np.array([np.nextafter(-cap, np.inf), 0.0]))
        return Deferred((self._block.xp.searchsorted(under, edges),), finish)

    def _split_as_they_lie(self, low: float, cap: float) -> Deferred:
        """The same, where nothing was looked up: three masks cost less than the order."""
        xp, over = self._block.xp, self.values - low
        is_above, is_capped = over > 0, over >= cap
        free, capped = (xp.nonzero(mask)[0] for mask in (is_above & ~is_capped, is_above & is_capped))
        return Deferred.known(
            (xp.take(self.rows, free, axis=0), xp.take(over, free, axis=0), xp.take(self.rows, capped, axis=0))
        )
