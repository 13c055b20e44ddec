"""The command line on a column of scores: from a file to a threshold, and what is done with it."""

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy.stats import binom

from cli_cases import command, commands_of, contents, succeed, write

N_NEGATIVE, N_POSITIVE = 1200, 120


def scores(seed, digits=2, n=N_NEGATIVE, m=N_POSITIVE):
    """Three columns, of scores between 0 and 1; some of them rounded, so that they repeat."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1], [n, m]))
    logits = rng.normal(size=n + m) - 3 + 3 * y
    return pd.DataFrame(
        {"case": np.arange(n + m), "model_score": np.round(1 / (1 + np.exp(-logits)), digits), "fraud": y}
    )


def fit(folder, *options, data="scores.csv", model="screen.skops"):
    target = ("--target", "fraud", "--score", "model_score", "--tau", 0.02)
    return succeed("fit", folder / data, *target, "-o", folder / model, "--json", *options).document


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    write(scores(0), folder / "scores.csv")
    write(scores(1, n=1500), folder / "fresh.parquet")
    fit(folder)
    return folder


def test_fit_prints_the_comparison(folder, tmp_path):
    done = succeed("fit", folder / "scores.csv", "--target", "fraud", "--score", "model_score", "--tau", 0.02,
                   "-o", tmp_path / "screen.skops")  # fmt: skip
    document = fit(folder, model=tmp_path / "screen.skops")
    assert f"model_score > {document['threshold']!r}" in done.out
    negatives = np.sort(scores(0).query("fraud == 0")["model_score"])
    # The largest number of negatives above the threshold that has a probability of at most 5 % at an FPR of 2 %.
    n_above = np.flatnonzero(binom.cdf(np.arange(50), N_NEGATIVE, 0.02) <= 0.05)[-1]
    assert document["threshold"] == negatives[-1 - n_above]
    assert document["guaranteed"]
    assert document["n_negative_used"] == N_NEGATIVE
    assert (document["score"], document["model_kind"]) == ("model_score", "score")
    assert [each["kind"] for each in document["columns"]] == ["dropped", "number"]


def test_low_scores_mirror_high_ones(folder, tmp_path):
    table = scores(0)
    write(table.assign(model_score=-table["model_score"]), tmp_path / "low.parquet")
    low = fit(tmp_path, "--lower-is-positive", data="low.parquet")
    assert low["threshold"] == -fit(folder)["threshold"]
    assert succeed("export", tmp_path / "screen.skops", "--sql").out.strip() == f'"model_score" < {low["threshold"]}E0'
    shown = succeed("info", tmp_path / "screen.skops", "--json").document
    assert shown["threshold"] == shown["history"][0]["threshold"] == low["threshold"]
    assert [each["threshold"] for each in shown["limits"]] == [low["threshold"]]
    assert shown["flagged_scores"] == "below the threshold"
    assert "below the threshold" in succeed("info", tmp_path / "screen.skops").out
    differing = succeed("diff", folder / "screen.skops", tmp_path / "screen.skops", "--json").document["settings"]
    assert differing["flagged_scores"] == {"old": "above the threshold", "new": "below the threshold"}
    succeed("predict", tmp_path / "screen.skops", tmp_path / "low.parquet", "-o", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert np.array_equal(found["decision"], -table["model_score"] < low["threshold"])


def test_other_systems_decide_as_predict_does(folder, tmp_path):
    model, table = folder / "screen.skops", pd.read_parquet(folder / "fresh.parquet")
    succeed("predict", model, folder / "fresh.parquet", "-o", tmp_path / "out.parquet", "--id", "case")
    decisions = pd.read_parquet(tmp_path / "out.parquet")
    threshold = fit(folder, model=tmp_path / "again.skops")["threshold"]
    assert (table["model_score"] == threshold).any()
    assert np.array_equal(decisions["decision"], table["model_score"] > threshold)
    query = succeed("export", model, "--sql", "--table", "rows").out
    with duckdb.connect() as database:
        database.register("rows", table)
        assert np.array_equal(database.execute(query).df()["taufpl_label"], decisions["decision"])
    assert succeed("export", model, "--json").document["weights"] == {"model_score": 1.0}
    succeed("export", model, "--onnx", tmp_path / "screen.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "screen.onnx")
    label = session.run(["label"], {"model_score": table[["model_score"]].to_numpy()})[0]
    assert np.array_equal(label, decisions["decision"])


@pytest.mark.parametrize("digits", [1, 2, 4, 6, 15])
def test_fresh_scores_are_not_taken_for_seen_rows(digits, tmp_path):
    write(scores(0, digits), tmp_path / "scores.csv")
    write(scores(1, digits, n=1500), tmp_path / "fresh.csv")
    # A mass of scores that the fit has seen once, at the end that decides: no false alarm may be left out.
    late = scores(2, digits, n=1000)
    late.loc[late.query("fraud == 0").index[:30], "model_score"] = scores(0, digits)["model_score"].max()
    write(late, tmp_path / "late.csv")
    fit(tmp_path)
    model = tmp_path / "screen.skops"
    found = succeed("evaluate", model, tmp_path / "fresh.csv", "--json")
    assert (found.document["n_negative"], found.document["n_seen_before"]) == (1500, None)
    assert "cannot be told" in found.err
    found = succeed("evaluate", model, tmp_path / "late.csv", "--json", code=3).document
    assert found["n_negative"] == 1000
    document = succeed("recalibrate", model, tmp_path / "fresh.csv", "--json").document
    assert (document["n_negative_used"], document["guaranteed"]) == (1500, True)


def test_watched_reported_and_recalibrated(folder, tmp_path):
    model, fresh = folder / "screen.skops", folder / "fresh.parquet"
    assert "no alarm" in succeed("monitor", model, fresh).out
    drifted = pd.read_parquet(fresh).assign(model_score=lambda table: np.sqrt(table["model_score"]))
    write(drifted, tmp_path / "drifted.csv")
    assert "ALARM" in succeed("monitor", model, tmp_path / "drifted.csv", code=3).out
    succeed("report", model, fresh, "-o", tmp_path / "report.html", "--new")
    assert "ScoreScreen" in (tmp_path / "report.html").read_text()
    new = succeed("recalibrate", model, tmp_path / "drifted.csv", "-o", tmp_path / "new.skops", "--json").document
    assert new["threshold"] > new["threshold_before"]
    done = command("recalibrate", model, folder / "scores.csv")
    assert done.code != 0
    assert "its negatives have chosen the threshold before" in done.err


def test_a_file_of_the_same_size_is_not_that_of_the_fit(folder, tmp_path):
    write(scores(5), tmp_path / "other.csv")
    write(scores(0).sample(frac=1, random_state=0), tmp_path / "shuffled.csv")
    model = folder / "screen.skops"
    assert "flatter" not in succeed("evaluate", model, tmp_path / "other.csv").err
    done = succeed("evaluate", model, tmp_path / "shuffled.csv", "--json")
    assert "its negatives have chosen the threshold" in done.err
    assert done.document["verdict"] == "open"


def test_files_that_chose_the_threshold_are_known_in_any_order(tmp_path):
    for seed in range(3):
        write(scores(seed, 6), tmp_path / f"{seed}.csv")
    fit(tmp_path, "--looks", "any", data="0.csv")
    model, others = tmp_path / "screen.skops", scores(1, 6).query("fraud == 0").sample(frac=1, random_state=0)
    write(others.drop(columns="fraud"), tmp_path / "negatives.csv")  # the same negatives, in another order
    succeed("recalibrate", model, tmp_path / "1.csv")
    assert succeed("evaluate", model, tmp_path / "2.csv", "--json").document["verdict"] == "kept"
    before = model.read_bytes()
    for data in ("0.csv", "1.csv", "negatives.csv"):
        done = command("recalibrate", model, tmp_path / data)
        assert (done.code, "have chosen the threshold before" in done.err) == (1, True)
        assert model.read_bytes() == before
    for data in ("0.csv", "1.csv"):
        done = succeed("evaluate", model, tmp_path / data, "--chunk-rows", 100, "--json")
        assert (done.document["verdict"], "flatters" in done.err) == ("open", True)
        done = succeed("report", model, tmp_path / data, "-o", tmp_path / "r.html", "--new", "--json").document
        assert done["trained_on"]
    assert succeed("recalibrate", model, tmp_path / "2.csv", "--json").document["n_negative_used"] == 3 * N_NEGATIVE


def test_the_commands_of_the_how_to(tmp_path, monkeypatch):
    write(scores(0, n=5000), tmp_path / "scores.csv")
    write(scores(1, n=8000), tmp_path / "later.csv")
    monkeypatch.chdir(tmp_path)
    lines = commands_of("howto/own-scores.md")
    outputs = [succeed(*words).out for words in lines]
    assert [words[0] for words in lines] == ["fit", "evaluate", "recalibrate", "export"]
    assert outputs[-1].startswith('"model_score" > ')
    assert "guaranteed" in outputs[2]


def test_groups_and_budgets(folder, tmp_path):
    write(scores(0).assign(customer=lambda table: table["case"] // 2), tmp_path / "scores.csv")
    grouped = fit(tmp_path, "--group", "customer")
    assert grouped["guaranteed"]
    assert 600 <= grouped["n_negative_used"] <= 660
    done = succeed("fit", folder / "scores.csv", "--target", "fraud", "--score", "model_score", "--alarms-per-day", 800,
                   "--volume", 5000, "--base-rate", 0.05, "-o", tmp_path / "budget.skops", "--json")  # fmt: skip
    assert done.document["n_negative_used"] == N_NEGATIVE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "linear"], "--model linear means nothing with --score: the scores are there"),
        (["--effort", "fast"], "--effort means nothing with --score"),
        (["--reg", "0.1"], "--reg means nothing with --score"),
        (["--holdout", "0.5"], "--holdout means nothing with --score: all negatives choose the threshold"),
        (["--threshold", "cross"], "--threshold cross means nothing with --score"),
        (["--drop", "case"], "--drop means nothing with --score: all other columns are left out anyway"),
        (["--time", "case"], "--time means nothing with --score"),
        (["--score", "Model_Score"], "there is no column 'Model_Score'. Did you mean 'model_score'?"),
        (["--score", "fraud"], "--score fraud is the target"),
        (["--group", "model_score"], "--score model_score is the column of --group, too"),
        (["--segment", "model_score"], "--score model_score is the column of --segment, too"),
        (
            ["--score", "note"],
            "scores.csv, row 8: column 'note' must hold numbers, the scores; got 'late', of type string",
        ),
        (["--score", "gap"], "column 'gap' has no finite number in 2 rows, first in row 4"),
        (["--tau", "0.0001"], "1,200 negatives are too few for the guarantee at tau 0.0001"),
        (
            ["--tau", "0.003", "--looks", "12"],
            "scores.csv: 1,200 negatives are too few for the guarantee at tau 0.003 and delta 0.00416667, the share of "
            "one of 12 thresholds; 1,825 are needed",
        ),
        (
            ["--tau", "0.0001", "--segment", "case"],
            "got 1,200 in 1320 segments. Collect more negatives, or raise tau or delta.",
        ),
    ],
)
def test_bad_uses_end_with_a_sentence(options, message, tmp_path):
    table = scores(0)
    gap = table["model_score"].where(table["case"] != 3).where(table["case"] != 8, np.inf)
    write(table.assign(note=np.where(table["case"] == 7, "late", "0.25"), gap=gap), tmp_path / "scores.csv")
    before = contents(tmp_path)
    done = command("fit", tmp_path / "scores.csv", "--target", "fraud", "--score", "model_score", *options,
                   "-o", tmp_path / "screen.skops")  # fmt: skip
    assert done.code in (1, 2)
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert contents(tmp_path) == before


def test_scores_need_a_table_and_a_column(folder, tmp_path):
    np.savez(tmp_path / "scores.npz", X=np.zeros((4, 1)), y=[0, 1, 0, 1])
    done = command("fit", tmp_path / "scores.npz", "--score", "x0", "-o", tmp_path / "screen.skops")
    assert "--score x0 is for tables" in done.err
    done = command("fit", folder / "scores.csv", "--target", "fraud", "--lower-is-positive", "-o", tmp_path / "a.skops")
    assert "--lower-is-positive is about the column of --score" in done.err
    write(scores(3).drop(columns="model_score"), tmp_path / "lacks.csv")
    done = command("evaluate", folder / "screen.skops", tmp_path / "lacks.csv")
    assert "there is no column 'model_score', which the model needs" in done.err
    table = scores(3)
    table.loc[5, "model_score"] = np.nan
    write(table, tmp_path / "gap.csv")
    for words in (("predict", "-o", tmp_path / "out.csv"), ("evaluate",), ("recalibrate", "-o", tmp_path / "m.skops")):
        done = command(words[0], folder / "screen.skops", tmp_path / "gap.csv", *words[1:])
        assert "gap.csv, row 6, column 'model_score': there is no score" in done.err
    assert not (tmp_path / "out.csv").exists()
