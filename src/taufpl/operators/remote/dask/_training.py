"""Rows in blocks as collections that classifiers of other libraries learn from, and the loss of a worker meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from threading import Event, Thread
from traceback import clear_frames
from typing import Any

from taufpl._extras import require
from taufpl.exceptions import LostWorkerError
from taufpl.operators.remote._blocks import Block, State
from taufpl.operators.remote.dask._blocks import DaskBlocks

# Seconds between two looks at the tasks of a training, and looks after which it is given up.
_PAUSE, _LOOKS = 1.0, 5
# Seconds within which the scheduler notices that a worker is gone.
_NOTICE = 3.0

Part = Callable[[Block, State], tuple[Any, ...]]


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
