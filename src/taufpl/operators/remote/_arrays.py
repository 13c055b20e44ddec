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
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.operators._array_api import array_compat, namespace
from taufpl.operators._base import Rows
from taufpl.operators.remote._array_entries import ArraySelected
from taufpl.operators.remote._blocks import Block, Terms

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
