"""The automatic choice: few rows are divided into folds twice, and shares are means over all folds."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from recall_cases import partly_separable
from taufpl.estimators import ArrayTable, AutoFitter, split_labels
from taufpl.estimators.rankings import _candidates
from taufpl.estimators.rankings._candidates import held_out_share
from taufpl.operators import as_operator

TAU = 0.05
X, Y = partly_separable(n=400, m=80)
LABELS = split_labels(Y)
TABLE = ArrayTable(X, LABELS.positive_rows, LABELS.negative_rows, operator=as_operator(X))
ROWS = np.random.default_rng(0).permutation(Y.size)[:450]


def shares_by_hand(name, n_folds, *, twice):
    """Those of a logistic regression on the first division, as rows come, and on a second one, in random order."""
    rows = np.sort(ROWS)
    own, labels = X[rows], Y[rows]
    model = LogisticRegression(C=float(name.removeprefix("logistic(")[:-1]), solver="newton-cholesky", tol=1e-8)
    shares = []
    for splitter in [StratifiedKFold(n_folds), StratifiedKFold(n_folds, shuffle=True, random_state=0)][: 1 + twice]:
        for train, test in splitter.split(own, labels):
            scores = model.fit(own[train], labels[train]).decision_function(own[test])
            shares.append(held_out_share(scores[labels[test] == 1], scores[labels[test] == 0], TAU))
    return shares


@pytest.mark.parametrize("n_folds", [2, 5])
@pytest.mark.parametrize("twice", [True, False])
def test_few_rows_are_divided_into_folds_twice(monkeypatch, n_folds, twice):
    monkeypatch.setattr(_candidates, "FEW_ROWS", ROWS.size if twice else ROWS.size - 1)
    fitter = AutoFitter(TAU, n_folds)
    fitter.prepare(TABLE.part(np.sort(ROWS)))
    selection = fitter.selection
    checked = 0
    for name, mean, spread in zip(selection["candidate"], selection["mean_share"], selection["std_share"], strict=True):
        if name.startswith("logistic("):
            shares = shares_by_hand(name, n_folds, twice=twice)
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
