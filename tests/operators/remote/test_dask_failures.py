"""What goes wrong on a cluster: lost workers, lost data, interrupted fits."""

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
from distributed import KilledWorker

from block_tasks import Begin, Kill, KillOnce, Move, Slow, Total
from dask_cases import await_two_workers, client_of, rows_and_labels, tasks_left
from taufpl.operators import as_blocks

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed by a signal")


@pytest.fixture(scope="module")
def cluster_client(cluster):
    with client_of(cluster) as made:
        yield made


@pytest.fixture
def client(cluster_client):
    """Two workers, whatever became of those before."""
    await_two_workers(cluster_client)
    return cluster_client


def chunked(X, n_chunks=6):
    return da.from_array(X, chunks=(len(X) // n_chunks, X.shape[1]))


def pids(client):
    return client.run(os.getpid)


def holders(client, futures):
    """Addresses of the workers that hold futures."""
    return {address for addresses in client.who_has(futures).values() for address in addresses}


@pytest.mark.parametrize("persist", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_worker_that_dies_in_a_round_changes_nothing(client, tmp_path, persist):
    X, y = rows_and_labels()
    with as_blocks(chunked(X), y, persist=persist, block_bytes=1) as blocks:
        blocks.change_and_reduce(Begin(np.ones(5)))
        for step in range(5):
            blocks.change(Move(0.5, float(step)))
        scores = X.sum(axis=1)
        for step in range(5):
            scores = 0.5 * scores + step
        assert blocks.reduce(KillOnce(str(tmp_path / "killed"))) == (len(X), scores.sum())
        assert (tmp_path / "killed").exists()
        assert blocks.reduce(Total())[1] == scores.sum()


def test_states_of_a_dead_worker_are_computed_again(client):
    X, y = rows_and_labels()
    with as_blocks(chunked(X), y, block_bytes=1) as blocks:
        blocks.change_and_reduce(Begin(np.ones(5)))
        scores = X.sum(axis=1)
        # A chain of changes, all of which the lost blocks go through again.
        for step in range(60):
            blocks.change(Move(0.5 if step % 2 else 2.0, 1.0))
            scores = (0.5 if step % 2 else 2.0) * scores + 1.0
        assert blocks.reduce(Total())[1] == scores.sum()
        victim = min(holders(client, blocks._states))
        os.kill(pids(client)[victim], signal.SIGKILL)
        count, total, weighted = blocks.reduce(Total())
        assert (count, total) == (len(X), scores.sum())
        np.testing.assert_array_equal(weighted, scores @ X)


@pytest.mark.slow
def test_a_block_that_ends_every_worker_is_given_up(client):
    scheduler = client.cluster.scheduler
    before, scheduler.allowed_failures = scheduler.allowed_failures, 0
    X, y = rows_and_labels()
    try:
        with as_blocks(chunked(X), y, block_bytes=1) as blocks:
            # Dask may blame the task that killed the workers, or one whose result they held.
            with pytest.raises(KilledWorker) as caught:
                blocks.reduce(Kill())
            assert "memory_limit" in "".join(caught.value.__notes__)
    finally:
        scheduler.allowed_failures = before
    assert tasks_left(client) == []


@pytest.mark.slow
def test_data_without_a_source_are_lost_with_their_worker(client):
    X, y = rows_and_labels()
    workers = list(client.nthreads())
    parts = [client.scatter(part, workers=[workers[i % 2]]) for i, part in enumerate(np.split(X, 2))]
    rows = da.concatenate([da.from_delayed(part, (30, 5), dtype=float) for part in parts])
    with as_blocks(rows, y, block_bytes=1) as blocks:
        blocks.change_and_reduce(Begin(np.ones(5)))
        os.kill(pids(client)[workers[0]], signal.SIGKILL)
        with pytest.raises(BaseException, match=r".") as caught:
            blocks.reduce(Total())
        assert "client.scatter" in "".join(caught.value.__notes__)
    for part in parts:
        part.release()  # the traceback of what was caught refers to them for longer than this test takes


def test_an_interrupted_fit_lets_go_of_everything(client, tmp_path):
    X, y = rows_and_labels()

    def interrupt():
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def fit():
        with as_blocks(chunked(X), y, block_bytes=1) as blocks:
            blocks.change_and_reduce(Begin(np.ones(5)))
            fork = blocks.fork(Move(1.0, 1.0))
            helper.start()
            try:
                fork.reduce(Slow(str(tmp_path), 0.3))
            finally:
                fork.release()

    helper = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit()
    helper.join()
    assert len(list(tmp_path.iterdir())) < 6  # most tasks had not begun, and never do
    assert tasks_left(client) == []
    assert all(count == 0 for count in client.run(lambda dask_worker: len(dask_worker.data)).values())


def test_an_exception_between_rounds_lets_go_of_everything(client):
    X, y = rows_and_labels()

    def fit():
        with as_blocks(chunked(X), y, block_bytes=1) as blocks:
            blocks.change_and_reduce(Begin(np.ones(5)))
            raise StopIteration("by a callback")

    # The traceback is kept, and with it every local variable of the fit.
    with pytest.raises(StopIteration) as caught:
        fit()
    assert tasks_left(client) == []
    assert caught.value.__traceback__ is not None
