"""Rows and vectors in arrays that follow the array API standard: PyTorch, CuPy and others, on a GPU or not.

Products run in the type of the data. Everything that a certificate rests on is added up in double precision: a few rows
at a time are converted; kernels for CUDA (`_row_kernels.py`) convert on the way, and all products are exact there. A
number that goes to the host waits for the device, so that few do, together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from taufpl._extras import require
from taufpl._types import Matrix, Vector
from taufpl.operators._array_api import array_compat, namespace
from taufpl.operators._operator import Rows
from taufpl.operators.remote._blocks import N_QUANTILES, Block, Deferred, Selected, Terms

# Values that are converted to double precision at a time: 128 MiB on a host, 1 GiB on a device.
_CHUNK_VALUES = 1 << 24
_DEVICE_CHUNK_VALUES = 1 << 27
# Values from which kernels of our own pay for half a second in each process, and for three where they are compiled.
_LEAST_KERNEL_VALUES = 1 << 26


class ArrayLibrary:
    """A library of arrays and one of its devices, as those of an array X."""

    def __init__(self, X: Any) -> None:
        self.device = array_compat().device(X)
        self.is_torch = array_compat().is_torch_array(X)
        self.on_host = "cpu" in str(self.device).lower()
        self.zero = namespace(X).zeros(1, dtype=namespace(X).float64, device=self.device)

    @cached_property
    def xp(self) -> Any:
        """The library, by the names of the array API standard."""
        return namespace(self.zero)

    def __getstate__(self) -> dict[str, Any]:
        # Modules do not travel.
        return {name: value for name, value in self.__dict__.items() if name != "xp"}

    def zeros(self, *shape: int) -> Any:
        """Zeros in double precision."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array on the device."""
        if self.is_torch and self.device.type == "cuda" and isinstance(values, np.ndarray):
            # Ordinary memory is copied before the call returns, and the device need not be waited for.
            host = self.xp.from_numpy(np.require(values, requirements=("C", "W")))
            return host.to(self.device, non_blocking=True)
        return self.xp.asarray(values, device=self.device)

    def shuffled(self, x: Any, seed: tuple[int, ...]) -> Any:
        """A vector in random order; on a CUDA device it is drawn there."""
        if self.is_torch and not self.on_host:
            state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
            generator = self.xp.Generator(self.device).manual_seed(int(state >> np.uint64(1)))
            order = self.xp.randperm(x.shape[0], generator=generator, device=self.device)
        else:
            order = self.asarray(np.random.default_rng(seed).permutation(x.shape[0]))
        return self.xp.take(x, order, axis=0)

    def sorted(self, x: Any) -> tuple[Any, Any]:
        """A vector in ascending order, and where its entries were."""
        if self.is_torch:
            values, places = x.sort()
            return values, places
        order = self.xp.argsort(x)
        return self.xp.take(x, order, axis=0), order

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Arrays and scalars as NumPy arrays, in one transfer."""
        if not values:
            return ()
        xp = self.xp
        flat = [v if len(v.shape) == 1 else xp.reshape(v, (-1,)) for v in values]
        # PyTorch converts while it puts together; integers so small stay what they are.
        if not self.is_torch:
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
        if self.is_torch:
            # A tensor on the host shares its memory, and belongs to somebody else.
            host: Vector = x.cpu().numpy()
            return host.copy() if self.on_host else host
        return np.asarray(x.get() if array_compat().is_cupy_array(x) else np.from_dlpack(x), dtype=np.float64)


class ArrayRows(Rows):
    """Rows of an array of shape (n, d), float32 or float64, on any device."""

    def __init__(self, X: Any) -> None:
        xp = namespace(X)
        if len(X.shape) != 2 or not xp.isdtype(X.dtype, "real floating"):
            raise ValueError(
                f"a block must be a two-dimensional array of real floating-point numbers, got shape {tuple(X.shape)} "
                f"and dtype {X.dtype}; convert it first."
            )
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.library = ArrayLibrary(X)
        on_cuda = self.library.is_torch and X.is_cuda and X.layout == xp.strided
        self._has_kernels = on_cuda and math.prod(self.shape) >= _LEAST_KERNEL_VALUES and _row_kernels() is not None
        self.exact = X.dtype == xp.float64 or self._has_kernels
        self._x = X

    @property
    def _kernels(self) -> Any | None:
        """The module of kernels for these rows, if there is one."""
        return _row_kernels() if self._has_kernels else None

    def dot(self, w: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        xp = self.library.xp
        if self._kernels is not None:
            return self._kernels.row_products(self._x, self._feature(w, xp.float64), rows)
        if rows is None and (self.exact or not exact):
            scores = xp.matmul(self._x, self._feature(w, self._x.dtype))
            return scores if self.exact else xp.astype(scores, xp.float64)
        w = self._feature(w, xp.float64)
        parts = [xp.matmul(part, w) for part, _ in self._parts(rows)]
        return xp.concat(parts) if parts else self.library.zeros(0)

    def add(self, values: Any, rows: Any | None = None) -> Any:
        if self._kernels is not None:
            return self._kernels.row_sums(self._x, values, rows)
        whole = values.shape[0] <= self._chunk_rows()
        return _sum(self.library.xp.matmul(values if whole else values[at], part) for part, at in self._parts(rows))

    def moments(self, rows: Any, shift: Vector) -> tuple[Any, Any]:
        xp = self.library.xp
        origin = self._feature(shift, xp.float64)
        grams, totals = [], []
        for part, _ in self._parts(rows):
            centred = part - origin
            grams.append(xp.matmul(centred.T, centred))
            totals.append(xp.sum(centred, axis=0))
        return _sum(grams), _sum(totals)

    def squares(self, rows: Any | None, axis: int) -> Any:
        if self._kernels is not None and axis == 1:
            return self._kernels.row_products(self._x, None, rows)
        sums = [self.library.xp.sum(part * part, axis=axis) for part, _ in self._parts(rows)]
        if not sums:
            return self.library.zeros(self.shape[1] if axis == 0 else 0)
        return _sum(sums) if axis == 0 else self.library.xp.concat(sums)

    def take(self, rows: Any | None) -> Any:
        return self._x if rows is None else self.library.xp.take(self._x, rows, axis=0)

    def _parts(self, rows: Any | None) -> Iterator[tuple[Any, slice]]:
        """Some rows in double precision, a few at a time, with their places."""
        n_rows = self.shape[0] if rows is None else rows.shape[0]
        step = self._chunk_rows()
        for start in range(0, n_rows, step):
            at = slice(start, min(start + step, n_rows))
            yield self._doubles(at if rows is None else rows if n_rows <= step else rows[at]), at

    def _doubles(self, rows: Any) -> Any:
        """Rows at a slice or at indices, in double precision."""
        part = self._x[rows, :] if isinstance(rows, slice) else self.take(rows)
        return self.library.xp.astype(part, self.library.xp.float64, copy=False)

    def _chunk_rows(self) -> int:
        values = _CHUNK_VALUES if self.library.on_host else _DEVICE_CHUNK_VALUES
        return max(64, values // max(1, self.shape[1]))

    def _feature(self, vector: Vector, dtype: Any) -> Any:
        return self.library.xp.astype(self.library.asarray(vector), dtype, copy=False)


@cache
def _row_kernels() -> Any | None:
    """The kernels for CUDA, where Triton is installed and finds what it compiles with."""
    try:
        kernels = import_module("taufpl.operators.remote._row_kernels")
        kernels.try_out()
    except Exception:  # of many kinds: no Triton, no C compiler, no place to write to, a device that is too old
        return None
    return kernels


def _sum(parts: Iterable[Any]) -> Any:
    """Sum of some arrays; most often there is one."""
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


class ArrayBlock(Block):
    """Rows whose vectors are arrays of another library than NumPy."""

    def __init__(self, rows: Rows, library: ArrayLibrary) -> None:
        super().__init__(rows)
        self.library = library

    @property
    def xp(self) -> Any:
        return self.library.xp

    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> ArraySelected:
        total = self.combined(0.0, terms)
        if floor == -math.inf and among is None:
            return ArraySelected(self.library, None, total, offset)
        # Comparing with a lower floor costs less than adding the offset to every entry.
        chosen = total > floor - offset
        rows = self.xp.nonzero(chosen if among is None else chosen & among)[0]
        return ArraySelected(self.library, rows, self.xp.take(total, rows, axis=0), offset)

    def asarray(self, values: Any) -> Any:
        return self.library.asarray(values)

    def counting(self, count: int) -> Any:
        return self.xp.arange(count, dtype=self.xp.int64, device=self.library.device)

    def shuffled(self, values: Any, seed: tuple[int, ...]) -> Any:
        return self.library.shuffled(values, seed)

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        return self.library.to_host(*values)

    def combined(self, offset: float, terms: Terms) -> Any:
        (factor, vector), *rest = sorted(terms, key=lambda term: term[0] != 1.0)
        total = vector if factor == 1.0 else factor * vector
        for factor, vector in rest:
            if factor:
                # PyTorch does both in one pass.
                total = total.add(vector, alpha=factor) if self.library.is_torch else total + factor * vector
        return total + offset if offset else total


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
            prefixes = [xp.concat((self._library.zero, xp.cumulative_sum(x))) for x in (moved, moved * order.turned)]
            asked += [xp.take(x, starts, axis=0) for x in prefixes]

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


def is_sparse_tensor(X: Any) -> bool:
    """Whether X is a sparse tensor in CSR format."""
    return str(getattr(X, "layout", "")) == "torch.sparse_csr"


class SparseTorchRows(ArrayRows):
    """Rows of a sparse PyTorch tensor in CSR format, float32 or float64.

    PyTorch multiplies such a tensor by a vector, but takes no rows out of it. What concerns some rows is therefore done
    with the values stored in them, picked by their positions.
    """

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self._starts, self._columns, self._values = X.crow_indices(), X.col_indices(), X.values()

    def dot(self, w: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        if rows is None and (self.exact or not exact):
            return super().dot(w)
        values, columns, owners, n_rows = self._stored(rows)
        products = values * self._feature(w, self.library.xp.float64)[columns]
        return self.library.zeros(n_rows).index_add_(0, owners, products)

    def add(self, values: Any, rows: Any | None = None) -> Any:
        stored, columns, owners, _ = self._stored(rows)
        return self.library.zeros(self.shape[1]).index_add_(0, columns, stored * values[owners])

    def squares(self, rows: Any | None, axis: int) -> Any:
        values, columns, owners, n_rows = self._stored(rows)
        places, length = (columns, self.shape[1]) if axis == 0 else (owners, n_rows)
        return self.library.zeros(length).index_add_(0, places, values**2)

    def take(self, rows: Any) -> Any:
        """Some rows as a dense tensor of double precision."""
        return self._doubles(rows)

    def _doubles(self, rows: Any) -> Any:
        """Rows at a slice or at indices, dense and in double precision."""
        values, columns, owners, n_rows = self._stored(rows)
        dense = self.library.zeros(n_rows * self.shape[1])
        return dense.index_add_(0, owners * self.shape[1] + columns, values).reshape(n_rows, self.shape[1])

    def _stored(self, rows: Any | None) -> tuple[Any, Any, Any, int]:
        """Values stored in some rows in double precision, their columns and the rows' numbers, and how many rows."""
        torch, device = require("torch", "gpu", "for sparse tensors"), self.library.device
        if rows is None or isinstance(rows, slice):
            rows = torch.arange(*(rows or slice(None)).indices(self.shape[0]), device=device)
        counts = self._starts[rows + 1] - self._starts[rows]
        owners = torch.repeat_interleave(torch.arange(rows.shape[0], device=device), counts)
        before = torch.cumsum(counts, 0) - counts
        places = torch.arange(owners.shape[0], device=device) - before[owners] + self._starts[rows][owners]
        return self._values[places].to(self.library.xp.float64), self._columns[places], owners, int(rows.shape[0])
