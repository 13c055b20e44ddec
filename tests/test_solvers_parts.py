"""The parts of the Newton solver: psi and its derivatives, the model, the linear systems, the line search."""

import numpy as np
import pytest

from solver_cases import make_data, make_problem
from taufpl.operators import as_operator
from taufpl.solvers._line_search import line_search
from taufpl.solvers._model import FrozenModel, WorkingSet
from taufpl.solvers._moments import Moments, RunningMoments
from taufpl.solvers._newton_system import DiagonalEstimate, KrylovSystem
from taufpl.solvers._smoothing import Activity, Maximiser, Smoothing


def smoothing_at(problem, rng, sigma=3.0):
    centre = np.abs(rng.normal(size=problem.n_negative))
    return Smoothing(problem, centre, sigma)


def maximise(smoothing, coef):
    now = smoothing.maximise(*smoothing.problem.scores(coef))
    return Maximiser(now.alpha.copy(), now.beta.copy(), now.thresholds)


def gradient_at(smoothing, coef):
    now = maximise(smoothing, coef)
    return smoothing.problem.ridge * coef - smoothing.problem.combine(now.alpha, now.beta)


def psi(smoothing, coef):
    problem, now = smoothing.problem, maximise(smoothing, coef)
    positive, negative = problem.scores(coef)
    value = problem.ridge / 2 * coef @ coef - now.alpha @ positive - problem.loss.conjugate(now.alpha).sum()
    return value + now.beta @ negative - ((now.beta - smoothing.centre) ** 2).sum() / (2 * smoothing.sigma)


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("sigma", [0.1, 3.0, 50.0])
def test_gradient_and_hessian_of_psi_by_differences(k, sigma):
    rng = np.random.default_rng(5)
    X, y = make_data(20, 60, 5)
    problem = make_problem(X, y, k, 0.01)
    smoothing = smoothing_at(problem, rng, sigma)
    coef = rng.normal(size=5)
    gradient, step = gradient_at(smoothing, coef), 1e-5
    eye = np.eye(5)
    differences = [(psi(smoothing, coef + step * e) - psi(smoothing, coef - step * e)) / (2 * step) for e in eye]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5 * np.abs(gradient).max())

    system = KrylovSystem(smoothing, maximise(smoothing, coef))
    hessian = np.array([system.product(e) for e in eye])
    step = 1e-7
    columns = [
        (gradient_at(smoothing, coef + step * e) - gradient_at(smoothing, coef - step * e)) / (2 * step) for e in eye
    ]
    np.testing.assert_allclose(hessian, columns, rtol=1e-5, atol=1e-6 * np.abs(hessian).max())


def model_at(smoothing, coef, size):
    problem = smoothing.problem
    scores = tuple(x.copy() for x in problem.scores(coef))
    now = maximise(smoothing, coef)
    ones = (np.ones(problem.n_positive), np.ones(problem.n_negative))
    chosen = WorkingSet.nearest(smoothing, now, ones, size)
    running = (RunningMoments(problem.operator), RunningMoments(problem.operator))
    return FrozenModel(smoothing, chosen, scores, now, problem.combine(now.alpha, now.beta), running), now


@pytest.mark.parametrize("size", [5, 30, 60])
def test_model_and_psi_share_direction_and_minimiser(size):
    rng = np.random.default_rng(6)
    X, y = make_data(20, 60, 5)
    problem = make_problem(X, y, 7, 0.01)
    smoothing = smoothing_at(problem, rng)
    coef = 0.3 * rng.normal(size=5)
    model, now = model_at(smoothing, coef, size)
    gradient = gradient_at(smoothing, coef)
    system = KrylovSystem(smoothing, now)
    newton = system.solve(gradient, 1e-10, DiagonalEstimate(problem).at(system, smoothing))
    np.testing.assert_allclose(model._direction(gradient), newton, rtol=1e-6, atol=1e-9)
    way, _ = model.minimise(coef, gradient, 1e-16, 100)
    assert gradient @ way < 0
    if size == 60:  # every negative is followed, and the model is psi itself
        assert np.linalg.norm(gradient_at(smoothing, coef + way)) <= 1e-6 * np.linalg.norm(gradient)


@pytest.mark.parametrize("n_features", [40, 400])
def test_krylov_solves_by_both_preconditioners(n_features):
    rng = np.random.default_rng(7)
    X, y = make_data(20, 60, n_features)
    problem = make_problem(X, y, 7, 1e-4)
    smoothing = smoothing_at(problem, rng)
    system = KrylovSystem(smoothing, maximise(smoothing, 0.1 * rng.normal(size=n_features)))
    gradient = rng.normal(size=n_features)
    step = system.solve(gradient, 1e-8, DiagonalEstimate(problem).at(system, smoothing))
    assert np.linalg.norm(system.product(step) + gradient) <= 1e-3 * np.linalg.norm(gradient)


def test_activity_splits_the_rows():
    rng = np.random.default_rng(8)
    X, y = make_data(20, 60, 5)
    smoothing = smoothing_at(make_problem(X, y, 7, 0.01), rng)
    now = maximise(smoothing, rng.normal(size=5))
    moving = Activity.of(now)
    cap = now.beta.sum() / 7
    assert np.all(now.alpha[moving.active] > 0)
    np.testing.assert_allclose(now.beta[moving.capped], cap)
    assert np.all((now.beta[moving.free] > 0) & (now.beta[moving.free] < cap))
    assert np.count_nonzero(now.beta) == len(moving.free) + len(moving.capped)


def test_moments_join_and_part():
    X = np.random.default_rng(9).normal(size=(30, 4)) + 100.0
    operator = as_operator(X)
    whole, first, last = (Moments.of(operator, np.arange(*ends)) for ends in ((0, 30), (0, 12), (12, 30)))
    for got, want in ((first.joined(last), whole), (whole.without(first), last)):
        assert got.count == want.count
        np.testing.assert_allclose(got.mean, want.mean)
        np.testing.assert_allclose(got.gram, want.gram, atol=1e-9)
    nothing = Moments.empty(4)
    assert nothing.joined(first) is first
    assert first.joined(nothing) is first
    assert whole.without(whole).count == 0


def test_running_moments_follow_the_set():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(200, 4))
    operator = as_operator(X)
    running = RunningMoments(operator)
    keep = np.ones(200, bool)
    for _ in range(30):
        keep[rng.integers(0, 200, 5)] ^= True
        rows = np.flatnonzero(keep)
        before = operator.n_passes
        moments = running.update(rows)
        centred = X[rows] - X[rows].mean(axis=0)
        np.testing.assert_allclose(moments.gram, centred.T @ centred, atol=1e-9)
        assert operator.n_passes - before <= 2.0


@pytest.mark.parametrize("root", [0.01, 0.4, 1.0, 7.0, 300.0])
def test_line_search_on_kinks(root):
    t = line_search(lambda t: (1000.0 if t > root else 1.0) * (t - root), -root, tol=1e-3, max_eval=60)
    assert t == pytest.approx(root, rel=2e-3)


def test_line_search_stays_inside():
    assert 0 < line_search(lambda t: None if t > 0.3 else t - 5.0, -5.0) <= 0.3
    assert line_search(lambda t: None, -1.0) == 0.0
