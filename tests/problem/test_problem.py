"""The ranking problem against plain NumPy, finite differences and the paper's inequalities."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

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


def test_residuals_name_what_is_wrong():
    rng = np.random.default_rng(2)
    _, problem = make_problem()
    alpha, beta = feasible_pair(problem, rng)
    coef = problem.primal_from_dual(alpha, beta)
    residuals = problem.residuals(coef, alpha, beta)
    assert residuals.link == pytest.approx(0, abs=1e-14)
    assert residuals.infeasibility <= 1e-14
    assert residuals.ranking >= 0
    assert residuals.slope > 0
    assert problem.residuals(coef + 1, alpha, beta).link > 0.1
    assert problem.residuals(coef, alpha, 2 * beta).infeasibility > 0.5


@pytest.mark.parametrize(
    ("tau", "n", "k"), [(0.0, 10, 1), (0.05, 100, 6), (0.29, 100, 30), (0.07, 100, 8), (1.0, 10, 10), (0.001, 50, 1)]
)
def test_top_count(tau, n, k):
    assert top_count(tau, n) == k


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
