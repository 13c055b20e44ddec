"""The rule of `cross`: its count of false positives straight from the definition, and thresholds known in advance."""

from fractions import Fraction

import numpy as np
import pytest

from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import ArraySample, CrossFitRule, OrderStatistic, TopSample, simultaneous_ranks

TAU = DELTA = 0.05


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


def by_definition(train, held_out, fold, rank, n_folds):
    """The lowest threshold from which on upwards V stays below n - rank + 1, and V there, by loops."""
    n = len(train)

    def estimate(t):
        h, s = int(np.sum(held_out > t)), Fraction(int(np.sum(fold > t)) * n, len(fold))
        return int(np.sum(train > t)) + max(h - s, 0) * (1 - s / (n_folds * max(h, 1)) if n_folds else 1)

    values = np.unique(np.concatenate((train, held_out, fold)))
    found = values[-1]
    for t in values[::-1]:
        if estimate(t) >= n - rank + 1:
            break
        found = t
    return found, int(estimate(found))


@pytest.mark.parametrize("n_folds", [None, 2, 5])
def test_the_threshold_is_the_lowest_from_which_on_the_formula_holds(n_folds):
    """Also where few tied values let counts be just what the rank allows; and the tops of the samples are enough."""
    rng, taus, n = np.random.default_rng(2), (0.1, 0.25), 120
    for gain in (0.0, 0.1, 0.3, 0.6) * 10:
        train, held_out, fold = (rng.poisson(mean, size) / 2.0 for mean, size in ((2, n), (2 + gain, n), (2, 4 * n)))
        rule = CrossFitRule(taus, 0.3, n_folds)
        lowest = rule.lowest(ArraySample(train))
        tops = (TopSample(each[each > lowest], each.size) for each in (held_out, fold))
        for found in (rule.choose_all(train, held_out, fold), rule.choose_all(train, *tops)):
            for each, rank in zip(found, simultaneous_ranks(n, taus, 0.3), strict=True):
                threshold, n_false = by_definition(train, held_out, fold, rank, n_folds)
                assert (each.threshold, each.n_false_positive, each.rank) == (threshold, n_false, rank)
                assert each.fpr_estimate == n_false / n
                assert not each.guaranteed


def test_too_few_negatives_for_a_rank_leave_only_the_highest():
    train = np.random.default_rng(3).permutation(np.arange(40.0, 60.0))
    rule = CrossFitRule((TAU,), DELTA)
    assert rule.lowest(ArraySample(train)) == 59.0
    with pytest.warns(TooFewNegativesWarning, match="needs at least 59 negatives"):
        (found,) = rule.choose_all(train, train, np.tile(train, 4))
    assert (found.threshold, found.n_false_positive, found.rank, found.guaranteed) == (59.0, 0, 20, False)
    # A model of a fold scores three unseen negatives higher still: no threshold under the last of them will do.
    with pytest.warns(TooFewNegativesWarning):
        (higher,) = rule.choose_all(train, np.concatenate((train[3:], [70.0, 80.0, 90.0])), np.tile(train, 4))
    assert higher.threshold == 90.0
