"""The paper's experiments: the protocol, the figures beside ours, the command."""

import csv
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit

from cli_cases import command
from taufpl import TauFPLRanker
from taufpl.datasets import load_heart
from taufpl.experiments import EXPERIMENTS, reproduce
from taufpl.paper import _accuracy as accuracy
from taufpl.paper._accuracy import classifier_cells, mean
from taufpl.paper._protocol import (
    LabelledData,
    RunSettings,
    Trial,
    printed_figure,
    read_dataset,
    table_datasets,
    table_taus,
)
from taufpl.paper._systems import CHOOSERS, ChosenScorer, DecisionRule


def read_rounds(path) -> list[dict]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_papers_figures_are_all_there():
    ranking = [
        printed_figure("ranking", dataset, tau, method)
        for dataset in table_datasets("ranking")
        for tau in table_taus("ranking", dataset)
        for method in ("CS-SVM", "TopPush", "SVM-pAUC-tight", "tau-Rank", "2tau-Rank")
    ]
    assert len(ranking) == 90
    assert sum(figure is None for figure in ranking) == 16, "SVM-pAUC-tight ran on heart alone"
    assert printed_figure("ranking", "w8a", 0.0005, "tau-Rank") == 0.508
    assert printed_figure("ranking", "spambase", 0.05, "2tau-Rank") == 0.862
    assert printed_figure("classification", "breast-cancer", 0.01, "CS-LR") == [0.007, 0.884, 0.116]
    assert printed_figure("classification", "heart", 0.01, "CS-LR") is None
    assert sum(len(table_taus("classification", name)) for name in table_datasets("classification")) == 21


def test_a_round_can_be_checked_by_hand(tmp_path):
    """The split, the fit with the chosen reg and the share, with nothing of the experiment's own code."""
    reproduce("ranking", tmp_path, datasets=["heart"], methods=["tau-Rank"], rounds=2, quick=True)
    X, y = load_heart(return_X_y=True)
    rows = read_rounds(tmp_path / "ranking" / "rounds.csv")
    assert len(rows) == 4
    for row in rows:
        seed = RunSettings(0).seed_of(int(row["round"]))
        splitter = StratifiedShuffleSplit(1, test_size=1 / 3, random_state=seed)
        train, test = next(splitter.split(X, y))
        train.sort()
        tau = float(row["tau"])
        model = TauFPLRanker(tau, json.loads(row["params"])["reg"]).fit(X[train], y[train])
        scores = X[test] @ model.coef_[0]
        negatives = np.sort(scores[y[test] == 0])[::-1]
        share = np.mean(scores[y[test] == 1] > negatives[math.floor(tau * negatives.size)])
        assert float(row["share"]) == pytest.approx(share, abs=1e-12)


@pytest.mark.slow
def test_more_rounds_do_not_change_the_first_ones(tmp_path):
    options = {"datasets": ["heart"], "methods": ["TopPush"], "quick": True}
    reproduce("ranking", tmp_path / "a", rounds=1, **options)
    reproduce("ranking", tmp_path / "a", rounds=2, **options)
    reproduce("ranking", tmp_path / "b", rounds=2, **options)

    def shares(name):
        return [
            (row["round"], row["tau"], row["share"]) for row in read_rounds(tmp_path / name / "ranking" / "rounds.csv")
        ]

    assert shares("a") == shares("b")
    reproduce("ranking", tmp_path / "c", rounds=2, seed=1, **options)
    assert shares("c") != shares("b")


def test_held_out_negatives_see_neither_search_nor_fit(monkeypatch):
    """The scorer of the guarantee is chosen and fitted on rows that its threshold does not use."""
    n = 900
    y = np.repeat([0, 1], [600, 300])
    X = np.column_stack((np.arange(n, dtype=float), np.random.default_rng(0).normal(size=n)))
    seen: dict = {}

    class ById(ClassifierMixin, BaseEstimator):
        def decision_function(self, X):
            seen.setdefault("scored", []).append(X[:, 0])
            return X[:, 1]

        def fit(self, X, y):
            raise AssertionError

    def choose(X, y, taus, criterion, seed, coarse):
        seen["chosen_on"], seen["criterion"] = X[:, 0], criterion
        model = ById()
        model.classes_ = np.array([0, 1])
        return [ChosenScorer(DecisionRule(model), {}, 0, 0, 0.0) for _ in taus]

    monkeypatch.setitem(CHOOSERS, "CS-SVM", choose)
    trial = Trial("any", "CS-SVM np", 3, 2)
    every = accuracy._decide_guaranteed(trial, LabelledData(X, y), X[:5], [0.05, 0.001], RunSettings())
    calibrated_on = seen["scored"][0]
    assert calibrated_on.size == 300
    assert (calibrated_on < 600).all()
    assert not set(calibrated_on) & set(seen["chosen_on"])
    assert len(set(calibrated_on) | set(seen["chosen_on"])) == n
    assert seen["criterion"] == "ranking"
    # .001 needs 2,995 negatives: it is refused, and said so.
    assert every[0].alarms is not None
    assert every[1].alarms is None
    assert "300 negatives are too few" in every[1].note


def test_means_and_errors_by_hand():
    assert mean([0.1, 0.2, 0.6]).value == pytest.approx(0.3)
    assert mean([0.1, 0.2, 0.6]).error == pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2 / 3))
    assert math.isnan(mean([0.5]).error)
    rows = [
        {"dataset": "heart", "tau": "0.05", "method": "tau-FPL", "fpr": fpr, "tpr": tpr}
        for fpr, tpr in (("0.02", "0.5"), ("0.10", "0.7"), ("0.03", "0.6"), ("nan", "nan"))
    ]
    cell = classifier_cells(rows)["heart", 0.05, "tau-FPL"]
    assert cell.fpr.value == pytest.approx(0.05)
    assert cell.score == pytest.approx(1.0 - 0.6)
    assert cell.mean_score.value == pytest.approx((0.5 + 1.3 + 0.4) / 3)
    assert cell.violations == pytest.approx(1 / 3)
    few = classifier_cells([{**rows[-1], "method": "CS-SVM np"}])
    assert few["heart", 0.05, "CS-SVM np"] is None


def test_tables_show_ours_the_papers_and_what_was_not_run():
    rows = [
        {"dataset": "heart", "method": method, "round": str(number), "tau": "0.05", "share": str(share)}
        for method, shares in (("tau-Rank", (0.5, 0.6)), ("CS-SVM", (0.56, 0.58)))
        for number, share in enumerate(shares)
    ]
    cells = accuracy.share_cells(rows)
    table = accuracy.share_table(cells, {**cells, ("heart", 0.05, "CS-SVM"): mean([0.6, 0.62])})
    [line] = [line for line in table.splitlines() if line.startswith("| heart | 5 %")]
    assert ".550 ± .050<br>paper .541" in line
    assert ".570 ± .010 (.610)<br>paper .526" in line
    assert "`taufpl reproduce ranking --dataset real-sim`" in table
    assert "–<br>paper .391" in table
    summary = accuracy.against_paper(cells) + accuracy.against_rivals(cells)
    assert (
        "tau-Rank: at or above the paper's figure minus one standard error in 1 of 1 cells, above it in 1." in summary
    )
    assert "The better of tau-Rank and 2tau-Rank: at or above every rival that was run in 0 of 1 cells" in summary
    assert "within one standard error of the best rival or above it in 1." in summary


def test_a_dataset_in_two_forms_is_counted_once_in_each(tmp_path):
    rows = [
        {"dataset": dataset, "method": "tau-Rank-early", "round": str(number), "tau": tau, "share": share,
         "share_with_ties": share, "shared_search": "0", "search_seconds": "1", "fit_seconds": "0", "n_params": "2",
         "n_fits": "5"}
        for dataset, tau, share in (("heart", ".05", ".6"), ("spambase", ".01", ".4"), ("spambase-unit", ".01", ".5"))
        for number in range(2)
    ]  # fmt: skip
    path, *_ = accuracy.write_ranking(rows, tmp_path, "command")
    source, unit = path.read_text("utf-8").split("### With ")[1:]
    assert source.startswith("features as at their source")
    assert unit.startswith("spambase-unit in the place of spambase")
    reached = (
        "tau-Rank-early: at or above the paper's figure minus one standard error in {} of 2 cells, above it in {}."
    )
    assert reached.format(1, 1) in source
    assert reached.format(2, 2) in unit
    assert ".500 ± .000<br>paper .460" in path.read_text("utf-8")


def test_unit_rows():
    raw, unit = read_dataset("spambase"), read_dataset("spambase-unit")
    scaled = raw.X / raw.X.std(axis=0)
    np.testing.assert_allclose((unit.X**2).sum(axis=1), 1.0)
    np.testing.assert_allclose(unit.X[7], scaled[7] / math.sqrt(scaled[7] @ scaled[7]))
    assert np.array_equal(unit.y, raw.y)


def test_the_classification_summary_compares_like_with_like():
    rows = [
        {"dataset": "heart", "tau": "0.05", "method": method, "fpr": fpr, "tpr": tpr}
        for method, fpr, tpr in (("tau-FPL", "0.04", "0.5"), ("2tau-FPL", "0.04", "0.54"), ("CS-SVM", "0.2", "0.9"))
    ]
    cells = classifier_cells(rows)
    summary = accuracy.classification_summary(cells)
    # .5 against the paper's .468, .46 against its .514; the better of ours against the better of theirs.
    assert "- tau-FPL: NP-score of the mean rates at or under the paper's in 0 of 1 cells." in summary
    assert "- 2tau-FPL: NP-score of the mean rates at or under the paper's in 1 of 1 cells." in summary
    assert (
        "- The better of tau-FPL and 2tau-FPL: NP-score of the mean rates at or under the paper's in 1 of 1" in summary
    )
    assert "(.040, .540), **.460**" in accuracy.score_table(cells)
    assert "| heart | 5 % | – | – | 1.00 | – | 0.00 | 0.00 | – |" in accuracy.violation_table(cells, accuracy.OWN)


def test_unknown_names_are_answered_with_the_known():
    with pytest.raises(ValueError, match=r"no experiment 'rankin': choose from ranking, .* Did you mean 'ranking'\?"):
        reproduce("rankin")
    with pytest.raises(ValueError, match=r"no dataset 'hart': choose from heart.*Did you mean 'heart'"):
        reproduce("ranking", datasets=["hart"])
    with pytest.raises(ValueError, match="no method 'SVM': choose from CS-SVM"):
        reproduce("ranking", methods=["SVM"])


def test_trials_leave_as_many_rows_as_they_promise():
    experiment = EXPERIMENTS["classification"]
    trials = experiment.plan(["heart", "breast-cancer"], ["CS-LR"], 2, True)
    assert [(trial.dataset, trial.round, trial.n_rows) for trial in trials] == [
        ("breast-cancer", 0, 3), ("breast-cancer", 1, 3), ("heart", 0, 2), ("heart", 1, 2),
    ]  # fmt: skip
    assert len(experiment.work(Trial("heart", "CS-LR", 0, 2), RunSettings(coarse=True))) == 2


@pytest.mark.slow
def test_the_quick_reproduction_runs_whole(tmp_path):
    """Every experiment with every method, by the command that users give, but for the second round."""
    environment = {**os.environ, "TAUFPL_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    line = [sys.executable, "-m", "taufpl.cli", "reproduce", "--quick", "--rounds", "1", "--jobs", "2", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert set(written) == set(EXPERIMENTS)
    for name, paths in written.items():
        for path in paths:
            assert (tmp_path / path).stat().st_size > 100, path
        rows = read_rounds(tmp_path / "results-quick" / name / "rounds.csv")
        assert {row["method"] for row in rows} == set(EXPERIMENTS[name].methods)
        assert not list((tmp_path / "results-quick" / name).glob("*.part*"))


def test_errors_of_the_command_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("reproduce", "ranking", "--dataset", "hart")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("taufpl: there is no dataset 'hart'")
    assert "Traceback" not in done.err
    assert command("reproduce", "--rounds", "0").code == 2
    assert command("--version").out.startswith("taufpl 0.")
    assert list(tmp_path.iterdir()) == []
