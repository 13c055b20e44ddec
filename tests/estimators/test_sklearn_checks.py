"""scikit-learn's own checks, over all estimators."""

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from taufpl import (
    KernelTauFPLClassifier,
    KernelTauFPLRanker,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
)
from taufpl.baselines import TopPush
from taufpl.thresholding import HeldOut, OutOfBootstrap

LOOSE = {"tau": 0.2, "delta": 0.5}
HELD_OUT = {**LOOSE, "insufficient": "infinite", "threshold": HeldOut(measure_recall=False)}  # one fit in place of six
ROUNDS = {"threshold": OutOfBootstrap(n_rounds=3), "delta": None}
ESTIMATORS = [
    TauFPLRanker(),
    TauFPLRankerCV(cv=2, regs=2),
    TopPush(),
    TauFPLClassifier(**LOOSE, cv=2),
    KernelTauFPLRanker(0.1),
    KernelTauFPLClassifier(**HELD_OUT, gamma="scale", reg=0.1),
    NeymanPearsonClassifier(LogisticRegression(), **HELD_OUT),
    ScoreScreen(0, **LOOSE, insufficient="infinite"),
    ScreeningClassifier(**LOOSE, effort="fast", candidates=[LogisticRegression()]),
]
# The same classes with other solvers, rankings and thresholds.
VARIANTS = [
    TauFPLRanker(0.1, 1.0, tau_scale=5, solver="accelerated", tol=1e-2),
    TauFPLClassifier(**LOOSE, cv=2, regs=3, ranking="paper", tau_scale=1),
    TauFPLClassifier(**HELD_OUT, reg=0.1, tau_scale=1),
    TauFPLClassifier(0.2, reg=0.1, tau_scale=1, **ROUNDS),
    TauFPLClassifier(0.2, reg=0.1, tau_scale=1, threshold="train"),
    KernelTauFPLRanker(0.1, n_components=10, random_state=0),
    KernelTauFPLClassifier(**LOOSE, cv=2, regs=2),
    NeymanPearsonClassifier(LogisticRegression(), **LOOSE, threshold="cross"),
    NeymanPearsonClassifier(RandomForestClassifier(10, random_state=0), 0.2, **ROUNDS),
]

pytestmark = [
    pytest.mark.filterwarnings("ignore::taufpl.exceptions.RankingCollapseWarning"),
    pytest.mark.filterwarnings("ignore::taufpl.exceptions.TooFewNegativesWarning"),
    pytest.mark.filterwarnings("ignore::taufpl.exceptions.PositiveLabelWarning"),
]


def expected_failures(estimator):
    if isinstance(estimator, ScoreScreen):
        return {"check_dtype_object": "a score that is a dict is refused in other words than those of float()"}
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(VARIANTS)
def test_scikit_learn_checks_on_variants(estimator, check):
    check(estimator)
