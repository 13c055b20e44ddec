"""Budgets, plans for labels, and bounds on precision, judged by scipy's distributions and by draws with known truth."""

import numpy as np
import pytest
from scipy import stats

from taufpl.planning import alarm_budget, precision_at, precision_lower_bound
from taufpl.thresholding import OrderStatistic, negatives_needed


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


@pytest.mark.parametrize(("alarms", "volume", "base_rate"), [(400, 50_000, 0.001), (3, 1000, 0.0), (90, 100, 0.5)])
def test_a_budget_is_used_up_and_kept(alarms, volume, base_rate):
    budget = alarm_budget(alarms, volume, base_rate, delta=0.1)
    share = base_rate + (1 - base_rate) * budget.tau
    assert stats.binom.sf(alarms, volume, share) == pytest.approx(budget.delta_day, rel=1e-6)
    assert stats.binom.sf(alarms, volume, share) <= budget.delta_day
    assert budget.delta == pytest.approx(0.1)
    assert budget.expected_alarms == pytest.approx(volume * share)


def test_a_base_rate_from_labels_takes_its_share_of_delta():
    budget = alarm_budget(400, 50_000, positives=(30, 40_000), delta=0.06)
    assert budget.base_rate == pytest.approx(stats.beta.ppf(0.98, 31, 39_970))
    assert (budget.delta_threshold, budget.delta_base_rate, budget.delta_day) == pytest.approx((0.02, 0.02, 0.02))


@pytest.mark.parametrize("recall", [1.0, 0.5])
def test_days_keep_to_the_budget_as_often_as_promised(recall):
    """Uniform scores of negatives: FPR is 1 - threshold; labels and negatives are drawn anew every time."""
    rng, base_rate, volume, alarms, exceeded, n_draws = np.random.default_rng(1), 0.01, 5000, 150, 0, 2000
    for _ in range(n_draws):
        labels = int(rng.binomial(4000, base_rate))
        budget = alarm_budget(alarms, volume, positives=(labels, 4000), n_negative=900, delta=0.2)
        fpr = 1 - OrderStatistic(budget.tau, budget.delta_threshold).choose(rng.random(900)).threshold
        n_positive = rng.binomial(volume, base_rate)
        exceeded += rng.binomial(volume - n_positive, fpr) + rng.binomial(n_positive, recall) > alarms
    assert exceeded <= stats.binom.ppf(1 - 1e-6, n_draws, 0.2)


@pytest.mark.parametrize(("base_rate", "n_negative"), [(0.002, None), (0.001, 500), (0.0, 500)])
def test_the_smallest_budget_that_could_be_met_is_named(base_rate, n_negative):
    options = {"volume": 50_000, "base_rate": base_rate, "n_negative": n_negative}
    with pytest.raises(ValueError, match="cannot be promised") as raised:
        alarm_budget(80, **options)
    fewest = int(str(raised.value).split("met is ")[1].split()[0].replace(",", ""))
    met = alarm_budget(fewest, **options)
    assert n_negative is None or negatives_needed(met.tau, 0.025) <= n_negative
    with pytest.raises(ValueError, match="cannot be promised"):
        alarm_budget(fewest - 1, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((400, 400), {"base_rate": 0.1}, "which no day can exceed"),
        ((0, 400), {"base_rate": 0.1}, "alarms_per_day must be at least 1"),
        ((4, 400), {}, "either base_rate"),
        ((4, 400), {"base_rate": 0.1, "positives": (1, 2)}, "either base_rate"),
        ((4, 400), {"base_rate": 2}, "write 0.01 for 1 %"),
        ((4, 400), {"positives": (5, 5)}, "would be all rows"),
    ],
)
def test_bad_budgets_are_refused(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        alarm_budget(*arguments, **options)
