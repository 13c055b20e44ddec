"""The parts of the Newton solver: the model of psi that follows a few rows, and the line search."""

import numpy as np
import pytest

from solver_cases import gradient_at, make_data, make_problem, oracle_at
from taufpl.problem import KrylovSystem
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


def test_line_search_stays_inside():
    assert 0 < line_search(lambda t: None if t > 0.3 else t - 5.0, -5.0) <= 0.3
    assert line_search(lambda t: None, -1.0) == 0.0
