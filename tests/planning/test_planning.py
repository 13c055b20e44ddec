"""Budgets, plans for labels, and bounds on precision, judged by scipy's distributions and by draws with known truth."""

import numpy as np
import pytest
from scipy import stats

from taufpl import ScoreScreen
from taufpl.planning import alarm_budget, np_roc, plan_labels, precision_at, precision_lower_bound
from taufpl.planning._guarantee import RecallForecast
from taufpl.thresholding import OrderStatistic, negatives_needed, simultaneous_ranks


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


@pytest.mark.parametrize("looks", [1, 4, "any"])
def test_more_looks_need_more_negatives(looks):
    budget, rng = alarm_budget(300, 10_000, 0.005, looks=looks), np.random.default_rng(0)
    with pytest.raises(ValueError, match="negatives that choose the threshold; 10 may do so") as raised:
        alarm_budget(300, 10_000, 0.005, n_negative=10, looks=looks)
    needed = int(str(raised.value).split(" takes ")[-1].split()[0].replace(",", ""))
    assert alarm_budget(300, 10_000, 0.005, n_negative=needed, looks=looks) == budget
    screen = ScoreScreen(tau=budget.tau, delta=budget.delta_threshold, looks=looks, pos_label=1)
    assert screen.fit(rng.random(needed), np.zeros(needed)).evidence_.guaranteed
    with pytest.raises(ValueError, match="negatives"):
        screen.fit(rng.random(needed - 1), np.zeros(needed - 1))


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


@pytest.mark.parametrize(("tau", "delta", "n"), [(0.001, 0.05, 5000), (0.05, 0.2, 40), (0.01, 0.05, 200)])
def test_a_plan_counts_as_binomials_do(tau, delta, n):
    plan = plan_labels(tau, delta, n)
    assert (1 - tau) ** plan.n_needed <= delta < (1 - tau) ** (plan.n_needed - 1)
    assert [each.n_negative for each in plan.all_choose] == [n, 2 * n, 10 * n]
    for each in (*plan.held_out, *plan.all_choose, *plan.curve):
        m, j = each.n_threshold, each.n_above
        assert m <= each.n_negative
        if j is None:
            assert m < plan.n_needed
            continue
        assert stats.binom.cdf(j, m, tau) <= delta < stats.binom.cdf(j + 1, m, tau)
        assert each.usable_share == pytest.approx(stats.beta.mean(j + 1, m - j) / tau)
    assert all(each.n_threshold < each.n_negative for each in plan.held_out)


def test_the_planned_recall_is_near_the_truth_and_its_interval_holds_it():
    rng, shift, n, above, delta, n_draws = np.random.default_rng(0), 2.0, 1000, 4, 0.1, 100
    fpr = stats.beta.ppf((np.arange(2000) + 0.5) / 2000, above + 1, n - above)
    truth, planned, missed = stats.norm.sf(stats.norm.isf(fpr) - shift).mean(), [], 0
    for seed in range(n_draws):
        forecast = RecallForecast.from_scores(rng.normal(size=800), rng.normal(shift, size=100))
        low, high = forecast.interval(n, above, delta, seed)
        missed += not low <= truth <= high
        planned.append(forecast.expect(n, above))
    assert np.mean(planned) == pytest.approx(truth, abs=4 * np.std(planned) / np.sqrt(n_draws))
    assert missed <= stats.binom.ppf(0.9999, n_draws, delta)


def test_the_planned_recall_knows_ties():
    """Whole numbers as scores, against thresholds that fresh negatives really choose."""
    rng, n = np.random.default_rng(0), 400
    forecast = RecallForecast.from_scores(rng.poisson(2, 20_000), rng.poisson(6, 20_000))
    chosen = [OrderStatistic(0.05).choose(rng.poisson(2, n).astype(float)) for _ in range(500)]
    truth = stats.poisson.sf([each.threshold for each in chosen], 6).mean()
    assert forecast.expect(n, n - chosen[0].rank) == pytest.approx(truth, abs=0.02)


def test_a_plan_for_recall_takes_scores_of_both_classes():
    with pytest.raises(ValueError, match="go together"):
        plan_labels(0.1, negative_scores=[1.0])
    with pytest.raises(ValueError, match="negatives must be at least 1"):
        plan_labels(0.1, negatives=0)


@pytest.mark.parametrize("rounded", [False, True])
def test_np_roc_is_the_screen_that_each_tolerance_would_get(rounded):
    rng = np.random.default_rng(0)
    negative, positive = rng.normal(size=3000), rng.normal(1.5, size=250)
    if rounded:
        negative, positive = negative.round(1), positive.round(1)
    curve = np_roc(negative, positive, delta=0.1)
    assert curve.at(0.0005) is None
    for tau in (0.001, 0.01, 0.0234, 0.1):
        threshold = OrderStatistic(tau, 0.1).choose(negative).threshold
        caught = int(np.sum(positive > threshold))
        expected = (
            caught / 250,
            stats.beta.ppf(0.05, caught, 251 - caught),
            stats.beta.ppf(0.95, caught + 1, 250 - caught),
        )
        assert curve.at(tau) == pytest.approx(expected)
    # Each step is where the binomial tail allows one more negative above.
    tails = stats.binom.cdf(curve.n_above[:-1], 3000, curve.tolerances[:-1])
    assert tails == pytest.approx(np.full(tails.size, 0.1), rel=1e-6)


def test_np_roc_holds_for_a_list_of_tolerances_together():
    rng, taus, delta, broken, n_draws = np.random.default_rng(0), [0.02, 0.05, 0.1], 0.2, 0, 400
    for _ in range(n_draws):
        negative, positive = rng.random(500), rng.random(80) ** 0.2
        curve = np_roc(negative, positive, delta, taus=taus)
        broken += bool(np.any(1 - curve.thresholds > taus))
    assert curve.simultaneous
    assert curve.n_above.tolist() == [500 - rank for rank in simultaneous_ranks(500, taus, delta)]
    assert broken <= stats.binom.ppf(1 - 1e-6, n_draws, delta)
    assert broken > 0.5 * delta * n_draws
