"""Stacks travel as a whole: encoder, members of every library, weights and threshold."""

import sqlite3
import zipfile

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from boosting_cases import catboost, lightgbm, xgboost
from persistence_cases import table
from taufpl import NeymanPearsonClassifier, ScreeningClassifier, TauFPLClassifier
from taufpl.estimators import StackedScorer
from taufpl.exceptions import ExportError, ModelFileError
from taufpl.persistence import load_model, save_model, to_json, to_onnx, to_sql


def screen(candidates, **settings):
    return ScreeningClassifier(0.1, effort="fast", candidates=candidates, random_state=0, **settings)


def mixed(n, seed):
    """Rows of numbers, categories, truth values and dates, and names of their labels."""
    frame, y = table(n, seed)
    seconds = np.random.default_rng(seed).integers(0, 10**8, n)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s")
    return frame, np.where(y == 1, "fraud", "fine")


FRAME, NAMES = mixed(900, 0)
FRESH, _ = mixed(10_000, 1)
FRESH.loc[::7, "kind"] = "unknown"
FRESH.loc[::11, "day"] = pd.NaT
MEMBERS = [
    lightgbm(),
    xgboost(),
    catboost(),
    ("forest", RandomForestClassifier(8, max_features=0.2)),
    ("extra trees", ExtraTreesClassifier(8)),
    ("boosting", HistGradientBoostingClassifier(max_iter=8, max_features=0.3)),
    ("logistic", make_pipeline(StandardScaler(), LogisticRegression())),
    ("tree", DecisionTreeClassifier(max_depth=2)),
    ("steep boosting behind a scaler", make_pipeline(StandardScaler(), xgboost(learning_rate=5.0))),
    ("forest behind a scaler", make_pipeline(StandardScaler(), RandomForestClassifier(8))),
]


def fed(session, frame):
    """The columns of a frame as a graph takes them."""
    feed = {}
    for each in session.get_inputs():
        column = frame[each.name]
        if column.dtype.kind == "M":
            column = (column - pd.Timestamp(0)).dt.total_seconds()
        is_text = each.type == "tensor(string)"
        values = column.fillna("").to_numpy(dtype=object) if is_text else column.to_numpy(dtype=np.float64)
        feed[each.name] = values[:, np.newaxis]
    return feed


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_a_stack_decides_alike_in_python_in_files_and_in_graphs(tmp_path):
    model = screen(MEMBERS[:1], pos_label="fraud").fit(FRAME, NAMES)
    # All have a part in the decision, whether they deserve it or not.
    alone = [StackedScorer(effort="fast", candidates=[each], pos_label="fraud").fit(FRAME, NAMES) for each in MEMBERS]
    model.estimator_.encoder_ = alone[0].encoder_
    model.estimator_.members_ = [member for stack in alone for member in stack.members_]
    expected = model.decision_function(FRESH)
    for path in (tmp_path / "model.skops", tmp_path / "again.skops"):
        header = save_model(model, path)
        model = load_model(path).model
        np.testing.assert_array_equal(model.decision_function(FRESH), expected)
    assert header.training["model"] == "ScreeningClassifier"
    assert model.leaderboard_["candidate"].tolist()[0] == "stack"
    session = onnxruntime.InferenceSession(to_onnx(model, FRAME).SerializeToString())
    label, score = session.run(["label", "score"], fed(session, FRESH))
    np.testing.assert_array_equal(label, model.predict(FRESH))
    np.testing.assert_allclose(score, expected, rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_a_stack_of_linear_models_is_a_formula():
    frame, fresh = FRAME.drop(columns="day"), FRESH.drop(columns="day")
    ranking = TauFPLClassifier(0.1, threshold="train", reg=0.1, tau_scale=1.0)
    model = screen([ranking, LogisticRegression()], pos_label="fraud").fit(frame, NAMES)
    database = sqlite3.connect(":memory:")
    fresh.to_sql("rows", database, index=False)
    answer = pd.read_sql(to_sql(model, table="rows"), database)
    database.close()
    np.testing.assert_array_equal(answer["taufpl_label"], model.predict(fresh))
    np.testing.assert_allclose(answer["taufpl_score"], model.decision_function(fresh), rtol=0, atol=1e-9)


def test_a_stack_on_sparse_rows_is_a_formula(tmp_path):
    X = sparse.random(800, 3000, 0.01, random_state=0, format="csr")
    y = (X[:, :20].toarray().sum(axis=1) > 0.1).astype(int)
    model = screen([LogisticRegression()]).fit(X, y)
    form = to_json(model)
    weights = np.zeros(X.shape[1])
    for name, weight in form["weights"].items():
        weights[int(name[1:])] = weight
    np.testing.assert_array_equal(X @ weights + form["intercept"] > form["threshold"], model.predict(X) == 1)
    session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
    np.testing.assert_array_equal(session.run(["label"], {"X": X.toarray()})[0], model.predict(X))
    save_model(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").model.predict(X), model.predict(X))


def test_what_cannot_travel_is_refused_by_name(tmp_path):
    class Own(LogisticRegression):
        pass

    model = screen([Own()], pos_label="fraud").fit(FRAME, NAMES)
    with pytest.raises(ModelFileError, match="Own"):
        save_model(model, tmp_path / "model.skops")
    with pytest.raises(ExportError, match="StackedScorer is not a sum"):
        to_json(screen([DecisionTreeClassifier(max_depth=2)], pos_label="fraud").fit(FRAME, NAMES))


def test_lists_of_trees_take_few_arrays_and_come_back_as_they_were(tmp_path):
    X, y = FRAME[["in come", "count"]].to_numpy(), (NAMES == "fraud").astype(int)
    for scorer in (RandomForestClassifier(40), ExtraTreesClassifier(40), HistGradientBoostingClassifier(max_iter=40)):
        model = NeymanPearsonClassifier(scorer, 0.1, random_state=0).fit(X, y)
        save_model(model, tmp_path / "model.skops")
        with zipfile.ZipFile(tmp_path / "model.skops") as archive:
            assert len(archive.namelist()) < 40
        loaded = load_model(tmp_path / "model.skops").model
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        trees = [getattr(each.estimator_, "estimators_", None) for each in (loaded, model)]
        if trees[0] is not None:
            assert [each.get_params() for each in trees[0]] == [each.get_params() for each in trees[1]]
            assert trees[0][7].get_depth() == trees[1][7].get_depth()
