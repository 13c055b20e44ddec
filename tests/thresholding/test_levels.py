"""Levels of a column: their texts, and rates that hold for all of them together."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from taufpl.metrics import rates_by_level
from taufpl.thresholding import (
    JudgedLevels,
    SegmentOrderStatistics,
    level_codes,
    level_counts,
    level_texts,
    rates_of_levels,
    rates_of_limits,
    shared_delta,
)


@pytest.mark.parametrize("values", [
    np.array([1.0, 2.5, np.nan, 1.0]),
    [1, "2.5", None, "1.0"],
    ["1", " 2.50 ", "", "1"],
    [Decimal("1.00"), 2.5, float("nan"), np.int8(1)],
    pd.array([1, 2.5, None, 1], dtype="Float64"),
    pd.Series(["1", "2.5", None, "1"], dtype="category"),
    pd.Series([1, "2.5", pd.NA, 1.0], dtype=object),
])  # fmt: skip
def test_levels_are_the_same_texts_however_they_are_held(values):
    assert level_texts(values).tolist() == ["1", "2.5", "missing", "1"]


def test_other_levels_stay_apart():
    # Beyond the digits of a double, too.
    texts = ["12345678901234567890", "12345678901234567891", "1_0", "10", "EU", "eu", "inf"]
    assert level_texts(texts).tolist() == texts
    assert level_texts(np.array([1, True, "TRUE", "missing"], dtype=object)).tolist() == [
        "1",
        "true",
        "true",
        "missing",
    ]
    days = pd.Series(["2024-01-31", None], dtype="datetime64[ns]")
    assert level_texts(days).tolist() == level_texts(days.to_numpy()).tolist() == ["2024-01-31 00:00:00", "missing"]


@pytest.mark.parametrize(
    ("values", "are_numbers"),
    [
        ([1, None, 2.5, np.int8(3), Decimal(4)], True),
        ([1, True], False),
        ([1, np.True_], False),
        ([1, "2"], False),
        ([pd.NA, 1.5, pd.NaT], True),
        ([1.0, 2.0], True),
        (np.array([1, 2], dtype=np.uint8), True),
        ([True, False], False),
        (["1", "2"], False),
    ],
)
def test_codes_and_kinds_of_levels(values, are_numbers):
    held = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    names, codes, is_number = level_codes(held)
    assert is_number == are_numbers
    assert list(names) == sorted(set(names))
    assert [names[code] for code in codes] == level_texts(held).tolist()
    for wrong, said in [(lambda: level_codes([["a"]]), r"one label a row; got an array of shape \(1, 1\)"),
                        (lambda: level_codes(["a"], n_rows=2), r"one label a row, 2; got an array of shape \(1,\)"),
                        (lambda: level_texts("a"), r"one a row; got shape \(\)")]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            wrong()


def test_shares_of_delta_make_up_the_whole():
    for n in (1, 2, 7, 50):
        kept = (1 - Fraction(shared_delta(0.05, n))) ** n
        assert float(kept) == pytest.approx(0.95, rel=1e-15)


def test_bounds_hold_for_all_levels_together():
    """No lower bound is above its rate in 1 - delta of all draws, and no upper one below; rates are known."""
    rng, draws, delta = np.random.default_rng(0), 400, 0.2
    n, rates = np.array([3000, 800, 300, 40]), np.array([0.01, 0.03, 0.005, 0.2])
    failed = np.zeros(2)
    for _ in range(draws):
        counts = np.zeros((4, 4), np.int64)
        counts[:, 0], counts[:, 1] = n, rng.binomial(n, rates)
        found = rates_of_levels(["0", "1", "2", "3"], counts, lambda _: 0.01, delta)
        true = rates[[int(each.level) for each in found]]
        failed += [
            any(each.fpr_lower_bound > rate for each, rate in zip(found, true, strict=True)),
            any(each.fpr_upper_bound < rate for each, rate in zip(found, true, strict=True)),
        ]
    assert (failed / draws <= delta + 3 * np.sqrt(delta * (1 - delta) / draws)).all()
    # Not for nothing either: counts are discrete, and yet more than a tenth of the draws fail.
    assert (failed / draws > delta / 2).all()


def test_rates_by_level_are_counts_and_quantiles_of_beta():
    rng = np.random.default_rng(1)
    y, flagged = rng.random(5000) < 0.1, rng.random(5000) < 0.03
    levels = rng.choice([1.0, 2.0, np.nan], 5000, p=[0.6, 0.3, 0.1])
    found = rates_by_level(y, flagged, levels, 0.05)
    assert [each.level for each in found] == ["1", "2", "missing"]
    share = 1 - 0.95 ** (1 / 3)
    for each, mine in zip(found, (levels == 1, levels == 2, np.isnan(levels)), strict=True):
        n, x = (mine & ~y).sum(), (mine & ~y & flagged).sum()
        assert (each.n_negative, each.n_false_positive, each.fpr) == (n, x, x / n)
        assert each.fpr_lower_bound == pytest.approx(stats.beta.ppf(share, x, n - x + 1))
        assert each.fpr_upper_bound == pytest.approx(stats.beta.ppf(1 - share, x + 1, n - x))
        m, t = (mine & y).sum(), (mine & y & flagged).sum()
        assert each.recall_interval[1] == pytest.approx(stats.beta.ppf(1 - share / 2, t + 1, m - t))
    with pytest.raises(ValueError, match="levels must have as many entries as y_true, 5000; got 3"):
        rates_by_level(y, flagged, levels[:3], 0.05)


def test_the_smallest_of_many_levels_count_as_one():
    sizes = np.arange(1, 101)
    counts = np.stack((sizes, sizes % 2, sizes, sizes % 3 == 0), axis=1).astype(np.int64)
    found = rates_of_levels(sizes.astype(str).tolist(), counts, lambda level: int(level) / 1000)
    assert [each.level for each in found] == [*(str(size) for size in range(100, 51, -1)), "the 51 other levels"]
    rest, small = found[-1], sizes[:51]
    assert (rest.n_negative, rest.n_false_positive) == (small.sum(), (small % 2).sum())
    assert rest.tau == pytest.approx((small * small).sum() / small.sum() / 1000)
    empty = rates_of_levels(["a"], np.zeros((1, 4), np.int64), lambda _: 0.01)[0]
    assert (empty.fpr, empty.fpr_upper_bound, empty.recall_interval, empty.verdict) == (None, 1.0, (0.0, 1.0), "open")


def test_limits_are_counted_over_the_segments_that_share_them():
    taus = {"EU": 0.05, "US": 0.05, "FO": 0.1, "others": 0.2}
    labels = np.repeat(["EU", "US", "FO", "GL"], [1000, 1000, 30, 15])
    limits = SegmentOrderStatistics(taus).choose(np.random.default_rng(0).random(labels.size), labels)
    assert limits.limits == ("EU", "US", "others")
    counts = np.array([[50, 4, 9, 3], [60, 7, 1, 1], [500, 2, 5, 5], [30, 9, 0, 0], [10, 1, 2, 1]])
    found = rates_of_limits(["GL", "FO", "EU", "NL", "PL"], counts, limits, {**taus, "NL": 0.4}, 0.05)
    assert [(each.level, each.segments, each.tau, each.n_negative, each.n_false_positive) for each in found] == [
        ("EU", ("EU",), 0.05, 500, 2),
        ("US", ("US",), 0.05, 0, 0),
        ("others", ("FO", "GL"), 0.1, 110, 11),
        ("no limit", ("NL", "PL"), pytest.approx((30 * 0.4 + 10 * 0.2) / 40), 40, 10),
    ]
    # A limit without rows is judged, too: nothing is known of it.
    assert [each.verdict for each in found] == ["kept", "open", "open", "open"]
    assert {each.delta for each in found} == {shared_delta(0.05, 4)}


def test_counts_of_levels_are_those_of_a_loop():
    rng = np.random.default_rng(2)
    codes, positive, flagged = rng.integers(0, 4, 200), rng.random(200) < 0.3, rng.random(200) < 0.2
    expected = np.zeros((5, 4), np.int64)  # the last level has no rows
    for code, is_positive, is_flagged in zip(codes, positive, flagged, strict=True):
        expected[code, 2 * is_positive] += 1
        expected[code, 2 * is_positive + 1] += is_flagged
    np.testing.assert_array_equal(level_counts(codes, 5, positive, flagged), expected)


def judged(*names, is_new=True, are_limits=False):
    """Levels of 1,000 negatives at a tolerance of 5 %, each with a verdict of this name."""
    false = {"kept": 10, "open": 50, "broken": 200}
    counts = np.array([[1000, false[name], 20, 5] for name in names])
    rates = rates_of_levels([f"{place}" for place in range(len(names))], counts, lambda _: 0.05)
    return JudgedLevels("country", tuple(rates), 0.05, is_new, are_limits)


@pytest.mark.parametrize(
    ("names", "on_new", "on_known"),
    [
        (("kept", "kept"), "kept", "open"),
        (("kept", "open"), "open", "open"),
        (("open", "open"), "open", "open"),
        (("kept", "broken", "open"), "broken", "broken"),
    ],
)
def test_the_verdict_on_all_levels(names, on_new, on_known):
    new, known = judged(*names), judged(*names, is_new=False)
    assert (new.verdict, known.verdict) == (on_new, on_known)
    assert [new.verdict_on(each) for each in new.rates] == list(names)
    # Rows that the model has seen can break a tolerance, and never prove it.
    assert [known.verdict_on(each) for each in known.rates] == [each.replace("kept", "open") for each in names]
    for name in ("kept", "open", "broken"):
        assert [each.level for each in new.with_verdict(name)] == [
            str(i) for i in range(len(names)) if names[i] == name
        ]


@pytest.mark.parametrize("are_limits", [False, True])
def test_levels_are_written_down(are_limits):
    found = judged("kept", "open", are_limits=are_limits)
    document, noun = found.record(), "limit" if are_limits else "level"
    assert (document["column"], document["delta"], document["delta_of_each"]) == (
        "country",
        0.05,
        shared_delta(0.05, 2),
    )
    first, second = document[f"{noun}s"]
    assert (first[noun], first["verdict"], second["verdict"]) == ("0", "kept", "open")
    assert ("segments" in first) == are_limits
    assert (first["fpr"], first["recall"], first["n_true_positive"]) == (0.01, 0.25, 5)
    share = shared_delta(0.05, 2)
    assert first["recall_low"] == pytest.approx(stats.beta.ppf(share / 2, 5, 16))
    assert first["recall_high"] == pytest.approx(stats.beta.ppf(1 - share / 2, 6, 15))


def test_as_many_levels_as_are_wanted_stand_alone():
    levels, counts = list("abc"), np.array([[5, 0, 1, 0], [5, 1, 2, 0], [9, 0, 0, 0]])
    for most, expected in [(3, ["c", "b", "a"]), (2, ["c", "the 2 other levels"]), (1, ["the 3 other levels"])]:
        found = rates_of_levels(levels, counts, lambda _: 0.1, most=most)
        assert [each.level for each in found] == expected  # of equals that with more positives comes first
        assert {each.delta for each in found} == {shared_delta(0.05, len(expected))}
    without = rates_of_levels(levels, np.zeros((3, 4), np.int64), {"a": 0.2, "b": 0.1, "c": 0.3}.get, most=1)
    assert without[0].tau == 0.1
    with pytest.raises(ValueError, match="most must be at least 1, got 0"):
        rates_of_levels(levels, counts, lambda _: 0.1, most=0)
