"""The ranking problem against plain NumPy, finite differences and the paper's inequalities."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from taufpl.operators import as_operator
from taufpl.problem import Loss, RankingProblem, SquaredHinge, top_count
from taufpl.projection import project_topk_simplex


def make_problem(seed=0, m=7, n=23, d=4, k=5, reg=0.3, shuffle=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m + n, d))
    rows = rng.permutation(m + n) if shuffle else np.arange(m + n)
    return X, RankingProblem(as_operator(X), rows[:m], rows[m:], k, reg)


def feasible_pair(problem, rng):
    return project_topk_simplex(rng.normal(1, 1, problem.n_positive), rng.normal(size=problem.n_negative), problem.k)


def primal_by_hand(X, problem, coef):
    positive, negative = X[problem.positive_rows] @ coef, np.sort(X[problem.negative_rows] @ coef)
    margins = positive - negative[-problem.k :].mean()
    return np.mean(np.maximum(0, 1 - margins) ** 2) + problem.reg / 2 * coef @ coef


def primal_at(problem, coef):
    positive, negative = problem.scores(coef)
    return problem.primal(positive, problem.top_mean(negative), float(coef @ coef))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("k", [1, 5, 23])
def test_primal_and_dual_by_hand(k, shuffle):
    rng = np.random.default_rng(1)
    X, problem = make_problem(k=k, shuffle=shuffle)
    coef = rng.normal(size=4)
    assert primal_at(problem, coef) == pytest.approx(primal_by_hand(X, problem, coef), rel=1e-13)

    alpha, beta = feasible_pair(problem, rng)
    v = X[problem.positive_rows].T @ alpha - X[problem.negative_rows].T @ beta
    np.testing.assert_allclose(problem.combine(alpha, beta), v, atol=1e-12)
    np.testing.assert_allclose(problem.primal_from_dual(alpha, beta), v / (7 * 0.3), atol=1e-12)
    certificate = problem.certify(coef, alpha, beta)
    assert certificate.primal == pytest.approx(primal_by_hand(X, problem, coef), rel=1e-13)
    assert certificate.dual == pytest.approx(-(v @ v / (2 * 7 * 0.3) + (alpha**2 / 4 - alpha).sum()) / 7)
    assert certificate.gap == pytest.approx(1 - certificate.dual / certificate.primal)


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [3, 2, 1, 0], [0, 1, 2, 3], [1, 3, 5, 7]])
def test_rows_in_any_order(order):
    """Some begin and end like rows that follow each other."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(8, 3))
    others = np.setdiff1d(np.arange(8), order)[[0, 2, 1, 3]]
    problem = RankingProblem(as_operator(X), order, others, 2, 0.5)
    coef, (alpha, beta) = rng.normal(size=3), rng.uniform(1, 2, size=(2, 4))
    for scores, rows in zip(problem.scores(coef), (order, others), strict=True):
        np.testing.assert_allclose(scores, X[rows] @ coef, atol=1e-14)
    is_view = problem.scores(coef)[0].base is not None
    assert is_view == (order == [0, 1, 2, 3])  # scores are not copied where rows follow each other
    weights = np.zeros(8)
    weights[order], weights[others] = alpha, -beta
    np.testing.assert_array_equal(problem.row_weights(alpha, beta), weights)
    for few in (1.0, np.array([0.0, 1.0, 0.0, 0.0])):  # all rows are read, or those alone that count
        expected = X[order].T @ (few * alpha) - X[others].T @ (few * beta)
        np.testing.assert_allclose(problem.combine(few * alpha, few * beta), expected, atol=1e-13)


def test_objective_and_spread_by_hand():
    X, problem = make_problem()
    coef = np.array([1.0, -0.5, 0.25, 2.0])
    assert problem.objective(coef) == pytest.approx(primal_by_hand(X, problem, coef), rel=1e-13)
    apart = X[problem.positive_rows] - X[problem.negative_rows].mean(axis=0)
    assert problem.positive_spread() == pytest.approx(np.square(apart).sum(axis=1).mean(), rel=1e-12)


def test_zero_is_worth_one():
    _, problem = make_problem()
    assert primal_at(problem, np.zeros(4)) == 1.0


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 9, 23]), st.sampled_from([1e-3, 1.0, 100.0]))
def test_weak_duality_and_the_best_scale(seed, k, reg):
    rng = np.random.default_rng(seed)
    _, problem = make_problem(seed, k=k, reg=reg)
    alpha, beta = feasible_pair(problem, rng)
    v = problem.combine(alpha, beta)
    value, theta = problem.dual(alpha, float(v @ v))
    for scale in (0.5 * theta, theta, 1.5 * theta, 1.0):
        certificate = problem.certify(rng.normal(size=4), scale * alpha, scale * beta)
        assert certificate.dual <= certificate.primal + 1e-12
        assert certificate.dual <= value + 1e-12 * (1 + abs(value))


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.3, 0.9]))
def test_the_papers_order_of_risks(seed, tau):
    """R0 <= R1 <= R2: the ranking risk lies between the 0-1 risk and the constrained surrogate."""
    rng = np.random.default_rng(seed)
    n = 40
    positive, negative = 3 * rng.normal(1, 1, 15), 3 * np.sort(rng.normal(size=n))[::-1]
    k = top_count(tau, n)
    loss = SquaredHinge().value
    risk_0 = np.mean(positive - negative[k - 1] <= 0)
    risk_1 = np.mean(loss(positive - negative[:k].mean()))
    # The constraint holds from some b on, and the objective grows with b: the least feasible b is the best.
    low, high = negative.min() - 10.0, negative.max() + 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if np.mean(loss(middle - negative)) <= tau else (middle, high)
    risk_2 = np.mean(loss(positive - high))
    assert risk_0 <= risk_1 + 1e-12
    assert risk_1 <= risk_2 + 1e-9 * max(1, risk_2)


def test_squared_hinge_and_its_conjugate():
    loss = SquaredHinge()
    u = np.linspace(-3, 3, 601)
    alpha = np.array([0.0, 0.5, 2.0, 5.0])
    wide = np.linspace(-10, 10, 200_001)
    by_hand = [(-a * wide - loss.value(wide)).max() for a in alpha]
    np.testing.assert_allclose(loss.conjugate(alpha), by_hand, atol=1e-7)
    slope = (loss.value(u + 1e-6) - loss.value(u - 1e-6)) / 2e-6
    np.testing.assert_allclose(loss.derivative(u), slope, atol=1e-5)
    slope = (loss.conjugate(alpha + 1e-6) - loss.conjugate(alpha - 1e-6)) / 2e-6
    np.testing.assert_allclose(loss.conjugate_derivative(alpha), slope, atol=1e-8)
    quadratic = loss.conjugate_curvature / 2 * alpha**2 - loss.conjugate_slope * alpha
    np.testing.assert_allclose(loss.conjugate(alpha), quadratic)


def test_general_best_scale_agrees_with_the_closed_form():
    loss, alpha = SquaredHinge(), np.array([0.1, 3.0, 0.4])
    for quadratic in (0.01, 1.0, 1e4):
        assert Loss.best_scale(loss, alpha, quadratic) == pytest.approx(loss.best_scale(alpha, quadratic), rel=1e-3)
    # S / (2 Q) of a small alpha is far beyond 1; up to 1e12 it is looked for.
    for alpha, scale in ((0.125, 16.0), (1e-6, 2e6)):
        assert Loss.best_scale(loss, np.array([alpha]), 0.0) == pytest.approx(scale, rel=1e-3)
    assert Loss.best_scale(loss, np.full(1, 1e-20), 0.0) >= 5e11


def test_the_pair_of_zeros_has_no_scale():
    _, problem = make_problem()
    assert problem.dual(np.zeros(7), 0.0) == (0.0, 1.0)


def test_residuals_name_what_is_wrong():
    rng = np.random.default_rng(2)
    X, problem = make_problem()
    alpha, beta = feasible_pair(problem, rng)
    coef = problem.primal_from_dual(alpha, beta)
    residuals = problem.residuals(coef, alpha, beta)
    assert residuals.link == pytest.approx(0, abs=1e-14)
    assert residuals.infeasibility <= 1e-14
    positive, negative = X[problem.positive_rows] @ coef, X[problem.negative_rows] @ coef
    top = np.sort(negative)[-5:].mean()
    assert residuals.ranking == pytest.approx(top - beta @ negative / beta.sum(), rel=1e-12)
    assert residuals.slope == pytest.approx(np.abs(alpha - 2 * np.maximum(0, 1 - positive + top)).max(), rel=1e-12)
    for moved in (coef + 1, 0.5 * coef):
        link = np.linalg.norm(moved - coef) / max(np.linalg.norm(moved), np.linalg.norm(coef))
        assert problem.residuals(moved, alpha, beta).link == pytest.approx(link, rel=1e-12)


def test_infeasibility_is_the_largest_violation():
    _, problem = make_problem(m=4, n=4, k=2)
    coef, alpha = np.ones(4), np.array([1.0, 1.0, 2.0, 4.0])  # the sum is 8, the cap 4
    for change, beta, violation in [
        (0.0, [4.0, 4.0, 0.0, 0.0], 0.0),
        (0.0, [4.0, 3.0, 0.0, 0.0], 1.0),
        (0.0, [4.0, 5.0, 0.0, 0.0], 1.0),
        (0.0, [6.0, 2.0, 0.0, 0.0], 2.0),
        (0.0, [4.0, 4.0, 3.0, -3.0], 3.0),
        (3.0, [4.0, 4.0, 0.0, 0.0], 2.0),
    ]:
        shifted = alpha + change * np.array([-1, 1, 0, 0])
        assert problem.residuals(coef, shifted, np.array(beta)).infeasibility == violation / 8
    nothing = problem.residuals(np.zeros(4), np.zeros(4), np.zeros(4))
    assert (nothing.link, nothing.infeasibility, nothing.ranking) == (0.0, 0.0, 0.0)
    assert nothing.slope == 2.0
    assert problem.residuals(coef, np.zeros(4), np.array([3.0, 0.0, 0.0, 0.0])).infeasibility == 3.0


@given(st.integers(0, 1000), st.integers(1, 10**6))
def test_top_count_is_that_of_the_decimal_number(thousandths, n):
    assert top_count(thousandths / 1000, n) == min(math.floor(Fraction(thousandths, 1000) * n) + 1, n)


@pytest.mark.parametrize(
    ("tau", "n", "k"), [(0.0, 10, 1), (0.05, 100, 6), (0.29, 100, 30), (0.07, 100, 8), (1.0, 10, 10), (0.001, 50, 1)]
)
def test_top_count(tau, n, k):
    assert top_count(tau, n) == k


def test_coordinates_of_the_span_are_for_fewer_rows_than_features():
    rng = np.random.default_rng(3)
    wide, rows = rng.normal(size=(12, 40)), (np.arange(5), np.arange(5, 12))
    problem = RankingProblem(as_operator(wide), *rows, 2, 0.1)
    space = problem.row_space()
    alpha, beta = feasible_pair(problem, rng)
    small = space.problem.primal_from_dual(alpha, beta)
    coef = problem.primal_from_dual(alpha, beta)
    np.testing.assert_allclose(space.lift(small), coef, atol=1e-12)
    np.testing.assert_allclose(space.shrink(coef), small, atol=1e-12)
    assert space.problem.objective(small) == pytest.approx(problem.objective(coef), rel=1e-12)
    assert RankingProblem(as_operator(wide[:, :12]), *rows, 2, 0.1).row_space(stalled=True) is None
    # Of sparse rows and many features conjugate gradients take less; with features to be factored, they do not.
    for n_features, is_reduced in ((40, True), (1000, True), (3000, False), (6000, False)):
        mostly_zero = sparse.random_array((12, n_features), density=0.001, rng=rng, format="csr")
        problem = RankingProblem(as_operator(mostly_zero), *rows, 2, 0.1)
        assert (problem.row_space() is not None) == is_reduced
        assert problem.row_space(stalled=True) is not None
    many = RankingProblem(as_operator(np.zeros((2001, 2002), np.float32)), [0], np.arange(1, 2001), 2, 0.1)
    assert many.row_space(stalled=True) is None


def test_replace_shares_the_data():
    _, problem = make_problem()
    other = problem.replace(k=2, reg=7.0)
    assert (other.k, other.reg) == (2, 7.0)
    assert other.operator is problem.operator
    assert (problem.k, problem.reg) == (5, 0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be between 1 and the number of negatives, 3; got 0"),
        ({"k": 4}, "got 4"),
        ({"reg": 0.0}, "reg must be positive and finite, got 0.0"),
        ({"reg": np.inf}, "reg must be"),
        ({"positive_rows": []}, "positive_rows must name at least one row"),
        ({"negative_rows": [[1]]}, "negative_rows must name at least one row"),
    ],
)
def test_errors(change, message):
    arguments = {"positive_rows": [0], "negative_rows": [1, 2, 3], "k": 1, "reg": 1.0} | change
    with pytest.raises(ValueError, match=message):
        RankingProblem(as_operator(np.eye(4)), **arguments)
