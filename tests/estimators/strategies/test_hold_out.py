"""How many negatives are held out, when a proof is possible, and the recall that goes with it."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from estimator_cases import two_clouds
from taufpl import KernelTauFPLClassifier, NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker
from taufpl.estimators.strategies import Plan, held_out_size, snapped
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import HeldOut, simultaneous_ranks


@cache
def most_above(n, tau, delta):
    """How many of n negatives may lie above the threshold, straight from the definition; -1: no threshold will do."""
    within = np.flatnonzero(stats.binom.cdf(np.arange(n + 1), n, tau) <= delta)
    return within[-1] if within.size else -1


@pytest.mark.parametrize(("tau", "delta"), [(0.01, 0.05), (0.05, 0.05), (0.1, 0.2), (0.3, 0.01)])
def test_snapped_is_the_smallest_size_with_as_many_above(tau, delta):
    for size in (59, 300, 473, 500, 1000, 1048, 1049):
        above = most_above(size, tau, delta)
        found = snapped(size, (tau,), delta)
        if above < 0:
            assert found == size
        else:
            expected = next(n for n in range(1, size + 1) if most_above(n, tau, delta) == above)
            assert found == expected


def test_sizes_that_the_design_names():
    assert [snapped(size, (0.01,), 0.05) for size in (400, 500, 700, 800, 1000, 1100)] == [
        299,
        473,
        628,
        773,
        913,
        1049,
    ]


def test_several_tolerances_keep_what_they_had():
    taus = (0.01, 0.05)
    found = snapped(1000, taus, 0.05)
    assert found <= 1000
    for size in (found, 1000):
        assert None not in simultaneous_ranks(size, taus, 0.05)
    above = [np.subtract(size, simultaneous_ranks(size, taus, 0.05)) for size in (found, 1000)]
    assert (above[0] >= above[1]).all()


def test_auto_is_one_half_or_what_a_proof_takes():
    plan = Plan((0.01,))
    assert held_out_size(2000, plan) == 913
    assert held_out_size(400, plan) == 299
    assert held_out_size(300, plan) == 299
    assert held_out_size(200, plan) == 199  # too few, whatever is held out
    assert held_out_size(2000, plan, 0.5) == 1000


@pytest.mark.parametrize(
    "estimator",
    [
        TauFPLClassifier(0.05, reg=0.1, tau_scale=10.0),
        NeymanPearsonClassifier(LogisticRegression(), 0.05),
        KernelTauFPLClassifier(0.05, gamma=0.5, reg=0.1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_default_is_proven_where_it_can_be(estimator):
    assert estimator.threshold == "auto"
    X, y = two_clouds(n=200, m=60)
    model = estimator.set_params(random_state=0).fit(X, y)
    assert model.strategy_ == "np"
    assert model.evidence_.guaranteed
    low, high = model.evidence_.tpr_interval
    assert low < model.evidence_.tpr_estimate < high
    assert model.evidence_.n_positive == 60
    few = np.r_[np.flatnonzero(y == 0)[:70], np.flatnonzero(y == 1)]
    with pytest.warns(
        TooFewNegativesWarning, match="needs 59 negatives held out for a proof, at least 74 in all; there are 70"
    ):
        model.fit(X[few], y[few])
    assert model.strategy_ == "cross"
    assert not model.evidence_.guaranteed


def test_recall_of_np_is_that_of_positives_that_were_not_fitted_on():
    """A scorer that knows its training rows by heart, on pure noise: those are all found, new ones hardly ever."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [400, 30])
    X = rng.normal(size=(430, 20))
    model = NeymanPearsonClassifier(SVC(gamma=10.0), 0.05, random_state=0).fit(X, y)
    assert model.predict(X[y == 1]).mean() > 0.9
    assert model.evidence_.tpr_estimate < 0.25
    without = NeymanPearsonClassifier(
        SVC(gamma=10.0), 0.05, threshold=HeldOut(measure_recall=False), random_state=0
    ).fit(X, y)
    assert without.evidence_.tpr_estimate is None
    assert without.evidence_.tpr_interval is None
    assert without.threshold_ == model.threshold_


def test_recall_of_np_agrees_with_new_positives():
    recalls, truths = [], []
    for seed in range(10):
        X, y = two_clouds(n=600, m=150, seed=seed)
        model = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(X, y)
        new_X, new_y = two_clouds(n=10, m=4000, seed=1000 + seed)
        recalls.append(model.evidence_.tpr_estimate)
        truths.append(np.mean(model.predict(new_X[new_y == 1])))
    error = np.subtract(recalls, truths)
    assert abs(error.mean()) < 4 * error.std(ddof=1) / np.sqrt(10) + 0.005


def test_many_positives_take_fewer_fits():
    X, y = two_clouds(n=300, m=2600)
    fits = []

    class Counted(LogisticRegression):
        def fit(self, X, y):
            fits.append(len(y))
            return super().fit(X, y)

    model = NeymanPearsonClassifier(Counted(), 0.05, random_state=0).fit(X, y)
    assert len(fits) == 3  # one on all positives, two without a fifth of them
    assert model.evidence_.n_positive == 1040


def test_an_outlier_detector_has_not_seen_the_positives():
    X, y = two_clouds(n=300, m=40, shift=3.0)
    model = NeymanPearsonClassifier(IsolationForest(random_state=0), 0.05, random_state=0).fit(X, y)
    assert model.evidence_.n_positive == 40
    assert model.evidence_.n_true_positive == np.sum(model.predict(X[y == 1]) == 1)


def test_a_fitted_scorer_with_too_few_negatives():
    X, y = two_clouds(n=40, m=40)
    fitted = LogisticRegression().fit(X, y)
    with pytest.warns(TooFewNegativesWarning, match="largest negative score"):
        screen = NeymanPearsonClassifier(fitted, 0.05, cv="prefit").fit(X, y)
    assert not screen.evidence_.guaranteed
    nobody = NeymanPearsonClassifier(fitted, 0.05, cv="prefit", insufficient="infinite").fit(X, y)
    assert nobody.threshold_ == np.inf


def test_training_rows_are_those_of_fit():
    X, y = two_clouds(n=300, m=40)
    screen = TauFPLClassifier(0.05, reg=0.1, tau_scale=1.0, random_state=3)
    train = screen.training_rows(y)
    changed = X.copy()
    changed[np.setdiff1d(np.arange(y.size), train)] *= -7.0
    np.testing.assert_array_equal(screen.fit(X, y).coef_, screen.fit(changed, y).coef_)
    changed[train[0]] += 5.0
    assert (screen.fit(X, y).coef_ != screen.fit(changed, y).coef_).any()
    assert screen.set_params(threshold="cross").training_rows(y) is None
    assert screen.set_params(threshold="auto", tau=0.001).training_rows(y) is None


class Recorder(LogisticRegression):
    """Keeps the numbers of the rows that it is fitted on, which are the last column."""

    def fit(self, X, y, sample_weight=None):
        self.rows_ = np.sort(X[:, -1].astype(int))
        return super().fit(X[:, :-1], y, sample_weight)

    def decision_function(self, X):
        return super().decision_function(X[:, :-1])


@pytest.mark.parametrize("given", [{}, {"groups": np.arange(340) // 2}, {"segments": np.arange(340) % 2}])
@pytest.mark.parametrize("weights", [None, np.arange(340) % 3])
def test_training_rows_of_wrapped_estimators_are_those_of_fit(given, weights):
    X, y = two_clouds(n=300, m=40)
    numbered = np.column_stack([X, np.arange(y.size)])
    screen = NeymanPearsonClassifier(Recorder(), 0.1, delta=0.3, threshold="np", random_state=3)
    weighted = {} if weights is None else {"sample_weight": weights}
    train = screen.training_rows(y, **given, **weighted)
    screen.set_params(threshold=HeldOut(measure_recall=False)).fit(numbered, y, **given, **weighted)
    np.testing.assert_array_equal(screen.estimator_.rows_, train)


def test_training_rows_know_the_positive_label_of_a_wrapped_estimator():
    X, y = two_clouds(n=300, m=300)
    own = TauFPLRanker(0.05, pos_label=0)
    screen = NeymanPearsonClassifier(own, 0.05, threshold="np", random_state=3)
    train = screen.training_rows(y)
    held = np.setdiff1d(np.arange(y.size), train)
    assert set(y[held]) == {1}  # the negatives of this estimator
    assert screen.fit(X, y).evidence_.n_negative == held.size


def test_a_fitted_estimator_learns_from_no_rows():
    X, y = two_clouds(n=300, m=40)
    fitted = LogisticRegression().fit(X, y)
    for screen in (NeymanPearsonClassifier(fitted, cv="prefit"), NeymanPearsonClassifier(FrozenEstimator(fitted))):
        assert screen.training_rows(y).size == 0


def test_training_rows_of_an_outlier_detector_are_negatives():
    """Also where all positives belong to one group with one negative, and may all be held out."""
    _, y = two_clouds(n=300, m=40)
    groups = np.where(y == 1, 0, np.arange(y.size))
    groups[np.flatnonzero(y == 0)[0]] = 0
    found = set()
    for seed in range(4):
        screen = NeymanPearsonClassifier(IsolationForest(), 0.05, threshold="np", random_state=seed)
        rows = screen.training_rows(y, groups)
        found.add(0 in groups[rows])
        assert rows.size > 100
        assert not y[rows].any()
    assert found == {False, True}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(100), "sample_weight.shape"),
        (np.where(np.arange(340) == 3, np.nan, 1.0), "sample_weight contains NaN"),
        (-np.ones(340), "[Nn]egative values"),
        (two_clouds(n=300, m=40)[1], "two classes"),
    ],
)
def test_weights_of_training_rows_are_checked_as_in_fit(weights, message):
    _, y = two_clouds(n=300, m=40)
    screen = NeymanPearsonClassifier(LogisticRegression(), 0.1, threshold="np", random_state=0)
    with pytest.raises(ValueError, match=message):
        screen.training_rows(y, sample_weight=weights)


def test_segments_may_lie_in_rows_without_weight_alone():
    X, y = two_clouds(n=300, m=40)
    weights, segments = np.ones(340), np.full(340, "a", dtype=object)
    weights[:20], segments[:20] = 0.0, "zz"
    screen = NeymanPearsonClassifier(
        LogisticRegression(), {"a": 0.1, "zz": 0.2}, delta=0.3, threshold="np", insufficient="infinite", random_state=0
    )
    train = screen.training_rows(y, segments=segments, sample_weight=weights)
    screen.fit(X, y, segments=segments, sample_weight=weights)
    held = np.setdiff1d(np.flatnonzero(weights), train)
    assert screen.evidence_.n_negative == held.size


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0)])
def test_training_rows_need_a_number(random_state):
    _, y = two_clouds(n=300, m=40)
    with pytest.raises(ValueError, match=r"random_state that is a number, got .* divides the rows anew"):
        TauFPLClassifier(0.05, random_state=random_state).training_rows(y)
    assert TauFPLClassifier(0.05, threshold="cross", random_state=random_state).training_rows(y) is None
