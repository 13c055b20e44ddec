"""Metrics against counting and scikit-learn, their scorers inside a search, and their messages."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_curve
from sklearn.model_selection import GridSearchCV, cross_val_score

from taufpl import metrics, thresholding
from taufpl.metrics import false_positive_rate, np_score, np_scorer, tpr_at_fpr, tpr_at_fpr_scorer

LABELS = [0, 0, 0, 0, 1, 1]
TAUS = st.floats(0.001, 0.999)


@st.composite
def labels_and_guesses(draw):
    n = draw(st.integers(2, 40))
    guesses = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    n_positive = draw(st.integers(1, n - 1))
    return np.arange(n) < n_positive, np.array(guesses)


@given(labels_and_guesses(), TAUS)
def test_rates_agree_with_a_confusion_matrix(case, tau):
    y, predicted = case
    tn, fp, fn, tp = confusion_matrix(y, predicted, labels=[False, True]).ravel()
    assert false_positive_rate(y, predicted) == fp / (fp + tn)
    assert np_score(y, predicted, tau) == pytest.approx(max(fp / (fp + tn), tau) / tau - tp / (tp + fn), abs=1e-12)


@given(labels_and_guesses(), st.lists(st.integers(0, 3), min_size=40, max_size=40), TAUS)
def test_whole_weights_are_repetitions(case, weights, tau):
    y, predicted = case
    weights = np.array(weights[: y.size])
    weights[[0, -1]] = 1  # one row of each class stays
    repeated = np_score(np.repeat(y, weights), np.repeat(predicted, weights), tau)
    assert np_score(y, predicted, tau, sample_weight=weights) == pytest.approx(repeated, abs=1e-12)
    assert false_positive_rate(y, predicted, sample_weight=weights) == pytest.approx(
        false_positive_rate(np.repeat(y, weights), np.repeat(predicted, weights)), abs=1e-12
    )


@given(st.integers(0, 10**6), st.integers(1, 5), TAUS)
def test_tpr_at_fpr_is_the_best_point_of_the_roc_curve(seed, levels, tau):
    rng = np.random.default_rng(seed)
    y = np.arange(50) < 20
    scores = rng.integers(0, 4**levels, 50) + y
    fpr, tpr, _ = roc_curve(y, scores, drop_intermediate=False)
    assert tpr_at_fpr(y, scores, tau) == pytest.approx(tpr[fpr <= tau].max(), abs=1e-12)


def test_perfect_and_useless():
    assert np_score(LABELS, LABELS, 0.1) == 0.0
    assert np_score(LABELS, [0] * 6, 0.1) == 1.0
    assert np_score(LABELS, [1] * 6, 0.1) == pytest.approx(9.0)


def test_labels_of_any_kind():
    words = np.array(["spam", "ham"])[[1, 1, 0, 0]]
    guesses = ["spam", "ham", "spam", "spam"]
    assert false_positive_rate(words, guesses) == 0.5  # "spam" is the larger label
    assert false_positive_rate(words, guesses, pos_label="ham") == 0.0
    assert false_positive_rate(words.astype(object), np.array(guesses, dtype=object)) == 0.5
    assert tpr_at_fpr(words, [0.1, 0.2, 0.15, 0.3], 0.1) == 0.5
    assert tpr_at_fpr(words, [-0.1, -0.2, -0.15, -0.3], 0.1, pos_label="ham") == 0.5
    assert np_score([-1, 1], [-1.0, 1.0], 0.1) == 0.0
    assert np_score([True, False], [1, 0], 0.1) == 0.0


def test_negatives_alone_are_enough_for_their_rate_if_the_positive_label_is_named():
    assert false_positive_rate([0, 0, 0, 0], [0, 1, 0, 0], pos_label=1) == 0.25


def test_the_upper_bound_is_the_one_of_thresholding():
    assert metrics.fpr_upper_bound is thresholding.fpr_upper_bound


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 8, weights=[0.7], random_state=0)


@pytest.mark.parametrize("names", [np.array([0, 1]), np.array(["no", "yes"])])
def test_scorers_in_a_search(data, names):
    X, y = data
    scoring = {"np": np_scorer(0.1), "tpr": tpr_at_fpr_scorer(0.1)}
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=scoring, refit="tpr", cv=3)
    results = search.fit(X, names[y]).cv_results_
    model = search.best_estimator_
    assert scoring["np"](model, X, names[y]) == -np_score(names[y], model.predict(X), 0.1)
    assert scoring["tpr"](model, X, names[y]) == tpr_at_fpr(names[y], model.decision_function(X), 0.1)
    assert np.all(results["mean_test_np"] <= 0)
    assert np.all((results["mean_test_tpr"] >= 0) & (results["mean_test_tpr"] <= 1))


def test_the_ranking_scorer_falls_back_on_probabilities(data):
    forest = RandomForestClassifier(10, random_state=0)
    scores = cross_val_score(forest, *data, scoring=tpr_at_fpr_scorer(0.1), cv=3)
    assert np.all(scores > 0.3)


def test_scorers_can_take_the_smaller_label_as_positive(data):
    X, y = data
    model = LogisticRegression().fit(X, y)
    assert tpr_at_fpr_scorer(0.1, pos_label=0)(model, X, y) == tpr_at_fpr(
        y, -model.decision_function(X), 0.1, pos_label=0
    )
    assert np_scorer(0.1, pos_label=0)(model, X, y) == -np_score(y, model.predict(X), 0.1, pos_label=0)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: np_score(LABELS, LABELS, 0.0), ValueError, r"tau must be strictly between 0 and 1, got 0\.0"),
        (lambda: np_score(LABELS, LABELS, 1), ValueError, "tau must be strictly between 0 and 1, got 1"),
        (lambda: tpr_at_fpr(LABELS, LABELS, 1.5), ValueError, "tau must be strictly between"),
        (lambda: np_scorer(0), ValueError, "tau must be strictly between"),
        (lambda: tpr_at_fpr_scorer(1.0), ValueError, "tau must be strictly between"),
        (lambda: np_score([0, 1], [0], 0.1), ValueError, "y_pred must have as many entries as y_true, 2; got 1"),
        (lambda: tpr_at_fpr([0, 1], [0.5], 0.1), ValueError, "y_score must have as many entries as y_true, 2; got 1"),
        (lambda: np_score([[0, 1]], [0, 1], 0.1), ValueError, r"y_true must be one-dimensional, .*\(1, 2\)"),
        (lambda: np_score([], [], 0.1), ValueError, "y_true must have at least one entry"),
        (lambda: np_score([0, 0], [0, 1], 0.1), ValueError, "y_true must hold both classes, got 0 alone.*pos_label"),
        (lambda: np_score([0, 0], [0, 1], 0.1, pos_label=1), ValueError, "y_true must hold at least one positive"),
        (lambda: tpr_at_fpr([1, 1], [0, 1], 0.1, pos_label=1), ValueError, "y_true must hold at least one negative"),
        (lambda: false_positive_rate([1, 1], [0, 1], pos_label=1), ValueError, "at least one negative, got none"),
        (lambda: np_score([0, 1, 2], [0, 1, 2], 0.1), ValueError, r"must hold two classes, got 3: \[0, 1, 2\]"),
        (lambda: np_score([0, 1], [0, 2], 0.1), ValueError, r"y_pred must hold the labels of y_true, \[0, 1\]; got 2"),
        (lambda: np_score([0, 1], ["0", "1"], 0.1), TypeError, "y_pred must hold labels of the kind of y_true's"),
        (lambda: np_score([0, 1], [0, 1], 0.1, pos_label=3), ValueError, r"pos_label must be one of .*\[0, 1\]; got 3"),
        (lambda: np_score([0, np.nan], [0, 1], 0.1), ValueError, "y_true must hold labels, got 1 NaN"),
        (lambda: tpr_at_fpr([0, 1], [0, np.nan], 0.1), ValueError, "y_score must not hold NaN"),
        (lambda: tpr_at_fpr([0, 1], [[0, 1], [1, 0]], 0.1), ValueError, "y_score must be one-dimensional"),
        (lambda: np_score([0, 1], [0, 1], 0.1, sample_weight=[1]), ValueError, r"expected \(2,\)"),
        (lambda: np_score([0, 1], [0, 1], 0.1, sample_weight=[1, -1]), ValueError, "Negative values .*sample_weight"),
        (lambda: np_score([0, 1], [0, 1], 0.1, sample_weight=[1, np.inf]), ValueError, "sample_weight .*infinity"),
        (lambda: np_score([0, 1], [0, 1], 0.1, sample_weight=[0, 1]), ValueError, "must not be 0 on every negative"),
    ],
)
def test_wrong_use_is_explained(call, error, match):
    with pytest.raises(error, match=match):
        call()
