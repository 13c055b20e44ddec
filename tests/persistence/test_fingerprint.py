"""Fingerprints: the same data have the same, other data another."""

import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from taufpl.operators import contents
from taufpl.persistence import fingerprint

BASE = np.arange(12.0).reshape(4, 3)
FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [1, 2]})


def test_layout_and_byte_order_do_not_count():
    swapped = BASE.astype(BASE.dtype.newbyteorder(">"))
    assert (
        len({fingerprint(each) for each in (BASE, np.asfortranarray(BASE), np.repeat(BASE, 2, 1)[:, ::2], swapped)})
        == 1
    )


def test_large_tables_count_whole_and_as_files_have_it():
    """Blocks, in which they are hashed, do not count; the form is that of all fingerprints in model files."""
    large = np.arange(2_400_000.0).reshape(-1, 2)
    expected = hashlib.sha256(b"X: dense (1200000, 2)\n<f8 (1200000, 2)\n" + large.astype("<f8").tobytes())
    assert fingerprint(large) == fingerprint(np.asfortranarray(large)) == f"sha256:{expected.hexdigest()}"


@pytest.mark.parametrize(
    "other",
    [
        BASE[::-1],
        BASE[:, ::-1],
        BASE.reshape(3, 4),
        BASE.astype(np.float32),
        BASE.astype(int),
        BASE + np.eye(4, 3) * 1e-15,
        sparse.csr_matrix(BASE),
        pd.DataFrame(BASE),
        np.array(BASE, dtype=str),
    ],
)
def test_other_data_have_another(other):
    assert fingerprint(other) != fingerprint(BASE)


def test_sparse_data_in_any_format():
    X = sparse.csr_array(np.where(np.arange(200) % 3, 0.0, np.arange(200.0)).reshape(20, 10))
    unsorted = sparse.csr_array((X.data[::-1].copy(), X.indices[::-1].copy(), [0, X.nnz]), shape=(1, 10 * 20))
    coo = X.tocoo()
    twice = (np.tile(coo.row, 2), np.tile(coo.col, 2))
    doubled = sparse.coo_array((np.tile(coo.data / 2, 2), twice), X.shape)
    assert len({fingerprint(each) for each in (X, X.tocsc(), X.tocoo(), sparse.csr_matrix(X), doubled)}) == 1
    before = unsorted.indices.copy()
    assert fingerprint(unsorted) == fingerprint(unsorted.sorted_indices())
    assert np.array_equal(unsorted.indices, before)
    moved = X.copy()
    moved.indices[0] += 1 if moved.indices[0] < 9 else -1
    assert fingerprint(moved) != fingerprint(X)


def test_frames_of_pandas_and_polars_agree():
    assert fingerprint(FRAME) == fingerprint(pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [1, 2]}))
    assert fingerprint(FRAME.astype({"b": object})) == fingerprint(FRAME)


@pytest.mark.parametrize(
    "other",
    [
        FRAME[["b", "a", "c"]],
        FRAME.rename(columns={"a": "A"}),
        FRAME.assign(b=["x", None]),
        FRAME.assign(b=["xy", ""]),
        FRAME.assign(c=[1, 3]),
        FRAME.assign(c=["1", "2"]),
        FRAME[::-1],
    ],
)
def test_other_frames_have_another(other):
    assert fingerprint(other) != fingerprint(FRAME)


def test_missing_values_are_values():
    frames = [pd.DataFrame({"a": pd.array(values, dtype="Int64")}) for values in ([1, None], [1, 2], [None, 1])]
    assert len({fingerprint(frame) for frame in frames}) == 3


def test_labels_count():
    y = np.array(["a", "b", "a", "b"])
    assert fingerprint(BASE, y) not in (fingerprint(BASE), fingerprint(BASE, y[::-1]))
    assert fingerprint(BASE, y) == fingerprint(BASE, pd.Series(y)) == fingerprint(BASE, y.astype("U9"))
    assert fingerprint(BASE, np.ones(4)) != fingerprint(BASE, np.ones(4, dtype=bool))


@given(st.lists(st.text(max_size=3), min_size=1, max_size=4), st.lists(st.text(max_size=3), min_size=1, max_size=4))
def test_texts_do_not_run_together(left, right):
    same = fingerprint(np.array(left, dtype=object)) == fingerprint(np.array(right, dtype=object))
    assert same == (left == right)


@given(hnp.arrays(np.float64, (2, 2)), hnp.arrays(np.float64, (2, 2)))
def test_numbers_count_to_the_last_bit(left, right):
    assert (fingerprint(left) == fingerprint(right)) == (left.tobytes() == right.tobytes())


def test_contents_of_dense_data_are_the_data():
    kind, (array,) = contents(BASE)
    assert kind == "dense"
    assert array is BASE
