"""Data on which the convex objective gives up, and problems posed on it."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, top_count

TAU = 0.001


def partly_separable(seed=0, n=8000, m=1500, d=10):
    """3 of 10 positives lie far out along one axis; the others lie where a seventh of the negatives lies too."""
    rng = np.random.default_rng(seed)
    negatives, positives = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    among = np.zeros(d)
    among[1:5] = 0.5
    far = rng.random(m) < 0.3
    positives[far, 0] += 4.5
    positives[~far] += 4.0 * among
    mixed = rng.random(n) < 0.15
    negatives[mixed] += 4.5 * among
    negatives[~mixed] -= among
    return np.vstack((negatives, positives)), np.repeat([0, 1], [n, m])


def pose(X, y, tau=TAU, reg=0.1, scale=1.0):
    negatives = np.flatnonzero(y == 0)
    k = top_count(scale * tau, negatives.size)
    return RankingProblem(as_operator(X), np.flatnonzero(y == 1), negatives, k, reg)


def logistic(X, y):
    return LogisticRegression(max_iter=500).fit(X, y).coef_[0]
