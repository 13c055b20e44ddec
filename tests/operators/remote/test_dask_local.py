"""Dask collections without a cluster: threads of this process, one chunk each at a time; and scores that wait."""

import numpy as np
import pytest

pytest.importorskip("dask.array")

import dask
import dask.array as da
import pandas as pd
from hypothesis import given, settings, strategies as st

from block_tasks import Begin, Move, Nothing, Total, Whole
from dask_cases import COLLECTIONS, csr_chunks, dense, frame, rows_and_labels, unknown_sizes
from taufpl import TauFPLRanker
from taufpl.operators import FileRows, as_blocks, as_operator, is_remote, lazy_labels, linear_scores
from taufpl.operators.remote import Entries, LocalBlocks, check_rows, divide, order_statistic


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_blocks_are_the_rows_in_order(collection):
    X, y = rows_and_labels()
    with as_blocks(collection(X), da.from_array(y, chunks=11), block_bytes=1) as blocks:
        assert isinstance(blocks, LocalBlocks)
        parts = blocks.gather(Whole())
        assert len(parts) >= 3
    np.testing.assert_array_equal(np.vstack([rows for rows, _ in parts]), X)
    np.testing.assert_array_equal(np.concatenate([state["labels"] for _, state in parts]), y)


def test_sums_and_changes():
    X, y = rows_and_labels()
    with as_blocks(dense(X), y, block_bytes=1) as blocks:
        blocks.change_and_reduce(Begin(np.ones(5)))
        blocks.change(Move(2.0, 1.0))
        count, total, weighted = blocks.reduce(Total())
        assert (count, total) == (len(X), (2.0 * X.sum(axis=1) + 1.0).sum())
        np.testing.assert_array_equal(weighted, (2.0 * X.sum(axis=1) + 1.0) @ X)


class CountedReads:
    """Rows that say how many were asked for."""

    ndim = 2

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.n_read = X, X.shape, X.dtype, []

    def __getitem__(self, index):
        self.n_read.append(len(self.X[index]))
        return self.X[index]


def test_rows_are_read_when_a_task_multiplies_and_never_all_at_once():
    X, y = rows_and_labels(n_rows=600)
    counted = CountedReads(X)
    with as_blocks(da.from_array(counted, chunks=(50, 5)), y, block_bytes=1) as blocks:
        counted.n_read.clear()
        blocks.reduce(Nothing())
        divide(blocks, 1)
        assert counted.n_read == []
        check_rows(blocks)
        assert counted.n_read == [50] * 12
        blocks.change_and_reduce(Begin(np.ones(5)))
        assert counted.n_read == [50] * 24


def test_whatever_dask_makes_of_an_index_a_file_is_read_by_it(tmp_path):
    X, _ = rows_and_labels(n_rows=600)
    X[:, 1] += 3.0 * (X[:, 0] > 0)
    np.save(tmp_path / "X.npy", X)
    rows = da.from_array(FileRows.from_npy(tmp_path / "X.npy"), chunks=(130, 5))
    cuts = [np.s_[::2], np.s_[3], np.s_[:, 0], np.s_[::-1, 1:4], np.s_[[5, 400, 7]], np.s_[-1, -1], np.s_[:, None, 2]]
    for cut in cuts:
        np.testing.assert_array_equal(rows[cut].compute(), X[cut])
    # The label is a column of the same file.
    y = (rows[:, 0] > 0).astype(int)
    lazy, memory = TauFPLRanker(0.1, 0.1).fit(rows[:, 1:], y), TauFPLRanker(0.1, 0.1).fit(X[:, 1:], X[:, 0] > 0)
    assert lazy.primal_objective_ == pytest.approx(memory.primal_objective_, rel=2e-4)


def test_what_all_blocks_need_is_computed_once():
    X, _ = rows_and_labels(n_rows=600)
    counted = CountedReads(X)
    rows = da.from_array(counted, chunks=(50, 5))
    centred = rows - rows.mean(axis=0)
    lazy = centred / centred.std(axis=0)
    y = (rows[:, 0] > rows[:, 0].mean()).astype(int)
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    with as_blocks(lazy, y, block_bytes=1) as blocks:
        # Means and deviations of X take one reading, the mean of a column one, and the labels one.
        assert sum(counted.n_read) <= 4 * 600
        counted.n_read.clear()
        parts = blocks.gather(Whole())
        assert counted.n_read == [50] * 12
    np.testing.assert_allclose(np.vstack([part for part, _ in parts]), expected, atol=1e-12)
    labels = np.concatenate([state["labels"] for _, state in parts])
    np.testing.assert_array_equal(labels, X[:, 0] > X[:, 0].mean())


def test_neighbours_are_computed_where_they_are_needed():
    """A chunk that two blocks need is no sum over rows: nothing is computed ahead."""
    X, _ = rows_and_labels(n_rows=600)
    counted = CountedReads(X)
    rows = da.from_array(counted, chunks=(50, 5))
    near = rows.map_overlap(lambda part: part + np.roll(part, 1, axis=0), depth=(2, 0), boundary="none")
    expected = near.compute()
    counted.n_read.clear()
    with as_blocks(near, block_bytes=1) as blocks:
        assert counted.n_read == []
        np.testing.assert_array_equal(np.vstack([part for part, _ in blocks.gather(Whole())]), expected)
    with as_blocks(da.cumsum(rows, axis=0), block_bytes=1) as blocks:
        np.testing.assert_array_equal(np.vstack([part for part, _ in blocks.gather(Whole())]), np.cumsum(X, axis=0))


@pytest.mark.parametrize(("n_features", "is_settled"), [(5, True), (600_000, False)])
def test_only_small_results_are_put_into_every_block(n_features, is_settled):
    counted = CountedReads(np.ones((4, n_features)))
    rows = da.from_array(counted, chunks=(1, n_features))
    with as_blocks(rows - rows.mean(axis=0) + 1.0, block_bytes=1) as blocks:
        counted.n_read.clear()
        assert blocks.change_and_reduce(Begin(np.ones(n_features))) == (4, 4 * n_features)
    # A block reads its own row alone, or all of them for their mean.
    assert sum(counted.n_read) == 4 if is_settled else sum(counted.n_read) >= 4 * 4


def test_a_source_that_changes_is_noticed():
    X, y = rows_and_labels()
    counted = CountedReads(X)
    with as_blocks(da.from_array(counted, chunks=(30, 5)), y, block_bytes=1) as blocks:
        counted.X = X[:40]
        with pytest.raises(ValueError, match="Was its file written to"):
            blocks.change_and_reduce(Begin(np.ones(5)))


@pytest.mark.parametrize("collection", [dense, frame])
def test_rows_on_a_cluster_without_a_client_are_refused(collection):
    distributed = pytest.importorskip("distributed")
    X, y = rows_and_labels()
    settings = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(**settings, set_as_default=False) as client:
        held, labels = client.persist(collection(X)), client.persist(da.from_array(y, chunks=20))
        with pytest.raises(ValueError, match=r"X lies on the workers .* no current client.*as_current"):
            as_blocks(held, y)
        with as_blocks(held, labels, client=client) as blocks:
            np.testing.assert_array_equal(np.vstack([rows for rows, _ in blocks.gather(Whole())]), X)
    with pytest.raises(ValueError, match=r"X lies on the workers .* persist X anew"):
        as_blocks(held, y)
    with pytest.raises(ValueError, match="y lies on the workers"):
        as_blocks(collection(X), labels)


def test_who_is_elsewhere():
    X, _ = rows_and_labels()
    assert is_remote(dense(X))
    assert is_remote(frame(X))
    assert not is_remote(X)
    assert not is_remote(as_operator(X))
    assert not is_remote(pd.DataFrame(X))
    strict = pytest.importorskip("array_api_strict")
    assert is_remote(strict.asarray(X))


def test_an_array_of_another_library_is_one_block():
    torch = pytest.importorskip("torch")
    X, y = rows_and_labels()
    with as_blocks(torch.asarray(X), y) as blocks:
        assert blocks.reduce(Nothing()) == (1,)
        assert blocks.shape == X.shape
        check_rows(blocks)
        divide(blocks, 1)
        (positive,) = blocks.gather(lambda block, state: block.to_host(state["positive"])[0])
        np.testing.assert_array_equal(positive, np.flatnonzero(y))
    X[7, 2] = np.inf
    with as_blocks(torch.asarray(X)) as blocks, pytest.raises(ValueError, match="in row 7"):
        check_rows(blocks)


@pytest.mark.parametrize("collection", [dense, csr_chunks, unknown_sizes, frame])
def test_scores_wait_until_they_are_asked_for(collection):
    X, _ = rows_and_labels()
    coef = np.arange(1.0, 6.0)
    scores = linear_scores(collection(X), coef, -0.25)
    labels = lazy_labels(scores, np.array(["ham", "spam"]))
    assert isinstance(scores, da.Array)
    assert isinstance(labels, da.Array)
    assert (scores.dtype, labels.dtype) == (np.float64, np.dtype("<U4"))
    np.testing.assert_array_equal(scores.compute(), X @ coef - 0.25)
    np.testing.assert_array_equal(labels.compute(), np.where(X @ coef - 0.25 > 0, "spam", "ham"))


def test_scoring_reads_chunk_by_chunk_and_checks_the_width():
    X, _ = rows_and_labels()
    counted = CountedReads(X)
    rows = da.from_array(counted, chunks=(20, 5))
    counted.n_read.clear()
    scores = linear_scores(rows, np.ones(5), 0.0)
    assert counted.n_read == []
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(scores[:15].compute(), X[:15].sum(axis=1))
    assert max(counted.n_read) <= 20
    assert len(counted.n_read) == 1
    with pytest.raises(ValueError, match="X has 5 features, but 4 are expected"):
        linear_scores(rows, np.ones(4), 0.0)


def vector_blocks(parts):
    """Vectors as the state of blocks whose rows do not matter."""
    rows = [np.zeros((len(part), 1)) for part in parts]
    return LocalBlocks(rows, [{"scores": part, "chosen": part > 0} for part in parts])


FAMILIES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n) ** 5,
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "all the same": lambda rng, n: np.full(n, 0.1),
    "mostly one value": lambda rng, n: np.where(rng.random(n) < 0.97, 1.5, rng.normal(size=n)),
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
    "with infinities": lambda rng, n: np.where(
        rng.random(n) < 0.2, np.inf * rng.choice([-1, 1], n), rng.normal(size=n)
    ),
    "one part in a million": lambda rng, n: 1.0 + 1e-15 * rng.integers(0, 50, n),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cuts", [[], [1000], [0, 30_000, 30_001, 59_000]])
def test_order_statistics_are_exact(family, cuts):
    values = FAMILIES[family](np.random.default_rng(1), 60_000)
    blocks = vector_blocks(np.split(values, cuts))
    expected = np.sort(values)
    ranks = [1, 2, 599, 30_000, 59_401, 59_999, 60_000]
    assert [order_statistic(blocks, Entries("scores"), rank) for rank in ranks] == expected[
        np.array(ranks) - 1
    ].tolist()
    # Some rounds each: a sample and counts, at most a few times, and the entries between.
    assert blocks.n_rounds <= 9 * len(ranks)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([-1e300, -2.5, -0.0, 0.0, 1e-308, 1.0, np.inf]), max_size=90), min_size=1, max_size=5
    )
)
def test_order_statistics_of_small_blocks(lists):
    values = np.sort(np.concatenate([np.array(part, dtype=float) for part in lists]))
    blocks = vector_blocks([np.array(part, dtype=float) for part in lists])
    for rank in range(1, len(values) + 1):
        assert order_statistic(blocks, Entries("scores"), rank) == values[rank - 1]
    with pytest.raises(ValueError, match="number of entries"):
        order_statistic(blocks, Entries("scores"), len(values) + 1)


def test_order_statistics_of_some_entries():
    values = np.random.default_rng(2).normal(size=5000)
    blocks = vector_blocks(np.split(values, [1700]))
    positive = np.sort(values[values > 0])
    assert order_statistic(blocks, Entries("scores", among="chosen"), 100) == positive[99]
    with pytest.raises(ValueError, match=f"number of entries, {len(positive)}"):
        order_statistic(blocks, Entries("scores", among="chosen"), len(positive) + 1)
