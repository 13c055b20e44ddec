"""The grid search of the experiments, on scorers whose quality at each point is known."""

import math

import numpy as np
import pytest

from taufpl.paper._systems import (
    N_FOLDS,
    BoxSearch,
    DecisionRule,
    GridAxis,
    minus_np_score,
    np_score,
    ranking_score,
    rates,
    share_with_ties,
)
from taufpl.paper._timing import slope


class Known:
    """Ranks a known share of the positives above all negatives."""

    def __init__(self, share: float) -> None:
        self.share = share

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        place, label = X.T
        return np.where((label == 1) & (place < self.share), 2.0, np.where(label == 1, -1.0, 1.0))


def known_data(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat([0, 1], n // 2)
    place = np.tile((np.arange(n // 2) + 0.5) / (n // 2), 2)
    return np.column_stack((place, y)), y


def fitter(quality, asked: list | None = None):
    def fit_points(X, y, points):
        if asked is not None:
            asked.append(list(points))
        return [DecisionRule(Known(quality(**params))) for params in points]

    return fit_points


def bump(centre: float):
    """Best at 10**centre, worse by .1 a decade."""
    return lambda reg, **_: max(0.0, 0.9 - 0.1 * abs(math.log10(reg) - centre))


@pytest.mark.parametrize("centre", [-5, -2, 0, 1, 4])
def test_grows_to_the_optimum_on_either_side(centre):
    X, y = known_data()
    search = BoxSearch(fitter(bump(centre)), [GridAxis("reg", 10.0, -2, 1)], [0.1], "ranking").run(X, y, 0)
    assert search.params(search.best(0))["reg"] == pytest.approx(10.0**centre)
    # One step beyond the optimum is needed to know that it is one, and no more.
    assert min(search.scores)[0] == min(-2, centre - 1)
    assert max(search.scores)[0] == max(1, centre + 1)


def test_growth_is_bounded():
    X, y = known_data()
    search = BoxSearch(fitter(bump(8)), [GridAxis("reg", 10.0, 0, 1)], [0.1], "ranking").run(X, y, 0)
    assert max(search.scores) == (5,), "four steps beyond the axis"
    flat = BoxSearch(fitter(bump(-99)), [GridAxis("reg", 10.0, 0, 1)], [0.1], "ranking").run(X, y, 0)
    assert set(flat.scores) == {(0,), (1,)}, "all points are level: nothing to gain by growing"


def test_equals_go_to_the_most_regularised_and_fits_are_counted():
    X, y = known_data()
    asked: list = []
    search = BoxSearch(fitter(lambda reg: 0.5, asked), [GridAxis("reg", 10.0, -3, 2)], [0.1], "ranking").run(X, y, 0)
    assert search.params(search.best(0)) == {"reg": 100.0}
    assert N_FOLDS * len(search.scores) == sum(len(points) for points in asked) == 30
    assert [params["reg"] for params in asked[0]] == sorted((params["reg"] for params in asked[0]), reverse=True)


def test_grows_along_the_axis_that_needs_it():
    X, y = known_data()

    def quality(reg, cost):
        return max(0.0, 0.9 - 0.1 * abs(math.log10(reg)) - 0.1 * abs(math.log2(cost) - 5))

    axes = [GridAxis("reg", 10.0, -1, 1), GridAxis("cost", 2.0, 0, 2)]
    search = BoxSearch(fitter(quality), axes, [0.1], "ranking").run(X, y, 0)
    assert search.best(0) == (0, 5)
    assert {point[0] for point in search.scores} == {-1, 0, 1}
    assert {point[1] for point in search.scores} == set(range(7))


def test_each_tolerance_has_its_own_best():
    """A scorer that is better at the very top may be worse further down."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [2000, 2000])
    X = rng.normal(size=(4000, 2))
    X[y == 1] += (0.8, 0.0)
    X[np.flatnonzero(y == 1)[:600], 1] += 6.0

    class Direction:
        def __init__(self, reg):
            # Beyond both, where the search looks for more, nothing is better.
            self.w = np.array({1.0: [0.0, 1.0], 10.0: [1.0, 0.0]}.get(reg, [-1.0, -1.0]))

        def decision_function(self, X):
            return X @ self.w

    def fit_points(X, y, points):
        return [DecisionRule(Direction(**params)) for params in points]

    search = BoxSearch(fit_points, [GridAxis("reg", 10.0, 0, 1)], [0.001, 0.5], "ranking").run(X, y, 0)
    assert (search.best(0), search.best(1)) == ((0,), (1,))


def test_scores_by_hand():
    scores = np.array([5.0, 4.0, 3.0, 2.0, 6.0, 4.0, 3.5, 1.0])
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])

    class Given:
        def decision_function(self, X):
            return X[:, 0]

    X = scores[:, np.newaxis]
    # tau = .25: one negative may be above; the second largest is 4, and a tie with it does not count as above.
    assert ranking_score(DecisionRule(Given()), X, y, [0.25, 0.5]).tolist() == [0.25, 0.75]
    # The second largest negative is alone at its level, so that a positive that ties with it gains nothing.
    assert share_with_ties(DecisionRule(Given()), X, y, 0.25) == 0.25
    tied = np.array([5.0, 4.0, 4.0, 2.0, 6.0, 4.0, 4.0, 1.0])[:, np.newaxis]
    # Two negatives may be above: the 5, and one of the two that share the level 4 with two positives.
    assert share_with_ties(DecisionRule(Given()), tied, y, 0.5) == 0.25 + 0.5 * 0.5
    # A threshold at 0 lets everything through.
    assert minus_np_score(DecisionRule(Given()), X, y, [0.25]).tolist() == [-(1 / 0.25 - 1)]
    shifted = DecisionRule(Given(), train_negatives=np.array([0.0, 4.5, 1.0, 2.0]))
    assert shifted.threshold(0.25) == 2.0
    assert minus_np_score(shifted, X, y, [0.25]).tolist() == [-(0.75 / 0.25 - 0.75)]
    assert rates(scores > 3.2, y) == (0.5, 0.75)
    assert np_score(0.02, 0.6, 0.05) == pytest.approx(0.4)
    assert np_score(0.10, 0.6, 0.05) == pytest.approx(1.4)


def test_slope_of_a_power():
    assert slope([(n, 3e-6 * n**1.3) for n in (10, 100, 1000)]) == pytest.approx(1.3)
    assert math.isnan(slope([(10, 1.0)]))
