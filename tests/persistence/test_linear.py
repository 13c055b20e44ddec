"""Linear models as JSON and SQL decide as they do in Python."""

import json
import math
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDOneClassSVM
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from persistence_cases import FRAME, FRAME_Y, KERNEL_MODELS, MODELS, NAMES, X, Y, columns, guarded, rows, table
from taufpl import NeymanPearsonClassifier, ScoreScreen, TauFPLClassifier, TauFPLRanker
from taufpl.exceptions import ExportError
from taufpl.persistence import to_json, to_sql, training_summary
from taufpl.thresholding import OutOfBootstrap

FRESH, _ = rows(1000, seed=1)
FRESH_FRAME, _ = table(1000, seed=1)


def plain():
    return TauFPLClassifier(0.05, reg=0.1, tau_scale=20.0, random_state=0)


def raw_score(form, row):
    """A row's raw score by the JSON alone, in plain Python; None where there is none."""
    total = form["intercept"]
    for name, weight in form["weights"].items():
        if row[name] is None:
            if name not in form["missing"]:
                return None
            total += form["missing"][name]
        else:
            total += weight * row[name]
    for name, each in form["categories"].items():
        known = {value: weight for value, weight in each["weights"]}
        weight = each["missing"] if row[name] is None else known.get(row[name], each["unknown"])
        if weight is None:
            return None
        total += weight
    return total


def decide(form, row):
    found = raw_score(form, row)
    if found is None:
        return None
    return form["positive_label"] if found - form["threshold"] > 0 else form["negative_label"]


def as_frame(data):
    return (
        data if isinstance(data, pd.DataFrame) else pd.DataFrame(data, columns=[f"x{j}" for j in range(data.shape[1])])
    )


def records(data):
    """Rows as dicts of plain values, None for a missing one."""
    plain_rows = as_frame(data).astype(object).to_dict("records")
    return [{name: None if pd.isna(value) else value for name, value in row.items()} for row in plain_rows]


def query(sql, data, name="events"):
    """What SQLite says to a query on these rows."""
    listed = records(data)
    quoted = ", ".join('"' + column.replace('"', '""') + '"' for column in listed[0])
    table_name = '"' + name.replace('"', '""') + '"'
    database = sqlite3.connect(":memory:")
    try:
        database.execute(f"CREATE TABLE {table_name} ({quoted})")
        marks = ", ".join("?" * len(listed[0]))
        database.executemany(f"INSERT INTO {table_name} VALUES ({marks})", [tuple(row.values()) for row in listed])
        return [tuple(row) for row in database.execute(sql)]
    finally:
        database.close()


def query_typed(sql, data, name="events"):
    """What DuckDB says, whose columns have the types of the frame: booleans are not numbers there."""
    with duckdb.connect() as database:
        database.execute("SET threads = 1")
        database.register(name, as_frame(data))
        return database.execute(sql).fetchall()


def check(model, data):
    """JSON, the query and the condition all decide as the model does, in two databases."""
    expected = model.predict(data).tolist()
    assert len(set(expected)) == 2
    form = json.loads(json.dumps(to_json(model), allow_nan=False))
    assert [decide(form, row) for row in records(data)] == expected
    for ask in (query, query_typed):
        answers = ask(to_sql(model, table="events"), data)
        assert [row[-1] for row in answers] == expected
        raw, scores = (np.array([row[place] for row in answers]) for place in (-3, -2))
        assert np.allclose(scores, model.decision_function(data), rtol=1e-9, atol=1e-12)
        assert np.array_equal(raw - form["threshold"], scores)
        conditions = ask(f"SELECT {to_sql(model)} FROM events", data)
        assert [form["positive_label"] if row[0] else form["negative_label"] for row in conditions] == expected


OTHERS = ("forest", "boosting", "support vectors", "sparse support vectors", *KERNEL_MODELS)
LINEAR = [name for name in MODELS if name not in OTHERS]


@pytest.mark.parametrize("name", LINEAR)
def test_decisions_of_every_linear_model(name):
    data = -FRESH if name == "ranker" else FRESH
    check(MODELS[name](), data)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False), MinMaxScaler((-3, 7))],
        [MaxAbsScaler(), RobustScaler()],
        [RobustScaler(with_scaling=False), StandardScaler(with_std=False), "passthrough", FunctionTransformer()],
        [SelectKBest(k=2), StandardScaler()],
        [FeatureUnion([("a", StandardScaler()), ("b", MinMaxScaler())])],
        [SimpleImputer(), StandardScaler()],
    ],
)
def test_scalers_are_folded_into_the_weights(steps):
    check(make_pipeline(*steps, plain().set_params(pos_label="fraud")).fit(5.0 * X + 30.0, NAMES), 5.0 * FRESH + 30.0)


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(), RidgeClassifier()])
@pytest.mark.parametrize("pos_label", ["fraud", "fine"])
def test_wrapped_linear_classifiers(estimator, pos_label):
    model = guarded(
        make_pipeline(StandardScaler(), estimator), pos_label=pos_label, threshold=OutOfBootstrap(n_rounds=2)
    )
    check(model.set_params(tau=0.2).fit(X, NAMES), FRESH)


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(columns(), plain()),
        guarded(
            make_pipeline(columns(), LogisticRegression(max_iter=1000)),
            threshold=OutOfBootstrap(n_rounds=2),
            delta=None,
        ),
    ],
)
def test_frames_with_gaps_and_categories(model):
    model.fit(FRAME, FRAME_Y)
    assert FRESH_FRAME.isna().any().sum() == 2
    assert (FRESH_FRAME["kind"] == "rare").any()
    check(model, FRESH_FRAME)


def test_the_folding_is_exact():
    """The weights are the sums and products of the model's own numbers, rounded once."""
    from fractions import Fraction

    wide, labels = rows(300, d=100)
    # Far to both sides, so that the products nearly cancel in the intercept.
    model = make_pipeline(StandardScaler(), plain()).fit(1e3 * wide + np.tile([1e6, -1e6], 50), labels)
    scaler, head = model[0], model[-1]
    form = to_json(model)
    exact = [Fraction(w) / Fraction(s) for w, s in zip(head.coef_[0].tolist(), scaler.scale_.tolist(), strict=True)]
    assert list(form["weights"].values()) == [float(each) for each in exact]
    moved = sum((each * Fraction(m) for each, m in zip(exact, scaler.mean_.tolist(), strict=True)), start=Fraction(0))
    assert form["intercept"] == float(-moved)
    assert form["threshold"] == head.threshold_


def test_sql_measures_from_the_centre():
    """Times in seconds, say: large beside their spread, so that weights times values would cancel."""
    late, fresh = 1e-3 * X + 1e6, 1e-3 * FRESH + 1e6
    model = make_pipeline(StandardScaler(), plain()).fit(late, Y)
    form, expected = to_json(model), model.decision_function(fresh)
    by_sql = np.array([row[-2] for row in query(to_sql(model, table="events"), fresh)])
    by_json = np.array([raw_score(form, row) - form["threshold"] for row in records(fresh)])
    assert np.max(np.abs(by_sql - expected)) < 1e-13
    assert 1e-11 < np.max(np.abs(by_json - expected)) < 1e-5


def test_json_says_what_it_is():
    form = to_json(MODELS["two tolerances"]())
    model = MODELS["two tolerances"]()
    assert form["format"] == "taufpl-linear"
    assert form["format_version"] == 1
    assert form["tau"] == [0.2, 0.1]
    assert form["taus_and_thresholds"] == [[0.2, model.thresholds_[0]], [0.1, model.thresholds_[1]]]
    assert form["threshold"] == model.threshold_
    assert list(form["weights"]) == ["x0", "x1", "x2", "x3"]
    assert to_json(MODELS["classifier"]())["positive_label"] == "fraud"


@pytest.mark.parametrize(("dialect", "name"), [("ansi", 'ev"e`n]ts'), ("mysql", 'ev"e`n]ts'), ("tsql", 'ev"e`nts')])
def test_dialects_quote_names_and_texts(dialect, name):
    frame = FRAME.rename(columns={"in come": "it`s"})
    fresh = FRESH_FRAME.rename(columns={"in come": "it`s"})
    changed = columns()
    changed.transformers[2] = (*changed.transformers[2][:2], ['amount "net"', "it`s"])
    model = make_pipeline(changed, plain()).fit(frame, FRAME_Y)
    sql = to_sql(model, table=name, dialect=dialect)
    # SQLite reads the quotes of all three; its texts have no N before them.
    answers = query(sql.replace("N'", "'"), fresh, name)
    assert [row[-1] for row in answers] == model.predict(fresh).tolist()


def test_quoting_by_the_book():
    frame = pd.DataFrame({'a"b`c]': X[:, 0]})
    bad = "it's \\ bad"
    model = TauFPLRanker(0.05, pos_label=bad).fit(frame, np.where(Y, bad, "fine"))
    assert '"a""b`c]"' in to_sql(model)
    assert '`a"b``c]`' in to_sql(model, dialect="mysql")
    assert '[a"b`c]]]' in to_sql(model, dialect="tsql")
    assert "'it''s \\ bad'" in to_sql(model, table="t")
    assert "'it''s \\\\ bad'" in to_sql(model, table="t", dialect="mysql")
    assert "N'it''s \\ bad'" in to_sql(model, table="t", dialect="tsql")
    assert 'FROM "a.b"."c""d" AS' in to_sql(model, table=["a.b", 'c"d'])
    with pytest.raises(ValueError, match="dialect must be one of"):
        to_sql(model, dialect="cobol")


def test_missing_and_unknown_values_leave_no_decision():
    model = make_pipeline(columns(), plain()).fit(FRAME, FRAME_Y)
    strange = FRESH_FRAME[:3].astype({"single": object, "kind": object}).copy()
    strange.iloc[0, strange.columns.get_loc("single")] = None
    strange.iloc[1, strange.columns.get_loc("count")] = 17
    strange.iloc[2, strange.columns.get_loc("kind")] = "never seen"
    answers = query(to_sql(model, table="events"), strange)
    assert query_typed(to_sql(model, table="events"), strange.astype({"flag": bool}))[0][-3:] == (None, None, None)
    infrequent = strange.iloc[[2]].assign(kind="rare").astype({"single": np.float32})
    form = to_json(model)
    expected = model.decision_function(infrequent)[0]
    assert [row[-2] for row in answers] == [None, None, pytest.approx(expected, rel=1e-12)]
    assert [row[-1] for row in answers] == [None, None, model.predict(infrequent)[0]]
    by_json = [raw_score(form, row) for row in records(strange)]
    assert by_json == [None, None, pytest.approx(expected + form["threshold"], rel=1e-9)]
    assert query(f"SELECT {to_sql(model)} FROM events", strange)[0] == (None,)


def test_none_is_not_nan_to_an_imputer():
    """An imputer of NaN leaves None, which the encoder then has seen as a category of its own."""
    values = np.random.default_rng(0).choice(np.array(["a", "b", None], dtype=object), len(X))
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Series(values, dtype=object)})
    steps = ColumnTransformer(
        [("c", make_pipeline(SimpleImputer(strategy="constant", fill_value="a"), OneHotEncoder()), ["c"])],
        remainder="passthrough",
    )
    model = make_pipeline(steps, plain()).fit(frame, Y)
    assert None in model[0].transformers_[0][1][-1].categories_[0]
    check(model, frame)


def test_booleans_integers_and_texts_with_quotes_in_a_typed_database():
    """Booleans with gaps, integers, texts with quotes and a date beside them, as a database holds them."""
    rng = np.random.default_rng(0)
    n = len(Y)
    frame = pd.DataFrame(
        {
            "flag": rng.random(n) < 0.3 + 0.4 * Y,
            "maybe": np.where(rng.random(n) < 0.1, np.nan, (rng.random(n) < 0.3 + 0.4 * Y).astype(float)),
            "count": rng.integers(-(2**40), 2**40, n) + 2**39 * Y,
            "name": rng.choice(["O'Neill", 'a "b"', "it''s", "back\\slash", "percent %", "naïve"], n),
        }
    )
    steps = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["flag", "maybe", "count"]),
            ("name", OneHotEncoder(handle_unknown="ignore"), ["name"]),
            ("truth", OneHotEncoder(), ["flag"]),
        ]
    )
    model = guarded(make_pipeline(steps, LogisticRegression())).set_params(tau=0.2).fit(frame, Y)
    check(model, frame)
    with duckdb.connect() as database:
        database.register("frame", frame)
        database.execute(
            "CREATE TABLE events AS SELECT flag, CAST(maybe AS BOOLEAN) AS maybe, count, name, "
            "DATE '2020-02-29' AS day FROM frame"
        )
        kinds = {name: kind for name, kind, *_ in database.execute("DESCRIBE events").fetchall()}
        answers = database.execute(to_sql(model, table="events")).fetchall()
    assert (kinds["flag"], kinds["maybe"], kinds["count"]) == ("BOOLEAN", "BOOLEAN", "BIGINT")
    assert [row[-1] for row in answers] == model.predict(frame).tolist()


@pytest.mark.slow
def test_many_columns_do_not_make_a_deep_expression():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(300, 1500)) + 0.3 * Y[:300, np.newaxis]
    model = guarded(LogisticRegression(), threshold="train").fit(wide, Y[:300])
    # SQLite has at most 2,000 columns and expressions 1,000 deep.
    check(model, wide)


def test_a_threshold_that_nothing_passes():
    model = guarded(LogisticRegression(), insufficient="infinite").set_params(tau=1e-4).fit(X, Y)
    assert model.threshold_ == math.inf
    assert json.loads(json.dumps(to_json(model), allow_nan=False))["threshold"] == np.finfo(float).max
    assert {row[-1] for row in query(to_sql(model, table="events"), FRESH)} == {0}


def test_weights_of_zero_are_left_out():
    sparse_model = guarded(LogisticRegression()).fit(X, Y)
    sparse_model.estimator_.coef_[0, 2] = 0.0
    form = to_json(sparse_model)
    assert "x2" not in form["weights"]
    assert "x2" not in to_sql(sparse_model)


class Twice(StandardScaler):
    """A scaler that does more than its class does."""

    def transform(self, X, copy=None):
        return 3.0 * super().transform(X, copy) + 1.0


REFUSED = {
    "a forest": (lambda: MODELS["forest"](), r"RandomForestClassifier is not a sum.*to_onnx"),
    "probabilities": (lambda: guarded(RandomForestClassifier(2)).fit(X, Y), "RandomForestClassifier"),
    "a detector": (lambda: guarded(SGDOneClassSVM()).fit(X, Y), "SGDOneClassSVM"),
    "a clipping scaler": (lambda: make_pipeline(MinMaxScaler(clip=True), plain()).fit(X, Y), "MinMaxScaler that clips"),
    "PCA": (lambda: make_pipeline(PCA(2), plain()).fit(X, Y), r"PCA cannot be written in (JSON|SQL).*to_onnx"),
    "a function": (lambda: make_pipeline(FunctionTransformer(np.tanh), plain()).fit(X, Y), "FunctionTransformer"),
    "a scaler of another class": (lambda: make_pipeline(Twice(), plain()).fit(X, Y), "Twice cannot be written"),
    "an imputer too late": (
        lambda: make_pipeline(StandardScaler(), SimpleImputer(), plain()).fit(X, Y),
        "SimpleImputer after a step that changes the numbers.*put it first",
    ),
    "an imputer of another value": (
        lambda: make_pipeline(SimpleImputer(missing_values=-1), plain()).fit(X, Y),
        "missing_values=-1",
    ),
    "weights of a union": (
        lambda: make_pipeline(FeatureUnion([("a", StandardScaler())], transformer_weights={"a": 2.0}), plain()).fit(
            X, Y
        ),
        "transformer_weights",
    ),
}


@pytest.mark.parametrize("export", [to_json, to_sql])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused(name, export):
    make, message = REFUSED[name]
    with pytest.raises(ExportError, match=message):
        export(make())


@pytest.mark.parametrize("is_high", [True, False])
def test_scores_of_your_own_are_compared_as_they_stand(is_high):
    scores = pd.DataFrame({"score": (X if is_high else -X) @ np.ones(4)})
    screen = ScoreScreen("score", 0.05, higher_is_positive=is_high).fit(scores, Y)
    name, sign, limit = to_sql(screen).split()
    assert (name, sign, float(limit)) == ('"score"', ">" if is_high else "<", screen.threshold_)
    # In a query too, so that a database may use an index.
    assert f'CASE WHEN "taufpl_source"."score" {sign} {limit} THEN 1' in to_sql(screen, table="events")
    raw, distance, labels = (
        np.array(each) for each in list(zip(*query(to_sql(screen, table="events"), scores), strict=True))[-3:]
    )
    np.testing.assert_array_equal(raw, scores["score"] * (1 if is_high else -1))
    np.testing.assert_array_equal(distance, screen.decision_function(scores))
    np.testing.assert_array_equal(labels, screen.predict(scores))
    # What a step has changed is computed first, even by a weight of 1.
    filled = make_pipeline(SimpleImputer(), ScoreScreen(0, 0.05, higher_is_positive=is_high)).fit(scores, Y)
    assert "CASE" in to_sql(filled) or "COALESCE" in to_sql(filled)
    kept = scores.assign(score=scores["score"].where(np.arange(len(scores)) % 7 > 0))
    for row, label in zip(records(kept), filled.predict(kept), strict=True):
        assert decide(to_json(filled), row) == label


def test_columns_are_counted_by_weights_where_an_estimator_does_not_know_them():
    counted = LogisticRegression().fit(X, Y)
    uncounted = LogisticRegression().fit(X, Y)
    del uncounted.n_features_in_
    expected, found = (NeymanPearsonClassifier(FrozenEstimator(each), 0.05).fit(X, Y) for each in (counted, uncounted))
    assert training_summary(found)["n_features"] == 4
    assert to_json(found)["weights"] == to_json(expected)["weights"]
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    del scaled[0].n_features_in_
    assert training_summary(NeymanPearsonClassifier(FrozenEstimator(scaled), 0.05).fit(X, Y))["n_features"] is None
