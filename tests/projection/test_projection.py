"""The projections on long vectors, with and without a guess."""

from dataclasses import FrozenInstanceError
from math import fsum

import numpy as np
import pytest

from reference import assert_feasible, distance_in_roundings, sorted_capped, sorted_cone, sorted_simplex
from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex

EPS = float(np.finfo(float).eps)
ROUNDINGS = 256  # 6e-14: the errors of some thousand summands, and not yet those of a wrong active set

DISTRIBUTIONS = {
    "normal": lambda rng, n, k: rng.normal(size=n),
    "uniform": lambda rng, n, k: rng.uniform(-1, 1, n),
    "heavy tails": lambda rng, n, k: rng.standard_cauchy(n),
    "heavier tails": lambda rng, n, k: rng.standard_cauchy(n) ** 3,
    "exponential": lambda rng, n, k: rng.exponential(size=n) - 3,
    "few values": lambda rng, n, k: rng.integers(-2, 3, n).astype(float),
    "ties and noise": lambda rng, n, k: np.where(rng.random(n) < 0.5, 0.25, rng.normal(size=n)),
    "ascending": lambda rng, n, k: np.sort(rng.normal(size=n)),
    "descending": lambda rng, n, k: np.sort(rng.normal(size=n))[::-1],
    "constant": lambda rng, n, k: np.full(n, 0.1),
    "one outlier": lambda rng, n, k: np.where(np.arange(n) == n // 3, 1e6, rng.normal(size=n)),
    "one low outlier": lambda rng, n, k: np.where(np.arange(n) == n // 3, -1e12, rng.normal(size=n)),
    "gap at k": lambda rng, n, k: rng.permutation(rng.normal(size=n) + 100.0 * (np.arange(n) < k)),
    "spikes in few cache lines": lambda rng, n, k: rng.normal(size=n) + 50.0 * (np.arange(n) // 8 % 499 == 7),
    "scales": lambda rng, n, k: rng.normal(size=n) * 10.0 ** rng.integers(-9, 4, n),
    "offset": lambda rng, n, k: 1e9 + rng.normal(size=n),
    "holes": lambda rng, n, k: np.where(rng.random(n) < 0.3, -np.inf, rng.normal(size=n)),
}
# Those that differ most; the quick run does not ask the slowest tests for more.
QUICK = ("normal", "few values", "constant", "scales", "offset", "holes")


def check(alpha0, beta0, k, weight=1.0, **options):
    """Compare with the sorted twin; return the answer."""
    dtype = np.result_type(alpha0, beta0)
    found = project_topk_simplex(alpha0, beta0, k, weight=weight, **options)
    expected = sorted_simplex(alpha0, beta0, k, weight)
    assert_feasible(found[0], found[1], k, dtype, f"k={k}, weight={weight!r}")
    assert distance_in_roundings(alpha0, beta0, k, weight, found, expected, dtype) <= ROUNDINGS
    return found


def some_k(rng, n):
    return int(rng.choice([1, 7, n // 100, n // 3, n - 1, rng.integers(1, n + 1)]))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize(("m", "n"), [(3000, 100_000), pytest.param(40_000, 20_000, marks=pytest.mark.slow), (2500, 3)])
def test_long_vectors(name, m, n):
    rng = np.random.default_rng([m, *name.encode()])
    make = DISTRIBUTIONS[name]
    for weight in (1.0, float(10 ** rng.uniform(-4, 4))):
        k = min(max(some_k(rng, n), 1), n)
        check(make(rng, m, 1), make(rng, n, k), k, weight)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_alpha_and_beta_from_different_worlds(name):
    rng = np.random.default_rng([1, *name.encode()])
    other = DISTRIBUTIONS[str(rng.choice(sorted(DISTRIBUTIONS)))]
    n = 30_000
    k = some_k(rng, n)
    check(10.0 ** rng.integers(-6, 7) * other(rng, 5000, 1), DISTRIBUTIONS[name](rng, n, k), k)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_long_vectors_in_single_precision(name):
    rng = np.random.default_rng([2, *name.encode()])
    n = 50_000
    k = some_k(rng, n)
    alpha0, beta0 = (DISTRIBUTIONS[name](rng, size, k).astype(np.float32) for size in (8000, n))
    check(alpha0, beta0, k)


@pytest.mark.parametrize("k", [1, 50, 99_999, 100_000])
def test_ends_of_k_on_long_vectors(k):
    rng = np.random.default_rng(k)
    check(rng.normal(size=100_000), rng.normal(size=100_000), k)


def test_around_the_zero_case_on_long_vectors():
    rng = np.random.default_rng(0)
    beta0 = rng.integers(-50, 51, 20_000).astype(float)
    for k in (16, 4096):
        edge = -np.sort(beta0)[-k:].sum() / k
        alpha0 = edge - rng.integers(0, 9, 10_000)
        alpha0[4321] = edge
        alpha, beta = project_topk_simplex(alpha0, beta0, k)
        assert not alpha.any()
        assert not beta.any()
        alpha0[4321] += 2.0**-10
        alpha, beta = check(alpha0, beta0, k)
        assert alpha[4321] > 0


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each not in QUICK)) for each in DISTRIBUTIONS]
)
def test_cone_and_capped_simplex_on_long_vectors(name):
    rng = np.random.default_rng([3, *name.encode()])
    n = 40_000
    k = some_k(rng, n)
    beta0 = DISTRIBUTIONS[name](rng, n, k)
    finite = np.isfinite(beta0).sum()

    def distance(beta, expected):
        none = np.zeros(1)
        return distance_in_roundings(none, beta0, k, 1.0, (none, beta), (none, expected))

    expected = sorted_cone(beta0, k)
    beta = project_topk_cone(beta0, k)
    assert distance(beta, expected) <= ROUNDINGS
    assert beta.max() <= fsum(beta) / k * (1 + 16 * EPS)

    for total, cap in [(1.0, 1.0), (5.0, 0.01), (0.9 * finite, 1.0), (1.0, 1.0 / k), (1e-6, 1e3), (1e6, 1e5)]:
        if total > finite * cap:
            continue
        expected = sorted_capped(beta0, total, cap)
        beta = project_capped_simplex(beta0, total, cap)
        assert distance(beta, expected) <= ROUNDINGS, (total, cap)
        assert beta.max() <= cap, (total, cap)
        assert abs(fsum(beta) - total) <= 16 * EPS * total, (total, cap)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_guess_changes_nothing_but_the_time(name):
    rng = np.random.default_rng([4, *name.encode()])
    m, n = 4000, 20_000
    k = some_k(rng, n)
    alpha0, beta0 = DISTRIBUTIONS[name](rng, m, 1), DISTRIBUTIONS[name](rng, n, k)
    *plain, right = project_topk_simplex(alpha0, beta0, k, weight=2.0, return_thresholds=True)
    moved = alpha0 + 0.01 * rng.normal(size=m), beta0 + 0.01 * rng.normal(size=n)
    guesses = [right]
    for a, b, other_k in [
        (*moved, k),
        (alpha0, beta0, max(k // 2, 1)),
        (1e-6 * alpha0, 1e-6 * beta0, n),
        (1e9 + np.abs(rng.normal(size=5)), 1e9 * rng.normal(size=9), 9),
        (np.array([-1.0]), np.array([-1.0]), 1),
    ]:
        guesses.append(project_topk_simplex(a, b, other_k, return_thresholds=True)[2])
    for guess in guesses:
        *found, again = project_topk_simplex(alpha0, beta0, k, weight=2.0, guess=guess, return_thresholds=True)
        assert_feasible(*found, k, problem=repr(guess))
        assert distance_in_roundings(alpha0, beta0, k, 2.0, found, plain) <= ROUNDINGS, guess
        assert again.total == pytest.approx(fsum(found[0]), rel=16 * EPS), guess


def test_guesses_for_the_cone_and_the_capped_simplex():
    rng = np.random.default_rng(0)
    beta0 = rng.normal(size=30_000)
    calls = {
        "cone": lambda b, **options: project_topk_cone(b, 300, **options),
        "capped": lambda b, **options: project_capped_simplex(b, 100.0, 0.5, **options),
    }
    for project in calls.values():
        plain, right = project(beta0, return_thresholds=True)
        wrong = project(100 + 3 * beta0, return_thresholds=True)[1]
        for guess in (right, wrong):
            np.testing.assert_allclose(project(beta0, guess=guess), plain, rtol=0, atol=4 * EPS * beta0.max())
    _, thresholds = calls["capped"](beta0, return_thresholds=True)
    assert (thresholds.total, thresholds.cap) == pytest.approx((100.0, 0.5), rel=4 * EPS)


def test_thresholds_are_frozen():
    *_, thresholds = project_topk_simplex([1.0, 2.0], [0.5, 0.25], 1, return_thresholds=True)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        thresholds.lam = 0.0
    assert all(isinstance(getattr(thresholds, name), float) for name in ("lam", "mu", "total", "cap"))


def test_a_drifting_sequence_with_warm_guesses():
    rng = np.random.default_rng(0)
    alpha0, beta0, k, guess = rng.normal(size=2000), rng.normal(size=30_000), 300, None
    for _ in range(10):
        alpha0 += 0.05 * rng.normal(size=2000)
        beta0 += 0.05 * rng.normal(size=30_000)
        *_, guess = check(alpha0, beta0, k, guess=guess, return_thresholds=True)


def test_a_cap_that_rounding_made_too_small_by_a_hair_is_accepted():
    rng = np.random.default_rng(0)
    for n in range(1, 200):
        beta = project_capped_simplex(rng.normal(size=n), 1.0, 1.0 / n)
        np.testing.assert_allclose(beta, 1.0 / n, rtol=4 * EPS)


def test_the_plain_simplex_is_a_capped_simplex_without_a_cap():
    rng = np.random.default_rng(0)
    for n in (5, 30_000):
        beta0 = rng.normal(size=n)
        expected = project_capped_simplex(beta0, 2.0, 2.0)
        np.testing.assert_allclose(project_capped_simplex(beta0, 2.0, np.inf), expected, rtol=0, atol=8 * EPS)


def test_nothing_to_share_out():
    assert not project_capped_simplex([1.0, -2.0, 3.0], 0.0, 1.0).any()
