"""Chunks of dask collections: checks, sizes, and how they are joined to blocks.

What makes rows and states of chunks runs on the workers, or in this process where there are none. Results that many
blocks need, such as the mean of all rows, are computed once, not anew by every block in every pass; rows of a file are
read when they are asked for and not kept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse

from taufpl._extras import require
from taufpl._types import Array
from taufpl.operators._array_api import is_collection
from taufpl.operators.remote._blocks import State
from taufpl.operators.remote._local import LazyRows, NumpyBlock, as_rows, stack_rows

# A task costs the scheduler about half a millisecond, whatever it does, and a round has one for every block: blocks of
# fewer bytes than this would be computed faster than they are handed out.
_LEAST_BYTES = 1 << 23
# Every thread gets two blocks, so that none waits long for another; with more threads, one: the scheduler is slow.
_MANY_THREADS = 64
# What a solver keeps beside a row: some vectors with an entry a row, in double precision, old and new.
_BESIDE_ROW = 64
# Bytes of data inside a graph that are bearable: they travel with the part of the graph that every block takes along.
_MOST_INSIDE = 1 << 24
# A result that comes from this many sources, or from half of all, is a sum over rows and not a row's neighbour.
_MANY_SOURCES = 32
# Bytes of all results together: every block takes those along that it needs.
_MOST_BYTES = 1 << 22
_SEVERAL = -1

_Needs = Mapping[Any, Iterable[Any]]


@dataclass(frozen=True)
class Loader:
    """Some consecutive chunks, and the part of a graph that they come from, computed in the thread that calls it."""

    graph: dict[Any, Any]
    keys: list[Any]

    def __call__(self) -> Any:
        """Compute the chunks, and join them to one array of rows."""
        dask = require("dask", "dask", "for dask collections")
        return join_rows(dask.get(self.graph, self.keys))


def join_rows(chunks: Sequence[Any]) -> Any:
    """Chunks below each other, as a float array or a CSR matrix."""
    return stack_rows([_rows(chunk) for chunk in chunks])


def _rows(chunk: Any) -> Any:
    if hasattr(chunk, "dtypes"):
        # Missing values become NaN.
        chunk = np.asarray(chunk.to_numpy(dtype=float_type(chunk.dtypes), na_value=np.nan))
    elif scipy.sparse.issparse(chunk):
        chunk = chunk.tocsr()
    else:
        chunk = np.asarray(chunk)
    return chunk.astype(float_type([chunk.dtype]), copy=False)


def float_type(types: Sequence[Any]) -> type[np.floating[Any]]:
    """float32 where nothing is lost by it, else float64."""
    names = {str(getattr(kind, "numpy_dtype", kind)) for kind in types}
    return np.float32 if names <= {"float32", "float16"} else np.float64


def hold_rows(chunks: Sequence[Any], shape: tuple[int, int]) -> NumpyBlock:
    """A block that stays in a worker's memory."""
    rows = join_rows(chunks)
    if rows.shape != shape:
        raise ValueError(
            f"The chunks of X are not what X says they are: {shape} was expected, {rows.shape} was computed. "
            "Does a function of map_blocks drop rows? compute_chunk_sizes() counts them."
        )
    return NumpyBlock(as_rows(rows))


def lazy_block(loader: Loader, shape: tuple[int, int]) -> NumpyBlock:
    """A block that is read anew for every task that needs it."""
    return NumpyBlock(LazyRows(loader, shape))


def first_state(number: int, start: int, n_rows: int, chunks: Sequence[Any] | None) -> State:
    """What is known of a block before anything is computed: its place among the others, and its labels."""
    state: dict[str, Any] = {"number": number, "start": start}
    if chunks is not None:
        labels = np.concatenate([label_values(chunk) for chunk in chunks])
        if len(labels) != n_rows:
            raise ValueError(
                f"y must have one label for each row of X: from row {start} on, X has {n_rows} rows and y has "
                f"{len(labels)} labels. Cut them in the same places, with rechunk or repartition."
            )
        state["labels"] = labels
    return state


def held_state(place: tuple[int, int, int], chunks: Sequence[Any] | None) -> tuple[State, None]:
    """The same as workers hold it, beside sums that there are none of yet."""
    return first_state(*place, chunks), None


def label_values(chunk: Any) -> Array:
    """One label a row."""
    values = np.asarray(chunk)
    return values[:, 0] if values.ndim == 2 else values


def measure(chunk: Any) -> tuple[int, int]:
    """Rows of a chunk, and its bytes."""
    if scipy.sparse.issparse(chunk):
        stored = chunk.tocsr()
        return chunk.shape[0], stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes
    if hasattr(chunk, "dtypes") and chunk.ndim == 2:
        return len(chunk), len(chunk) * chunk.shape[1] * np.dtype(float_type(chunk.dtypes)).itemsize
    return len(chunk), np.asarray(chunk).nbytes


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


def settle_shared(chunks: Chunks, groups: Sequence[Sequence[int]]) -> Chunks:
    """The same chunks, with small results that several blocks need put in as numbers.

    Rows that are read in every pass are computed block by block, each from its own part of the graph. That part holds
    every row, if X is standardised lazily, say, and each pass would read all rows once for every block. `groups` are
    the chunks of each block.
    """
    if len(groups) < 2:
        return chunks
    found = shared_results(chunks, groups)
    if not found:
        return chunks
    dask = require("dask", "dask", "for dask collections")
    make = require("dask.delayed", "dask", "for dask collections").Delayed
    take = dask.delayed(_if_small, pure=False)
    values = dask.compute(*(take(make(key, chunks.graph), _MOST_BYTES // len(found)) for key in found))
    settled = {key: _node(key, value) for key, value in zip(found, values, strict=True) if value is not None}
    return replace(chunks, graph={**chunks.graph, **settled})


def shared_results(chunks: Chunks, groups: Sequence[Sequence[int]]) -> list[Any]:
    """Keys that several blocks need and that many sources go into; nothing above such a key is looked at."""
    graph, needs = require("dask.optimization", "dask", "for dask collections").cull(chunks.graph, chunks.keys)
    needs = {key: [each for each in needs[key] if _is_task(graph[each])] for key in graph}
    enough = max(2, min(_MANY_SOURCES, sum(_is_task(graph[key]) and not needs[key] for key in graph) // 2))
    owner = {chunks.keys[i]: number for number, group in enumerate(groups) for i in group}
    found = []
    # From the chunks to their sources.
    for key in reversed(require("dask.core", "dask", "for dask collections").toposort(graph, dependencies=needs)):
        if key not in owner:
            continue
        if owner[key] == _SEVERAL and _has_sources(key, needs, enough):
            found.append(key)
            continue
        for each in needs[key]:
            owner[each] = owner[key] if owner.get(each, owner[key]) == owner[key] else _SEVERAL
    return found


def _has_sources(key: Any, needs: _Needs, enough: int) -> bool:
    """Whether a result comes from at least `enough` sources."""
    seen, waiting, n_sources = {key}, [key], 0
    while waiting and n_sources < enough:
        below = list(needs[waiting.pop()])
        n_sources += not below
        new = set(below) - seen
        seen |= new
        waiting += new
    return n_sources >= enough


def _is_task(node: Any) -> bool:
    """Whether a node is computed, and not data that the graph holds."""
    if hasattr(node, "dependencies"):
        return not hasattr(node, "value")
    return isinstance(node, tuple | list | str)


def _if_small(value: Any, most_bytes: int) -> Any:
    """A result, or None if it is too large to be sent about."""
    stored = value.data if scipy.sparse.issparse(value) else value
    n_bytes = getattr(stored, "nbytes", None)
    return value if (sys.getsizeof(value) if n_bytes is None else n_bytes) <= most_bytes else None


def _node(key: Any, value: Any) -> Any:
    """A value as a node of a graph, in the form that this version of Dask has for it."""
    forms = sys.modules.get("dask._task_spec")
    return value if forms is None else forms.DataNode(key, value)


@dataclass(frozen=True)
class FileRows:
    """A large array in a file, for ``dask.array.from_array``: rows are read, never mapped.

    A mapped file (``np.memmap``) looks as good, but ``from_array`` copies it into memory, a map that is sent to another
    process arrives as the whole array, and a cluster counts the pages that were touched as memory of the worker, pauses
    it and at last ends it. This object is a path and a shape: it travels as such, and each slice is a read of just its
    bytes.

    Attributes
    ----------
    path : str
        The file, by a name under which every worker finds it.
    shape : tuple of int
        Rows, and columns if there are two dimensions.
    dtype : numpy.dtype
    offset : int
        Where in the file the array begins, in bytes.
    by_columns : bool
        Whether columns are contiguous, not rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from taufpl.operators import FileRows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "X.npy")
    ...     np.save(path, np.arange(12.0).reshape(6, 2))
    ...     rows = FileRows.from_npy(path)
    ...     print(rows.shape, rows[2:4].tolist())
    (6, 2) [[4.0, 5.0], [6.0, 7.0]]
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0
    by_columns: bool = False

    @classmethod
    def from_npy(cls, path: str | PathLike[str]) -> Self:
        """Rows of a file that ``numpy.save`` wrote."""
        return cls.from_memmap(np.load(path, mmap_mode="r"))

    @classmethod
    def from_memmap(cls, mapped: np.memmap[Any, Any]) -> Self:
        """Rows of the file behind a map.

        Raises
        ------
        ValueError
            If the map has no file, has more than two dimensions, or is a part of another one.
        """
        whole = mapped.flags.c_contiguous or mapped.flags.f_contiguous
        # A slice of a map still names the file and the offset of the map that it is a slice of.
        if mapped.filename is None or mapped.ndim not in (1, 2) or not whole or isinstance(mapped.base, np.memmap):
            raise ValueError(
                "A mapped array must be the whole of a file, with one or two dimensions, "
                f"got shape {mapped.shape} of {mapped.filename}. Open the file anew, and slice the dask array instead."
            )
        path = fspath(Path(mapped.filename).resolve())
        return cls(path, mapped.shape, mapped.dtype, mapped.offset, by_columns=not mapped.flags.c_contiguous)

    @property
    def ndim(self) -> int:
        """One or two."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Array:
        """Some rows, of some columns, by what NumPy takes: the rows between the first and the last of them are read."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > self.ndim or any(part is None or part is Ellipsis for part in index):
            raise TypeError(
                f"Rows of a file are asked for by at most {self.ndim} slices, integers or arrays of integers, one a "
                f"dimension; got {index!r}. Read the rows, and index what comes back."
            )
        wanted, *others = index or (slice(None),)
        start, stop, inside = _span(wanted, self.shape[0])
        count, width = max(0, stop - start), math.prod(self.shape[1:])
        if self.by_columns:
            rows = np.empty((count, width), self.dtype, order="F")
            for column in range(width):
                rows[:, column] = self._read(column * self.shape[0] + start, count)
        else:
            rows = self._read(start * width, count * width).reshape(-1, *self.shape[1:])
        return np.asarray(rows[(inside, *others)])

    def _read(self, start: int, count: int) -> Array:
        if count == 0:
            return np.empty(0, self.dtype)
        values = np.fromfile(self.path, self.dtype, count, offset=self.offset + start * self.dtype.itemsize)
        if len(values) < count:
            raise OSError(f"{self.path} ended {count - len(values)} values before the {count} that were to be read.")
        return values


def _span(wanted: Any, n_rows: int) -> tuple[int, int, Any]:
    """First wanted row, the row after the last wanted one, and the index of the wanted rows among those between."""
    if isinstance(wanted, slice):
        places = range(n_rows)[wanted]
        if not places:
            return 0, 0, slice(None)
        first, last = sorted((places[0], places[-1]))
        return first, last + 1, slice(None, None, places.step)
    if isinstance(wanted, Integral):
        place = range(n_rows)[int(wanted)]
        return place, place + 1, 0
    rows = np.asarray(wanted)
    rows = np.flatnonzero(rows) if rows.dtype == bool and rows.shape == (n_rows,) else rows
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(f"Rows of a file are slices, integers or arrays of integers, got {wanted!r}.")
    if not rows.size:
        return 0, 0, slice(None)
    rows = np.where(rows < 0, rows + n_rows, rows)
    if rows.min() < 0 or rows.max() >= n_rows:
        raise IndexError(f"The file has {n_rows} rows, got row numbers from {rows.min()} to {rows.max()}.")
    return int(rows.min()), int(rows.max()) + 1, rows - rows.min()
