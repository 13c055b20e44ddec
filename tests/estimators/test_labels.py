"""Which label is positive: who is asked, who is warned, and what classifiers for 0 and 1 are given."""

import re
import warnings
from html import unescape

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from estimator_cases import X, Y
from taufpl import (
    KernelTauFPLClassifier,
    KernelTauFPLRanker,
    NeymanPearsonClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
    tau_path,
)
from taufpl.baselines import CostSensitiveSVM, RankSVM, TopPush
from taufpl.exceptions import PositiveLabelWarning
from taufpl.metrics import np_score, np_scorer, tpr_at_fpr, tpr_at_fpr_scorer
from taufpl.persistence import to_json, to_onnx
from taufpl.plotting import DecisionRegionsDisplay, ROCDisplay, ScoreDisplay
from taufpl.report import render_report
from taufpl.thresholding import OutOfBootstrap

WORDS = np.where(Y == 1, "fraud", "ok")
PLAIN = {"tau": 0.1, "reg": 0.1, "tau_scale": 3.0, "random_state": 0}
LOGISTIC = NeymanPearsonClassifier(LogisticRegression(), 0.1, random_state=0)
PACKAGE = [
    TauFPLRanker(0.1, 0.1),
    TauFPLRankerCV(0.1, cv=2, regs=2, max_extensions=0),
    TauFPLClassifier(**PLAIN, cv=2),
    TauFPLClassifier(**PLAIN, threshold=OutOfBootstrap(n_rounds=2)),
    KernelTauFPLRanker(0.1, n_components=10, random_state=0),
    KernelTauFPLClassifier(0.1, gamma="scale", reg=0.1, n_components=10, random_state=0),
    LOGISTIC,
    clone(LOGISTIC).set_params(threshold="cross", cv=2),
    TopPush(0.1),
    RankSVM(0.1),
    CostSensitiveSVM(),
]


def warned(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [each for each in found if issubclass(each.category, PositiveLabelWarning)]


# Who is warned.


@pytest.mark.parametrize("model", PACKAGE)
def test_text_without_a_positive_label_is_told_once_and_where(model):
    (found,) = warned(lambda: clone(model).fit(X, WORDS))
    assert found.filename == __file__
    said = str(found.message)
    assert said.startswith("'ok' is taken for the positive label, the one to find, and not 'fraud'")
    assert said.endswith("Say which one is meant: pos_label='ok' or pos_label='fraud'.")


@pytest.mark.parametrize("model", PACKAGE)
def test_a_named_label_is_silent(model):
    named = clone(model).set_params(pos_label="fraud")
    assert not warned(lambda: named.fit(X, WORDS))
    assert named.classes_.tolist() == ["ok", "fraud"]


def test_paths_tell_it_too():
    (found,) = warned(lambda: tau_path(X[:200], WORDS[:200], [0.1], [0.1]))
    assert found.filename == __file__
    assert not warned(lambda: tau_path(X[:200], WORDS[:200], [0.1], [0.1], pos_label="fraud"))


@pytest.mark.parametrize("pair", [(0, 1), (-1, 1), (False, True), (0.0, 1.0), (-1.0, 1.0)])
def test_usual_labels_are_silent(pair):
    for model in (TauFPLRanker(0.1), LOGISTIC):
        assert not warned(lambda model=model: clone(model).fit(X, np.array(pair)[Y]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_usual_labels_have_any_numeric_type(dtype):
    assert not warned(lambda: TauFPLRanker(0.1).fit(X, Y.astype(dtype)))


@pytest.mark.parametrize("pair", [(1, 2), (0, 2), (-1, 0), (2.0, 3.0), ("0", "1"), ("no", "yes")])
def test_all_other_labels_warn(pair):
    (found,) = warned(lambda: TauFPLRanker(0.1).fit(X, np.array(pair)[Y]))
    assert str(found.message).startswith(f"{pair[1]!r} is taken")


def test_rows_that_live_elsewhere():
    data, labels = da.from_array(X, chunks=(300, 4)), da.from_array(WORDS, chunks=300)
    for model in (TauFPLRanker(0.1), NeymanPearsonClassifier(TauFPLRanker(0.1), 0.1)):
        (found,) = warned(lambda model=model: clone(model).fit(data, labels))
        assert found.filename == __file__
        assert not warned(lambda model=model: clone(model).set_params(pos_label="fraud").fit(data, labels))


# Estimators of this package inside others.

INSIDE = {
    "itself": lambda ranker: ranker,
    "pipeline": lambda ranker: make_pipeline(StandardScaler(), ranker),
    "search": lambda ranker: GridSearchCV(ranker, {"reg": [0.1]}, cv=2),
    "classifier": lambda ranker: NeymanPearsonClassifier(ranker, 0.2, delta=0.3, random_state=0),
}


@pytest.mark.parametrize("wrap", INSIDE.values(), ids=INSIDE)
def test_a_ranker_inside_is_told_what_is_positive(wrap):
    model = NeymanPearsonClassifier(wrap(TauFPLRanker(0.1, 0.1)), 0.1, random_state=0)
    (found,) = warned(lambda: clone(model).fit(X, WORDS))
    assert "'ok' is taken" in str(found.message)
    named = clone(model).set_params(pos_label="fraud")
    assert not warned(lambda: named.fit(X, WORDS))
    assert np.asarray(named.estimator_.classes_).tolist() == ["ok", "fraud"]


@pytest.mark.parametrize("wrap", INSIDE.values(), ids=INSIDE)
def test_a_ranker_inside_tells_what_is_positive(wrap):
    inside = wrap(TauFPLRanker(0.1, 0.1, pos_label="fraud"))
    model = NeymanPearsonClassifier(inside, 0.1, random_state=0)
    if isinstance(inside, NeymanPearsonClassifier):
        inside.set_params(pos_label="fraud")
    assert not warned(lambda: model.fit(X, WORDS))
    assert model.classes_.tolist() == ["ok", "fraud"]
    with pytest.raises(ValueError, match="Give the same pos_label to both"):
        clone(model).set_params(pos_label="ok").fit(X, WORDS)


def test_a_ranker_inside_tells_it_of_rows_that_live_elsewhere():
    model = NeymanPearsonClassifier(TauFPLRanker(0.1, pos_label="fraud"), 0.1, random_state=0)
    assert not warned(lambda: model.fit(da.from_array(X, chunks=(300, 4)), WORDS))
    assert model.classes_.tolist() == model.estimator_.classes_.tolist() == ["ok", "fraud"]


@pytest.mark.parametrize("data", [np.asarray, lambda X: da.from_array(X, chunks=(300, 4))], ids=["memory", "dask"])
def test_a_fitted_estimator_of_ours_keeps_its_positives(data):
    ranker = TauFPLRanker(0.1, pos_label="fraud").fit(X[::2], WORDS[::2])
    for model in (
        NeymanPearsonClassifier(ranker, 0.1, cv="prefit"),
        NeymanPearsonClassifier(FrozenEstimator(ranker), 0.1),
    ):
        assert not warned(lambda model=model: model.fit(data(X[1::2]), WORDS[1::2]))
        assert model.classes_.tolist() == ["ok", "fraud"]
        assert model.evidence_.tpr_estimate > 0.5


def test_a_fitted_classifier_of_others_warns():
    theirs = LogisticRegression().fit(X[::2], WORDS[::2])
    (found,) = warned(lambda: NeymanPearsonClassifier(theirs, 0.1, cv="prefit").fit(X[1::2], WORDS[1::2]))
    assert "'ok' is taken" in str(found.message)


# Scorers and displays.

SMALLER = {
    "ranker": TauFPLRanker(0.1, tau_scale=3.0, pos_label="fraud"),
    "pipeline": make_pipeline(StandardScaler(), TauFPLClassifier(**PLAIN, pos_label="fraud")),
    "search": GridSearchCV(TauFPLRanker(0.1, tau_scale=3.0, pos_label="fraud"), {"reg": [0.1, 1.0]}, cv=2),
    "kernel": KernelTauFPLRanker(0.1, n_components=10, pos_label="fraud", random_state=0),
    "any scorer": clone(LOGISTIC).set_params(pos_label="fraud"),
}


@pytest.fixture(scope="module", params=SMALLER.values(), ids=SMALLER)
def fitted(request):
    return clone(request.param).fit(X[:, :2], WORDS)


def test_scorers_ask_the_estimator(fitted):
    """With both rates by hand: what the estimator calls fraud is positive."""
    data = X[:, :2]
    flagged, scores = fitted.predict(data) == "fraud", fitted.decision_function(data)
    fpr, tpr = flagged[Y == 0].mean(), flagged[Y == 1].mean()
    assert np_scorer(0.1)(fitted, data, WORDS) == pytest.approx(tpr - max(fpr, 0.1) / 0.1)
    cut = np.sort(scores[Y == 0])[::-1][int(0.1 * np.sum(Y == 0))]
    assert tpr_at_fpr_scorer(0.1)(fitted, data, WORDS) == pytest.approx(np.mean(scores[Y == 1] > cut))
    assert tpr > 0.2


def test_named_labels_of_scorers_come_first(fitted):
    data = X[:, :2]
    turned = tpr_at_fpr(WORDS, -fitted.decision_function(data), 0.1, pos_label="ok")
    assert tpr_at_fpr_scorer(0.1, pos_label="ok")(fitted, data, WORDS) == turned
    assert np_scorer(0.1, pos_label="ok")(fitted, data, WORDS) == -np_score(
        WORDS, fitted.predict(data), 0.1, pos_label="ok"
    )


def test_searches_score_by_the_label_of_the_estimator():
    model = TauFPLRanker(0.1, tau_scale=3.0, pos_label="fraud")
    for scoring in (np_scorer(0.1), tpr_at_fpr_scorer(0.1)):
        by_word = cross_val_score(model, X, WORDS, scoring=scoring, cv=2)
        by_number = cross_val_score(clone(model).set_params(pos_label=None), X, Y, scoring=scoring, cv=2)
        np.testing.assert_allclose(by_word, by_number)
    scores = cross_val_score(GaussianNB(), X, WORDS, scoring=tpr_at_fpr_scorer(0.1), cv=2)
    assert scores.shape == (2,)


def test_displays_ask_the_estimator(fitted):
    data = X[:, :2]
    flagged = fitted.predict(data) == "fraud"
    rates = pytest.approx((flagged[Y == 0].mean(), flagged[Y == 1].mean()))
    curve = ROCDisplay.from_estimator(fitted, data, WORDS, tau=0.1)
    assert (curve.pos_label, curve.operating_point) == ("fraud", rates)
    assert curve.tpr_at_tau == pytest.approx(tpr_at_fpr_scorer(0.1)(fitted, data, WORDS))
    histogram = ScoreDisplay.from_estimator(fitted, data, WORDS)
    assert (histogram.pos_label, (histogram.fpr, histogram.tpr)) == ("fraud", rates)
    regions = DecisionRegionsDisplay.from_estimator(fitted, data, WORDS, grid_resolution=5)
    assert (regions.fpr, regions.tpr) == rates
    assert regions.scores[-1, -1] > regions.scores[0, 0]


# Classifiers that take 0 and 1 alone.


class Refusing:
    """Refuses other labels, as XGBoost does."""

    def fit(self, X, y):
        if np.unique(y).tolist() != [0, 1]:
            raise ValueError(f"Expected: [0 1], got {np.unique(y)}")
        return super().fit(X, y)


class Strict(Refusing, LogisticRegression):
    """Linear."""


class StrictTree(Refusing, DecisionTreeClassifier):
    """With probabilities."""


def boosted():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)


# Negatives, then positives: the positive label may be 0, and the negative one 1.
PAIRS = [("ok", "fraud"), ("a", "b"), (-1, 1), (1, -1), (1, 2), (2, 1), (2, 0), (7, 0), (1, 0), (False, True)]


CASES = [(Strict, *pair) for pair in PAIRS] + [(boosted, *pair) for pair in PAIRS[::3]]


@pytest.mark.parametrize(("make", "negative", "positive"), CASES)
def test_labels_are_handed_over_as_0_and_1_and_given_back(make, negative, positive):
    labels = np.array([negative, positive])
    model = NeymanPearsonClassifier(make(), 0.1, random_state=0, pos_label=positive).fit(X, labels[Y])
    plain = NeymanPearsonClassifier(make(), 0.1, random_state=0).fit(X, Y)
    assert model.classes_.tolist() == [negative, positive]
    assert model.estimator_.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(model.predict(X), labels[plain.predict(X)])
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-4)
    assert model.score(X, labels[Y]) == plain.score(X, Y)
    again = model.recalibrate(X[:400], labels[Y[:400]])
    np.testing.assert_array_equal(again.predict(X), labels[plain.recalibrate(X[:400], Y[:400]).predict(X)])


def searched(model):
    return GridSearchCV(model, {"C": [1.0]}, cv=2)


@pytest.mark.parametrize(
    ("threshold", "wrap"),
    [(each, INSIDE["pipeline"]) for each in ("cross", OutOfBootstrap(n_rounds=2), "train")] + [("np", searched)],
)
def test_every_threshold_and_wrapper_hands_over_0_and_1(threshold, wrap):
    options = {"threshold": threshold, "cv": 2, "random_state": 0}
    model = NeymanPearsonClassifier(wrap(Strict()), 0.1, pos_label="fraud", **options).fit(X, WORDS)
    plain = NeymanPearsonClassifier(wrap(Strict()), 0.1, **options).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X) == "fraud", plain.predict(X) == 1)
    np.testing.assert_array_equal(model.decide(X), plain.decide(X))
    lazy = model.predict(da.from_array(X, chunks=(300, 4))).compute()
    np.testing.assert_array_equal(lazy, model.predict(X))


def test_classifiers_that_take_labels_get_them():
    model = NeymanPearsonClassifier(LogisticRegression(class_weight={"fraud": 10, "ok": 1}), 0.1, pos_label="fraud")
    assert model.fit(X, WORDS).estimator_.classes_.tolist() == ["fraud", "ok"]


def test_an_error_that_has_nothing_to_do_with_labels_stays_as_it_was():
    with pytest.raises(ValueError, match=r"Expected: \[0 1\], got \['fraud' 'ok'\]") as caught:
        NeymanPearsonClassifier(Strict(C=-1.0), 0.1, pos_label="fraud").fit(X, WORDS)
    assert caught.value.__suppress_context__


def test_outlier_detectors_see_negatives_alone():
    detector = IsolationForest(n_estimators=10, random_state=0)
    model = NeymanPearsonClassifier(detector, 0.1, pos_label="fraud", random_state=0).fit(X, WORDS)
    plain = NeymanPearsonClassifier(detector, 0.1, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X) == "fraud", plain.predict(X) == 1)


def test_a_fitted_classifier_for_0_and_1_is_calibrated_on_its_own_labels():
    model = NeymanPearsonClassifier(Strict().fit(X[::2], Y[::2]), 0.1, cv="prefit").fit(X[1::2], Y[1::2])
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="pos_label must be one of the labels"):
        NeymanPearsonClassifier(model.estimator, 0.1, cv="prefit", pos_label="fraud").fit(X[1::2], WORDS[1::2])


@pytest.mark.parametrize(("negative", "positive"), [("ok", "fraud"), (2, 0)])
def test_exports_and_reports_know_the_positives(negative, positive):
    labels = np.array([negative, positive])
    model = NeymanPearsonClassifier(Strict(), 0.1, pos_label=positive, random_state=0).fit(X, labels[Y])
    form = to_json(model)
    scores = X @ np.array([form["weights"][f"x{column}"] for column in range(4)]) + form["intercept"]
    np.testing.assert_array_equal(labels[(scores > form["threshold"]).astype(int)], model.predict(X))
    shown = unescape(re.sub(r"<[^>]+>", " ", render_report(model, X, labels[Y])))
    weights = re.findall(r"\bfeature \d\s+([-−\d.]+)\s", shown.partition("Features that weigh most")[2])
    assert len(weights) == 4
    assert min(float(each.replace("−", "-")) for each in weights) > 0
    runtime = pytest.importorskip("onnxruntime")
    for each in (model, clone(model).set_params(estimator=StrictTree(max_depth=3)).fit(X, labels[Y])):
        session = runtime.InferenceSession(to_onnx(each, X).SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(["label"], {"X": X})[0], each.predict(X))
