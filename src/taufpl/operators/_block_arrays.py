"""Blocks of arrays that follow the array API standard: PyTorch, CuPy and others, on a GPU or not.

Products run in the type of the data. Everything that a certificate rests on is added up in double precision: a few rows
at a time are converted. A number that goes to the host waits for the device, so that few do, together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl.operators._block_numpy import N_QUANTILES
from taufpl.operators._blocks import Block, Matrix, Selected, Terms, Vector
from taufpl.operators._compat import array_compat, namespace

# Values that are converted to double precision at a time: 128 MiB.
_CHUNK_VALUES = 1 << 24


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
        xp = self.xp
        total = self._zeros(self.shape[1])
        for part, at in self._parts(rows):
            total = total + xp.matmul(values[at], part)
        return self._vector(total)

    def moments(self, rows: Any, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over some rows."""
        xp, d = self.xp, self.shape[1]
        origin = self._feature(shift, xp.float64)
        gram, total = xp.reshape(self._zeros(d * d), (d, d)), self._zeros(d)
        for part, _ in self._parts(rows):
            centred = part - origin
            gram = gram + xp.matmul(centred.T, centred)
            total = total + xp.sum(centred, axis=0)
        host = self.to_host(gram, total)
        return host[0], host[1]

    def squares(self, rows: Any) -> Vector:
        """Sum of squares of every column over some rows."""
        total = self._zeros(self.shape[1])
        for part, _ in self._parts(rows):
            total = total + self.xp.sum(part * part, axis=0)
        return self._vector(total)

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
        (factor, vector), *rest = sorted(terms, key=lambda term: term[0] != 1.0)
        total = vector if factor == 1.0 else factor * vector
        for factor, vector in rest:
            total = self._add_scaled(total, factor, vector)
        # Comparing with a lower floor costs less than adding the offset to every entry.
        chosen = total > floor - offset
        rows = xp.nonzero(chosen if among is None else chosen & among)[0]
        return ArraySelected(self, rows, xp.take(total, rows, axis=0) + offset)

    def _add_scaled(self, total: Any, factor: float, vector: Any) -> Any:
        if self._compat.is_torch_array(total):
            return self.xp.add(total, vector, alpha=factor)  # in one pass
        return total + factor * vector

    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array on the block's device."""
        return self.xp.asarray(values, device=self._device)

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Arrays and scalars as NumPy arrays, in one transfer."""
        if not values:
            return ()
        xp = self.xp
        flat = [xp.reshape(xp.astype(v, xp.float64), (-1,)) for v in values]
        packed = self._copied(flat[0] if len(flat) == 1 else xp.concat(flat))
        cuts = np.cumsum([f.shape[0] for f in flat])[:-1]
        shapes = [() if not hasattr(v, "shape") else tuple(v.shape) for v in values]
        return tuple(p.reshape(s).copy() for p, s in zip(np.split(packed, cuts), shapes, strict=True))

    def _copied(self, x: Any) -> Vector:
        """An array as one of NumPy; each library has its own way off its device."""
        if self._compat.is_torch_array(x):
            return np.asarray(x.cpu().numpy(), dtype=np.float64)
        return np.asarray(x.get() if self._compat.is_cupy_array(x) else np.from_dlpack(x), dtype=np.float64)

    def _parts(self, rows: Any | None) -> Any:
        """Some rows in double precision, a few at a time, with their places."""
        n_rows = self.shape[0] if rows is None else rows.shape[0]
        step = self._chunk_rows()
        for start in range(0, n_rows, step):
            at = slice(start, min(start + step, n_rows))
            part = self._x[at, :] if rows is None else self.xp.take(self._x, rows[at], axis=0)
            yield self.xp.astype(part, self.xp.float64, copy=False), at

    def _chunk_rows(self) -> int:
        return max(64, _CHUNK_VALUES // max(1, self.shape[1]))

    def _feature(self, vector: Vector, dtype: Any) -> Any:
        return self.xp.asarray(vector, dtype=dtype, device=self._device)

    def _zeros(self, length: int) -> Any:
        return self.xp.zeros(length, dtype=self.xp.float64, device=self._device)

    def _vector(self, x: Any) -> Vector:
        host: Vector = self.to_host(x)[0]
        return host


@dataclass(frozen=True, slots=True)
class _Core:
    """Entries between two thresholds, sorted, and what lies above.

    Attributes
    ----------
    low, high : float
    turned : array
        Entries from `low` on and under `high`, downward, with their sign turned.
    sums : array
        Of the first 0, 1, 2, ... of them.
    rows : array
        Where they are.
    is_above : array
        Mask of all selected entries from `high` on.
    beyond : array
        Excess of those over `high`, 0 for the others.
    """

    low: float
    high: float
    turned: Any
    sums: Any
    rows: Any
    is_above: Any
    beyond: Any


class ArraySelected(Selected):
    """Entries above a floor. Those between the thresholds that are asked for are sorted, and then looked up."""

    def __init__(self, block: ArrayBlock, rows: Any, values: Any) -> None:
        self._block = block
        self.rows = rows
        self.values = values
        self._kept: _Core | None = None

    def _core(self, low: float, high: float) -> _Core:
        """Sort what lies between, unless a core at hand has it."""
        if self._kept is not None and self._kept.low <= low and high <= self._kept.high:
            return self._kept
        xp = self._block.xp
        is_above = self.values >= high
        inside = xp.nonzero((self.values >= low) & ~is_above)[0]
        turned = -xp.take(self.values, inside, axis=0)
        order = xp.argsort(turned)
        turned = xp.take(turned, order, axis=0)
        sums = xp.concat((self._block._zeros(1), -xp.cumulative_sum(turned)))
        rows = xp.take(self.rows, xp.take(inside, order, axis=0), axis=0)
        beyond = xp.where(is_above, self.values - high, xp.zeros_like(self.values))
        self._kept = _Core(low, high, turned, sums, rows, is_above, beyond)
        return self._kept

    def tally(self, edges: Vector) -> Matrix:
        """Counts above every edge and at it or above, and the excess over it."""
        if not len(edges):
            return np.zeros((3, 0))
        xp, block = self._block.xp, self._block
        core = self._core(float(edges[0]), float(edges[-1]))
        at = block.asarray(-edges)
        above = xp.searchsorted(core.turned, at)
        n_above, n_from, total, n_high, n_higher, excess = block.to_host(
            above,
            xp.searchsorted(core.turned, at, side="right"),
            xp.take(core.sums, above, axis=0),
            xp.sum(xp.astype(core.is_above, xp.int64)),
            xp.sum(xp.astype(core.beyond > 0, xp.int64)),
            xp.sum(core.beyond),
        )
        total += excess - n_above * edges + n_high * (core.high - edges)
        return np.vstack((n_above + np.where(edges == core.high, n_higher, n_high), n_from + n_high, total))

    def fetch(self, intervals: Matrix, moves: Any | None, most: int) -> tuple[Matrix, list[Matrix | Vector]]:
        """What lies above every interval, and the entries inside."""
        if not len(intervals):
            return np.zeros((0, 4)), []
        xp, block = self._block.xp, self._block
        core = self._core(float(intervals.min()), float(intervals.max()))
        # Entries above the low end, and from the high end on.
        stops = xp.searchsorted(core.turned, block.asarray(-intervals[:, 0]))
        starts = xp.searchsorted(core.turned, block.asarray(-intervals[:, 1]), side="right")
        above = [xp.take(core.sums, starts, axis=0), xp.sum(core.beyond), *self._moved(core, moves, starts)]
        n_high = xp.sum(xp.astype(core.is_above, xp.int64))
        n_stop, n_start, n_above, total, excess, moved, products, moved_high, products_high = block.to_host(
            stops, starts, n_high, *above
        )
        high = intervals[:, 1]
        result = np.empty((len(intervals), 4))
        result[:, 0] = n_start + n_above
        result[:, 1] = total - n_start * high + excess + n_above * (core.high - high)
        result[:, 2] = moved + moved_high
        result[:, 3] = products - high * moved + products_high + (core.high - high) * moved_high
        return result, self._between(core, moves, n_start.astype(int), n_stop.astype(int), most)

    def _moved(self, core: _Core, moves: Any | None, starts: Any) -> list[Any]:
        """Sums of moves, and of entries times moves: down to some places in the core, and above it."""
        xp, zero = self._block.xp, self._block._zeros(1)
        if moves is None:
            return [xp.take(zero, starts * 0, axis=0)] * 2 + [zero[0]] * 2
        inside = xp.take(moves, core.rows, axis=0)
        sums = [xp.concat((zero, xp.cumulative_sum(x))) for x in (inside, -core.turned * inside)]
        everywhere = xp.take(moves, self.rows, axis=0)
        high = xp.sum(xp.where(core.is_above, everywhere, xp.zeros_like(everywhere)))
        return [*(xp.take(x, starts, axis=0) for x in sums), high, xp.sum(core.beyond * everywhere)]

    def _between(self, core: _Core, moves: Any | None, starts: Any, stops: Any, most: int) -> list[Matrix | Vector]:
        """Entries at some ranges of places, or quantiles of them, in one transfer."""
        xp, block = self._block.xp, self._block
        ranks = [
            np.arange(start, stop) if stop - start <= most else np.linspace(start, stop - 1, N_QUANTILES).astype(int)
            for start, stop in zip(starts, stops, strict=True)
        ]
        places = block.asarray(np.concatenate(ranks))
        if not places.shape[0]:
            return [np.zeros((2, 0)) for _ in ranks]
        values = -xp.take(core.turned, places, axis=0)
        moved = values * 0.0 if moves is None else xp.take(moves, xp.take(core.rows, places, axis=0), axis=0)
        pairs = np.stack(block.to_host(values, moved))
        cuts = np.cumsum([len(rank) for rank in ranks])[:-1]
        many = stops - starts > most
        return [p[0, ::-1] if m else p[:, ::-1] for p, m in zip(np.split(pairs, cuts, axis=1), many, strict=True)]
