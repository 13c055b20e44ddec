"""Models with a threshold for each segment in databases, JSON and ONNX: every segment is decided as the model does."""

import json
import sqlite3
import warnings

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cli_cases import contents, succeed
from taufpl import NeymanPearsonClassifier, ScoreScreen, TauFPLClassifier
from taufpl.exceptions import ExportError, UnseenSegmentWarning
from taufpl.persistence import save_model, save_onnx, to_json, to_onnx, to_sql
from taufpl.preprocessing import TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

LABELS = {
    "texts": (["EU", "O'Hare", "FO", "GL", None], ["EU", "O'Hare", "FO", "JP", "eu", "missing", None]),
    "numbers": ([1.0, 2.5, 17.0, 18.0, np.nan], [1.0, 2.5, 17.0, -3.0, 9.0, np.nan]),
    "truth values": ([True, False], [True, False]),
    "codes": (["0012", "EU", "7", "300"], ["0012", "EU", "7", "300", "12", "007", "12.0", "0EU", "True", "1"]),
}


def payments(n, kind, seed, fresh=False):
    """Rows of segments of unequal sizes; fresh rows have segments that were never seen."""
    rng = np.random.default_rng(seed)
    labels = LABELS[kind][int(fresh)]
    share = None if fresh else np.array([0.5, 0.3, 0.02, 0.02, 0.16][: len(labels)])
    place = rng.choice(len(labels), n, p=None if share is None else share / share.sum())
    y = rng.random(n) < 0.3
    region = np.array(labels, dtype=object if kind == "texts" else None)[place]
    # Scores of segments differ, so that thresholds do.
    frame = pd.DataFrame({"amount": rng.normal(size=n) + 1.5 * y + 0.4 * place, "hour": rng.normal(size=n) + y})
    return frame.assign(region=pd.Series(region, dtype=region.dtype)), y.astype(int)


def predicted(model, X, labels=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenSegmentWarning)
        return model.predict(X) if labels is None else model.predict(X, segments=labels)


def in_sqlite(sql, frame):
    with sqlite3.connect(":memory:") as database:
        frame.astype(object).where(frame.notna(), None).to_sql("events", database, index=False)
        return database.execute(sql).fetchall()


def in_duckdb(sql, frame):
    with duckdb.connect() as database:
        # A frame's NaN is NULL in a table.
        database.register("given", frame)
        names = ", ".join(
            f'CASE WHEN "{name}"::VARCHAR = \'nan\' THEN NULL ELSE "{name}" END AS "{name}"' for name in frame
        )
        database.execute(f"CREATE TABLE events AS SELECT {names} FROM given")
        return database.execute(sql).fetchall()


def by_json(form, frame):
    """Decisions by the document alone."""
    segments, decisions = form["segments"], []
    known = dict(map(tuple, segments["thresholds"]))
    for row in frame.astype(object).where(frame.notna(), None).to_dict("records"):
        score = form["intercept"]
        for name, weight in form["weights"].items():
            score += form["missing"][name] if row[name] is None else weight * row[name]
        for name, each in form["categories"].items():
            weights = dict(map(tuple, each["weights"]))
            score += each["missing"] if row[name] is None else weights.get(row[name], each["unknown"])
        label = row[segments["column"]]
        label = str(label).lower() if isinstance(label, bool) else label
        is_missing = label is None or label == "missing"
        limit = segments["missing"] if is_missing else known.get(label, segments["unknown"])
        decisions.append(form["positive_label"] if score > limit else form["negative_label"])
    return decisions


def check_linear(model, frame, expected, **options):
    form = json.loads(json.dumps(to_json(model, **options), allow_nan=False))
    assert form["format_version"] == 3
    assert by_json(form, frame) == expected
    for ask in (in_sqlite, in_duckdb):
        answers = ask(to_sql(model, table="events", **options), frame)
        assert [row[-1] for row in answers] == expected
        raw, limit, score = (np.array([row[place] for row in answers]) for place in (-4, -3, -2))
        assert np.array_equal(raw - limit, score)
        conditions = ask(f"SELECT {to_sql(model, **options)} FROM events", frame)
        assert [form["negative_label"], form["positive_label"]].index(1) == 1
        assert [int(row[0]) for row in conditions] == expected


def check_onnx(graph, feed, expected):
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    label, score = session.run(["label", "score"], feed)
    assert label.tolist() == expected
    assert ((score > 0) == np.array(expected)).all()


def fed(frame):
    columns = {name: frame[name].to_numpy().reshape(-1, 1) for name in frame}
    # Behind a table encoder truth values are doubles.
    columns = {name: each.astype(float) if each.dtype == bool else each for name, each in columns.items()}
    return {name: np.where(pd.isna(each), "", each) if each.dtype == object else each for name, each in columns.items()}


@pytest.mark.parametrize("insufficient", ["raise", "infinite"])
@pytest.mark.parametrize("kind", LABELS)
def test_a_column_of_x(kind, insufficient):
    X, y = payments(4000, kind, 0)
    scorer = make_pipeline(TableEncoder(), LogisticRegression())
    model = NeymanPearsonClassifier(scorer, 0.05, segments="region", insufficient=insufficient, random_state=0).fit(
        X, y
    )
    fresh, _ = payments(1500, kind, 1, fresh=True)
    expected = predicted(model, fresh).tolist()
    thresholds = model.segments_.thresholds(fresh["region"])
    assert len(np.unique(thresholds)) > 1
    assert 0 < sum(expected) < len(expected)
    check_linear(model, fresh, expected)
    check_onnx(to_onnx(model, X), fed(fresh), expected)


def test_databases_leave_spaces_around_labels_out_as_the_model_does():
    X, y = payments(4000, "texts", 0)
    labels, X = X["region"], X[["amount", "hour"]]
    model = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(X, y, segments=labels)
    padded = X.assign(region=(" " + labels + "  ").where(labels.notna(), "   "))
    for ask in (in_sqlite, in_duckdb):
        found = ask(to_sql(model, table="events", segment_column="region"), padded)
        assert [row[-1] for row in found] == model.predict(X, segments=padded["region"]).tolist()
        assert [row[-1] for row in found] == model.predict(X, segments=labels).tolist()


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_labels_beside_x_get_the_name_that_is_given(kind, tmp_path):
    X, y = payments(4000, kind, 0)
    labels, features = X["region"], ["amount", "hour"]
    scaler = StandardScaler().fit(X[features])
    head = TauFPLClassifier(0.05, random_state=0, ranking="paper", reg=0.1, tau_scale=5.0)
    model = make_pipeline(scaler, head.fit(scaler.transform(X[features]), y, segments=labels))
    fresh, _ = payments(1500, kind, 1, fresh=True)
    expected = predicted(head, scaler.transform(fresh[features]), fresh["region"]).tolist()
    assert 0 < sum(expected) < len(expected)
    check_linear(model, fresh, expected, segment_column="region")
    save_onnx(model, tmp_path / "m.onnx", X[features], segment_column="region")
    check_onnx(to_onnx(model, X[features], segment_column="region"), fed(fresh), expected)
    with pytest.raises(ExportError, match="name the column that will hold them by segment_column"):
        to_sql(model)


def test_labels_beside_x_in_a_column_that_is_a_feature_too():
    X, y = payments(4000, "texts", 0)
    encoder = TableEncoder().fit(X)
    head = TauFPLClassifier(0.05, random_state=0, ranking="paper", reg=0.1, tau_scale=5.0)
    model = make_pipeline(encoder, head.fit(encoder.transform(X), y, segments=X["region"]))
    fresh, _ = payments(1500, "texts", 1, fresh=True)
    expected = predicted(head, encoder.transform(fresh), fresh["region"]).tolist()
    check_linear(model, fresh, expected, segment_column="region")
    check_onnx(to_onnx(model, X, segment_column="region"), fed(fresh), expected)


def test_a_column_by_its_position_and_one_that_the_encoder_drops():
    X, y = payments(4000, "numbers", 0)
    values, fresh = np.nan_to_num(X.to_numpy()), np.nan_to_num(payments(1500, "numbers", 1, True)[0].to_numpy())
    model = NeymanPearsonClassifier(HistGradientBoostingClassifier(max_iter=5), 0.05, segments=2, random_state=0)
    model.fit(values, y)
    check_onnx(to_onnx(model, values), {"X": fresh}, predicted(model, fresh).tolist())
    # A text that differs in most rows is dropped as a feature, and is the segment all the same.
    X, y = X[["amount", "hour"]].iloc[:1200], y[:1200]
    X["region"] = [f"r{row}" if row % 3 else "EU" for row in range(len(X))]
    scorer = make_pipeline(TableEncoder(), LogisticRegression())
    model = NeymanPearsonClassifier(scorer, 0.05, segments="region", insufficient="infinite", random_state=0).fit(X, y)
    assert model.estimator_[0].columns_[2].kind == "dropped"
    expected = predicted(model, X).tolist()
    check_linear(model, X, expected)
    check_onnx(to_onnx(model, X), fed(X), expected)


@pytest.mark.parametrize("is_high", [True, False])
def test_scores_of_your_own(is_high):
    X, y = payments(4000, "texts", 0)
    fresh, _ = payments(1500, "texts", 1, fresh=True)
    X, fresh = ((1 if is_high else -1) * X[["amount"]]).join(X["region"]), fresh.assign(amount=X["amount"][:1500])
    screen = ScoreScreen("amount", 0.05, segments="region", higher_is_positive=is_high).fit(X, y)
    expected = predicted(screen, fresh).tolist()
    assert 0 < sum(expected) < len(expected)
    form = json.loads(json.dumps(to_json(screen)))
    assert by_json(form, fresh) == expected
    for ask in (in_sqlite, in_duckdb):
        assert [row[-1] for row in ask(to_sql(screen, table="events"), fresh)] == expected
        assert [int(row[0]) for row in ask(f"SELECT {to_sql(screen)} FROM events", fresh)] == expected
    check_onnx(to_onnx(screen, X), fed(fresh[["amount", "region"]]), expected)


def test_the_command_names_the_column(tmp_path):
    X, y = payments(4000, "texts", 0)
    path, features = tmp_path / "m.skops", ["amount", "hour"]
    model = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0)
    save_model(model.fit(X[features], y, segments=X["region"]), path)
    X.to_parquet(tmp_path / "rows.parquet")
    before = contents(tmp_path)
    line = ("export", path, "--onnx", tmp_path / "m.onnx", "--data", tmp_path / "rows.parquet")
    assert "--segment is needed" in succeed(*line, code=2).err
    assert contents(tmp_path) == before
    succeed(*line, "--segment", "region")
    graph = onnx.load(tmp_path / "m.onnx")
    check_onnx(graph, fed(X), model.predict(X[features], segments=X["region"]).tolist())
    sql = succeed("export", path, "--sql", "--segment", "region").out
    assert sql.rstrip() == to_sql(model, segment_column="region")
    # The file of a fit by the command knows the name.
    X.assign(y=y).to_parquet(tmp_path / "labelled.parquet")
    fit = ("fit", tmp_path / "labelled.parquet", "--target", "y", "--tau", 0.05, "--model", "logistic", "-o", path)
    succeed(*fit, "--segment", "region", "--tau-for", "EU=0.1")
    succeed("predict", path, tmp_path / "rows.parquet", "-o", tmp_path / "out.parquet", "--reasons", 1)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert (found["reason_1"].notna() == (found["decision"] == 1)).all()
    sql = succeed("export", path, "--sql", "--table", "events").out
    assert [row[-1] for row in in_sqlite(sql, X)] == found["decision"].tolist()
    succeed(*line)
    check_onnx(onnx.load(tmp_path / "m.onnx"), fed(X), found["decision"].tolist())
    save_model(model.fit(X[features], y), path)
    assert "one threshold for all rows" in succeed("export", path, "--sql", "--segment", "region", code=2).err


def test_what_cannot_be_exported_is_refused():
    X, y = payments(3000, "numbers", 0)
    X = X.assign(region=X["region"].fillna(0.0) // 4)

    def fit(*steps, frame=X, **options):
        head = TauFPLClassifier(0.05, random_state=0, ranking="paper", reg=0.1, tau_scale=5.0, **options)
        return make_pipeline(*steps, head).fit(frame, y)

    changed = fit(StandardScaler().set_output(transform="pandas"), segments="region")
    kept = make_column_transformer(
        (StandardScaler(), ["amount"]), remainder="passthrough", verbose_feature_names_out=False
    )
    check_linear(
        fit(kept.set_output(transform="pandas"), segments="region"),
        X,
        predicted(fit(kept, segments="region"), X).tolist(),
    )
    called = fit(segments=lambda frame: frame["region"])
    large = fit()[-1].fit(X, y, segments=X["region"].astype(int) + 2**60)
    for model, options, message in (
        (changed, {}, "a step before the classifier changes the column 'region'"),
        (called, {}, "come from a function of X"),
        (fit(segments=2), {"segment_column": "other"}, "finds its segments in its own column 'region'"),
        (fit(), {"segment_column": "other"}, "this one has a single threshold"),
    ):
        for export in (to_json, to_sql):
            with pytest.raises((ExportError, ValueError), match=message):
                export(model, **options)
    with pytest.raises(ExportError, match="more digits than a double"):
        to_onnx(large, X, segment_column="code")
