"""What a second-order solver sees of the problem: psi and its derivatives, linear systems, moments, and warm starts."""

import numpy as np
import pytest

from solver_cases import go_to, gradient_at, make_data, make_problem, oracle_at
from taufpl.operators import as_operator
from taufpl.problem import (
    KrylovEffort,
    KrylovSystem,
    Moments,
    RunningMoments,
    conjugate_gradients,
    estimated_diagonal,
)


def psi(oracle, coef):
    problem, now = oracle.problem, go_to(oracle, coef)
    positive, negative = problem.scores(coef)
    value = problem.ridge / 2 * coef @ coef - now.alpha @ positive - problem.loss.conjugate(now.alpha).sum()
    return value + now.beta @ negative - ((now.beta - now.centre) ** 2).sum() / (2 * now.sigma)


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("sigma", [0.1, 3.0, 50.0])
def test_gradient_and_hessian_of_psi_by_differences(k, sigma):
    rng = np.random.default_rng(5)
    X, y = make_data(20, 60, 5)
    coef = rng.normal(size=5)
    oracle = oracle_at(make_problem(X, y, k, 0.01), coef, sigma)
    gradient, step = gradient_at(oracle, coef), 1e-5
    eye = np.eye(5)
    differences = [(psi(oracle, coef + step * e) - psi(oracle, coef - step * e)) / (2 * step) for e in eye]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5 * np.abs(gradient).max())

    system = KrylovSystem(go_to(oracle, coef))
    hessian = np.array([system.product(e) for e in eye])
    step = 1e-7
    columns = [(gradient_at(oracle, coef + step * e) - gradient_at(oracle, coef - step * e)) / (2 * step) for e in eye]
    np.testing.assert_allclose(hessian, columns, rtol=1e-5, atol=1e-6 * np.abs(hessian).max())


@pytest.mark.parametrize("n_features", [40, 400])
def test_conjugate_gradients_solve_with_both_preconditioners(n_features):
    rng = np.random.default_rng(7)
    X, y = make_data(20, 60, n_features)
    problem = make_problem(X, y, 7, 1e-4)
    oracle = oracle_at(problem, 0.1 * rng.normal(size=n_features), seed=7)
    gradient = rng.normal(size=n_features)
    system = KrylovSystem(oracle)
    squares = (X[y > 0] ** 2).mean(axis=0), (X[y < 0] ** 2).mean(axis=0)
    diagonal = estimated_diagonal(oracle, problem.ridge, squares, (system.n_active, system.n_free))
    for inverse in (system._woodbury(), lambda r: r / diagonal):
        step = conjugate_gradients(system.product, inverse, gradient, 1e-8)
        assert np.linalg.norm(system.product(step) - gradient) <= 1e-3 * np.linalg.norm(gradient)


def test_hard_systems_are_factored_once_conjugate_gradients_have_taken_as_long():
    rng = np.random.default_rng(7)
    X, y = make_data(20, 60, 400)
    problem = make_problem(X, y, 7, 1e-7)
    oracle = oracle_at(problem, 0.1 * rng.normal(size=400), seed=7)
    gradient, squares = rng.normal(size=400), (np.ones(400), np.ones(400))
    system, effort, passes = KrylovSystem(oracle), KrylovEffort(forcing=1e-9), []
    for _ in range(2):
        before = problem.operator.n_passes
        step = system.solve(gradient, 0.0, squares, effort)
        passes.append(problem.operator.n_passes - before)
        assert np.linalg.norm(system.product(step) + gradient) <= 1e-3 * np.linalg.norm(gradient)
    assert passes[1] < passes[0]  # the second time they are not tried


def test_short_steps_ask_for_more_exact_systems_and_long_ones_for_less():
    effort = KrylovEffort()
    first = effort.forcing
    for _ in range(2):
        effort.see_step(0.2)
    tight = effort.forcing
    effort.see_step(1.0)
    assert tight < effort.forcing < first
    for _ in range(9):
        effort.see_step(1.0)
    assert effort.forcing == first
    assert effort.expected == 0


def test_conjugate_gradients_are_given_up_after_steps_that_hardly_moved():
    effort = KrylovEffort()
    effort.see_step(0.01)
    assert effort.expected == 0
    effort.see_step(0.01)
    assert effort.expected > 300


def test_rows_are_split_by_what_the_pair_does_with_them():
    X, y = make_data(20, 60, 5)
    oracle = oracle_at(make_problem(X, y, 7, 0.01), np.random.default_rng(8).normal(size=5))
    cap = oracle.beta.sum() / 7
    system = KrylovSystem(oracle)
    n_capped = np.count_nonzero(np.isclose(oracle.beta, cap, rtol=1e-9))
    assert system.n_active == np.count_nonzero(oracle.alpha)
    assert system.n_free == np.count_nonzero(oracle.beta) - n_capped
    assert len(system.rows) == system.n_active + system.n_free


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
