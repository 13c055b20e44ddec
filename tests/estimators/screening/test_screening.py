"""The flagship: a stack of scorers under the guarantee."""

import pickle
import sys
import warnings
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_backend
from scipy.sparse import random_array
from sklearn.base import clone
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from taufpl import ScreeningClassifier
from taufpl.estimators import EFFORTS, ArrayTable, StackedScorer, watching
from taufpl.exceptions import PositiveLabelWarning, TooFewNegativesWarning
from taufpl.preprocessing import TableEncoder

FAST = {"effort": "fast", "random_state": 0}
# Two scorers that take no time: most of what is tested does not depend on which they are.
CHEAP = {**FAST, "candidates": [GaussianNB(), LogisticRegression()]}


def rings(n, rng, radius=1.7):
    """Positives lie outside a circle, with noise; the other columns say nothing."""
    X = rng.normal(size=(n, 5))
    y = (np.hypot(X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=n) > radius).astype(int)
    return X, y


def mixed(n, rng):
    """A frame with every kind of column, and labels that depend on each kind."""
    amount, city = rng.exponential(size=n), rng.choice(["bonn", "oslo", "rome"], n)
    hour, night = rng.integers(0, 24, n), rng.random(n) < 0.3
    y = (amount * (1 + (city == "oslo")) + (hour < 6) + night + 0.3 * rng.normal(size=n) > 3.2).astype(int)
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, amount),
            "city": pd.Categorical(city),
            "when": pd.Timestamp("2024-03-01") + pd.to_timedelta(24 * rng.integers(0, 300, n) + hour, unit="h"),
            "night": night,
            "note": np.where(rng.random(n) < 0.5, "x", None),
        }
    )
    return frame, y


def log_loss_weights(scores, y):
    """Weights of a logistic regression with penalty |w|^2 / 2, by Newton's method."""
    A = np.column_stack((np.ones(len(y)), scores))
    penalty = np.diag([0.0, *np.ones(scores.shape[1])])
    w = np.zeros(A.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-A @ w))
        w -= np.linalg.solve((A.T * (p * (1 - p))) @ A + penalty, A.T @ (p - y) + penalty @ w)
    return w


@pytest.mark.slow
def test_recall_and_tolerance_on_a_curved_boundary():
    rng = np.random.default_rng(0)
    X, y = rings(3000, rng)
    screen = ScreeningClassifier(0.02, delta=0.01, **FAST).fit(X, y)
    X_new, y_new = rings(40_000, rng)
    found = screen.predict(X_new)
    assert screen.evidence_.guaranteed
    assert found[y_new == 0].mean() <= 0.02
    recall = found[y_new == 1].mean()
    low, high = screen.evidence_.tpr_interval
    assert low - 0.03 <= recall <= high + 0.03
    assert recall > 0.7
    assert set(np.argsort(screen.feature_importances_)[-2:]) == {0, 1}
    assert np.all(np.abs(screen.feature_importances_[2:]) < 0.1)


def test_score_is_the_stack_of_standardised_log_odds():
    X, y = rings(600, np.random.default_rng(1))
    scorer = StackedScorer(0.05, **FAST, candidates=[RandomForestClassifier(20), LogisticRegression()]).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    total = np.full(len(y), scorer.intercept_)
    for member in scorer.members_:
        for model, center, scale in zip(member.models, member.centers, member.scales, strict=True):
            p = model.predict_proba(Z)[:, 1]
            n = 20 if hasattr(model, "estimators_") else np.inf
            odds = np.log(p / (1 - p)) if n == np.inf else np.log((p * n + 0.5) / ((1 - p) * n + 0.5))
            total += member.weight * (odds - center) / scale / len(member.models)
    np.testing.assert_allclose(scorer.decision_function(X), total, atol=1e-9)


def test_weights_are_those_of_a_logistic_regression_on_scores_of_unseen_rows():
    rng = np.random.default_rng(2)
    X, y = rings(900, rng)
    candidates = [("square", LogisticRegression(C=1.0)), ("bayes", GaussianNB())]
    scorer = StackedScorer(0.05, **FAST, candidates=candidates).fit(np.column_stack((X, X**2)), y)
    Z = scorer.encoder_.transform(np.column_stack((X, X**2)))
    scores = np.empty((len(y), 2))
    n_seen = np.zeros(len(y))
    models = {member.name: member for member in scorer.members_}
    assert list(models) == ["square", "bayes"]
    table = ArrayTable(np.column_stack((X, X**2)), np.flatnonzero(y == 1), np.flatnonzero(y == 0))
    for fold, held_out in enumerate(scorer.first_division(scorer.encoded_table(table))):
        others = np.setdiff1d(np.arange(len(y)), held_out)
        n_seen[held_out] += 1
        for column, (name, estimator) in enumerate(candidates):
            own = clone(estimator).fit(Z[others], y[others])
            odds = np.diff(own.predict_log_proba(Z[held_out]))[:, 0]
            negative = odds[y[held_out] == 0]
            assert models[name].centers[fold] == pytest.approx(negative.mean(), rel=1e-6)
            scores[held_out, column] = (odds - negative.mean()) / negative.std()
    assert np.all(n_seen == 1)
    wanted = log_loss_weights(scores, y)
    np.testing.assert_allclose([models["square"].weight, models["bayes"].weight], wanted[1:], rtol=0.01, atol=0.01)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_frames_of_every_kind_of_column():
    rng = np.random.default_rng(3)
    X, y = mixed(1500, rng)
    screen = ScreeningClassifier(0.05, **FAST).fit(X, y)
    assert screen.feature_names_in_.tolist() == X.columns.tolist()
    assert screen.feature_importances_.shape == (5,)
    new, y_new = mixed(2000, rng)
    new["city"] = new["city"].astype(object)
    new.loc[::10, "city"], new.loc[::7, "amount"], new.loc[::9, "when"] = "paris", np.nan, pd.NaT
    decisions = screen.decision_function(new)
    assert np.isfinite(decisions).all()
    assert screen.predict(new)[y_new == 0].mean() < 0.06
    np.testing.assert_array_equal(screen.decision_function(pl.from_pandas(new)), decisions)
    again = ScreeningClassifier(0.05, **FAST).fit(pl.from_pandas(X), y)
    np.testing.assert_allclose(again.decision_function(new), decisions, atol=1e-9)


def test_held_out_negatives_see_nothing():
    """Rows that choose the threshold may hold anything: the scorer stays the same."""
    rng = np.random.default_rng(4)
    X, y = mixed(2000, rng)
    screen = ScreeningClassifier(0.05, **CHEAP)
    held_out = np.setdiff1d(np.arange(len(y)), screen.training_rows(y))
    assert held_out.size > 50
    changed = X.copy()
    changed["city"] = changed["city"].astype(object)
    changed.loc[held_out, "city"], changed.loc[held_out, "amount"] = "atlantis", 1e6
    first, second = (clone(screen).fit(each, y).estimator_ for each in (X, changed))
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))


def test_cross_nests_everything_in_its_folds(monkeypatch):
    X, y = rings(150, np.random.default_rng(5))
    encoded, encode = [], TableEncoder.fit_transform
    monkeypatch.setattr(TableEncoder, "fit_transform", lambda *given: encoded.append(len(given[1])) or encode(*given))
    with pytest.warns(TooFewNegativesWarning):
        screen = ScreeningClassifier(0.01, **CHEAP).fit(X, y)
    assert encoded == [150] + 5 * [120]
    assert (screen.strategy_, screen.evidence_.guaranteed) == ("cross", False)
    assert screen.evidence_.n_positive == y.sum()


def test_wide_sparse_rows_get_the_linear_ranking_alone():
    rng = np.random.default_rng(6)
    X = random_array((150, 2100), density=0.01, rng=rng, format="csr")
    y = (X[:, :40].sum(axis=1) + 0.3 * rng.normal(size=150) > 0.4).astype(int)
    screen = ScreeningClassifier(0.1, delta=0.2, **FAST).fit(X, y)
    assert [each.candidate for each in screen.estimator_.standings_] == ["linear", "stack"]
    assert not hasattr(screen, "feature_importances_")
    assert screen.decision_function(X[:3]).shape == (3,)


def test_leaderboard_and_progress():
    X, y = rings(1500, np.random.default_rng(7))
    told = []
    with watching(lambda *step: told.append(step)):
        screen = ScreeningClassifier(0.05, **CHEAP).fit(X, y)
    board = screen.leaderboard_
    assert list(board.columns) == ["candidate", "recall", "recall_low", "recall_high", "weight", "seconds"]
    assert board.candidate.tolist()[0] == "stack"
    assert (board.recall_low <= board.recall).all()
    assert (board.recall <= board.recall_high).all()
    assert "(np.float64" not in repr(screen)
    assert repr(screen).splitlines()[1].startswith("  false alarms at most 5 %: guaranteed with 95 % confidence")
    assert "GaussianNB" in screen._repr_mimebundle_()["text/html"].partition("</pre>")[0]
    assert [step[:2] for step in told] == [(0, 1), *((number, 6) for number in range(1, 7))]


class Remembers(GaussianNB):
    """Keeps the first entries of the rows that it was fitted on."""

    def fit(self, X, y):
        self.first_ = X[:, 0]
        return super().fit(X, y)


def test_groups_are_never_on_both_sides():
    rng = np.random.default_rng(8)
    X, y = rings(1600, rng)
    groups = np.repeat(np.arange(400), 4)
    screen = ScreeningClassifier(0.1, **{**CHEAP, "candidates": [Remembers()]}).fit(X, y, groups=groups)
    train = screen.training_rows(y, groups)
    assert not set(groups[train]) & set(groups[np.setdiff1d(np.arange(1600), train)])
    first = screen.estimator_.encoder_.transform(X)[:, 0]
    assert np.unique(first).size == first.size
    left_out = []
    for model in screen.estimator_.members_[0].models:
        is_fitted = np.isin(first, model.first_)
        assert is_fitted.sum() == model.first_.size
        left_out.append(np.setdiff1d(train, np.flatnonzero(is_fitted)))
        assert not set(groups[is_fitted]) & set(groups[left_out[-1]])
    np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), train)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (["forrest"], "names among boosting, deep"),
        ([], "a list of names and estimators"),
        ([LogisticRegression], "names or classifiers"),
        ([42], "names or classifiers"),
        ([Ridge()], "names or classifiers"),
        ([("a", GaussianNB(), 1)], "names or classifiers"),
        ([IsolationForest()], "names or classifiers"),
        ([make_pipeline(FrozenEstimator(StandardScaler()), GaussianNB())], "frozen part"),
    ],
)
def test_wrong_candidates(candidates, message):
    X, y = rings(1500, np.random.default_rng(9))
    with pytest.raises((TypeError, ValueError), match=message):
        ScreeningClassifier(0.05, candidates=candidates).fit(X, y)


@pytest.mark.parametrize(
    ("effort", "installed", "names"),
    [
        ("fast", (), ["boosting", "forest", "extra trees"]),
        ("fast", ("xgboost",), ["xgboost", "forest", "extra trees"]),
        ("normal", (), ["boosting", "deep boosting", "forest", "extra trees"]),
        ("normal", ("catboost", "lightgbm"), ["lightgbm", "deep boosting", "forest", "extra trees"]),
        ("best", ("catboost", "lightgbm"), ["lightgbm", "catboost", "deep boosting", "forest", "extra trees"]),
    ],
)
def test_candidates_of_each_effort(monkeypatch, effort, installed, names):
    """Wide tables do without the second boosting."""
    for library, kind in (("catboost", "CatBoost"), ("lightgbm", "LGBM"), ("xgboost", "XGB")):
        stand_in = ModuleType(library)
        stand_in.__spec__ = ModuleSpec(library, None)
        setattr(stand_in, f"{kind}Classifier", lambda **settings: GaussianNB())
        # None: as where it is not installed.
        monkeypatch.setitem(sys.modules, library, stand_in if library in installed else None)
    little = replace(EFFORTS[effort], n_folds=2, n_repeats=1, n_trees=4, n_rounds=1)
    monkeypatch.setitem(EFFORTS, effort, little)
    for n_features, left_out in ((100, ""), (101, "deep boosting")):
        X, y = np.random.default_rng(0).normal(size=(80, n_features)), np.repeat([0, 1], 40)
        found = StackedScorer(0.1, effort=effort, random_state=0).fit(X, y)
        tried = [each.candidate for each in found.standings_ if not each.is_stack]
        assert tried == [name for name in names if name != left_out]


def test_best_effort_divides_twice_and_seeds_every_part():
    X, y = rings(600, np.random.default_rng(15))
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    first, second = (
        StackedScorer(0.05, effort="best", candidates=[forest, GaussianNB()], random_state=0).fit(X, y)
        for _ in range(2)
    )
    assert {len(member.models) for member in first.members_} == {10}
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert 0 < first.standings_[-1].recall < 1


def test_labels_are_those_of_y():
    X, y = rings(1500, np.random.default_rng(10))
    names = np.where(y == 1, "bad", "good")
    screen = ScreeningClassifier(0.05, **CHEAP, pos_label="bad").fit(X, names)
    assert screen.classes_.tolist() == ["good", "bad"]
    numbers = ScreeningClassifier(0.05, **CHEAP).fit(X, y)
    np.testing.assert_array_equal(screen.predict(X) == "bad", numbers.predict(X) == 1)
    with pytest.warns(PositiveLabelWarning):
        ScreeningClassifier(0.05, **CHEAP).fit(X, names)


def test_several_tolerances_and_pickles():
    X, y = rings(3000, np.random.default_rng(11))
    screen = ScreeningClassifier([0.1, 0.05], **CHEAP).fit(X, y)
    assert screen.decide(X).shape == (3000, 2)
    assert screen.thresholds_[0] < screen.thresholds_[1] == screen.threshold_
    loaded = pickle.loads(pickle.dumps(screen))
    np.testing.assert_array_equal(loaded.decision_function(X), screen.decision_function(X))


class Broken(GaussianNB):
    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan)


def test_candidates_that_give_no_scores_are_named():
    X, y = rings(600, np.random.default_rng(16))
    with pytest.raises(ValueError, match="candidate 'mine' must give every row one finite score"):
        ScreeningClassifier(0.05, effort="fast", candidates=[("mine", Broken())]).fit(X, y)
    with pytest.raises(ValueError, match="cannot be called 'stack'"):
        ScreeningClassifier(0.05, effort="fast", candidates=[("stack", GaussianNB())]).fit(X, y)


def test_copies_of_positives_do_not_flatter():
    """Noise cannot be found, however often the same positives come again: all copies are in one fold."""
    rng = np.random.default_rng(17)
    X = rng.normal(size=(1060, 4))
    rows = np.concatenate((np.arange(1000), np.repeat(np.arange(1000, 1060), 10)))
    forest = [RandomForestClassifier(20)]
    screen = ScreeningClassifier(0.05, **FAST, candidates=forest).fit(X[rows], (rows >= 1000).astype(int))
    assert screen.evidence_.n_positive == 60
    assert screen.evidence_.tpr_estimate < 0.2
    assert screen.leaderboard_.recall.max() < 0.25


def test_recall_of_noise_is_not_flattered():
    """Parts of a stack spread their scores more than their mean does: each needs a threshold of its own."""
    rng = np.random.default_rng(18)
    told = []
    for seed in range(4):
        X, y = rng.normal(size=(1000, 4)), np.repeat([0, 1], [700, 300])
        forest = {"effort": "fast", "candidates": [RandomForestClassifier(20)], "random_state": seed}
        told.append(ScreeningClassifier(0.05, **forest).fit(X, y).evidence_.tpr_estimate)
    assert np.mean(told) < 0.06


def test_a_single_positive_tells_no_recall():
    X, _ = rings(600, np.random.default_rng(14))
    screen = ScreeningClassifier(0.05, **CHEAP).fit(X, (np.arange(600) == 7).astype(int))
    assert screen.evidence_.tpr_estimate is None
    assert screen.leaderboard_.recall.isna().all()
    assert not hasattr(screen, "feature_importances_")
    assert "not measured" in repr(screen)


def test_jobs_do_not_change_the_result():
    X, y = rings(600, np.random.default_rng(13))
    with parallel_backend("threading"):  # processes take seconds to start
        one, two = (
            ScreeningClassifier(0.05, **CHEAP, threshold="oob", n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 2)
        )
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
    np.testing.assert_array_equal(one.feature_importances_, two.feature_importances_)
    assert not hasattr(one.estimator_, "training_rows_")


def test_boosters_where_they_are_installed():
    for name in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(name)
    X, y = rings(600, np.random.default_rng(12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        screen = ScreeningClassifier(0.05, **FAST, candidates=["lightgbm", "xgboost", "catboost"]).fit(X, y)
    assert screen.evidence_.tpr_estimate > 0.5
