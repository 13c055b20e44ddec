"""The trimmed objective: what the alternation promises, and what it is for."""

import numpy as np
import pytest

from recall_cases import TAU, logistic, partly_separable, pose
from taufpl.estimators import SolverChoice, solve_ranking
from taufpl.estimators.rankings import fit_trimmed, following_share, trimmed_path
from taufpl.problem import RankingProblem
from taufpl.thresholding import share_above

CHOICE = SolverChoice(tol=1e-4)


def trimmed_objective(problem, coef, count):
    """F, written down once more."""
    positive, negative = problem.scores(coef)
    top = np.sort(negative)[::-1][: problem.k].mean()
    losses = np.maximum(0.0, 1.0 - positive + top) ** 2
    return np.sort(losses)[:count].mean() + 0.5 * problem.reg * coef @ coef


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("reg", [1.0, 0.01])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_the_objective_never_increases(share, reg, scale):
    X, y = partly_separable(n=2000, m=400)
    problem = pose(X, y, tau=0.005, reg=reg, scale=scale)
    found = fit_trimmed(problem, share, CHOICE, [logistic(X, y)])
    assert np.all(np.diff(found.objectives) <= 1e-12)
    count = round(400 * share)
    assert found.chosen.size == count
    assert found.objectives[-1] >= trimmed_objective(problem, found.result.coef, count) - 1e-12
    if not found.collapsed:
        assert found.result.gap <= CHOICE.tol
        assert found.objectives[-1] < 1.0


def test_it_is_the_convex_problem_where_all_positives_are_kept():
    X, y = partly_separable(n=1000, m=200)
    problem = pose(X, y, tau=0.3)
    convex = solve_ranking(problem, CHOICE)
    trimmed = fit_trimmed(problem, 1.0, CHOICE, [])
    np.testing.assert_array_equal(trimmed.result.coef, convex.result.coef)
    assert trimmed.objectives[-1] == convex.result.primal
    assert trimmed.chosen.size == 200


def test_several_starts_are_at_least_as_good_as_each():
    X, y = partly_separable(n=1500, m=300)
    problem = pose(X, y, tau=0.005)
    starts = [logistic(X, y), X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0), np.eye(10)[0]]
    alone = [fit_trimmed(problem, 0.2, CHOICE, [start]).objectives[-1] for start in starts]
    together = fit_trimmed(problem, 0.2, CHOICE, starts)
    assert together.objectives[-1] <= min(alone) * (1.0 + 1e-2)  # the race is run with loose solves
    assert together.result.n_passes > 0


def test_the_length_of_a_start_does_not_matter():
    X, y = partly_separable(n=1500, m=300)
    problem = pose(X, y, tau=0.005)
    start = logistic(X, y)
    small, large = (fit_trimmed(problem, 0.2, CHOICE, [factor * start]) for factor in (1e-8, 1e8))
    np.testing.assert_array_equal(small.chosen, large.chosen)
    np.testing.assert_allclose(small.objectives[-1], large.objectives[-1], rtol=1e-3)


def test_a_following_share():
    X, y = partly_separable(n=2000, m=400)
    problem = pose(X, y, tau=0.005)
    weak, strong = np.ones(10), np.eye(10)[0]
    caught = share_above(*problem.scores(strong), 0.005)
    assert 0.05 < caught < 0.5
    assert following_share(problem, 0.005, 1.5, [weak, strong]) == pytest.approx(1.5 * caught)
    assert following_share(problem, 0.005, 1.5, [-strong]) == 20 / 400
    assert following_share(problem, 0.005, 100.0, [strong]) == 0.98


def test_a_path_goes_from_the_largest_reg_down():
    X, y = partly_separable(n=1500, m=300)
    problem = pose(X, y, tau=0.005)
    path = list(trimmed_path(problem, 0.3, [0.01, 1.0, 0.1], CHOICE, logistic(X, y)))
    assert [reg for reg, _ in path] == [1.0, 0.1, 0.01]
    values = [found.objectives[-1] for _, found in path]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_it_catches_what_can_be_caught_where_others_collapse(seed):
    """On new data; the convex objective has its optimum at 0 there, and logistic regression looks elsewhere."""
    X, y = partly_separable(seed)
    problem = pose(X, y)
    assert solve_ranking(problem, CHOICE).collapsed
    start = logistic(X, y)
    share = following_share(problem, TAU, 2.0, [start])
    found = fit_trimmed(problem, share, SolverChoice(tol=1e-3), [start])
    new, labels = partly_separable(seed + 100, n=50_000)
    recalls = []
    for coef in (start, found.result.coef):
        scores = new @ coef
        recalls.append(share_above(scores[labels == 1], scores[labels == 0], TAU))
    assert recalls[1] >= 3.0 * recalls[0]
    assert recalls[1] >= 0.15


def test_a_collapse_of_every_start_is_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.repeat([0, 1], [2000, 1000])
    found = fit_trimmed(pose(X, y, tau=0.01), 0.99, CHOICE, [np.ones(3)])
    assert found.collapsed
    assert not found.result.coef.any()
    assert found.objectives[-1] == 1.0


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, np.nan])
def test_a_share_out_of_range_is_refused(share):
    X, y = partly_separable(n=100, m=50)
    with pytest.raises(ValueError, match="positive_share must be above 0 and at most 1"):
        fit_trimmed(pose(X, y, tau=0.1), share, CHOICE, [np.ones(10)])


@pytest.mark.parametrize(("share", "count"), [(0.07, 7), (0.071, 8), (0.001, 1), (0.999, 100), (1.0, 100)])
def test_as_many_positives_are_kept_as_the_share_says_or_one_more(share, count):
    """Though .07 times 100 is a little more than 7 in floating point."""
    X, y = partly_separable(n=200, m=100)
    assert fit_trimmed(pose(X, y, tau=0.1), share, SolverChoice(tol=0.1), [np.eye(10)[0]]).chosen.size == count


def test_no_direction_is_refused():
    X, y = partly_separable(n=100, m=50)
    with pytest.raises(ValueError, match="starts must hold a direction"):
        fit_trimmed(pose(X, y, tau=0.1), 0.5, CHOICE, [np.zeros(10)])


def test_a_feature_whose_highest_rows_tie_overflows_nowhere():
    """A level that positives and negatives have alike at the top: every margin of the start is 0."""
    X = np.zeros((300, 1))
    X[:20] = X[200:230] = 1.0
    y = np.repeat([1, 0], [200, 100])
    problem = pose(X, y, tau=0.3)
    for direction in (1.0, -1.0):
        with np.errstate(all="raise"):
            found = fit_trimmed(problem, 0.1, CHOICE, [np.array([direction])])
        assert abs(found.result.coef[0]) < 1e6


@pytest.mark.parametrize("reg", [1.0, 1e-4])
def test_margins_that_rounding_leaves_of_ties_give_no_length(reg):
    """A start along a feature whose highest rows tie ends at the optimum for the positives that it chose."""
    X = np.column_stack([np.zeros(300), np.random.default_rng(0).normal(size=(300, 5))])
    X[:20, 0] = X[200:230, 0] = 123.456
    X[:20, 1] += 3.0
    y = np.repeat([1, 0], [200, 100])
    loose = SolverChoice(tol=5e-2, max_iter=100, no_gain=1e-4)
    found = fit_trimmed(pose(X, y, tau=0.29, reg=reg), 0.1, loose, [np.eye(6)[0]])
    rows = np.concatenate((found.chosen, np.flatnonzero(y == 0)))
    convex = solve_ranking(pose(X[rows], y[rows], tau=0.29, reg=reg), CHOICE)
    assert found.objectives[-1] == pytest.approx(convex.result.primal, rel=0.02)
    assert 0 <= found.result.gap <= loose.tol


def test_a_loose_tolerance_ends_with_the_alternations():
    """No last solve that would be no finer than those before, and no alternation for a gain within the tolerance."""
    X, y = partly_separable(n=2000, m=400)
    problem = pose(X, y, tau=0.005, reg=0.1)
    loose, fine = (fit_trimmed(problem, 0.3, SolverChoice(tol=tol), [logistic(X, y)]) for tol in (5e-2, 1e-4))
    assert loose.result.n_passes < 0.7 * fine.result.n_passes
    assert loose.result.gap <= 5e-2
    gains = -np.diff(loose.objectives) / loose.objectives[1:]
    assert np.all(gains[:-1] > 5e-2)
    assert loose.objectives[-1] <= 1.2 * fine.objectives[-1]


def test_a_path_tries_a_hopeless_start_once():
    """Positives among the negatives: no share of them can be told apart, whatever reg is."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 3)), np.repeat([1, 0], [200, 1000])
    X[y == 1] *= 0.1
    problem = pose(X, y, tau=0.01)
    found = [ranking for _, ranking in trimmed_path(problem, 0.5, (1.0, 0.1, 0.01), CHOICE, np.ones(3))]
    assert all(ranking.collapsed for ranking in found)
    assert found[0].result.n_passes > 0
    assert [ranking.result.n_passes for ranking in found[1:]] == [0.0, 0.0]
    # They would have collapsed one by one.
    for reg in (0.1, 0.01):
        assert fit_trimmed(problem.replace(reg=reg), 0.5, CHOICE, [np.ones(3)]).collapsed
    # A coarser word for it takes less work.
    coarse = next(trimmed_path(problem, 0.5, (1.0,), SolverChoice(tol=1e-4, no_gain=1e-3), np.ones(3)))[1]
    assert coarse.collapsed
    assert coarse.result.n_passes < found[0].result.n_passes


@pytest.mark.parametrize("n", [1500, 4000, 20_000])
def test_negatives_that_are_left_out_change_no_certificate(n):
    """None of them; as many as usual; and most of them from a poor start, so that others must join."""
    X, y = partly_separable(n=n, m=800)
    problem = pose(X, y, tau=0.005, reg=0.01)
    found = fit_trimmed(problem, 0.2, CHOICE, [X[y == 1].mean(axis=0) if n < 20_000 else np.eye(10)[9]])
    result = found.result
    rows = problem.positive_rows[found.chosen]
    chosen = RankingProblem(problem.operator, rows, problem.negative_rows, problem.k, problem.reg)
    certificate = chosen.certify(result.coef, result.alpha, result.beta)
    assert result.primal == pytest.approx(certificate.primal)
    assert result.dual <= certificate.primal
    assert result.gap == pytest.approx((result.primal - result.dual) / result.primal)
    assert result.gap <= CHOICE.tol
    assert solve_ranking(chosen, CHOICE).result.primal == pytest.approx(result.primal, rel=2 * CHOICE.tol)
