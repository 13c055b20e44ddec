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
from taufpl.thresholding import ArraySample, CrossFitRule, OrderStatistic, TopSample

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


def test_untouched_scores_have_the_threshold_of_the_order_statistic():
    scores = np.random.default_rng(0).normal(size=700)
    for n_folds in (None, 5):
        found = CrossFitRule((0.1, 0.02), 0.1, n_folds).choose_all(scores, scores, np.repeat(scores, 4))
        single = CrossFitRule((0.1,), 0.1, n_folds).choose_all(scores, scores, np.repeat(scores, 4))
        assert single[0].threshold == OrderStatistic(0.1, 0.1).choose(scores).threshold
        assert single[0].n_false_positive == np.sum(scores > single[0].threshold)
        assert found[0].threshold >= single[0].threshold
        assert found[1].threshold > found[0].threshold


def test_a_scorer_that_knows_its_rows_by_heart_is_judged_by_the_others():
    held_out = np.random.default_rng(1).normal(size=500)
    for n_folds in (None, 5):
        (found,) = CrossFitRule((TAU,), DELTA, n_folds).choose_all(np.full(500, -9.0), held_out, np.full(2000, -9.0))
        assert found.threshold == OrderStatistic(TAU, DELTA).choose(held_out).threshold


@pytest.mark.parametrize("n_folds", [None, 5])
def test_the_estimate_is_the_formula_at_every_higher_threshold(n_folds):
    """Straight from the definition, by loops; and the tops of the samples are all that is needed."""
    rng = np.random.default_rng(2)
    train, held_out, fold = rng.poisson(2, 300) / 2.0, rng.poisson(2.6, 300) / 2.0, rng.poisson(1.8, 1200) / 2.0
    rule = CrossFitRule((0.1,), 0.2, n_folds)
    (found,) = rule.choose_all(train, held_out, fold)

    def estimate(t):
        h, s = np.sum(held_out > t), np.sum(fold > t) / 4
        return np.sum(train > t) + max(h - s, 0) * (1 - s / (5 * max(h, 1)) if n_folds else 1)

    values = np.unique(np.concatenate((train, held_out, fold)))
    holding = [t for t in values if all(estimate(u) < 300 - found.rank + 1 for u in values[values >= t])]
    assert found.threshold == min(holding)
    assert found.n_false_positive == int(estimate(found.threshold))
    assert not found.guaranteed

    lowest = rule.lowest(ArraySample(train))
    top = TopSample(fold[fold > lowest], fold.size)
    assert TopSample(train[train > 0], 300).at_rank(found.rank) == ArraySample(train).at_rank(found.rank)
    (same,) = rule.choose_all(train, held_out, top)
    assert (same.threshold, same.fpr_estimate) == (found.threshold, found.fpr_estimate)
