"""A level that training never saw changes no decision for the worse, in every model and export, and is told."""

import json
import sqlite3

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

from cli_cases import succeed, write
from report_cases import embedded, plain
from taufpl.persistence import load_model, to_json, to_onnx, to_sql

NUMBERS = ["a", "b", "c"]


def draw(n, seed):
    """Few positives and little to learn: a support vector machine then wants little but its intercept."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.02).astype(int)
    table = pd.DataFrame(rng.normal(size=(n, 3)) + 0.7 * y[:, np.newaxis], columns=NUMBERS)
    shares = [0.3, 0.25, 0.2, 0.15, 0.096, 0.002, 0.002]
    return table.assign(city=rng.choice(["A", "B", "C", "D", "E", "few", "rare"], n, p=shares), y=y)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unseen")
    write(draw(4000, 0), folder / "train.csv")
    new = draw(10_000, 1)
    write(new, folder / "new.csv")
    write(new.assign(city="Z"), folder / "strange.csv")
    write(new.assign(city=None), folder / "missing.csv")
    with threadpool_limits(1):  # which so small a fit would wait for
        succeed("fit", folder / "train.csv", "--target", "y", "--model", "linear", "-o", folder / "linear.skops")
    return folder


def fpr(model, data):
    return succeed("evaluate", model, data, "--target", "y", "--json").document["fpr"]


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_false_alarms_do_not_rise_with_a_level_that_is_unknown_or_missing(place, tmp_path, name):
    model = place / "linear.skops"
    if name != "linear":
        model = tmp_path / "m.skops"
        succeed("fit", place / "train.csv", "--target", "y", "--model", name, "--threshold", "np", "-o", model)
    usual = fpr(model, place / "new.csv")
    assert usual < 0.014
    for data in ("strange.csv", "missing.csv"):
        # Three standard errors of 9,800 negatives.
        assert abs(fpr(model, place / data) - usual) < 0.003


@pytest.mark.parametrize("model", [("logistic",), ("paper", "--reg", "0.1")])
def test_the_threshold_of_folds_holds_on_new_rows(place, tmp_path, model):
    """The rows were once scaled where they lay, and then looked at again."""
    options = ("--target", "y", "--tau", "0.05", "--threshold", "cross", "-o", tmp_path / "m.skops")
    succeed("fit", place / "train.csv", *options, "--model", *model)
    # Four standard errors above the tolerance.
    assert 0.02 < fpr(tmp_path / "m.skops", place / "new.csv") < 0.059


def strange_rows():
    """Known, rare, unknown and missing levels, and missing numbers."""
    rows = draw(10_000, 2).drop(columns="y")
    rng = np.random.default_rng(3)
    rows["city"] = rng.choice(np.array(["A", "B", "few", "rare", "Z", None], dtype=object), len(rows))
    rows.loc[rng.random(len(rows)) < 0.1, "a"] = np.nan
    rows[NUMBERS] *= 1.3
    return rows


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_exports_decide_alike(place):
    model, rows = load_model(place / "linear.skops").model, strange_rows()
    expected = model.predict(rows)
    assert 50 < expected.sum() < 1000
    for missing in (None, "Z"):
        assert 5 < model.predict(rows[rows["city"].isna() if missing is None else rows["city"] == missing]).sum() < 200

    graph = to_onnx(model, rows.head(300))
    (label,) = onnxruntime.InferenceSession(graph.SerializeToString()).run(["label"], onnx_feed(rows))
    np.testing.assert_array_equal(label, expected)

    database = sqlite3.connect(":memory:")
    rows.astype(object).where(rows.notna(), None).to_sql("events", database, index=False)
    answer = database.execute(to_sql(model, table="events")).fetchall()
    database.close()
    assert [each[-1] for each in answer] == expected.tolist()

    np.testing.assert_array_equal(_by_json(json.loads(json.dumps(to_json(model))), rows), expected)


def _by_json(form, rows):
    """Labels from the numbers of the document, as its docstring says."""
    scores = np.full(len(rows), form["intercept"])
    for name, weight in form["weights"].items():
        values = rows[name].to_numpy()
        scores += np.where(np.isnan(values), form["missing"][name], weight * values)
    for name, each in form["categories"].items():
        weights = {value: weight for value, weight in each["weights"]}
        scores += [each["missing"] if pd.isna(value) else weights.get(value, each["unknown"]) for value in rows[name]]
    return np.where(scores > form["threshold"], form["positive_label"], form["negative_label"])


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
@pytest.mark.parametrize(
    ("name", "scorer", "few"),
    [
        ("forest", RandomForestClassifier, {"n_estimators": 20}),
        ("boosting", HistGradientBoostingClassifier, {"max_iter": 20}),
    ],
)
def test_trees_keep_their_false_alarms_and_export_alike(tmp_path, monkeypatch, name, scorer, few):
    new, rows, fit = draw(10_000, 6), strange_rows(), scorer.fit
    # Fewer trees than the command takes are enough to see it, and faster.
    monkeypatch.setattr(scorer, "fit", lambda each, X, y: fit(each.set_params(**few), X, y))
    with threadpool_limits(1):
        options = ("--target", "y", "--tau", 0.05, "--threshold", "np", "--holdout", 0.5, "--model", name)
        succeed("fit", write(draw(3000, 5), tmp_path / "t.csv"), *options, "-o", tmp_path / "m.skops")
        model = load_model(tmp_path / "m.skops").model
        negatives = new[new["y"] == 0].drop(columns="y")
        usual, strange, missing = (
            model.predict(each).mean() for each in (negatives, negatives.assign(city="Z"), negatives.assign(city=None))
        )
        # Trees may never split on some levels, and the average goes the way of most rows.
        assert max(strange, missing) < usual + 0.02
        graph, expected = to_onnx(model, rows.head(300)), model.predict(rows)
    (label,) = onnxruntime.InferenceSession(graph.SerializeToString()).run(["label"], onnx_feed(rows))
    np.testing.assert_array_equal(label, expected)


def onnx_feed(rows):
    """ONNX has no missing strings: an empty one stands for it."""
    texts = rows["city"].where(rows["city"].notna(), "").to_numpy(dtype=object)
    return {name: rows[[name]].to_numpy() for name in NUMBERS} | {"city": texts.reshape(-1, 1)}


def test_every_command_tells_what_training_never_saw(place, tmp_path):
    new = pd.read_csv(place / "new.csv").assign(city="Z")
    new.loc[:999, "a"] = np.nan
    new.loc[:499, "b"] = 50.0
    data = write(new.sample(frac=1.0, random_state=0), tmp_path / "odd.csv")
    commands = {
        "predict": ("predict", place / "linear.skops", data, "-o", tmp_path / "out.csv"),
        "evaluate": ("evaluate", place / "linear.skops", data),
        "monitor": ("monitor", place / "linear.skops", data, "--tau", "0.9"),
        "report": ("report", place / "linear.skops", data, "-o", tmp_path / "page.html"),
    }
    for arguments in commands.values():
        code = 3 if arguments[0] == "evaluate" else 0
        done = succeed(*arguments, "--json", code=code)
        unseen = done.document["unseen"]
        assert unseen["n_rows"] == len(new)
        assert unseen["columns"]["city"]["n_unknown"] == len(new)
        assert unseen["columns"]["city"]["remarkable"] == ["unknown"]
        assert unseen["columns"]["a"]["remarkable"] == ["missing"]
        assert unseen["columns"]["b"]["n_above"] >= 500
        assert "odd.csv, column city: 10,000 of 10,000 rows (100%) have a level that training never saw" in done.err
        assert done.err.count("training never saw") == 1
        assert "column a: 1,000 of 10,000 rows (10%) lack a value; no training row did" in done.err
        assert "column b: " in done.err
        assert "column c: " not in done.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert embedded(page)["unseen"]["columns"]["city"]["n_unknown"] == len(new)
    assert "Values that training never saw." in plain(page)
    assert "have a level that training never saw, such as 'Z'" in plain(page)


def test_ordinary_rows_are_passed_over(place, tmp_path):
    """Rare levels are known, and a number a little outside of the range is no news."""
    done = succeed("predict", place / "linear.skops", place / "new.csv", "-o", tmp_path / "out.csv", "--json")
    assert "training never saw" not in done.err
    assert "training range" not in done.err
    columns = done.document["unseen"]["columns"]
    assert all(not each["remarkable"] for each in columns.values())
    assert "city" not in columns
    assert any(each["n_below"] + each["n_above"] for each in columns.values())


def test_rows_without_a_record_are_scored_without_counts(tmp_path):
    y = np.random.default_rng(0).permutation(np.repeat([0, 1], [400, 200]))
    X = sparse.random(600, 60, 0.1, format="csr", random_state=0)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    fit = ("--tau", "0.1", "--model", "logistic", "--threshold", "np", "-o", tmp_path / "m.skops")
    succeed("fit", tmp_path / "rows.svm", *fit)
    done = succeed("predict", tmp_path / "m.skops", tmp_path / "rows.svm", "-o", tmp_path / "out.csv", "--json")
    assert done.document["unseen"] == {"n_rows": 600, "columns": {}}
