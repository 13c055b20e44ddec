"""Rows far from 0, on any scale and in another precision: what was measured is kept, or it is said."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from taufpl import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
    TauFPLRanker,
)

OTHER = "not of the precision"


def shifted(n, seed, offset=0.0, factor=1.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    return (rng.normal(size=(n, 5)) + 1.5 * y[:, np.newaxis] + offset) * np.asarray(factor), y


def true_recall(model, *args, **kwargs):
    X, y = shifted(40_000, 1, *args, **kwargs)
    return float(model.predict(X)[y == 1].mean())


def auto():
    return TauFPLClassifier(0.01, random_state=0)


def paper():
    return TauFPLClassifier(0.01, ranking="paper", reg=0.01, tau_scale=4.0, random_state=0)


def ridge():
    return NeymanPearsonClassifier(RidgeClassifier(), 0.01, random_state=0)


@pytest.mark.parametrize("offset", [1e5, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("make", [auto, paper, ridge])
def test_recall_far_from_zero_is_what_was_told(make, offset):
    model = make().fit(*shifted(4000, 0, offset))
    assert model.evidence_.guaranteed
    low, high = model.evidence_.tpr_interval
    assert low - 0.02 < true_recall(model, offset) < high + 0.02
    assert true_recall(model, offset) > true_recall(make().fit(*shifted(4000, 0))) - 0.02


@pytest.mark.parametrize("strategy", ["np", "cross", "oob", "train"])
def test_recall_is_counted_above_the_raised_threshold(strategy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounding, where the threshold is proven
        model = ridge().set_params(threshold=strategy).fit(*shifted(4000, 0, 1e13))
    told = model.evidence_.tpr_estimate
    assert abs(told - true_recall(model, 1e13)) < 0.06
    assert told < ridge().fit(*shifted(4000, 0)).evidence_.tpr_estimate - 0.02


def test_rounding_that_costs_positives_is_told():
    with pytest.warns(UserWarning, match=r"rounding may move scores by .*costs positives.*Subtract the mean"):
        model = ridge().fit(*shifted(4000, 0, 1e13))
    X, y = shifted(40_000, 1, 1e13)
    assert abs(model.evidence_.fpr_estimate - model.predict(X)[y == 0].mean()) < 0.003
    with pytest.warns(UserWarning, match="rounding may move"):
        model.recalibrate(*shifted(4000, 2, 1e13))


@pytest.mark.parametrize("size", [1e-6, 1e6, 1e9])
def test_a_column_of_another_size_is_seen_and_costs_nothing(size):
    factor = np.array([size, 1.0, 1.0, 1.0, 1.0])
    recalls = [true_recall(auto().fit(*shifted(4000, 0, 0.0, each)), 0.0, each) for each in (np.ones(5), factor)]
    assert recalls[1] > recalls[0] - 0.02


@pytest.mark.parametrize("size", [1e-149, 1e-100, 1e-40, 1e60, 1e149])
def test_rows_of_any_size_are_ranked(size):
    usual = true_recall(auto().fit(*shifted(4000, 0)))
    assert abs(true_recall(auto().fit(*shifted(4000, 0, 0.0, size)), 0.0, size) - usual) < 0.02
    if size < 1.0:
        ranker = TauFPLRanker(tau=0.01).fit(*shifted(4000, 0, 0.0, size))
        assert not ranker.collapsed_
        assert ranker.converged_
        usual = true_recall(TauFPLRanker(tau=0.01).fit(*shifted(4000, 0)))
        assert abs(true_recall(ranker, 0.0, size) - usual) < 0.02


def test_rows_without_squares_are_refused():
    for model in (auto(), paper(), TauFPLRanker(tau=0.01)):
        with pytest.raises(ValueError, match=r"some value of at least 1e-150.*largest is .*e-160. Multiply X"):
            model.fit(*shifted(400, 0, 0.0, 1e-160))


def test_constant_columns_change_nothing():
    X, y = shifted(2000, 0)
    beside = np.column_stack((X, np.full(2000, 1e9), np.zeros(2000)))
    plain, constant = (auto().fit(each, y) for each in (X, beside))
    np.testing.assert_array_equal(constant.predict(beside), plain.predict(X))


TIMES = 1.7e18 + 3e16 * np.random.default_rng(3).random(40_000)
BESIDE = {
    "nanoseconds": TIMES,
    "account numbers": np.random.default_rng(4).uniform(1e14, 1e15, 40_000),
    "sentinels": np.where(np.random.default_rng(5).random(40_000) < 0.05, -1e30, 0.0),
    "the last bit": np.where(np.random.default_rng(6).random(40_000) < 0.5, 0.3, 0.1 + 0.2),
    "rare rounding": np.where(np.random.default_rng(7).random(40_000) < 0.01, 1e6 + 1e-9, 1e6),
    "large integers": np.random.default_rng(8).integers(0, 200, 40_000) + 2**60,
    "a constant": np.full(40_000, 0.1),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_column_that_says_nothing_costs_nothing(name):
    (X, y), (new, labels) = shifted(4000, 0), shifted(40_000, 1)
    model = auto().fit(np.column_stack((X, BESIDE[name][:4000])), y)  # without a warning, too
    assert model.predict(np.column_stack((new, BESIDE[name])))[labels == 1].mean() > 0.75


@pytest.mark.parametrize("sizes", [[1e9, 1e-6, 1, 1, 1], [1e12, 1e-4, 1, 1, 1], [1e12, 0.01, 1, 1, 1]])
def test_columns_of_very_different_sizes_are_all_seen(sizes):
    assert true_recall(auto().fit(*shifted(4000, 0, 0.0, sizes)), 0.0, sizes) > 0.75


def test_columns_without_differences_are_refused():
    _, y = shifted(2000, 0)
    for X in (np.zeros((2000, 3)), np.full((2000, 3), 2.0**60) + 256 * (np.arange(2000)[:, np.newaxis] % 2)):
        with pytest.raises(ValueError, match="no column of X varies by more than rounding"):
            auto().fit(X, y)


# Another precision.


def grid(n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.1).astype(int)
    return rng.choice([0.1, 0.3, 0.7], size=(n, 2), p=[0.6, 0.3, 0.1]) + 0.2 * y[:, np.newaxis], y


def noted(model, X):
    """What a prediction says of precision."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.predict(X)
    return sum(OTHER in str(each.message) for each in seen)


SCORERS = {
    "svc": make_pipeline(StandardScaler(), SVC()),
    "bayes": GaussianNB(),
    "neighbours": KNeighborsClassifier(20),
}


@pytest.mark.parametrize("name", SCORERS)
def test_another_precision_than_that_of_the_fit_is_told_once(name):
    X, y = grid(2000, 0)
    model = NeymanPearsonClassifier(SCORERS[name], 0.05, random_state=0).fit(X, y)
    assert model.evidence_.guaranteed
    assert (noted(model, X), noted(model, X.astype(np.float32))) == (0, 1)
    model.recalibrate(*grid(2000, 1))  # of the same precision
    assert (noted(model, X), noted(model, X.astype(np.float32))) == (0, 1)
    single, labels = grid(2000, 2)
    model.recalibrate(single.astype(np.float32), labels)
    assert (noted(model, X), noted(model, X.astype(np.float32))) == (1, 0)
    # Doubles that single precision holds are what was calibrated on.
    assert noted(model, X.astype(np.float32).astype(np.float64)) == 0


def test_stacks_and_kernels_tell_it_too():
    X, y = grid(600, 0)
    stack = ScreeningClassifier(0.1, effort="fast", candidates=["linear"], random_state=0)
    for model in (stack, KernelTauFPLClassifier(0.1, gamma=1.0, reg=0.01, tau_scale=1.0, random_state=0)):
        model.fit(X, y)
        assert (noted(model, X), noted(model, X.astype(np.float32))) == (0, 1)


def test_columns_of_frames_are_told_apart():
    X, y = grid(2000, 0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(frame, y)
    assert noted(model, frame) == 0
    assert noted(model, frame.astype({"b": np.float32})) == 1
    mixed = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(frame.astype({"b": np.float32}), y)
    assert noted(mixed, frame.astype({"b": np.float32})) == 0
    assert noted(mixed, frame.astype({"a": np.float32})) == 1


def test_precision_that_does_no_harm_is_not_told():
    X, y = grid(2000, 0)
    forest = NeymanPearsonClassifier(RandomForestClassifier(10, random_state=0), 0.05, random_state=0).fit(X, y)
    assert noted(forest, X.astype(np.float32)) == 0  # its trees look at single precision
    whole = np.round(10 * X)
    counts = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(whole, y)
    assert noted(counts, whole.astype(np.float32)) == noted(counts, whole.astype(np.int16)) == 0
    scores = ScoreScreen(tau=0.05, pos_label=1).fit(X[:, 0], y)
    assert noted(scores, X[:, 0].astype(np.float32)) == 0
    proven = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(sparse.csr_array(X), y)
    assert noted(proven, sparse.csr_array(X.astype(np.float32))) == 0  # its margin holds ties together
    np.testing.assert_array_equal(proven.predict(X.astype(np.float32)), proven.predict(X))


def test_linear_scores_behind_steps_that_jump_tell_it():
    X, y = grid(4000, 0)
    coded = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    for steps, n_told in ((coded, 1), (scaled, 0)):
        model = NeymanPearsonClassifier(steps, 0.05, random_state=0).fit(X, y)
        assert (noted(model, X), noted(model, X.astype(np.float32))) == (0, n_told)


def test_models_of_single_precision_take_the_same_numbers_as_doubles():
    X, y = grid(2000, 0)
    single = X.astype(np.float32)
    forest = NeymanPearsonClassifier(RandomForestClassifier(10, random_state=0), 0.05, random_state=0).fit(single, y)
    assert noted(forest, X) == 0
    frame = pd.DataFrame(single, columns=["a", "b"])
    bayes = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(frame, y)
    assert noted(bayes, frame.astype(np.float64)) == 0
    assert noted(bayes, pd.DataFrame(X, columns=["a", "b"])) == 1
    doubles = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(X, y)
    assert noted(doubles, np.array([[1.0, 2.0]], dtype=np.float32)) == 0  # whole numbers


def test_linear_scores_tell_it_where_single_precision_costs_too_much():
    near, far = (shifted(4000, 0, offset) for offset in (0.0, 1e6))
    assert noted(auto().fit(*near), near[0].astype(np.float32)) == 0
    assert noted(auto().fit(*far), far[0].astype(np.float32)) == 1
    assert noted(ridge().fit(*far), far[0].astype(np.float32)) == 1


def test_models_of_older_files_say_nothing_of_precision():
    X, y = grid(2000, 0)
    model = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(X, y)
    del model.__dict__["_precision"]
    assert noted(model, X.astype(np.float32)) == 0
