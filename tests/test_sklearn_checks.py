"""scikit-learn's own checks, over all estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from taufpl import TauFPLRanker, TauFPLRankerCV
from taufpl.baselines import TopPush

ESTIMATORS = [
    TauFPLRanker(),
    TauFPLRanker(0.1, 1.0, tau_scale=5, solver="accelerated", tol=1e-2),
    TauFPLRankerCV(cv=3, regs=3),
    TopPush(),
]


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.RankingCollapseWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
