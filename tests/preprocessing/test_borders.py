"""Where a column becomes another, and a share remarkable: one row on either side of each border."""

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats

from taufpl.preprocessing import DateEncoder, LevelEncoder, TableEncoder, TrainingColumn, UnseenCounter

NUMBERS = np.array([0.5, 2.25, -1.0, 7.5] * 50)


def plan_of(values, name="x"):
    """The plan of a column beside one that can always be learned from."""
    values = pd.Series(values)
    frame = pd.DataFrame(
        {name: values.to_numpy() if values.dtype != object else values, "beside": NUMBERS[: len(values)]}
    )
    return TableEncoder().fit(frame).columns_[0]


COUNTED = {
    "a count": (np.arange(20.0), "x", "dropped"),
    "a count of few rows": (np.arange(19.0), "x", "number"),
    "a count far from zero": (1e6 + np.arange(40.0), "x", "dropped"),
    "a count with as many gaps as there may be": (np.append(np.arange(39.0), 239), "x", "dropped"),
    "a count with a gap too many": (np.append(np.arange(39.0), 240), "x", "number"),
    "a count with a row twice": (np.append(np.arange(39.0), 38), "x", "number"),
    "a count backwards": (np.arange(40.0)[::-1], "x", "number"),
    "a count of halves": (np.arange(40.0) + 0.5, "x", "number"),
    "a count with a missing row": (np.append(np.arange(39.0), np.nan), "x_id", "number"),
    "an identifier": (1000.0 * np.arange(40)[::-1], "x_id", "dropped"),
    "an identifier of few rows": (1000.0 * np.arange(19)[::-1], "x_id", "number"),
    "an identifier with a row twice": (1000.0 * np.append(np.arange(39), 0), "x_id", "number"),
    "an identifier of halves": (1000.0 * np.arange(40)[::-1] + 0.5, "x_id", "number"),
    "numbers that differ under another name": (1000.0 * np.arange(40)[::-1], "x", "number"),
    "one number": (np.ones(40), "x", "dropped"),
    "one number, and a gap": (np.append(np.ones(39), np.nan), "x", "number"),
    "no number": (np.full(40, np.nan), "x", "dropped"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_becomes_of_numbers(name):
    values, column, kind = COUNTED[name]
    plan = plan_of(values, column)
    assert plan.kind == kind
    if kind == "number":
        assert (plan.low, plan.high, plan.n_missing) == (np.nanmin(values), np.nanmax(values), np.isnan(values).sum())


def test_truth_values_range_from_0_to_1():
    plan = plan_of(pd.array([True, True, None] * 10, dtype="boolean"))
    assert (plan.kind, plan.low, plan.high, plan.n_missing) == ("boolean", 0.0, 1.0, 10)
    assert plan_of([True] * 10).note == "the same value in every row"
    truth = np.arange(40)[:, np.newaxis] % np.array([2, 3]) == 0
    assert [each.kind for each in TableEncoder().fit(truth).columns_] == ["boolean"] * 2
    assert [each.kind for each in TableEncoder().fit(truth.astype(int)).columns_] == ["number"] * 2


def texts(n_levels, n_rows):
    return [f"text {row % n_levels:02}" for row in range(n_rows)]


@pytest.mark.parametrize(
    ("values", "kind", "note"),
    [
        (texts(20, 20), "category", "20 of 20 levels are rare and count as one"),
        (texts(21, 41), "dropped", "21 different texts in 41 rows: an identifier or free text"),
        (texts(21, 42), "category", "21 of 21 levels are rare and count as one"),
        (texts(21, 42) + [None] * 40, "category", "21 of 21 levels are rare and count as one"),
        (["a"] * 20, "dropped", "the same value in every row"),
        (["a"] * 20 + [None], "category", ""),
        ([None] * 20, "dropped", "no value in any row"),
        (["a"] * 5 + ["b"] * 5, "category", ""),
        (["a"] * 5 + ["b"] * 4, "category", ""),
        (["a"] * 5 + ["b"] * 4 + ["c"] * 4, "category", "2 of 3 levels are rare and count as one"),
    ],
)
def test_what_becomes_of_texts(values, kind, note):
    plan = plan_of(pd.Series(values, dtype=object))
    assert (plan.kind, plan.note, plan.n_missing) == (kind, note, values.count(None))
    present = [each for each in values if each is not None]
    if kind == "category":
        assert plan.n_levels == len(set(present))
        assert set(plan.levels) == {each for each in present if present.count(each) >= 5}


def test_the_most_frequent_levels_have_a_feature_of_their_own():
    """In the order of their rows, and of as many rows by name."""
    values = [f"{level:02}" for level in range(60) for _ in range(5 + (level >= 10) + (level >= 30))]
    encoder = TableEncoder().fit(pd.DataFrame({"x": values}))
    expected = [f"{level:02}" for level in [*range(30, 60), *range(10, 30)]]
    assert encoder.columns_[0].levels == tuple(expected)
    assert encoder.columns_[0].note == "10 of 60 levels are rare and count as one"
    names = encoder.get_feature_names_out().tolist()
    assert set(names) == {*(f"x_{each}" for each in expected), "x_infrequent_sklearn"}


@pytest.mark.parametrize(("n_columns", "end"), [(5, "every row)."), (6, "; and 1 more).")])
def test_five_reasons_are_enough(n_columns, end):
    with pytest.raises(ValueError, match="no column is left") as caught:
        TableEncoder().fit(pd.DataFrame(dict.fromkeys("abcdefg"[:n_columns], [1.0] * 30)))
    assert str(caught.value).endswith(end)
    assert str(caught.value).count("the same value") == 5


def test_sparse_rows_of_2000_columns_become_dense():
    narrow = sparse.random(40, 2000, 0.05, random_state=0, format="csr")
    assert isinstance(TableEncoder().fit_transform(narrow), np.ndarray)


def test_dates_before_1970_and_gaps():
    days = [datetime.date(1969, 12, 31), datetime.date(1582, 10, 15), datetime.date(2024, 2, 29), None]
    stamps = np.array(days, dtype="datetime64[D]") + np.timedelta64(6 * 3600, "s")
    encoder = DateEncoder()
    found = encoder.fit_transform(stamps[:, np.newaxis])
    assert encoder.get_feature_names_out().tolist() == ["x0_days", "x0_time", "x0_weekday", "x0_season", "x0_missing"]
    for day, row in zip(days[:3], found, strict=False):
        count = day.toordinal() - datetime.date(1970, 1, 1).toordinal() + 0.25
        np.testing.assert_allclose(row, [count, 0.25, day.weekday(), count / 365.2425 % 1, 0], atol=1e-9)
    assert np.isnan(found[3, :4]).all()
    assert found[3, 4] == 1
    # Seconds, and frames of any kind, say the same.
    seconds = (stamps - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    for same in (
        seconds[:, np.newaxis],
        pd.DataFrame({"x0": stamps}),
        pl.DataFrame({"x0": stamps.astype("datetime64[us]")}),
        pd.DataFrame({"x0": seconds}),
    ):
        np.testing.assert_array_equal(DateEncoder().fit_transform(same), found)
    two = DateEncoder().fit(np.column_stack([stamps[[0, 1, 2, 0]], stamps]))
    assert two.marked_ == [1]
    assert two.get_feature_names_out().tolist()[-2:] == ["x1_season", "x1_missing"]


def test_times_of_python_count_by_their_zone():
    zone = datetime.timezone(datetime.timedelta(hours=5))
    times = [datetime.datetime(2024, 1, 1, hour, tzinfo=zone) for hour in range(24)]
    plain = [each.astimezone(datetime.UTC).replace(tzinfo=None) for each in times]
    with_zone, without = (pd.DataFrame({"x": pd.Series(each, dtype=object)}) for each in (times, plain))
    encoder = TableEncoder().fit(with_zone)
    assert encoder.columns_[0].kind == "date"
    assert encoder.columns_[0].low == times[0].timestamp()
    np.testing.assert_array_equal(encoder.transform(without), encoder.transform(with_zone))


def test_levels_are_the_same_text_as_numbers_of_any_kind():
    """What is whole is written as a whole number; other numbers and texts as they are."""
    levels = pd.Series([1, 2.0, 2.5, "1", "two", np.float32(2), np.int64(1), None] * 8, dtype=object)
    plan = TableEncoder().fit(pd.DataFrame({"x": levels})).columns_[0]
    assert (plan.kind, set(plan.levels), plan.n_missing) == ("category", {"1", "2", "2.5", "two"}, 8)
    # A truth value is no number, whichever of them comes first.
    for values in ([True, 1, "a"], [1, True, "a"]):
        plan = TableEncoder().fit(pd.DataFrame({"x": pd.Series(values * 8, dtype=object)})).columns_[0]
        assert plan.levels == ("1", "True", "a")
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.Categorical([3, 1, 2, 1] * 8)}))
    expected = encoder.transform(pd.DataFrame({"x": ["3", "1", "2", None]}))
    for same in ([3.0, 1.0, 2.0, np.nan], pd.array([3, 1, 2, None], dtype="Int64"), pd.Categorical([3, 1, 2, None])):
        np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"x": same})), expected)


def test_rows_of_texts_and_numbers_in_lists():
    rows = [["bonn" if row % 3 else "oslo", row / 4, row % 2 == 0] for row in range(30)]
    encoder = TableEncoder().fit(rows)
    assert [each.kind for each in encoder.columns_] == ["category", "number", "boolean"]
    frame = pd.DataFrame(rows, columns=["x0", "x1", "x2"])
    np.testing.assert_array_equal(encoder.transform(rows), TableEncoder().fit(frame.to_numpy()).transform(rows))
    with pytest.raises(ValueError, match="'x1' must hold numbers"):
        encoder.transform([["bonn", "oslo", True]] * 3)


@pytest.mark.parametrize("odd", [["x", 3], [[3], "x"], [b"x", 1]])
def test_a_column_without_one_value_of_its_kind_is_refused(odd):
    """Single values of another type count as missing, a whole column does not."""
    days = [datetime.date(2024, 1, 1 + day) for day in range(28)]
    encoder = TableEncoder().fit(pd.DataFrame({"d": days, "beside": np.arange(28.0) ** 2}))
    rows = pd.DataFrame({"d": pd.Series(odd * 14, dtype=object), "beside": 1.0})
    with pytest.raises(ValueError, match="column 'd' must hold dates, as it did in fit"):
        encoder.transform(rows)
    rows.loc[3, "d"] = days[3]
    with pytest.warns(UserWarning, match=rf"'d' holds dates.*\(27, the first is {re.escape(repr(odd[0]))}\)"):
        assert np.isfinite(encoder.transform(rows)).all()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pd.to_datetime([None, "2024-12-31"] * 10), r"got '2024-12-31T00:00:00.000000' \(type datetime64"),
        ([None, "much"] * 10, r"got 'much' \(type"),
        ([1j] * 20, r"got values of type complex128\."),
    ],
)
def test_the_first_value_that_is_there_is_named(values, words):
    encoder = TableEncoder().fit(pd.DataFrame({"x": np.arange(20.0) ** 2}))
    with pytest.raises(ValueError, match=f"column 'x' must hold numbers, as it did in fit; {words}"):
        encoder.transform(pd.DataFrame({"x": values}))


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_unknown_levels_of_arrays_and_of_several_columns():
    rows = np.array([["a", "x"], ["b", "x"], ["b", "y"], ["b", "y"]], dtype=object)
    encoder = LevelEncoder(sparse_output=False).fit(rows)
    assert encoder.n_samples_seen_ == 4
    found = encoder.transform(np.array([["?", "x"], ["a", "?"], ["?", "?"]], dtype=object))
    np.testing.assert_array_equal(found, [[0.25, 0.75, 1, 0], [1, 0, 0.5, 0.5], [0.25, 0.75, 0.5, 0.5]])
    with pytest.raises(ValueError, match="Expected 2D array"):
        encoder.transform(rows[0])


def border(exceeds, n_rows):
    """The first count that is remarkable by a bound that is computed here."""
    return next(count for count in range(1, n_rows + 1) if exceeds(count))


ERROR = 0.001 / (4 * 2)  # two columns, four bounds each


def lower(count, n_rows):
    return stats.beta.ppf(ERROR, count, n_rows - count + 1)


@pytest.mark.parametrize("n_values", [2, 30, 400])
def test_from_which_count_on_numbers_outside_are_remarked(n_values):
    columns = [TrainingColumn("x", n_values + 7, 7, 0.0, 1.0), TrainingColumn("y", 500)]
    ordinary, n_rows, n_missing = stats.beta.isf(ERROR, 2, n_values - 1), 300, 3
    first = (
        border(lambda count: lower(count, n_rows - n_missing) > ordinary, n_rows - n_missing + 1)
        if n_values > 2
        else None
    )
    for count in (first - 1, first) if first else (n_rows - n_missing,):
        values = np.concatenate([np.resize([-0.5, 1.5], count), np.resize([0.0, 1.0], n_rows - n_missing - count)])
        counter = UnseenCounter(columns)
        counter.update(pd.DataFrame({"x": np.append(values, [np.nan] * n_missing), "y": "a"}))
        found = counter.record()["columns"]["x"]
        assert (found["n_below"], found["n_above"], found["n_missing"]) == (-(-count // 2), count // 2, n_missing)
        assert ("outside" in found["remarkable"]) is (count == first)
        assert any("lie outside the training range, 0 to 1" in each for each in counter.remarks()) is (count == first)


@pytest.mark.parametrize("n_missing", [0, 3, 60, 400])
def test_from_which_count_on_missing_values_are_remarked(n_missing):
    columns, n_rows = [TrainingColumn("x", 500, n_missing, levels=frozenset("ab")), TrainingColumn("y", 500)], 300
    share = stats.beta.ppf(1 - ERROR, n_missing + 1, 500 - n_missing)
    ordinary = min(2 * share, (1 + share) / 2)
    first = border(lambda count: lower(count, n_rows) > ordinary, n_rows)
    before = f"{n_missing} of 500 training rows did" if n_missing else "no training row did"
    for count in (first - 1, first):
        counter = UnseenCounter(columns)
        counter.update(pd.DataFrame({"x": ["a"] * (n_rows - count) + [None] * count, "y": "a"}))
        assert counter.record()["columns"]["x"]["n_missing"] == count
        expected = [f"x: {count} of 300 rows ({count / 3:.3g}%) lack a value; {before}"] if count == first else []
        assert counter.remarks() == expected


def test_three_examples_of_unknown_levels_over_all_batches():
    counter = UnseenCounter.from_rows(pd.DataFrame({"x": ["a", "b"] * 5, "flag": [True, False] * 5, "none": None}))
    for batch in (["c", "a", "c", None], ["d", "c"], ["e", "f"], ["g"]):
        counter.update(pd.DataFrame({"x": batch, "flag": True, "none": None}))
    found = counter.counts["x"]
    assert (found.n_unknown, found.n_missing, found.examples) == (7, 1, ["c", "d", "e"])
    assert not counter.counts["flag"].any()
    assert counter.record() == {
        "n_rows": 9,
        "columns": {
            "x": {
                **{"n_unknown": 7, "n_missing": 1, "n_below": 0, "n_above": 0},
                **{"unknown_levels": ["c", "d", "e"], "remarkable": ["unknown"]},
            },
            "none": {
                **{"n_unknown": 0, "n_missing": 9, "n_below": 0, "n_above": 0},
                **{"unknown_levels": [], "remarkable": []},
            },
        },
    }
    assert [column.levels for column in counter.columns] == [frozenset("ab"), None, frozenset()]
    assert (counter.columns[1].low, counter.columns[1].high) == (0.0, 1.0)


def test_numbers_without_a_value_have_no_range():
    counter = UnseenCounter.from_rows(pd.DataFrame({"x": [np.nan] * 5, "y": [1.0, np.nan, 3.0, 2.0, 2.0]}))
    assert [(each.low, each.high, each.n_missing) for each in counter.columns] == [(None, None, 5), (1.0, 3.0, 1)]
    counter.update(pd.DataFrame({"x": [1.0], "y": [4.0]}))
    assert (counter.counts["x"].any(), counter.counts["y"].n_outside) == (False, 1)
