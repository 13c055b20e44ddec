"""Blocks in this process: arrays in memory, tensors on a device, or parts of a file that are read when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce as fold
from typing import Any, Self

import numpy as np
from scipy import sparse

from taufpl.operators._base import Operator
from taufpl.operators._threads import n_threads
from taufpl.operators.remote._arrays import ArrayBlock
from taufpl.operators.remote._blocks import (
    Block,
    Blocks,
    Change,
    ChangeAndReduction,
    Deferred,
    Matrix,
    Reduction,
    Selected,
    State,
    Sums,
    Terms,
    Vector,
    add_up,
)
from taufpl.operators.remote._numpy import NumpyBlock
from taufpl.operators.remote._sparse_torch import SparseTorchBlock, is_sparse_tensor


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
    if isinstance(X, np.ndarray | Operator) or sparse.issparse(X):
        return NumpyBlock(X)
    if is_sparse_tensor(X):
        return SparseTorchBlock(X)
    return LoadedBlock(X) if callable(X) else ArrayBlock(X)


class LoadedBlock(Block):
    """Rows that are read anew for every task that needs them, so that they never lie in memory for long.

    Parameters
    ----------
    load : callable
        Returns the rows as an array: the same ones every time. It is called once at first, to learn their number.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._rows: Block | None = None
        array = load()
        first = as_block(array)
        self.xp, self.shape, self.exact, self.scratch = first.xp, first.shape, first.exact, {}
        # What needs no rows is done by a block without any.
        self._shell = as_block(array[:0, :])

    @property
    def rows(self) -> Block:
        """The block that was read."""
        if self._rows is None:
            self._rows = as_block(self._load())
        return self._rows

    def forget(self) -> None:
        """Let go of the rows."""
        self._rows = None

    def dot(self, coef: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for every row of the block or for some."""
        return self.rows.dot(coef, rows, exact=exact)

    def add(self, values: Any, rows: Any | None) -> Vector:
        """Sum of values_i x_i over some rows."""
        return self.rows.add(values, rows) if values.shape[0] else np.zeros(self.shape[1])

    def moments(self, rows: Any, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over some rows."""
        if rows.shape[0]:
            return self.rows.moments(rows, shift)
        d = self.shape[1]
        return np.zeros((d, d)), np.zeros(d)

    def add_deferred(self, values: Any, rows: Any | None) -> Deferred:
        """What `add` tells, together with other things."""
        return self.rows.add_deferred(values, rows) if values.shape[0] else Deferred.known(np.zeros(self.shape[1]))

    def moments_deferred(self, rows: Any, shift: Vector) -> Deferred:
        """What `moments` tells, together with other things."""
        return self.rows.moments_deferred(rows, shift) if rows.shape[0] else Deferred.known(self.moments(rows, shift))

    def combined(self, offset: float, terms: Terms) -> Any:
        """Offset + sum of factor * vector; needs no rows."""
        return self._shell.combined(offset, terms)

    def squares(self, rows: Any) -> Vector:
        """Sum of squares of every column over some rows."""
        return self.rows.squares(rows)

    def norms(self, rows: Any | None = None) -> Any:
        """Squared norm of every row of the block or of some."""
        return self.rows.norms(rows)

    def take(self, rows: Any) -> Any:
        """Some rows on the host."""
        return self.rows.take(rows)

    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> Selected:
        """Entries of a linear combination that lie above a floor; needs no rows."""
        return self._shell.select(floor, offset, terms, among)

    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array of the block's library."""
        return self._shell.asarray(values)

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Arrays and scalars as NumPy arrays."""
        return self._shell.to_host(*values)


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
        self.n_passes = 0.0
        on_device = any(isinstance(block, ArrayBlock) for block in self._blocks)
        self.in_one_place = on_device and len(self._blocks) == 1
        wanted = (1 if on_device else n_threads()) if workers is None else workers
        self._workers = min(wanted, len(self._blocks))
        self._pool: ThreadPoolExecutor | None = None

    def reduce(self, task: Reduction) -> Sums:
        """Run a task on every block and add up, entry by entry, what it returns."""
        return fold(add_up, self.gather(task))

    def gather(self, task: Callable[[Block, State], Any]) -> list[Any]:
        """What a task returns for each block, in order."""
        self.n_rounds += 1
        return self._run(task)

    def change(self, task: Change) -> None:
        """Put what a task returns in the place of every block's state."""
        self.n_rounds += 1
        self._states = self._run(task)

    def change_and_reduce(self, task: ChangeAndReduction) -> Sums:
        """Both in one round."""
        results = self.gather(task)
        self._states = [state for state, _ in results]
        return fold(add_up, (sums for _, sums in results))

    def fork(self, task: Change) -> Self:
        """The same rows with states of their own, made by a task from the present ones."""
        return type(self)(self._blocks, self._run(task), self._workers)

    def release(self) -> None:
        """Let go of the states."""
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
                if isinstance(block, LoadedBlock):
                    block.forget()

        if self._workers == 1:
            return [call(block, state) for block, state in zip(self._blocks, self._states, strict=True)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, "taufpl-block")
        return list(self._pool.map(call, self._blocks, self._states))
