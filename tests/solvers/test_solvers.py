"""Solvers, judged from outside: every value is recomputed with plain NumPy from what they return."""

import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from solver_cases import QP_ERROR, assert_certified, judge, make_data, make_problem, quadratic_program
from taufpl.operators import as_operator, one_blas_thread
from taufpl.problem import Loss, RankingProblem, SquaredHinge, top_count
from taufpl.solvers import Accelerated, Newton, Status, solve_path

NEWTON, ACCELERATED = Newton(tol=1e-8), Accelerated(tol=1e-8)


# The smallest reg is out of reach of the first-order method in reasonable time.
@pytest.mark.parametrize(
    ("solver", "reg"), [(NEWTON, 1e-4), (NEWTON, 1e-2), (NEWTON, 1.0), (ACCELERATED, 1e-2), (ACCELERATED, 1.0)]
)
@pytest.mark.parametrize("k", [1, 6, 40, 120])
def test_objective_of_an_independent_solver(k, solver, reg):
    result = solver.solve(make_problem(*make_data(30, 120, 5), k, reg))
    assert result.converged
    assert result.primal == pytest.approx(optimum(k, reg), rel=1e-6, abs=QP_ERROR)


@cache
def optimum(k, reg):
    return quadratic_program(*make_data(30, 120, 5), k, reg)


@pytest.mark.parametrize("reg", [1e-6, 1e-3, 1e-1, 1e2])
@pytest.mark.parametrize("tau", [0.0, 0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_newton_gap_from_outside(storage, dtype, tau, reg):
    X, y = make_data()
    X = storage(X.astype(dtype))
    k = top_count(tau, 240)
    result = Newton(tol=1e-6).solve(make_problem(X, y, k, reg))
    assert_certified(X, y, k, reg, result, 1e-6)
    assert result.n_passes < 150


@pytest.mark.parametrize("reg", [1e-1, 1.0, 1e2])
@pytest.mark.parametrize("tau", [0.0, 0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_accelerated_gap_from_outside(storage, dtype, tau, reg):
    X, y = make_data()
    X = storage(X.astype(dtype))
    k = top_count(tau, 240)
    result = Accelerated(tol=1e-4).solve(make_problem(X, y, k, reg))
    assert_certified(X, y, k, reg, result, 1e-4)


def test_backtracking_reaches_the_same():
    X, y = make_data()
    problem = make_problem(X, y, 25, 0.1)
    spectral, backtracking = (Accelerated(tol=1e-6, step=s).solve(problem) for s in ("spectral", "backtracking"))
    assert_certified(X, y, 25, 0.1, backtracking, 1e-6)
    assert backtracking.primal == pytest.approx(spectral.primal, rel=2e-6)


@pytest.mark.parametrize(("reg", "most"), [(0.1, 690), (1.0, 190)])
@pytest.mark.parametrize("step", ["spectral", "backtracking"])
def test_accelerated_takes_about_as_many_passes_as_ever(step, reg, most):
    """Momentum, its restarts and the size of steps show in the number of passes: half as many again are too many."""
    result = Accelerated(tol=1e-6, step=step).solve(make_problem(*make_data(), 25, reg))
    assert result.converged
    assert result.n_passes <= most


@pytest.mark.parametrize(("k", "most"), [(1, 20), (200, 27), (10_000, 36)])
def test_newton_takes_about_as_many_passes_as_ever(k, most):
    result = Newton(tol=1e-6).solve(make_problem(*long_data(), k, 1e-5))
    assert result.converged
    assert result.n_passes <= most
    assert result.n_projections <= 26


@cache
def long_data():
    return make_data(500, 20_000, 20, shift=2.5)


def hard_data(name):
    X, y = make_data(50, 200, 6)
    match name:
        case "ties":
            return np.sign(X), y
        case "integers":
            return np.round(X), y
        case "duplicates":
            return np.repeat(X, 6, axis=0), np.repeat(y, 6)
        case "columns":
            X[:, 0], X[:, 1], X[:, 2] = 0.0, 7.0, X[:, 3]
            return X, y
        case "scales":
            return X * 10.0 ** np.linspace(-5, 5, 6), y
        case "offset":
            return X + 1e4, y
        case "one positive":
            keep = np.r_[np.flatnonzero(y > 0)[:1], np.flatnonzero(y < 0)]
            return X[keep], y[keep]
        case "separable":
            return X + 8.0 * (y > 0)[:, None], y
        case "reversed":
            return X - 5.0 * (y > 0)[:, None], y
        case "all rows alike":
            return np.ones_like(X), y
        case "all zero":
            return np.zeros_like(X), y
        case "wide":
            return np.random.default_rng(3).normal(size=(len(y), 300)), y
    raise AssertionError(name)


HARD = [
    "ties",
    "integers",
    "duplicates",
    "columns",
    "scales",
    "offset",
    "one positive",
    "separable",
    "reversed",
    "all rows alike",
    "all zero",
    "wide",
]


@pytest.mark.parametrize("reg", [1e-6, 1e-2])
@pytest.mark.parametrize("k", [1, pytest.param(20, marks=pytest.mark.slow), "n"])
@pytest.mark.parametrize("name", HARD)
def test_newton_on_hard_data(name, k, reg):
    X, y = hard_data(name)
    k = int((y < 0).sum()) if k == "n" else k
    result = Newton(tol=1e-6).solve(make_problem(X, y, k, reg))
    primal, dual, violation = judge(X, y, k, reg, result)
    assert result.converged
    assert violation <= 1e-10
    assert (primal - dual) / primal <= 2e-6


@pytest.mark.parametrize("reg", [1e-8, 1e-5, 1e-2, 10.0, 1e4])
def test_newton_over_twelve_decades_of_reg(reg):
    X, y = make_data()
    result = Newton(tol=1e-6).solve(make_problem(X, y, 25, reg))
    assert_certified(X, y, 25, reg, result, 1e-6)


def test_a_collapsed_problem_is_certified():
    X, y = make_data(shift=0.0, n=400)
    result = Newton(tol=1e-8).solve(make_problem(X, y, 1, 1e-5))
    assert result.converged
    assert result.primal == pytest.approx(1.0, abs=1e-7)
    assert result.dual == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("tau", [0.01, 0.1])
def test_conjugate_gradients_on_many_features(tau):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.uniform(size=(1200, 3000)) * (rng.uniform(size=(1200, 3000)) < 0.01))
    y = np.where(X[:, :300].sum(axis=1) + 0.3 * rng.normal(size=1200) > 1.3, 1, -1)
    k, reg = top_count(tau, int((y < 0).sum())), 1e-3
    result = Newton(tol=1e-6).solve(make_problem(X, y, k, reg))
    assert_certified(X, y, k, reg, result, 1e-6)


def test_unused_rows_do_not_matter():
    X, y = make_data()
    keep = np.arange(0, 300, 2)
    used = np.zeros(300, bool)
    used[keep] = True
    whole = RankingProblem(as_operator(X), np.flatnonzero((y > 0) & used), np.flatnonzero((y < 0) & used), 9, 0.01)
    part = make_problem(X[keep], y[keep], 9, 0.01)
    assert Newton().solve(whole).primal == pytest.approx(Newton().solve(part).primal, rel=3e-6)


@pytest.mark.parametrize("solver", [Newton(tol=1e-6), Accelerated(tol=1e-4)])
def test_history_passes_and_callback(solver):
    X, y = make_data()
    problem = make_problem(X, y, 25, 0.1)
    seen = []
    result = solver.solve(problem, callback=seen.append)
    assert tuple(seen) == result.history
    assert result.n_passes == pytest.approx(problem.operator.n_passes)
    gaps = [record.gap for record in result.history]
    assert gaps == sorted(gaps, reverse=True)
    assert all(a.n_passes <= b.n_passes for a, b in zip(result.history, result.history[1:], strict=False))
    assert result.history[-1].gap == result.gap <= solver.tol
    # It counts this run only; the operator keeps its row norms, which saves the second run a pass.
    assert solver.solve(problem).n_passes == pytest.approx(result.n_passes, abs=1.1)


@pytest.mark.parametrize("kind", [Newton, Accelerated])
def test_an_early_stop_is_admitted(kind):
    X, y = make_data()
    problem = make_problem(X, y, 25, 1e-3)
    by_iterations = kind(max_iter=2).solve(problem)
    assert by_iterations.status is Status.MAX_ITER
    assert not by_iterations.converged
    by_passes = kind(max_passes=5).solve(problem)
    assert by_passes.status is Status.MAX_PASSES
    primal, dual, violation = judge(X, y, 25, 1e-3, by_passes)
    assert violation <= 1e-10
    assert by_passes.gap == pytest.approx((primal - dual) / primal)


def test_an_unreachable_tolerance_stalls():
    X, y = make_data()
    result = Newton(tol=-1.0).solve(make_problem(X, y, 25, 1e-3))  # rounding may bring the gap to 0
    assert result.status is Status.STALLED
    assert result.gap < 1e-9


@pytest.mark.parametrize("solver", [Newton(tol=1e-6), Accelerated(tol=1e-4)])
def test_a_warm_start_saves_passes(solver):
    X, y = make_data()
    cold = solver.solve(make_problem(X, y, 25, 0.1))
    again = solver.solve(make_problem(X, y, 25, 0.1), start=cold)
    assert again.converged
    assert again.n_passes <= 4 + (60 if isinstance(solver, Accelerated) else 0)
    near = solver.solve(make_problem(X, y, 20, 0.08), start=cold)
    assert_certified(X, y, 20, 0.08, near, solver.tol)


def test_path_certifies_every_cell():
    X, y = make_data()
    cells = list(solve_path(Newton(tol=1e-5), make_problem(X, y, 1, 1.0), [1, 25], [1e-3, 1e-1, 1e-2]))
    assert [(k, reg) for k, reg, _ in cells] == [(k, reg) for k in (25, 1) for reg in (1e-1, 1e-2, 1e-3)]
    for k, reg, result in cells:
        assert_certified(X, y, k, reg, result, 1e-5)


class Absolute(Loss):
    """A loss with nothing to offer to either solver."""

    def value(self, margins):
        return np.abs(1 - margins)

    def derivative(self, margins):
        return np.sign(margins - 1)

    def conjugate(self, alpha):
        return -alpha

    def conjugate_derivative(self, alpha):
        return -np.ones_like(alpha)


@pytest.mark.parametrize(("kind", "needs"), [(Newton, "quadratic conjugate"), (Accelerated, "smooth conjugate")])
def test_a_solver_says_what_it_needs_of_a_loss(kind, needs):
    problem = RankingProblem(as_operator(np.eye(4)), [0], [1, 2, 3], 1, 1.0, Absolute())
    with pytest.raises(ValueError, match=needs):
        kind().solve(problem)


def test_another_loss_works_in_both():
    class Wider(SquaredHinge):
        """l(u) = 2 max(0, 1 - u)^2, so that l*(-a) = a^2/8 - a."""

        conjugate_curvature = conjugate_smoothness = 0.25

        def value(self, margins):
            return 2 * super().value(margins)

        def derivative(self, margins):
            return 2 * super().derivative(margins)

        def conjugate(self, alpha):
            return alpha * (alpha / 8 - 1)

        def conjugate_derivative(self, alpha):
            return alpha / 4 - 1

        def best_scale(self, alpha, quadratic):
            return float(alpha.sum()) / (2 * (quadratic + float(alpha @ alpha) / 8))

    X, y = make_data()
    rows = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    problem = RankingProblem(as_operator(X), *rows, 25, 0.2, Wider())
    newton, accelerated = Newton(tol=1e-7).solve(problem), Accelerated(tol=1e-6).solve(problem)
    assert newton.converged
    assert accelerated.converged
    assert newton.primal == pytest.approx(accelerated.primal, rel=2e-6)
    # Twice the loss with twice the penalty is twice the objective.
    plain = Newton(tol=1e-7).solve(make_problem(X, y, 25, 0.1))
    assert newton.primal == pytest.approx(2 * plain.primal, rel=1e-6)


def test_threads_of_blas_come_back():
    def counts():
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    X, y = make_data()
    during = []
    before = counts()
    problem = make_problem(X, y, 25, 0.1)
    Newton().solve(problem, callback=lambda record: during.extend(counts()))
    assert set(during) <= {1}
    with pytest.raises(ZeroDivisionError):
        Newton().solve(problem, callback=lambda record: 1 / 0)
    with one_blas_thread, one_blas_thread:
        pass
    assert counts() == before


@threadpool_limits.wrap(limits=2, user_api="blas")
def test_threads_of_blas_come_back_whichever_thread_leaves_last():
    def counts():
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    def stay(end):
        with one_blas_thread:
            inside.wait()
            end.wait(timeout=60)

    before = counts()  # some of the libraries here know one thread alone
    assert max(before) == 2
    for _ in range(2):
        inside, ends = threading.Barrier(3, timeout=60), (threading.Event(), threading.Event())
        threads = [threading.Thread(target=stay, args=(end,)) for end in ends]
        for thread in threads:
            thread.start()
        inside.wait()
        for end, thread in zip(ends, threads, strict=True):
            assert set(counts()) == {1}
            end.set()
            thread.join()
        assert counts() == before


def test_a_memory_is_used_only_where_it_is_true():
    X, y = make_data(shift=4.0)
    problem = make_problem(X, y, 25, 0.1)
    first = Newton().solve(problem)
    assert Newton().solve(problem, start=first).n_passes < 1.0  # one sum over the rows with weight
    # The same result as a start on other rows, at other vectors, and for another k.
    other, labels = make_data(seed=1)
    assert_certified(other, labels, 25, 0.1, Newton().solve(make_problem(other, labels, 25, 0.1), start=first), 1e-6)
    moved = replace(first, coef=2 * first.coef, beta=first.beta[::-1].copy())
    assert_certified(X, y, 25, 0.1, Newton().solve(problem, start=moved), 1e-6)
    assert_certified(X, y, 5, 0.1, Newton().solve(problem.replace(k=5), start=first), 1e-6)
    # A result that its owner changes in place is not the one that was kept.
    first.coef[:] = 1.0
    assert_certified(X, y, 25, 0.1, Newton().solve(problem, start=first), 1e-6)
    with pytest.raises(ValueError, match="start must have a pair of"):
        Newton().solve(make_problem(X[:-1], y[:-1], 25, 0.1), start=first)
