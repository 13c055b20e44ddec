"""Bounds on shares and verdicts on a tolerance, against binomial sums in rational numbers and SciPy's distributions."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

from taufpl import NeymanPearsonClassifier
from taufpl.monitoring import FPRMonitor
from taufpl.thresholding import (
    fpr_upper_bound,
    negatives_needed,
    negatives_to_settle,
    order_rank,
    share_interval,
    share_lower_bound,
    tolerance_verdict,
)


def tail_from(x, n, p):
    """P(Binomial(n, p) >= x), exactly."""
    p = Fraction(p)
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(x, n + 1))


@pytest.mark.parametrize(("x", "n"), [(0, 7), (1, 1), (3, 40), (40, 40), (11, 60)])
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_lower_bound_solves_its_equation(x, n, delta):
    bound = share_lower_bound(x, n, delta)
    if x == 0:
        assert bound == 0.0
    else:
        assert float(tail_from(x, n, bound)) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(("hits", "n", "delta"), [(0, 10, 0.05), (10, 10, 0.05), (3, 17, 0.2), (80, 100, 0.05)])
def test_share_interval_is_clopper_and_pearson(hits, n, delta):
    low, high = share_interval(hits, n, delta)
    assert low == pytest.approx(0.0 if hits == 0 else beta.ppf(delta / 2, hits, n - hits + 1), abs=1e-12)
    assert high == pytest.approx(1.0 if hits == n else beta.ppf(1 - delta / 2, hits + 1, n - hits), abs=1e-12)


@pytest.mark.parametrize("n", [1, 50, 298, 299, 1000, 5000])
def test_a_verdict_is_what_the_bounds_say(n):
    for x in {0, 1, n // 200, n // 100, n // 50, n}:
        lower, upper = share_lower_bound(x, n), fpr_upper_bound(x, n)
        expected = "kept" if upper <= 0.01 else "broken" if lower > 0.01 else "open"
        assert tolerance_verdict(x, n, 0.01) == expected


def quantile_verdict(found, n, tau, delta):
    """By Beta quantiles, at any real count."""
    if beta.ppf(1 - delta, found + 1, n - found) <= tau:
        return "kept"
    return "broken" if found > 0 and beta.ppf(delta, found, n - found + 1) > tau else "open"


@pytest.mark.parametrize(
    ("x", "n", "tau", "delta"),
    [(7, 1000, 0.01, 0.05), (13, 1000, 0.01, 0.05), (1, 300, 0.01, 0.1), (30, 400, 0.05, 0.01), (4, 30, 0.2, 0.05)],
)
def test_the_number_that_settles_is_the_smallest(x, n, tau, delta):
    needed = negatives_to_settle(x, n, tau, delta)
    assert needed > n
    verdicts = [quantile_verdict(x / n * total, total, tau, delta) for total in (needed - 1, needed)]
    assert verdicts == ["open", "kept" if x / n < tau else "broken"]


def test_where_a_bound_is_the_tolerance_only_the_upper_one_settles():
    """The lower bound must be above it; and what is open takes at least one negative more, whatever is rounded."""
    for n in range(5, 200, 3):
        for x in {1, 2, n // 4, n // 2, n - 1}:
            lower, upper = share_lower_bound(x, n, 0.1), fpr_upper_bound(x, n, 0.1)
            assert tolerance_verdict(x, n, upper, 0.1) == "kept"
            assert negatives_to_settle(x, n, upper, 0.1) == n
            for tau in (lower, np.nextafter(upper, 0)):
                assert tolerance_verdict(x, n, tau, 0.1) == "open"
                assert n < negatives_to_settle(x, n, tau, 0.1) <= n + 2


def test_without_false_positives_it_is_the_number_that_a_guarantee_takes():
    assert negatives_to_settle(0, 100, 0.01) == negatives_needed(0.01, 0.05) == 299
    assert negatives_to_settle(0, 299, 0.01) == 299


def test_close_calls_take_many_negatives_and_equal_rates_cannot_be_told_apart():
    # By the normal approximation z^2 tau (1 - tau) / (tau - rate)^2.
    assert negatives_to_settle(99, 10_000, 0.01) == pytest.approx(1.6449**2 * 0.0099 / 1e-8, rel=0.01)
    assert negatives_to_settle(100, 10_000, 0.01) is None
    for tau in (0.01 - 1e-10, 0.01 + 1e-10):  # that would take some 10^18
        assert negatives_to_settle(1000, 100_000, tau) is None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: share_lower_bound(3, 2), "at most the number of rows, got 3 of 2"),
        (lambda: negatives_to_settle(0, 0, 0.1), "n must be at least 1"),
        (lambda: tolerance_verdict(1, 2, 1.5), "write 0.01 for 1 %"),
    ],
)
def test_wrong_arguments(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


@pytest.mark.parametrize("tau", [5e-324, 1e-320, 2.3e-308])
def test_a_tolerance_beyond_the_reach_of_floats_is_refused_in_a_sentence(tau):
    X = np.random.default_rng(0).normal(size=(60, 2))
    asked = (
        negatives_needed,
        FPRMonitor,
        lambda tau: order_rank(10, tau, 0.05),
        lambda tau: NeymanPearsonClassifier(LogisticRegression(), tau, threshold="np").fit(X, X[:, 0] > 0),
    )
    for ask in asked:
        with pytest.raises(ValueError, match=r"tau must be at least 1e-300, got .*lost their digits"):
            ask(tau)
