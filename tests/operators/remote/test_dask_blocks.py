"""Blocks on a Dask cluster, against NumPy on the same numbers."""

import pickle
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd

from block_tasks import Begin, Fail, Move, Nothing, Square, Total, Whole
from dask_cases import (
    COLLECTIONS,
    MEMORY,
    client_of,
    csr_chunks,
    dense,
    frame,
    rows_and_labels,
    tasks_left,
    unknown_sizes,
)
from taufpl.operators import FileRows, as_blocks
from taufpl.operators.remote import DaskBlocks, Entries, check_rows, divide, label_counts, order_statistic
from taufpl.operators.remote._dask_blocks import share_out, workers_room
from taufpl.operators.remote._dask_chunks import Chunks, Room, plan_blocks


@pytest.fixture(scope="module")
def client(cluster):
    with client_of(cluster) as made:
        yield made


def contents(blocks):
    """All rows and labels, in order."""
    parts = blocks.gather(Whole())
    assert [state["number"] for _, state in parts] == list(range(len(parts)))
    assert [state["start"] for _, state in parts] == np.cumsum([0] + [len(rows) for rows, _ in parts])[:-1].tolist()
    return np.vstack([rows for rows, _ in parts]), np.concatenate([state["labels"] for _, state in parts])


@pytest.mark.parametrize("persist", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_blocks_are_the_rows_in_order(client, collection, persist):
    X, y = rows_and_labels()
    with as_blocks(collection(X), da.from_array(y, chunks=11), persist=persist, block_bytes=1) as blocks:
        assert isinstance(blocks, DaskBlocks)
        assert blocks.shape == X.shape
        assert blocks.n_blocks >= 3
        rows, labels = contents(blocks)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("persist", [True, False])
def test_sums_and_changes(client, persist):
    X, y = rows_and_labels()
    coef = np.arange(1.0, 6.0)
    with as_blocks(dense(X), y, persist=persist, block_bytes=1) as blocks:
        count, total = blocks.change_and_reduce(Begin(coef))
        assert (count, total) == (len(X), (X @ coef).sum())
        blocks.change(Move(2.0, 1.0))
        blocks.change(Move(0.5, -4.0))
        scores = 0.5 * (2.0 * (X @ coef) + 1.0) - 4.0
        for _ in range(2):  # added up on the workers first, by the client once results are known to be small
            count, total, weighted = blocks.reduce(Total())
            assert (count, total) == (len(X), scores.sum())
            np.testing.assert_array_equal(weighted, scores @ X)
        assert blocks.n_rounds == 3


def test_a_fork_goes_its_own_way(client):
    X, y = rows_and_labels()
    with as_blocks(dense(X), y, block_bytes=1) as blocks:
        blocks.change_and_reduce(Begin(np.ones(5)))
        fork = blocks.fork(Move(3.0, 0.0))
        blocks.change(Move(1.0, 1.0))
        assert fork.reduce(Total())[1] == 3.0 * X.sum()
        assert blocks.reduce(Total())[1] == X.sum() + len(X)
        fork.release()
        assert blocks.reduce(Total())[1] == X.sum() + len(X)
        with pytest.raises(RuntimeError, match="released"):
            fork.reduce(Total())


def test_large_results_are_added_up_on_the_workers(client):
    n_blocks, d = 70, 60
    X = np.random.default_rng(0).integers(-3, 4, size=(n_blocks * 2, d)).astype(float)
    with as_blocks(da.from_array(X, chunks=(2, d)), block_bytes=1) as blocks:
        assert blocks.n_blocks == n_blocks
        for _ in range(2):
            (gram,) = blocks.reduce(Square())
            np.testing.assert_array_equal(gram, X.T @ X)
        assert blocks.traffic.received < 3 * gram.nbytes


def test_a_large_task_travels_once(client):
    X, y = rows_and_labels()
    coef = np.ones(5)
    task = Begin(coef)
    object.__setattr__(task, "ballast", bytes(200_000))
    with as_blocks(dense(X), y, block_bytes=1) as blocks:
        assert blocks.change_and_reduce(task)[1] == X.sum()
        assert blocks.reduce(Total())[1] == X.sum()
    assert tasks_left(client) == []


def test_an_error_in_a_task_reaches_the_caller_and_leaves_nothing_behind(client):
    X, y = rows_and_labels()
    with as_blocks(dense(X), y, block_bytes=1) as blocks:
        with pytest.raises(ZeroDivisionError, match=r"block \d"):
            blocks.reduce(Fail())
        assert blocks.reduce(Nothing()) == (blocks.n_blocks,)
    assert tasks_left(client) == []


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y,
        lambda y: y.tolist(),
        lambda y: pd.Series(y),
        lambda y: da.from_array(y, chunks=5),
        lambda y: da.from_array(y[:, np.newaxis], chunks=(9, 1))[:, 0],
        lambda y: dd.from_pandas(pd.Series(y), npartitions=7),
        lambda y: dd.from_pandas(pd.DataFrame({"y": y}), npartitions=2),
        lambda y: dd.from_pandas(pd.Series(y), npartitions=4).to_dask_array(),
    ],
)
@pytest.mark.parametrize("collection", [dense, pytest.param(frame, marks=pytest.mark.slow), unknown_sizes])
def test_labels_are_cut_where_rows_are(client, collection, labels):
    X, y = rows_and_labels()
    with as_blocks(collection(X), labels(y), block_bytes=1) as blocks:
        np.testing.assert_array_equal(contents(blocks)[1], y)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of dask's own reader
def test_parquet_is_divided_as_its_columns_are_read(client, tmp_path):
    X, y = rows_and_labels()
    table = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    dd.from_pandas(table, npartitions=5).to_parquet(tmp_path / "rows")
    read = dd.read_parquet(tmp_path / "rows")
    for columns in (list("abcde"), ["a"]):
        with as_blocks(read[columns], read["y"], block_bytes=1) as blocks:
            rows, labels = contents(blocks)
        np.testing.assert_array_equal(rows, X[:, : len(columns)])
        np.testing.assert_array_equal(labels, y)


def test_what_cannot_be_used_is_refused(client):
    X, y = rows_and_labels()
    table = pd.DataFrame({"age": [1.0, 2.0], "name": ["a", "b"], "day": pd.to_datetime(["2024-01-01"] * 2)})
    with pytest.raises(TypeError, match=r"'name' \(.*'day' \(datetime64.*get_dummies"):
        as_blocks(dd.from_pandas(table, npartitions=1))
    with pytest.raises(ValueError, match="two dimensions"):
        as_blocks(da.from_array(y, chunks=10))
    with pytest.raises(TypeError, match="real numbers, got dtype complex128"):
        as_blocks(dense(X) * 1j)
    with pytest.raises(ValueError, match="X has 60 rows, y has 59 labels"):
        as_blocks(dense(X), y[1:])
    with pytest.raises(ValueError, match="X has 60 rows, y has 61 labels"):
        as_blocks(dense(X), da.zeros(61, chunks=20))
    with pytest.raises(ValueError, match=r"y must be one-dimensional, got shape \(60, 2\)"):
        as_blocks(dense(X), da.zeros((60, 2), chunks=20))
    with pytest.raises(ValueError, match="y must be one column, got 2"):
        as_blocks(dense(X), dd.from_pandas(pd.DataFrame({"a": y, "b": y}), npartitions=1))
    with pytest.raises(ValueError, match="at least one row"):
        as_blocks(da.zeros((0, 3)))


@dataclass(frozen=True)
class _NeverRead:
    """Rows that must not be looked at."""

    shape: tuple
    dtype: np.dtype
    ndim: int = 2

    def __getitem__(self, index):
        raise AssertionError("read without need")


def test_small_chunks_are_joined_and_large_ones_cut(client):
    with as_blocks(da.zeros((10_000, 10), chunks=(100, 10))) as blocks:
        assert blocks.n_blocks == 1
        assert blocks.reduce(Nothing()) == (1,)
    with as_blocks(da.zeros((10_000, 10), chunks=(100, 10)), block_bytes=80_000) as blocks:
        assert blocks.n_blocks == 10
    with as_blocks(da.zeros((800_000, 10), chunks=-1)) as blocks:  # one chunk would leave a worker idle
        assert blocks.n_blocks == 4
    huge = da.from_array(_NeverRead((10_000_000, 20), np.dtype(np.float32)), chunks=(10_000_000, 20))
    with as_blocks(huge, persist=False) as blocks:
        assert blocks.n_blocks >= 5
        assert blocks.reduce(Nothing()) == (blocks.n_blocks,)


def test_rows_are_kept_if_they_fit(client):
    assert workers_room(client) == Room(2, 2 * MEMORY)

    def kept(X):
        with as_blocks(X) as blocks:
            (name,) = {type(future.result().rows).__name__ for future in blocks._blocks[:1]}
        return name

    assert kept(da.zeros((1000, 10))) == "DenseOperator"
    assert kept(da.zeros((10_000_000, 100), chunks=(100_000, 100))) == "LazyRows"


def test_chunks_that_are_not_what_they_seem_are_noticed(client):
    X = dense(rows_and_labels()[0]).map_blocks(lambda rows: rows[:-1], dtype=float)
    with as_blocks(X, block_bytes=1) as blocks, pytest.raises(ValueError, match="compute_chunk_sizes"):
        blocks.reduce(Nothing())


def test_what_is_on_the_workers_stays_there(client):
    X, y = rows_and_labels()
    held = client.persist(dense(X) * 2)
    with as_blocks(held + 1, y, persist=False, block_bytes=1) as blocks:
        np.testing.assert_array_equal(contents(blocks)[0], 2 * X + 1)


def test_as_few_blocks_as_occupy_the_threads_and_fit_their_memory():
    chunks = Chunks({}, [], [100_000] * 1000, [20_000_000] * 1000, False)  # 20 GB

    def n_blocks(n_threads, memory, *, keep):
        return len(plan_blocks(chunks, Room(n_threads, memory), keep=keep, block_bytes=None))

    assert n_blocks(4, 64e9, keep=True) == 8
    assert n_blocks(100, 64e9, keep=True) == 100
    # 2 GB a thread: blocks of 125 MB, six chunks each.
    assert n_blocks(4, 8e9, keep=False) == 167
    # Narrow rows: their states are larger than they are, and count.
    narrow = Chunks({}, [], [100_000] * 100, [400_000] * 100, False)
    groups = plan_blocks(narrow, Room(1, 1.6e9), keep=False, block_bytes=None)
    assert max(map(len, groups)) == 15
    assert [i for group in groups for i in group] == list(range(100))


def test_blocks_are_shared_out_by_threads():
    shapes = [(10, 3)] * 12
    homes = share_out({"a": 1, "b": 2, "c": 1}, shapes)
    assert homes == ["a"] * 3 + ["b"] * 6 + ["c"] * 3
    assert share_out({"a": 4}, shapes) == ["a"] * 12
    assert set(share_out({"a": 1, "b": 1}, [(1, 1), (100, 1), (100, 1)])) == {"a", "b"}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("persist", [True, False])
def test_a_file_is_read_by_the_workers(client, tmp_path, order, persist):
    X, y = rows_and_labels(n_rows=400)
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    rows = da.from_array(FileRows.from_npy(tmp_path / "X.npy"), chunks=(90, 5))
    with as_blocks(rows, y, persist=persist, block_bytes=1) as blocks:
        if not persist:
            assert max(len(pickle.dumps(block.result())) for block in blocks._blocks) < 4000
        np.testing.assert_array_equal(contents(blocks)[0], X)


@pytest.mark.parametrize("form", ["array", "frame"])
def test_rows_that_are_standardised_lazily_are_read_once_a_pass(client, form, tmp_path):
    X, y = rows_and_labels(n_rows=600)
    np.save(tmp_path / "X.npy", X)
    rows = da.from_array(FileRows.from_npy(tmp_path / "X.npy"), chunks=(50, 5))
    rows = dd.from_dask_array(rows) if form == "frame" else rows
    lazy = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    with as_blocks(lazy, y, persist=False, block_bytes=1) as blocks:
        assert blocks.n_blocks == 12
        # The way to all rows would be one step for each of twelve chunks, and more.
        assert max(len(block.result().rows.load.graph) for block in blocks._blocks) < 12
        found, _ = contents(blocks)
    ddof = 1 if form == "frame" else 0
    np.testing.assert_allclose(found, (X - X.mean(axis=0)) / X.std(axis=0, ddof=ddof), atol=1e-12)


def test_data_inside_a_graph_are_not_sent_for_every_block(client):
    X = np.zeros((300_000, 10))
    with pytest.raises(ValueError, match=r"holds 23 MiB of arrays.*FileRows"):
        as_blocks(da.from_array(X, chunks=(10_000, 10)), persist=False)


@pytest.mark.parametrize("collection", [dense, csr_chunks, frame])
def test_rows_that_are_not_finite_are_named(client, collection):
    X, y = rows_and_labels()
    with as_blocks(collection(X), y, block_bytes=1) as blocks:
        check_rows(blocks)
    X[3, 1], X[50, 0], X[51, 4] = np.nan, np.inf, -np.inf
    message = r"in 3 of 60 rows \(1 in block 0, 2 in block .*rows 3, 50, 51"
    with as_blocks(collection(X), y, block_bytes=1) as blocks, pytest.raises(ValueError, match=message):
        check_rows(blocks)


@pytest.mark.parametrize("gap", [np.nan, None])
def test_missing_labels_are_named(client, gap):
    X, y = rows_and_labels()
    labels = y.astype(object if gap is None else float)
    labels[[8, 40]] = gap
    with as_blocks(dense(X), labels, block_bytes=1) as blocks, pytest.raises(ValueError, match=r"got 2, .*in row 8"):
        label_counts(blocks)


def test_labels_become_masks(client):
    X, y = rows_and_labels(n_rows=600)
    names = np.array(["ham", "spam"])[y]
    with as_blocks(da.from_array(X, chunks=(130, 5)), names, block_bytes=1) as blocks:
        assert label_counts(blocks) == {"ham": (y == 0).sum(), "spam": (y == 1).sum()}
        divide(blocks, "spam")
        parts = [state for _, state in blocks.gather(Whole())]
        for state in parts:
            np.testing.assert_array_equal(state["positive"], np.flatnonzero(state["is_positive"]))
        np.testing.assert_array_equal(np.concatenate([state["is_positive"] for state in parts]), y == 1)
        np.testing.assert_array_equal(np.concatenate([state["is_negative"] for state in parts]), y == 0)


@pytest.mark.slow
def test_what_reaches_the_client_does_not_grow_with_the_rows(client):
    def fit_like(n_rows):
        X = da.random.default_rng(0).normal(size=(n_rows, 4), chunks=(n_rows // 4, 4))
        tracemalloc.start()
        with as_blocks(X, X[:, 0] > 0, block_bytes=1) as blocks:
            label_counts(blocks)
            blocks.change_and_reduce(Begin(np.ones(4)))
            for _ in range(3):
                blocks.change(Move(2.0, 1.0))
                blocks.reduce(Total())
            order_statistic(blocks, Entries("scores"), n_rows // 3)
            traffic = blocks.traffic
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return traffic, peak

    fit_like(8_000)  # modules are loaded
    small, small_peak = fit_like(40_000)
    large, large_peak = fit_like(400_000)
    # A vector of all rows would be 3.2 MB. How many rounds an order statistic takes is up to chance.
    assert small.received < 150_000
    assert large.received < 150_000
    assert large_peak < small_peak + 2_000_000


def test_file_rows_read_slices(tmp_path):
    X = np.arange(60, dtype=np.float32).reshape(20, 3)
    for name, array in {"c": X, "f": np.asfortranarray(X), "one": X[:, 0].copy()}.items():
        np.save(tmp_path / f"{name}.npy", array)
        rows = FileRows.from_npy(tmp_path / f"{name}.npy")
        assert (rows.shape, rows.dtype, rows.ndim) == (array.shape, array.dtype, array.ndim)
        for part in (slice(0, 20), slice(3, 9), slice(None), slice(7, 7), slice(18, 99)):
            np.testing.assert_array_equal(rows[part], array[part])
        for part in (slice(1, 19, 4), slice(None, None, -3), slice(15, 2, -5), 3, -2, np.int64(0), [7, -1, 2], ()):
            np.testing.assert_array_equal(rows[part], array[part])
        with pytest.raises(TypeError, match=f"at most {array.ndim} slices, integers or arrays of integers"):
            rows[0, 0, 0]
        with pytest.raises(TypeError, match="or arrays of integers"):
            rows["first"]
        with pytest.raises(IndexError, match="The file has 20 rows, got row numbers from 3 to 20"):
            rows[[3, 20]]
    np.testing.assert_array_equal(FileRows.from_npy(tmp_path / "c.npy")[2:5, 1:], X[2:5, 1:])
    whole = np.load(tmp_path / "c.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="whole of a file"):
        FileRows.from_memmap(whole[3:])
    (tmp_path / "c.npy").write_bytes((tmp_path / "c.npy").read_bytes()[:-8])
    with pytest.raises(OSError, match="ended 2 values before"):
        FileRows.from_memmap(whole)[10:]


def test_nothing_is_left_on_the_cluster(client):
    assert tasks_left(client) == []
