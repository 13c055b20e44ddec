"""Thresholds against counting, exact rational tails, and a search over all thresholds."""

import math
import pickle
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import (
    Evidence,
    NPScoreRule,
    OrderStatistic,
    Rounds,
    TrainQuantile,
    fpr_upper_bound,
    negatives_needed,
    order_rank,
    share_above,
    simultaneous_ranks,
    stratified_rounds,
    top_threshold,
)

# Few distinct values, so that ties are the rule.
TIED = hnp.arrays(np.float64, st.integers(1, 40), elements=st.integers(-3, 3).map(float))
ANY = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=False))
SHARES = st.floats(0.001, 0.999)


def exact_tail(n, tau, j):
    """P(Binomial(n, tau) <= j) in rational numbers, for the float tau as it is."""
    p, q = Fraction(tau).as_integer_ratio()
    return Fraction(sum(math.comb(n, i) * p**i * (q - p) ** (n - i) for i in range(j + 1)), q**n)


def exact_rank(n, tau, delta):
    """The smallest rank by definition, from the tails added up one by one."""
    p, tail, rank = Fraction(tau), Fraction(0), None
    for j in range(n):
        tail += math.comb(n, j) * p**j * (1 - p) ** (n - j)
        if tail > Fraction(delta):
            break
        rank = n - j
    return rank


# The plain quantile.


@given(st.one_of(TIED, ANY), st.floats(0, 0.999))
def test_top_threshold_is_the_lowest_score_within_the_tolerance(scores, tau):
    allowed = math.floor(Fraction(tau) * scores.size * (1 + Fraction(1, 10**15)))
    threshold = top_threshold(scores, tau)
    assert threshold in scores
    assert np.count_nonzero(scores > threshold) <= allowed
    lower = scores[scores < threshold]
    assert lower.size == 0 or np.count_nonzero(scores > lower.max()) > allowed


@pytest.mark.parametrize(("tau", "count"), [(0.07, 7), (0.29, 29), (0.57, 57), (0.0, 0)])
def test_whole_products_are_not_lost_to_rounding(tau, count):
    assert np.count_nonzero(np.arange(100) > top_threshold(np.arange(100), tau)) == count


@given(TIED, TIED, SHARES)
def test_share_above_counts_strictly(positives, negatives, tau):
    threshold = sorted(negatives, reverse=True)[min(math.floor(tau * negatives.size), negatives.size - 1)]
    assert share_above(positives, negatives, tau) == sum(s > threshold for s in positives) / positives.size


def test_scores_that_are_all_equal_catch_nobody():
    assert share_above(np.ones(5), np.ones(7), 0.5) == 0.0


def test_infinite_scores_and_other_types_have_a_rank():
    assert top_threshold([-np.inf, 0.0, np.inf, np.inf], 0.3) == np.inf
    assert top_threshold(np.array([1, 2, 3, 4], dtype=np.int8), 0.25) == 3.0
    scores = np.arange(8, dtype=np.float32)[::2]
    scores.flags.writeable = False
    assert top_threshold(scores, 0.25) == 4.0


# Ranks.


@pytest.mark.parametrize("tau", [0.5, 0.25, 0.1, 0.05, 0.3, 0.9, 0.01])
@pytest.mark.parametrize("delta", [0.05, 0.2, 0.5, 0.9, 2**-6])
def test_order_rank_is_the_definition_in_rational_numbers(tau, delta):
    for n in (0, 1, 2, 3, 6, 7, 20, 59, 130):
        assert order_rank(n, tau, delta) == exact_rank(n, tau, delta)


@pytest.mark.parametrize(("n", "j"), [(6, 0), (6, 2), (40, 11), (300, 130), (1000, 470)])
def test_order_rank_decides_exact_ties_and_their_neighbours(n, j):
    # At tau = 1/2 a tail is a whole number over 2^n: rounded to a float it lies just above or below itself.
    tail = exact_tail(n, 0.5, j)
    delta = float(tail)
    expected = n - j if Fraction(delta) >= tail else (n - j + 1 if j else None)
    assert order_rank(n, 0.5, delta) == expected
    assert order_rank(n, 0.5, math.nextafter(delta, 1)) == n - j
    lower = math.nextafter(delta, 0)
    assert order_rank(n, 0.5, lower) == (n - j + 1 if j else None)


def test_a_tail_that_is_too_long_for_whole_numbers_counts_as_beyond_delta():
    """So close to delta that floats cannot tell: whole numbers still can for 2,400 negatives, not for 2,600."""
    for n, is_decided in ((2400, True), (2600, False)):
        j = 15
        delta = float(exact_tail(n, 0.01, j))
        near = 1e-12 * delta
        assert order_rank(n, 0.01, delta + near) == (n - j if is_decided else n - j + 1)
        assert order_rank(n, 0.01, delta - near) == n - j + 1
        assert order_rank(n, 0.01, 1.001 * delta) == n - j


@given(st.integers(1, 100), SHARES, SHARES)
def test_order_rank_bounds_the_tail_and_no_lower_rank_does(n, tau, delta):
    rank = order_rank(n, tau, delta)
    if rank is None:
        assert (1 - Fraction(tau)) ** n > Fraction(delta)
        assert n < negatives_needed(tau, delta)
    else:
        assert exact_tail(n, tau, n - rank) <= Fraction(delta)
        assert rank == 1 or exact_tail(n, tau, n - rank + 1) > Fraction(delta)
        assert n >= negatives_needed(tau, delta)


@pytest.mark.parametrize("n", [10**4, 10**6, 10**8])
@pytest.mark.parametrize("tau", [0.001, 0.05, 0.5])
def test_order_rank_of_many_negatives_is_near_the_normal_one(n, tau):
    mean, spread = n * tau, math.sqrt(n * tau * (1 - tau))
    z = stats.norm.ppf(0.05)
    # Cornish-Fisher to the second order is good to much less than a count; the rank counts whole ones.
    above = mean + z * spread + (z * z - 1) * (1 - 2 * tau) / 6 - 0.5
    assert abs(n - order_rank(n, tau, 0.05) - math.floor(above)) <= 1


def test_order_rank_grows_with_care():
    ranks = [order_rank(5000, 0.01, delta) for delta in (0.5, 0.2, 0.05, 0.01, 1e-6)]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


@pytest.mark.parametrize(("tau", "n"), [(0.05, 59), (0.01, 299), (0.001, 2995)])
def test_negatives_needed_by_the_paper_and_pencil(tau, n):
    assert negatives_needed(tau, 0.05) == n
    assert order_rank(n, tau, 0.05) == n
    assert order_rank(n - 1, tau, 0.05) is None


@given(SHARES, SHARES)
def test_negatives_needed_in_rational_numbers(tau, delta):
    n = negatives_needed(tau, delta)
    assume(n < 2000)
    q = 1 - Fraction(tau)
    assert q**n <= Fraction(delta)
    assert n == 1 or q ** (n - 1) > Fraction(delta)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 1074])
def test_negatives_needed_at_exact_powers(n):
    assert negatives_needed(0.5, 2.0**-n) == n
    assert n == 1074 or negatives_needed(0.5, math.nextafter(2.0**-n, 0)) == n + 1


@pytest.mark.parametrize("tau", [0.1, 0.25, 0.3, 0.75, 0.9])
def test_negatives_needed_where_delta_is_a_rounded_power(tau):
    for n in range(1, 100):
        power = (1 - Fraction(tau)) ** n
        delta = float(power)
        assert negatives_needed(tau, delta) == (n if power <= Fraction(delta) else n + 1)


@pytest.mark.parametrize("tau", [1e-9, 1e-15, 1e-300])
def test_negatives_needed_at_tiny_tolerances(tau):
    assert negatives_needed(tau, 0.05) == pytest.approx(-math.log(0.05) / tau, rel=1e-9)


# The upper bound.


@pytest.mark.parametrize(("x", "n"), [(0, 1), (0, 299), (1, 2), (3, 50), (49, 50), (20, 400)])
@pytest.mark.parametrize("delta", [0.05, 0.2, 1e-9])
def test_upper_bound_has_the_tail_delta(x, n, delta):
    bound = fpr_upper_bound(x, n, delta)
    assert float(exact_tail(n, bound, x)) == pytest.approx(delta, rel=1e-9)


def test_upper_bound_of_arrays_and_edges():
    assert fpr_upper_bound(0, 0) == fpr_upper_bound(5, 5) == 1.0
    assert fpr_upper_bound(0, 1, 0.25) == pytest.approx(0.75, rel=1e-15)
    bounds = fpr_upper_bound(np.arange(5), 10)
    assert bounds.shape == (5,)
    assert bounds.tolist() == [fpr_upper_bound(x, 10) for x in range(5)]
    assert np.all(np.diff(bounds) > 0)
    assert fpr_upper_bound([[0], [1]], [10, 20, 30]).shape == (2, 3)


@given(st.integers(1, 3000), SHARES, SHARES)
def test_upper_bound_of_the_chosen_rank_keeps_the_tolerance(n, tau, delta):
    rank = order_rank(n, tau, delta)
    if rank is not None:
        assert fpr_upper_bound(n - rank, n, delta) <= tau * (1 + 1e-10)


# Rules.


def test_train_quantile_is_proposition_1():
    evidence = TrainQuantile(0.2).choose(np.arange(10.0))
    assert evidence == Evidence(7.0, 0.2, None, 10, 2, 0.2, fpr_upper_bound(2, 10), rank=8, guaranteed=False)
    assert TrainQuantile(0.0).choose([1.0, 3.0, 2.0]).threshold == 3.0


@given(st.one_of(TIED, ANY), SHARES, SHARES)
def test_order_statistic_takes_its_rank(scores, tau, delta):
    evidence = OrderStatistic(tau, delta, insufficient="infinite").choose(scores)
    rank = order_rank(scores.size, tau, delta)
    assert evidence.rank == rank
    assert evidence.guaranteed
    assert evidence.threshold == (np.inf if rank is None else np.sort(scores)[rank - 1])
    assert evidence.n_negative == scores.size
    assert evidence.n_false_positive == np.count_nonzero(scores > evidence.threshold)
    assert evidence.fpr_estimate == evidence.n_false_positive / scores.size
    assert evidence.fpr_upper_bound <= tau * (1 + 1e-10)


def test_order_statistic_without_ties_describes_its_rank():
    evidence = OrderStatistic(0.05).choose(np.random.default_rng(0).permutation(1000))
    assert evidence.fpr_estimate == (1000 - evidence.rank) / 1000 == 0.038
    assert evidence.expected_fpr == (1001 - evidence.rank) / 1001
    assert evidence.rounds is None


def test_ties_do_not_lower_the_upper_bound():
    # All negatives equal: none is above the threshold, and yet n - r of them count in the bound.
    evidence = OrderStatistic(0.1).choose(np.zeros(500))
    assert evidence.n_false_positive == 0
    assert evidence.fpr_upper_bound == fpr_upper_bound(500 - evidence.rank, 500)


def test_too_few_negatives_raise_by_default():
    with pytest.raises(
        ValueError, match=r"needs at least 299 negatives .* got 298\. Hold out more negatives, raise tau"
    ):
        OrderStatistic(0.01).choose(np.zeros(298))


def test_too_few_negatives_predict_nobody_on_request():
    evidence = OrderStatistic(0.01, insufficient="infinite").choose(np.zeros(298))
    assert (evidence.threshold, evidence.fpr_estimate, evidence.fpr_upper_bound) == (np.inf, 0.0, 0.0)
    assert evidence.guaranteed
    assert evidence.rank is None
    assert evidence.expected_fpr is None


def test_too_few_negatives_warn_and_take_the_largest_on_request():
    with pytest.warns(TooFewNegativesWarning, match=r"at least 299 negatives .* FPR is at most 0\.0295, not 0\.01"):
        evidence = OrderStatistic(0.01, insufficient="largest").choose(np.arange(100.0))
    assert (evidence.threshold, evidence.rank, evidence.guaranteed) == (99.0, 100, False)
    assert evidence.fpr_upper_bound == fpr_upper_bound(0, 100) > 0.01
    assert evidence.expected_fpr == 1 / 101


def brute_force_np_threshold(negatives, positives, tau):
    """Try all distinct scores in rational numbers, the highest first."""
    best, choice = None, None
    tau = Fraction(tau)
    for t in sorted({*negatives.tolist(), *positives.tolist()}, reverse=True):
        fpr = Fraction(int(np.sum(negatives > t)), negatives.size)
        # A rate that rounds to the tolerance is meant to be equal to it.
        fpr = tau if float(fpr) == float(tau) else fpr
        value = max(fpr, tau) / tau - Fraction(int(np.sum(positives > t)), positives.size)
        if best is None or float(value) < float(best) - 1e-13:
            best, choice = value, t
    return choice


@given(st.one_of(TIED, ANY), st.one_of(TIED, ANY), st.one_of(SHARES, st.sampled_from([0.1, 0.2, 0.25, 0.5])))
def test_np_score_rule_minimises_over_all_thresholds(negatives, positives, tau):
    evidence = NPScoreRule(tau).choose(negatives, positives)
    assert evidence.threshold == brute_force_np_threshold(negatives, positives, tau)
    assert evidence.n_false_positive == np.count_nonzero(negatives > evidence.threshold)
    assert (evidence.rank, evidence.guaranteed, evidence.delta) == (None, False, None)
    assert evidence.fpr_upper_bound == fpr_upper_bound(evidence.n_false_positive, negatives.size)


def test_np_score_rule_takes_the_most_careful_of_equals():
    # One more false positive costs 1/(n tau) = .1, one more true positive earns 1/m = .1: equal, so go no lower.
    negatives = np.concatenate((np.full(10, 5.0), [3.0], np.zeros(89)))
    positives = np.concatenate((np.full(9, 6.0), [2.0]))
    assert NPScoreRule(0.1).choose(negatives, positives).threshold == 5.0


def test_np_score_rule_on_classes_apart_and_reversed():
    assert NPScoreRule(0.1).choose([0.0, 1.0], [2.0, 3.0]).threshold == 1.0
    assert NPScoreRule(0.1).choose([2.0, 3.0], [0.0, 1.0]).threshold == 3.0
    assert NPScoreRule(0.9).choose([2.0, 3.0], [0.0, *[1.0] * 9]).threshold == 0.0  # nine in ten may be above


@pytest.mark.parametrize("rule", [TrainQuantile(0.1), OrderStatistic(0.1), NPScoreRule(0.1)])
def test_rules_travel(rule):
    assert pickle.loads(pickle.dumps(rule)) == rule
    evidence = rule.choose(np.arange(100.0), np.arange(100.0))
    assert pickle.loads(pickle.dumps(evidence)) == evidence
    assert not replace(evidence, guaranteed=False).guaranteed


@pytest.mark.parametrize("rule", [OrderStatistic(0.1), NPScoreRule(0.1)])
def test_rules_are_frozen(rule):
    with pytest.raises(FrozenInstanceError):
        rule.tau = 0.2


def test_rounds_know_their_spread():
    zeros = np.zeros(3)
    assert Rounds(np.array([1.0, 2.0, 4.0]), zeros, zeros).spread == pytest.approx(math.sqrt(7 / 3))
    assert Rounds(np.array([1.0]), zeros[:1], zeros[:1]).spread == 0.0
    assert Rounds(np.array([1.0, np.inf]), zeros[:2], zeros[:2]).spread == np.inf


# Splits.


@given(st.integers(2, 30), st.integers(2, 30), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_rounds_split_both_classes(n_positive, n_negative, share, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([True, False], [n_positive, n_negative]))
    for train, held_out in stratified_rounds(y, 3, share, seed):
        assert np.array_equal(np.sort(np.concatenate((train, held_out))), np.arange(y.size))
        assert np.all(np.diff(train) > 0)
        assert np.all(np.diff(held_out) > 0)
        for part in (train, held_out):
            assert y[part].any()
            assert not y[part].all()
        for kind, n in ((y, n_positive), (~y, n_negative)):
            assert kind[train].sum() == min(max(round(share * n), 1), n - 1)


@pytest.mark.parametrize("source", [7, np.random.default_rng, np.random.RandomState])
def test_rounds_repeat_with_the_seed_and_differ_among_themselves(source):
    y = np.arange(60) % 3 == 0

    def make():
        return list(stratified_rounds(y, 4, rng=source if isinstance(source, int) else source(7)))

    first, second = make(), make()
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[0][0], first[1][0])
    assert len(first[0][0]) == 40


# Wrong use.


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: top_threshold([], 0.1), ValueError, "negative_scores must have at least one entry, got none"),
        (lambda: top_threshold([[1.0]], 0.1), ValueError, r"negative_scores must be one-dimensional, .*\(1, 1\)"),
        (lambda: top_threshold(["a"], 0.1), TypeError, "negative_scores must hold real numbers"),
        (lambda: top_threshold([0, np.nan], 0.1), ValueError, "must not hold NaN, got 1 of them, the first at index 1"),
        (lambda: top_threshold([0], 1.0), ValueError, r"tau must be at least 0 and below 1, got 1\.0"),
        (lambda: share_above([], [1.0], 0.1), ValueError, "positive_scores must have at least one entry"),
        (lambda: TrainQuantile(-0.1), ValueError, "tau must be at least 0 and below 1"),
        (lambda: OrderStatistic(0.0), ValueError, r"tau must be strictly between 0 and 1, got 0\.0.*0\.01 for 1 %"),
        (lambda: OrderStatistic(5), ValueError, "tau must be strictly between 0 and 1, got 5"),
        (lambda: OrderStatistic("5%"), TypeError, "tau must be a number, got '5%'"),
        (lambda: OrderStatistic(0.1, delta=1), ValueError, "delta must be strictly between 0 and 1, got 1"),
        (lambda: OrderStatistic(0.1, insufficient="no"), ValueError, "insufficient must be 'raise', .* got 'no'"),
        (lambda: NPScoreRule(1.0), ValueError, "tau must be strictly between"),
        (lambda: NPScoreRule(0.1).choose([1.0]), ValueError, "positive_scores must be given to NPScoreRule, got None"),
        (lambda: order_rank(-1, 0.1, 0.1), ValueError, "n must be at least 0, got -1"),
        (lambda: order_rank(10.5, 0.1, 0.1), TypeError, "n must be an integer, got 10.5"),
        (lambda: order_rank(10, True, 0.1), TypeError, "tau must be a number, got True"),
        (lambda: order_rank(10, 0.1, float("nan")), ValueError, "delta must be strictly between 0 and 1, got nan"),
        (lambda: negatives_needed(0.0), ValueError, "tau must be strictly between"),
        (
            lambda: fpr_upper_bound([5, 3], [5, 2]),
            ValueError,
            "n_false_positive must be at most n_negative, got 3 of 2 negatives",
        ),
        (lambda: fpr_upper_bound(-1, 2), ValueError, "n_false_positive must not be negative, got -1"),
        (lambda: fpr_upper_bound(0.5, 2), TypeError, "n_false_positive must hold whole numbers"),
        (lambda: fpr_upper_bound(1, 2, delta=0), ValueError, "delta must be strictly between"),
        (lambda: simultaneous_ranks(10, []), ValueError, "taus must be a list of one or more tolerances"),
        (lambda: simultaneous_ranks(10, 0.1), ValueError, "taus must be a list of one or more tolerances"),
        (lambda: simultaneous_ranks(10, [0.1, 2.0]), ValueError, r"taus\[1\] must be strictly between 0 and 1, got 2"),
        (lambda: stratified_rounds([0, 1], 3), ValueError, "y_is_positive must be a one-dimensional array of booleans"),
        (lambda: stratified_rounds([True, False], 0), ValueError, "n_rounds must be at least 1, got 0"),
        (lambda: stratified_rounds([True, False, False], 2), ValueError, "at least 2 positives, .* got 1"),
        (lambda: stratified_rounds([True, True], 2), ValueError, "at least 2 negatives, .* got 0"),
        (lambda: stratified_rounds([True, False] * 2, 2, 1.0), ValueError, "train_share must be strictly between"),
    ],
)
def test_wrong_use_is_explained(call, error, match):
    with pytest.raises(error, match=match):
        call()
