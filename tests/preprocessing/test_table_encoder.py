"""One matrix of doubles of tables as people have them, whatever holds them."""

import contextlib
import datetime
import pickle
import subprocess
import sys
from decimal import Decimal

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from cli_cases import succeed, write
from taufpl import NeymanPearsonClassifier, ScreeningClassifier, TauFPLClassifier
from taufpl.exceptions import ExportError
from taufpl.persistence import load_model, save_model, to_json, to_onnx, to_sql
from taufpl.preprocessing import DateEncoder, LevelEncoder, TableEncoder
from taufpl.thresholding import OutOfBootstrap

UNSEEN = pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
RNG = np.random.default_rng(0)
N = 400


def made_table():
    days = RNG.integers(0, 900, N)
    return pd.DataFrame(
        {
            "amount": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
            "count": RNG.integers(0, 9, N),
            "flag": RNG.random(N) < 0.3,
            "city": RNG.choice(np.array(["bonn", "oslo", "rome", None], dtype=object), N, p=[0.5, 0.3, 0.15, 0.05]),
            "size": pd.Categorical(RNG.choice(["s", "m", "l"], N)),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 10**8, N), unit="s"),
            "day": pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(days, unit="D")).where(RNG.random(N) > 0.1),
            "maybe": pd.array(RNG.choice(np.array([True, False, None], dtype=object), N), dtype="boolean"),
            "user_id": RNG.permutation(N),
            "text": [f"row {row}" for row in range(N)],
            "one": 1.0,
            "none": None,
        }
    )


TABLE = made_table()


@parametrize_with_checks([TableEncoder(), DateEncoder()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_kind_of_column():
    encoder = TableEncoder()
    found = pd.DataFrame(encoder.fit_transform(TABLE), columns=encoder.get_feature_names_out())
    kinds = {column.name: column.kind for column in encoder.columns_}
    assert kinds == {
        **dict.fromkeys(("amount", "count"), "number"),
        **dict.fromkeys(("flag", "maybe"), "boolean"),
        **dict.fromkeys(("city", "size"), "category"),
        **dict.fromkeys(("when", "day"), "date"),
        **dict.fromkeys(("user_id", "text", "one", "none"), "dropped"),
    }
    expected = pd.DataFrame(
        {
            "amount": TABLE["amount"].fillna(TABLE["amount"].mean()),
            "flag": TABLE["flag"].astype(float),
            "missingindicator_maybe": TABLE["maybe"].isna().astype(float),
            "when_days": (TABLE["when"] - pd.Timestamp(0)) / pd.Timedelta(days=1),
            "when_time": (TABLE["when"] - TABLE["when"].dt.normalize()) / pd.Timedelta(days=1),
            "when_weekday": TABLE["when"].dt.day_of_week.astype(float),
            "day_missing": TABLE["day"].isna().astype(float),
        }
    )
    day = (TABLE["day"] - pd.Timestamp(0)).dt.days / 365.2425 % 1
    expected["day_season"] = day.fillna(day.mean())
    scaled = (expected - expected.mean()) / expected.std(ddof=0)
    np.testing.assert_allclose(found[scaled.columns], scaled, atol=1e-9)
    levels = ["city_bonn", "city_oslo", "city_rome", "city_None", "size_l", "size_m", "size_s"]
    np.testing.assert_array_equal(
        found[levels], LevelEncoder(sparse_output=False).fit_transform(TABLE[["city", "size"]])
    )
    names = np.array([name.removeprefix("missingindicator_").split("_")[0] for name in found.columns])
    np.testing.assert_array_equal(np.array(list(TABLE.columns))[encoder.sources_], names)


def test_gaps_are_marked_where_numbers_have_them_whatever_else_has_some():
    numbers, city = pd.DataFrame({"a": [1.0, np.nan] * 20, "b": [2.0, 3.0] * 20}), ["bonn", None] * 20
    marked = ["a", "b", "missingindicator_a"]
    assert TableEncoder().fit(numbers).get_feature_names_out().tolist() == marked
    both = TableEncoder().fit(numbers.assign(city=city)).get_feature_names_out().tolist()
    assert both == [*marked, "city_bonn", "city_None"]


POLARS = pl.from_pandas(TABLE)
SHORT = POLARS.with_columns(pl.col("city").cast(pl.Categorical), pl.col("day").cast(pl.Date))
SAME_TABLES = {
    "polars": POLARS,
    "categories and dates of polars": SHORT.with_columns(pl.col("size").cast(pl.Enum(["s", "m", "l"]))),
    "arrow": TABLE.convert_dtypes(dtype_backend="pyarrow"),
    "types of arrow": SHORT.to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "objects": TABLE.astype(object),
    "nullable": TABLE.astype({"count": "Int16", "flag": "boolean", "city": "string", "amount": "Float64"}),
    "zones": TABLE.assign(when=TABLE["when"].dt.tz_localize("UTC").dt.tz_convert("Europe/Oslo")),
    "nanoseconds": TABLE.astype({"when": "datetime64[ns]", "day": "datetime64[s]", "city": "category"}),
}


@pytest.mark.parametrize("holder", SAME_TABLES)
def test_what_holds_a_table_does_not_matter(holder):
    table, encoder = SAME_TABLES[holder], TableEncoder()
    expected = encoder.fit_transform(TABLE)
    assert expected.flags.c_contiguous
    assert expected.dtype == np.float64
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), expected)
    np.testing.assert_array_equal(encoder.transform(table), expected)
    np.testing.assert_array_equal(TableEncoder().fit(table).transform(TABLE), expected)
    again = pickle.loads(pickle.dumps(encoder))
    assert again.columns_ == encoder.columns_
    np.testing.assert_array_equal(again.transform(table), expected)


def test_arrays_of_objects_are_read_by_their_values():
    values = TABLE.drop(columns=["user_id"])
    names = [f"x{place}" for place in range(values.shape[1])]
    encoder = TableEncoder()
    found = encoder.fit_transform(values.to_numpy(dtype=object))
    np.testing.assert_array_equal(found, TableEncoder().fit_transform(values.set_axis(names, axis=1)))
    rows = [["bonn", 1.0, datetime.date(2024, 1, day)] for day in range(1, 30)] + [["oslo", 2.5, None]]
    encoder = TableEncoder().fit(rows)
    assert [column.kind for column in encoder.columns_] == ["category", "number", "date"]
    np.testing.assert_array_equal(encoder.transform(np.array(rows, dtype=object)), encoder.fit_transform(rows))


@UNSEEN
def test_unknown_levels_and_new_gaps_count_as_the_average():
    encoder = TableEncoder()
    training = encoder.fit_transform(TABLE)
    names = encoder.get_feature_names_out()
    strange = encoder.transform(
        TABLE.iloc[:3].assign(count=np.nan, flag=None, size="xxl", when=pd.NaT, city=["x", None, "y"])
    )
    for name in ("count", "flag", "size"):
        places = [place for place, each in enumerate(names) if each.split("_")[0] == name]
        np.testing.assert_allclose(strange[:, places] - training[:, places].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(strange[:, [name.startswith("when") for name in names]], 0, atol=1e-9)
    cities = strange[:, [name.startswith("city") for name in names]]
    np.testing.assert_allclose(cities[0], (TABLE["city"].value_counts(dropna=False, normalize=True)).to_numpy())
    np.testing.assert_array_equal(cities[1], [0, 0, 0, 1])


@UNSEEN
def test_fitted_parts_depend_on_training_rows_alone():
    encoder = TableEncoder().fit(TABLE.iloc[:300])
    kept = encoder.transform(TABLE.iloc[:10])
    encoder.transform(TABLE.iloc[300:].assign(city="paris", amount=1e6))
    np.testing.assert_array_equal(encoder.transform(TABLE).astype(float)[:10], kept)
    np.testing.assert_allclose(encoder.transform(TABLE.iloc[:300])[:, :4].mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"amount": "much"}, "column 'amount' must hold numbers.*'much'"),
        ({"flag": "yes"}, "column 'flag' must hold truth values.*'yes'"),
        ({"when": 3.5}, "column 'when' must hold dates.*3.5"),
        ({"city": pd.Timestamp("2024-12-31")}, "column 'city' must hold texts.*2024-12-31"),
        ({"count": np.inf}, "column 'count' holds inf"),
        ({"count": -1e200}, "column 'count' holds -1e\\+200"),
    ],
)
def test_other_types_and_infinite_values_are_refused_by_name(change, words):
    encoder = TableEncoder().fit(TABLE)
    for table in (TABLE.assign(**change), pl.from_pandas(TABLE.assign(**change))):
        with pytest.raises(ValueError, match=words):
            encoder.transform(table)
    if "inf" in words:
        with pytest.raises(ValueError, match=words):
            TableEncoder().fit(TABLE.assign(**change))


@pytest.mark.parametrize("column", [lambda x: pd.Series(x, dtype=object), lambda x: pl.Series(x, dtype=pl.Object)])
def test_rare_values_of_another_type_count_as_missing(column):
    numbers, days = [7, True, 2.5, Decimal(4), None] * 8, [datetime.date(2024, 1, 1 + day % 28) for day in range(40)]

    def table(c, d):
        frame = pd.DataFrame if isinstance(column([]), pd.Series) else pl.DataFrame
        return frame({"c": column(c), "d": column(d)})

    encoder = TableEncoder().fit(table(numbers, days))
    assert [column.kind for column in encoder.columns_] == ["number", "date"]
    # A text is no number, even if it reads as one: fit would have made a category of it.
    odd = table([7, "unknown", "7", *numbers[3:]], days)
    with pytest.warns(UserWarning, match=r"'c' holds numbers.*\(2, the first is 'unknown'\)") as caught:
        found = encoder.transform(odd)
    assert len(caught) == 1
    np.testing.assert_array_equal(found, encoder.transform(table([7, None, None, *numbers[3:]], days)))
    with pytest.warns(UserWarning, match=r"'d' holds dates.*\(1, the first is \[3\]\)"):
        found = encoder.transform(table(numbers, [[3], *days[1:]]))
    np.testing.assert_array_equal(found, encoder.transform(table(numbers, [None, *days[1:]])))
    with pytest.raises(ValueError, match=r"column 'c' must hold numbers.*got 'unknown'"):
        encoder.transform(table(["unknown", None] * 20, days))


def test_a_rare_text_among_numbers_fails_no_fit():
    """Each fold sees the text in its training rows, or in the others."""
    y = np.arange(400) % 4 == 0
    X = pd.DataFrame({"a": RNG.normal(size=400) + y, "c": RNG.integers(0, 10, 400).astype(object)})
    X.loc[5, "c"] = "unknown"
    words = "'c' holds numbers.*the first is 'unknown'"
    model = ScreeningClassifier(0.1, threshold="cross", effort="fast", candidates=[GaussianNB()], random_state=0)
    with pytest.warns(UserWarning, match=words):
        model.fit(X, y)
    several = NeymanPearsonClassifier(
        make_pipeline(TableEncoder(), LINEAR), 0.1, threshold=OutOfBootstrap(n_rounds=4), random_state=0
    )
    with pytest.warns(UserWarning, match=words):
        several.fit(X, y)
    with pytest.raises(ExportError, match="'c' holds values of several types, and is a category and a number"):
        to_onnx(several, X)


def test_numbers_too_large_for_forests_are_refused_by_name():
    table = TABLE.assign(count=TABLE["count"].astype(float))
    encoder = TableEncoder().fit(table)
    table.loc[3, "count"] = 1e35
    assert np.isfinite(encoder.transform(table).astype(np.float32)).all()
    table.loc[7, "count"] = -1e45
    for rows in (table, pl.from_pandas(table)):
        with pytest.raises(ValueError, match=r"column 'count' holds -1e\+45, first in row 7.*3.4e\+38"):
            encoder.transform(rows)
    wide = sparse.random(30, 2500, 0.1, random_state=0).tolil()
    encoder = TableEncoder().fit(wide)
    wide[4, 5] = 1e45
    with pytest.raises(ValueError, match=r"column 'x5' holds 1e\+45, first in row 4"):
        encoder.transform(wide.tocoo())


@UNSEEN
def test_what_is_dropped_is_not_read_again():
    encoder = TableEncoder().fit(TABLE)
    changed = TABLE.assign(text=3.5, one="anything", none=np.inf, user_id=None)
    np.testing.assert_array_equal(encoder.transform(changed), encoder.transform(TABLE))
    # A column without a value fits any kind; numbers fit levels, and truth values numbers.
    assert np.isfinite(encoder.transform(TABLE.assign(when=None, city=np.nan, count=True, size=3))).all()
    levels = pd.DataFrame({"code": pd.Categorical(RNG.integers(1, 4, 50)), "x": RNG.normal(size=50)})
    encoder = TableEncoder().fit(levels)
    np.testing.assert_array_equal(encoder.transform(levels.astype({"code": float})), encoder.transform(levels))


def test_nothing_left_is_said_with_reasons():
    with pytest.raises(ValueError, match=r"no column is left.*text: 400 different texts.*one: the same value"):
        TableEncoder().fit(TABLE[["text", "one", "none", "user_id"]])
    with pytest.raises(ValueError, match="Feature names"):
        TableEncoder().fit(TABLE).transform(TABLE[TABLE.columns[::-1]])


def test_other_frames_are_refused():
    with pytest.raises(TypeError, match=r"frame of pandas or polars in memory.*LazyFrame"):
        TableEncoder().fit(pl.DataFrame({"x": [1.0, 2.0]}).lazy())
    with pytest.raises(TypeError, match=r"pyarrow.lib.Table"):
        TableEncoder().fit(pa.table({"x": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="2-dimensional"):
        TableEncoder().fit(TABLE["amount"])


def test_arrays_have_no_identifiers():
    counts = np.arange(100.0)[:, np.newaxis]
    np.testing.assert_allclose(TableEncoder().fit_transform(counts).std(), 1)
    with pytest.raises(ValueError, match="identifier"):
        TableEncoder().fit(pd.DataFrame(counts, columns=["row"]))


@pytest.mark.parametrize(
    ("name", "is_identifier"),
    [("payment_id", True), ("ID", True), ("paymentId", True), ("paymentID", True), ("order key", True)]
    + [(name, False) for name in ("amount_paid", "bid", "grid", "covid", "Paid", "turkey")],
)
def test_whole_numbers_that_all_differ_are_an_identifier_by_their_name(name, is_identifier):
    numbers = 1000 * np.random.default_rng(0).permutation(200) + 7.0
    encoder = TableEncoder().fit(pd.DataFrame({name: numbers, "x": np.arange(200) % 7}))
    assert (0 not in encoder.sources_) == is_identifier


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_rows(kind):
    narrow = sparse.random(60, 30, 0.3, random_state=0)
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(kind(narrow)), TableEncoder().fit_transform(narrow.toarray())
    )
    wide = sparse.random(60, 2001, 0.01, random_state=0)
    encoder = TableEncoder().fit(kind(wide))
    found = encoder.transform(kind(wide))
    largest = np.abs(wide.toarray()).max(axis=0)
    assert found.format == "csr"
    np.testing.assert_allclose(found.toarray(), wide.toarray() / np.where(largest > 0, largest, 1))
    np.testing.assert_array_equal(encoder.transform(wide.toarray()).toarray(), found.toarray())
    assert encoder.columns_ == ()
    np.testing.assert_array_equal(encoder.sources_, np.arange(2001))
    wide.data[3] = np.nan
    with pytest.raises(ValueError, match="must not hold missing"):
        encoder.transform(kind(wide))


def test_rows_of_the_caller_are_left_alone():
    X = np.where(RNG.random((50, 3)) < 0.2, np.nan, 1.0 + RNG.random((50, 3)))
    kept, table = X.copy(), TABLE.copy(deep=True)
    TableEncoder().fit(X).transform(X)
    TableEncoder().fit(TABLE).transform(TABLE)
    np.testing.assert_array_equal(X, kept)
    pd.testing.assert_frame_equal(TABLE, table)


@pytest.mark.slow
def test_frames_are_optional():
    script = """
import sys
missing = {"pandas", "polars", "pyarrow"}
class Finder:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder)
import numpy as np
from taufpl.preprocessing import TableEncoder
TableEncoder().fit_transform(np.random.default_rng(0).normal(size=(30, 3)))
missing.remove("polars")
import polars
dates = polars.date_range(polars.date(2024, 1, 1), polars.date(2024, 1, 3), eager=True)
TableEncoder().fit_transform(polars.DataFrame({"x": [1.0, 2.0, None], "y": ["a", "b", "a"], "z": dates}))
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def labels_of(table):
    signal = table["flag"] + (table["city"] == "oslo") + (table["when"].dt.hour > 12) + RNG.normal(size=len(table))
    return (signal > 1.5).to_numpy().astype(int)


def strange_rows():
    """Rows with unknown levels and missing values in every column."""
    rows = TABLE.astype({"flag": "boolean", "count": float, "size": object}).copy()
    for name in rows.columns:
        rows.loc[RNG.random(N) < 0.2, name] = None
    rows.loc[RNG.random(N) < 0.2, ["city", "size"]] = "nowhere"
    return rows


LINEAR = TauFPLClassifier(0.1, ranking="paper", reg=1.0, threshold="train", random_state=0)


def models():
    y = labels_of(TABLE)
    forest = make_pipeline(TableEncoder(), RandomForestClassifier(5, max_depth=4, random_state=0))
    yield make_pipeline(TableEncoder(), LINEAR).fit(TABLE, y)
    yield NeymanPearsonClassifier(forest, tau=0.1, threshold=OutOfBootstrap(n_rounds=2), random_state=0).fit(TABLE, y)
    candidates = [forest[-1], LogisticRegression()]
    yield ScreeningClassifier(0.1, effort="fast", candidates=candidates, threshold="np", random_state=0).fit(TABLE, y)


@UNSEEN
def test_model_files_and_onnx_decide_as_the_model(tmp_path):
    rows = strange_rows()
    for place, model in enumerate(models()):
        save_model(model, tmp_path / f"{place}.skops")
        loaded = load_model(tmp_path / f"{place}.skops").model
        decisions = model.decision_function(rows)
        np.testing.assert_array_equal(loaded.decision_function(rows), decisions)
        np.testing.assert_array_equal(loaded.decision_function(pl.from_pandas(rows)), decisions)
        for sample in (TABLE, pl.from_pandas(TABLE)):
            graph = to_onnx(loaded, sample)
            session = onnxruntime.InferenceSession(graph.SerializeToString())
            inputs = [each.name for each in session.get_inputs()]
            assert inputs == ["amount", "count", "flag", "city", "size", "when", "day", "maybe"]
            feed = {name: fed(rows[name])[:, np.newaxis] for name in inputs}
            label, score = session.run(["label", "score"], feed)
            np.testing.assert_allclose(score, decisions, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(label, model.predict(rows))


def fed(values):
    """A column as the documentation says that ONNX takes it."""
    if values.dtype.kind == "M":
        return ((values - pd.Timestamp(0)) / pd.Timedelta(seconds=1)).to_numpy()
    if values.dtype.kind == "O":
        return values.fillna("").to_numpy(dtype=object)
    return values.to_numpy(dtype=float, na_value=np.nan)


@UNSEEN
def test_sql_and_json_of_a_linear_model():
    model = make_pipeline(TableEncoder(), LINEAR).fit(TABLE, labels_of(TABLE))
    rows = strange_rows()
    decisions = model.decision_function(rows)
    numbers = rows.drop(columns="none").assign(
        **{name: fed(rows[name]) for name in ("flag", "maybe", "when", "day", "count")}
    )
    with contextlib.closing(duckdb.connect()) as database:
        table = database.from_arrow(pa.Table.from_pandas(numbers, preserve_index=False))
        query = to_sql(model, table="rows")
        scores = [row[-2] for row in table.query("rows", query).fetchall()]
    np.testing.assert_allclose(scores, decisions, rtol=1e-9, atol=1e-12)
    form = to_json(model)
    found = np.full(N, form["intercept"] - form["threshold"])
    for name, weight in form["weights"].items():
        found += (weight * numbers[name]).astype(float).fillna(form["missing"][name])
    for name, term in form["categories"].items():
        weights = {value: weight for value, weight in term["weights"]}
        found += [
            term["missing"] if each is None or each != each else weights.get(each, term["unknown"])
            for each in rows[name]
        ]
    for name, term in form["dates"].items():
        days = numbers[name] / 86400
        weekday = rows[name].dt.day_of_week
        parts = {"days": days, "time": days % 1, "weekday": weekday, "season": days % 365.2425 / 365.2425}
        found += sum(term[part] * values for part, values in parts.items()).fillna(term["missing"])
    assert form["format_version"] == 2
    np.testing.assert_allclose(found, decisions, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_command_line_makes_the_same_matrix(tmp_path, kind):
    table = TABLE.assign(y=labels_of(TABLE))
    write(table, tmp_path / f"table.{kind}")
    settings = ("--target", "y", "--tau", 0.1, "--model", "logistic", "--threshold", "train")
    succeed("fit", tmp_path / f"table.{kind}", *settings, "-o", tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    model, columns = loaded.model, loaded.header.training["layout"]["columns"]
    assert [(each["name"], each["kind"], each["n_missing"]) for each in columns] == [
        (each.name, each.kind, each.n_missing) for each in TableEncoder().fit(TABLE).columns_
    ]
    found = model.estimator_[:-1].transform(TABLE[model.feature_names_in_])
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, TableEncoder().fit_transform(TABLE), rtol=1e-12, atol=1e-12)


def test_dates_on_the_command_line(tmp_path):
    table = TABLE[["amount", "when", "city"]].assign(y=labels_of(TABLE))
    write(table, tmp_path / "table.csv")
    write(table.assign(when=table["when"].dt.tz_localize("UTC")), tmp_path / "zones.csv")
    write(table.assign(when=table["when"].dt.strftime("%d.%m.%Y")), tmp_path / "german.csv")
    write(table.assign(when=None), tmp_path / "gone.csv")
    write(table, tmp_path / "table.parquet")
    model = tmp_path / "model.skops"
    succeed("fit", tmp_path / "table.csv", "--target", "y", "--tau", 0.1, "--model", "logistic", "-o", model)
    scores = {}
    for name in ("table.csv", "zones.csv", "gone.csv", "table.parquet"):
        done = succeed("predict", model, tmp_path / name, "-o", tmp_path / "scores.parquet")
        scores[name] = pd.read_parquet(tmp_path / "scores.parquet")["score"].to_numpy()
        assert ("column when: 400 of 400 rows (100%) lack a value" in done.err) is (name == "gone.csv")
    np.testing.assert_array_equal(scores["zones.csv"], scores["table.csv"])
    np.testing.assert_array_equal(scores["table.parquet"], scores["table.csv"])
    assert np.ptp(scores["gone.csv"] - scores["table.csv"]) > 0
    done = succeed("predict", model, tmp_path / "german.csv", "-o", tmp_path / "scores.parquet", code=1)
    assert "german.csv, row 1, column 'when'" in done.err
    assert "is not a date" in done.err
    succeed("export", model, "--onnx", tmp_path / "model.onnx")
    query = succeed("export", model, "--sql", "--table", "rows").out
    assert "FLOOR" in query
