"""Budgets, plans for labels, and bounds on precision, judged by scipy's distributions and by draws with known truth."""

import numpy as np
import pytest
from scipy import stats

from taufpl.planning import precision_at, precision_lower_bound


def test_the_precision_bound_is_that_of_both_rates_together():
    low, each = 0.001, 1 - np.sqrt(0.95)
    recall, fpr = stats.beta.ppf(each, 300, 101), stats.beta.ppf(1 - each, 151, 19_850)
    expected = low * recall / (low * recall + (1 - low) * fpr)
    for base_rate in (low, (low, 0.5)):
        assert precision_lower_bound(150, 20_000, 300, 400, base_rate) == pytest.approx(expected, rel=1e-9)
    assert precision_lower_bound(0, 100, 0, 100, 0.01) == 0.0


def test_the_precision_bound_holds_as_often_as_it_says():
    rng, recall, fpr, base_rate = np.random.default_rng(0), 0.4, 0.02, 0.01
    draws = zip(rng.binomial(500, fpr, 2000), rng.binomial(60, recall, 2000), strict=True)
    bounds = np.array([precision_lower_bound(int(x), 500, int(t), 60, base_rate, 0.2) for x, t in draws])
    failures = int(np.sum(bounds > precision_at(base_rate, recall, fpr)))
    assert failures <= stats.binom.ppf(1 - 1e-6, bounds.size, 0.2)


@pytest.mark.parametrize("base_rate", [0.0, 1.0, (0.3, 0.2), (0.1, 0.2, 0.3), -0.1])
def test_a_base_rate_is_a_share_or_a_range(base_rate):
    with pytest.raises(ValueError, match="base_rate must be"):
        precision_lower_bound(1, 10, 1, 10, base_rate)
