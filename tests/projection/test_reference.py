"""The oracles against each other and against a general solver: a wrong oracle must be noticed."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from projection_cases import FAMILIES, draw
from reference import (
    certifies_capped,
    certifies_cone,
    certifies_simplex,
    exact_capped,
    exact_cone,
    exact_simplex,
    sorted_capped,
    sorted_cone,
    sorted_simplex,
)

EPS = np.finfo(float).eps


def cap_for(rng, beta):
    """A total and a cap that leave room for the finite entries of beta, sometimes none to spare."""
    finite = max(int(np.isfinite(beta).sum()), 1)
    cap = float(rng.choice([0.25, 1.0, 1.5, 1e3]))
    return cap * float(rng.choice([0.5, 1.0, finite, rng.uniform(0, finite)])), cap


@pytest.mark.parametrize("weight", [1.0, 0.125, 20.0])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_exact_simplex_is_what_least_squares_over_the_extreme_rays_finds(k, weight):
    # Gamma_k is spanned by the rays (e_i, indicator of k entries / k): project by nonnegative least squares.
    rng = np.random.default_rng([k, int(8 * weight)])
    rays = [
        np.concatenate([np.eye(3)[i] * weight**0.5, np.isin(np.arange(4), chosen) / k])
        for i in range(3)
        for chosen in combinations(range(4), k)
    ]
    for _ in range(20):
        alpha0, beta0 = rng.normal(size=3), rng.normal(size=4)
        matrix = np.array(rays).T
        coefficients, _ = nnls(matrix, np.concatenate([alpha0 * weight**0.5, beta0]))
        expected = matrix @ coefficients
        alpha, beta = exact_simplex(alpha0, beta0, k, weight).arrays
        np.testing.assert_allclose(alpha, expected[:3] / weight**0.5, atol=1e-10)
        np.testing.assert_allclose(beta, expected[3:], atol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_exact_cone_is_what_least_squares_over_the_extreme_rays_finds(k):
    rng = np.random.default_rng(k)
    matrix = np.array([np.isin(np.arange(5), chosen) for chosen in combinations(range(5), k)], float).T
    for _ in range(20):
        beta0 = rng.normal(size=5)
        expected = matrix @ nnls(matrix, beta0)[0]
        np.testing.assert_allclose(exact_cone(beta0, k).arrays[1], expected, atol=1e-10)


def test_exact_capped_is_what_a_quadratic_program_finds():
    rng = np.random.default_rng(0)
    for _ in range(20):
        beta0, cap = rng.normal(size=5), 1.0
        total = rng.uniform(0.1, 4.9)
        found = minimize(
            lambda x, target=beta0: (0.5 * np.sum((x - target) ** 2), x - target),
            np.full(5, total / 5),
            jac=True,
            bounds=[(0, cap)] * 5,
            constraints={"type": "eq", "fun": lambda x, c=total: x.sum() - c},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(exact_capped(beta0, total, cap).arrays[1], found.x, atol=1e-6)


def test_known_answers():
    # one pair: both become C = (alpha0 + beta0) / 2
    assert exact_simplex([3.0], [1.0], 1).alpha == [2]
    # k = n: every entry of beta is C / n with n lambda + sum(beta0) = C and lambda = 4 - C
    assert exact_simplex([4.0], [1.0, -1.0], 2).beta == [Fraction(4, 3)] * 2
    # flat: only the largest entry of beta carries weight
    assert exact_simplex([1.0], [1.0, -9.0], 1).beta == [1, 0]
    assert exact_cone([3.0, 1.0], 2).beta == [2, 2]
    assert exact_capped([2.0, 0.0, 0.0], 1.5, 1.0).beta == [1, Fraction(1, 4), Fraction(1, 4)]
    assert exact_simplex([-1.0], [1.0], 1).total == 0
    assert exact_simplex([1.0], [-np.inf, 1.0], 2).total == 0


def test_certificates_reject_every_neighbour():
    alpha0, beta0, k = [1.0, 0.5, -2.0], [1.5, 0.5, 0.25, -1.0], 2
    answer = exact_simplex(alpha0, beta0, k, 2)
    step = Fraction(1, 10**30)
    assert certifies_simplex(alpha0, beta0, k, 2, answer.alpha, answer.beta)
    scaled = [[x * (1 + step) for x in part] for part in (answer.alpha, answer.beta)]  # feasible, not nearest
    assert not certifies_simplex(alpha0, beta0, k, 2, *scaled)
    assert not certifies_simplex(alpha0, beta0, k, 2, [0] * 3, [0] * 4)
    for i in range(3):
        alpha = [x + step * (i == j) for j, x in enumerate(answer.alpha)]
        assert not certifies_simplex(alpha0, beta0, k, 2, alpha, answer.beta)

    beta = exact_cone(beta0, k).beta
    assert certifies_cone(beta0, k, beta)
    assert not certifies_cone(beta0, k, [x * (1 + step) for x in beta])
    beta = exact_capped(beta0, 1.5, 1.0).beta
    assert certifies_capped(beta0, 1.5, 1.0, beta)
    moved = [beta[0] - step, beta[1] + step, *beta[2:]]
    assert not certifies_capped(beta0, 1.5, 1.0, moved)


@pytest.mark.parametrize("name", FAMILIES)
def test_sorted_twins_agree_with_rational_arithmetic(name):
    rng = np.random.default_rng(0)
    tiny = np.finfo(float).smallest_subnormal
    for alpha0, beta0, k, weight in draw(name, 60):
        close = {"rtol": 4 * EPS, "atol": tiny}
        exact = exact_simplex(alpha0, beta0, k, weight)
        # what one rounding of the subtraction at the end may cost
        slack = EPS * float(exact.total) + tiny
        alpha, beta = sorted_simplex(alpha0, beta0, k, weight)
        np.testing.assert_allclose(alpha, exact.arrays[0], rtol=4 * EPS, atol=slack)
        np.testing.assert_allclose(beta, exact.arrays[1], rtol=4 * EPS, atol=slack)
        exact = exact_cone(beta0, k)
        np.testing.assert_allclose(sorted_cone(beta0, k), exact.arrays[1], rtol=4 * EPS, atol=slack)
        total, cap = cap_for(rng, beta0)
        if np.isfinite(beta0).sum() * cap >= total:
            exact = exact_capped(beta0, total, cap)
            close["atol"] = EPS * cap
            np.testing.assert_allclose(sorted_capped(beta0, total, cap), exact.arrays[1], **close)


def test_families_reach_the_corners_they_are_named_after():
    assert all(exact_simplex(*problem).total == 0 for problem in draw("zero_boundary", 50))
    assert any(exact_simplex(*problem).total > 0 for problem in draw("next_to_zero_boundary", 50))
    for alpha0, beta0, k, weight in draw("gap_exactly_used_up", 50):
        top = sorted(beta0, reverse=True)
        assert exact_simplex(alpha0, beta0, k, weight).total == k * (top[k - 1] - top[k])
