"""The cost-sensitive and the bias-shifted baselines, judged by their objectives, written down once more in NumPy."""

import warnings
from copy import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import estimator_cases
from taufpl.baselines import BiasShiftedSVM, CostSensitiveLogisticRegression, CostSensitiveSVM

two_clouds = partial(estimator_cases.two_clouds, m=60, n=400, d=6)
COST_SENSITIVE = [CostSensitiveSVM, CostSensitiveLogisticRegression]
S = 100.0


def losses(kind, z, y):
    """Loss of each row and its derivative in z, for labels 0 and 1."""
    sign = np.where(y == 1, 1.0, -1.0)
    if kind is CostSensitiveLogisticRegression:
        return np.logaddexp(0.0, -sign * z), -sign / (1.0 + np.exp(sign * z))
    hinge = np.maximum(0.0, 1.0 - sign * z)
    return hinge**2, -2.0 * sign * hinge


def objective(kind, point, X, y, reg, cost=None):
    """P at (w, b) and its gradient; a cost of None counts each row alike."""
    w, b = point[:-1], point[-1]
    loss, slope = losses(kind, X @ w + b, y)
    m, n = (y == 1).sum(), (y == 0).sum()
    a = np.full(m + n, 1.0 / (m + n)) if cost is None else np.where(y == 1, 1.0 / m, cost / n)
    value = np.sum(a * loss) + 0.5 * reg * (w @ w + (b / S) ** 2)
    return value, np.r_[X.T @ (a * slope) + reg * w, np.sum(a * slope) + reg * b / S**2]


def minimum(kind, X, y, reg, cost=None, scale=1.0):
    """Minimiser of P by quasi-Newton steps, in variables divided by `scale`."""
    scale = np.broadcast_to(scale, X.shape[1] + 1)

    def scaled(v):
        value, gradient = objective(kind, scale * v, X, y, reg, cost)
        return value, scale * gradient

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 50}
    found = minimize(scaled, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options)
    return scale * found.x, found.fun


def fitted_point(model):
    return np.r_[model.coef_[0], getattr(model, "svm_intercept_", model.intercept_[0])]


def bound_by_gradient(gradient, reg):
    """|g|^2 / (2 reg), with the derivative by b/s in the place of that by b."""
    return np.sum(np.r_[gradient[:-1], S * gradient[-1]] ** 2) / (2.0 * reg)


CASES = [(kind, {"negative_cost": cost}, cost) for kind in COST_SENSITIVE for cost in (0.1, 1.0, 10.0)]
CASES += [(BiasShiftedSVM, {"tau": 0.05}, None)]


class TestObjective:
    @pytest.mark.parametrize("layout", [np.asfortranarray, sp.csr_array, sp.csc_matrix])
    @pytest.mark.parametrize("reg", [1e-3, 1e-1, 10.0])
    @pytest.mark.parametrize(("kind", "settings", "cost"), CASES)
    def test_it_is_minimised(self, kind, settings, cost, reg, layout):
        X, y = two_clouds()
        X[:, 0] = np.where(X[:, 0] > 0, X[:, 0], 0.0)
        model = kind(reg=reg, tol=1e-9, **settings).fit(layout(X), y)
        best, least = minimum(kind, X, y, reg, cost)
        value, gradient = objective(kind, fitted_point(model), X, y, reg, cost)
        assert model.objective_ == pytest.approx(value, rel=1e-12)
        assert value == pytest.approx(least, rel=1e-9)
        np.testing.assert_allclose(fitted_point(model), best, rtol=1e-3, atol=1e-4)
        assert np.linalg.norm(gradient) < 1e-4
        assert model.converged_
        assert model.coef_.shape == (1, 6)
        assert model.intercept_.shape == (1,)

    @pytest.mark.parametrize(("kind", "settings", "cost"), CASES)
    def test_the_gap_bounds_what_is_missing(self, kind, settings, cost):
        X, y = two_clouds(d=20, shift=0.5)
        _, least = minimum(kind, X, y, 1e-3, cost)
        for tol in (1e-1, 1e-3, 1e-5):
            model = kind(reg=1e-3, tol=tol, **settings).fit(X, y)
            value, gradient = objective(kind, fitted_point(model), X, y, 1e-3, cost)
            assert model.dual_gap_ == pytest.approx(bound_by_gradient(gradient, 1e-3) / value, rel=1e-4)
            assert value - least <= model.dual_gap_ * value + 1e-12
            assert model.dual_gap_ <= tol
            assert model.n_iter_ >= 1

    @pytest.mark.parametrize("cost", [0.5, 1.0, 10.0])
    @pytest.mark.parametrize("kind", COST_SENSITIVE)
    def test_features_of_very_different_scales(self, kind, cost):
        """The largest features make the first gradient; a tolerance relative to that one would stop far too early."""
        X, y = two_clouds(d=8)
        sizes = np.geomspace(1e-2, 1e2, 8)
        model = kind(1e-4, cost).fit(np.abs(X) * sizes, y)
        _, least = minimum(kind, np.abs(X) * sizes, y, 1e-4, cost, scale=np.r_[1.0 / sizes, 1.0])
        assert least * (1.0 - 1e-9) <= model.objective_ <= least * (1.0 + 1e-4)

    @pytest.mark.parametrize(("kind", "settings", "cost"), CASES)
    def test_a_large_penalty_leaves_the_direction(self, kind, settings, cost):
        """P is then close to that of the best constant, within any tolerance on P."""
        X, y = two_clouds()
        model = kind(reg=1e5, **settings).fit(X, y)
        best, _ = minimum(kind, X, y, 1e5, cost, scale=np.r_[np.full(6, 1e-3), 1.0])
        np.testing.assert_allclose(model.coef_[0], best[:-1], rtol=0.1)

    def test_an_optimum_close_to_zero(self):
        """Then the gap that is small beside P is smaller than could be known before."""
        X, y = two_clouds(shift=40.0)
        model = CostSensitiveSVM(1e-3, tol=1e-3).fit(X, y)
        _, least = minimum(CostSensitiveSVM, X, y, 1e-3, 1.0)
        assert least < 1e-4
        assert model.objective_ <= least * 1.001


class TestWeights:
    @pytest.mark.parametrize("kind", COST_SENSITIVE)
    def test_costs_are_those_of_class_means(self, kind):
        """Rows that are repeated change nothing, in whichever class."""
        X, y = two_clouds()
        once = kind(0.1, 2.0, tol=1e-9).fit(X, y)
        for label in (0, 1):
            rows = np.r_[np.arange(len(y)), np.flatnonzero(y == label), np.flatnonzero(y == label)]
            thrice = kind(0.1, 2.0, tol=1e-9).fit(X[rows], y[rows])
            np.testing.assert_allclose(fitted_point(thrice), fitted_point(once), rtol=1e-4, atol=1e-5)

    def test_the_plain_machine_counts_rows(self):
        X, y = two_clouds()
        plain = BiasShiftedSVM(0.1, 0.1, tol=1e-9).fit(X, y)
        same = CostSensitiveSVM(0.1 * 460 / 60, 400 / 60, tol=1e-9).fit(X, y)
        np.testing.assert_allclose(fitted_point(plain), fitted_point(same), rtol=1e-4, atol=1e-5)
        rows = np.r_[np.arange(460), np.flatnonzero(y == 1), np.flatnonzero(y == 1)]
        other = BiasShiftedSVM(0.1, 0.1, tol=1e-9).fit(X[rows], y[rows])
        assert np.linalg.norm(fitted_point(other) - fitted_point(plain)) > 0.1

    @pytest.mark.parametrize("kind", COST_SENSITIVE)
    def test_a_higher_price_leaves_fewer_false_positives(self, kind):
        X, y = two_clouds()
        counts = [kind(0.01, cost).fit(X, y).predict(X)[y == 0].sum() for cost in (0.1, 1.0, 10.0, 100.0)]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] > 100
        assert counts[-1] < 10

    @pytest.mark.parametrize("reg", [1e-3, 1.0, 1e4])
    @pytest.mark.parametrize("cost", [0.2, 1.0, 5.0])
    def test_without_features_the_intercept_is_known(self, cost, reg):
        """The stationary point of (1 - b)^2 + c (1 + b)^2 + (reg/2) (b/s)^2, and of its logistic sibling."""
        X, y = np.zeros((30, 1)), np.repeat([0, 1], [20, 10])
        svm = CostSensitiveSVM(reg, cost, tol=1e-9).fit(X, y)
        assert svm.intercept_[0] == pytest.approx((2 - 2 * cost) / (2 + 2 * cost + reg / S**2), abs=1e-4)
        b = CostSensitiveLogisticRegression(reg, cost, tol=1e-9).fit(X, y).intercept_[0]
        assert -1 / (1 + np.exp(b)) + cost / (1 + np.exp(-b)) + reg * b / S**2 == pytest.approx(0, abs=1e-4)
        if reg == 1e-3:
            assert b == pytest.approx(-np.log(cost), abs=1e-4)


class TestShiftedThreshold:
    @pytest.mark.parametrize("tau", [0.001, 0.01, 0.05, 0.07, 0.3])
    def test_it_is_the_quantile_of_the_negatives(self, tau):
        X, y = two_clouds()
        model = BiasShiftedSVM(tau, 0.1).fit(X, y)
        scores = X @ model.coef_[0]
        count = {0.001: 0, 0.01: 4, 0.05: 20, 0.07: 28, 0.3: 120}[tau]
        np.testing.assert_allclose(-model.intercept_[0], np.sort(scores[y == 0])[::-1][count], rtol=1e-10)
        assert model.predict(X)[y == 0].sum() == count
        np.testing.assert_array_equal(model.predict(X) == 1, model.decision_function(X) > 0)

    @pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sp.csr_array])
    @pytest.mark.parametrize("tau", [0.01, 0.05, 0.2])
    def test_ties_stay_below_the_tolerance_and_as_close_as_they_can(self, tau, layout):
        rng = np.random.default_rng(3)
        X = rng.integers(0, 3, size=(600, 5)) * 0.1
        y = np.repeat([0, 1], [500, 100])
        X[y == 1] += 0.1 * (rng.random((100, 5)) < 0.5)
        model = BiasShiftedSVM(tau, 0.1).fit(X, y)
        predicted = model.predict(layout(X[:500])) == 1
        assert predicted.sum() <= tau * 500
        scores = np.round(X[:500] @ model.coef_[0], 9)
        following = scores[~predicted].max()
        assert predicted.sum() + (scores == following).sum() > tau * 500

    @pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sp.csr_array, sp.csc_array])
    def test_the_negative_at_the_threshold_stays_negative_in_every_layout(self, layout):
        """Scores are summed in another order there; rounding must not make a false positive of it."""
        X, y = two_clouds(d=40)
        for tau in (0.01, 0.02, 0.05, 0.1, 0.2):
            model = BiasShiftedSVM(tau, 0.1).fit(X, y)
            scores = X[y == 0] @ model.coef_[0]
            at = X[y == 0][np.argsort(-scores)[int(tau * 400)]]
            for columns in (slice(None), slice(None, None, -1)):
                turned = copy(model)
                turned.coef_ = model.coef_[:, columns]
                assert turned.predict(layout(at[np.newaxis, columns])) == 0

    def test_the_direction_knows_nothing_of_tau(self):
        X, y = two_clouds()
        low, high = (BiasShiftedSVM(tau, 0.1).fit(X, y) for tau in (0.01, 0.3))
        np.testing.assert_array_equal(low.coef_, high.coef_)
        assert low.svm_intercept_ == high.svm_intercept_
        assert low.intercept_[0] < high.intercept_[0]


ALL = [*COST_SENSITIVE, BiasShiftedSVM]


@pytest.mark.parametrize("kind", ALL)
def test_labels_of_any_kind_and_the_positive_one_by_name(kind):
    X, y = two_clouds()
    plain = kind().fit(X, y)
    turned = kind(pos_label="fraud").fit(X, np.array(["legal", "fraud"])[y])
    assert turned.classes_.tolist() == ["legal", "fraud"]
    np.testing.assert_array_equal(turned.coef_, plain.coef_)
    np.testing.assert_array_equal(turned.predict(X) == "fraud", plain.predict(X) == 1)
    np.testing.assert_array_equal(turned.predict(X) == "fraud", turned.decision_function(X) > 0)


@pytest.mark.parametrize("kind", ALL)
def test_storage_does_not_change_the_answer(kind):
    X, y = two_clouds()
    X = X.astype(np.float32)
    plain = kind().fit(X.astype(np.float64), y)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for other in (X, wide, sp.coo_array(X)):
        np.testing.assert_allclose(kind().fit(other, y).coef_, plain.coef_, rtol=1e-4)
    assert wide.indices.dtype == wide.indptr.dtype == np.int64


@pytest.mark.parametrize("kind", ALL)
def test_stopping_early_is_said_with_the_gap(kind):
    X, y = two_clouds(d=30, shift=0.3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(reg=1e-5, max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.dual_gap_ > 1e-4
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    assert f"{kind.__name__} stopped after 1 iterations at a relative gap of" in str(warning.message)
    assert Path(warning.filename).name == Path(__file__).name


X, Y = two_clouds(m=10, n=30)
WRONG = [
    *((kind(reg=0.0), X, Y, "'reg' parameter") for kind in ALL),
    *((kind(tol=0.0), X, Y, "'tol' parameter") for kind in ALL),
    *((kind(max_iter=0), X, Y, "'max_iter' parameter") for kind in ALL),
    *((kind(negative_cost=0.0), X, Y, "'negative_cost' parameter") for kind in COST_SENSITIVE),
    *((kind(negative_cost=-1.0), X, Y, "'negative_cost' parameter") for kind in COST_SENSITIVE),
    (BiasShiftedSVM(tau=0.0), X, Y, "'tau' parameter"),
    (BiasShiftedSVM(tau=1.0), X, Y, "'tau' parameter"),
    *((kind(pos_label=7), X, Y, r"pos_label must be one of the labels in y, \[0, 1\]; got 7") for kind in ALL),
    *((kind(), X, np.zeros(40), "one class only") for kind in ALL),
    *((kind(), X, np.arange(40) % 3, "Only binary classification is supported") for kind in ALL),
    *((kind(), np.where(X > 2, np.nan, X), Y, "contains NaN") for kind in ALL),
    *((kind(), sp.csr_array(np.where(X > 2, np.inf, X)), Y, "contains infinity") for kind in ALL),
    *((kind(), X * 1e80, Y, "Scale the features") for kind in ALL),
]


@pytest.mark.parametrize(("estimator", "X", "y", "message"), WRONG)
def test_wrong_use_is_explained(estimator, X, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


@pytest.mark.parametrize("kind", ALL)
def test_unfitted(kind):
    with pytest.raises(NotFittedError, match="not fitted"):
        kind().predict(X)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.PositiveLabelWarning")
@parametrize_with_checks([kind() for kind in ALL])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
