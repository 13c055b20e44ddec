"""What every projection on a closed convex cone does, for inputs found by Hypothesis."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from reference import assert_feasible, tolerances
from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex

pytestmark = pytest.mark.slow
many = settings(max_examples=1000, deadline=None)
EPS = float(np.finfo(float).eps)
TINY = float(np.finfo(float).smallest_subnormal)

KINDS = {
    "grid": st.integers(-4, 4).map(float),
    "plain": st.floats(-10, 10),
    "mixed scales": st.builds(lambda x, e: x * 10.0**e, st.integers(-9, 9), st.integers(-9, 9)),
    "offset": st.integers(-8, 8).map(lambda i: 1e9 + i / 8),
    "negative offset": st.integers(-8, 8).map(lambda i: -1e9 + i / 8),
    "subnormal": st.integers(-100, 100).map(lambda i: i * TINY),
}
kinds = st.sampled_from(sorted(KINDS))
holes = st.sampled_from([0.0, 0.0, 0.0, 0.3])
weights = st.sampled_from([1.0, 0.5, 3.0, 0.1, 1e3, 1e-3, 1e6, 1e-6]) | st.floats(0.01, 100)
sizes = st.integers(1, 8)


@st.composite
def vectors(draw, size, count=1, with_holes=True):
    """`count` vectors of one size, with -inf at the same places in all."""
    found = [np.array(draw(st.lists(KINDS[draw(kinds)], min_size=size, max_size=size))) for _ in range(count)]
    if with_holes and draw(holes):
        hole = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        for x in found:
            x[hole] = -np.inf
    return found


@st.composite
def problems(draw, count=1, with_holes=True):
    """(list of alphas, list of betas, k, weight)."""
    n = draw(sizes)
    alphas = draw(vectors(draw(sizes), count, with_holes))
    betas = draw(vectors(n, count, with_holes))
    return alphas, betas, draw(st.integers(1, n)), draw(weights)


def project(alpha, beta, k, weight):
    return project_topk_simplex(alpha, beta, k, weight=weight)


def length(alpha, beta, weight):
    """The norm in which the set is projected on."""
    return float(np.hypot(weight**0.5 * np.linalg.norm(alpha), np.linalg.norm(beta)))


def unit(alpha0, beta0, k, weight, alpha, beta):
    """One rounding of the answer, in the weighted norm."""
    size = len(alpha0) + len(beta0)
    return tolerances(alpha0, beta0, k, weight, alpha, beta)[1] * size**0.5


def difference(x, y):
    """x - y where both are finite, 0 where both are -inf."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(x - y, nan=0.0)


@many
@given(problems())
def test_feasible(problem):
    (alpha0,), (beta0,), k, weight = problem
    assert_feasible(*project(alpha0, beta0, k, weight), k, weight=weight)


@many
@given(problems())
def test_idempotent(problem):
    (alpha0,), (beta0,), k, weight = problem
    alpha, beta = project(alpha0, beta0, k, weight)
    again = project(alpha, beta, k, weight)
    units = tolerances(alpha, beta, k, weight, alpha, beta)
    np.testing.assert_allclose(again[0], alpha, rtol=0, atol=16 * units[0])
    np.testing.assert_allclose(again[1], beta, rtol=0, atol=16 * units[1])


@many
@given(problems(count=2))
def test_nonexpansive(problem):
    (alpha_x, alpha_y), (beta_x, beta_y), k, weight = problem
    x, y = project(alpha_x, beta_x, k, weight), project(alpha_y, beta_y, k, weight)
    before = length(difference(alpha_x, alpha_y), difference(beta_x, beta_y), weight)
    after = length(x[0] - y[0], x[1] - y[1], weight)
    slack = unit(alpha_x, beta_x, k, weight, *x) + unit(alpha_y, beta_y, k, weight, *y)
    assert after <= before * (1 + 8 * EPS) + 8 * slack


@st.composite
def feasible_points(draw, m, n, k):
    """A sum of extreme rays (e_i, indicator of k entries / k)."""
    alpha, beta = np.zeros(m), np.zeros(n)
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from([1e-6, 0.5, 1.0, 7.0, 1e6]))
        alpha[draw(st.integers(0, m - 1))] += size
        beta[draw(st.permutations(range(n)))[:k]] += size / k
    return alpha, beta


@many
@given(st.data(), problems(with_holes=False))
def test_variational_inequality(data, problem):
    # <x0 - x, z - x> <= 0 for every z in the set
    (alpha0,), (beta0,), k, weight = problem
    alpha, beta = project(alpha0, beta0, k, weight)
    z_alpha, z_beta = data.draw(feasible_points(len(alpha0), len(beta0), k))
    terms = np.concatenate([weight * (alpha0 - alpha) * (z_alpha - alpha), (beta0 - beta) * (z_beta - beta)])
    reach = length(z_alpha - alpha, z_beta - beta, weight) + length(alpha, beta, weight)
    one = unit(alpha0, beta0, k, weight, alpha, beta)
    # an error of one unit in x moves the product by at most (distance to z + part of x0 - x that x shares)
    shared = length((alpha0 - alpha)[alpha > 0], (beta0 - beta)[beta > 0], weight)
    assert fsum(terms) <= 8 * one * (reach + shared) + 4 * EPS * fsum(abs(terms)) + 100 * TINY


@many
@given(problems())
def test_moreau_decomposition(problem):
    # the sharpest case of the inequality: the residual is orthogonal to the answer and polar to the set
    (alpha0,), (beta0,), k, weight = problem
    alpha, beta = project(alpha0, beta0, k, weight)
    rest_a, rest_b = weight * (alpha0 - alpha), beta0 - beta
    one = unit(alpha0, beta0, k, weight, alpha, beta)
    products = np.concatenate([rest_a[alpha > 0] * alpha[alpha > 0], rest_b[beta > 0] * beta[beta > 0]])
    shared = length(rest_a[alpha > 0] / weight, rest_b[beta > 0], weight)
    slack = one * (length(alpha, beta, weight) + shared) + EPS * fsum(abs(products))
    assert abs(fsum(products)) <= 8 * slack + 100 * TINY
    if np.isfinite(alpha0).any() and np.isfinite(beta0).sum() >= k:
        top = np.sort(rest_b)[-k:]
        ray = (weight + 1.0) ** 0.5  # the longest extreme ray, at k = 1
        slack = one * ray + EPS * (abs(rest_a.max()) + fsum(abs(top)) / k)
        assert rest_a.max() + fsum(top) / k <= 8 * slack + 100 * TINY


@many
@given(problems(), st.integers(-40, 40) | st.floats(0.001, 1000.0))
def test_positively_homogeneous(problem, factor):
    (alpha0,), (beta0,), k, weight = problem
    factor = 2.0**factor if isinstance(factor, int) else factor
    alpha, beta = project(alpha0, beta0, k, weight)
    scaled = project(alpha0 * factor, beta0 * factor, k, weight)
    units = tolerances(alpha0 * factor, beta0 * factor, k, weight, *scaled)
    # subnormal numbers have fewer bits than others, and how many depends on the factor
    lost = TINY * max(factor, 1.0) * (1 + max(weight, 1 / weight) ** 0.5)
    np.testing.assert_allclose(scaled[0], factor * alpha, rtol=0, atol=8 * (units[0] + lost))
    np.testing.assert_allclose(scaled[1], factor * beta, rtol=0, atol=8 * (units[1] + lost))


@many
@given(st.data(), problems())
def test_permutation_equivariant(data, problem):
    (alpha0,), (beta0,), k, weight = problem
    by_a = data.draw(st.permutations(range(len(alpha0))))
    by_b = data.draw(st.permutations(range(len(beta0))))
    alpha, beta = project(alpha0, beta0, k, weight)
    moved = project(alpha0[by_a], beta0[by_b], k, weight)
    units = tolerances(alpha0, beta0, k, weight, alpha, beta)
    np.testing.assert_allclose(moved[0], alpha[by_a], rtol=0, atol=8 * units[0])
    if len(set(beta0)) == len(beta0) or k == len(beta0):
        np.testing.assert_allclose(moved[1], beta[by_b], rtol=0, atol=8 * units[1])
    np.testing.assert_allclose(np.sort(moved[1]), np.sort(beta), rtol=0, atol=8 * units[1])


@many
@given(problems())
def test_order_is_kept_and_ties_are_treated_alike(problem):
    (alpha0,), (beta0,), k, weight = problem
    for before, after in zip((alpha0, beta0), project(alpha0, beta0, k, weight), strict=True):
        order = np.argsort(before, kind="stable")
        assert (np.diff(after[order]) >= 0).all()
        for value in set(before):
            assert len(set(after[before == value])) == 1


@many
@given(problems())
def test_cone_is_feasible_and_idempotent(problem):
    _, (beta0,), k, _ = problem
    beta = project_topk_cone(beta0, k)
    total = fsum(beta)
    assert (beta >= 0).all()
    assert beta.max() <= total / k * (1 + 16 * EPS) + len(beta) * TINY
    one = tolerances([0.0], beta, k, 1.0, [0.0], beta)[1]
    np.testing.assert_allclose(project_topk_cone(beta, k), beta, rtol=0, atol=16 * one)


@many
@given(problems(with_holes=False), st.floats(0.01, 1.0), st.sampled_from([1e-3, 0.1, 1.0, 8.0, 1e4]))
def test_capped_simplex_is_feasible_and_optimal(problem, share, cap):
    _, (beta0,), _, _ = problem
    total = share * cap * len(beta0)
    beta = project_capped_simplex(beta0, total, cap)
    assert (beta >= 0).all()
    assert beta.max() <= max(cap, total / len(beta0))  # rounding may put the total above all the room there is
    assert abs(fsum(beta) - total) <= 16 * EPS * total
    # the residual is at most mu where beta is 0, mu where it is free, at least mu where it sits at the cap
    rest = beta0 - beta
    slack = 8 * (tolerances([0.0], beta0, 1, 1.0, [0.0], beta)[1] + EPS * cap)
    below, above = rest[beta < cap], rest[beta > 0]
    if len(below) and len(above):
        assert below.max() <= above.min() + 2 * slack
