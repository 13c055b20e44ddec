"""The automatic choice: which candidates are judged again on further folds, and what the choice then rests on."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from recall_cases import partly_separable
from taufpl.estimators import _auto
from taufpl.estimators._auto import AutoFitter
from taufpl.estimators._candidates import as_good_as_best, held_out_share, still_open
from taufpl.estimators._labels import split_labels
from taufpl.operators import as_operator

TAU = 0.05
X, Y = partly_separable(n=400, m=80)


def judged(monkeypatch, bound):
    monkeypatch.setattr(_auto, "_CHEAP", bound)
    fitter = AutoFitter(X, as_operator(X), split_labels(Y), TAU, 5, None)
    fitter.prepare(np.arange(Y.size))
    return fitter.selection


@pytest.fixture(scope="module")
def thrice():
    with pytest.MonkeyPatch.context() as monkeypatch:
        return judged(monkeypatch, 1e9)


def test_open_candidates_are_judged_on_two_more_divisions(monkeypatch, thrice):
    once = judged(monkeypatch, 0)
    assert set(once["n_folds"]) == {5}
    open_ones = still_open(once["mean_share"], 80)
    assert 1 < open_ones.size < len(once["candidate"])
    expected = np.full(len(once["candidate"]), 5)
    expected[open_ones] = 15
    np.testing.assert_array_equal(thrice["n_folds"], expected)
    others = np.setdiff1d(np.arange(expected.size), open_ones)
    np.testing.assert_array_equal(thrice["mean_share"][others], once["mean_share"][others])
    assert (thrice["mean_share"][open_ones] != once["mean_share"][open_ones]).any()
    kept = np.flatnonzero(thrice["kept"])
    np.testing.assert_array_equal(kept, open_ones[as_good_as_best(thrice["mean_share"][open_ones], 80)])


def test_shares_are_means_over_all_folds_that_a_candidate_was_judged_on(thrice):
    splitters = [StratifiedKFold(5), *(StratifiedKFold(5, shuffle=True, random_state=seed) for seed in range(2))]
    n_repeated = 0
    for row, name in enumerate(thrice["candidate"]):
        if not name.startswith("logistic("):
            continue
        model = LogisticRegression(C=float(name[9:-1]), solver="newton-cholesky", max_iter=200)
        shares = []
        for splitter in splitters[: thrice["n_folds"][row] // 5]:
            for train, test in splitter.split(X, Y):
                scores = model.fit(X[train], Y[train]).decision_function(X[test])
                shares.append(held_out_share(scores[Y[test] == 1], scores[Y[test] == 0], TAU))
        n_repeated += len(shares) == 15
        assert thrice["mean_share"][row] == pytest.approx(np.mean(shares))
        assert thrice["std_share"][row] == pytest.approx(np.std(shares, ddof=1))
    assert n_repeated > 0


def test_folds_are_repeated_up_to_a_bound_on_rows_times_candidates(monkeypatch, thrice):
    n_open = int(np.sum(thrice["n_folds"] == 15))
    assert set(judged(monkeypatch, n_open * Y.size)["n_folds"]) == {5, 15}
    assert set(judged(monkeypatch, n_open * Y.size - 1)["n_folds"]) == {5}
