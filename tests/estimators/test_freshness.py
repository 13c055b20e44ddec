"""Rows that a model has seen prove nothing about it: in recalibrate, evaluate and report, however they are given."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from cli_cases import NAMES, command, frame, numbers, succeed, write
from taufpl import NeymanPearsonClassifier
from taufpl.persistence import SeenRows, load_model, save_model
from taufpl.report import render_report

QUICK = ("--tau", "0.05", "--model", "logistic", "--threshold", "np", "--target", "y")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Training rows, a model of them, and files that are made of old and of new rows."""
    folder = tmp_path_factory.mktemp("fresh")
    old, new = frame(0, n=700), frame(1, n=700)
    write(old, folder / "train.csv")
    succeed("fit", folder / "train.csv", *QUICK, "-o", folder / "m.skops")
    shuffled = old.sample(frac=1.0, random_state=0).iloc[1:]
    write(shuffled, folder / "shuffled.csv")
    write(shuffled, folder / "shuffled.parquet")
    write(shuffled.astype({name: np.float32 for name in NAMES}), folder / "single.parquet")
    write(shuffled[["y", *NAMES[::-1]]], folder / "columns.csv")
    write(new, folder / "new.csv")
    write(pd.concat([shuffled.head(400), new]).sample(frac=1.0, random_state=1), folder / "half.csv")
    write(pd.concat([shuffled, new[new["y"] == 0].head(40)]), folder / "mostly_old.csv")
    return folder


OLD = ("shuffled.csv", "shuffled.parquet", "single.parquet", "columns.csv")


@pytest.mark.parametrize("data", OLD)
def test_recalibrate_refuses_what_the_model_has_seen(place, tmp_path, data):
    done = command("recalibrate", place / "m.skops", place / data, "-o", tmp_path / "out.skops")
    assert done.code == 1
    assert "0 negatives that the model has not seen (849 rows are left out" in done.err
    assert "59 are needed" in done.err
    assert not (tmp_path / "out.skops").exists()


def test_recalibrate_refuses_where_too_few_new_rows_are_left(place, tmp_path):
    done = command("recalibrate", place / "m.skops", place / "mostly_old.csv", "-o", tmp_path / "out.skops")
    assert done.code == 1
    assert re.search(r"(39|40) negatives that the model has not seen", done.err)


def test_recalibrate_takes_the_new_rows_alone(place, tmp_path):
    half = succeed("recalibrate", place / "m.skops", place / "half.csv", "-o", tmp_path / "a.skops", "--json")
    new = succeed("recalibrate", place / "m.skops", place / "new.csv", "-o", tmp_path / "b.skops", "--json")
    assert "rows have been seen by the model and are left out" in half.err
    assert new.document["n_seen_before"] == 0
    assert new.document["n_negative_used"] == 700
    # Of 850 new rows the record mistakes some three for old ones.
    assert half.document["n_seen_before"] == pytest.approx(400, abs=15)
    assert half.document["n_negative_used"] == pytest.approx(700, abs=15)
    assert half.document["threshold"] == pytest.approx(new.document["threshold"], abs=0.2)


def test_the_same_file_recalibrates_once(place, tmp_path):
    succeed("recalibrate", place / "m.skops", place / "new.csv", "-o", tmp_path / "m.skops")
    before = (tmp_path / "m.skops").read_bytes()
    done = command("recalibrate", tmp_path / "m.skops", place / "new.csv")
    assert done.code == 1
    assert "0 negatives that the model has not seen" in done.err
    assert (tmp_path / "m.skops").read_bytes() == before
    seen = load_model(tmp_path / "m.skops").seen
    for data in ("train.csv", "new.csv"):
        assert seen.contains(pd.read_csv(place / data)[NAMES]).all()


@pytest.mark.parametrize("data", OLD)
def test_evaluate_does_not_call_seen_rows_proof(place, data):
    done = succeed("evaluate", place / "m.skops", place / data, "--json", "--chunk-rows", 100)
    assert done.document["n_seen_before"] == 849
    assert done.document["fpr_upper_bound"] <= 0.05, "the example must flatter"
    assert done.document["verdict"] == "open"
    assert "all 849 rows have been seen by the model" in done.err
    assert "the model has seen these rows" in succeed("evaluate", place / "m.skops", place / data).out


def test_evaluate_measures_on_new_rows_alone(place):
    half = succeed("evaluate", place / "m.skops", place / "half.csv", "--json").document
    new = succeed("evaluate", place / "m.skops", place / "new.csv", "--json").document
    assert new["n_seen_before"] == 0
    assert (new["n_negative"], new["n_positive"]) == (700, 150)
    assert half["n_seen_before"] == pytest.approx(400, abs=15)
    assert half["n_negative"] + half["n_positive"] + half["n_seen_before"] == 1250
    assert half["fpr"] == pytest.approx(new["fpr"], abs=0.02)
    assert "seen before" in succeed("evaluate", place / "m.skops", place / "half.csv").out


def page_data(text):
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


@pytest.mark.parametrize("data", OLD)
def test_report_contradicts_who_says_that_old_rows_are_new(place, tmp_path, data):
    done = succeed("report", place / "m.skops", place / data, "-o", tmp_path / "r.html", "--new", "--json")
    assert (done.document["n_seen_before"], done.document["trained_on"]) == (849, True)
    found = page_data((tmp_path / "r.html").read_text())
    assert found["verdict"] == "open"
    assert found["data_is_new"] is False
    assert found["n_seen_before"] == 849


def test_report_is_about_the_new_rows(place, tmp_path):
    done = succeed("report", place / "m.skops", place / "half.csv", "-o", tmp_path / "r.html", "--new", "--json")
    text = (tmp_path / "r.html").read_text()
    found, n_seen = page_data(text), done.document["n_seen_before"]
    assert found["n_negative"] + found["n_positive"] == 1250 - n_seen
    assert f"{n_seen} of 1,250 rows have been seen by the model and are left out." in text
    assert found["data_is_new"] is True
    succeed("report", place / "m.skops", place / "new.csv", "-o", tmp_path / "r.html", "--new")
    assert "The record in the model file knows none of them." in (tmp_path / "r.html").read_text()


def test_rows_of_arrays_keep_their_numbers_in_the_examples():
    (old, old_y), (new, new_y) = numbers(0), numbers(1)
    model = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(old, old_y)
    X, y = np.concatenate([old, new]), np.concatenate([old_y, new_y])
    page = render_report(model, X, y, seen=SeenRows(old), n_examples=5)
    named = [int(row) for row in re.findall(r'role="rowheader"[^>]*><span[^>]*>(\d+)</span>', page)]
    assert len(named) == 10
    assert min(named) >= len(old)


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    """A table in which rows repeat by chance, and a model of it."""
    folder = tmp_path_factory.mktemp("levels")
    rng = np.random.default_rng(0)

    def draw(n):
        table = pd.DataFrame({name: rng.integers(0, 6, n) for name in ("a", "b")})
        return table.assign(y=(rng.random(n) < 0.1 + 0.1 * (table["a"] == 5)).astype(int))

    for name, n in (("train", 2000), ("new", 2000)):
        write(draw(n), folder / f"{name}.csv")
    succeed("fit", folder / "train.csv", *QUICK, "-o", folder / "m.skops")
    return folder


def test_nobody_is_accused_where_rows_repeat_by_chance(levels, tmp_path):
    words = "whether these rows are new cannot be told: rows of this table repeat by chance"
    done = succeed("evaluate", levels / "m.skops", levels / "new.csv", "--json")
    assert done.document["n_seen_before"] is None
    assert done.document["n_negative"] > 1500
    assert words in done.err
    done = succeed("recalibrate", levels / "m.skops", levels / "new.csv", "-o", tmp_path / "m.skops", "--json")
    assert done.document["n_negative_used"] > 1500
    assert words in done.err
    succeed("report", levels / "m.skops", levels / "new.csv", "-o", tmp_path / "r.html", "--new")
    text = (tmp_path / "r.html").read_text()
    assert "rows of this table repeat by chance" in text
    assert page_data(text)["data_is_new"] is True


def test_the_training_file_itself_is_known_where_rows_repeat(levels, tmp_path):
    done = command("recalibrate", levels / "m.skops", levels / "train.csv", "-o", tmp_path / "m.skops")
    assert done.code == 1
    assert "fitted on these very rows" in done.err


def test_where_some_rows_repeat_old_ones_cannot_be_taken_out(place, tmp_path):
    saved, rng = load_model(place / "m.skops"), np.random.default_rng(0)
    old, y = numbers(0, n=700)
    old[rng.random(len(old)) < 0.05] = 0.0
    save_model(saved.model, tmp_path / "m.skops", training=saved.header.training, seen=SeenRows(old))
    both = pd.concat([pd.DataFrame(old, columns=NAMES).assign(y=y), pd.read_csv(place / "new.csv")])
    write(both, tmp_path / "both.csv")
    done = command("recalibrate", tmp_path / "m.skops", tmp_path / "both.csv", "-o", tmp_path / "out.skops")
    assert done.code == 1
    assert "which are new cannot be told. Give rows that came after" in done.err
    document = succeed("evaluate", tmp_path / "m.skops", tmp_path / "both.csv", "--json").document
    assert document["n_negative"] + document["n_positive"] == len(both)
    assert document["fpr_upper_bound"] <= 0.05
    assert document["verdict"] == "open"


def test_files_without_a_record_say_so(place, tmp_path):
    saved = load_model(place / "m.skops")
    save_model(saved.model, tmp_path / "old.skops", training=saved.header.training)
    done = succeed("evaluate", tmp_path / "old.skops", place / "shuffled.csv", "--json")
    assert done.document["n_seen_before"] is None
    assert "keeps no record of its rows" in done.err
    done = command("recalibrate", tmp_path / "old.skops", place / "train.csv")
    assert "fitted on these very rows" in done.err
    succeed("recalibrate", tmp_path / "old.skops", place / "new.csv")
    # A record of the new rows alone would call the training rows new.
    assert load_model(tmp_path / "old.skops").seen is None
