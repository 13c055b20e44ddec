"""What a second-order solver sees of the problem: psi and its derivatives, linear systems, moments, and warm starts."""

from types import SimpleNamespace

import numpy as np
import pytest

from solver_cases import go_to, gradient_at, make_data, make_problem, oracle_at
from taufpl.operators import as_operator
from taufpl.problem import (
    KrylovEffort,
    KrylovSystem,
    Moments,
    Oracle,
    RunningMoments,
    conjugate_gradients,
    estimated_diagonal,
    newton_direction,
)
from taufpl.projection import project_topk_simplex
from working_set_cases import assert_describes, direction_of


def psi(oracle, coef):
    problem, now = oracle.problem, go_to(oracle, coef)
    positive, negative = problem.scores(coef)
    value = problem.ridge / 2 * coef @ coef - now.alpha @ positive - problem.loss.conjugate(now.alpha).sum()
    return value + now.beta @ negative - ((now.beta - now.centre) ** 2).sum() / (2 * now.sigma)


@pytest.mark.parametrize(("k", "apart"), [(1, 0.0), (7, 0.0), (40, 0.0), (60, 0.0), (3, 300.0)])
@pytest.mark.parametrize("sigma", [0.1, 3.0, 50.0])
def test_gradient_and_hessian_of_psi_by_differences(k, apart, sigma):
    """Also where k negatives carry all the weight, because these are all or stand apart: none is free."""
    rng = np.random.default_rng(5)
    X, y = make_data(20, 60, 5)
    coef = rng.normal(size=5)
    X[np.flatnonzero(y < 0)[:k]] += apart / sigma * coef
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
    exact = system._woodbury()(gradient)
    assert np.linalg.norm(system.product(exact) - gradient) <= 1e-6 * np.linalg.norm(gradient)  # H is of condition 1e6


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
    assert passes[1] + 0.5 < passes[0] < 12  # the second time they are not tried


def test_easy_systems_take_few_products():
    """As far as is asked for, two products with 80 of the 200 rows an iteration; no matrix of the rows is needed."""
    X, y = make_data(20, 180, 400)
    problem = make_problem(X, y, 7, 100.0)
    oracle = oracle_at(problem, 0.1 * np.random.default_rng(7).normal(size=400), seed=7)
    gradient, squares = np.random.default_rng(8).normal(size=400), ((X[y > 0] ** 2).mean(0), (X[y < 0] ** 2).mean(0))
    for enough, most, left in ((0.0, 3, 0.1), (1e9, 1, 0.5)):
        system, effort, before = KrylovSystem(oracle), KrylovEffort(), problem.operator.n_passes
        step = system.solve(gradient, enough, squares, effort)
        iterations = (problem.operator.n_passes - before) / (2 * len(system.rows) / 200)
        assert effort.expected == pytest.approx(iterations)
        assert effort.expected <= most
        assert np.linalg.norm(system.product(step) + gradient) <= left * np.linalg.norm(gradient)


def test_features_of_other_scales_do_not_make_systems_hard():
    X, y = make_data(60, 240, 40)
    scales = np.logspace(0, 4, 40)
    X *= scales
    problem = make_problem(X, y, 20, 1e-3)
    oracle = oracle_at(problem, np.random.default_rng(7).normal(size=40) / scales, seed=7)
    squares = (X[y > 0] ** 2).mean(axis=0), (X[y < 0] ** 2).mean(axis=0)
    gradient, system, effort = (
        np.random.default_rng(8).normal(size=40),
        KrylovSystem(oracle),
        KrylovEffort(forcing=1e-3),
    )
    step = system.solve(gradient, 0.0, squares, effort)
    exact = -np.linalg.solve([system.product(e) for e in np.eye(40)], gradient)
    assert np.linalg.norm(scales * (step - exact)) <= 2e-3 * np.linalg.norm(scales * exact)
    assert effort.expected <= 18  # iterations; it takes 12


def moments_of(X):
    return Moments.of(as_operator(X), np.arange(len(X)))


@pytest.mark.parametrize("counts", [(12, 9, 4), (12, 9, 0), (12, 0, 6), (12, 0, 4), (0, 9, 4), (0, 0, 0)])
def test_newton_directions_solve_the_system(counts):
    """H written out by rows; the last term is absent where no row is active, or none free and not k at the cap."""
    rng, k, sigma, curvature, ridge = np.random.default_rng(9), 6, 3.0, 0.5, 0.2
    active, free, capped = (rng.normal(size=(count, 5)) + 1.0 for count in counts)
    H, z, rho = ridge * np.eye(5), capped.sum(axis=0) / k, len(capped) / k**2
    if len(active):
        H += (len(active) / curvature) * np.cov(active.T, bias=True)
        z, rho = z - active.mean(axis=0), rho + sigma * curvature / len(active)
    if len(free):
        H += sigma * len(free) * np.cov(free.T, bias=True)
        q = 1 - len(capped) / k
        z, rho = z + q * free.mean(axis=0), rho + q**2 / len(free)
    if len(active) and (len(free) or len(capped) == k):
        H += sigma / rho * np.outer(z, z)
    gradient = rng.normal(size=5)
    parts = (moments_of(rows) if len(rows) else Moments.empty(5) for rows in (active, free))
    mean = capped.mean(axis=0) if len(capped) else np.zeros(5)
    step = newton_direction(gradient, *parts, (len(capped), mean), k, sigma, curvature, ridge)
    np.testing.assert_allclose(H @ step, -gradient, atol=1e-11)


@pytest.mark.parametrize("scale", [1e9, 1e150, 1e160])
def test_a_feature_that_eats_the_digits_of_others_leaves_a_descent_step(scale):
    rng = np.random.default_rng(9)
    active = rng.normal(size=(12, 1)) * [scale, scale, 1.0] + [scale, 0.0, 0.0]
    with np.errstate(over="ignore", invalid="ignore"):
        parts = moments_of(active), Moments.empty(3)
        gradient = np.array([1.0, -1.0, 1.0])
        step = newton_direction(gradient, *parts, (0, np.zeros(3)), 6, 3.0, 0.5, 1e-12)
    assert np.isfinite(step).all()
    assert gradient @ step < 0


def test_sigma_stays_where_projections_take_its_weight():
    X, y = make_data(20, 60, 5)
    oracle = make_problem(X, y, 7, 0.01).oracle()
    for sigma in (1e-30, 1e-11, 1.0, 1e11, 1e30):
        oracle.sigma = sigma
        assert 1e-12 <= oracle.weight <= 1e12
        assert oracle.weight == 0.5 * oracle.sigma
        if 1e-10 < sigma < 1e11:
            assert oracle.sigma == sigma
        project_topk_simplex([1.0], [1.0], 1, weight=oracle.weight)


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
    """Sets of so many numbers are read row by row as they change, and afresh after as many changes as half a set."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(600, 60)) + 3.0
    operator = as_operator(X)
    running = RunningMoments(operator)
    keep = np.ones(600, bool)
    read = []
    for _ in range(60):
        rows = np.flatnonzero(keep)
        before = operator.n_passes
        moments = running.update(rows)
        read.append((operator.n_passes - before) * 600 / len(rows))
        centred = X[rows] - X[rows].mean(axis=0)
        assert moments.count == len(rows)
        np.testing.assert_allclose(moments.mean, X[rows].mean(axis=0), rtol=1e-11)
        np.testing.assert_allclose(moments.gram, centred.T @ centred, atol=1e-8)
        keep[rng.integers(0, 600, 8)] ^= True
    fresh = np.flatnonzero(np.array(read) > 0.5)
    assert fresh[0] == 0
    assert 1 <= len(fresh[1:]) <= 4  # some 470 rows of 400 or so have changed
    assert np.median(read) <= 2 * 8 / 250


def test_small_sets_are_read_afresh():
    X = np.random.default_rng(10).normal(size=(200, 4))
    operator = as_operator(X)
    running = RunningMoments(operator)
    for rows in (np.arange(150), np.arange(1, 150), np.arange(0)):
        moments = running.update(rows)
        assert moments.count == len(rows)
        if len(rows):
            np.testing.assert_allclose(moments.mean, X[rows].mean(axis=0), atol=1e-12)


def dual_by_hand(problem, X, alpha, beta):
    v = X[problem.positive_rows].T @ alpha - X[problem.negative_rows].T @ beta
    return v, -(v @ v / (2 * problem.ridge) + (alpha**2 / 4 - alpha).sum()) / problem.n_positive


def assert_consistent(oracle, X):
    """The point, the pair and the best pair, from the rows."""
    problem, point = oracle.problem, oracle.point
    total = max(oracle.alpha.sum(), 1e-300)
    assert point.total == pytest.approx(oracle.alpha.sum(), rel=1e-12)
    assert oracle.beta.sum() == pytest.approx(total, rel=1e-12)
    assert min(oracle.alpha.min(), oracle.beta.min()) >= 0
    assert oracle.beta.max() <= total / problem.k * (1 + 1e-12)
    v, dual = dual_by_hand(problem, X, oracle.alpha, oracle.beta)
    np.testing.assert_allclose(point.dual_direction, v, atol=1e-10 * np.abs(v).max())
    assert point.plain_dual == pytest.approx(dual, rel=1e-10, abs=1e-12)
    assert point.primal == pytest.approx(problem.objective(point.coef), rel=1e-12)
    np.testing.assert_allclose(oracle.scores[0], X[problem.positive_rows] @ point.coef, atol=1e-12)
    best = oracle.best
    v, dual = dual_by_hand(problem, X, best.alpha, best.beta)
    assert point.dual == best.dual == pytest.approx(dual, rel=1e-10, abs=1e-12)
    assert best.dual >= point.plain_dual - 1e-12
    assert best.squared_norm == pytest.approx(v @ v, rel=1e-10, abs=1e-12)


def test_the_first_pair_is_even():
    X, y = make_data(20, 60, 5)
    oracle = make_problem(X, y, 7, 0.01).oracle()
    oracle.start(None, 3.0)
    np.testing.assert_allclose(oracle.alpha, 2.0)  # minus the slope of the loss at 0
    np.testing.assert_allclose(oracle.beta, 40 / 60)
    assert oracle.sigma == pytest.approx(3.0 * 40 / 7)
    assert (oracle.point.primal, oracle.point.coef.tolist()) == (1.0, [0.0] * 5)
    assert_consistent(oracle, X)


def test_steps_lead_to_the_point_that_they_say():
    """Whichever length was tried last; slopes are those of psi along the step."""
    rng = np.random.default_rng(11)
    X, y = make_data(20, 60, 5)
    problem = make_problem(X, y, 7, 0.01)
    oracle = problem.oracle()
    oracle.start(None, 1.0)
    coef = np.zeros(5)
    for tried, taken in [((1.0,), 1.0), ((1.0, 0.5), 1.0), ((0.3,), 0.3), ((1.0, 2.0), 0.0), ((0.5, 0.25), 0.25)]:
        step = 0.3 * rng.normal(size=5)
        oracle.step(step, None)
        for t in tried:
            along = oracle.project(t)
            v, _ = dual_by_hand(problem, X, oracle.alpha, oracle.beta)
            assert along == pytest.approx(v @ step, rel=1e-10)
        oracle.accept(taken)
        coef = coef + taken * step
        np.testing.assert_allclose(oracle.point.coef, coef, atol=1e-13)
        np.testing.assert_allclose(oracle.targets[0], 2.0 * (1.0 - X[y > 0] @ coef), atol=1e-11)
        np.testing.assert_allclose(oracle.targets[1], oracle.centre + oracle.sigma * (X[y < 0] @ coef), atol=1e-11)
        assert_consistent(oracle, X)
    centre, beta = oracle.centre.copy(), oracle.beta.copy()
    oracle.adapt(5.0, recentre=False, curvature=False)
    np.testing.assert_array_equal(oracle.centre, centre)
    beta = oracle.beta.copy()
    oracle.adapt(7.0, recentre=True, curvature=False)
    np.testing.assert_array_equal(oracle.centre, beta)
    assert oracle.sigma == 7.0
    assert_consistent(oracle, X)


@pytest.mark.parametrize("changed", ["nothing", "k", "coef", "alpha", "beta", "all"])
def test_a_warm_start_takes_over_what_belongs_to_it(changed):
    rng = np.random.default_rng(12)
    X, y = make_data(20, 60, 5)
    problem = make_problem(X, y, 7, 0.01)
    oracle = oracle_at(problem, 0.3 * rng.normal(size=5))
    alpha, beta = oracle.finish()
    end = {"coef": oracle.coef.copy(), "alpha": alpha, "beta": beta, "sigma": 2.0}
    for name, move in {"coef": rng.normal(size=5), "alpha": rng.uniform(size=20), "beta": rng.uniform(size=60)}.items():
        if changed in (name, "all"):
            end[name] = end[name] + move
    again = problem.replace(k=3 if changed == "k" else 7, reg=0.02).oracle()
    before = problem.operator.n_passes
    again.start(SimpleNamespace(**end), 1.0)
    # A pass for scores that are not known; sums for the pair at the point, and for a pair that is not known.
    assert problem.operator.n_passes - before <= {"nothing": 1, "coef": 2, "all": 3}.get(changed, 2)
    np.testing.assert_array_equal(again.point.coef, end["coef"])
    assert_consistent(again, X)
    cap = again.centre.sum() / again.problem.k
    assert again.sigma == pytest.approx(Oracle.warm_sigma(cap, cap, 2.0), rel=1e-12)
    if changed in ("nothing", "coef"):  # the centre is the start's beta, at its best scale
        v, _ = dual_by_hand(problem, X, alpha, beta)
        theta = alpha.sum() / 2 / (v @ v / (2 * again.problem.ridge) + alpha @ alpha / 4)
        np.testing.assert_allclose(again.centre, theta * beta, rtol=1e-10)


def test_the_first_sigma_of_a_warm_start_lies_between():
    for cold, last in ((1.0, 100.0), (0.2, 3e5)):
        assert Oracle.warm_sigma(cold, 1.0, None) == cold
        assert Oracle.warm_sigma(cold, 1.0, 0.5 * cold) == cold
        assert 1.5 * cold < Oracle.warm_sigma(cold, 1.0, last) < last / 1.5
        assert Oracle.warm_sigma(cold, 1.0, 1e9) == Oracle.warm_sigma(cold, 1.0, 1e20)  # so far it counts
        scaled = Oracle.warm_sigma(7 * cold, 7.0, 7 * last)  # no unit matters
        assert scaled == pytest.approx(7 * Oracle.warm_sigma(cold, 1.0, last), rel=1e-12)


@pytest.mark.parametrize("size", [5, 20, 40, 60])
def test_the_working_set_is_nearest_to_a_change_of_class(size):
    rng = np.random.default_rng(13)
    X, y = make_data(30, 60, 5)
    oracle = make_problem(X, y, 7, 0.01).oracle()
    oracle.start(None, 1.0)
    oracle.centre[:] = np.abs(np.random.default_rng(5).normal(size=60))
    step = 0.4 * rng.normal(size=5)
    go_to(oracle, step)  # the scores have moved by X step, and from 0
    now, up, down = oracle.thresholds, X[y > 0] @ step, X[y < 0] @ step
    alpha0, beta0 = 2.0 * (1.0 - up), oracle.centre + oracle.sigma * down
    u = now.lam / (0.5 * oracle.sigma)
    classes = alpha0 > u, (beta0 > now.mu) & (beta0 < now.mu + now.cap), beta0 >= now.mu + now.cap
    away = np.minimum(np.abs(beta0 - now.mu), np.abs(beta0 - now.mu - now.cap)) / (oracle.sigma * np.abs(down))
    if 2 * classes[1].sum() <= size:
        away[classes[1]] = 0.0
    negative = np.sort(np.argsort(away)[:size])
    near = np.abs(alpha0 - u) / 2.0 / np.abs(up)
    positive = np.flatnonzero((near <= away[negative].max()) & (near <= np.sort(near)[min(size, 30) - 1]))
    found = oracle.nearest(size)
    np.testing.assert_allclose(found.positive_scores, up[positive], atol=1e-13)
    np.testing.assert_allclose(found.negative_scores, down[negative], atol=1e-13)
    np.testing.assert_allclose(found.rows.matvec(step), np.r_[up[positive], down[negative]], atol=1e-13)
    np.testing.assert_array_equal(found.centre, oracle.centre[negative])
    assert_describes(found, X, y, classes, (alpha0, beta0), (positive, negative), step)
    np.testing.assert_allclose(direction_of(found), oracle.point.dual_direction, atol=1e-10)
