"""`cross` on scores that come in ties: no tolerance is broken because a tie flips as a whole.

The reduced form of `benchmarks/discrete.py`: features have few values, so that the true false-positive rate is a sum of
masses. Limits lie four binomial standard errors away.
"""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import backend_cases as cases
from taufpl import NeymanPearsonClassifier, TauFPLRanker

TAU = DELTA = 0.05


def one_hot(rng, top, n, m):
    """Rows of a column of four levels, the first of which has this share of the negatives and half of the positives."""
    negative = rng.choice(4, n, p=[top, *((1 - top) * np.array([0.25, 0.35, 0.4]))])
    positive = rng.choice(4, m, p=[0.5, 0.25, 0.15, 0.1])
    return np.eye(4)[np.concatenate((negative, positive))], np.repeat([0, 1], [n, m])


def share_broken(make, top, n, m, n_draws, convert=lambda X: X):
    """Share of the draws in which the first level, which is too large, is called positive."""
    broken = 0
    # Fits this small spend their time waiting for threads of BLAS.
    with config_context(assume_finite=True, skip_parameter_validation=True), threadpool_limits(1):
        for number in range(n_draws):
            X, y = one_hot(np.random.default_rng(number), top, n, m)
            model = make(number).fit(convert(X), y)
            broken += cases.gathered(model.predict(convert(np.eye(4))))[0] == 1
    return broken / n_draws


def limit(n_draws):
    return DELTA + 4 * np.sqrt(DELTA * (1 - DELTA) / n_draws)


@pytest.mark.parametrize(
    ("scorer", "top", "n"),
    [
        (LogisticRegression(), 0.06, 1000),
        pytest.param(DecisionTreeClassifier(max_depth=4, random_state=0), 0.08, 2000, marks=pytest.mark.slow),
    ],
    ids=["logistic", "tree"],
)
def test_a_level_does_not_flip_as_a_whole(scorer, top, n):
    def make(number):
        return NeymanPearsonClassifier(scorer, TAU, delta=DELTA, threshold="cross", random_state=number)

    assert share_broken(make, top, n, 200, 60) <= limit(60)


@pytest.mark.slow
def test_a_level_does_not_flip_as_a_whole_on_rows_in_blocks():
    def make(number):
        # A ranking for the tolerance itself would give up here, so that half of the negatives train.
        ranker = TauFPLRanker(0.5, reg=0.1, tol=1e-2)
        return NeymanPearsonClassifier(ranker, TAU, delta=DELTA, threshold="cross", random_state=number)

    assert share_broken(make, 0.06, 1000, 100, 6, cases.tensor) <= limit(6)
