"""The record of the rows that a model has seen: its size, its errors, and what it says about other rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from persistence_cases import NAMES, X, edit_arrays, rewrite
from taufpl import TauFPLClassifier
from taufpl.exceptions import ModelFileError
from taufpl.persistence import SeenRows, load_model, save_model
from taufpl.persistence._seen_rows import HashSet

RNG = np.random.default_rng(0)


def again(seen):
    """The same record, through a file."""
    return SeenRows.from_bytes(seen.to_bytes())


@given(st.lists(st.integers(0, 2**64 - 1), max_size=300), st.sampled_from([1, 2]))
def test_every_hash_of_a_set_is_found(numbers, width):
    hashes = np.array(numbers, np.uint64)
    made = HashSet.of(hashes, width)
    read, rest = HashSet.from_bytes(memoryview(made.to_bytes() + b"more"))
    assert bytes(rest) == b"more"
    for each in (made, read):
        assert each.contains(hashes).all()
        assert each.size == len(set(numbers))


@pytest.mark.parametrize("n", [1_000, 50_000])
def test_ten_bits_a_row_and_false_hits_under_one_percent(n):
    seen = again(SeenRows(RNG.normal(size=(n, 4))))
    assert 8 * len(seen.to_bytes()) / n < 10.5
    trials = 200_000
    rate = seen.count(RNG.normal(size=(trials, 4))) / trials
    assert rate < 0.01
    assert rate == pytest.approx(seen.false_hit_rate, abs=5 * np.sqrt(0.004 / trials))


def test_recalibrations_do_not_add_up_their_false_hits():
    seen, batches = SeenRows(RNG.normal(size=(2000, 3))), [RNG.normal(size=(300, 3)) for _ in range(20)]
    for batch in batches:
        seen = again(seen.add(batch))
    assert all(seen.count(batch) == 300 for batch in batches)
    assert seen.false_hit_rate < 0.005
    size = len(seen.to_bytes())
    assert len(again(seen.add(np.concatenate(batches))).to_bytes()) == size, "rows that are known were added again"


def test_rows_are_recognised_in_any_order_and_container():
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "city": pd.Series(NAMES, dtype=object)})
    seen = again(SeenRows(table))
    shuffled = table.sample(frac=1.0, random_state=0).iloc[1:]
    assert seen.contains(shuffled).all()
    assert seen.contains(shuffled.astype({"city": "category", "a": np.float32})).all()
    assert seen.contains(table.to_numpy()).all()
    assert again(SeenRows(X)).contains(sparse.csc_array(X)).all()


def test_salts_differ():
    first, second = SeenRows(X), SeenRows(X)
    assert first.to_bytes() != second.to_bytes()


CONTINUOUS = {
    "one number": lambda n: RNG.normal(size=(n, 1)),
    "numbers": lambda n: RNG.normal(size=(n, 5)),
    "cents": lambda n: RNG.normal(size=(n, 3)).round(2),
    "a few empty rows": lambda n: RNG.normal(size=(n, 3)) * (RNG.random((n, 1)) < 0.98),
}
DISCRETE = {
    "levels": lambda n: RNG.integers(0, 4, (n, 1)),
    "digits": lambda n: RNG.integers(0, 10, (n, 3)),
    "bits": lambda n: RNG.integers(0, 2, (n, 9)),
    "zipf": lambda n: RNG.zipf(1.6, (n, 1)),
    "many empty rows": lambda n: RNG.normal(size=(n, 3)) * (RNG.random((n, 1)) < 0.6),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_old_rows_are_found_and_new_ones_are_not_accused(name):
    draw, n, accused = CONTINUOUS[name], 800, 0
    for _ in range(20):
        old = draw(n)
        seen = again(SeenRows(old))
        shuffled, half = RNG.permutation(old)[1:], np.concatenate([old[::2], draw(n // 2)])
        assert seen.judge(seen.count(shuffled), n - 1).n_seen == n - 1
        assert seen.judge(seen.count(half), n).n_seen == pytest.approx(n / 2, abs=0.05 * n)
        accused += bool(seen.judge(seen.count(draw(n)), n).n_seen)
    assert accused <= 1


@pytest.mark.parametrize("name", DISCRETE)
def test_where_rows_repeat_by_chance_nothing_is_said(name):
    draw, n = DISCRETE[name], 2000
    old = draw(n)
    seen = again(SeenRows(old))
    for rows in (draw(n), old):
        found = seen.judge(seen.count(rows), n)
        assert not found.known
        assert found.n_seen is None
    # As many new rows hit as the old ones had let expect.
    assert seen.count(draw(n)) / n == pytest.approx(seen.repeating, abs=0.06)


@pytest.mark.parametrize("times", [2, 5, 12])
def test_copies_are_not_chance(times):
    old = np.repeat(RNG.normal(size=(400, 3)), times, axis=0)
    seen = again(SeenRows(old))
    assert seen.repeating < 0.02
    assert seen.judge(seen.count(old[1:]), len(old) - 1).n_seen == len(old) - 1
    assert seen.judge(seen.count(RNG.normal(size=(400, 3))), 400).n_seen == 0


def test_rows_that_were_added_twice_are_copies():
    seen = SeenRows(X).add(X)
    assert seen.repeating < 0.02


def test_nothing_was_seen_by_nobody():
    seen = again(SeenRows())
    assert (seen.count(X), seen.n_rows, seen.false_hit_rate) == (0, 0, 0.0)
    assert seen.judge(0, len(X)).n_seen == 0
    assert SeenRows(np.empty((0, 3))).to_bytes()[9:] == SeenRows().to_bytes()[9:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:5],
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data + b"0",
        lambda data: b"\x07" + data[1:],
        lambda data: data[:40] + b"\xff" * (len(data) - 40),
    ],
)
def test_damaged_records_are_refused(damage):
    with pytest.raises(ValueError, match=r"record of rows|set of hashes"):
        SeenRows.from_bytes(damage(SeenRows(X).to_bytes()))


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5])
def test_bits_that_belong_to_no_bucket_are_none(n_rows):
    """Two bits a row, in whole bytes: a one behind them would make the set one short when it is asked."""
    data = bytearray(SeenRows(X[:n_rows]).to_bytes())
    first, last = 36, 36 + (2 * n_rows - 1) // 8  # behind the headers of the record, of its part and of the set
    assert SeenRows.from_bytes(bytes(data)).count(X[:n_rows]) == n_rows
    taken = next(bit for bit in range(8) if data[first] & (1 << bit) and (2 * n_rows >= 8 or bit >= 8 - 2 * n_rows))
    data[first] ^= 1 << taken
    with pytest.raises(ValueError, match="does not hold as many as it says"):
        SeenRows.from_bytes(bytes(data))
    data[last] |= 1
    if 2 * n_rows % 8:
        with pytest.raises(ValueError, match="does not hold as many as it says"):
            SeenRows.from_bytes(bytes(data))
    else:
        SeenRows.from_bytes(bytes(data)).count(X)


@pytest.fixture(scope="module")
def model():
    return TauFPLClassifier(0.05, pos_label="fraud", reg=0.1, tau_scale=1.0, random_state=0).fit(X, NAMES)


def test_the_record_travels_in_the_model_file(model, tmp_path):
    path = tmp_path / "model.skops"
    save_model(model, path)
    assert load_model(path).seen is None
    save_model(model, path, seen=SeenRows(X))
    saved = load_model(path)
    assert saved.seen.count(X[::-1]) == len(X)
    save_model(saved.model, path, seen=saved.seen.add(X + 1.0))
    assert load_model(path).seen.count(np.concatenate([X, X + 1.0])) == 2 * len(X)


def test_a_damaged_record_in_a_model_file_is_said(model, tmp_path):
    path = tmp_path / "model.skops"
    save_model(model, path, seen=SeenRows(X))
    rewrite(path, edit_member=edit_arrays(lambda array: array[:-1] if array.dtype == np.uint8 else None))
    with pytest.raises(ModelFileError, match="its record of the rows that the model has seen cannot be read"):
        load_model(path)
