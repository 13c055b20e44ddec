"""Work on chunks of rows, in threads: what NumPy and BLAS do with one chunk fits in a core's cache."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
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


def map_chunks(work: Callable[[slice], Answer], n_rows: int, row_bytes: int) -> list[Answer]:
    """Answers of ``work`` for slices of the rows, in order, computed in threads; BLAS uses one thread in each.

    Slices are so long that what is computed of each, `row_bytes` for a row, takes about a megabyte. They do not depend
    on the number of threads, and so do not the results. Of errors, the first is raised.
    """
    step = max(_FEWEST_ROWS, _BYTES // max(1, row_bytes))
    parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    n_workers = min(n_threads(), len(parts))
    with one_blas_thread:
        if n_workers <= 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(n_workers) as pool:
            return list(pool.map(work, parts))
