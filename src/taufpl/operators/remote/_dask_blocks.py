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
  (`_dask_chunks.py`), and all tasks of a round are one message.
"""

from __future__ import annotations

import math
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import chain, groupby
from operator import itemgetter
from threading import Event, Thread
from traceback import clear_frames
from typing import Any, Self
from uuid import uuid4

import numpy as np

from taufpl._extras import require
from taufpl.exceptions import LostWorkerError
from taufpl.operators._operator import PassCount
from taufpl.operators.remote._blocks import Block, Blocks, Change, ChangeAndReduction, Reduction, State, Sums, add_up
from taufpl.operators.remote._dask_chunks import (
    BlockPlan,
    Chunks,
    Room,
    check_inside,
    held_state,
    hold_rows,
    lazy_block,
)
from taufpl.operators.remote._local import LazyRows

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

# Seconds between two looks at the tasks of a training, and looks after which it is given up.
_PAUSE, _LOOKS = 1.0, 5
# Seconds within which the scheduler notices that a worker is gone.
_NOTICE = 3.0

Part = Callable[[Block, State], tuple[Any, ...]]


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
    rows = block.rows
    if isinstance(rows, LazyRows):
        # It may run beside others: what it loads goes with it, and so does its scratch. What is noted there keeps
        # vectors of the state alive, which a cluster that is short of memory believes to have written to disk.
        block = block.on(LazyRows(rows.load, rows.shape, exact=rows.exact))
    return pickle.loads(packed)(block, held[0])


def _change(packed: bytes, block: Block, held: _Held) -> _Held:
    return _run(packed, block, held), None


def _add_results(results: Sequence[Sums]) -> Sums:
    return reduce(add_up, results)


def place_on_workers(client: Any, plan: BlockPlan, keep: bool) -> DaskBlocks:
    """Hand out blocks, to be kept in memory or read for every task, and the states that they begin with."""
    # What is on the workers already stays where it is.
    homes = [None] * len(plan.groups) if plan.rows.has_futures else share_out(client.nthreads(), plan.shapes)
    if keep:
        chunks = [plan.rows.delayed(group) for group in plan.groups]
        blocks = _futures(client, homes, hold_rows, "taufpl-rows", chunks, plan.shapes, delayed=True)
    else:
        check_inside(plan.rows)
        loaders = [plan.rows.loader(group) for group in plan.groups]
        blocks = _futures(client, homes, lazy_block, "taufpl-rows", loaders, plan.shapes, delayed=False)
    places = [plan.place(i) for i in range(len(plan.groups))]
    chunked = plan.labels if isinstance(plan.labels, Chunks) else None
    labels = [chunked.delayed(group) if chunked else plan.load_labels(i) for i, group in enumerate(plan.groups)]
    states = _futures(client, homes, held_state, "taufpl-labels", places, labels, delayed=chunked is not None)
    return DaskBlocks(client, blocks, states, (sum(plan.rows.sizes), plan.n_features))


def workers_room(client: Any) -> Room:
    """What all workers have together; waits for one if there is none yet."""
    if not client.nthreads():
        client.wait_for_workers(1)
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
    except TypeError:  # versions that tell of all workers anyway
        workers = client.scheduler_info()["workers"]
    memory = sum(worker["memory_limit"] or math.inf for worker in workers.values())
    return Room(sum(worker["nthreads"] for worker in workers.values()), memory)


def share_out(n_threads: dict[str, int], shapes: Sequence[tuple[int, int]]) -> list[str | None]:
    """A worker for each block: neighbours together, rows in proportion to threads.

    Left to itself the scheduler gives each next block to the first free worker, and a worker that came up a second
    earlier ends with most of the rows, in every round of the fit.
    """
    rows = np.array([n_rows for n_rows, _ in shapes], dtype=float)
    middles = (np.cumsum(rows) - rows / 2) / max(1.0, rows.sum())
    ends = np.cumsum(list(n_threads.values())) / sum(n_threads.values())
    workers = list(n_threads)
    return [workers[i] for i in np.minimum(np.searchsorted(ends, middles), len(workers) - 1)]


def _futures(
    client: Any, homes: Sequence[str | None], function: Callable[..., Any], key: str, *arguments: Any, delayed: bool
) -> list[Any]:
    """Futures of a function of each block's arguments, in order, from one message for each worker.

    If `delayed`, some of the arguments are delayed objects, and the function is called with what these come to.
    """
    make = require("dask", "dask", "for dask collections").delayed(function, pure=False)
    name, futures = f"{key}-{uuid4().hex}", []
    for home, group in groupby(range(len(homes)), key=homes.__getitem__):
        # Others may step in when the worker is lost.
        where = {} if home is None else {"workers": [home], "allow_other_workers": True}
        numbers = list(group)
        columns = [[column[i] for i in numbers] for column in arguments]
        if delayed:
            parts = [make(*row, dask_key_name=f"{name}-{i}") for i, *row in zip(numbers, *columns, strict=True)]
            futures += client.compute(parts, **where)
        else:
            futures += client.map(function, *columns, pure=False, key=key, **where)
    return futures


@contextmanager
def as_collections(
    blocks: DaskBlocks, task: Part, sizes: Sequence[int], columns: Sequence[str] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Collections of what a task gives for each block, on the workers of the blocks; let go of at the end.

    Parameters
    ----------
    blocks : DaskBlocks
    task : callable
        Gives rows, and two vectors with an entry for each of them.
    sizes : sequence of int
        How many rows the task gives for each block; blocks without any are left out.
    columns : sequence of str, optional
        Where the rows are dataframes, their columns.
    """
    arrays = require("dask.array", "dask", "for dask collections")
    kept = [i for i, size in enumerate(sizes) if size]

    def as_array(futures: list[Any], *width: int) -> Any:
        shapes = [(sizes[i], *width) for i in kept]
        chunks = zip(futures, shapes, strict=True)
        return arrays.concatenate([arrays.from_delayed(part, shape, dtype=float) for part, shape in chunks])

    with blocks.computed(task) as computed:
        computed = [computed[i] for i in kept]
        parts = [blocks.client.map(itemgetter(i), computed, pure=False, key="taufpl-part") for i in range(3)]
        try:
            if columns is None:
                rows = as_array(parts[0], blocks.shape[1])
            else:
                frames = require("dask.dataframe", "dask", "for dask collections")
                rows = frames.from_delayed(parts[0], meta=dict.fromkeys(columns, "f8"), verify_meta=False)
            yield rows, as_array(parts[1]), as_array(parts[2])
        finally:
            for part in chain(*parts):
                part.release()


@contextmanager
def watched(client: Any, name: str, tasks: str, awaited: str) -> Iterator[None]:
    """Raise a LostWorkerError where a worker is lost and the classifier inside fails for it, or would wait for ever.

    `tasks` is how the keys of the tasks begin in which the classifier learns, one on each worker; `awaited` how those
    of the results begin that it waits for.
    """
    training, done = _Training(client, tasks, awaited), Event()
    watch = Thread(target=training.cancel_when_stuck, args=(done,), name="taufpl-watch", daemon=True)
    watch.start()
    try:
        yield
    except Exception as error:
        lost = training.lost()
        if not lost:
            raise
        # The traceback would keep tasks, and with them rows on the workers.
        clear_frames(error.__traceback__)
        training.cancel()
        raise LostWorkerError(
            f"{name} was learning on {len(training.workers)} workers and lost {', '.join(sorted(lost))}. Its library "
            "cannot go on without a worker that it began with. Fit again: the rows are read anew from their source. "
            "Where workers end for want of memory, raise memory_limit, take more workers, or float32 rows. Workers "
            "that still wait for the lost one are freed by client.restart(). The library said: "
            f"{_first_line(error)}"
        ) from error
    finally:
        done.set()
        watch.join()


class _Training:
    """The tasks in which a classifier learns, and the workers that were there when it began."""

    def __init__(self, client: Any, tasks: str, awaited: str) -> None:
        self.client, self.tasks, self.awaited = client, tasks, awaited
        self.workers, self._others = set(client.nthreads()), set(client.futures)

    def cancel_when_stuck(self, done: Event) -> None:
        """Cancel the tasks where they cannot end, so that waiting for them ends.

        There is one of them for each worker that has rows. Where its worker is lost, a task waits for ever, or goes to
        a worker that is busy with another one, which waits for the lost worker.
        """
        looks = 0
        while looks < _LOOKS:
            if done.wait(_PAUSE):
                return
            pending = {key for key, state in self._keys(self.tasks).items() if state == "pending"}
            assigned = self.client.processing()
            n_busy = sum(not pending.isdisjoint(keys) for keys in assigned.values())
            looks = looks + 1 if n_busy < len(pending) and self.workers.difference(assigned) else 0
        self.cancel()

    def cancel(self) -> None:
        """Cancel what is waited for. Nothing depends on it: Dask fails to cancel what others need."""
        future = require("distributed", "dask", "for a cluster").Future
        self.client.cancel([future(key, self.client) for key in self._keys(self.awaited)])

    def lost(self) -> set[str]:
        """Workers that are no longer there; the scheduler may notice a moment later than the library."""
        end = time.monotonic() + _NOTICE
        while not (lost := self.workers.difference(self.client.nthreads())) and time.monotonic() < end:
            time.sleep(0.1)
        return lost

    def _keys(self, prefix: str) -> dict[Any, str]:
        """Keys that are new since the beginning, and the states of their futures."""
        known = list(self.client.futures.items())
        return {key: each.status for key, each in known if key not in self._others and str(key).startswith(prefix)}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
