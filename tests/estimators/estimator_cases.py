"""Data and a scorer that the tests of estimators share."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


def two_clouds(m=100, n=800, d=4, shift=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n, m])
    X = rng.normal(size=(m + n, d)) + shift * y[:, np.newaxis]
    order = rng.permutation(m + n)
    return X[order], y[order]


X, Y = two_clouds()
FRESH = np.random.default_rng(99).normal(size=(200_000, 4))


class ScoreItself(ClassifierMixin, BaseEstimator):
    """A scorer whose score is the first feature: what it makes of a threshold can be computed by hand."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.rows_ = np.asarray(X)[:, 0].copy()
        self.weights_ = sample_weight
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]
