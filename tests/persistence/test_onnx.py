"""ONNX graphs decide as the models do that they were made of."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from estimator_cases import ScoreItself
from persistence_cases import FRAME, FRAME_Y, KERNEL_MODELS, MODELS, NAMES, X, Y, columns, guarded, rows, table
from taufpl import TauFPLClassifier, TauFPLRanker
from taufpl.exceptions import ExportError
from taufpl.persistence import save_onnx, to_onnx
from taufpl.thresholding import OutOfBootstrap

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

MANY, _ = rows(10_000, seed=1)
MANY_FRAME, _ = table(10_000, seed=1)


def plain():
    return TauFPLClassifier(0.05, reg=0.1, tau_scale=20.0, random_state=0)


def run(graph, feed):
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    label, score = session.run(["label", "score"], feed)
    assert label.shape == score.shape == (len(next(iter(feed.values()))),)
    return label, score


def notes(graph):
    return {each.key: each.value for each in graph.metadata_props}


def feed_of(frame):
    """A frame as a session takes it: a column an input, an empty text for a missing one."""
    feed = {}
    for name in frame.columns:
        values = frame[name].to_numpy()
        if values.dtype == object:
            values = np.array(["" if pd.isna(value) else value for value in values], dtype=object)
        feed[name] = values.reshape(-1, 1).copy()
    return feed


def check_double(model, X_sample, data=MANY, feed=None):
    """Every decision is the same, and the scores are to the last digits."""
    graph = to_onnx(model, X_sample)
    assert notes(graph)["taufpl.precision"] == "float64"
    label, score = run(graph, {"X": data} if feed is None else feed)
    expected = model.predict(data)
    assert len(np.unique(expected)) == 2
    assert np.array_equal(label, expected)
    rounding = float(notes(graph)["taufpl.rounding"])
    assert rounding < 1e-11
    assert np.max(np.abs(score - model.decision_function(data))) <= rounding
    return graph


def check_single(model, X_sample, data=MANY):
    """Decisions differ only within the bound that is told, and never by a positive that the model does not find."""
    graph = to_onnx(model, X_sample)
    assert notes(graph)["taufpl.precision"] == "float32"
    label, score = run(graph, {"X": data})
    expected, decision = model.predict(data), model.decision_function(data)
    rounding = float(notes(graph)["taufpl.rounding"])
    assert rounding < 1e-3
    assert np.max(np.abs(score + rounding - decision)) <= rounding
    differs = label != expected
    assert np.all(np.abs(decision[differs]) <= 2 * rounding)
    assert not np.any(differs & (score > 0))
    assert len(np.unique(label)) == 2


OTHERWISE = ("support vectors", "sparse support vectors", "float32", "ranker", *KERNEL_MODELS)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in OTHERWISE])
def test_decisions_of_every_model_on_ten_thousand_rows(name):
    check_double(MODELS[name](), X)


def test_a_positive_label_that_sorts_first():
    check_double(MODELS["ranker"](), -X, -MANY)
    check_double(guarded(RandomForestClassifier(5, random_state=0), pos_label=0).set_params(tau=0.2).fit(X, Y), X)
    check_double(guarded(HistGradientBoostingClassifier(max_iter=5), pos_label=0).set_params(tau=0.2).fit(X, Y), X)
    check_double(guarded(LinearSVC(), pos_label=0).set_params(tau=0.2).fit(X, Y), X)


@pytest.mark.parametrize(
    "estimator",
    [
        LinearSVC(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        HistGradientBoostingClassifier(max_iter=20),
        RandomForestClassifier(20, random_state=0),
        ExtraTreesClassifier(10, random_state=0),
        DecisionTreeClassifier(max_depth=3, min_samples_leaf=30),
        GradientBoostingClassifier(n_estimators=10),
        GradientBoostingClassifier(n_estimators=5, init="zero"),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        GaussianNB(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_wrapped_scorers(estimator):
    check_double(guarded(estimator, pos_label="fraud").set_params(tau=0.1).fit(X, NAMES), X)


def test_means_of_rounds_of_trees():
    check_double(guarded(HistGradientBoostingClassifier(max_iter=5), threshold=OutOfBootstrap(n_rounds=3)).fit(X, Y), X)


@pytest.mark.parametrize("estimator", [SVC(), IsolationForest(n_estimators=10)], ids=lambda each: type(each).__name__)
def test_scorers_in_single_precision(estimator):
    check_single(guarded(estimator, threshold="cross", cv=2).fit(X, Y), X)


def test_steps_in_single_precision():
    check_single(make_pipeline(PowerTransformer(), plain()).fit(X, Y), X)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler(with_mean=False), MinMaxScaler((-3, 7))],
        [MinMaxScaler(clip=True), RobustScaler()],
        [MaxAbsScaler(), SelectKBest(k=2)],
        [PCA(3)],
        [ColumnTransformer([("a", StandardScaler(), [3, 1]), ("b", "drop", [0])], remainder="passthrough")],
    ],
    ids=str,
)
def test_steps_in_double_precision(steps):
    check_double(make_pipeline(*steps, plain()).fit(X, Y), X)


def test_ties_at_the_threshold_stay_negative_in_single_precision():
    """A score that many rows share: one of them above the threshold by rounding would be all of them above it."""
    coarse, coarse_many = np.round(X), np.round(MANY)
    model = guarded(CalibratedClassifierCV(SVC(), cv=2)).fit(coarse, Y)
    check_single(model, coarse, coarse_many)
    negative = guarded(SVC()).fit(coarse, Y)
    at_threshold = np.abs(negative.decision_function(coarse_many)) < 1e-6
    assert at_threshold.sum() >= 5
    label, _ = run(to_onnx(negative, coarse), {"X": coarse_many})
    assert not label[at_threshold].any()


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(columns(), plain()),
        guarded(make_pipeline(columns(), RandomForestClassifier(5, random_state=0))),
        guarded(
            make_pipeline(columns(), LogisticRegression(max_iter=1000)),
            threshold=OutOfBootstrap(n_rounds=2),
            delta=None,
        ),
    ],
    ids=["linear", "forest", "rounds"],
)
def test_frames_with_gaps_and_categories(model):
    model.fit(FRAME, FRAME_Y)
    graph = check_double(model, FRAME, MANY_FRAME, feed_of(MANY_FRAME))
    kinds = {each.name: each.type.tensor_type.elem_type for each in graph.graph.input}
    types = onnx.TensorProto
    expected = [types.DOUBLE, types.DOUBLE, types.STRING, types.STRING, types.INT64, types.FLOAT, types.BOOL]
    assert kinds == dict(zip(FRAME.columns, expected, strict=True))


def test_frames_of_polars():
    """Its missing texts are None, which an imputer of NaN leaves to the encoder."""

    def polar(frame):
        values = {name: [None if pd.isna(each) else each for each in frame[name].tolist()] for name in frame.columns}
        return pl.DataFrame(values).with_columns(pl.col("single").cast(pl.Float32))

    frame, many = polar(FRAME), polar(MANY_FRAME)
    # Older versions of scikit-learn do not join sparse columns and those of polars.
    encoders = ("kind", "count", "channel__onehotencoder")
    steps = columns().set_params(**{f"{name}__sparse_output": False for name in encoders})
    model = make_pipeline(steps, plain()).fit(frame, FRAME_Y)
    assert None in model[0].named_transformers_["channel"][-1].categories_[0]
    check_double(model, frame, many, feed_of(MANY_FRAME))


def test_a_category_that_was_not_seen_leaves_no_score():
    model = make_pipeline(columns(), plain()).fit(FRAME, FRAME_Y)
    feed = feed_of(MANY_FRAME[:4])
    feed["count"][0] = 17
    feed["in come"][1] = np.nan
    feed["kind"][2] = "never seen"
    feed["single"][3] = np.nan
    label, score = run(to_onnx(model, FRAME), feed)
    assert np.isnan(score).tolist() == [True, False, False, True]
    assert label[[0, 3]].tolist() == [0, 0]
    rare = MANY_FRAME[:4].copy()
    rare.loc[2, "kind"] = "rare"
    assert score[2] == pytest.approx(model.decision_function(rare)[2], abs=1e-12)


def test_missing_values_go_where_trees_send_them():
    holes, many = X.copy(), MANY.copy()
    for data in (holes, many):
        data[np.random.default_rng(3).random(data.shape) < 0.2] = np.nan
    check_double(guarded(HistGradientBoostingClassifier(max_iter=10)).fit(holes, Y), holes, many)
    check_double(guarded(RandomForestClassifier(5, random_state=0)).fit(holes, Y), holes, many)


def test_forests_look_at_numbers_in_single_precision():
    """A hair above a threshold, and yet not above it once it is rounded to float32, as scikit-learn does."""
    model = guarded(RandomForestClassifier(5, random_state=0)).fit(X, Y)
    trees = [each.tree_ for each in model.estimator_.estimators_]
    near = np.concatenate([each.threshold[each.feature >= 0] for each in trees])
    rng = np.random.default_rng(0)
    data = np.where(rng.random((2000, 4)) < 0.5, MANY[:2000], rng.choice(near, (2000, 4)) + 1e-10)
    rounded = model.decision_function(data)
    exact = np.mean([each.value[_leaves(each, data), 0, 1] for each in trees], axis=0)
    assert np.any(np.abs(rounded + model.threshold_ - exact) > 1e-3)
    check_double(model, X, data)


def _leaves(tree, data):
    """The leaf of each row, compared in double precision."""
    nodes = np.zeros(len(data), dtype=int)
    for _ in range(tree.max_depth):
        inner = tree.children_left[nodes] != -1
        left = data[np.arange(len(data)), np.maximum(tree.feature[nodes], 0)] <= tree.threshold[nodes]
        nodes = np.where(inner, np.where(left, tree.children_left[nodes], tree.children_right[nodes]), nodes)
    return nodes


def test_numeric_categories_and_gaps():
    counts, many = np.round(X[:, :2]), np.round(MANY[:, :2])
    for data in (counts, many):
        data[np.random.default_rng(3).random(data.shape) < 0.2] = np.nan
    steps = [("seen", OneHotEncoder(handle_unknown="ignore"), [0]), ("filled", SimpleImputer(strategy="median"), [1])]
    model = make_pipeline(ColumnTransformer(steps), plain()).fit(counts, Y)
    check_double(model, counts, many)


def test_float32_data():
    single, many = X.astype(np.float32), MANY.astype(np.float32)
    graph = check_double(MODELS["float32"](), single, many)
    assert graph.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    check_single(make_pipeline(StandardScaler(), plain()).fit(single, Y), single, many)


def test_a_number_of_columns_is_enough_for_numbers():
    model = plain().fit(X, Y)
    label, _ = run(to_onnx(model, 4), {"X": MANY})
    assert np.array_equal(label, model.predict(MANY))
    assert to_onnx(model, sparse.coo_matrix(X)).graph.input[0].type == to_onnx(model, X).graph.input[0].type


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(["b", "a"], ["b", "a"]), ([True, False], [1, 0]), ([2.0, 1.0], [2, 1]), ([-1, 7], [-1, 7])],
)
def test_labels(labels, expected):
    y = np.where(Y == 0, *np.array(labels))
    model = TauFPLRanker(0.05, pos_label=labels[1]).fit(X, y)
    label, score = run(to_onnx(model, 4), {"X": MANY})
    assert label.tolist() == [expected[int(each)] for each in score > 0]
    assert set(label.tolist()) == set(expected)


def test_a_threshold_that_nothing_passes():
    model = guarded(LogisticRegression(), insufficient="infinite").set_params(tau=1e-4).fit(X, Y)
    label, score = run(to_onnx(model, X), {"X": MANY})
    assert not label.any()
    assert np.array_equal(score, model.decision_function(MANY))


def test_notes_and_versions():
    graph = to_onnx(plain().fit(X, Y), X, target_opset=21)
    assert {each.domain: each.version for each in graph.opset_import} == {"": 21}
    assert notes(graph)["taufpl.model"] == "TauFPLClassifier"
    assert notes(graph)["taufpl.tau"] == "0.05"
    assert graph.producer_name == "taufpl"
    onnx.checker.check_model(graph, full_check=True)
    with pytest.raises(ValueError, match="target_opset must be 19 or later"):
        to_onnx(plain().fit(X, Y), X, target_opset=12)


def test_files(tmp_path):
    model = plain().fit(X, Y)
    save_onnx(model, tmp_path / "model.onnx", X)
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(["label"], {"X": MANY})[0], model.predict(MANY))
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


class Twice(StandardScaler):
    """A scaler that does more than its class does."""

    def transform(self, X, copy=None):
        return 3.0 * (X - self.mean_) + 1.0


REFUSED = {
    "a scorer without a converter": (lambda: guarded(ScoreItself()).fit(X, Y), X, r"does not know how many columns"),
    "a function": (
        lambda: make_pipeline(FunctionTransformer(np.tanh), plain()).fit(X, Y),
        X,
        r"FunctionTransformer cannot be exported to ONNX .*Supported are linear models, trees",
    ),
    "a step that has no converter": (
        lambda: make_pipeline(Twice(), plain()).fit(X, Y),
        X,
        "Twice cannot be exported to ONNX",
    ),
    "categories of boosting": (
        lambda: guarded(HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])).fit(
            np.abs(np.round(X)), Y
        ),
        np.abs(np.round(X)),
        "with categorical features",
    ),
    "boosting from a model": (
        lambda: guarded(GradientBoostingClassifier(n_estimators=2, init=GaussianNB())).fit(X, Y),
        X,
        "init estimator",
    ),
    "a frame as a matrix": (lambda: make_pipeline(columns(), plain()).fit(FRAME, FRAME_Y), 7, "give some of its rows"),
    "a column called as an output": (
        lambda: plain().fit(FRAME[["single"]].rename(columns={"single": "score"}), FRAME_Y),
        FRAME[["single"]].rename(columns={"single": "score"}),
        "an input cannot be called 'score'",
    ),
    "names without a frame": (lambda: plain().fit(FRAME[["single"]], FRAME_Y), X[:, :1], "give X as a frame"),
    "objects": (
        lambda: make_pipeline(OneHotEncoder(), plain()).fit(FRAME[["kind"]], FRAME_Y),
        FRAME[["kind"]].map(len).map(lambda size: (size,)),
        "a column of X holds tuple",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused(name):
    make, sample, message = REFUSED[name]
    with pytest.raises(ExportError, match=message):
        to_onnx(make(), sample)


def test_a_graph_that_scores_otherwise_is_not_given_out(monkeypatch):
    model = make_pipeline(StandardScaler(), plain()).fit(X, Y)
    monkeypatch.setattr(StandardScaler, "transform", Twice.transform)
    with pytest.raises(ExportError, match=r"scores otherwise than the model, and decides otherwise on \d+ of 256 rows"):
        to_onnx(model, X)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (X[:, :2], "the 4 columns that the model was fitted on"),
        (5, "the 4 columns"),
        (np.full((3, 4), "a"), "must hold numbers"),
        (pd.DataFrame(X[:, :3]), "the 4 columns that the model was fitted on"),
    ],
)
def test_a_sample_that_does_not_fit(sample, message):
    with pytest.raises(ValueError, match=message):
        to_onnx(plain().fit(X, Y), sample)


def test_missing_columns_are_named():
    model = make_pipeline(columns(), plain()).fit(FRAME, FRAME_Y)
    with pytest.raises(ValueError, match=re.escape("missing are ['kind']")):
        to_onnx(model, FRAME.drop(columns="kind"))
