"""The command with the stack: one file in, decisions out, as in Python; and models side by side."""

import re

import numpy as np
import pandas as pd
import pytest
from rich.progress import Progress
from scipy import sparse
from scipy.stats import beta
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cli_cases import command, frame, mixed, succeed, write
from taufpl import NeymanPearsonClassifier, ScreeningClassifier
from taufpl.persistence import load_model, save_model
from taufpl.preprocessing import TableEncoder

TAU = 0.05
TARGET = ("--target", "y", "--positive", "fraud")
COMPARED = ("compare", "--models", "logistic,boosting", "--folds", 2, "--tau", TAU)


def with_strange_values(seed, **sizes):
    """Rows as those of the training file, some with a level that training never saw, or a gap where there was none."""
    table = mixed(seed, **sizes)
    table.loc[::7, "city"] = "zwolle"
    table.loc[::11, "x2"] = np.nan
    table.loc[::13, "when"] = pd.NaT
    return table


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screening")
    write(mixed(0), folder / "train.csv")
    write(with_strange_values(1), folder / "new.csv")
    return folder


@pytest.fixture(scope="module")
def fitted(place):
    """The document of a fit, whose model lies beside the data."""
    done = succeed(
        "fit", place / "train.csv", *TARGET, "--tau", TAU, "--effort", "fast", "-o", place / "m.skops", "--json"
    )  # fmt: skip
    assert done.err == ""
    return done.document


@pytest.fixture(scope="module")
def model(place, fitted):
    return load_model(place / "m.skops").model


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_decisions_are_those_of_python_on_the_same_rows(place, fitted):
    train, new = mixed(0), with_strange_values(1)
    ours = ScreeningClassifier(TAU, effort="fast", pos_label="fraud", random_state=0)
    ours.fit(train.drop(columns="y"), train["y"])
    succeed("predict", place / "m.skops", place / "new.csv", "-o", place / "out.csv")
    written = pd.read_csv(place / "out.csv")
    rows = new.drop(columns="y")
    np.testing.assert_allclose(written["score"], ours.decision_function(rows), rtol=1e-9, atol=1e-9)
    assert written["decision"].tolist() == ours.predict(rows).tolist()
    assert fitted["threshold"] == pytest.approx(ours.threshold_, rel=1e-9)
    assert fitted["guaranteed"] is True
    assert fitted["recall_estimate"] == pytest.approx(ours.evidence_.tpr_estimate)


def coded(seed, n=900):
    """Texts and categories that read as numbers or truth values, with an identifier among them."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    codes = np.array(["01234", "00501", "10115", "80331"])
    table = pd.DataFrame({"zip": np.where(rng.random(n) < 0.7, codes[2 * y + rng.integers(0, 2, n)], codes[0])})
    table["number"] = rng.normal(size=n) + 0.5 * y
    table["flag"] = np.where(rng.random(n) < 0.3 + 0.4 * y, "true", "false")
    table["key"] = [f"{each:07d}" for each in rng.permutation(n)]
    table["version"] = rng.choice(["1.0", "2.0", "3.50"], n)
    table["grade"] = pd.Categorical(rng.integers(1, 4, n) + y.astype(float))
    table["member"] = rng.random(n) < 0.3 + 0.3 * y
    table["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    return table, y


def from_python(name):
    if name == "stack":
        return ScreeningClassifier(0.1, effort="fast", candidates=[LogisticRegression()], random_state=0)
    encoded = make_pipeline(TableEncoder(), LogisticRegression())
    return NeymanPearsonClassifier(encoded, 0.1, threshold=name, random_state=0)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
@pytest.mark.parametrize("name", ["stack", "cross"])
def test_a_model_from_python_decides_on_a_file_as_in_python(tmp_path, name):
    model = from_python(name).fit(*coded(0))
    save_model(model, tmp_path / "m.skops")
    new, _ = coded(1)
    new.loc[::90, "zip"] = "99999"
    new.loc[::9, "number"] += 100.0
    flagged = model.predict(new)
    assert 50 < flagged.sum() < 600
    for ending in ("csv", "parquet"):
        data = write(new, tmp_path / f"new.{ending}")
        done = succeed("predict", tmp_path / "m.skops", data, "-o", tmp_path / "out.csv", "--json")
        written = pd.read_csv(tmp_path / "out.csv")
        assert written["decision"].tolist() == flagged.tolist()
        np.testing.assert_allclose(written["score"], model.decision_function(new), rtol=1e-9, atol=1e-9)
        assert "column zip: 10 of 900 rows (1.11%) have a level that training never saw, such as '99999'" in done.err
        unseen = done.document["unseen"]["columns"]
        assert unseen["number"]["n_above"] >= 100
        assert {column for column, each in unseen.items() if each["remarkable"]} == {"zip", "number"}


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
def test_evaluate_counts_those_decisions_and_unknown_levels(place, fitted, model):
    table = with_strange_values(1)
    flagged = model.predict(_as_read(table, fitted)) == "fraud"
    document = succeed("evaluate", place / "m.skops", place / "new.csv", "--json").document
    is_positive = (table["y"] == "fraud").to_numpy()
    assert document["n_false_positive"] == int(np.sum(flagged & ~is_positive))
    assert document["n_true_positive"] == int(np.sum(flagged & is_positive))
    assert document["n_seen_before"] == 0
    # Rows 0 to 2 of any file have rare levels, which the rows that train may not have had.
    assert 0 <= document["unseen"]["columns"]["city"]["n_unknown"] - len(range(0, len(table), 7)) <= 2


def _as_read(table, document):
    """A frame with the columns that the command gives the model, in its order."""
    kinds = {column["name"]: column["kind"] for column in document["columns"]}
    order = [
        name for kind in (("number", "boolean"), ("date",), ("category",)) for name in kinds if kinds[name] in kind
    ]
    return table[order].astype({name: float for name in order if kinds[name] == "boolean"})


def test_the_document_tells_how_candidates_stand_and_what_columns_bring(fitted, model):
    stack, *candidates = fitted["leaderboard"]
    assert stack["candidate"] == "stack"
    assert {"forest", "extra trees"} < {each["candidate"] for each in candidates}
    assert [each["recall"] for each in candidates] == sorted((each["recall"] for each in candidates), reverse=True)
    assert all(each["recall_low"] <= each["recall"] <= each["recall_high"] for each in (stack, *candidates))
    assert sum(each["weight"] > 0 for each in candidates) == len(model.estimator_.members_)
    assert fitted["effort"] == "fast"
    assert 0 < sum(each["seconds"] for each in candidates) <= fitted["seconds"]["fitting"] < fitted["seconds"]["all"]
    names = [each["column"] for each in fitted["importances"]]
    assert set(names) == {column["name"] for column in fitted["columns"] if column["kind"] != "dropped"}
    assert names[0] in ("x0", "x1", "x2", "x3", "member")  # the others say nothing about y


def test_other_commands_take_the_model(place, fitted, tmp_path):
    write(mixed(2), tmp_path / "fresh.csv")
    document = succeed("recalibrate", place / "m.skops", tmp_path / "fresh.csv", "-o", tmp_path / "m.skops",
                       "--json").document  # fmt: skip
    assert document["guaranteed"] is True
    assert document["threshold"] != document["threshold_before"]
    assert succeed("monitor", place / "m.skops", place / "new.csv", "--json").document["n_negative"] == 500
    succeed("report", place / "m.skops", place / "new.csv", "--new", "-o", tmp_path / "m.html")
    assert "Recall that is lost at the threshold" in (tmp_path / "m.html").read_text()
    # Rows with unknown levels and gaps, on which the graph must decide as the model does.
    succeed("export", place / "m.skops", "--onnx", tmp_path / "m.onnx", "--data", place / "new.csv")
    done = command("export", place / "m.skops", "--sql")
    assert (done.code, "--model linear" in done.err, done.err.count("\n")) == (1, True, 1), done


@pytest.mark.slow
def test_wide_sparse_rows_get_the_linear_ranking_alone(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [180, 60]))
    X = sparse.random(240, 2100, 0.01, format="csr", random_state=0) + sparse.csr_matrix(
        (y * 0.5, (np.arange(240), np.zeros(240, int))), shape=(240, 2100)
    )
    dump_svmlight_file(X.tocsr(), y, str(tmp_path / "rows.svm"), zero_based=False)
    done = succeed("fit", tmp_path / "rows.svm", "--tau", 0.2, "--effort", "fast", "-o", tmp_path / "m.skops", "--json")
    assert [each["candidate"] for each in done.document["leaderboard"]] == ["stack", "linear"]
    assert done.document["importances"] is None
    document = succeed(
        "predict", tmp_path / "m.skops", tmp_path / "rows.svm", "-o", tmp_path / "o.csv", "--json"
    ).document
    assert document["n_positive"] > 30


# Models side by side.


@pytest.fixture(scope="module")
def compared(place):
    done = succeed(*COMPARED, place / "train.csv", *TARGET, "-o", place / "compare.html", "--json")
    assert done.err == ""
    return done.document


@pytest.fixture
def told(monkeypatch):
    """What the bar on a wide terminal is told: steps done, steps in all, and the last one."""
    moves, update = [], Progress.update

    def spy(bar, task, **named):
        moves.append((named["completed"], named["total"], named["last"]))
        update(bar, task, **named)

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(Progress, "update", spy)
    return moves


@pytest.fixture
def folds(monkeypatch):
    """Of each fit with a threshold, the rows that it is made without, and which of them it flags."""
    found, fit, decide = [], NeymanPearsonClassifier.fit, NeymanPearsonClassifier.decision_function

    def spy_fit(model, X, *given, **named):
        found.append([model, X.index])
        return fit(model, X, *given, **named)

    def spy_decide(model, X):
        scores = decide(model, X)
        if model is found[-1][0] and not set(found[-1][1]) & set(X.index):
            found[-1] += [X.index, scores > 0]
        return scores

    monkeypatch.setattr(NeymanPearsonClassifier, "fit", spy_fit)
    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", spy_decide)
    return found


def test_each_row_is_scored_by_the_model_that_fit_makes_of_the_others(place, compared, tmp_path, told, folds):
    """By another way: files of the folds, fitted and scored by the commands."""
    succeed("compare", place / "train.csv", *TARGET, "--tau", TAU, "--models", "logistic", "--folds", 2)
    whole = [move for move in told if move[2].count(":") < 2]
    assert whole == [(0, 1, "logistic: fold 1 of 2"), (0.5, 1, "logistic: fold 2 of 2"), (1, 1, "done")]
    assert (0.5, 1, "logistic: fold 1 of 2: measuring the recall, fold 5 of 5") in told
    table, flagged = pd.read_csv(place / "train.csv"), np.zeros(650, bool)
    evaluated = folds[:]
    assert sorted(row for _, _, held_out, _ in evaluated for row in held_out) == list(range(650))
    for _, rows, held_out, decided in evaluated:
        write(table.loc[rows], tmp_path / "train.csv")
        write(table.loc[held_out], tmp_path / "held_out.csv")
        line = ("--tau", TAU, "--model", "logistic", "-o", tmp_path / "m.skops")
        succeed("fit", tmp_path / "train.csv", *TARGET, *line)
        succeed("predict", tmp_path / "m.skops", tmp_path / "held_out.csv", "-o", tmp_path / "out.csv")
        expected = pd.read_csv(tmp_path / "out.csv")["decision"] == "fraud"
        assert decided.tolist() == expected.tolist()
        flagged[held_out] = decided
    (row,) = (each for each in compared["models"] if each["model"] == "logistic")
    is_positive = (table["y"] == "fraud").to_numpy()
    assert row["n_found"] == int(np.sum(flagged & is_positive))
    assert row["n_false_alarms"] == int(np.sum(flagged & ~is_positive))


def test_rates_bounds_and_the_best(compared):
    assert (compared["n_negative"], compared["n_positive"], compared["n_folds"]) == (500, 150, 2)
    best = compared["models"][0]
    assert best["model"] == compared["best"]
    for row in compared["models"]:
        assert row["recall"] == row["n_found"] / 150
        low = beta.ppf(0.025, row["n_found"], 151 - row["n_found"])
        assert row["recall_low"] == pytest.approx(low)
        assert row["fpr_upper_bound"] == pytest.approx(
            beta.ppf(0.95, row["n_false_alarms"] + 1, 500 - row["n_false_alarms"])
        )
        assert row["n_found"] - best["n_found"] == row["n_found_by_this_alone"] - row["n_found_by_best_alone"]
        assert row["guaranteed"] is True
    assert any("--delta 0.025" in text for text in compared["notes"])  # 0.05 over two models


def test_the_page_has_the_table_and_a_picture_and_needs_nothing_else(place, compared):
    page = (place / "compare.html").read_text()
    assert len(re.findall("<svg", page)) == 1
    assert not re.search(r"(?:src|href)=.?(?:http|//)|<script", page)
    for row in compared["models"]:
        assert row["model"] in page
    assert all(text.replace(">", "&gt;").replace("<=", "&lt;=") in page for text in compared["notes"])


def fold_of_each_row(folds, n):
    found = np.full(n, -1)
    for fold, (_, _, held_out, _) in enumerate(folds):
        found[held_out] = fold
    return found


def test_groups_and_copies_stay_together(tmp_path, folds):
    table = frame(0).round(3)
    table = pd.concat([table, table.head(60)], ignore_index=True)
    table["customer"] = np.arange(len(table)) // 3
    write(table, tmp_path / "t.csv")
    line = ("compare", tmp_path / "t.csv", "--target", "y", "--tau", 0.2, "--models", "logistic")
    document = succeed(*line, "--folds", 2, "--drop", "customer", "--json").document
    found = fold_of_each_row(folds, len(table))
    assert sorted(set(found)) == [0, 1]
    assert found[:60].tolist() == found[-60:].tolist()
    assert document["n_negative"] + document["n_positive"] == len(table) - document["n_left_out"] == len(table) - 60
    line += ("--group", "customer")
    document = succeed(*line, "--folds", 2, "--json").document
    assert pd.Series(fold_of_each_row(folds[2:], len(table))).groupby(table["customer"]).nunique().max() == 1
    pairs = table[["customer", "y"]].drop_duplicates()
    assert (document["n_negative"], document["n_positive"]) == ((pairs["y"] == 0).sum(), (pairs["y"] == 1).sum())
    told = succeed(*line, "--folds", 2).out
    assert "One row of every customer and class" in told


def test_groups_may_have_both_classes(tmp_path):
    table = frame(0)
    table["customer"] = np.random.default_rng(0).integers(0, 40, len(table))
    assert (table.groupby("customer")["y"].nunique() == 2).all()
    write(table, tmp_path / "t.csv")
    line = ("compare", tmp_path / "t.csv", "--target", "y", "--group", "customer", "--tau", 0.2, "--models", "logistic")
    document = succeed(*line, "--folds", 2, "--json").document
    assert (document["n_negative"], document["n_positive"]) == (40, 40)
    done = command(*line, "--folds", 21)
    assert "40 groups with positives are too few for 21 folds" in done.err


def test_folds_share_the_groups_of_each_class_evenly(tmp_path, folds):
    """Many groups of positives alone, few with both classes, and fewer of negatives alone."""
    table = frame(0)
    is_positive = table["y"] == 1
    table["customer"] = np.where(is_positive, np.arange(len(table)) % 31, 24 + np.arange(len(table)) % 9)
    write(table, tmp_path / "t.csv")
    line = ("--target", "y", "--group", "customer", "--tau", 0.2, "--models", "logistic", "--folds", 4)
    succeed("compare", tmp_path / "t.csv", *line)
    for rows in (is_positive, ~is_positive):
        groups = table.assign(fold=fold_of_each_row(folds, len(table)))[rows].groupby("fold")["customer"].nunique()
        assert len(groups) == 4
        assert groups.max() - groups.min() <= 1


def test_a_terminal_sees_a_bar(place, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = succeed("compare", place / "train.csv", *TARGET, "--tau", TAU, "--models", "logistic", "--folds", 2)
    last = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", done.err).rstrip().splitlines()[-1]
    assert re.fullmatch(r"comparing \S+ 1/1 \S+ \S+ done", last.strip()), done.err


def bars_of_a_fit(place, tmp_path, monkeypatch, width):
    """What a terminal of some width shows, a line for every step that the bar is told of."""
    update = Progress.update
    monkeypatch.setattr(Progress, "update", lambda bar, *given, **named: update(bar, *given, **named, refresh=True))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    line = ("--tau", TAU, "--model", "linear", "--threshold", "np", "-o", tmp_path / "m.skops")
    shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", succeed("fit", place / "train.csv", *TARGET, *line).err)
    return [" ".join(each.split()) for each in re.split(r"[\r\n]", shown)]


@pytest.mark.parametrize(("width", "step"), [(160, "comparing rankings, fold 1 of 10"), (80, "comparing ra…")])
def test_the_bar_of_a_fit_shows_the_steps_of_every_model_and_keeps_its_room(place, tmp_path, monkeypatch, width, step):
    shown = bars_of_a_fit(place, tmp_path, monkeypatch, width)
    assert any(re.fullmatch(rf"fitting on 650 rows \S{{20}} 1/10 \S+ \S+ {step}", each) for each in shown)


BAD = [
    ("fit train.csv --target y --effort huge -o out.skops", 2, "'huge' is not one of 'fast', 'normal', 'best'"),
    ("fit train.csv --target y --model linear --effort fast -o out.skops", 2, "--effort fast is for --model auto"),
    ("compare", 2, "missing argument 'DATA'"),
    ("compare train.csv", 2, "--target is needed"),
    ("compare none.csv --target y", 1, "none.csv: there is no such file"),
    ("compare train.csv --target y", 1, "--positive fine or --positive fraud"),
    ("compare train.csv --target y --models svm", 2, "must be names between commas, of auto, linear"),
    ("compare train.csv --target y --models ,", 2, "must be names between commas"),
    ("compare train.csv --target y --models linear --effort best", 2, "--effort best is for --model auto"),
    ("compare train.csv --target y --folds 1", 2, "invalid value for '--folds'"),
    ("compare train.csv --target y -o train.csv", 1, "train.csv: is the file that is read"),
    ("compare train.csv --target y --positive fraud --folds 100", 1, "150 positives are too few for 100 folds"),
    ("compare train.csv --target y --positive fraud --models logistic --tau 0.001 --threshold np", 1, "are too few"),
]


@pytest.mark.parametrize(("line", "code", "words"), BAD, ids=[line for line, _, _ in BAD])
def test_a_bad_command_line_is_answered_in_one_sentence(place, monkeypatch, line, code, words):
    monkeypatch.chdir(place)
    done = command(*line.split())
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done
    assert words in done.err
