"""RankSVM: sums over pairs by double loops, and the optimum by a general solver."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_cases import two_clouds
from taufpl.baselines import RankSVM
from taufpl.paper._ranking_baselines import PairLoss, balanced_threshold
from taufpl.problem import conjugate_gradients


def pair_loss(positive, negative):
    return sum(max(0.0, 1.0 - (s - z)) ** 2 for s in positive for z in negative) / (len(positive) * len(negative))


def objective(coef, X, y, reg):
    scores = X @ coef
    return pair_loss(scores[y == 1], scores[y == 0]) + 0.5 * reg * coef @ coef


def pair_derivatives(scores, m, direction):
    """Gradient, and Hessian times direction, one pair at a time."""
    gradient, product = np.zeros_like(scores), np.zeros_like(scores)
    for i, j in itertools.product(range(m), range(m, len(scores))):
        loss = 1.0 - (scores[i] - scores[j])
        if loss > 0:
            gradient[[i, j]] += [-2 * loss, 2 * loss]
            difference = 2 * (direction[i] - direction[j])
            product[[i, j]] += [difference, -difference]
    n_pairs = m * (len(scores) - m)
    return gradient / n_pairs, product / n_pairs


def optimum(X, y, reg):
    pairs = (X[y == 1][:, np.newaxis] - X[y == 0]).reshape(-1, X.shape[1])
    w = cp.Variable(X.shape[1])
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(cp.pos(1 - pairs @ w)) / len(pairs) + 0.5 * reg * cp.sum_squares(w))
    )
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


def small(seed=0, m=12, n=40, d=4, shift=0.7):
    return two_clouds(m, n, d, shift, seed)


class TestPairLoss:
    """Values and derivatives in the scores."""

    @pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
    @pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 9), (8, 1), (13, 21)])
    def test_against_double_loops(self, m, n, scale):
        rng = np.random.default_rng(m + n)
        scores, direction = scale * rng.normal(size=m + n), rng.normal(size=m + n)
        loss = PairLoss(scores, m)
        gradient, product = pair_derivatives(scores, m, direction)
        assert loss.value() == pytest.approx(pair_loss(scores[:m], scores[m:]), abs=1e-12)
        np.testing.assert_allclose(loss.gradient(), gradient, atol=1e-12)
        np.testing.assert_allclose(loss.hessian_product(direction), product, atol=1e-12)
        active = [s - z < 1 for s in scores[:m] for z in scores[m:]]
        assert loss.active_share == pytest.approx(np.mean(active))

    def test_ties_and_margins_of_exactly_one(self):
        """Value and gradient have no kink there; the Hessian must stay symmetric whichever side a pair is put on."""
        rng = np.random.default_rng(0)
        scores = rng.integers(-2, 3, 30) * 0.1 + rng.integers(0, 3, 30)
        loss = PairLoss(scores, 12)
        gradient, _ = pair_derivatives(scores, 12, scores)
        assert loss.value() == pytest.approx(pair_loss(scores[:12], scores[12:]))
        np.testing.assert_allclose(loss.gradient(), gradient, atol=1e-12)
        hessian = np.array([loss.hessian_product(unit) for unit in np.eye(30)])
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
        assert np.linalg.eigvalsh(hessian).min() > -1e-12

    def test_far_from_the_origin(self):
        rng = np.random.default_rng(1)
        scores = rng.normal(size=30)
        near, far = PairLoss(scores, 10), PairLoss(scores + 1e6, 10)
        assert far.value() == pytest.approx(near.value(), rel=1e-9)
        np.testing.assert_allclose(far.gradient(), near.gradient(), atol=1e-9)


class TestOptimum:
    """Against a general solver."""

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("reg", [1e-4, 0.01, 1.0, 100.0])
    def test_of_small_problems(self, kind, reg):
        X, y = small()
        best, coef = optimum(X, y, reg)
        svm = RankSVM(reg, tol=1e-8).fit(kind(X), y)
        assert svm.primal_objective_ == pytest.approx(objective(svm.coef_[0], X, y, reg), rel=1e-10)
        assert svm.primal_objective_ == pytest.approx(best, rel=1e-5)
        assert svm.dual_gap_ <= 1e-8
        assert svm.converged_
        np.testing.assert_allclose(svm.coef_[0], coef, rtol=1e-3, atol=1e-4 * np.abs(coef).max())

    @pytest.mark.parametrize("kind", ["plain", "integers", "scales"])
    def test_the_gap_certifies_every_iterate(self, kind):
        X, y = small(seed=3)
        X = {"plain": X, "integers": X.round(), "scales": X * [1e-2, 1.0, 30.0, 1e3]}[kind]
        best, _ = optimum(X, y, 0.01)
        svm = RankSVM(0.01, tol=1e-8).fit(X, y)
        assert svm.history_[0].gap > 0.01
        for record in svm.history_:
            assert record.dual <= best * (1 + 1e-7)
            assert record.primal >= best * (1 - 1e-7)

    def test_the_gap_is_that_of_the_dual(self):
        """With weight p_ij on each pair: sum p - (m n / 4) sum p^2 - |sum p (x_i - x_j)|^2 / (2 reg)."""
        X, y = small(seed=9)
        with pytest.warns(ConvergenceWarning):
            svm = RankSVM(0.02, max_iter=1, tol=1e-12).fit(X, y)
        pairs = (X[y == 1][:, np.newaxis] - X[y == 0]).reshape(-1, 4)
        weights = 2 * np.maximum(0, 1 - pairs @ svm.coef_[0]) / len(pairs)
        dual = weights.sum() - len(pairs) / 4 * weights @ weights - np.sum((weights @ pairs) ** 2) / 0.04
        assert svm.dual_objective_ == pytest.approx(dual, rel=1e-10)
        assert svm.dual_gap_ == pytest.approx(1 - dual / svm.primal_objective_, rel=1e-6)

    def test_more_features_than_rows(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(30, 200)), np.repeat([1, 0], [10, 20])
        best, _ = optimum(X, y, 1.0)
        assert RankSVM(1.0, tol=1e-7).fit(X, y).primal_objective_ == pytest.approx(best, rel=1e-5)

    def test_scales_that_differ_by_millions(self):
        X, y = two_clouds(80, 300, 12, 0.5)
        svm = RankSVM(1e-4, tol=1e-6).fit(X * np.geomspace(1e-2, 1e4, 12), y)
        assert svm.converged_
        assert svm.n_iter_ < 30

    @pytest.mark.parametrize("seed", [9, 57, 61, 181, 283, 342])
    def test_heavy_tails(self, seed):
        """Cauchy rows, on which full Newton steps go round in circles."""
        rng = np.random.default_rng(seed)
        m, n, d = rng.integers(1, 8), rng.integers(1, 12), rng.integers(1, 6)
        X, y = rng.standard_t(1, size=(m + n, d)), (np.arange(m + n) < m).astype(int)
        reg = 10.0 ** rng.uniform(-8, -2)
        svm = RankSVM(reg, max_iter=60).fit(X, y)
        assert svm.converged_
        assert svm.primal_objective_ == pytest.approx(objective(svm.coef_[0], X, y, reg), rel=1e-8)

    def test_a_common_row_changes_nothing(self):
        X, y = small(seed=4)
        row = np.array([1e3, -10.0, 0.0, 1e4])
        plain, moved = RankSVM(0.1, tol=1e-10).fit(X, y), RankSVM(0.1, tol=1e-10).fit(X + row, y)
        np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-4)
        np.testing.assert_allclose(moved.decision_function(X + row), plain.decision_function(X), atol=1e-2)

    def test_large_penalties_still_find_the_direction(self):
        """P(0) = 1 lies within the tolerance of the optimum, and ranks nothing."""
        X, y = two_clouds(60, 400, 6, 2.0)
        svm = RankSVM(1e6).fit(X, y)
        assert 0 < 1.0 - svm.primal_objective_ < 1e-4
        assert roc_auc_score(y, X @ svm.coef_[0]) > 0.99


class TestThreshold:
    """Where the two error rates add up to least."""

    @pytest.mark.parametrize("seed", range(6))
    def test_against_all_candidates(self, seed):
        rng = np.random.default_rng(seed)
        positive, negative = rng.integers(-4, 12, 9) / 8, rng.integers(-8, 8, 17) / 8
        scores = np.unique(np.r_[positive, negative])
        candidates = (scores[1:] + scores[:-1]) / 2
        errors = [np.mean(positive <= t) + np.mean(negative > t) for t in candidates]
        highest = max(t for t, error in zip(candidates, errors, strict=True) if error <= min(errors) + 1e-12)
        assert balanced_threshold(positive, negative) == highest

    def test_between_neighbouring_numbers(self):
        above = np.nextafter(1.0, 2.0)
        for below, high in ((1.0, above), (above, np.nextafter(above, 2.0))):
            assert below <= balanced_threshold(np.array([high]), np.array([below])) < high

    def test_equal_scores(self):
        assert balanced_threshold(np.full(3, 2.5), np.full(4, 2.5)) == 2.5

    def test_of_a_fit(self):
        X, y = two_clouds(50, 500, 5, 2.0)
        svm = RankSVM().fit(X, y)
        scores = X @ svm.coef_[0]
        assert -svm.intercept_[0] == pytest.approx(balanced_threshold(scores[y == 1], scores[y == 0]))
        assert (svm.predict(X) == y).mean() > 0.9
        np.testing.assert_array_equal(svm.predict(X) == 1, svm.decision_function(X) > 0)


class TestEstimator:
    """What a fit leaves behind, and what it says."""

    def test_stopping_early_is_said_with_the_gap(self):
        X, y = small()
        with pytest.warns(ConvergenceWarning, match=r"RankSVM stopped after 1 iterations .* Raise max_iter") as said:
            svm = RankSVM(1e-4, max_iter=1, tol=1e-12).fit(X, y)
        assert said[0].filename == __file__
        assert not svm.converged_
        assert svm.n_iter_ == 1
        assert len(svm.history_) == 2

    def test_no_step_is_left(self):
        """Rounding, not the tolerance, ends this one; before max_iter, and with the gap that was reached."""
        X, y = two_clouds(d=6)
        with pytest.warns(ConvergenceWarning):
            svm = RankSVM(1e-3, tol=1e-300, max_iter=1000).fit(X, y)
        assert svm.n_iter_ < 1000
        assert svm.dual_gap_ < 1e-20

    def test_rows_without_any_difference(self):
        svm = RankSVM().fit(np.ones((10, 3)), np.arange(10) % 2)
        assert not svm.coef_.any()
        assert svm.converged_
        assert svm.primal_objective_ == 1.0
        assert svm.predict(np.ones((2, 3))).sum() == 0

    def test_labels_and_passes(self):
        X, y = small()
        plain = RankSVM(0.1).fit(X, y)
        words = RankSVM(0.1, pos_label="fraud").fit(X, np.array(["legal", "fraud"])[y])
        assert words.classes_.tolist() == ["legal", "fraud"]
        np.testing.assert_allclose(words.coef_, plain.coef_)
        assert plain.n_passes_ == plain.history_[-1].n_passes > plain.n_iter_

    def test_conjugate_gradients_end_where_there_is_no_curvature(self):
        assert not conjugate_gradients(np.zeros_like, np.copy, np.ones(3), 0.1).any()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"reg": 0.0}, "'reg' parameter"),
            ({"tol": 0.0}, "'tol' parameter"),
            ({"max_iter": 0}, "'max_iter' parameter"),
            ({"pos_label": 7}, "pos_label must be one of"),
        ],
    )
    def test_wrong_use_is_explained(self, settings, message):
        with pytest.raises(ValueError, match=message):
            RankSVM(**settings).fit(*small())

    def test_wrong_data_are_explained(self):
        X, y = small()
        with pytest.raises(ValueError, match="one class only"):
            RankSVM().fit(X, np.zeros_like(y))
        with pytest.raises(ValueError, match="contains NaN"):
            RankSVM().fit(np.where(X > 1, np.nan, X), y)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.PositiveLabelWarning")
@parametrize_with_checks([RankSVM()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
