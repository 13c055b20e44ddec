"""Blocks in this process: NumPy arrays, tensors on a device, or parts of a file that are read when they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce as fold
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from taufpl._types import Matrix, Vector
from taufpl.operators._formats import operator_on
from taufpl.operators._operator import PassCount, Rows
from taufpl.operators._threads import n_threads
from taufpl.operators.remote._arrays import ArrayBlock, ArrayRows, SparseTorchRows, is_sparse_tensor
from taufpl.operators.remote._blocks import (
    N_QUANTILES,
    Block,
    Blocks,
    Change,
    ChangeAndReduction,
    Deferred,
    Reduction,
    Selected,
    State,
    Sums,
    Terms,
    add_up,
)

Index = NDArray[np.intp]

# Entries that are worked on at a time: a few vectors of this length fit the second-level cache.
_CHUNK_ENTRIES = 1 << 14


def stack_rows(parts: Sequence[Any]) -> Any:
    """Rows below each other: an array, or a CSR matrix where some are sparse."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


class NumpyBlock(Block):
    """Rows whose vectors are NumPy arrays."""

    xp = np

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sys.getsizeof(self.rows)

    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> NumpySelected:
        if not len(terms[0][1]):
            return NumpySelected(np.empty(0, np.intp), np.empty(0))
        parts = (slice(start, start + _CHUNK_ENTRIES) for start in range(0, len(terms[0][1]), _CHUNK_ENTRIES))
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


def as_rows(X: Any) -> Rows:
    """The rows of an array, by its type: a new format has its line here."""
    if isinstance(X, Rows):
        return X
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return operator_on(X)
    return SparseTorchRows(X) if is_sparse_tensor(X) else ArrayRows(X)


def as_block(X: Any) -> Block:
    """The block of an array, by its type; a callable without arguments is called whenever its rows are needed.

    Examples
    --------
    >>> import numpy as np
    >>> as_block(np.eye(3)).dot(np.ones(3))
    array([1., 1., 1.])
    """
    if isinstance(X, Block):
        return X
    if callable(X):
        # Loaded once at first, to learn the number of rows and their library.
        first = as_block(X())
        return first.on(LazyRows(X, first.shape, exact=first.exact))
    rows = as_rows(X)
    return ArrayBlock(rows, rows.library) if isinstance(rows, ArrayRows) else NumpyBlock(rows)


def _of_loaded(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **options: getattr(self.loaded, name)(*arguments, **options)


class LazyRows(Rows):
    """Rows that are loaded for a task that multiplies with them, and for no longer.

    Most rounds of a solver look at the state alone, and then nothing is read. `load` gives the same rows every time.
    """

    def __init__(self, load: Callable[[], Any], shape: tuple[int, int], *, exact: bool = True) -> None:
        self.load, self.shape, self.exact = load, shape, exact
        self._loaded: Rows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def loaded(self) -> Rows:
        """The rows, read unless they are held."""
        if self._loaded is None:
            rows = as_rows(self.load())
            if rows.shape != self.shape:
                raise ValueError(
                    f"A block of rows must be the same each time it is read: it had shape {self.shape}, and now has "
                    f"{rows.shape}. Was its file written to?"
                )
            self._loaded = rows
        return self._loaded

    def forget(self) -> None:
        """Let go of the rows."""
        self._loaded = None

    # No method needs more than the rows.
    dot, add, moments, squares, take = map(_of_loaded, ("dot", "add", "moments", "squares", "take"))


class LocalBlocks(Blocks):
    """Blocks in this process, worked on by a few threads.

    Parameters
    ----------
    arrays : sequence
        Arrays of one width: NumPy, SciPy, array API; or callables without arguments that read such an array.
    states : sequence of mappings
        One a block.
    workers : int, default=None
        Blocks that are worked on at a time; None takes the number of cores, one for blocks on a device.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = LocalBlocks([np.eye(2), np.ones((3, 2))], [{}, {}])
    >>> blocks.reduce(lambda block, state: (block.shape[0],))
    (5,)
    """

    def __init__(self, arrays: Sequence[Any], states: Sequence[State], workers: int | None = None) -> None:
        self._blocks = [as_block(array) for array in arrays]
        if not self._blocks or len(self._blocks) != len(states):
            raise ValueError(f"there must be a state for every block, got {len(self._blocks)} and {len(states)}.")
        widths = {block.shape[1] for block in self._blocks}
        if len(widths) > 1:
            raise ValueError(f"all blocks must have the same number of features, got {sorted(widths)}.")
        self._states: list[State] = list(states)
        self.shape = (sum(block.shape[0] for block in self._blocks), widths.pop())
        self.n_rounds = 0
        self.passes = PassCount(1)
        on_device = any(isinstance(block.rows, ArrayRows) for block in self._blocks)
        self.in_one_place = on_device and len(self._blocks) == 1
        wanted = (1 if on_device else n_threads()) if workers is None else workers
        self._workers = min(wanted, len(self._blocks))
        self._pool: ThreadPoolExecutor | None = None

    def reduce(self, task: Reduction) -> Sums:
        return fold(add_up, self.gather(task))

    def gather(self, task: Callable[[Block, State], Any]) -> list[Any]:
        self.n_rounds += 1
        return self._run(task)

    def change(self, task: Change) -> None:
        self.n_rounds += 1
        self._states = self._run(task)

    def change_and_reduce(self, task: ChangeAndReduction) -> Sums:
        results = self.gather(task)
        self._states = [state for state, _ in results]
        return fold(add_up, (sums for _, sums in results))

    def fork(self, task: Change) -> Self:
        made = type(self)(self._blocks, self._run(task), self._workers)
        made.passes = self.passes
        return made

    def release(self) -> None:
        self._states = [{} for _ in self._blocks]
        for block in self._blocks:
            block.scratch.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _run(self, task: Callable[[Block, State], Any]) -> list[Any]:
        def call(block: Block, state: State) -> Any:
            try:
                return task(block, state)
            finally:
                if isinstance(block.rows, LazyRows):
                    block.rows.forget()

        if self._workers == 1:
            return [call(block, state) for block, state in zip(self._blocks, self._states, strict=True)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, "taufpl-block")
        return list(self._pool.map(call, self._blocks, self._states))
