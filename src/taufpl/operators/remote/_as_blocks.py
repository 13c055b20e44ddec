"""Blocks of remote rows, from whatever holds them."""

from __future__ import annotations

import sys
from typing import Any

from taufpl._extras import require
from taufpl.operators._array_api import is_collection
from taufpl.operators._threads import n_threads
from taufpl.operators.remote._blocks import Blocks
from taufpl.operators.remote._local import LocalBlocks
from taufpl.operators.remote._scores import as_floats
from taufpl.operators.remote.dask import _source as source
from taufpl.operators.remote.dask._chunks import first_state, lazy_block
from taufpl.operators.remote.dask._place import place_on_workers, workers_room
from taufpl.operators.remote.dask._shared import settle_shared

# Without a cluster every thread holds one block at a time, of a sixteenth of this: 128 MiB.
_MEMORY_A_THREAD = 1 << 31


def header(X: Any) -> Any:
    """Something without rows that has the columns of X, and their names where there are any."""
    if is_collection(X):
        source.check_kind(X)
    return X._meta if source.is_frame(X) else X


def as_blocks(
    X: Any, y: Any = None, *, persist: bool | None = None, block_bytes: int | None = None, client: Any = None
) -> Blocks:
    """Blocks of a dask array or dataframe, on the current cluster or in this process; or of an array on a device.

    Every block begins with a state of up to three entries: ``number`` and ``start``, its place among the blocks and its
    first row, and ``labels`` where y is given.

    Parameters
    ----------
    X : dask array of shape (n, d), dask dataframe, or array of any library
        Rows of a collection may be cut anywhere; chunks are NumPy arrays or SciPy sparse matrices. Columns of a
        dataframe must hold numbers. An array becomes one block, where it is.
    y : dask array or series, or array-like, of shape (n,), optional
        Labels. Where their chunks differ from those of X, they are cut like X.
    persist : bool, optional
        Whether rows are kept in the workers' memory, or read from their source in every pass over them. None keeps
        them if they take, with all that a solver needs beside them, at most half of that memory. Without a cluster
        they are always read.
    block_bytes : int, optional
        Chunks are joined until a block has this size. None takes two blocks a thread, of 8 MiB at least and, if they
        are read in every pass, a sixteenth of the memory of a thread at most.
    client : distributed.Client, optional
        None takes the current one, if there is any.

    Returns
    -------
    Blocks
        To be closed at the end, by ``close()`` or ``with``: workers then forget rows and states.

    Examples
    --------
    >>> import dask.array as da
    >>> from taufpl.operators import as_blocks
    >>> with as_blocks(da.ones((1000, 3), chunks=(300, 3))) as blocks:
    ...     blocks.gather(lambda block, state: (state["start"], block.shape))
    [(0, (1000, 3))]
    """
    if not is_collection(X):
        state = {"number": 0, "start": 0} if y is None else {"number": 0, "start": 0, "labels": y}
        return LocalBlocks([as_floats(X)], [state])
    client = current_client() if client is None else client
    if client is not None:
        # Sizes that are not known are computed where the rows are.
        with client.as_current():
            return _blocks(X, y, persist, block_bytes, client)
    source.check_reachable(X, "X")
    source.check_reachable(y, "y")
    return _blocks(X, y, persist, block_bytes, None)


def _blocks(X: Any, y: Any, persist: bool | None, block_bytes: int | None, client: Any) -> Blocks:
    room = source.Room(n_threads(), _MEMORY_A_THREAD * n_threads()) if client is None else workers_room(client)
    chunks, n_features = source.read_rows(X, room)
    n_rows = sum(chunks.sizes)
    if n_rows == 0 or n_features == 0:
        raise ValueError(f"X must have at least one row and one column, got shape {(n_rows, n_features)}.")
    labels = None if y is None else source.read_labels(y, chunks.sizes)
    keep = client is not None and (chunks.has_futures or (room.holds(chunks) if persist is None else persist))
    groups = source.plan_blocks(chunks, room, keep=keep, block_bytes=block_bytes)
    if not keep:
        chunks = settle_shared(chunks, groups)
        labels = settle_shared(labels, groups) if isinstance(labels, source.Chunks) and client is None else labels
    plan = source.BlockPlan(chunks, labels, groups, n_features)
    return _in_this_process(plan) if client is None else place_on_workers(client, plan, keep)


def current_client() -> Any:
    """The client of the current cluster, if there is one; distributed is loaded wherever there is."""
    if "distributed" not in sys.modules:
        return None
    try:
        client = require("distributed", "dask", "for a cluster").get_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise TypeError(
            "A fit waits for its results, but the current Dask client is asynchronous. Make one that is not."
        )
    return client


def _in_this_process(plan: source.BlockPlan) -> LocalBlocks:
    """Blocks that are computed one at a time by each thread; never the whole array."""
    blocks = [lazy_block(plan.rows.loader(group), shape) for group, shape in zip(plan.groups, plan.shapes, strict=True)]
    states = [first_state(*plan.place(i), plan.load_labels(i)) for i in range(len(blocks))]
    return LocalBlocks(blocks, states)
