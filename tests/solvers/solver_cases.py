"""Data for the solvers, and a judgement of what they return that does not use the library."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from taufpl.operators import as_operator
from taufpl.problem import RankingProblem

# Absolute error of the quadratic program's value, whose tolerances are absolute: .5e-8 was the largest seen.
QP_ERROR = 2e-8


def make_data(m=60, n=240, d=8, shift=1.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m + n, d))
    y = np.r_[np.ones(m, int), -np.ones(n, int)]
    X[:m] += shift / np.sqrt(d)
    order = rng.permutation(m + n)
    return X[order], y[order]


def make_problem(X, y, k, reg):
    return RankingProblem(as_operator(X), np.flatnonzero(y > 0), np.flatnonzero(y < 0), k, reg)


def judge(X, y, k, reg, result):
    """Primal, dual, and how far the pair is from feasible, without the library."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    positive, negative = X[y > 0], X[y < 0]
    m = len(positive)
    coef, alpha, beta = result.coef, result.alpha, result.beta
    top = np.sort(negative @ coef)[-k:].mean()
    primal = np.mean(np.maximum(0, 1 - positive @ coef + top) ** 2) + reg / 2 * coef @ coef
    v = positive.T @ alpha - negative.T @ beta
    dual = -(v @ v / (2 * m * reg) + (alpha**2 / 4 - alpha).sum()) / m
    total = max(alpha.sum(), 1e-300)
    violation = max(-alpha.min(), -beta.min(), abs(alpha.sum() - beta.sum()), (beta - alpha.sum() / k).max())
    return primal, dual, violation / total


def assert_certified(X, y, k, reg, result, tol):
    primal, dual, violation = judge(X, y, k, reg, result)
    assert violation <= 1e-10
    assert result.converged
    assert (primal - dual) / primal <= tol * (1 + 1e-6) + 1e-12
    assert result.primal == pytest.approx(primal, rel=1e-7)
    assert result.dual == pytest.approx(dual, rel=1e-7, abs=1e-9 * primal)


def quadratic_program(X, y, k, reg):
    """min mean(u^2) + (reg/2)|w|^2 with u >= 1 - s+ + b, and b at least the top-k mean in its linear form.

    Right to about QP_ERROR. Asked for more, the solver gets there or warns that it did not, as the processor has it.
    """
    positive, negative = X[y > 0], X[y < 0]
    w, u = cp.Variable(X.shape[1]), cp.Variable(len(positive), nonneg=True)
    b, t, xi = cp.Variable(), cp.Variable(), cp.Variable(len(negative), nonneg=True)
    constraints = [u >= 1 - positive @ w + b, xi >= negative @ w - t, b >= t + cp.sum(xi) / k]
    goal = cp.sum_squares(u) / len(positive) + reg / 2 * cp.sum_squares(w)
    problem = cp.Problem(cp.Minimize(goal), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)
    return problem.value


def oracle_at(problem, coef, sigma=3.0, seed=5):
    """The oracle at a point, around a centre drawn at random."""
    oracle = problem.oracle()
    oracle.start(None, 1.0)
    oracle.centre[:] = np.abs(np.random.default_rng(seed).normal(size=problem.n_negative))
    go_to(oracle, coef)
    oracle.adapt(sigma, recentre=False, curvature=False)
    return oracle


def go_to(oracle, coef):
    oracle.step(coef - oracle.coef, None)
    oracle.project(1.0)
    oracle.accept(1.0)
    return oracle


def gradient_at(oracle, coef):
    point = go_to(oracle, coef).point
    return oracle.problem.ridge * coef - point.dual_direction
