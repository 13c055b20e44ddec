"""The oracle over blocks: its points against the problem in memory, its steps and working sets row by row."""

from types import SimpleNamespace

import numpy as np
import pytest

from block_cases import block_problem, dual_pair
from solver_cases import go_to, make_data, make_problem
from taufpl.problem import KrylovSystem, Oracle
from taufpl.projection import project_topk_simplex
from taufpl.solvers import Newton
from working_set_cases import assert_describes, direction_of


def both(X, y, k, reg=0.01, ends=(70, 150), steps=2, sigma=1.0, seed=3):
    """The oracle over blocks and that in memory after the same steps, the first around the even pair."""
    rng = np.random.default_rng(seed)
    oracles = block_problem(X, y, k, reg, ends=ends).oracle(), make_problem(X, y, k, reg).oracle()
    for oracle in oracles:
        oracle.start(None, sigma)
    for i in range(steps):
        step = 0.3 * rng.normal(size=X.shape[1])
        for oracle in oracles:
            oracle.step(step, None)
            oracle.project(1.0)
            oracle.accept(1.0)
            oracle.adapt(sigma * (1.0 + i), recentre=i == 0, curvature=False)
    return oracles


@pytest.mark.parametrize("k", [1, 20, 120, 200])
def test_points_are_those_in_memory(k):
    X, y = make_data(60, 200, 5)
    blocks, memory = both(X, y, k)
    rng = np.random.default_rng(4)
    for tried, taken in [((1.0,), 1.0), ((1.0, 0.4), 0.4), ((1.0, 0.5), 1.0), ((1.0,), 0.0), ((2.0, 0.1), 0.1)]:
        step = 0.2 * rng.normal(size=5)
        for oracle in (blocks, memory):
            oracle.step(step, None)
        for t in tried:
            assert blocks.project(t) == pytest.approx(memory.project(t), rel=1e-9)
        for oracle in (blocks, memory):
            oracle.accept(taken)
        ours, known = blocks.point, memory.point
        assert ours.primal - ours.slack - 1e-12 <= known.primal <= ours.primal + 1e-12
        blocks.tighten()
        assert blocks.point.slack == 0.0
        assert blocks.point.primal == pytest.approx(known.primal, rel=1e-11)
        np.testing.assert_allclose(ours.coef, known.coef, atol=1e-12)
        np.testing.assert_allclose(ours.dual_direction, known.dual_direction, rtol=1e-9, atol=1e-9)
        assert ours.total == pytest.approx(known.total, rel=1e-11)
        assert ours.plain_dual == pytest.approx(known.plain_dual, rel=1e-9, abs=1e-11)
        assert ours.dual == pytest.approx(
            memory.problem.dual(memory.alpha, known.dual_direction @ known.dual_direction)[0]
        )


@pytest.mark.parametrize("k", [1, 20, 200])
def test_the_first_point_is_that_in_memory(k):
    X, y = make_data(60, 200, 5)
    ours, known = (oracle.point for oracle in both(X, y, k, steps=0))
    for name in ("primal", "dual", "plain_dual", "total"):
        assert getattr(ours, name) == pytest.approx(getattr(known, name), rel=1e-9), name
    np.testing.assert_allclose(ours.dual_direction, known.dual_direction, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 20, 120, 200])
def test_newton_steps_and_the_thresholds_that_they_lead_to(k):
    X, y = make_data(60, 200, 5)
    blocks, memory = both(X, y, k)
    point = blocks.point
    gradient = blocks.problem.ridge * point.coef - point.dual_direction
    step, _ = blocks.newton_step(gradient, 0.0)
    system = KrylovSystem(memory)
    np.testing.assert_allclose(system.product(step), -gradient, atol=1e-8 * np.abs(gradient).max())
    # A step so short that no row changes its class.
    step, expected = blocks.newton_step(1e-7 * gradient, 0.0)
    go_to(memory, point.coef + step)
    for name in ("lam", "cap", "total"):
        moved = getattr(memory.thresholds, name) - getattr(point.projection.thresholds, name)
        foreseen = getattr(expected, name) - getattr(point.projection.thresholds, name)
        assert foreseen == pytest.approx(moved, rel=1e-3, abs=1e-12 * abs(getattr(expected, name)))
    if np.isfinite(memory.thresholds.mu):
        moved = memory.thresholds.mu - point.projection.thresholds.mu
        assert expected.mu - point.projection.thresholds.mu == pytest.approx(moved, rel=1e-3, abs=1e-11)
    assert min(expected.widths) >= 0


def test_newton_steps_for_many_features_go_about_as_far():
    """By conjugate gradients, up to a tenth of the gradient in the norm of the preconditioner."""
    X, y = make_data(60, 200, 2100)
    blocks, memory = both(X, y, 20, reg=10.0, sigma=1.0, steps=1)
    system = KrylovSystem(memory)
    assert min(system.n_active, system.n_free) > 10
    for gradient in (np.random.default_rng(4).normal(size=2100), X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)):
        exact = system.product(blocks.newton_step(gradient, 0.0)[0])
        assert np.linalg.norm(exact + gradient) <= 0.2 * np.linalg.norm(gradient)


def test_a_warm_start_goes_on_where_the_last_solve_ended():
    X, y = make_data(60, 200, 5)
    blocks, _ = both(X, y, 20)
    blocks.settle(blocks.here, np.inf)
    blocks.finish()
    last, again = blocks.point, blocks.problem.replace(reg=0.02).oracle()
    again.start(SimpleNamespace(coef=last.coef), 0.3)
    np.testing.assert_array_equal(again.point.coef, last.coef)
    cap = last.theta * last.total / 20  # of the pair that was kept, at its best scale
    assert again.sigma == pytest.approx(Oracle.warm_sigma(0.3 * cap, cap, blocks.sigma), rel=1e-12)
    _, beta = dual_pair(again.problem)
    assert beta.sum() == pytest.approx(20 * cap, rel=1e-10)
    # The projection is around this beta, and the point's primal value that of the new penalty.
    problem = make_problem(X, y, 20, 0.02)
    again.tighten()
    assert again.point.primal == pytest.approx(problem.objective(last.coef), rel=1e-10)
    targets = 2.0 * (1.0 - X[y > 0] @ last.coef), beta + again.sigma * (X[y < 0] @ last.coef)
    alpha, beta = project_topk_simplex(*targets, 20, weight=again.weight)
    direction = X[y > 0].T @ alpha - X[y < 0].T @ beta
    np.testing.assert_allclose(again.point.dual_direction, direction, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("size", "k"), [(20, 20), (60, 20), (400, 20), (30, 100)])
def test_the_working_set_is_nearest_to_a_change_of_class_in_every_block(size, k):
    X, y = make_data(60, 200, 5)
    ends = (70, 150)
    blocks, memory = both(X, y, k, ends=ends, steps=1, sigma=3.0)
    found, now, step = blocks.working_set(size), blocks.point.projection.thresholds, blocks.direction
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    u = now.lam / blocks.weight
    targets = 2.0 * (1.0 - X[positive] @ blocks.here), memory.centre + blocks.sigma * (X[negative] @ blocks.here)
    over = targets[1] - now.mu
    classes = targets[0] > u, (over > 0) & (over < now.cap), over >= now.cap
    followed = [], []
    for start, stop in zip((0, *ends), (*ends, len(y)), strict=True):
        ours, theirs = (np.flatnonzero((rows >= start) & (rows < stop)) for rows in (positive, negative))
        moved = [np.abs(X[rows] @ step) for rows in (positive[ours], negative[theirs])]
        moved = [x + 0.3 * x.mean() for x in moved]
        count = min(int(np.ceil(size / len(y) * (stop - start))), len(theirs))
        away = np.minimum(np.abs(over), np.abs(over - now.cap))[theirs] / blocks.sigma / moved[1]
        if 2 * classes[1][theirs].sum() <= count:
            away[classes[1][theirs]] = 0.0
        near = np.abs(targets[0][ours] - u) / 2.0 / moved[0]
        reach = np.sort(away)[count - 1]
        followed[1].extend(theirs[away <= reach])
        followed[0].extend(ours[(near <= reach) & (near <= np.sort(near)[min(count, len(ours)) - 1])])
    followed = tuple(np.array(x, dtype=int) for x in followed)
    assert_describes(found, X, y, classes, targets, followed, step)
    np.testing.assert_allclose(found.centre, memory.centre[followed[1]], atol=1e-12)
    np.testing.assert_allclose(direction_of(found), blocks.point.dual_direction, atol=1e-9)


def test_what_blocks_say_of_the_positives_and_what_a_solve_costs():
    X, y = make_data(60, 200, 5, shift=3.0)
    blocks, memory = block_problem(X, y, 20, 0.01, ends=(70, 150)), make_problem(X, y, 20, 0.01)
    apart = X[y > 0] - X[y < 0].mean(axis=0)
    assert blocks.positive_spread() == pytest.approx(np.square(apart).sum(axis=1).mean(), rel=1e-12)
    # Passes count work on some rows as its share: the way over blocks costs about what it costs in memory.
    ours, known = Newton(tol=1e-8).solve(blocks), Newton(tol=1e-8).solve(memory)
    assert ours.converged
    assert np.any(ours.coef)
    assert known.n_passes / 2 < ours.n_passes < 2 * known.n_passes
