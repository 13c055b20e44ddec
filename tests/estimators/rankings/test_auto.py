"""The automatic choice: few rows are divided into folds twice, and shares are means over all folds."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from recall_cases import partly_separable
from taufpl.estimators import ArrayTable, AutoFitter, split_labels
from taufpl.operators import as_operator
from taufpl.thresholding import share_above

TAU = 0.05
X, Y = partly_separable(n=4300, m=700)
LABELS = split_labels(Y)
TABLE = ArrayTable(X, LABELS.positive_rows, LABELS.negative_rows, operator=as_operator(X))
ORDER = np.random.default_rng(0).permutation(Y.size)


def shares_by_hand(name, rows, n_folds, tau, *, twice):
    """Those of a logistic regression on the first division, as rows come, and on a second one, in random order."""
    own, labels = X[rows], Y[rows]
    model = LogisticRegression(C=float(name.removeprefix("logistic(")[:-1]), solver="newton-cholesky", tol=1e-8)
    shares = []
    for splitter in [StratifiedKFold(n_folds), StratifiedKFold(n_folds, shuffle=True, random_state=0)][: 1 + twice]:
        for train, test in splitter.split(own, labels):
            scores = model.fit(own[train], labels[train]).decision_function(own[test])
            positive, negative = scores[labels[test] == 1], scores[labels[test] == 0]
            # Neighbouring tolerances count as much.
            shares.append(np.mean([share_above(positive, negative, min(f * tau, 0.99)) for f in (0.5, 1.0, 2.0)]))
    return shares


@pytest.mark.parametrize(
    ("n_rows", "n_folds", "tau"), [(450, 2, TAU), (450, 5, TAU), (450, 2, 0.6), (3900, 2, TAU), (4100, 2, TAU)]
)
def test_few_rows_are_divided_into_folds_twice(n_rows, n_folds, tau):
    rows, twice = np.sort(ORDER[:n_rows]), n_rows < 4000
    fitter = AutoFitter(tau, n_folds)
    fitter.prepare(TABLE.part(rows))
    selection = fitter.selection
    checked = 0
    for name, mean, spread in zip(selection["candidate"], selection["mean_share"], selection["std_share"], strict=True):
        if name.startswith("logistic("):
            shares = shares_by_hand(name, rows, n_folds, tau, twice=twice)
            assert mean == pytest.approx(np.mean(shares))
            assert spread == pytest.approx(np.std(shares, ddof=1))
            checked += 1
    assert checked == 5


def test_folds_are_as_many_as_the_rarer_class_allows_in_both_divisions():
    """Three positives: three folds, twice, though five were asked for."""
    rows = np.concatenate((np.flatnonzero(Y == 0)[:60], np.flatnonzero(Y == 1)[:3]))
    fitter = AutoFitter(TAU, 5)
    fitter.prepare(TABLE.part(np.sort(rows)))
    # Shares of one positive a fold, at three tolerances, over six folds.
    counts = 18.0 * fitter.selection["mean_share"]
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert np.any(np.round(counts) % 2 == 1)
