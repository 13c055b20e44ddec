"""Equal rows have equal hashes whatever holds them; other rows collide no more often than chance has it."""

import datetime
import itertools
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from taufpl._row_hashes import row_hashes

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=8)


@given(hnp.arrays(np.float64, SHAPES, elements=st.floats(width=32)), st.integers(-(2**70), 2**70))
def test_containers_of_numbers_agree(X, salt):
    expected = row_hashes(X, salt)
    assert expected.dtype == np.uint64
    assert expected.shape == (len(X),)
    names = [str(j) for j in range(X.shape[1])]
    others = [
        np.asfortranarray(X),
        X[::-1][::-1],
        X.astype(np.float32),
        X.astype(object),
        X.tolist(),
        sparse.csr_array(X),
        sparse.csc_array(X),
        sparse.coo_matrix(X),
        pd.DataFrame(X),
        pd.DataFrame(X).convert_dtypes(),
        pl.DataFrame(X, schema=names),
        pl.DataFrame(X, schema=names).fill_nan(None),
    ]
    for other in others:
        np.testing.assert_array_equal(row_hashes(other, salt), expected)


@given(hnp.arrays(np.int64, SHAPES, elements=st.integers(-100, 100)))
def test_whole_numbers_and_booleans_count_by_their_value(X):
    expected = row_hashes(X.astype(float))
    for dtype in (np.int64, np.int8, np.float16, object):
        np.testing.assert_array_equal(row_hashes(X.astype(dtype)), expected)
    truths = X > 0
    expected = row_hashes(truths.astype(float))
    for same in (truths, truths.astype(object), pd.DataFrame(truths).astype("boolean"), sparse.csr_array(truths)):
        np.testing.assert_array_equal(row_hashes(same), expected)


def test_zeros_are_equal_stored_or_not_negative_or_not():
    stored = sparse.csr_array(([0.0, 5.0, -0.0, 2.0, 3.0], [0, 1, 1, 0, 0], [0, 2, 3, 5]), shape=(3, 2))
    assert not stored.has_canonical_format
    dense = np.array([[0.0, 5.0], [0.0, 0.0], [5.0, 0.0]])
    np.testing.assert_array_equal(row_hashes(stored), row_hashes(dense))
    assert stored.nnz == 5, "the caller's matrix was changed"
    np.testing.assert_array_equal(row_hashes(-np.zeros((2, 3))), row_hashes(np.zeros((2, 3))))


def test_every_nan_is_the_same():
    patterns = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FF8DEADBEEF0000], np.uint64)
    assert len(set(row_hashes(patterns.view(np.float64)[:, None]))) == 1


TEXTS = ["low", "high", "", "low", None, "naïve", "0", "1"]
NUMBERS = [1.5, 2.0, None, 1.5, 0.0, -3.0, 0.0, 1.0]
TRUTHS = [True, False, True, True, None, False, False, True]
DAYS = [datetime.date(2024, 1, day) if day else None for day in (1, 2, 3, 1, 0, 4, 5, 6)]
COLUMNS = {"text": TEXTS, "number": NUMBERS, "truth": TRUTHS, "day": DAYS}


def frames():
    plain = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in COLUMNS.items()})
    yield plain
    yield plain.convert_dtypes()
    yield plain.assign(text=plain["text"].astype("category"), number=plain["number"].astype("Float32"))
    yield plain.assign(day=pd.to_datetime(plain["day"]))
    yield plain.assign(day=pd.to_datetime(plain["day"]).dt.tz_localize("UTC"))
    yield plain.to_numpy()
    columns = pl.DataFrame(COLUMNS)
    yield columns
    yield columns.with_columns(pl.col("text").cast(pl.Categorical), pl.col("day").cast(pl.Datetime("ms")))


@pytest.mark.parametrize("frame", list(frames()))
def test_frames_agree_on_texts_truths_dates_and_missing_values(frame):
    expected = row_hashes(next(frames()), 7)
    np.testing.assert_array_equal(row_hashes(frame, 7), expected)
    assert len(set(expected)) == len(TEXTS) - 1  # the first and the fourth row are equal, all others differ


def test_times_with_and_without_a_zone():
    timestamps = pd.to_datetime(["2024-03-01T12:00:00.25", "2024-03-01T13:00:00.25"])
    zoned = timestamps.tz_localize("UTC").tz_convert("Asia/Tokyo")
    expected = row_hashes(timestamps.to_numpy()[:, None])
    np.testing.assert_array_equal(row_hashes(pd.DataFrame({"t": zoned})), expected)
    np.testing.assert_array_equal(row_hashes(pd.DataFrame({"t": zoned.astype(object)})), expected)
    waits = np.array([datetime.timedelta(seconds=1), datetime.timedelta(days=2)])
    np.testing.assert_array_equal(row_hashes(waits.astype("m8[s]")[:, None]), row_hashes(waits[:, None]))


GRIDS = {
    "digits": np.array(list(itertools.product(range(10), repeat=4))),
    "signs": np.array(list(itertools.product((-1, 0, 1), repeat=9))),
    "bits": np.array(list(itertools.product((0, 1), repeat=14))),
    "powers": np.array(list(itertools.product(2.0 ** np.arange(-60, 60, 5), repeat=3))),
    "texts": np.array(list(itertools.product("abcdefghij", repeat=4)), dtype=object),
    "counting": np.arange(200_000)[:, None] * np.ones(3, int),
    "shifts": np.eye(600, k=0) + 2 * np.eye(600, k=1),
}


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("salt", [0, pytest.param(1, marks=pytest.mark.slow), 2**63])
def test_no_two_rows_of_a_grid_collide(name, salt):
    hashes = row_hashes(GRIDS[name], salt)
    # Chance has it about n^2 / 2^65 times, which is under 1e-8 for each of them.
    assert len(np.unique(hashes)) == len(hashes)
    # A filter takes some bits only: 20 of either end must fall as those of random numbers do.
    for bits in (hashes >> np.uint64(44), hashes & np.uint64(2**20 - 1)):
        filled, cells = len(np.unique(bits)), 2.0**20
        chance = cells * -np.expm1(-len(hashes) / cells)
        assert abs(filled - chance) < 6 * np.sqrt(chance)


def test_the_order_of_columns_and_the_salt_count():
    X = np.random.default_rng(0).normal(size=(50, 4))
    hashes = {tuple(row_hashes(X[:, list(order)])) for order in itertools.permutations(range(4))}
    assert len(hashes) == 24
    every = np.concatenate([row_hashes(X, salt) for salt in range(100)])
    assert len(np.unique(every)) == len(every)
    texts = pd.DataFrame({"a": ["x"], "b": ["y"]})
    assert row_hashes(texts)[0] != row_hashes(texts[["b", "a"]])[0]


def test_single_precision_forgets_what_a_file_may_have_lost():
    X = np.random.default_rng(0).normal(size=(200, 3)) * 10.0 ** np.arange(-1, 2)
    expected = row_hashes(X, single=True)
    written = np.array([[float(f"{value:.15g}") for value in row] for row in X])
    shortest = np.array([[float(str(value)) for value in row] for row in X.astype(np.float32)])
    for same in (X.astype(np.float32), written, shortest, sparse.csr_array(X), X.astype(object), pd.DataFrame(X)):
        np.testing.assert_array_equal(row_hashes(same, single=True), expected)
    assert not np.intersect1d(row_hashes(X), row_hashes(shortest)).size
    assert len(set(row_hashes(np.array([[1e300], [1.0], [np.inf]]), single=True))) == 2


def test_a_text_is_no_number():
    assert row_hashes(np.array([["1"]]))[0] != row_hashes(np.array([[1]]))[0]
    np.testing.assert_array_equal(row_hashes(np.array([["a"]])), row_hashes(np.array([["a"]], dtype=object)))


@pytest.mark.parametrize("shape", [(70_000, 9), (2, 200_000)], ids=["long", "wide"])
def test_a_row_has_the_same_hash_alone_and_among_many(shape):
    """Large tables are hashed in blocks."""
    rng = np.random.default_rng(1)
    dense = rng.integers(0, 2, shape) * rng.normal(size=shape)
    dense[[1, -1]] = 0
    few = [*range(0, len(dense), 3_499), 1]
    alone = np.concatenate([row_hashes(dense[[row]]) for row in few])
    for same in (dense, np.asfortranarray(dense), sparse.csr_array(dense)):
        np.testing.assert_array_equal(row_hashes(same)[few], alone)
    frame = pd.DataFrame(dense[:, :9]).assign(text=[f"row {row % 77}" for row in range(len(dense))])
    alone = np.concatenate([row_hashes(frame.iloc[[row]]) for row in few])
    np.testing.assert_array_equal(row_hashes(frame)[few], alone)


def test_temporary_arrays_are_small():
    X = np.random.default_rng(0).normal(size=(200_000, 10))
    table = pd.DataFrame({"text": np.arange(50_000).astype(str)})
    for data in (X, np.asfortranarray(X), table):
        tracemalloc.start()
        row_hashes(data)
        peak = tracemalloc.get_traced_memory()[1] - 8 * len(data)
        tracemalloc.stop()
        assert peak < 12e6


def test_empty_tables():
    assert row_hashes(np.empty((0, 3))).shape == (0,)
    assert row_hashes(pd.DataFrame({"a": []}, dtype=object)).shape == (0,)
    assert row_hashes(sparse.csr_array((2, 3))).tolist() == row_hashes(np.zeros((2, 3))).tolist()


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="two dimensions"):
        row_hashes(np.arange(3))
