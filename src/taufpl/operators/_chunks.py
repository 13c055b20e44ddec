"""Work on chunks of rows, in threads: what NumPy and BLAS do with one chunk fits in a core's cache."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from taufpl.operators._threads import n_threads, one_blas_thread

Answer = TypeVar("Answer")

# Most bytes that the results of a chunk take: about the second level of a cache.
_BYTES = 1 << 20
# Fewer rows at a time would leave BLAS too little to do, however long they are.
_FEWEST_ROWS = 64

_of_thread = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Array of any content, in memory that this thread keeps under a name for the next chunk.

    Memory that is given back and taken again for each chunk costs more, page by page, than what is computed in it. Its
    size is that of a chunk; helper threads take it with them when they end.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = getattr(_of_thread, name, None)
    if buffer is None or buffer.size < n_bytes:
        buffer = np.empty(n_bytes, np.uint8)
        setattr(_of_thread, name, buffer)
    return buffer[:n_bytes].view(dtype).reshape(shape)


def chunks(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices of all rows, so that what is computed of each takes about a megabyte."""
    step = max(_FEWEST_ROWS, _BYTES // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def map_chunks(work: Callable[[slice], Answer], n_rows: int, row_bytes: int) -> list[Answer]:
    """Call ``work`` on slices of the rows, in threads; BLAS uses one thread in each.

    The slices do not depend on the number of threads, and so do not the results. Of errors, the first is raised.

    Parameters
    ----------
    work : callable
        Gets a slice, does what belongs to its rows.
    n_rows : int
    row_bytes : int
        Bytes that are computed for each row: they decide how long a slice is.

    Returns
    -------
    list
        The answers, in the order of the rows.
    """
    parts = list(chunks(n_rows, row_bytes))
    n_workers = min(n_threads(), len(parts))
    with one_blas_thread:
        if n_workers <= 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(n_workers) as pool:
            return list(pool.map(work, parts))
