"""Blocks in this process: arrays in memory, tensors on a device, or parts of a file that are read when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce as fold
from typing import Any, Self

from taufpl.operators._base import PassCount
from taufpl.operators._threads import n_threads
from taufpl.operators.remote._arrays import ArrayRows
from taufpl.operators.remote._backends import LazyRows, as_block
from taufpl.operators.remote._blocks import Block, Blocks, Change, ChangeAndReduction, Reduction, State, Sums, add_up


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
