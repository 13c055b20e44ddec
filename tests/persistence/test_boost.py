"""Models of LightGBM, XGBoost and CatBoost in files and in ONNX: the same scores, and no index followed unchecked."""

import json
import re
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from lightgbm import early_stopping
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRFClassifier

from boosting_cases import catboost, lightgbm, xgboost
from persistence_cases import edit_arrays, guarded, rewrite, rows
from taufpl import NeymanPearsonClassifier
from taufpl.exceptions import ExportError, ModelFileError
from taufpl.persistence import load_model, save_model, to_onnx
from taufpl.persistence._file_records import BoosterRecord
from taufpl.persistence._trees import booster_trees


def gaps(n, seed):
    """Rows with missing values, zeros and numbers that LightGBM takes for zero."""
    X, y = rows(n, seed)
    rng = np.random.default_rng(seed)
    for value in (np.nan, 0.0, 1e-36):
        X[rng.random(X.shape) < 0.08] = value
    return X, y


X, Y = gaps(1500, 0)


SCORERS = {
    "lightgbm": lightgbm(),
    "lightgbm, zeros missing": lightgbm(zero_as_missing=True, random_state=np.random.RandomState(0)),
    "lightgbm, forest": lightgbm(boosting_type="rf", subsample=0.5, subsample_freq=1),
    "lightgbm, one leaf": lightgbm(n_estimators=1, min_child_samples=1200),
    "xgboost": xgboost(),
    "xgboost, pruned": xgboost(tree_method="exact", gamma=3.0, missing=0.0),
    "xgboost, forest": xgboost(XGBRFClassifier, base_score=0.3),
    "catboost": catboost(boost_from_average=True),
    "catboost, leaf by leaf": catboost(grow_policy="Lossguide", nan_mode="Max"),
}


@pytest.fixture(scope="module")
def models():
    return {name: guarded(clone(scorer)).fit(X, Y) for name, scorer in SCORERS.items()}


@pytest.fixture(params=SCORERS)
def model(request, models):
    return models[request.param]


def at_thresholds(scorer, n=10_000):
    """Fresh rows many of whose features are thresholds of the trees, or their neighbours in single precision."""
    fresh, _ = gaps(n, 1)
    rng = np.random.default_rng(2)
    trees = booster_trees(scorer).trees
    splits = [(tree.feature[~tree.is_leaf], tree.threshold[~tree.is_leaf]) for tree in trees]
    feature, threshold = (np.concatenate(parts) for parts in zip(*splits, strict=True))
    for side in (None, np.inf, -np.inf) if len(feature) else ():
        place = rng.integers(len(feature), size=n)
        value = threshold[place]
        if side is not None:
            with np.errstate(over="ignore"):  # CatBoost has a border below all numbers
                value = np.nextafter(value.astype(np.float32), np.float32(side))
        fresh[rng.integers(n, size=n), feature[place]] = value
    return fresh


def test_files_keep_every_bit(model, tmp_path):
    fresh, _ = gaps(2000, 3)
    before = model.estimator_.get_params()
    for path in (tmp_path / "model.skops", tmp_path / "again.skops"):
        save_model(model, path)
        loaded = load_model(path).model
        np.testing.assert_array_equal(loaded.decision_function(fresh), model.decision_function(fresh))
        np.testing.assert_array_equal(loaded.predict(fresh), model.predict(fresh))
        model = loaded
    after = model.estimator_.get_params()
    assert {name: str(value) for name, value in after.items()} == {name: str(value) for name, value in before.items()}


@pytest.mark.parametrize("scorer", [lightgbm(), xgboost(), catboost()], ids=lambda scorer: type(scorer).__name__)
def test_loaded_models_are_fitted_anew_and_keep_what_they_know(scorer, tmp_path):
    frozen = FrozenEstimator(make_pipeline(StandardScaler(), scorer).fit(X, Y))
    model = NeymanPearsonClassifier(frozen, 0.05).fit(X, Y)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops").model
    assert isinstance(loaded.estimator, FrozenEstimator)
    inner = loaded.estimator_.estimator[-1]
    np.testing.assert_array_equal(inner.classes_, [0, 1])
    assert inner.n_features_in_ == X.shape[1]
    np.testing.assert_allclose(inner.feature_importances_, scorer.feature_importances_, rtol=1e-6)
    again = [clone(each).fit(X[:600], Y[:600]).predict_proba(X) for each in (scorer, inner)]
    np.testing.assert_array_equal(*again)


def test_the_best_round_is_kept(tmp_path):
    parts = {"eval_set": [(X[1000:], Y[1000:])]}
    stop = early_stopping(2, verbose=False)
    few = [
        lightgbm(n_estimators=60).fit(X[:1000], Y[:1000], eval_X=X[1000:], eval_y=Y[1000:], callbacks=[stop]),
        xgboost(n_estimators=60, early_stopping_rounds=2).fit(X[:1000], Y[:1000], verbose=False, **parts),
        catboost(early_stopping_rounds=2).fit(X[:1000], Y[:1000], **parts),
    ]
    for scorer in few:
        model = NeymanPearsonClassifier(FrozenEstimator(scorer), 0.1).fit(X[1000:], Y[1000:])
        save_model(model, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops").model
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
        np.testing.assert_array_equal(session.run(["label"], {"X": X})[0], model.predict(X))


def test_graphs_decide_alike(model):
    session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
    fresh = at_thresholds(model.estimator_)
    label, score = session.run(["label", "score"], {"X": fresh})
    np.testing.assert_array_equal(label, model.predict(fresh))
    np.testing.assert_allclose(score, model.decision_function(fresh), rtol=0, atol=1e-12)
    assert session.get_modelmeta().custom_metadata_map["taufpl.precision"] == "float64"


def test_the_first_class_may_be_the_positive_one():
    names = np.where(Y == 1, "fine", "fraud").astype(object)
    for scorer in (lightgbm(), catboost()):
        model = guarded(scorer, pos_label="fine").fit(X, names), guarded(clone(scorer), pos_label="fraud").fit(X, names)
        for each in model:
            session = onnxruntime.InferenceSession(to_onnx(each, X).SerializeToString())
            np.testing.assert_array_equal(session.run(["label"], {"X": X})[0], each.predict(X))


def rewritten(path, change):
    """Put another text in the place of that of the trees."""

    def edit(array):
        if array.dtype != np.uint8:
            return None
        text = change(array.tobytes().decode())
        return np.frombuffer(text.encode(), np.uint8)

    rewrite(path, edit_member=edit_arrays(edit))


def in_json(change):
    """An edit of a text in JSON by a function of its content."""

    def edit(text):
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return edit


def xgb_model(content):
    return content["learner"]["gradient_booster"]["model"]


def xgb_tree(name, value):
    return in_json(lambda content: xgb_model(content)["trees"][0][name].__setitem__(0, value))


def cat_tree(**changes):
    return in_json(lambda content: content["oblivious_trees"][0]["splits"][0].update(changes))


HOSTILE = {
    "lightgbm: a feature": ("lightgbm", lambda text: text.replace("split_feature=", "split_feature=9", 1)),
    "lightgbm: a child": ("lightgbm", lambda text: text.replace("left_child=", "left_child=9", 1)),
    "lightgbm: a loop": ("lightgbm", lambda text: text.replace("right_child=", "right_child=0 ", 1)),
    "lightgbm: a leaf": ("lightgbm", lambda text: text.replace("left_child=", "left_child=-900 ", 1)),
    "lightgbm: a category": ("lightgbm", lambda text: text.replace("decision_type=", "decision_type=1 ", 1)),
    "lightgbm: leaves": ("lightgbm", lambda text: text.replace("num_leaves=", "num_leaves=1", 1)),
    "lightgbm: classes": ("lightgbm", lambda text: text.replace("num_class=1", "num_class=900")),
    "lightgbm: columns": ("lightgbm", lambda text: text.replace("max_feature_idx=3", "max_feature_idx=900000000")),
    "lightgbm: no end": ("lightgbm", lambda text: text[:2000]),
    "xgboost: a feature": ("xgboost", xgb_tree("split_indices", 900)),
    "xgboost: a child": ("xgboost", xgb_tree("left_children", 90_000_000)),
    "xgboost: a loop": ("xgboost", xgb_tree("right_children", 0)),
    "xgboost: a category": ("xgboost", xgb_tree("split_type", 1)),
    "xgboost: a length": ("xgboost", in_json(lambda content: xgb_model(content)["trees"][0]["default_left"].pop())),
    "xgboost: rounds": ("xgboost", in_json(lambda content: xgb_model(content)["iteration_indptr"].append(90_000))),
    "xgboost: classes": (
        "xgboost",
        in_json(lambda content: content["learner"]["learner_model_param"].update(num_class="900")),
    ),
    "xgboost: no json": ("xgboost", lambda text: text[:-10]),
    "xgboost: deep json": ("xgboost", lambda text: "[" * 100_000),
    "catboost: a border": ("catboost", cat_tree(border=1e9)),
    "catboost: a feature": ("catboost", cat_tree(float_feature_index=900)),
    "catboost: leaves": ("catboost", in_json(lambda content: content["oblivious_trees"][0]["leaf_values"].pop())),
    "catboost: a column": (
        "catboost",
        in_json(lambda content: content["features_info"]["float_features"][0].update(flat_feature_index=9_000_000)),
    ),
    "catboost: no trees": ("catboost", in_json(lambda content: content.pop("oblivious_trees"))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_from_strangers_are_checked(name, models, tmp_path):
    kind, change = HOSTILE[name]
    save_model(models[kind], tmp_path / "model.skops")
    rewritten(tmp_path / "model.skops", change)
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        load_model(tmp_path / "model.skops")


def lgb_entry(name, value):
    """An edit of the first number of an entry of LightGBM's first tree; a function gets the number of its leaves."""

    def edit(text):
        n_leaves = int(text.split("num_leaves=")[1].split()[0])
        found = value(n_leaves) if callable(value) else value
        return re.sub(rf"(\n{name}=)\S+", rf"\g<1>{found}", text, count=1)

    return edit


def xgb_trees(change):
    return in_json(lambda content: change(xgb_model(content)["trees"][0]))


def xgb_learner(change):
    return in_json(lambda content: change(content["learner"]))


def cat_features(change):
    return in_json(lambda content: change(content["features_info"]["float_features"]))


def cat_info(change):
    return in_json(lambda content: change(content["model_info"]))


OUTSIDE, FEATURE = "points outside itself", "asks for a feature that is not there"
ROUNDS, BORDERS = "rounds of a model of XGBoost in it do not fit", "not numbered, or their borders not sorted"
CLASSES, CATEGORICAL = "only those for two classes", "is not supported: encode"
# Each is one step from what is sound.
AT_BORDERS = [
    ("lightgbm", lgb_entry("split_feature", 4), FEATURE),
    ("lightgbm", lgb_entry("split_feature", -1), FEATURE),
    ("lightgbm", lgb_entry("left_child", 0), OUTSIDE),
    ("lightgbm", lgb_entry("right_child", 0), OUTSIDE),
    ("lightgbm", lgb_entry("left_child", lambda n_leaves: n_leaves - 1), OUTSIDE),
    ("lightgbm", lgb_entry("right_child", lambda n_leaves: n_leaves - 1), OUTSIDE),
    ("lightgbm", lgb_entry("left_child", lambda n_leaves: -n_leaves - 1), OUTSIDE),
    ("lightgbm", lgb_entry("decision_type", 16), "unknown splits"),
    ("lightgbm", lgb_entry("decision_type", -2), "unknown splits"),
    ("lightgbm", lgb_entry("decision_type", 3), "unknown splits"),
    ("lightgbm", lgb_entry("decision_type", 6), "takes zeros as missing in places"),
    ("lightgbm", lgb_entry("num_cat", 1), CATEGORICAL),
    ("lightgbm", lgb_entry("is_linear", 1), CATEGORICAL),
    ("lightgbm", lgb_entry("num_leaves", 0), "has no leaves"),
    ("lightgbm", lgb_entry("num_leaves", lambda n_leaves: n_leaves + 1), "different lengths"),
    ("lightgbm", lgb_entry("threshold", "x"), "cannot be read"),
    ("lightgbm", lambda text: text.replace("feature_names=", "feature_names=more ", 1), "has other feature_names"),
    ("lightgbm", lambda text: text.replace("feature_infos=", "feature_infos=none ", 1), "has other feature_infos"),
    ("lightgbm, one leaf", lambda text: re.sub(r"\nleaf_value=.*", "\nleaf_value=", text, count=1), "as many values"),
    ("xgboost", xgb_tree("split_indices", 4), FEATURE),
    ("xgboost", xgb_tree("split_indices", -1), FEATURE),
    ("xgboost", xgb_trees(lambda tree: tree["left_children"].__setitem__(0, len(tree["left_children"]))), OUTSIDE),
    ("xgboost", xgb_trees(lambda tree: tree["right_children"].__setitem__(0, len(tree["left_children"]))), OUTSIDE),
    ("xgboost", xgb_tree("left_children", 0), OUTSIDE),
    ("xgboost", xgb_tree("left_children", -2), OUTSIDE),
    ("xgboost", xgb_tree("left_children", -1), "no node, or one with one child"),
    ("xgboost", xgb_tree("right_children", -1), "no node, or one with one child"),
    ("xgboost", xgb_trees(lambda tree: [each.clear() for each in tree.values() if isinstance(each, list)]), "no node"),
    ("xgboost", xgb_tree("split_type", 1), CATEGORICAL),
    ("xgboost", in_json(lambda content: xgb_model(content).update(cats={"enc": [1]})), CATEGORICAL),
    *(
        ("xgboost", in_json(lambda content, change=change: change(xgb_model(content)["iteration_indptr"])), ROUNDS)
        for change in (
            lambda bounds: bounds.__setitem__(0, 1),
            lambda bounds: bounds.__setitem__(-1, bounds[-1] + 1),
            lambda bounds: bounds.__setitem__(1, bounds[2] + 1),
        )
    ),
    ("xgboost", xgb_learner(lambda learner: learner["attributes"].update(best_iteration="12")), "the best round"),
    ("xgboost", xgb_learner(lambda learner: learner["attributes"].update(best_iteration="-1")), "the best round"),
    ("xgboost", xgb_learner(lambda learner: learner["objective"].update(name="reg:tweedie")), "only trees"),
    ("xgboost", xgb_learner(lambda learner: learner["gradient_booster"].update(name="dart")), "only trees"),
    ("xgboost", xgb_learner(lambda learner: learner["learner_model_param"].update(num_class="2")), "two classes"),
    ("xgboost", xgb_learner(lambda learner: learner["learner_model_param"].update(num_target="2")), "two classes"),
    ("xgboost", xgb_learner(lambda learner: learner["learner_model_param"].update(base_score="x")), "no base score"),
    ("xgboost", xgb_learner(lambda learner: learner.update(feature_names=["a"] * 3)), "do not fit their number"),
    ("xgboost", xgb_learner(lambda learner: learner.update(feature_names=[1] * 4)), "do not fit their number"),
    ("xgboost", xgb_learner(lambda learner: learner.update(feature_names="abcd")), "do not fit their number"),
    ("catboost", cat_features(lambda features: features[1].update(flat_feature_index=0)), BORDERS),
    ("catboost", cat_features(lambda features: features[1].update(feature_index=0)), BORDERS),
    ("catboost", cat_features(lambda features: features[1].update(nan_value_treatment="AsMean")), BORDERS),
    ("catboost", cat_features(lambda features: features[1]["borders"].reverse()), BORDERS),
    ("catboost", cat_features(lambda features: features[1]["borders"].append(features[1]["borders"][-1])), BORDERS),
    ("catboost", cat_features(lambda features: features[1]["borders"].append(float("inf"))), BORDERS),
    ("catboost", cat_info(lambda info: info["class_params"].update(class_to_label=[1, 0])), CLASSES),
    ("catboost", cat_info(lambda info: info["class_params"].update(class_names=[0, 1, 2])), CLASSES),
    ("catboost", cat_info(lambda info: info["class_params"].update(class_names=[0, [1]])), CLASSES),
    ("catboost", cat_info(lambda info: info.update(params={"loss_function": {"type": "RMSE"}})), CLASSES),
    ("catboost", in_json(lambda content: content.update(ctr_data={})), CATEGORICAL),
    ("catboost", in_json(lambda content: content["features_info"].update(categorical_features=[])), CATEGORICAL),
    ("catboost", cat_tree(split_type="OneHotFeature"), "border that is not there"),
    ("catboost", cat_tree(float_feature_index=None), "border that is not there"),
    ("catboost", in_json(lambda content: content["oblivious_trees"][0]["leaf_weights"].pop()), "different lengths"),
    (
        "catboost",
        in_json(
            lambda content: content["oblivious_trees"][0].update(
                splits=content["oblivious_trees"][0]["splits"][:1] * 17
            )
        ),
        "deeper than 16",
    ),
]


@pytest.mark.parametrize(("kind", "change", "words"), AT_BORDERS)
def test_each_check_of_a_text_is_needed(kind, change, words, saved_texts, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(saved_texts[kind])
    rewritten(path, change)
    with pytest.raises(ModelFileError, match=words):
        load_model(path)


@pytest.fixture(scope="module")
def saved_texts(models, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "model.skops"
    found = {}
    for kind in ("lightgbm", "lightgbm, one leaf", "xgboost", "catboost"):
        save_model(models[kind], path)
        found[kind] = path.read_bytes()
    return found


HOSTILE_STATES = {
    "many threads": (lightgbm(), {"n_jobs": 100_001}),
    "many threads by another name": (lightgbm(), {"_other_params": {"num_threads": 100_000}}),
    "threads in pairs": (lightgbm(), {"_other_params": [("num_threads", 100_000)]}),
    "threads as a text": (lightgbm(), {"n_jobs": "100000"}),
    "threads behind a value": (lightgbm(), {"_objective": "binary num_threads=100000"}),
    "threads behind values": (lightgbm(), {"_other_params": {"metric": np.array(["auc", "l2 num_threads=100000"])}}),
    "threads behind a name": (lightgbm(), {"_other_params": {"num_threads=100000 metric": 1}}),
    "threads in quotes": (lightgbm(), {"_other_params": {'"num_threads"': 100_000}}),
    "threads of xgboost": (xgboost(), {"kwargs": {"nthread": 100_000}}),
    "threads of catboost": (catboost(), {"_init_params": {"thread_count": 100_000}}),
    "a method": (xgboost(), {"predict": 1}),
    "a property": (lightgbm(), {"classes_": [1, 2]}),
}


@pytest.mark.parametrize("name", HOSTILE_STATES)
def test_settings_from_strangers_are_checked(name, monkeypatch, tmp_path):
    scorer, changes = HOSTILE_STATES[name]
    model = NeymanPearsonClassifier(FrozenEstimator(clone(scorer).fit(X[:200], Y[:200])), 0.2).fit(X, Y)
    record = BoosterRecord.of(model.estimator_.estimator)
    record.state = record.state | changes
    with monkeypatch.context() as patch:
        patch.setattr(BoosterRecord, "of", lambda model: record)
        save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=r"cannot be loaded.*a booster in it has"):
        load_model(tmp_path / "model.skops")


def test_settings_that_users_choose_are_kept(tmp_path):
    names = np.where(Y == 1, ">=50K", "a thread = 1")
    weights = {">=50K": 2.0, "a thread = 1": 1.0}
    for scorer in (lightgbm(n_jobs=-2, class_weight=weights, nthreads=3, metric=["auc", "l2"]), catboost()):
        model = guarded(scorer, pos_label=">=50K").fit(X, names)
        save_model(model, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops").model
        assert loaded.estimator_.get_params() == model.estimator_.get_params()
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    model.estimator_ = lightgbm(n_jobs=5000)
    with pytest.raises(ModelFileError, match="n_jobs=5000"):
        save_model(model, tmp_path / "model.skops")


def test_places_in_a_text_that_a_library_would_trust_are_computed_anew(models, tmp_path):
    """The sizes of LightGBM's trees, the parents of XGBoost's and CatBoost's places of borders lead anywhere."""
    changes = {
        "lightgbm": lambda text: text.replace("feature_names", "tree_sizes=99999999 99999999\nfeature_names", 1),
        "xgboost": xgb_tree("parents", 90_000_000),
        "catboost": cat_tree(split_index=90_000_000),
    }
    for kind, change in changes.items():
        save_model(models[kind], tmp_path / "model.skops")
        rewritten(tmp_path / "model.skops", change)
        loaded = load_model(tmp_path / "model.skops").model
        np.testing.assert_array_equal(loaded.decision_function(X), models[kind].decision_function(X))


def test_texts_count_against_the_bound_on_memory(models, tmp_path):
    save_model(models["catboost"], tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="max_bytes"):
        load_model(tmp_path / "model.skops", max_bytes=200_000)


def test_scores_of_another_kind_than_those_of_the_threshold_are_refused(models, tmp_path):
    save_model(models["lightgbm"], tmp_path / "model.skops")

    def edit(schema):
        return json.loads(json.dumps(schema).replace('"content": "true"', '"content": "false"'))

    rewrite(tmp_path / "model.skops", edit)
    with pytest.raises(ModelFileError, match="other scores"):
        load_model(tmp_path / "model.skops")


def test_a_missing_library_is_named_with_its_extra(models, tmp_path, monkeypatch):
    save_model(models["lightgbm"], tmp_path / "model.skops")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ModelFileError, match=r"lightgbm is needed .*taufpl\[boost\]"):
        load_model(tmp_path / "model.skops")


def test_what_is_not_supported_is_said_when_the_model_is_saved(tmp_path):
    frame = pd.DataFrame({"number": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "a", "b"))})
    model = guarded(lightgbm(min_child_samples=1)).fit(frame, Y)
    with pytest.raises(ModelFileError, match="encode them in a step before"):
        save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="gbtree"):
        save_model(guarded(xgboost(booster="gblinear")).fit(X, Y), tmp_path / "model.skops")
    with pytest.raises(ExportError, match="gbtree"):
        to_onnx(guarded(xgboost(booster="dart")).fit(X, Y), X)
    assert not list(tmp_path.iterdir())
