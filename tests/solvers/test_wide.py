"""Problems with more features than rows, which are solved in coordinates of the rows' span."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from solver_cases import QP_ERROR, assert_certified, make_data, make_problem, quadratic_program
from taufpl.operators import as_operator
from taufpl.problem import top_count
from taufpl.solvers import Newton, Pace, Status, solve_path


def wide_data(storage=np.asarray, d=1500, m=30, n=120):
    X, y = make_data(m, n, d, shift=3.0)
    if storage is not np.asarray:
        X *= np.random.default_rng(1).uniform(size=X.shape) < 0.05
    return storage(X), y


@pytest.mark.parametrize("reg", [1e-4, 1e-1, 10.0])
@pytest.mark.parametrize("k", [1, 5, 45])
@pytest.mark.parametrize("name", ["independent", "duplicates", "rank 3"])
def test_objective_of_an_independent_solver(name, k, reg):
    X, y = make_data(15, 45, 150, shift=3.0)
    if name == "duplicates":
        X[10:20] = X[:10]
    if name == "rank 3":
        X = X[:, :3] @ X[:3]
    problem = make_problem(X, y, k, reg)
    assert problem.row_space() is not None
    result = Newton(tol=1e-8).solve(problem)
    assert_certified(X, y, k, reg, result, 1e-8)  # which bounds the distance to the optimum by itself
    # Directions without data cost the other solver its digits.
    u, s, _ = np.linalg.svd(X, full_matrices=False)
    same = (u * s)[:, s > 1e-9 * s[0]]
    assert result.primal == pytest.approx(quadratic_program(same, y, k, reg), rel=1e-6, abs=QP_ERROR)
    assert problem.certify(result.coef, result.alpha, result.beta).gap <= 1.01e-8


@pytest.mark.parametrize("reg", [1e-6, 1e-3, 1.0, 1e2])
@pytest.mark.parametrize("tau", [0.01, 0.1])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_gap_from_outside(storage, tau, reg):
    X, y = wide_data(storage)
    problem = make_problem(X, y, top_count(tau, 120), reg)
    assert (problem.row_space() is None) == (storage is not np.asarray)
    assert problem.row_space(stalled=True) is not None
    result = Newton(tol=1e-6).solve(problem)
    assert_certified(X, y, problem.k, reg, result, 1e-6)


def test_sparse_rows_go_to_their_span_where_conjugate_gradients_stall():
    rng = np.random.default_rng(0)
    X = sp.random_array(
        (300, 1500), density=0.02, format="csr", rng=rng, data_sampler=lambda size: rng.normal(size=size)
    )
    y = np.where(rng.random(300) < 0.2, 1, -1)
    k = top_count(0.2, np.count_nonzero(y < 0))
    seen = []
    problem = make_problem(X, y, k, 1e-4)
    result = Newton(tol=1e-4).solve(problem, callback=seen.append)
    assert_certified(X, y, k, 1e-4, result, 1e-4)
    assert problem.operator._row_parts is not None  # it did stall
    assert tuple(seen) == result.history


def test_a_large_offset_costs_digits_not_the_certificate():
    X, y = wide_data()
    result = Newton(tol=1e-6).solve(make_problem(X + 1e3, y, 13, 1e-2))
    assert_certified(X + 1e3, y, 13, 1e-2, result, 1e-6)


def test_results_stay_in_the_space_of_the_features():
    X, y = wide_data()
    problem = make_problem(X, y, 13, 0.1)
    cold = Newton(tol=1e-6).solve(problem)
    assert cold.coef.shape == (1500,)
    again = Newton(tol=1e-6).solve(problem, start=cold)
    assert again.n_iter == 0
    assert again.n_passes <= 6
    # What lies outside the rows' span changes no score, and goes.
    outside = np.linalg.svd(X)[2][-1]
    assert Newton().solve(problem, start=again).coef @ outside == pytest.approx(0.0, abs=1e-12)
    for k, reg, result in solve_path(Newton(tol=1e-6), problem, [1, 13], [1e-3, 1e-1, 1e-2]):
        assert_certified(X, y, k, reg, result, 1e-6)


def test_history_and_limits():
    X, y = wide_data()
    problem = make_problem(X, y, 13, 0.1)
    seen = []
    result = Newton(tol=1e-6).solve(problem, callback=seen.append)
    assert tuple(seen) == result.history
    assert result.n_passes == pytest.approx(problem.operator.n_passes)
    assert result.history[-1].gap == result.gap
    assert all(a.n_passes <= b.n_passes for a, b in itertools.pairwise(seen))
    assert all(record.gap > 1e-6 for record in seen[:-1])
    early = Newton(tol=1e-6, max_iter=2).solve(problem)
    assert early.n_iter == 2
    assert not early.converged
    assert problem.certify(early.coef, early.alpha, early.beta).gap == pytest.approx(early.gap)


def test_the_pace_that_is_asked_for_is_kept_in_the_span_of_the_rows():
    """A small first sigma is a cautious one: many steps. The pace of its own is quicker, and so is a bold one."""
    X, y = wide_data()
    paces = (Pace(1e-3, 0.1, ((1, 3.0),), 1.0, 3), Pace(3.0, 0.1, ((1, 10.0), (3, 3.0)), 1.5, 5), None)
    results = [Newton(tol=1e-6, pace=pace).solve(make_problem(X, y, 13, 1e-4)) for pace in paces]
    for result in results:
        assert_certified(X, y, 13, 1e-4, result, 1e-6)
    cautious, bold, own = (result.n_iter for result in results)
    assert cautious >= 1.5 * bold
    assert bold <= 7
    assert 6 <= own <= 13


def test_passes_in_the_span_of_the_rows_count():
    X, y = wide_data()
    problem = make_problem(X, y, 13, 0.1)
    whole = Newton(tol=1e-9).solve(problem)
    limit = 0.3 * whole.n_passes
    part = Newton(tol=1e-9, max_passes=limit).solve(make_problem(X, y, 13, 0.1))
    assert part.status is Status.MAX_PASSES
    assert part.n_passes <= limit + 6  # the last step, the way back, and the certificate there
    assert part.n_iter < whole.n_iter


@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sp.csr_array], ids=["C", "F", "csr"])
@pytest.mark.parametrize("rank", [1, 4, 20])
def test_row_factor(rank, storage):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, rank)) @ rng.normal(size=(rank, 60))
    operator = as_operator(storage(X))
    factor = operator.row_factor()
    assert operator.row_factor().reduced is factor.reduced
    assert factor.reduced.shape == (20, rank)
    assert operator.n_passes == pytest.approx(1.0)
    u, w = rng.normal(size=rank), rng.normal(size=60)
    lifted = factor.lift(u)
    np.testing.assert_allclose(X @ lifted, factor.reduced.matvec(u), atol=1e-9)
    assert np.linalg.norm(lifted) == pytest.approx(np.linalg.norm(u))
    np.testing.assert_allclose(factor.coordinates(lifted), u, atol=1e-9)
    np.testing.assert_allclose(factor.reduced.matvec(factor.coordinates(w)), X @ w, atol=1e-9)


def test_rows_of_zeros():
    y = np.repeat([1, -1], 5)
    result = Newton().solve(make_problem(np.zeros((10, 50)), y, 2, 1.0))
    assert result.converged
    assert result.primal == 1.0
