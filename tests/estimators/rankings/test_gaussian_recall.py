"""The recall under Gaussian scores: its gradient, its invariance, and what climbing it brings."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime

from recall_cases import TAU, logistic, partly_separable, pose
from taufpl.estimators.rankings import GaussianRecall, NegativeMoments, fit_gaussian_recall
from taufpl.thresholding import share_above


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("is_diagonal", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_gradient(ridge, is_diagonal, layout):
    X, y = partly_separable(n=500, m=100)
    problem = pose(layout(X), y)
    moments = NegativeMoments.of(problem)
    if is_diagonal:  # as for many features
        moments = NegativeMoments(moments.mean, moments.negative_variances(), moments.variances)
    recall = GaussianRecall(problem, moments, 0.02, 0.5, ridge)
    for coef in np.random.default_rng(0).normal(size=(5, 10)):
        value, gradient = recall.value_and_gradient(coef)
        assert 0.0 <= value <= 1.0
        numeric = approx_fprime(coef, lambda w: recall.value_and_gradient(w)[0], 1e-7)
        np.testing.assert_allclose(gradient, numeric, atol=1e-6)
        assert abs(gradient @ coef) <= 1e-10  # the length does not matter


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_moments_of_the_negatives(layout):
    X, y = partly_separable(n=500, m=100)
    problem = pose(layout(X), y)
    moments = NegativeMoments.of(problem)
    np.testing.assert_allclose(moments.mean, X[y == 0].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(moments.covariance, np.cov(X[y == 0].T, bias=True), atol=1e-12)
    np.testing.assert_allclose(moments.variances, X.var(axis=0), atol=1e-12)
    assert (X[y == 0] @ moments.standardised(np.arange(10.0))).std() == pytest.approx(1.0)
    assert not moments.standardised(np.zeros(10)).any()


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_of_many_features_the_variances_alone_are_known(layout):
    X, y = np.random.default_rng(0).normal(size=(60, 2000)), np.repeat([0, 1], [40, 20])
    moments = NegativeMoments.of(pose(layout(X), y))
    np.testing.assert_allclose(moments.covariance, X[y == 0].var(axis=0), atol=1e-12)
    np.testing.assert_allclose(moments.variances, X.var(axis=0), atol=1e-12)
    coef = np.random.default_rng(1).normal(size=2000)
    expected = coef / np.sqrt(X[y == 0].var(axis=0) @ coef**2)
    np.testing.assert_allclose(moments.standardised(coef), expected, rtol=1e-9)


def test_a_narrow_sigmoid_counts_positives_above_the_gaussian_quantile():
    X, y = partly_separable(n=500, m=100)
    problem = pose(X, y)
    coef = logistic(X, y)
    value, _ = GaussianRecall(problem, NegativeMoments.of(problem), 0.05, 1e-9, 0.0).value_and_gradient(coef)
    negatives = X[y == 0] @ coef
    quantile = negatives.mean() + 1.6448536 * negatives.std()
    assert value == pytest.approx(np.mean(X[y == 1] @ coef > quantile), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_climbing_pays_on_new_data(seed):
    X, y = partly_separable(seed)
    problem = pose(X, y)
    moments, start = NegativeMoments.of(problem), logistic(X, y)
    found = fit_gaussian_recall(problem, moments, TAU, 0.01, start)
    recall = GaussianRecall(problem, moments, TAU, 0.5, 0.01)
    assert recall.value_and_gradient(found)[0] > recall.value_and_gradient(start)[0]
    assert recall.length(found) == pytest.approx(1.0)
    new, labels = partly_separable(seed + 100, n=50_000)
    before, after = (share_above((new @ w)[labels == 1], (new @ w)[labels == 0], TAU) for w in (start, found))
    assert after >= 3.0 * before


def test_steps_read_the_positives_alone():
    X, y = partly_separable()
    problem = pose(X, y)
    moments, start = NegativeMoments.of(problem), logistic(X, y)
    before = problem.operator.n_passes
    fit_gaussian_recall(problem, moments, TAU, 0.01, start, max_iter=5)
    assert 0 < problem.operator.n_passes - before <= 4 * (2 * 5 + 10) * 1500 / 9500


def test_a_negative_class_that_does_not_vary():
    X = np.vstack((np.zeros((50, 3)), np.eye(3)))
    y = np.repeat([0, 1], [50, 3])
    problem = pose(X, y, tau=0.1)
    found = fit_gaussian_recall(problem, NegativeMoments.of(problem), 0.1, 0.1, np.ones(3))
    assert np.isfinite(found).all()


def test_no_direction_is_refused():
    X, y = partly_separable(n=100, m=50)
    problem = pose(X, y)
    with pytest.raises(ValueError, match="start must be a direction"):
        fit_gaussian_recall(problem, NegativeMoments.of(problem), 0.1, 0.1, np.zeros(10))
