"""The block solver on a cluster: the optimum of the solver for rows in memory, whatever happens to workers."""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd
from scipy import sparse

from block_tasks import Whole
from dask_cases import await_two_workers, client_of, tasks_left
from solver_cases import judge, make_data, make_problem
from taufpl.estimators import SolverChoice, solve_ranking
from taufpl.estimators.remote import BlockTable
from taufpl.operators import as_blocks
from taufpl.operators.remote import Entries, divide, order_statistic
from taufpl.problem.remote import BlockRankingProblem
from taufpl.solvers import Newton

K, REG, TOL = 12, 0.02, 1e-6


@pytest.fixture(scope="module")
def client(cluster):
    with client_of(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def data():
    return make_data(m=150, n=900, d=6, shift=4.0, seed=3)


def block_problem(blocks):
    table = BlockTable.of(blocks)
    return BlockRankingProblem(blocks, table.n_positive, table.n_negative, K, REG)


def fitted(X, y, callback=None, **options):
    """A result with its pair, taken from the blocks, and what it moved."""
    with as_blocks(X, y, block_bytes=1, **options) as blocks:
        divide(blocks, 1)
        result = Newton(tol=TOL).solve(block_problem(blocks), callback=callback)
        states = [state for _, state in blocks.gather(Whole())]
        beta = np.concatenate([state["beta"][state["is_negative"]] for state in states])
        alpha = np.concatenate([state["alpha"] for state in states])
        scores = np.concatenate([state["scores"] for state in states])
        return SimpleNamespace(result=result, coef=result.coef, alpha=alpha, beta=beta, scores=scores)


def assert_optimal(X, y, found):
    primal, dual, violation = judge(X, y, K, REG, found)
    assert violation <= 1e-10
    assert found.result.converged
    assert (primal - dual) / primal <= 1.01 * TOL
    reference = Newton(tol=1e-9).solve(make_problem(X, y, K, REG))
    assert primal == pytest.approx(reference.primal, rel=1.01 * TOL)
    assert primal < 0.7  # w = 0 has 1


def frame(X):
    return dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=4)


def csr_chunks(X):
    return da.from_array(X, chunks=(300, 6)).map_blocks(sparse.csr_matrix, dtype=float)


def dense(X):
    return da.from_array(X, chunks=(270, 6))


@pytest.mark.parametrize(
    ("collection", "persist"),
    [
        (dense, True),
        pytest.param(frame, False, marks=pytest.mark.slow),
        pytest.param(dense, False, marks=pytest.mark.slow),
        pytest.param(csr_chunks, True, marks=pytest.mark.slow),
    ],
)
def test_the_optimum_is_that_of_rows_in_memory(client, data, collection, persist):
    X, y = data
    assert_optimal(X, y, fitted(collection(X), y, persist=persist))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed by a signal")
def test_a_worker_killed_in_the_middle_changes_nothing(client, data):
    X, y = data
    rows = dense(X)
    undisturbed = fitted(rows, y).result
    killed = []

    def kill_one(record):
        if len(killed) < 1 and record.n_passes > undisturbed.n_passes / 3:
            address, pid = min(client.run(os.getpid).items())
            os.kill(pid, signal.SIGKILL)
            killed.append(address)

    found = fitted(rows, y, kill_one)
    assert killed
    assert_optimal(X, y, found)
    assert found.result.primal == pytest.approx(undisturbed.primal, rel=TOL)
    await_two_workers(client)


def test_a_callback_that_raises_ends_the_fit_and_frees_the_workers(client, data):
    X, y = data

    def give_up(record):
        raise TimeoutError("long enough")

    with pytest.raises(TimeoutError, match="long enough"):
        fitted(dense(X), y, give_up)
    assert tasks_left(client) == []
    assert all(count == 0 for count in client.run(lambda dask_worker: len(dask_worker.data)).values())


@pytest.mark.slow
def test_folds_are_problems_of_their_own(client, data):
    X, y = data
    with as_blocks(dense(X), y, block_bytes=1) as blocks:
        divide(blocks, 1)

        def solve(train, held_out):
            states = [state for _, state in train.blocks.gather(Whole())]
            rows = np.concatenate([state["is_positive"] | state["is_negative"] for state in states])
            with train.problem(K, REG) as problem:
                return rows, solve_ranking(problem, SolverChoice(tol=TOL)).result.primal

        with BlockTable.of(blocks).folds(3, seed=0) as parts:
            for rows, primal in parts.map(solve):
                assert rows.sum() == 2 * len(y) / 3
                reference = Newton(tol=1e-9).solve(make_problem(X[rows], y[rows], K, REG))
                assert primal == pytest.approx(reference.primal, rel=1.01 * TOL)


def test_the_threshold_is_an_order_statistic_of_what_lies_in_the_blocks(client, data):
    X, y = data
    with as_blocks(dense(X), y, block_bytes=1) as blocks:
        divide(blocks, 1)
        problem = block_problem(blocks)
        result = Newton(tol=TOL).solve(problem)
        problem.rescore(result.coef)
        rank = problem.n_negative - K + 1
        threshold = order_statistic(blocks, Entries("scores", among="is_negative"), rank)
    scores = X[y < 0] @ result.coef
    assert threshold == pytest.approx(np.sort(scores)[rank - 1], rel=1e-12)


def test_nothing_is_left_on_the_cluster(client):
    assert tasks_left(client) == []
