"""Batches that are worked on by threads, with results in the order of the batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

Batch = TypeVar("Batch")
Found = TypeVar("Found")


@contextmanager
def in_order(work: Callable[[Batch], Found], batches: Iterable[Batch], n_jobs: int) -> Iterator[Iterator[Found]]:
    """What `work` makes of each batch, `n_jobs` at a time; -1 stands for all cores.

    Threads, since trees and products leave the interpreter free, and no model has to travel. Batches are read as
    results are taken: beside those in work, one is held.
    """
    n_jobs = effective_n_jobs(n_jobs)
    if n_jobs == 1:
        yield map(work, batches)
        return
    pool = ThreadPoolExecutor(n_jobs, initializer=_alone)
    try:
        yield _results(pool, work, batches, n_jobs)
    finally:
        # Whoever is interrupted does not wait for the batches in work.
        pool.shutdown(wait=False, cancel_futures=True)


def _results(
    pool: ThreadPoolExecutor, work: Callable[[Batch], Found], batches: Iterable[Batch], n_jobs: int
) -> Iterator[Found]:
    waiting: deque[Future[Found]] = deque()
    for batch in batches:
        waiting.append(pool.submit(work, batch))
        if len(waiting) > n_jobs:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _alone() -> None:
    """Let a thread of the pool start no threads of OpenMP: each batch has one core."""
    threadpool_limits(1, user_api="openmp")
