"""A cluster of two processes, and the same rows as every kind of dask collection."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from scipy import sparse

N_FEATURES = 5


MEMORY = 2**30  # bytes of each worker


def two_workers():
    """A cluster of two workers with a process each; `cluster` of conftest.py is the one of the run."""
    # A worker that is not back by then is given up, and its place stays empty: after 15 seconds by default, and a busy
    # machine takes longer for its imports.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "5 minutes"})
    settings = {"processes": True, "n_workers": 2, "threads_per_worker": 1, "memory_limit": MEMORY}
    return LocalCluster(**settings, dashboard_address=":0")


@contextmanager
def client_of(cluster):
    """A client with both workers at hand, the current one until it is closed."""
    with Client(cluster) as client:
        await_two_workers(client)
        yield client


def await_two_workers(client):
    """Wait until whoever was killed has been replaced, as nannies do."""
    for attempt in range(600):
        if len(client.run(os.getpid, on_error="ignore")) == 2:
            return
        time.sleep(0.1)
        if attempt == 300:
            client.restart(wait_for_workers=False)
    raise TimeoutError(f"two workers were expected, got {sorted(client.nthreads())}")


def tasks_left(client):
    """Tasks of which the scheduler still knows, once there has been time to forget."""
    tasks = client.cluster.scheduler.tasks
    for _ in range(100):
        if not tasks:
            break
        time.sleep(0.05)
    return sorted(map(str, tasks))


def rows_and_labels(n_rows=60, seed=0):
    """Numbers whose sums are exact in any order, so that engines can be compared to the last bit."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, size=(n_rows, N_FEATURES)) / 4.0
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, (rng.random(n_rows) < 0.3).astype(int)


def dense(X):
    return da.from_array(X, chunks=((7, 13, 1, len(X) - 21), N_FEATURES))


def columns_cut(X):
    return da.from_array(X, chunks=(16, 2))


def single_precision(X):
    return dense(X.astype(np.float32))


def whole_numbers(X):
    return da.from_array((4 * X).astype(np.int16), chunks=(20, N_FEATURES)) / np.float32(4)


def csr_chunks(X):
    return dense(X).map_blocks(sparse.csr_matrix, dtype=float)


def unknown_sizes(X):
    return dd.from_pandas(pd.DataFrame(X), npartitions=4).to_dask_array()


def frame(X):
    columns = {f"x{i}": X[:, i] for i in range(N_FEATURES)}
    columns["x1"] = columns["x1"].astype(np.float32)
    return dd.from_pandas(pd.DataFrame(columns), npartitions=3)


COLLECTIONS = [dense, columns_cut, single_precision, whole_numbers, csr_chunks, unknown_sizes, frame]
