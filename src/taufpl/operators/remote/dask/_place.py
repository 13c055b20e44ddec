"""The placement of blocks: on which worker, in its memory or read for every task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any
from uuid import uuid4

import numpy as np

from taufpl._extras import require
from taufpl.operators.remote.dask._blocks import DaskBlocks
from taufpl.operators.remote.dask._chunks import held_state, hold_rows, lazy_block
from taufpl.operators.remote.dask._source import BlockPlan, Chunks, Room, check_inside


def place_on_workers(client: Any, plan: BlockPlan, keep: bool) -> DaskBlocks:
    """Hand out blocks, to be kept in memory or read for every task, and the states that they begin with."""
    # What is on the workers already stays where it is.
    homes = [None] * len(plan.groups) if plan.rows.has_futures else share_out(client.nthreads(), plan.shapes)
    if keep:
        blocks = _each(homes, lambda numbers, where: _kept(client, plan, numbers, where))
    else:
        check_inside(plan.rows)
        blocks = _each(homes, lambda numbers, where: _read(client, plan, numbers, where))
    states = _each(homes, lambda numbers, where: _states(client, plan, numbers, where))
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


def _each(homes: Sequence[str | None], submit: Callable[[list[int], dict[str, Any]], list[Any]]) -> list[Any]:
    """Futures of all blocks, in order, from one message for each worker."""
    futures: list[Any] = []
    for home, group in groupby(range(len(homes)), key=homes.__getitem__):
        # Others may step in when the worker is lost.
        where = {} if home is None else {"workers": [home], "allow_other_workers": True}
        futures += submit(list(group), where)
    return futures


def _kept(client: Any, plan: BlockPlan, numbers: list[int], where: dict[str, Any]) -> list[Any]:
    dask = require("dask", "dask", "for dask collections")
    make, name = dask.delayed(hold_rows, pure=False), uuid4().hex
    parts = [
        make(plan.rows.delayed(plan.groups[i]), plan.shapes[i], dask_key_name=f"taufpl-rows-{name}-{i}")
        for i in numbers
    ]
    return list(client.compute(parts, **where))


def _read(client: Any, plan: BlockPlan, numbers: list[int], where: dict[str, Any]) -> list[Any]:
    loaders = [plan.rows.loader(plan.groups[i]) for i in numbers]
    shapes = [plan.shapes[i] for i in numbers]
    return list(client.map(lazy_block, loaders, shapes, pure=False, key="taufpl-rows", **where))


def _states(client: Any, plan: BlockPlan, numbers: list[int], where: dict[str, Any]) -> list[Any]:
    places = [plan.place(i) for i in numbers]
    if not isinstance(plan.labels, Chunks):
        labels = [plan.load_labels(i) for i in numbers]
        return list(client.map(held_state, places, labels, pure=False, key="taufpl-labels", **where))
    dask = require("dask", "dask", "for dask collections")
    make, name = dask.delayed(held_state, pure=False), uuid4().hex
    parts = [
        make(place, plan.labels.delayed(plan.groups[i]), dask_key_name=f"taufpl-labels-{name}-{i}")
        for i, place in zip(numbers, places, strict=True)
    ]
    return list(client.compute(parts, **where))
