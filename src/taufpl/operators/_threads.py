"""Threads for the compiled products: one for each core, less where the environment says so.

A computation is cut into blocks with numbered tickets. The caller offers it to helper threads and starts on it
itself; each takes the next ticket until none is left. The caller never waits for a helper that has not begun, so
that a busy machine costs nothing (at OpenMP's barriers it costs a time slice of the scheduler a call).
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from threadpoolctl import OpenBLASController, ThreadpoolController

from taufpl._kernels import _tickets

# Stored values under which a product takes less time than waking a thread.
_WORTH_SHARING = 1 << 16

_Job = tuple[Callable[..., int], tuple[Any, ...]]


class _Team:
    """Helper threads, started when they are first needed, that call what is put on their queue."""

    def __init__(self) -> None:
        self.limit = _configured()
        self.n_workers = 0  # threads that work side by side and share the others
        self._n_helpers = 0
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._starting = threading.Lock()

    def offer(self, kernel: Callable[..., int], arguments: tuple[Any, ...]) -> None:
        """Let every idle helper join in."""
        n_wanted = n_threads() - 1
        if self._n_helpers < n_wanted:
            self._start(n_wanted)
        # What helpers have not come to yet must not pile up: each job keeps its arrays alive.
        for _ in range(min(n_wanted, self._n_helpers) - self._jobs.qsize()):
            self._jobs.put((kernel, arguments))

    def _start(self, n_wanted: int) -> None:
        with self._starting:
            while self._n_helpers < n_wanted:
                threading.Thread(target=self._help, name="taufpl-helper", daemon=True).start()
                self._n_helpers += 1

    def _help(self) -> None:
        while True:
            kernel, arguments = self._jobs.get()
            kernel(*arguments)
            del kernel, arguments  # or they would live until the next job


def _configured() -> int:
    """OMP_NUM_THREADS, which joblib sets in its workers, if it is less than the number of cores."""
    try:
        wanted = int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0])
    except ValueError:
        wanted = cpu_count()
    return max(1, min(wanted, cpu_count()))


_team = _Team()
_counting = threading.Lock()


def _forget_helpers() -> None:
    """Start anew in a forked process: threads do not survive a fork, and a lock that one held would stay closed."""
    global _team, _counting
    _counting = threading.Lock()
    limit = _team.limit
    _team = _Team()
    _team.limit = limit


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def n_threads() -> int:
    """Threads that a large product uses."""
    return max(1, _team.limit // max(1, _team.n_workers))


@contextmanager
def thread_limit(limit: int) -> Iterator[None]:
    """Use at most `limit` threads within a ``with`` block; for tests and benchmarks."""
    before, _team.limit = _team.limit, limit
    try:
        yield
    finally:
        _team.limit = before


def share(kernel: Callable[..., int], *arguments: Any, work: float) -> None:
    """Call ``kernel(*arguments, tickets)`` on all threads if there is work enough, and wait for its blocks."""
    tickets = np.zeros(2, np.int64)
    arguments = (*arguments, tickets)
    if work >= _WORTH_SHARING and n_threads() > 1:
        _team.offer(kernel, arguments)
    _tickets.wait(tickets, kernel(*arguments))


class SharedContext:
    """A context of the whole process that its threads enter side by side: the first opens it, the last closes it."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0
        self._opened: AbstractContextManager[Any] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Begin anew in a forked process, in which no other thread will leave the context or give back the lock."""
        self._lock, self._inside, self._opened = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._opened = self._make()
                self._opened.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                assert self._opened is not None
                self._opened.__exit__(None, None, None)
                self._opened = None


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Looks through all loaded libraries: once is enough."""
    return ThreadpoolController()


@contextmanager
def _limited_blas() -> Iterator[None]:
    """One thread for BLAS, until whichever thread comes to the end."""
    _let_any_thread_set_limits()
    limit = _blas().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        _let_any_thread_set_limits()
        limit.restore_original_limits()
        _let_any_thread_set_limits()


def _let_any_thread_set_limits() -> None:
    """From 3.8 on, threadpoolctl does nothing for other threads than the one that has set a limit of BLAS first."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


# Waiting threads of BLAS spin. Between the calls that a Newton step makes, on matrices of a few hundred rows, they take
# a core from threads that have work, and on a busy machine a thread that is waited for may be put aside: seconds pass
# where milliseconds would do. The number of threads belongs to the process.
one_blas_thread = SharedContext(_limited_blas)


def ignoring(category: type[Warning]) -> SharedContext:
    """A context without a kind of warning. Filters belong to the process: threads must not restore each other's."""
    return SharedContext(partial(_ignoring, category))


@contextmanager
def _ignoring(category: type[Warning]) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield


@contextmanager
def worker() -> Iterator[None]:
    """One of several threads with work of their own: it gets its share of the threads of products, and BLAS has one.

    The last that still works gets them all.
    """
    with _counting:
        _team.n_workers += 1
    try:
        with one_blas_thread:
            yield
    finally:
        with _counting:
            _team.n_workers -= 1


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
