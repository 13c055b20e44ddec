"""SVM-pAUC: the surrogate by enumeration, the optimum by a general solver."""

import itertools
import warnings
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_cases import two_clouds
from taufpl.baselines import PartialAUCSVM
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import as_operator
from taufpl.paper._linear_baselines import combine_rows, stacked_scores
from taufpl.paper._partial_auc import highest, minimise, partial_auc_path, partial_auc_piece, range_count
from taufpl.problem import RankingProblem


def surrogate(positive, negative, k):
    """All pairs with the k highest negatives, one at a time."""
    top = sorted(negative)[-k:]
    return sum(max(0.0, 1.0 - (s - z)) for s in positive for z in top) / (len(positive) * k)


def structural_maximum(positive, negative, k):
    """Narasimhan and Agarwal's: over subsets of k negatives and orderings of them with all positives, the share of
    pairs in the wrong order minus the margin by which w prefers the right order."""
    m, highest_value = len(positive), -np.inf
    for subset in itertools.combinations(negative, k):
        for order in itertools.permutations(range(m + k)):
            place = np.argsort(order)
            wrong = np.array([[place[m + z] < place[i] for z in range(k)] for i in range(m)])
            margins = np.subtract.outer(np.asarray(positive), np.asarray(subset))
            highest_value = max(highest_value, (wrong * (1.0 - margins)).sum() / (m * k))
    return highest_value


def matrix_maximum(positive, negative, k):
    """The same over all matrices of 0 and 1, whether or not an ordering has them."""
    m, highest_value = len(positive), -np.inf
    for subset in itertools.combinations(negative, k):
        gains = 1.0 - np.subtract.outer(np.asarray(positive), np.asarray(subset)).ravel()
        values = (np.dot(bits, gains) for bits in itertools.product([0, 1], repeat=m * k))
        highest_value = max(highest_value, max(values) / (m * k))
    return highest_value


def problem_on(X, y, k, reg=1.0):
    return RankingProblem(as_operator(X), np.flatnonzero(y), np.flatnonzero(y == 0), k, reg)


def optimum(X, y, k, reg):
    """By a general solver, from the sum of the k largest losses of a negative; the subset is not named."""
    positive, negative = X[y == 1], X[y == 0]
    w = cp.Variable(X.shape[1])
    ones = np.ones((len(positive), 1)), np.ones((1, len(negative)))
    rows = cp.reshape(positive @ w, ones[0].shape, order="C"), cp.reshape(negative @ w, ones[1].shape, order="C")
    losses = cp.pos(1 - rows[0] @ ones[1] + ones[0] @ rows[1])
    risk = cp.sum_largest(cp.sum(losses, axis=0), k) / (len(positive) * k)
    problem = cp.Problem(cp.Minimize(risk + 0.5 * reg * cp.sum_squares(w)))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


def small(seed=0, m=12, n=40, d=4, shift=1.5):
    return two_clouds(m, n, d, shift, seed)


class TestSurrogate:
    """R, and the linear piece of it at given scores."""

    @pytest.mark.parametrize("k", [1, 2, 4])
    @pytest.mark.parametrize("kind", ["real", "ties"])
    def test_it_is_the_structural_maximum(self, k, kind):
        rng = np.random.default_rng(k)
        for _ in range(2 if k == 4 else 5):
            m = 2 if k == 4 else 3
            scores = rng.normal(size=m + 4) if kind == "real" else rng.integers(0, 3, m + 4) / 1.0
            positive, negative = scores[:m], scores[m:]
            weights, offset = partial_auc_piece(scores, m, k)
            value = weights @ scores + offset
            assert value == pytest.approx(structural_maximum(positive, negative, k))
            assert value == pytest.approx(matrix_maximum(positive, negative, k))
            assert value == pytest.approx(surrogate(positive, negative, k))

    @pytest.mark.parametrize("k", [1, 7, 30])
    @pytest.mark.parametrize("digits", [1, 12])
    def test_pieces_support_it(self, k, digits):
        """Equal at the scores where they are taken, below elsewhere; with one digit, many scores are equal."""
        rng = np.random.default_rng(0)
        points = rng.normal(size=(10, 50)).round(digits)
        values = [surrogate(point[:20], point[20:], k) for point in points]
        for point, value in zip(points, values, strict=True):
            weights, offset = partial_auc_piece(point, 20, k)
            assert weights @ point + offset == pytest.approx(value)
            assert np.all(points @ weights + offset <= np.array(values) + 1e-12)

    def test_rows_combined(self):
        X, y = small()
        problem, rng = problem_on(X, y, 3), np.random.default_rng(1)
        weights, coef = rng.normal(size=len(y)), rng.normal(size=4)
        assert combine_rows(problem, weights) @ coef == pytest.approx(weights @ stacked_scores(problem, coef))

    def test_highest_with_ties(self):
        scores = np.array([2.0, 1.0, 2.0, 0.0, 1.0, 3.0])
        for k in range(1, 7):
            found = highest(scores, k)
            assert len(set(found)) == k
            np.testing.assert_array_equal(scores[found], np.sort(scores)[-k:])

    @pytest.mark.parametrize(("tau", "n", "j"), [(0.29, 100, 29), (0.3, 99, 29), (0.001, 50, 1), (0.999, 10, 9)])
    def test_negatives_in_the_range(self, tau, n, j):
        assert range_count(tau, n) == j


class TestOptimum:
    """Against a general solver."""

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize(("tau", "reg"), [(0.01, 0.1), (0.1, 1e-3), (0.3, 1.0), (0.9, 0.01)])
    def test_of_small_problems(self, kind, tau, reg):
        X, y = small(seed=int(100 * tau))
        best, coef = optimum(X, y, max(1, int(tau * 40)), reg)
        svm = PartialAUCSVM(tau, reg, tol=1e-7).fit(kind(X), y)
        value = surrogate(X[y == 1] @ svm.coef_[0], X[y == 0] @ svm.coef_[0], max(1, int(tau * 40)))
        assert svm.primal_objective_ == pytest.approx(value + 0.5 * reg * np.sum(svm.coef_**2), rel=1e-10)
        assert svm.primal_objective_ == pytest.approx(best, rel=1e-5)
        assert svm.dual_gap_ <= 1e-7
        assert svm.converged_
        assert 0 < svm.n_planes_ <= svm.n_iter_
        np.testing.assert_allclose(svm.coef_[0], coef, atol=2e-3 * np.abs(coef).max())

    def test_all_negatives_make_the_hinge_over_all_pairs(self):
        X, y = small(seed=5)
        pairs = (X[y == 1][:, np.newaxis] - X[y == 0]).reshape(-1, 4)
        w = cp.Variable(4)
        problem = cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - pairs @ w)) / len(pairs) + 0.05 * cp.sum_squares(w)))
        problem.solve(solver=cp.CLARABEL)
        piece = partial(partial_auc_piece, m=12, k=40)
        result = minimise(problem_on(X, y, 40, 0.1), piece, tol=1e-7, max_iter=500)
        assert result.primal == pytest.approx(problem.value, rel=1e-5)

    def test_the_highest_negative_alone(self):
        X, y = small(seed=6)
        w, top = cp.Variable(4), cp.Variable()
        risk = cp.sum(cp.pos(1 - X[y == 1] @ w + top)) / 12
        problem = cp.Problem(cp.Minimize(risk + 0.005 * cp.sum_squares(w)), [X[y == 0] @ w <= top])
        problem.solve(solver=cp.CLARABEL)
        svm = PartialAUCSVM(0.001, 0.01, tol=1e-7).fit(X, y)
        assert svm.primal_objective_ == pytest.approx(problem.value, rel=1e-5)

    @pytest.mark.parametrize("kind", ["plain", "integers", "scales"])
    def test_bounds_hold_from_the_first_plane_on(self, kind):
        X, y = small(seed=7)
        X = {"plain": X, "integers": X.round(), "scales": X * [1e-2, 1.0, 30.0, 1e3]}[kind]
        best, _ = optimum(X, y, 8, 0.01)
        svm = PartialAUCSVM(0.2, 0.01, tol=1e-7).fit(X, y)
        assert svm.history_[1].gap > 0.01
        for record in svm.history_:
            assert record.dual <= best * (1 + 1e-7)
            assert record.primal >= best * (1 - 1e-7)

    def test_scales_that_differ_by_millions(self):
        """A Gram matrix of the planes would have lost the small features."""
        X, y = two_clouds(80, 300, 12, 0.5)
        svm = PartialAUCSVM(0.05, 1e-5, tol=1e-5).fit(X * np.geomspace(1e-2, 1e4, 12), y)
        assert svm.converged_
        assert 13 < svm.n_planes_ < svm.n_iter_  # old ones were dropped

    def test_a_common_row_changes_nothing(self):
        X, y = small(seed=8)
        there = X + np.array([1e3, -10.0, 0.0, 1e4])
        plain, moved = PartialAUCSVM(0.1, 0.1, tol=1e-8).fit(X, y), PartialAUCSVM(0.1, 0.1, tol=1e-8).fit(there, y)
        assert moved.primal_objective_ == pytest.approx(plain.primal_objective_, rel=1e-7)
        np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-3)
        np.testing.assert_allclose(moved.decision_function(there), plain.decision_function(X), atol=1e-2)

    def test_more_features_than_rows(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(40, 300)), np.repeat([1, 0], [10, 30])
        best, _ = optimum(X, y, 6, 1.0)
        assert PartialAUCSVM(0.2, 1.0, tol=1e-6).fit(X, y).primal_objective_ == pytest.approx(best, rel=1e-5)

    @pytest.mark.parametrize("reg", [1e5, 1e10])
    def test_large_penalties_still_find_the_direction(self, reg):
        """P(0) = 1 lies within the tolerance of the optimum, and ranks nothing."""
        X, y = two_clouds(60, 400, 6, 2.0)
        svm = PartialAUCSVM(0.05, reg).fit(X, y)
        assert 0 < 1.0 - svm.primal_objective_ < 1e-4
        assert not svm.collapsed_
        assert svm.predict(X)[y == 1].mean() > 0.9


class TestPath:
    """One bundle for a grid of penalties."""

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_it_gives_what_single_fits_give(self, kind):
        X, y = two_clouds(50, 300, 5)
        regs = [0.01, 1.0, 0.1, 1.0]
        path = partial_auc_path(problem_on(kind(X), y, range_count(0.05, 300)), regs, tol=1e-6)
        singles = [PartialAUCSVM(0.05, reg, tol=1e-6).fit(X, y) for reg in regs]
        assert all(minimum.converged and minimum.gap <= 1e-6 for minimum in path)
        for minimum, single in zip(path, singles, strict=True):
            assert minimum.primal == pytest.approx(single.primal_objective_, rel=2e-6)
            np.testing.assert_allclose(minimum.coef, single.coef_[0], atol=2e-2 * np.abs(single.coef_).max())
        assert path[1].n_iter == singles[1].n_iter_  # the largest reg comes first, and has no planes to begin with
        assert sum(minimum.n_iter for minimum in path[:3]) < sum(single.n_iter_ for single in singles[:3])

    def test_a_limit_is_kept_and_reported(self):
        X, y = small(shift=0.2)
        path = partial_auc_path(problem_on(X, y, 4), [0.1, 1e-3], tol=1e-9, max_iter=3)
        assert all(minimum.n_iter <= 3 and not minimum.converged for minimum in path)


class TestEstimator:
    """What a fit leaves behind, and what it says."""

    @pytest.mark.parametrize("tau", [0.001, 0.02, 0.3])
    def test_threshold_is_that_of_the_training_negatives(self, tau):
        X, y = two_clouds(60, 400, 6)
        svm = PartialAUCSVM(tau, 0.1).fit(X, y)
        assert svm.predict(X)[y == 0].sum() == int(tau * 400)
        kth = np.sort(X[y == 0] @ svm.coef_[0])[::-1][int(tau * 400)]
        assert -svm.intercept_[0] == pytest.approx(kth)

    def test_stopping_early_is_said_with_the_gap(self):
        X, y = two_clouds(60, 400, 6, 0.3)
        with pytest.warns(
            ConvergenceWarning, match=r"PartialAUCSVM stopped after 4 iterations .* Raise max_iter"
        ) as said:
            svm = PartialAUCSVM(0.05, 1e-3, max_iter=4).fit(X, y)
        assert said[0].filename == __file__
        assert not svm.converged_
        assert svm.n_iter_ == 4
        assert svm.dual_gap_ == (svm.primal_objective_ - svm.dual_objective_) / svm.primal_objective_ > 1e-3

    @pytest.mark.parametrize("reg", [1e-6, 1e-2, 1e4])
    def test_a_collapse_is_seen_and_said(self, reg):
        rng = np.random.default_rng(0)
        negative, positive = rng.normal(size=(400, 4)), rng.normal(size=(50, 4))
        positive += negative.mean(axis=0) - positive.mean(axis=0)
        X, y = np.r_[negative, positive], np.repeat([0, 1], [400, 50])
        assert optimum(X[350:], y[350:], 2, reg)[0] == pytest.approx(1.0)
        with pytest.warns(RankingCollapseWarning, match=r"in which 20 of 400 decide.*Raise tau") as said:
            svm = PartialAUCSVM(0.05, reg).fit(X, y)
        assert said[0].filename == __file__
        assert svm.collapsed_
        assert not svm.coef_.any()
        assert svm.primal_objective_ == 1.0
        assert svm.predict(X).sum() == 0

    def test_callback_sees_the_gap_fall(self):
        X, y = two_clouds()
        records = []
        svm = PartialAUCSVM(0.05, 0.1, callback=records.append).fit(X, y)
        assert tuple(records) == svm.history_
        assert records[-1].gap <= 1e-3 < records[0].gap
        assert np.all(np.diff([record.primal for record in records]) <= 0)
        assert records[-1].n_passes == pytest.approx(svm.n_passes_)

    def test_labels_and_types(self):
        X, y = small()
        plain = PartialAUCSVM(0.1, 0.1).fit(X, y)
        words = PartialAUCSVM(0.1, 0.1, pos_label="fraud").fit(X, np.array(["legal", "fraud"])[y])
        assert words.classes_.tolist() == ["legal", "fraud"]
        np.testing.assert_allclose(words.coef_, plain.coef_)
        single = PartialAUCSVM(0.1, 0.1, tol=1e-6).fit(X.astype(np.float32), y)
        assert single.primal_objective_ == pytest.approx(plain.primal_objective_, rel=1e-3)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"tau": 0.0}, "'tau' parameter"),
            ({"tau": 1.0}, "'tau' parameter"),
            ({"reg": 0.0}, "'reg' parameter"),
            ({"tol": 0.0}, "'tol' parameter"),
            ({"max_iter": 0}, "'max_iter' parameter"),
            ({"max_iter": None}, "'max_iter' parameter"),
            ({"callback": 1}, "'callback' parameter"),
            ({"pos_label": 7}, "pos_label must be one of"),
        ],
    )
    def test_wrong_use_is_explained(self, settings, message):
        with pytest.raises(ValueError, match=message):
            PartialAUCSVM(**settings).fit(*small())

    def test_wrong_data_are_explained(self):
        X, y = small()
        with pytest.raises(ValueError, match="one class only"):
            PartialAUCSVM().fit(X, np.zeros_like(y))
        with pytest.raises(ValueError, match="contains NaN"):
            PartialAUCSVM().fit(np.where(X > 1, np.nan, X), y)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.PositiveLabelWarning")
@parametrize_with_checks([PartialAUCSVM(), PartialAUCSVM(0.2, 1.0)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankingCollapseWarning)
        check(estimator)
