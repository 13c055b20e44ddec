"""Linear classifiers of few features against scikit-learn's, from a sample and from neighbouring solutions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from taufpl.estimators.rankings import LOGISTIC, SQUARED_HINGE, PenalisedLoss
from taufpl.operators import as_operator

SCALING = 100.0


def clouds(n=1200, d=6, distance=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.2
    return rng.normal(size=(n, d)) * np.geomspace(0.1, 10.0, d) + distance * y[:, np.newaxis], y


def logistic(X, y, strength):
    model = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-10).fit(X, y)
    return np.append(model.coef_[0], model.intercept_)


def machine(X, y, strength, cost):
    weights = {False: cost, True: 1.0}
    model = LinearSVC(
        C=strength, class_weight=weights, dual=False, tol=1e-10, max_iter=10_000, intercept_scaling=SCALING
    ).fit(X, y)
    return np.append(model.coef_[0], model.intercept_)


def assert_same_scores(X, found, expected):
    """Within a hundredth of the scores' deviation."""
    scores, wanted = (X @ at[:-1] + at[-1] for at in (found, expected))
    assert np.abs(scores - wanted).max() <= 1e-2 * wanted.std()


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("strength", [1e-3, 1.0, 100.0])
def test_logistic_regression_is_that_of_scikit_learn(layout, strength):
    X, y = clouds()
    found = PenalisedLoss(as_operator(layout(X)), y, LOGISTIC, strength).minimise().point.at
    assert_same_scores(X, found, logistic(X, y, strength))


@pytest.mark.parametrize("cost", [1.0, 10.0, 100.0])
def test_support_vector_machines_are_those_of_scikit_learn(cost):
    X, y = clouds()
    found = PenalisedLoss(as_operator(X), y, SQUARED_HINGE, 0.1, cost, SCALING**-2).minimise().point.at
    assert_same_scores(X, found, machine(X, y, 0.1, cost))


@pytest.mark.parametrize("strength", [1e-3, 0.1, 100.0])
@pytest.mark.parametrize("distance", [1.0, 30.0])
def test_a_neighbour_is_a_start_and_not_an_end(strength, distance):
    """Also where classes are separable, and solutions lie far apart."""
    X, y = clouds(distance=distance)
    start = PenalisedLoss(as_operator(X), y, LOGISTIC, 1.0)
    found = PenalisedLoss(as_operator(X), y, LOGISTIC, strength).minimise((start, start.minimise())).point.at
    assert_same_scores(X, found, logistic(X, y, strength))


def test_many_rows_are_solved_on_a_sample_first():
    X, y = clouds(80_000, distance=0.5)
    passes = []
    for size in (8_000, 80_000):
        operator = as_operator(X[:size])
        found = PenalisedLoss(operator, y[:size], LOGISTIC, 1.0).minimise().point.at
        assert_same_scores(X[:size], found, logistic(X[:size], y[:size], 1.0))
        passes.append(operator.n_passes)
    assert passes[1] < 0.8 * passes[0]


def test_a_sample_without_a_class_is_not_solved():
    X, _ = clouds(40_000)
    y = np.arange(len(X)) == 1
    found = PenalisedLoss(as_operator(X), y, LOGISTIC, 1.0).minimise().point.at
    assert_same_scores(X, found, logistic(X, y, 1.0))


def test_features_that_do_not_vary_or_repeat_do_no_harm():
    X, y = clouds()
    wide = np.hstack([X, X, np.ones((len(X), 1)), np.zeros((len(X), 1)), 1e6 + X[:, :1]])
    found = PenalisedLoss(as_operator(wide), y, LOGISTIC, 100.0).minimise().point.at
    assert np.isfinite(found).all()
    loss, best = (
        np.logaddexp(0, -np.where(y, 1, -1) * (own @ at[:-1] + at[-1])).sum()
        for own, at in ((wide, found), (X, logistic(X, y, 100.0)))
    )
    assert loss <= 1.001 * best
