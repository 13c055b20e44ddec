"""What the classifiers promise, over many draws with a false-positive rate in closed form.

The reduced form of `benchmarks/guarantee.py`. Seeds are fixed, so that a test that passes keeps passing. Limits lie
four binomial standard errors away, and the last tests show that what promises nothing does not stay within them.
"""

import numpy as np
import pytest
from scipy import special, stats
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from taufpl import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.thresholding import HeldOut, negatives_needed

N_DRAWS = 2000
SHIFT = 2.0

pytestmark = pytest.mark.statistics
slow = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quick_checks():
    """The same thousands of small fits, without looking for NaN in each."""
    with config_context(assume_finite=True, skip_parameter_validation=True):
        yield


def standard_error(rate, n_draws=N_DRAWS):
    return np.sqrt(rate * (1 - rate) / n_draws)


def most_above(n, tau, delta):
    """How many of n negatives the best order statistic may leave above it, straight from the definition."""
    within = np.flatnonzero(stats.binom.cdf(np.arange(n), n, tau) <= delta)
    return int(within[-1]) if within.size else -1


def exact_rate(n, tau, delta):
    """P(FPR > tau) of that order statistic, for continuous scores."""
    return stats.binom.cdf(most_above(n, tau, delta), n, tau)


class OnlyFeature(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose score is the only feature."""

    classes_ = np.array([0, 1])

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0]


class MeanDifference(ClassifierMixin, BaseEstimator):
    """The simplest linear scorer that learns."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.coef_ = (X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))[np.newaxis]
        self.intercept_ = np.zeros(1)
        return self

    def decision_function(self, X):
        return X @ self.coef_[0]


def draw(rng, n_negative, n_positive, n_features):
    """Two normal clouds with unit covariance, the positive one moved by SHIFT along the diagonal."""
    y = np.repeat([0, 1], [n_negative, n_positive])
    X = rng.normal(size=(y.size, n_features))
    X[y == 1] += SHIFT / np.sqrt(n_features)
    return X, y


def true_rates(coef, offset):
    """FPR and recall of `coef . x + offset > 0` on such data."""
    coef = np.ravel(coef)
    mean = SHIFT / np.sqrt(coef.size) * coef.sum()
    return special.ndtr(np.array([offset, offset + mean]) / np.linalg.norm(coef))


def rates_of(classifier):
    if isinstance(classifier, TauFPLClassifier):
        return true_rates(classifier.coef_, classifier.intercept_[0])
    model = classifier.estimator_
    return true_rates(model.coef_, model.intercept_[0] - classifier.threshold_)


def simulate(make, n_draws, size, seed=0):
    """FPR and recall, one row a draw."""
    rng = np.random.default_rng(seed)
    return np.array([rates_of(make(number).fit(*draw(rng, *size))) for number in range(n_draws)])


# np: held-out negatives.


@slow  # The quick run asks the rule itself, in tests/thresholding.
@pytest.mark.parametrize(("tau", "delta"), [(0.1, 0.05), (0.1, 0.2), (0.01, 0.2), (0.001, 0.05)])
@pytest.mark.parametrize("tied", [False, True])
def test_np_holds_on_held_out_scores(tau, delta, tied):
    n = 2 * negatives_needed(tau, delta)
    classifier = NeymanPearsonClassifier(OnlyFeature(), tau, delta=delta, cv="prefit")
    rng = np.random.default_rng(1)
    y = np.zeros(n)
    # Three values with these shares above them: the second lies just beyond the tolerance, the worst case of ties.
    above = np.array([0.7, 1.001 * tau, 0.0])
    failures = 0
    for _ in range(N_DRAWS):
        uniforms = rng.random((n, 1))
        scores = np.searchsorted(-above, -uniforms).astype(float) if tied else uniforms
        threshold = classifier.fit(scores, y).threshold_
        failures += (above[int(threshold)] if tied else 1.0 - threshold) > tau
    rate = failures / N_DRAWS
    assert rate <= delta + 4 * standard_error(delta)
    # Not wasteful: what the discreteness of ranks allows is used up, by ties at the edge as well.
    expected = stats.binom.cdf(most_above(n, tau, delta), n, 1.001 * tau) if tied else exact_rate(n, tau, delta)
    assert abs(rate - expected) <= 4 * standard_error(expected)


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("tau", [0.1, 0.01, 0.001])
def test_np_uses_at_least_half_of_delta_where_ranks_are_fine(tau, delta):
    # From some 20 expected negatives beyond the tolerance on, whatever their number.
    rates = [exact_rate(n, tau, delta) for n in np.linspace(20 / tau, 40 / tau, 25).astype(int).tolist()]
    assert 0.5 * delta <= min(rates) <= max(rates) <= delta


@slow
@pytest.mark.parametrize(("tau", "delta"), [(0.1, 0.05), (0.05, 0.2)])
def test_np_holds_with_a_scorer_that_it_fits(tau, delta):
    found = simulate(
        lambda number: NeymanPearsonClassifier(
            MeanDifference(), tau, delta=delta, threshold=HeldOut(measure_recall=False), random_state=number
        ),
        N_DRAWS,
        (300, 60, 5),
    )
    rate = np.mean(found[:, 0] > tau)
    # Of all sizes with as many above the threshold as half of the negatives, the smallest is held out.
    above = most_above(150, tau, delta)
    expected = exact_rate(next(n for n in range(1, 151) if most_above(n, tau, delta) == above), tau, delta)
    assert abs(rate - expected) <= 4 * standard_error(expected)
    assert rate <= delta + 4 * standard_error(delta)


def test_several_tolerances_hold_together():
    taus, delta, n, n_draws = np.array([0.1, 0.05, 0.02]), 0.1, 400, 400
    # Without a correction for three tolerances some 25 % of the draws break one, four standard errors beyond the limit.
    classifier = NeymanPearsonClassifier(OnlyFeature(), taus, delta=delta, cv="prefit")
    rng = np.random.default_rng(2)
    broken = np.array(
        [1.0 - classifier.fit(rng.random((n, 1)), np.zeros(n)).thresholds_ > taus for _ in range(n_draws)]
    )
    assert np.mean(broken.any(axis=1)) <= delta + 4 * standard_error(delta, n_draws)
    # Sharing delta equally would leave much of it unused.
    assert np.mean(broken.any(axis=1)) >= 0.5 * delta
    # Each by itself is then broken less often than all together may be.
    assert np.all(broken.mean(axis=0) < broken.any(axis=1).mean())


# cross: measured rather than proven.


@slow
@pytest.mark.parametrize(
    ("scorer", "n_draws"),
    [(MeanDifference(), 400), (LogisticRegression(), 150)],
    ids=["mean difference", "logistic"],
)
def test_cross_holds_and_keeps_more_recall_than_np(scorer, n_draws):
    tau, delta = 0.05, 0.1
    cross, held_out = (
        simulate(
            lambda number, threshold=threshold: NeymanPearsonClassifier(
                scorer, tau, delta=delta, threshold=threshold, random_state=number
            ),
            n_draws,
            (300, 60, 5),
        )
        for threshold in ("cross", HeldOut(measure_recall=False))
    )
    assert np.mean(cross[:, 0] > tau) <= delta + 4 * standard_error(delta, n_draws)
    assert np.mean(cross[:, 0] > tau) >= 0.1 * delta
    gain = cross[:, 1] - held_out[:, 1]  # on the same draws
    assert gain.mean() >= 2 * gain.std() / np.sqrt(n_draws)  # a snapped hold-out leaves less to gain


@pytest.mark.parametrize("threshold", ["cross", pytest.param("np", marks=slow)])
def test_the_linear_classifier_holds(threshold):
    tau, delta, n_draws = 0.2, 0.1, 60
    found = simulate(
        lambda number: TauFPLClassifier(
            tau, reg=0.1, tau_scale=2.0, threshold=threshold, delta=delta, random_state=number
        ),
        n_draws,
        (200, 60, 5),
    )
    assert np.mean(found[:, 0] > tau) <= delta + 4 * standard_error(delta, n_draws)
    assert found[:, 1].mean() > 0.7


# What promises nothing, seen by the same measurement.


@slow
def test_the_training_quantile_is_seen_to_break_the_tolerance():
    tau, delta, n_draws, size = 0.1, 0.1, 100, (150, 60, 20)
    broken = {}
    for name, threshold in (("train", "train"), ("np", HeldOut(measure_recall=False))):
        found = simulate(
            lambda number, threshold=threshold: NeymanPearsonClassifier(
                LogisticRegression(), tau, threshold=threshold, delta=delta, random_state=number
            ),
            n_draws,
            size,
        )
        broken[name] = np.mean(found[:, 0] > tau)
    assert broken["np"] <= delta + 4 * standard_error(delta, n_draws)
    assert broken["train"] >= 0.8


def test_negatives_that_the_scorer_has_seen_do_not_carry_the_guarantee():
    tau, delta, n_draws = 0.1, 0.1, 150
    rng = np.random.default_rng(3)
    failures = 0
    for _ in range(n_draws):
        X, y = draw(rng, 150, 60, 20)
        scorer = LogisticRegression().fit(X, y)
        misused = NeymanPearsonClassifier(scorer, tau, delta=delta, cv="prefit").fit(X, y)
        failures += true_rates(scorer.coef_, scorer.intercept_[0] - misused.threshold_)[0] > tau
    assert failures / n_draws > delta + 4 * standard_error(delta, n_draws)
