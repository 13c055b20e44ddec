"""Every strategy again in plain NumPy: a scorer records its fits, each of which scores on a scale of its own."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from taufpl import NeymanPearsonClassifier
from taufpl.estimators.strategies import (
    STRATEGIES,
    Automatic,
    Plan,
    check_segment_strategy,
    held_out_size,
    most_held_out,
    span_of,
    strategy_of,
)
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import (
    ArraySample,
    CrossFitRule,
    HeldOut,
    NegativeSequence,
    NPScoreRule,
    OrderStatistic,
    OutOfBootstrap,
    TrainQuantile,
    fpr_upper_bound,
    negatives_needed,
    order_rank,
    sequence_negatives_needed,
    simultaneous_ranks,
)

N, M, TAUS = 400, 40, (0.05, 0.1)
FITS = []


class Rescaled(ClassifierMixin, BaseEstimator):
    """The first feature, on a scale that depends on the rows of the fit; the second is the number of a row."""

    def __init__(self, is_linear=True):
        self.is_linear = is_linear

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.rows = X[:, 1].astype(int)
        rng = np.random.default_rng(self.rows.sum())
        # Noise for rows that it has seen: it flatters.
        self.slope, self.shift = rng.uniform(0.5, 3.0), rng.normal(0.0, 3.0)
        if self.is_linear:
            self.coef_ = np.array([[self.slope, 0.0]])
        FITS.append(self)
        return self

    def decision_function(self, X):
        gain = np.where(np.isin(X[:, 1].astype(int), self.rows), -0.3, 0.0) * (np.sin(X[:, 1]) > 0)
        return self.slope * (X[:, 0] + gain) + self.shift


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [N, M]))
    return np.column_stack((rng.normal(size=y.size) + 1.5 * y, np.arange(y.size))), y


def fit(rows, is_linear=True, **settings):
    """A classifier, and the models that were fitted on the way."""
    FITS.clear()
    model = NeymanPearsonClassifier(Rescaled(is_linear), TAUS, random_state=0, **settings).fit(*rows)
    return model, list(FITS)


def near(threshold):
    """Linear scores may move a little where features come in single precision: thresholds are raised by as much."""
    return pytest.approx(threshold, rel=3e-6, abs=3e-6)


@pytest.mark.parametrize("is_linear", [True, False])
def test_cross_is_its_rule_on_all_scores(rows, is_linear):
    X, y = rows
    model, (whole, *folds) = fit(rows, is_linear, threshold="cross")
    assert [each.rows.size for each in (whole, *folds)] == [440, *[352] * 5]
    own = whole.decision_function(X)
    held, seen = np.empty(y.size), []
    for fold in folds:
        scores, trained = fold.decision_function(X), np.isin(X[:, 1], fold.rows)
        of_fold = scores[trained & (y == 0)]
        if is_linear:  # brought to the mean and deviation of the model of all rows
            scores = own[y == 0].mean() + own[y == 0].std() / of_fold.std() * (scores - of_fold.mean())
        held[~trained] = scores[~trained]
        seen.append(scores[trained & (y == 0)])
    rule = CrossFitRule(TAUS, 0.05, 5 if is_linear else None)
    expected = rule.choose_all(own[y == 0], held[y == 0], np.concatenate(seen))
    for found, wanted in zip(model.evidence_, expected, strict=True):
        assert found.threshold == near(wanted.threshold)
        assert (found.n_false_positive, found.rank) == (wanted.n_false_positive, wanted.rank)
        assert (found.n_true_positive, found.n_positive) == (np.sum(held[y == 1] > wanted.threshold), M)
        assert (found.guaranteed, found.n_negative) == (False, N)


@pytest.mark.parametrize("combine", ["mean", "refit"])
@pytest.mark.parametrize(
    ("delta", "name", "rule"),
    [
        (None, "np_score", NPScoreRule),
        (None, "quantile", TrainQuantile),
        (0.2, "np_score", lambda tau: OrderStatistic(tau, 0.2)),
    ],
)
def test_rounds_are_counted_row_by_row(rows, delta, name, rule, combine):
    X, y = rows
    model, fits = fit(rows, threshold=OutOfBootstrap(6, train_share=0.6, rule=name, combine=combine), delta=delta)
    rounds = [each for each in fits if each.rows.size < y.size]
    assert [each.rows.size for each in rounds] == [264] * 6
    assert len(fits) == 6 + (combine == "refit")
    for tau, found in zip(TAUS, model.evidence_, strict=True):
        thresholds, totals, times = [], np.zeros(y.size), np.zeros(y.size)
        for place, each in enumerate(rounds):
            out, scores = ~np.isin(X[:, 1], each.rows), each.decision_function(X)
            negative, positive = scores[out & (y == 0)], scores[out & (y == 1)]
            threshold = rule(tau).choose(negative, positive).threshold
            thresholds.append(threshold)
            assert found.rounds.fpr[place] == np.mean(negative > threshold)
            assert found.rounds.tpr[place] == np.mean(positive > threshold)
            totals[out] += scores[out] - threshold
            times[out] += 1
        np.testing.assert_allclose(found.rounds.thresholds, thresholds, rtol=3e-6, atol=3e-6)
        n_false, n = np.sum(totals[y == 0] > 0), np.sum(times[y == 0] > 0)
        assert (found.n_false_positive, found.n_negative, found.fpr_estimate) == (n_false, n, n_false / n)
        assert found.fpr_upper_bound == fpr_upper_bound(n_false, n, delta or 0.05)
        assert (found.n_true_positive, found.n_positive) == (np.sum(totals[y == 1] > 0), np.sum(times[y == 1] > 0))
        assert (found.delta, found.rank, found.guaranteed) == (delta, None, False)
        if combine == "mean":
            expected = np.mean(thresholds)
        else:
            own = fits[0].decision_function(X)[y == 0]
            spans = [
                (each.decision_function(X)[y == 0].mean(), each.decision_function(X)[y == 0].std()) for each in rounds
            ]
            standard = [(t - at) / width for t, (at, width) in zip(thresholds, spans, strict=True)]
            expected = own.mean() + own.std() * np.mean(standard)
        assert found.threshold == near(expected)


def test_train_counts_held_out_rows_above_the_quantile_of_each_fold(rows):
    X, y = rows
    model, (whole, *folds) = fit(rows, threshold="train")
    assert len(folds) == 5
    for tau, found in zip(TAUS, model.evidence_, strict=True):
        assert found.threshold == near(TrainQuantile(tau).choose(whole.decision_function(X)[y == 0]).threshold)
        counts = np.zeros(2, int)
        for fold in folds:
            scores, trained = fold.decision_function(X), np.isin(X[:, 1], fold.rows)
            is_above = scores > TrainQuantile(tau).choose(scores[trained & (y == 0)]).threshold
            counts += [np.sum(is_above & ~trained & (y == kind)) for kind in (0, 1)]
        assert (found.n_false_positive, found.n_negative, found.n_true_positive, found.n_positive) == (
            counts[0], N, counts[1], M,
        )  # fmt: skip
        assert (found.rank, found.guaranteed) == (None, False)


def test_recall_of_np_is_counted_at_the_same_rank_of_each_fold(rows):
    X, y = rows
    model, (main, *folds) = fit(rows, threshold="np")
    held = (y == 0) & ~np.isin(X[:, 1], main.rows)
    assert len(folds) == 5
    ranks = simultaneous_ranks(held.sum(), TAUS, 0.05)
    for found, rank in zip(model.evidence_, ranks, strict=True):
        assert found.threshold == near(np.sort(main.decision_function(X)[held])[rank - 1])
        assert (found.rank, found.n_negative, found.guaranteed) == (rank, held.sum(), True)
        caught = 0
        for fold in folds:
            scores, unseen = fold.decision_function(X), (y == 1) & ~np.isin(X[:, 1], fold.rows)
            assert unseen.sum() == 8
            caught += np.sum(scores[unseen] > np.sort(scores[held])[rank - 1])
        assert (found.n_true_positive, found.n_positive) == (caught, M)


# Parts.


@pytest.mark.parametrize("holdout", ["auto", 0.5, 0.9])
@pytest.mark.parametrize(("tau", "needed"), [(0.05, 59), (0.5, 5)])
def test_auto_is_np_where_a_proof_leaves_enough_to_learn_from(holdout, tau, needed):
    plan, share = Plan((tau,)), 0.8 if holdout == "auto" else holdout
    automatic = Automatic(HeldOut(holdout))
    chosen = []
    for n in range(1, 200):
        table = SimpleNamespace(n_negative_units=n, is_ordered=False)
        is_proven = n - 10 >= needed and share * n >= needed - 1e-9
        assert automatic.for_rows(table, plan, warns=False).name == ("np" if is_proven else "cross")
        assert (most_held_out(n, holdout) >= needed) == is_proven
        chosen.append(is_proven)
    assert len(set(chosen)) == 2
    few = SimpleNamespace(n_negative_units=9, is_ordered=True)
    with pytest.warns(TooFewNegativesWarning, match="does not respect the order.*and leave order out"):
        assert automatic.for_rows(few, plan).name == "cross"
    few.is_ordered = False
    with pytest.warns(TooFewNegativesWarning, match=r"there are 9\. .* not proven\. Collect .*'cross' to accept"):
        assert automatic.for_rows(few, plan).name == "cross"
    assert automatic.for_rows(few, Plan((tau,), insufficient="infinite")) is automatic.held_out


def test_strategies_by_name():
    table = SimpleNamespace(n_negative_units=1000, is_ordered=True)
    plan = Plan((0.1,))
    assert [strategy_of(name).for_rows(table, plan).name for name in ("np", "auto")] == ["np", "np"]
    for name in ("cross", "oob", "train"):
        with pytest.raises(ValueError, match=f"order is for threshold='np'.* got threshold='{name}'"):
            strategy_of(name).for_rows(table, plan)
        table.is_ordered = False
        assert strategy_of(name).for_rows(table, plan).name == name
        table.is_ordered = True
        with pytest.raises(ValueError, match="has no limits by segment"):
            check_segment_strategy(strategy_of(name))
    check_segment_strategy(strategy_of("auto"))
    check_segment_strategy(strategy_of("np"))
    assert [name for name, each in STRATEGIES.items() if each().promises(plan)] == ["np", "cross", "oob"]
    assert [name for name, each in STRATEGIES.items() if each().promises(Plan((0.1,), delta=None))] == ["np", "cross"]


def test_fitted_scorers_get_the_rule_of_a_strategy_that_promises_nothing():
    rng = np.random.default_rng(1)
    scores = SimpleNamespace(positive=ArraySample(rng.normal(1, 1, 50)), negative=ArraySample(rng.normal(size=100)))
    assert HeldOut().calibrate(scores, Plan(TAUS)) is OutOfBootstrap().calibrate(scores, Plan(TAUS)) is None
    for name, rule in (("np_score", NPScoreRule), ("quantile", TrainQuantile)):
        found = OutOfBootstrap(rule=name).calibrate(scores, Plan(TAUS, delta=None))
        assert found == tuple(rule(tau).choose(scores.negative, scores.positive) for tau in TAUS)
    found = TrainQuantile().calibrate(scores, Plan(TAUS))
    assert found == tuple(TrainQuantile(tau).choose(scores.negative) for tau in TAUS)


def test_spans_of_scores():
    sample = ArraySample(np.array([-4.0, 1.0, 3.0]))
    assert span_of(sample) == (0.0, pytest.approx(np.sqrt(26 / 3)))
    for silent in (np.full(3, 2.0), np.array([1.0, np.inf]), np.array([-np.inf, 0.0, 1.0])):
        with np.errstate(invalid="ignore"):
            assert span_of(ArraySample(silent)) == (0.0, 1.0)


@pytest.mark.parametrize("n", [2, 3, 59, 117, 118, 119, 130, 1000])
def test_sizes_that_are_held_out(n):
    def sizes(share="auto", **settings):
        return held_out_size(n, Plan((0.05,), **settings), share)

    for share in (0.001, 0.3, 0.999):
        assert sizes(share) == min(max(round(share * n), 1), n - 1)
    # Where more negatives will follow, one half, or what the first threshold takes.
    needed = sequence_negatives_needed(0.05, 0.05)
    assert sizes(sequences=()) == max(1, min(max(round(n / 2), needed), n - 1))
    assert Plan((0.05,), sequences=(NegativeSequence(0.05),)).n_needed == needed
    assert Plan((0.05, 0.1)).n_needed == negatives_needed(0.05, 0.025)
    size = max(1, min(max(round(n / 2), 59), n - 1))
    if size < 59:
        assert sizes() == size
    else:
        above = size - order_rank(size, 0.05, 0.05)
        fitting = [k for k in range(1, size + 1) if (rank := order_rank(k, 0.05, 0.05)) and k - rank >= above]
        assert sizes() == fitting[0]
