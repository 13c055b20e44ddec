"""Work on chunks of rows, in threads: what NumPy and BLAS do with one chunk fits in a core's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from taufpl.operators._blas import one_blas_thread
from taufpl.operators._threads import n_threads

Answer = TypeVar("Answer")

# A chunk's results take at most so many bytes: about the second level of a cache.
_BYTES = 1 << 20
# Fewer rows at a time would leave BLAS too little to do, however long they are.
_FEWEST_ROWS = 64


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
