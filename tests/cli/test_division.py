"""The command divides the rows of a file before it looks at their columns."""

import numpy as np
import pandas as pd
import pytest

from cli_cases import command, succeed
from taufpl import TauFPLClassifier
from taufpl.persistence import load_model

N = 1200


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    y = (rng.random(N) < 0.2).astype(int)
    return pd.DataFrame(
        {
            "row": np.arange(N),
            "a": rng.normal(size=N) + y,
            "b": rng.normal(size=N) + y,
            "c": rng.normal(size=N),
            "flat": 0.0,
            "customer": rng.integers(0, 400, N),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(N), unit="h"),
            "y": y,
        }
    )


def fit(folder, table, *options):
    table.to_csv(folder / "data.csv", index=False)
    model = folder / "model.skops"
    line = ["fit", folder / "data.csv", "--target", "y", "--tau", 0.05, "--model", "paper", "--reg", 0.1, "-o", model]
    done = succeed(*line, *options, "--json")
    return done, load_model(model)


def kinds(document):
    return {column["name"]: (column["kind"], column["n_missing"]) for column in document["columns"]}


def held_out(table):
    train = TauFPLClassifier(0.05, ranking="paper", reg=0.1, random_state=0).training_rows(table["y"].to_numpy())
    return np.setdiff1d(np.arange(N), train)


def test_what_held_out_rows_hold_decides_nothing(table, tmp_path):
    """Texts among numbers, gaps, a constant that is none, and a tie in a count of rows: all in held-out rows."""
    plain, model = fit(tmp_path, table)
    assert plain.document["threshold_strategy"] == "np"
    changed, rows = table.astype({"c": object}), held_out(table)
    changed.loc[rows[3], "c"] = "none at all"
    changed.loc[rows[5:25], "a"] = np.nan
    changed.loc[rows[7], "flat"] = 1.0
    changed.loc[rows[9], "row"] = 0
    other, other_model = fit(tmp_path, changed)
    assert kinds(other.document) == kinds(plain.document)
    assert kinds(plain.document)["flat"] == kinds(plain.document)["row"] == ("dropped", 0)
    assert "column 'c' holds numbers in the rows that the model learns from, and other values" in other.err
    assert "(1, the first is 'none at all'), where it counts as missing." in other.err
    np.testing.assert_array_equal(model.model[-1].coef_, other_model.model[-1].coef_)
    # The same in a row that trains does decide: a text makes a column of texts.
    train = np.setdiff1d(np.arange(N), rows)
    moved = table.astype({"c": object})
    moved.loc[train[3], "c"] = "none at all"
    assert kinds(fit(tmp_path, moved)[0].document)["c"][0] == "dropped"


@pytest.mark.parametrize(
    "text", [*(pytest.param(each, marks=pytest.mark.slow) for each in ("true", "12")), "2024-05-01", "x"]
)
def test_types_are_those_of_the_training_rows(table, tmp_path, text):
    """A column of texts in which only held-out rows hold another kind of text."""
    changed, rows = table.copy(), held_out(table)
    changed["kind"] = np.where(np.arange(N) % 3, text, text.replace("1", "3") if text != "x" else "z")
    if text == "true":
        changed["kind"] = np.where(np.arange(N) % 3, "true", "false")
    plain = kinds(fit(tmp_path, changed)[0].document)["kind"]
    changed.loc[rows[:2], "kind"] = "something else"
    assert kinds(fit(tmp_path, changed)[0].document)["kind"] == plain


def test_groups_and_time(table, tmp_path):
    done, model = fit(tmp_path, table, "--group", "customer", "--time", "when")
    document = done.document
    screen = model.model[-1]
    assert document["group"] == "customer"
    assert document["time"] == "when"
    assert document["guaranteed"]
    assert {"customer", "when"}.isdisjoint(model.model.feature_names_in_)
    train = screen.training_rows(table["y"], table["customer"].to_numpy(), table["when"].to_numpy())
    held = table[~table["customer"].isin(table["customer"][train])]
    assert 59 <= document["n_negative_used"] <= held["customer"][held["y"] == 0].nunique()
    assert table["when"][train].max() < held["when"].max()


def test_dates_are_features_unless_they_are_the_time(table, tmp_path):
    done, model = fit(tmp_path, table)
    assert any("dates are features: when. --time when removes the column" in note for note in done.document["notes"])
    assert "when" in model.model.feature_names_in_
    done, model = fit(tmp_path, table, "--time", "when")
    assert not any("dates are features" in note for note in done.document["notes"])
    assert "when" not in model.model.feature_names_in_


def test_recalibrate_takes_one_negative_of_each_group(table, tmp_path):
    fit(tmp_path, table, "--group", "customer")
    rng = np.random.default_rng(5)
    fresh = table.assign(a=rng.normal(size=N) + table["y"], customer=rng.integers(1000, 1300, N))
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    done = succeed("recalibrate", tmp_path / "model.skops", tmp_path / "fresh.csv", "--json")
    # A record of groups takes one in 200 for a known one.
    assert abs(done.document["n_negative_used"] - fresh["customer"][fresh["y"] == 0].nunique()) <= 6
    fresh.drop(columns="customer").to_csv(tmp_path / "bare.csv", index=False)
    missing = command("recalibrate", tmp_path / "model.skops", tmp_path / "bare.csv")
    assert missing.code == 1
    assert "there is no column 'customer'" in missing.err


def test_rows_of_known_groups_are_no_new_evidence(table, tmp_path):
    fit(tmp_path, table, "--group", "customer")
    rng = np.random.default_rng(6)
    later = table.assign(a=rng.normal(size=N) + table["y"])  # new rows of the same customers
    later.to_csv(tmp_path / "later.csv", index=False)
    refused = command("recalibrate", tmp_path / "model.skops", tmp_path / "later.csv")
    assert refused.code == 1
    assert "belong to groups that the model has seen" in refused.err
    done = succeed("evaluate", tmp_path / "model.skops", tmp_path / "later.csv", "--json")
    assert done.document["n_known_group"] == N
    assert done.document["verdict"] == "open"
    fresh = later.assign(customer=rng.integers(1000, 1300, N))
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    done = succeed("evaluate", tmp_path / "model.skops", tmp_path / "fresh.csv", "--json")
    assert done.document["n_known_group"] <= 0.02 * N
    # Twenty rows of a customer are one: as many negatives as customers with one.
    assert abs(done.document["n_negative"] - fresh["customer"][fresh["y"] == 0].nunique()) <= 0.02 * N
    again = succeed("recalibrate", tmp_path / "model.skops", tmp_path / "fresh.csv", "--json")
    assert again.document["guaranteed"]
    assert command("recalibrate", tmp_path / "model.skops", tmp_path / "fresh.csv").code == 1


def test_too_few_negatives_are_measured_not_proven(table, tmp_path):
    done, _ = fit(tmp_path, table, "--tau", 0.001)
    assert done.document["threshold_strategy"] == "cross"
    assert not done.document["guaranteed"]
    assert any(
        "needs 2,995 negatives held out for a proof, at least 3,744 in all" in note for note in done.document["notes"]
    )


def test_copies_are_said(table, tmp_path):
    done, _ = fit(tmp_path, pd.concat([table] * 3).drop(columns="row"))
    assert not done.document["guaranteed"]
    assert any("negatives repeat exactly" in note for note in done.document["notes"])
    assert "exact copies" in done.document["caveats"][0]
    grouped, _ = fit(tmp_path, pd.concat([table] * 3).drop(columns="row"), "--group", "when")
    assert grouped.document["guaranteed"]
