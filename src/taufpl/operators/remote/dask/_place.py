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
