"""What the thresholds promise, over thousands of independent draws with a false-positive rate known in closed form."""

import math
from fractions import Fraction
from itertools import accumulate, pairwise, product

import numpy as np
import pytest
from scipy import stats

from taufpl.thresholding import (
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    TrainQuantile,
    negatives_needed,
    order_rank,
    simultaneous_ranks,
)

N_DRAWS = 3000
CASES = [(0.1, 0.05, 4), (0.1, 0.2, 1), (0.01, 0.05, 1), (0.01, 0.2, 4)]
CASES += [
    pytest.param(tau, delta, factor, marks=pytest.mark.slow)
    for tau in (0.1, 0.01, 0.001)
    for delta in (0.05, 0.2)
    for factor in (1, 4)
    if (tau, delta, factor) not in CASES
]

pytestmark = pytest.mark.statistics


def standard_error(rate):
    return np.sqrt(rate * (1 - rate) / N_DRAWS)


def attainable(n, tau, delta):
    """The largest P(Binomial(n, tau) <= j) within delta: what continuous scores must give."""
    tails = stats.binom.cdf(np.arange(n), n, tau)
    return tails[tails <= delta].max()


def violations(rule, draw, true_fpr, n_draws=N_DRAWS):
    return np.mean([true_fpr(rule.choose(draw()).threshold) > rule.tau for _ in range(n_draws)])


@pytest.mark.parametrize(("tau", "delta", "factor"), CASES)
def test_continuous_scores_fail_as_often_as_the_tail_says(tau, delta, factor):
    rng = np.random.default_rng(1)
    n = factor * negatives_needed(tau, delta)
    rate = violations(OrderStatistic(tau, delta), lambda: rng.random(n), lambda t: 1.0 - t)
    level = attainable(n, tau, delta)
    # At most delta, and not wasteful: exactly what the discreteness of ranks allows.
    assert level <= delta
    assert abs(rate - level) <= 4 * standard_error(level)


@pytest.mark.parametrize(("tau", "delta", "factor"), CASES)
@pytest.mark.parametrize("atoms", ["at the edge", "coarse", "one"])
def test_tied_scores_hold_the_tolerance(tau, delta, factor, atoms):
    # Survival of each value; the edge, where one value lies just beyond the tolerance, is the worst case for ties.
    survival = {
        "at the edge": np.array([0.7, 1.001 * tau, 0.4 * tau, 0.0]),
        "coarse": np.append(np.linspace(0.9, 0.5 * tau, 6), 0.0),
        "one": np.array([0.0]),
    }[atoms]
    rng = np.random.default_rng(2)
    n = factor * negatives_needed(tau, delta)

    def draw():
        # The v-th value has survival[v] of the probability above it.
        return np.searchsorted(-survival, -rng.random(n), side="left").astype(float)

    rate = violations(OrderStatistic(tau, delta), draw, lambda t: survival[int(t)], n_draws=2000)
    assert rate <= delta + 4 * np.sqrt(delta * (1 - delta) / 2000)
    if atoms == "at the edge":
        # Not vacuous: with a value right at the tolerance the guarantee is used up.
        level = stats.binom.cdf(n - OrderStatistic(tau, delta).choose(np.zeros(n)).rank, n, 1.001 * tau)
        assert abs(rate - level) <= 4 * np.sqrt(level * (1 - level) / 2000)


def test_the_upper_bound_of_a_rank_fails_with_probability_delta():
    # FPR of the r-th smallest of n uniforms is Beta(n - r + 1, r): the bound is its quantile.
    rng = np.random.default_rng(3)
    rule = TrainQuantile(0.1)
    evidences = [rule.choose(rng.random(200)) for _ in range(N_DRAWS)]
    rate = np.mean([1.0 - e.threshold > e.fpr_upper_bound for e in evidences])
    assert abs(rate - 0.05) <= 4 * standard_error(0.05)
    mean = np.mean([1.0 - e.threshold for e in evidences])
    assert mean == pytest.approx(evidences[0].expected_fpr, abs=4 * 0.03 / np.sqrt(N_DRAWS))


def test_the_plain_rules_break_the_tolerance_about_every_other_time():
    rng = np.random.default_rng(4)
    rate = violations(TrainQuantile(0.05), lambda: rng.random(400), lambda t: 1.0 - t)
    exact = stats.binom.cdf(20, 400, 0.05)
    assert abs(rate - exact) <= 4 * standard_error(exact)
    assert rate > 0.4
    rule = NPScoreRule(0.05)
    thresholds = [rule.choose(rng.random(400), 1.0 - rng.random(100) ** 3).threshold for _ in range(500)]
    assert np.mean([1.0 - t > 0.05 for t in thresholds]) > 0.3


# Several tolerances.


def exact_joint_failure(n, taus, above):
    """P(N_i <= above_i for some i) by all ways to put n negatives into the slices between the quantiles."""
    edges = [Fraction(0), *map(Fraction, taus), Fraction(1)]
    shares = [b - a for a, b in pairwise(edges)]
    failure = Fraction(0)
    for counts in product(range(n + 1), repeat=len(taus)):
        rest = n - sum(counts)
        if rest >= 0 and any(c <= j for c, j in zip(np.cumsum(counts), above, strict=True)):
            cells = (*counts, rest)
            ways = math.factorial(n) // math.prod(map(math.factorial, cells))
            failure += ways * math.prod(p**c for p, c in zip(shares, cells, strict=True))
    return failure


@pytest.mark.parametrize("n", [4, 9, 16])
@pytest.mark.parametrize("taus", [(0.5, 0.75), (0.2, 0.3, 0.6), (0.4, 0.401)])
@pytest.mark.parametrize("delta", [0.05, 0.2, 0.6])
def test_simultaneous_ranks_hold_together_in_rational_numbers(n, taus, delta):
    ranks = simultaneous_ranks(n, taus, delta)
    above = [-1 if r is None else n - r for r in ranks]
    assert exact_joint_failure(n, taus, above) <= Fraction(delta)
    for tau, j in zip(taus, above, strict=True):
        equal_share = order_rank(n, tau, delta / len(taus))
        assert j >= (-1 if equal_share is None else n - equal_share)


def highest_that_hold(n, taus, delta):
    """Counts above the thresholds at the highest common level that holds in rational numbers, tried one by one."""
    tails = [
        list(accumulate(math.comb(n, i) * Fraction(tau) ** i * (1 - Fraction(tau)) ** (n - i) for i in range(n)))
        for tau in taus
    ]
    levels = {tail for own in tails for tail in own if Fraction(delta) / len(taus) < tail < Fraction(delta)}
    for level in (*sorted(levels, reverse=True), Fraction(delta) / len(taus)):
        above = [sum(tail <= level for tail in own) - 1 for own in tails]
        if exact_joint_failure(n, taus, above) <= Fraction(delta):
            return above
    raise AssertionError("the equal share always holds")


@pytest.mark.parametrize(("n", "delta"), [(7, 0.3), (12, 0.05), (12, 0.2)])
@pytest.mark.parametrize("taus", [(0.5, 0.75), (0.2, 0.3), (0.4, 0.41), (0.3, 0.6, 0.8)])
def test_simultaneous_ranks_are_the_lowest_that_hold_together(n, taus, delta):
    ranks = simultaneous_ranks(n, taus, delta)
    assert [-1 if r is None else n - r for r in ranks] == highest_that_hold(n, taus, delta)


def test_several_tolerances_have_the_evidence_of_their_ranks():
    taus, scores = (0.1, 0.02), np.random.default_rng(6).permutation(400.0 * np.arange(1, 301))
    rule = JointOrderStatistic(taus, 0.1, "infinite")
    for found, rank, tau in zip(rule.choose_all(scores), simultaneous_ranks(300, taus, 0.1), taus, strict=True):
        assert (found.threshold, found.rank, found.tau, found.delta) == (400.0 * rank, rank, tau, 0.1)
        assert (found.guaranteed, found.n_false_positive, found.n_negative) == (True, 300 - rank, 300)
    assert rule.n_needed == negatives_needed(0.02, 0.05)
    assert JointOrderStatistic((0.1,), 0.1).choose_all(scores) == (OrderStatistic(0.1, 0.1).choose(scores),)
    needed = negatives_needed(0.001, 0.05)
    with pytest.raises(
        ValueError, match=f"delta=0.1, shared among 2 tolerances, needs at least {needed} negatives .* 300"
    ):
        JointOrderStatistic((0.1, 0.001), 0.1).choose_all(scores)
    with pytest.raises(ValueError, match=f"delta=0.1 needs at least {negatives_needed(0.001, 0.1)} negatives"):
        JointOrderStatistic((0.001,), 0.1).choose_all(scores)
    found = JointOrderStatistic((0.1, 0.001), 0.1, "infinite").choose_all(scores)
    assert [(each.threshold, each.guaranteed) for each in found] == [(400.0 * found[0].rank, True), (np.inf, True)]


def test_simultaneous_ranks_keep_the_order_given_and_join_equals():
    n, taus = 3000, [0.1, 0.01, 0.1, 0.05]
    ranks = simultaneous_ranks(n, taus, 0.05)
    assert ranks[0] == ranks[2]
    assert (ranks[1], ranks[3], ranks[0]) == simultaneous_ranks(n, sorted(set(taus)), 0.05)
    assert simultaneous_ranks(n, [0.05], 0.05) == (order_rank(n, 0.05, 0.05),)
    assert simultaneous_ranks(0, [0.05, 0.1], 0.05) == (None, None)


def test_simultaneous_ranks_gain_on_equal_shares():
    taus = [0.01, 0.02, 0.05, 0.1]
    joint = simultaneous_ranks(10**5, taus, 0.05)
    assert all(order_rank(10**5, t, 0.05) <= r < order_rank(10**5, t, 0.0125) for t, r in zip(taus, joint, strict=True))


def test_simultaneous_ranks_of_very_many_negatives_share_equally():
    assert simultaneous_ranks(10**9, [0.1, 0.2]) == tuple(order_rank(10**9, t, 0.025) for t in (0.1, 0.2))


@pytest.mark.parametrize("tied", [False, True])
def test_several_tolerances_hold_together(tied):
    taus, delta, n = np.array([0.005, 0.01, 0.02, 0.05, 0.1]), 0.05, 2000
    ranks = np.array(simultaneous_ranks(n, taus, delta))
    rng = np.random.default_rng(5)
    uniforms = rng.random((N_DRAWS, n))
    if tied:
        # Values with survivals just beyond the tolerances, written as the uniform of their upper end.
        ends = np.append(np.sort(1.0 - 1.0001 * taus), 1.0)
        uniforms = ends[np.searchsorted(ends, uniforms)]
    thresholds = np.partition(uniforms, ranks - 1, axis=1)[:, ranks - 1]
    rate = np.mean((1.0 - thresholds > taus).any(axis=1))
    assert rate <= delta + 4 * standard_error(delta)
    # Equal shares would fail far less often than allowed.
    assert rate >= 0.9 * delta - 4 * standard_error(delta)
