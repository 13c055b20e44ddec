"""Where floating point ends: overflow, entries many decades apart, guesses from another world; and the work done."""

import numpy as np
import pytest

from reference import exact_capped, sorted_simplex
from taufpl._kernels import _projection as kernels
from taufpl.projection import Thresholds, project_capped_simplex, project_topk_cone, project_topk_simplex


def test_sums_that_overflow_are_not_taken_for_zero():
    alpha, beta = project_topk_simplex([1e308], [1e308], 1)
    assert alpha[0] == beta[0] == 1e308
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=5000), rng.normal(size=9000)
    expected = project_topk_simplex(alpha0, beta0, 90)
    found = project_topk_simplex(alpha0 * 2.0**1014, beta0 * 2.0**1014, 90)
    for mine, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine * 2.0**-1014, wanted, rtol=0, atol=1e-14)


def test_an_answer_too_large_for_its_type_is_an_error():
    with pytest.raises(OverflowError, match="projected alpha is larger than float32 can hold"):
        project_topk_simplex(np.zeros(1, "f4"), np.full(10, 3e38, "f4"), 10, weight=1e-6)
    np.testing.assert_allclose(project_topk_cone([1.7e308, -1.7e308, 1e308], 2), [1.35e308, 0, 1.35e308])


@pytest.mark.parametrize("sigma", [1, 5, 10, 15])
def test_entries_many_decades_apart(sigma):
    rng = np.random.default_rng(sigma)
    for _ in range(40):
        beta0, k = rng.lognormal(sigma=sigma, size=8), int(rng.integers(1, 9))
        total = float(rng.lognormal(sigma=3))
        found = project_capped_simplex(beta0, total, total / k)
        assert found.sum() == pytest.approx(total, rel=1e-13)
        expected = exact_capped(beta0, total, total / k).arrays[1]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(total, np.sort(beta0)[-k]))


def test_no_answer_is_better_than_a_wrong_one():
    """Forty decades may be too many; then the sum must be right or there must be an error."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        beta0, total, k = rng.lognormal(sigma=40, size=300), float(rng.lognormal(sigma=5)), int(rng.integers(1, 300))
        try:
            found = project_capped_simplex(beta0, total, total / k)
        except ArithmeticError:
            refused += 1
        else:
            assert found.sum() == pytest.approx(total, rel=1e-12)
    assert refused <= 10


@pytest.mark.parametrize("factor", [1e-26, 1e-4, 1.0, 100.0, 1e4, 1e16, 1e26])
@pytest.mark.parametrize("k", [1, 10, 2500, 5000])
def test_a_guess_from_another_scale_changes_nothing(factor, k):
    rng = np.random.default_rng(k)
    alpha0, beta0 = rng.normal(size=5000), rng.normal(size=5000)
    expected = sorted_simplex(alpha0, beta0, k)
    for other in (1, 10, 5000):
        *_, guess = project_topk_simplex(alpha0 * factor, beta0 * factor, other, return_thresholds=True)
        for mine, wanted in zip(project_topk_simplex(alpha0, beta0, k, guess=guess), expected, strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=1e-14 * max(1.0, wanted.max()))


@pytest.mark.parametrize("broken", [{"lam": np.nan}, {"mu": np.inf}, {"cap": np.inf}, {"widths": (-1.0, 1.0, 1.0)}])
def test_a_guess_without_meaning_is_left_aside(broken):
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=5000), rng.normal(size=5000)
    guess = Thresholds(**{"lam": 0.0, "mu": 0.0, "cap": 1.0, "total": 1.0, "widths": (1.0, 1.0, 1.0), **broken})
    expected = project_topk_simplex(alpha0, beta0, 10)
    np.testing.assert_array_equal(project_topk_simplex(alpha0, beta0, 10, guess=guess)[0], expected[0])


def passes(alpha, beta, k, guess=None):
    return kernels.topk_simplex(alpha, beta, k, 1.0, np.empty_like(alpha), np.empty_like(beta), guess)[-1]


def test_the_sample_and_the_guess_save_passes():
    """One filter pass where the plan is good; a guess that is off costs one more."""
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=200_000), rng.normal(size=200_000)
    counts = [passes(alpha0, beta0, k) for k in (1, 50, 2000, 40_000, 100_000, 200_000)]
    assert np.mean(counts) <= 1.5, counts
    *_, found = project_topk_simplex(alpha0, beta0, 2000, return_thresholds=True)
    right = (found.lam, found.mu, found.mu + found.cap, 1e-6, 1e-6, 1e-6)
    assert passes(alpha0, beta0, 2000, right) == 1
    wrong = (found.lam + 1, found.mu + 1, found.mu + found.cap + 1, 1e-6, 1e-6, 1e-6)
    assert 2 <= passes(alpha0, beta0, 2000, wrong) <= 3
