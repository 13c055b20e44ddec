"""Blocks on the workers of a Dask cluster.

What Dask is told:

- Blocks and states are futures. A task runs where they are, and only what it returns leaves the worker.
- Everything has a lineage: futures are made from the graph of the data, never scattered from the client's memory. What
  a lost worker held is computed again by others, from the source and by the same tasks, and gives the same numbers.
- A changed state depends on the one before, so that the scheduler remembers all changes until `release`: a few
  kilobytes for each, and the time of a repetition if a worker is lost, which is at most the time that the lost blocks
  have taken so far. Reductions, by far the most tasks, leave nothing behind. Cutting the chain would need a second copy
  of every state.
- A task costs about half a millisecond of the scheduler's time. So chunks are joined to large blocks
  (`_source`), and all tasks of a round are one message.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Any, Self
from uuid import uuid4

from taufpl._extras import require
from taufpl.operators._base import PassCount
from taufpl.operators.remote._backends import with_own_rows
from taufpl.operators.remote._blocks import Block, Blocks, Change, ChangeAndReduction, Reduction, State, Sums, add_up

# Results that are added up by one task, on a worker.
_FAN_IN = 8
# Results, and bytes of all of them, up to which the client adds up itself: one hop less.
_FEW_RESULTS, _FEW_BYTES = 32, 1 << 20
# Above this size a task travels once, as a future that workers hand on, not once a block.
_LARGE_TASK = 1 << 16

_LOST = (
    "What a lost worker held is computed again from the source of the data. That fails if the data were put on the "
    "workers by client.scatter, which keeps no source; and it is given up when a block has ended several workers, "
    "mostly for want of memory: raise memory_limit, or give smaller chunks."
)

_Held = tuple[State, Sums | None]


@dataclass
class Traffic:
    """Bytes between client and workers: of tasks on their way out, and of results on their way back."""

    sent: int = 0
    received: int = 0
    largest_received: int = 0


class DaskBlocks(Blocks):
    """Blocks and their states on the workers of a cluster, made by :func:`taufpl.operators.as_blocks`.

    `blocks` are futures of a block each, `states` futures of pairs: a state, and the sums that came with it or None.
    `traffic` is shared with what `fork` makes.
    """

    def __init__(self, client: Any, blocks: list[Any], states: list[Any], shape: tuple[int, int]) -> None:
        self.shape = shape
        self.n_rounds = 0
        self.passes = PassCount(1)
        self.traffic = Traffic()
        self.client = client
        self._blocks = blocks
        self._states = states
        self._spent: list[Any] = []
        # What results of this kind of task weighed the last time.
        self._weights: dict[type, int] = {}

    @property
    def n_blocks(self) -> int:
        return len(self._blocks)

    def reduce(self, task: Reduction) -> Sums:
        with self._held(waits=True) as held:
            held += self._map(_run, task, held)
            return self._sum(task, held[-self.n_blocks :], held)

    def gather(self, task: Callable[[Block, State], Any]) -> list[Any]:
        with self._held(waits=True) as held:
            held += self._map(_run, task, held)
            return self._receive(held[-self.n_blocks :])

    def change(self, task: Change) -> None:
        """Put what a task returns in the place of every block's state. Does not wait."""
        with self._held(waits=False) as held:
            self._replace(self._map(_change, task, held))

    def change_and_reduce(self, task: ChangeAndReduction) -> Sums:
        with self._held(waits=True) as held:
            self._replace(self._map(_run, task, held))
            # The sums alone go on: a task that took a pair as input would fetch its state too.
            held += self.client.map(itemgetter(1), self._states, pure=False, key="taufpl-sums")
            return self._sum(task, held[-self.n_blocks :], held)

    def fork(self, task: Change) -> Self:
        """The same rows with states of their own, made by a task from the present ones. Does not wait."""
        with self._held(waits=False) as held:
            made = type(self)(self.client, self._blocks, self._map(_change, task, held), self.shape)
        made.traffic, made.passes = self.traffic, self.passes
        return made

    @contextmanager
    def computed(self, task: Callable[[Block, State], Any]) -> Iterator[list[Any]]:
        """Futures of what a task returns for each block, computed and left on its worker; let go of at the end."""
        distributed = require("distributed", "dask", "for a cluster")
        with self._held(waits=True) as held:
            futures = self._map(_run, task, held)
        try:
            for future in distributed.wait(futures).done:
                if future.status != "finished":
                    future.result()
            yield futures
        except (distributed.KilledWorker, distributed.CancelledError) as error:
            error.add_note(_LOST)
            raise
        finally:
            _release(futures)

    def release(self) -> None:
        futures = self._states + self._spent
        self._states, self._spent = [], []
        _release(futures)

    def close(self) -> None:
        """Let go of the states, and of the rows: those of every fork too."""
        self.release()
        _release(self._blocks)
        self._blocks.clear()

    def _map(self, function: Callable[..., Any], task: Any, held: list[Any]) -> list[Any]:
        """Futures of a task on every block."""
        packed = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
        self.traffic.sent += len(packed) * self.n_blocks
        message: Any = packed
        if len(packed) > _LARGE_TASK:
            # As the result of a task it can be had again when its worker is lost; scattered bytes could not.
            with warnings.catch_warnings():
                # Models of other libraries may have many megabytes: they go out once for all blocks.
                warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                message = self.client.submit(bytes, packed, pure=False, key=f"taufpl-task-{uuid4().hex}")
            held.append(message)
        messages = [message] * self.n_blocks
        name = f"taufpl-{type(task).__name__}"
        futures = self.client.map(function, messages, self._blocks, self._states, pure=False, key=name)
        # Messages go out ten milliseconds apart: a release just before the tasks would hold them up.
        _release(self._spent)
        self._spent.clear()
        return list(futures)

    def _sum(self, task: Any, futures: list[Any], held: list[Any]) -> Sums:
        """Add up results: on the workers, unless they are few and known to be small."""
        weight = self._weights.get(type(task))
        few = len(futures) <= _FEW_RESULTS and weight is not None and weight * len(futures) <= _FEW_BYTES
        while len(futures) > 1 and not few:
            groups = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
            futures = self.client.map(_add_results, groups, pure=False, key="taufpl-add")
            held += futures
        total = _add_results(self._receive(futures))
        self._weights[type(task)] = _weight(total)
        return total

    def _receive(self, futures: list[Any]) -> list[Any]:
        """Wait for results, and fetch them."""
        distributed = require("distributed", "dask", "for a cluster")
        try:
            results = self.client.gather(futures)
        except (distributed.KilledWorker, distributed.CancelledError) as error:
            error.add_note(_LOST)
            raise
        weights = [_weight(result) for result in results]
        self.traffic.received += sum(weights)
        self.traffic.largest_received = max(self.traffic.largest_received, *weights)
        return list(results)

    def _replace(self, states: list[Any]) -> None:
        before, self._states = self._states, states
        _release(before)  # at once: two states of every block are twice the memory

    @contextmanager
    def _held(self, *, waits: bool) -> Iterator[list[Any]]:
        """Futures that are let go at the end, come what may: a traceback would keep them, and their memory, alive."""
        self.n_rounds += waits
        if not self._states:
            raise RuntimeError("These blocks have been released, and have no states any more.")
        held: list[Any] = []
        try:
            yield held
        except BaseException:
            _release(held)
            raise
        self._spent += held


def _release(futures: Sequence[Any]) -> None:
    for future in futures:
        future.release()


def _weight(result: Any) -> int:
    return int(require("dask.sizeof", "dask", "for a cluster").sizeof(result))


# What follows runs on the workers.


def _run(packed: bytes, block: Block, held: _Held) -> Any:
    return pickle.loads(packed)(with_own_rows(block), held[0])


def _change(packed: bytes, block: Block, held: _Held) -> _Held:
    return _run(packed, block, held), None


def _add_results(results: Sequence[Sums]) -> Sums:
    return reduce(add_up, results)
