"""Levels of a column: their texts, and rates that hold for all of them together."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from taufpl.thresholding import level_texts, shared_delta


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


def test_shares_of_delta_make_up_the_whole():
    for n in (1, 2, 7, 50):
        kept = (1 - Fraction(shared_delta(0.05, n))) ** n
        assert float(kept) == pytest.approx(0.95, rel=1e-15)
