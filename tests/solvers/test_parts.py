"""The parts of the Newton solver: the model of psi that follows a few rows, and the line search."""

import numpy as np
import pytest

from solver_cases import go_to, gradient_at, make_data, make_problem, oracle_at
from taufpl.problem import KrylovSystem
from taufpl.projection import project_topk_simplex
from taufpl.solvers import FrozenModel, line_search


@pytest.mark.parametrize("size", [5, 30, 60])
def test_model_and_psi_share_direction_and_minimiser(size):
    rng = np.random.default_rng(6)
    X, y = make_data(20, 60, 5)
    coef = 0.3 * rng.normal(size=5)
    oracle = oracle_at(make_problem(X, y, 7, 0.01), coef, seed=6)
    gradient = gradient_at(oracle, coef)
    model = FrozenModel(oracle.nearest(size))
    system = KrylovSystem(oracle)
    newton = -np.linalg.solve([system.product(e) for e in np.eye(5)], gradient)
    np.testing.assert_allclose(model.direction(gradient), newton, rtol=1e-6, atol=1e-9)
    way = model.minimise(coef, gradient, 1e-16, 100)
    assert gradient @ way < 0
    if size == 60:  # every negative is followed, and the model is psi itself
        assert np.linalg.norm(gradient_at(oracle, coef + way)) <= 1e-6 * np.linalg.norm(gradient)


@pytest.mark.parametrize("root", [0.01, 0.4, 1.0, 7.0, 300.0])
def test_line_search_on_kinks(root):
    t = line_search(lambda t: (1000.0 if t > root else 1.0) * (t - root), -root, tol=1e-3, max_eval=60)
    assert t == pytest.approx(root, rel=2e-3)


def model_gradient(model, oracle, X, y, coef, delta):
    """Gradient of the model at coef + delta, from all rows: followed ones exactly, the others in the class they have.

    A held class goes into the projection by its mean; its entries are its targets less the threshold.
    """
    rows, problem, point = model.set, oracle.problem, coef + delta
    followed = rows.rows.matvec(point)
    up, down = followed[: len(rows.alpha)], followed[len(rows.alpha) :]
    alpha0, beta0 = 2.0 * (1.0 - X[y > 0] @ point), oracle.centre + oracle.sigma * (X[y < 0] @ point)
    is_followed = [
        np.isin(np.round(all_, 9), np.round(some, 9))
        for all_, some in ((X[y > 0] @ point, up), (X[y < 0] @ point, down))
    ]
    now = oracle.thresholds
    beta_before = go_to(oracle, coef).beta.copy()
    alpha_before = oracle.alpha.copy()
    held = (
        (alpha_before > 0) & ~is_followed[0],
        (beta_before > 0) & (beta_before < now.cap) & ~is_followed[1],
        (beta_before >= now.cap) & ~is_followed[1],
    )
    targets = alpha0.copy(), beta0.copy()
    targets[0][held[0]] = alpha0[held[0]].mean() if held[0].any() else 0.0
    for part in held[1:]:
        if part.any():
            targets[1][part] = beta0[part].mean()
    targets[0][~held[0] & ~is_followed[0]] = targets[1][~(held[1] | held[2] | is_followed[1])] = -np.inf
    *pair, at = project_topk_simplex(*targets, problem.k, weight=oracle.sigma / 2, return_thresholds=True)
    alpha, beta = pair
    alpha[held[0]] = alpha0[held[0]] - at.lam / (oracle.sigma / 2)
    beta[held[1]] = beta0[held[1]] - at.mu
    beta[held[2]] = at.cap
    return problem.ridge * point - X[y > 0].T @ alpha + X[y < 0].T @ beta


@pytest.mark.parametrize(("size", "k"), [(10, 3), (10, 7), (25, 7), (25, 20), (40, 20)])
def test_the_model_is_minimised_where_its_gradient_vanishes(size, k):
    rng = np.random.default_rng(6)
    X, y = make_data(20, 60, 5)
    coef = 0.3 * rng.normal(size=5)
    oracle = oracle_at(make_problem(X, y, k, 0.01), coef, seed=6)
    gradient = gradient_at(oracle, coef)
    model = FrozenModel(oracle.nearest(size))
    np.testing.assert_allclose(model_gradient(model, oracle, X, y, coef, np.zeros(5)), gradient, atol=1e-9)
    way = model.minimise(coef, gradient, 1e-16, 100)
    left = model_gradient(model, oracle, X, y, coef, way)
    assert np.linalg.norm(left) <= 1e-7 * np.linalg.norm(gradient)
    # Where the gradient is small enough already, there is no way to go.
    assert not model.minimise(coef, gradient, float(gradient @ gradient), 100).any()


def test_line_search_stays_inside():
    assert 0 < line_search(lambda t: None if t > 0.3 else t - 5.0, -5.0) <= 0.3
    assert line_search(lambda t: None, -1.0) == 0.0


def tried_by_line_search(slope, **options):
    """The answer, and the t that were tried with their slopes."""
    tried = {}

    def phi(t):
        tried[t] = slope(t)
        return tried[t]

    return line_search(phi, slope(0.0), **options), tried


@pytest.mark.parametrize("root", [1e-3, 0.2, 0.9, 3.5, 40.0])
@pytest.mark.parametrize(
    ("shape", "most"),  # half as many again as it takes
    [
        (np.expm1, 27),
        (lambda x: 20 * x if x > 0 else 0.05 * x, 36),
        (lambda x: 0.0002 * x if x > 0 else 20 * x, 18),
        (np.arctan, 22),
        (lambda x: x**3, 14),
    ],
    ids=["exponential", "kink", "flat kink", "flat", "cubic"],
)
def test_line_search_is_quick_and_keeps_its_bracket(shape, most, root):
    end, tried = tried_by_line_search(lambda t: float(shape(2 * (t - root))), tol=1e-3, max_eval=100)
    assert len(tried) <= most
    low, high, enough = 0.0, np.inf, 1e-3 * abs(shape(-2 * root))
    for t, value in tried.items():
        margin = 0.04 * (high - low) if high < np.inf else 0.0  # it keeps a twentieth away from the ends
        assert low + margin < t < high - margin or high == np.inf
        assert t > low
        low, high = (t, high) if value < 0 else (low, t)
    assert t == end
    assert abs(value) <= enough


def test_line_search_takes_the_first_step_that_is_good_enough():
    """|phi'(t)| <= tol |phi'(0)|, on either side of the minimum."""
    for slope in (lambda t: t - 1.3, lambda t: t - 0.77, lambda t: 10 * t - 13):
        assert tried_by_line_search(slope) == (1.0, {1.0: slope(1.0)})
    for slope in (lambda t: t - 1.5, lambda t: t - 0.7):
        assert tried_by_line_search(slope)[0] != 1.0


def test_line_search_that_runs_out_goes_where_phi_fell():
    assert line_search(lambda t: t - 100.0, -100.0, max_eval=3) == 9.0  # 1, 3, 9
    t, tried = tried_by_line_search(lambda t: -1.0 if t < 0.3 else 1.0, max_eval=6)
    assert len(tried) == 6
    assert t == max(t for t, value in tried.items() if value < 0)
    assert 0.2 < t < 0.3
    assert line_search(lambda t: 1.0, -1.0) == 0.0
    assert 3.0 <= line_search(lambda t: None if t > 5.0 else t - 9.0, -9.0, tol=0.1) <= 5.0
