"""Chunks of dask collections: checks, sizes, and how they are joined to blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.sparse

from taufpl._extras import require
from taufpl.operators._array_api import is_collection
from taufpl.operators.remote.dask._chunks import Loader, float_type, label_values, measure

# A task costs the scheduler about half a millisecond, whatever it does, and a round has one for every block: blocks of
# fewer bytes than this would be computed faster than they are handed out.
_LEAST_BYTES = 1 << 23
# Every thread gets two blocks, so that none waits long for another; with more threads, one: the scheduler is slow.
_MANY_THREADS = 64
# What a solver keeps beside a row: some vectors with an entry a row, in double precision, old and new.
_BESIDE_ROW = 64
# Bytes of data inside a graph that are bearable: they travel with the part of the graph that every block takes along.
_MOST_INSIDE = 1 << 24


@dataclass(frozen=True)
class Room:
    """Threads and bytes of memory that there are to work with, in all."""

    n_threads: int
    memory: float

    @property
    def block_bytes(self) -> int:
        """Most bytes of a block that is read for every task: a sixteenth of what a thread has, from 32 MiB to 1 GiB."""
        return int(min(max(self.memory / self.n_threads / 16, 1 << 25), 1 << 30))

    def wanted_bytes(self, n_bytes: int) -> int:
        """Size of blocks that occupies every thread, if all blocks together have `n_bytes`."""
        n_blocks = self.n_threads if self.n_threads > _MANY_THREADS else 2 * self.n_threads
        return max(int(n_bytes) // n_blocks, _LEAST_BYTES)

    def holds(self, chunks: Chunks) -> bool:
        """Whether all rows, and what a solver keeps beside them, take at most half of the memory.

        The other half is for what tasks use while they run; Dask itself begins to write to disk at 60 %.
        """
        return bool(sum(chunks.n_bytes) + _BESIDE_ROW * sum(chunks.sizes) <= self.memory / 2)


@dataclass(frozen=True)
class Chunks:
    """The chunks of one collection, in order: the graph, and for each chunk its key, its rows and its bytes.

    Where some of the collection lies on the workers already (`has_futures`), only the scheduler can compute it.
    """

    graph: dict[Any, Any]
    keys: list[Any]
    sizes: list[int]
    n_bytes: list[int]
    has_futures: bool

    def loader(self, group: Sequence[int]) -> Loader:
        """All that some chunks need, to compute them without a scheduler."""
        cull = require("dask.optimization", "dask", "for dask collections").cull
        keys = [self.keys[i] for i in group]
        return Loader(cull(self.graph, keys)[0], keys)

    def delayed(self, group: Sequence[int]) -> list[Any]:
        """Some chunks, as arguments of a delayed function."""
        make = require("dask.delayed", "dask", "for dask collections").Delayed
        return [make(self.keys[i], self.graph) for i in group]


@dataclass(frozen=True)
class BlockPlan:
    """Which chunks of X, and of y if there is one, become which blocks: a group of chunks each."""

    rows: Chunks
    labels: Chunks | list[Any] | None
    groups: list[list[int]]
    n_features: int

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape of each block."""
        return [(sum(self.rows.sizes[i] for i in group), self.n_features) for group in self.groups]

    def place(self, number: int) -> tuple[int, int, int]:
        """Number of a block, its first row, and how many rows it has."""
        return number, self._starts[number], self.shapes[number][0]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(n_rows for n_rows, _ in self.shapes)]

    def load_labels(self, number: int) -> list[Any] | None:
        """Labels of a block, computed in this process."""
        group = self.groups[number]
        if isinstance(self.labels, Chunks):
            loader = self.labels.loader(group)
            return list(require("dask", "dask", "for dask collections").get(loader.graph, loader.keys))
        return None if self.labels is None else [self.labels[i] for i in group]


def read_rows(X: Any, room: Room) -> tuple[Chunks, int]:
    """Chunks of X, none much larger than there is room for, and its number of features."""
    check_kind(X)
    if is_frame(X):
        check_frame(X)
        return read_chunks(X, X.to_delayed()), len(X.columns)
    if X.ndim != 2 or math.isnan(X.shape[1]):
        raise ValueError(f"X must have two dimensions and a known number of columns, got shape {X.shape}.")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers, got dtype {X.dtype}.")
    X = _cut_rows(X.rechunk({1: -1}) if X.numblocks[1] > 1 else X, room)
    return read_chunks(X, X.to_delayed().ravel()), int(X.shape[1])


def read_labels(y: Any, sizes: Sequence[int]) -> Chunks | list[Any]:
    """Chunks of y, cut where X is: of a collection, or parts of an array in memory."""
    n_rows = sum(sizes)
    if not is_collection(y):
        labels = np.asarray(y)
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.ndim != 1:
            raise ValueError(f"y must be one-dimensional, got shape {labels.shape}.")
        _check_length(n_rows, len(labels))
        return np.split(labels, np.cumsum(sizes)[:-1])
    check_kind(y, "y", "a dask array or a series")
    if is_frame(y) and y.ndim == 2:
        if len(y.columns) != 1:
            raise ValueError(f"y must be one column, got {len(y.columns)}: {list(y.columns)}.")
        y = y[y.columns[0]]
    elif is_array(y) and y.ndim != 1 and y.shape[1:] != (1,):
        raise ValueError(f"y must be one-dimensional, got shape {y.shape}.")
    chunks = read_chunks(y, np.ravel(y.to_delayed()))
    _check_length(n_rows, sum(chunks.sizes))
    if chunks.sizes == list(sizes):
        return chunks
    moved = _as_array(chunks).rechunk({0: tuple(sizes)})
    return read_chunks(moved, np.ravel(moved.to_delayed()))


def read_chunks(collection: Any, delayed: Any) -> Chunks:
    """Take a collection apart. Where it does not say how large its chunks are, they are computed once to see."""
    keys = [part.key for part in delayed]
    graph = dict(delayed[0].__dask_graph__())
    known = is_array(collection) and not any(map(math.isnan, collection.shape))
    if known and not scipy.sparse.issparse(collection._meta):
        row = math.prod(collection.shape[1:]) * np.dtype(float_type([collection.dtype])).itemsize
        sizes = [int(size) for size in collection.chunks[0]]
        n_bytes = [size * int(row) for size in sizes]
    else:
        dask = require("dask", "dask", "for dask collections")
        measured = dask.compute(*(dask.delayed(measure, pure=False)(part) for part in delayed))
        sizes, n_bytes = (list(column) for column in zip(*measured, strict=True))
    return Chunks(graph, keys, sizes, n_bytes, lies_on_workers(collection))


def plan_blocks(chunks: Chunks, room: Room, *, keep: bool, block_bytes: int | None) -> list[list[int]]:
    """Consecutive chunks that together make a block: as few as occupy every thread, and as their memory allows."""
    most_rows = math.inf
    if block_bytes is None:
        block_bytes = room.wanted_bytes(sum(chunks.n_bytes))
        if not keep:
            block_bytes, most_rows = min(block_bytes, room.block_bytes), room.block_bytes / _BESIDE_ROW
    groups: list[list[int]] = []
    rows = weight = 0
    for i, (size, n_bytes) in enumerate(zip(chunks.sizes, chunks.n_bytes, strict=True)):
        if groups and weight + n_bytes <= block_bytes and rows + size <= most_rows:
            groups[-1].append(i)
            rows, weight = rows + size, weight + n_bytes
        else:
            groups.append([i])
            rows, weight = size, n_bytes
    return groups


def check_inside(chunks: Chunks) -> None:
    """Refuse to send data along that a graph holds, once for every block."""
    inside = sum(_value(node).nbytes for node in chunks.graph.values() if isinstance(_value(node), np.ndarray))
    if inside > _MOST_INSIDE:
        raise ValueError(
            f"X is larger than the workers' memory, and its graph holds {inside / 2**20:.0f} MiB of arrays from this "
            "process. Write them to a file and read X from there (FileRows, Zarr, Parquet), so that each worker reads "
            "its own part, or give persist=True."
        )


def is_array(X: Any) -> bool:
    """Whether X is a dask array."""
    return _is_one_of(X, "dask.array", "Array")


def is_frame(X: Any) -> bool:
    """Whether X is a dask dataframe or series."""
    return _is_one_of(X, "dask.dataframe", "DataFrame", "Series")


def _is_one_of(X: Any, module: str, *names: str) -> bool:
    """By type: a delayed object has every attribute that it is asked for. What is not loaded, X is not of."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(X, tuple(getattr(loaded, name) for name in names))


def lies_on_workers(X: Any) -> bool:
    """Whether some of X is on the workers of a cluster already."""
    return is_collection(X) and "distributed" in sys.modules and bool(sys.modules["distributed"].futures_of(X))


def check_reachable(X: Any, name: str) -> None:
    """Without a client, refuse what only a cluster can give."""
    if lies_on_workers(X):
        raise ValueError(
            f"{name} lies on the workers of a cluster, and there is no current client to reach them by. Make it "
            "current, with client.as_current(), or give client= to as_blocks; if it was closed, make a new one and "
            f"persist {name} anew."
        )


def check_kind(X: Any, name: str = "X", wanted: str = "a dask array with two dimensions or a dask dataframe") -> None:
    """Refuse delayed objects and bags, whose shape is not known."""
    if not is_array(X) and not is_frame(X):
        raise TypeError(
            f"{name} must be {wanted}, got {type(X).__name__}. "
            "dask.array.from_delayed turns delayed chunks into an array."
        )


def check_frame(X: Any) -> None:
    """Refuse columns that are not numbers, by name."""
    if X.ndim != 2:
        raise ValueError("X must be a dataframe, got a series. Select columns with a list of names.")
    others = [f"{name!r} ({kind})" for name, kind in X.dtypes.items() if getattr(kind, "kind", "O") not in "fiub"]
    if others:
        raise TypeError(
            f"Every column of X must hold numbers, got {', '.join(others)}. Drop these columns, or encode them, "
            "for example with dask.dataframe.get_dummies."
        )


def _cut_rows(X: Any, room: Room) -> Any:
    """Cut chunks that are too large for a block, or too few for the threads; sources are then read in smaller parts."""
    if any(map(math.isnan, X.chunks[0])) or scipy.sparse.issparse(X._meta):
        return X
    row = max(X.shape[1] * np.dtype(float_type([X.dtype])).itemsize, _BESIDE_ROW)
    most_bytes = room.block_bytes
    if X.numblocks[0] < room.n_threads:
        most_bytes = min(most_bytes, room.wanted_bytes(row * X.shape[0]))
    most = max(1, most_bytes // row)
    return X.rechunk({0: tuple(_cut(X.chunks[0], most))}) if max(X.chunks[0]) > 2 * most else X


def _cut(sizes: Sequence[int], most: int) -> Iterator[int]:
    for size in sizes:
        n_parts = max(1, math.ceil(size / most))
        yield from (size // n_parts + (i < size % n_parts) for i in range(n_parts))


def _as_array(chunks: Chunks) -> Any:
    """Labels as an array whose chunks have the sizes that were found.

    From the chunks themselves: a dataframe may be divided otherwise before its graph is optimised than after.
    """
    da = require("dask.array", "dask", "for dask arrays")
    part = require("dask", "dask", "for dask collections").delayed(label_values, pure=True)
    delayed = zip(chunks.delayed(range(len(chunks.keys))), chunks.sizes, strict=True)
    # The type is that of the chunks in the end, whatever is said here.
    return da.concatenate([da.from_delayed(part(chunk), (size,), dtype=object) for chunk, size in delayed])


def _check_length(n_rows: int, n_labels: int) -> None:
    if n_rows != n_labels:
        raise ValueError(f"y must have one label for each row of X: X has {n_rows} rows, y has {n_labels} labels.")


def _value(node: Any) -> Any:
    """What a node of a graph holds, where it is data."""
    return getattr(node, "value", node)
