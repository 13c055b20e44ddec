"""Work on chunks of rows, in threads: what NumPy and BLAS do with one chunk fits in a core's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from taufpl.operators._blas import one_blas_thread
from taufpl.operators._threads import n_threads

# A chunk's results take at most so many bytes: about the second level of a cache.
_BYTES = 1 << 20
# Fewer rows at a time would leave BLAS too little to do, however long they are.
_FEWEST_ROWS = 64


def chunks(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices of all rows, so that what is computed of each takes about a megabyte."""
    step = max(_FEWEST_ROWS, _BYTES // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def for_each_chunk(work: Callable[[slice], Any], n_rows: int, row_bytes: int) -> None:
    """Call ``work`` on slices of the rows, in threads; BLAS uses one thread in each.

    The slices do not depend on the number of threads, and so do not the results. Of errors, the first is raised.

    Parameters
    ----------
    work : callable
        Gets a slice, writes what belongs to its rows.
    n_rows : int
    row_bytes : int
        Bytes that are computed for each row: they decide how long a slice is.
    """
    parts = list(chunks(n_rows, row_bytes))
    n_workers = min(n_threads(), len(parts))
    with one_blas_thread:
        if n_workers <= 1:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(n_workers) as pool:
            for done in [pool.submit(work, part) for part in parts]:
                done.result()
