"""The history of thresholds: in Python, in model files, and in the commands that show and compare it."""

import math
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from cli_cases import command, commands_of, contents, frame, numbers, succeed, write
from taufpl import NeymanPearsonClassifier, ScoreScreen, ScreeningClassifier, TauFPLClassifier
from taufpl.exceptions import ModelFileError
from taufpl.persistence import load_model, save_model
from taufpl.thresholding import ThresholdRecord

QUICK = ("--tau", "0.05", "--model", "logistic", "--threshold", "np")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, and what recalibration on higher negatives makes of it."""
    folder = tmp_path_factory.mktemp("history")
    write(frame(0), folder / "train.csv")
    shifted = frame(1)
    shifted[["x0", "x1"]] += 1.0
    write(shifted, folder / "shifted.csv")
    write(frame(2).assign(case=[f"=c{row}" for row in range(650)]), folder / "new.csv")
    succeed("fit", folder / "train.csv", "--target", "y", *QUICK, "-o", folder / "old.skops")
    succeed("recalibrate", folder / "old.skops", folder / "shifted.csv", "-o", folder / "mended.skops")
    for looks in ("any", 1 + 1):
        name = folder / f"looks_{looks}.skops"
        succeed("fit", folder / "train.csv", "--target", "y", *QUICK, "--looks", looks, "-o", name)
        succeed("recalibrate", name, folder / "shifted.csv")
    write(frame(4, n=30), folder / "few.csv")
    return folder


def test_every_threshold_leaves_a_record():
    X, y = numbers(0)
    model = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(X, y)
    before = model.threshold_
    fresh, _ = numbers(1, m=1)
    model.recalibrate(fresh, source="june")
    first, second = model.threshold_history_
    assert (first.event, first.threshold_before, first.threshold, first.delta_spent) == ("fit", None, before, 0.05)
    assert (second.event, second.threshold_before, second.source) == ("recalibrate", before, "june")
    assert (second.threshold, second.n_negative, second.delta_spent) == (model.threshold_, len(fresh), 0.05)
    assert first.at <= second.at
    assert len(model.fit(X, y).threshold_history_) == 1
    low = ScoreScreen(tau=0.05, higher_is_positive=False).fit(-X[:, 0], y)
    assert low.threshold_history_[0].threshold == low.threshold_ < 0
    measured = TauFPLClassifier(0.05, threshold="cross", reg=1.0, tau_scale=1.0, random_state=0).fit(X, y)
    assert measured.threshold_history_[0].delta_spent == 0.0


def test_model_files_keep_the_history(place):
    saved = load_model(place / "mended.skops")
    history = saved.model.threshold_history_
    assert [(each.event, each.source) for each in history] == [("fit", "train.csv"), ("recalibrate", "shifted.csv")]
    assert [each["threshold"] for each in saved.header.training["threshold_history"]] == [
        each.threshold for each in history
    ]


@pytest.mark.parametrize("changed", [
    {"event": "remodel"}, {"at": "yesterday"}, {"threshold": math.nan}, {"delta_spent": 2.0}, {"n_negative": -1},
    {"source": 5},
])  # fmt: skip
def test_records_that_make_no_sense_are_not_loaded(place, tmp_path, changed):
    saved = load_model(place / "old.skops")
    (record,) = saved.model.threshold_history_
    for name, value in changed.items():
        object.__setattr__(record, name, value)
    save_model(saved.model, tmp_path / "strange.skops")
    with pytest.raises(ModelFileError, match="does not make a model"):
        load_model(tmp_path / "strange.skops")


def test_info_tells_what_a_file_holds(place):
    text = succeed("info", place / "mended.skops").out
    for part in ("LogisticRegression", "spent again by every threshold: 2 thresholds, 0.1 in all", "shifted.csv",
                 "P(FPR > 5.00%) <= 0.05", "x3", "SimpleImputer, StandardScaler"):  # fmt: skip
        assert part in text
    found = succeed("info", place / "mended.skops", "--json").document
    assert found["limits"][0]["threshold"] == found["threshold"] == found["history"][-1]["threshold"]
    assert (found["tau"], found["delta"], found["looks"], found["delta_spent"]) == (0.05, 0.05, 1, 0.1)
    assert found["size_bytes"] == (place / "mended.skops").stat().st_size
    assert [each["kind"] for each in found["columns"]] == ["number"] * 4


def test_commands_tell_how_thresholds_share_delta(place, tmp_path):
    document = succeed("info", place / "looks_any.skops", "--json").document
    assert (document["looks"], document["delta_spent"], document["delta_left"]) == ("any", 0.025, 0.025)
    assert [each["n_negative"] for each in document["history"]] == [250, 750]
    assert "0.05, at every look together; 0.025 spent, 0.025 left" in succeed("info", place / "looks_any.skops").out
    assert "0.05, shared by 2 thresholds; 0.05 spent, 0 left" in succeed("info", place / "looks_2.skops").out
    added = succeed("recalibrate", place / "looks_any.skops", place / "few.csv", "-o", tmp_path / "m.skops", "--json")
    assert (added.document["n_negative_used"], added.document["delta_spent"]) == (780, 0.0)
    again = succeed(
        "recalibrate", place / "looks_any.skops", place / "new.csv", "--restart", "-o", tmp_path / "m.skops", "--json"
    ).document  # fmt: skip
    assert (again["n_negative_used"], again["delta"], again["delta_spent"]) == (500, 0.0125, 0.0125)


def test_older_files_tell_what_they_know(place, tmp_path):
    saved = load_model(place / "mended.skops")
    del saved.model.__dict__["threshold_history_"]
    saved.model.__dict__.pop("looks", None)
    training = {name: saved.header.training[name] for name in ("recalibrated", "layout")}
    save_model(saved.model, tmp_path / "old.skops", training=training)
    (found,) = succeed("info", tmp_path / "old.skops", "--json").document["history"]
    assert (found["event"], found["at"]) == ("recalibrate", training["recalibrated"]["at"])
    save_model(saved.model, tmp_path / "first.skops", training={"recalibrated": {"at": "some day"}})
    (found,) = succeed("info", tmp_path / "first.skops", "--json").document["history"]
    assert found["at"] is None
    write(frame(3), tmp_path / "fresh.csv")
    succeed("recalibrate", tmp_path / "old.skops", tmp_path / "fresh.csv")
    assert [each.event for each in load_model(tmp_path / "old.skops").model.threshold_history_] == ["recalibrate"] * 2


def test_diff_counts_the_rows_that_change_sides(place, tmp_path):
    done = succeed(
        "diff", place / "old.skops", place / "mended.skops", place / "new.csv", "--id", "case", "--json",
        "-o", tmp_path / "changes.csv",
    )  # fmt: skip
    document = done.document
    assert document["descent"] == "new from old"
    assert document["same_scorer"] is True
    assert not document["settings"]
    assert not document["columns"]
    rows = frame(2)
    before, after = (
        load_model(place / name).model.predict(rows.drop(columns="y")) for name in ("old.skops", "mended.skops")
    )
    fell = (before == 1) & (after == 0)
    counts = {
        "n": fell.sum(),
        "n_negative": (fell & (rows["y"] == 0)).sum(),
        "n_positive": (fell & (rows["y"] == 1)).sum(),
    }
    assert document["rows"]["to_negative"] == counts
    assert fell.sum() > 10
    assert document["rows"]["to_positive"]["n"] == (after > before).sum() == 0
    written = pd.read_csv(tmp_path / "changes.csv")
    assert written["case"].tolist() == [f"'=c{row}" for row in np.flatnonzero(fell)]
    assert written["label"].tolist() == rows["y"][fell].tolist()
    assert (written["score_before"] > 0).all()
    assert set(written["decision_now"]) == {0}
    write(pd.read_csv(place / "new.csv").rename(columns={"case": "score_before"}), tmp_path / "named.parquet")
    done = succeed(
        "diff", place / "old.skops", place / "mended.skops", tmp_path / "named.parquet", "--id", "score_before",
        "-o", tmp_path / "named.csv",
    )  # fmt: skip
    assert "the id is written as id_score_before" in done.err
    assert pd.read_csv(tmp_path / "named.csv")["id_score_before"].tolist() == written["case"].tolist()
    text = succeed("diff", place / "mended.skops", place / "old.skops", place / "new.csv").out
    assert "OLD was made from NEW" in text
    assert f"Of 650 rows, {after.sum()} were decided 1, now {before.sum()}" in text


def test_diff_of_other_models(place, tmp_path):
    table = frame(0).assign(extra=np.arange(650) % 7)
    write(table, tmp_path / "wide.csv")
    succeed("fit", tmp_path / "wide.csv", "--target", "y", *QUICK, "--tau", 0.1, "-o", tmp_path / "wide.skops")
    done = succeed("diff", place / "old.skops", tmp_path / "wide.skops", tmp_path / "wide.csv", "--json").document
    assert (done["descent"], done["same_scorer"]) == ("none", False)
    assert done["settings"]["tau"] == {"old": 0.05, "new": 0.1}
    assert done["columns"] == {"extra": {"old": None, "new": "number"}}
    assert done["rows"]["n_rows"] == 650
    again = succeed("diff", place / "old.skops", place / "old.skops", "--json").document
    assert (again["descent"], again["same_scorer"]) == ("same", True)


SCORERS = {
    "forest": lambda seed: RandomForestClassifier(8, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=8, max_features=0.5, random_state=seed),
    "LightGBM": lambda seed: pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=8, subsample=0.5, subsample_freq=1, random_state=seed, verbose=-1
    ),
    "neighbours": lambda seed: BaggingClassifier(
        KNeighborsClassifier(algorithm="brute"), n_estimators=2, random_state=seed
    ),
}


@pytest.mark.parametrize("name", [*SCORERS, "stack"])
def test_diff_knows_a_scorer_by_what_it_has_learned(name, tmp_path):
    X, y = numbers(0)
    models = [NeymanPearsonClassifier(SCORERS[name](seed), 0.05, random_state=0) for seed in (0, 1) if name in SCORERS]
    if name == "stack":
        models = [ScreeningClassifier(0.05, effort="fast", candidates=["forest"], random_state=seed) for seed in (0, 1)]
    models = [model.fit(X, y) for model in models]
    for seed, model in enumerate(models):
        save_model(model, tmp_path / f"{seed}.skops")
    np.savez(tmp_path / "fresh.npz", X=numbers(3)[0], y=numbers(3)[1])
    succeed("recalibrate", tmp_path / "0.skops", tmp_path / "fresh.npz", "-o", tmp_path / "mended.skops")
    for old, new, same in (("0", "0", True), ("0", "mended", True), ("0", "1", False), ("mended", "1", False)):
        done = succeed("diff", tmp_path / f"{old}.skops", tmp_path / f"{new}.skops", "--json").document
        assert done["same_scorer"] is same, (old, new)
    if name == "forest":
        models[0].estimator_.estimators_[7].tree_.value[-1] += 1e-9
        save_model(models[0], tmp_path / "touched.skops")
        assert "another one" in succeed("diff", tmp_path / "0.skops", tmp_path / "touched.skops").out


@pytest.mark.parametrize(("words", "code", "said"), [
    ("fit train.csv --target y --looks none -o out.skops", 2, "must be any, or how many thresholds"),
    ("recalibrate looks_2.skops few.csv", 1, "delta=0.05 is spent: with --looks 2"),
    ("recalibrate looks_2.skops few.csv --restart", 1, "--restart begins a new sequence"),
    ("recalibrate looks_any.skops shifted.csv", 1, "0 negatives that the model has not seen"),
    ("recalibrate looks_any.skops few.csv --restart", 1, "of the sequence together; 104 are needed"),
    ("info new.csv", 1, "new.csv cannot be loaded"),
    ("info none.skops", 1, "there is no such file"),
    ("recalibrate swapped.skops few.csv", 1, "its history is that of another model"),
    ("diff old.skops new.csv", 1, "new.csv cannot be loaded"),
    ("diff old.skops", 2, "missing argument"),
    ("diff old.skops fraud.skops", 1, "their decisions cannot be compared"),
    ("diff old.skops other.skops", 1, "have none in common"),
    ("diff old.skops mended.skops other.csv", 1, "there is no column 'x0', which the model needs"),
    ("diff old.skops mended.skops new.csv --id nobody", 1, "there is no column 'nobody'"),
    ("diff old.skops mended.skops -o changes.csv", 2, "-o is about rows"),
    ("diff old.skops mended.skops new.csv -o changes.txt", 1, "are written as .csv or .parquet"),
    ("diff old.skops mended.skops new.csv -o old.skops", 1, "is the file that is read"),
])  # fmt: skip
def test_bad_uses_end_with_a_sentence(place, words, code, said, monkeypatch):
    monkeypatch.chdir(place)
    if not (place / "other.skops").exists():
        other = frame(0).rename(columns=lambda name: name.replace("x", "z"))
        write(other, place / "other.csv")
        write(frame(0).replace({"y": {0: "fine", 1: "fraud"}}), place / "fraud.csv")
        succeed("fit", "other.csv", "--target", "y", *QUICK, "-o", "other.skops")
        succeed("fit", "fraud.csv", "--target", "y", "--positive", "fraud", *QUICK, "-o", "fraud.skops")
        swapped = load_model("old.skops").model
        swapped.threshold_history_ = load_model("mended.skops").model.threshold_history_
        save_model(swapped, "swapped.skops")
    before = contents(place)
    done = command(*words.split())
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert sum(not line.startswith("taufpl: note:") for line in done.err.splitlines()) == 1
    assert contents(place) == before


def test_the_commands_of_the_how_to(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "howto" / "a-year-of-operation.md"
    (source,) = re.findall(r"^>>> (def labelled.*?\n)(?=>>>)", page.read_text(encoding="utf-8"), re.M | re.S)
    names = {"np": np, "pd": pd}
    exec(source.replace("\n... ", "\n"), names)  # the rows of the page itself
    for number, name in enumerate(("january", "february", "september", "october", "november"), start=1):
        rows, fraud = names["labelled"](number + 6 if number > 2 else number)
        write(rows.assign(fraud=fraud).sample(frac=1.0, random_state=0), tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    lines = commands_of("howto/a-year-of-operation.md")
    done = [command(*words) for words in lines]
    assert [(words[0], each.code) for words, each in zip(lines, done, strict=True)] == [
        ("fit", 0), ("monitor", 0), ("recalibrate", 0), ("monitor", 3), ("recalibrate", 0), ("monitor", 0),
        ("diff", 0), ("info", 0),
    ]  # fmt: skip
    assert "NEW was made from OLD" in done[-2].out
    assert len(pd.read_csv("changes.csv")) > 30
    assert "0.05, at every look together; 0.0375 spent, 0.0125 left" in done[-1].out


def test_a_source_that_is_no_text_is_kept_as_text():
    assert ThresholdRecord.now("fit", 1, None, 0.0, delta_spent=0.0, source="caf\udce9").source == "caf?"


@pytest.mark.parametrize("changed", [{"delta_spent": 0.0}, {"delta_spent": 1.0}, {"at": None}, {"threshold": math.inf}])
def test_records_at_the_border_are_taken(changed):
    record = replace(ThresholdRecord.now("restart", 5, 1.5, 2.5, delta_spent=0.05), **changed)
    assert pickle.loads(pickle.dumps(record)) == record
