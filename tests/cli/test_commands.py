"""Every command does what it says, from every format."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from cli_cases import FORMATS, NAMES, command, contents, frame, mixed, numbers, succeed, write
from report_cases import embedded, part, rows as table_rows, section
from taufpl import KernelTauFPLClassifier, NeymanPearsonClassifier, TauFPLClassifier
from taufpl.metrics import fpr_upper_bound
from taufpl.monitoring import FPRMonitor
from taufpl.persistence import load_model, save_model
from taufpl.preprocessing import DateEncoder, LevelEncoder
from taufpl.thresholding import negatives_to_settle, share_interval

LEVELS = ["bonn", "oslo", "rome", None, "a"]
QUICK = ("--tau", "0.05", "--model", "logistic", "--threshold", "np")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Training and new rows in every format, and models."""
    folder = tmp_path_factory.mktemp("commands")
    for kind in FORMATS:
        write(frame(0), folder / f"train.{kind}")
        write(frame(1), folder / f"new.{kind}")
    write(mixed(0), folder / "mixed.csv")
    write(mixed(1), folder / "new_mixed.csv")
    succeed("fit", folder / "train.csv", "--target", "y", *QUICK, "-o", folder / "quick.skops")
    succeed(
        "fit", folder / "mixed.csv", "--target", "y", "--positive", "fraud", *QUICK, "-o", folder / "mixed.skops"
    )  # fmt: skip
    return folder


def decisions(path):
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def test_fit_and_predict_are_the_python_interface(place, tmp_path):
    X, y = numbers(0)
    new_X, _ = numbers(1)
    screen = TauFPLClassifier(0.05, random_state=3)
    # What is learned without labels, too, is learned from the rows that train.
    before = make_pipeline(SimpleImputer(strategy="mean"), StandardScaler()).fit(X[screen.training_rows(y)])
    ours = make_pipeline(*(step for _, step in before.steps), screen.fit(before.transform(X), y))
    expected = ours.decision_function(new_X)
    done = succeed(
        "fit", place / "train.csv", "--target", "y", "--model", "linear", "--tau", 0.05, "--seed", 3,
        "-o", tmp_path / "m.skops", "--json",
    )  # fmt: skip
    document = done.document
    assert document["threshold"] == pytest.approx(ours[-1].threshold_, rel=1e-9)
    assert document["fpr_upper_bound"] == pytest.approx(ours[-1].fpr_upper_bound_, rel=1e-9)
    assert document["recall_estimate"] == ours[-1].evidence_.tpr_estimate
    assert document["guaranteed"] is True
    assert document["threshold_strategy"] == "np"
    assert document["recall_interval"][0] < document["recall_estimate"] < document["recall_interval"][1]
    assert document["dual_gap"] is None
    succeed("predict", tmp_path / "m.skops", place / "new.csv", "-o", tmp_path / "out.csv")
    found = decisions(tmp_path / "out.csv")
    assert found["row"].tolist() == list(range(1, len(new_X) + 1))
    assert found["decision"].tolist() == ours.predict(new_X).tolist()
    np.testing.assert_allclose(found["score"], expected, rtol=1e-9, atol=1e-9)
    # The rows were scaled in place while it was fitted; the file must not do that to its users.
    table = frame(1)[NAMES]
    kept = table.copy()
    loaded = load_model(tmp_path / "m.skops").model
    np.testing.assert_array_equal(loaded.decision_function(table), loaded.decision_function(table))
    pd.testing.assert_frame_equal(table, kept)


def test_preprocessing_lies_inside_what_the_guarantee_is_about(place):
    """The held-out negatives have had no part in means and levels."""
    table = mixed(0)
    model = load_model(place / "mixed.skops").model
    assert isinstance(model, NeymanPearsonClassifier)
    prepare = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(strategy="mean", add_indicator=True), StandardScaler()),
             [*NAMES, "member"]),
            ("d", make_pipeline(DateEncoder(), StandardScaler()), ["when"]),
            ("c", LevelEncoder(min_frequency=5, max_categories=51), ["city"]),
        ]
    )  # fmt: skip
    table["member"] = table["member"].astype(float)
    same = NeymanPearsonClassifier(
        Pipeline([("p", prepare), ("s", LogisticRegression(max_iter=1000))]),
        0.05,
        pos_label="fraud",
        random_state=0,
    ).fit(table, table["y"])
    assert model.threshold_ == pytest.approx(same.threshold_, rel=1e-9)
    assert model.evidence_.guaranteed
    # Fitted on all rows the mean would be another one.
    means = model.estimator_[0].named_transformers_["numbers"][0].statistics_
    assert means[1] != pytest.approx(table["x1"].mean())


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_decisions(place, tmp_path, kind):
    target = () if kind in ("npz", "svm", "txt") else ("--target", "y")
    succeed("fit", place / f"train.{kind}", *target, *QUICK, "-o", tmp_path / "m.skops")
    scores = []
    for model, data in ((tmp_path / "m.skops", f"new.{kind}"), (place / "quick.skops", f"new.{kind}")):
        succeed("predict", model, place / data, "-o", tmp_path / "out.parquet")
        scores.append(decisions(tmp_path / "out.parquet"))
    succeed("predict", place / "quick.skops", place / "new.csv", "-o", tmp_path / "csv.parquet")
    expected = decisions(tmp_path / "csv.parquet")
    for found in scores:
        pd.testing.assert_frame_equal(found, expected, rtol=1e-9)
    assert 0 < (expected["decision"] == 1).sum() < len(expected)


def test_sparse_rows_stay_sparse(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [400, 200]))
    X = sparse.random(600, 60, 0.1, format="csr", random_state=0)
    X = sparse.csr_matrix(X + sparse.diags(y * 1.0) @ sparse.random(600, 60, 0.1, random_state=1))
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    np.savez(tmp_path / "sparse.npz", y=y, **parts)
    with open(tmp_path / "sparse.svm", "w", encoding="ascii") as file:
        for row, label in enumerate(y):
            at = slice(X.indptr[row], X.indptr[row + 1])
            pairs = sorted(zip(X.indices[at].tolist(), X.data[at].tolist(), strict=True))
            file.write(" ".join([str(label), *(f"{place + 1}:{value!r}" for place, value in pairs)]) + "\n")
    ours = NeymanPearsonClassifier(make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000)), 0.05,
                                   random_state=0).fit(X, y)  # fmt: skip
    for name in ("sparse.npz", "sparse.svm"):
        succeed("fit", tmp_path / name, *QUICK, "-o", tmp_path / "m.skops")
        assert load_model(tmp_path / "m.skops").header.training["layout"]["is_sparse"]
        for data in ("sparse.npz", "sparse.svm"):
            succeed("predict", tmp_path / "m.skops", tmp_path / data, "-o", tmp_path / "out.csv", "--chunk-rows", 101)
            scores = decisions(tmp_path / "out.csv")["score"]
            np.testing.assert_allclose(scores, ours.decision_function(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("data", ["new_mixed.csv", pytest.param("new_mixed.parquet", marks=pytest.mark.slow)])
def test_streaming_in_tiny_chunks_is_the_same_as_in_one_go(place, tmp_path, data):
    write(mixed(1), place / data)
    for rows, name in ((1_000_000, "whole.csv"), (7, "parts.csv")):
        succeed("predict", place / "mixed.skops", place / data, "-o", tmp_path / name, "--chunk-rows", rows)
    whole, parts = decisions(tmp_path / "whole.csv"), decisions(tmp_path / "parts.csv")
    # Sums over fewer rows may be taken in another order, which the last digit of a score shows.
    np.testing.assert_allclose(whole.pop("score"), parts.pop("score"), rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(whole, parts)
    documents = [
        succeed("evaluate", place / "mixed.skops", place / data, "--chunk-rows", rows, "--json").document
        for rows in (1_000_000, 7)
    ]
    assert documents[0] == documents[1]


def test_columns_are_told_apart_and_recorded(place):
    done = succeed(
        "fit", place / "mixed.csv", "--target", "y", "--positive", "fraud", *QUICK, "--drop", "x3",
        "--threshold", "cross", "-o", place / "again.skops", "--json",
    )  # fmt: skip
    columns = {column["name"]: column for column in done.document["columns"]}
    kinds = {name: column["kind"] for name, column in columns.items()}
    assert kinds == {
        "x0": "number", "x1": "number", "x2": "number", "x3": "dropped", "city": "category", "member": "boolean",
        "when": "date", "number": "dropped", "same": "dropped", "empty": "dropped", "comment": "dropped",
    }  # fmt: skip
    assert columns["x1"]["n_missing"] == mixed(0)["x1"].isna().sum()
    assert columns["city"]["levels"] == mixed(0)["city"].value_counts().index[:3].tolist()
    assert "3 of 6 levels are rare" in columns["city"]["note"]
    for name, word in (("number", "identifier"), ("same", "same value"), ("empty", "no value"),
                       ("comment", "free text"), ("x3", "as asked")):  # fmt: skip
        assert word in columns[name]["note"], name
    assert load_model(place / "again.skops").header.training["layout"]["target"] == "y"


def test_unknown_levels_gaps_and_extra_columns(place, tmp_path):
    table = mixed(1).head(50)
    table["city"] = "atlantis"
    table["stranger"] = 1
    table.loc[:, "x0"] = np.nan
    write(table, tmp_path / "odd.csv")
    done = succeed("predict", place / "mixed.skops", tmp_path / "odd.csv", "-o", tmp_path / "odd.parquet")
    assert "1 columns that the model does not know are ignored: stranger" in done.err
    assert "column city: 50 of 50 rows (100%) have a level that training never saw, such as 'atlantis'" in done.err
    assert "column x0: 50 of 50 rows (100%) lack a value; no training row did" in done.err
    # A level that is new is the mean of those that are known, which share their scores among the rare ones.
    model = load_model(place / "mixed.skops").model
    encoder = model.estimator_[0].named_transformers_["categories"]
    scores = [model.decision_function(table.assign(member=table["member"] * 1.0, city=level)) for level in LEVELS]
    rows = encoder.transform(pd.DataFrame({"city": LEVELS})).toarray()
    weights = np.linalg.lstsq(rows.T, encoder.shares_, rcond=None)[0]
    np.testing.assert_allclose(decisions(tmp_path / "odd.parquet")["score"], weights @ scores, rtol=1e-9, atol=1e-9)


def test_evaluate_counts(place):
    X, y = numbers(1)
    model = load_model(place / "quick.skops").model
    flagged = model.predict(pd.DataFrame(X, columns=NAMES)) == 1
    document = succeed("evaluate", place / "quick.skops", place / "new.csv", "--json").document
    false = int(flagged[y == 0].sum())
    assert (document["n_false_positive"], document["n_negative"]) == (false, int((y == 0).sum()))
    assert document["recall"] == flagged[y == 1].mean()
    assert document["fpr_upper_bound"] == pytest.approx(fpr_upper_bound(false, 500, 0.05))
    assert document["np_score"] == pytest.approx(max(false / 500, 0.05) / 0.05 - flagged[y == 1].mean())
    assert "recall" in succeed("evaluate", place / "quick.skops", place / "new.csv").out


def test_evaluate_says_what_would_settle_an_open_verdict(place, tmp_path):
    """One word for the verdict in table, JSON and report; how many negatives it takes; an interval on recall."""
    data = write(frame(1).head(150), tmp_path / "few.csv")
    document = succeed("evaluate", place / "quick.skops", data, "--json", code=4).document
    n, x, needed = (document[name] for name in ("n_negative", "n_false_positive", "n_negative_to_settle"))
    assert document["verdict"] == "open"
    assert n < needed == negatives_to_settle(x, n, 0.05, 0.05)
    ends = [document["recall_low"], document["recall_high"]]
    assert ends == pytest.approx(share_interval(document["n_true_positive"], document["n_positive"], 0.05))
    told = succeed("evaluate", place / "quick.skops", data).out
    assert f"open: {n} negatives cannot tell; about {needed:,} would, at this FPR" in told
    assert f"between {100 * ends[0]:.2f}% and {100 * ends[1]:.2f}% at 95% confidence" in told
    names = [line.split("│")[1].strip() for line in told.splitlines() if line.startswith("│")]
    assert len(set(names)) == len(names)
    succeed("report", place / "quick.skops", data, "-o", tmp_path / "r.html", "--new")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert embedded(page)["verdict"] == "open"
    assert f"Open {x:,} of {n}" in part(page, "verdict")
    assert f"About {needed:,} harmless cases at this rate would tell." in part(page, "verdict")


def test_evaluate_of_a_rate_that_equals_the_tolerance_says_that_no_number_would_do(place, tmp_path):
    table = frame(1)
    succeed("predict", place / "quick.skops", place / "new.csv", "-o", tmp_path / "out.csv")
    flagged = (decisions(tmp_path / "out.csv")["decision"] == 1).to_numpy()
    negative = (table["y"] == 0).to_numpy()
    table = pd.concat([table[flagged & negative].head(2), table[~flagged & negative].head(38)])
    data = write(table, tmp_path / "equal.csv")
    document = succeed("evaluate", place / "quick.skops", data, "--json").document
    assert (document["fpr"], document["verdict"], document["n_negative_to_settle"]) == (0.05, "open", None)
    assert (document["recall"], document["recall_low"]) == (None, None)
    assert "no number of negatives would tell" in succeed("evaluate", place / "quick.skops", data).out


def test_a_tolerance_that_is_kept_exits_with_0(place, tmp_path):
    table = frame(1)
    flagged = load_model(place / "quick.skops").model.predict(table[NAMES]) == 1
    write(table[(table["y"] == 0) & ~flagged], tmp_path / "harmless.csv")
    done = command("evaluate", place / "quick.skops", tmp_path / "harmless.csv", "--json")
    assert (done.code, done.document["verdict"]) == (0, "kept")


def test_a_broken_tolerance_is_an_exit_code(place, tmp_path):
    drifted = frame(2)
    drifted[NAMES] += 2.0
    write(drifted, tmp_path / "drift.csv")
    done = succeed("evaluate", place / "quick.skops", tmp_path / "drift.csv", "--json", code=3)
    assert done.document["verdict"] == "broken"
    assert done.document["fpr_lower_bound"] > 0.05
    done = succeed("monitor", place / "quick.skops", tmp_path / "drift.csv", "--json", code=3)
    scores = load_model(place / "quick.skops").model.decision_function(drifted[NAMES])
    watch = FPRMonitor(0.05, 0.05)
    watch.update(scores[drifted["y"] == 0] > 0)
    assert done.document["alarm_at_negative"] == watch.alarm_at
    assert "ALARM" in succeed("monitor", place / "quick.skops", tmp_path / "drift.csv", code=3).out


@pytest.mark.rounding
def test_recalibrate_mends_what_has_drifted(place, tmp_path):
    drifted = frame(2)
    drifted[NAMES] += 2.0
    write(drifted, tmp_path / "drift.csv")
    write(drifted[drifted["y"] == 0].drop(columns="y"), tmp_path / "negatives.csv")
    before = (place / "quick.skops").read_bytes()
    thresholds = []
    for data in ("drift.csv", "negatives.csv"):
        done = succeed(
            "recalibrate", place / "quick.skops", tmp_path / data, "-o", tmp_path / "mended.skops", "--json"
        )  # fmt: skip
        thresholds.append(done.document["threshold"])
        assert done.document["guaranteed"] is True
        assert done.document["n_negative_used"] == 500
    # The same rows at other places of a batch: BLAS may add up their scores in another order.
    assert thresholds[0] == pytest.approx(thresholds[1], rel=1e-12)
    assert (place / "quick.skops").read_bytes() == before
    again = frame(3)
    again[NAMES] += 2.0
    write(again, tmp_path / "again.csv")
    succeed("evaluate", tmp_path / "mended.skops", tmp_path / "again.csv")
    assert load_model(tmp_path / "mended.skops").header.training["recalibrated"]["n_negative"] == 500
    succeed("recalibrate", tmp_path / "mended.skops", tmp_path / "again.csv")
    assert load_model(tmp_path / "mended.skops").model.threshold_ != thresholds[0]


def test_recalibrate_says_where_it_takes_all_rows_as_negatives(place, tmp_path):
    fresh, call = frame(4), ("recalibrate", place / "quick.skops")
    write(fresh.drop(columns="y"), tmp_path / "bare.csv")
    done = succeed(*call, tmp_path / "bare.csv", "-o", tmp_path / "m.skops")
    assert "bare.csv: no column 'y': all 650 rows are taken as negatives." in done.err
    assert "all 650 rows are taken as negatives" in done.out
    np.savez(tmp_path / "bare.npz", X=fresh[NAMES].to_numpy())
    for data, n_negative in {"bare.npz": 650, "full.npz": 500, "full.svm": 500, "full.csv": 500}.items():
        if data.startswith("full"):
            write(fresh, tmp_path / data)
        done = succeed(*call, tmp_path / data, "-o", tmp_path / "m.skops", "--json")
        assert done.document["n_negative_used"] == n_negative
        assert done.document["has_labels"] is (n_negative == 500) is ("taken as negatives" not in done.err)
    write(fresh.rename(columns={"y": " Y"}), tmp_path / "case.csv")
    before = contents(tmp_path)
    done = command(*call, tmp_path / "case.csv", "-o", tmp_path / "m.skops")
    assert (done.code, "but ' Y'. If it holds them, say --target ' Y'" in done.err) == (1, True)
    assert contents(tmp_path) == before
    succeed(*call, tmp_path / "case.csv", "--target", " Y", "-o", tmp_path / "m.skops")


def test_recalibrate_does_not_replace_what_another_call_has_written(place, tmp_path, monkeypatch):
    shutil.copy(place / "quick.skops", tmp_path / "m.skops")
    choose = NeymanPearsonClassifier.recalibrate

    def meanwhile(*given, **named):
        (tmp_path / "m.skops").write_bytes(b"of another call")
        return choose(*given, **named)

    monkeypatch.setattr(NeymanPearsonClassifier, "recalibrate", meanwhile)
    done = command("recalibrate", tmp_path / "m.skops", place / "new.csv")
    assert (done.code, "another call has written it" in done.err) == (1, True)
    assert (tmp_path / "m.skops").read_bytes() == b"of another call"


@pytest.mark.slow
def test_two_recalibrations_at_once_lose_no_look(place, tmp_path):
    model = tmp_path / "m.skops"
    succeed("fit", place / "train.csv", "--target", "y", *QUICK, "--looks", "5", "-o", model)
    call = [sys.executable, "-c", "from taufpl.cli import main; main()", "recalibrate", str(model)]
    for trial in range(2):
        files = [tmp_path / f"{trial}{number}.csv" for number in (0, 1)]
        for number, path in enumerate(files):
            write(frame(10 + 2 * trial + number), path)
        before = len(load_model(model).model.threshold_history_)
        both = [subprocess.Popen([*call, str(path)], stderr=subprocess.PIPE, text=True) for path in files]
        told = [process.communicate()[1] for process in both]
        codes = [process.returncode for process in both]
        assert len(load_model(model).model.threshold_history_) == before + codes.count(0)
        assert all(code == 0 or "written it meanwhile" in text for code, text in zip(codes, told, strict=True)), told
    assert not list(tmp_path.glob(".taufpl*"))


def test_the_training_rows_do_not_calibrate(place):
    done = command("recalibrate", place / "quick.skops", place / "train.csv", "-o", place / "cheat.skops")
    assert done.code == 1
    assert "fitted on these very rows" in done.err
    assert not (place / "cheat.skops").exists()


def test_monitor_reads_a_stream(place):
    text = (place / "new.csv").read_bytes()
    lived = succeed("monitor", place / "quick.skops", "-", "--json", "--chunk-rows", 13, stdin=text).document
    filed = succeed("monitor", place / "quick.skops", place / "new.csv", "--json").document
    assert lived == filed
    assert lived["n_negative"] == 500
    assert lived["alarm"] is False


def test_report_knows_the_training_rows(place, tmp_path):
    done = succeed("report", place / "mixed.skops", place / "mixed.csv", "-o", tmp_path / "r.html", "--json")
    assert done.document["trained_on"] is True
    done = succeed(
        "report", place / "mixed.skops", place / "new_mixed.csv", "-o", tmp_path / "r.html", "--volume", 5000,
        "--base-rate", 0.01, "--title", "Cards", "--new", "--json",
    )  # fmt: skip
    assert done.document["trained_on"] is False
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Cards" in page
    assert "city = " in page
    assert "categories__" not in page


def test_export_in_three_forms(place, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    done = succeed("export", place / "quick.skops", "--onnx", tmp_path / "m.onnx", "--json")
    assert done.document == {"onnx": str(tmp_path / "m.onnx")}
    table = frame(1)
    model = load_model(place / "quick.skops").model
    session = ort.InferenceSession((tmp_path / "m.onnx").read_bytes())
    (label,) = session.run(["label"], {name: table[[name]].to_numpy() for name in NAMES})
    assert label.tolist() == model.predict(table[NAMES]).tolist()
    succeed("export", place / "mixed.skops", "--onnx", tmp_path / "m.onnx", "--data", place / "new_mixed.csv")
    succeed("export", place / "mixed.skops", "--onnx", tmp_path / "m.onnx")
    printed = succeed("export", place / "mixed.skops", "--json").document
    assert set(printed["weights"]) == {*NAMES, "member"}
    assert set(printed["categories"]) == {"city"}
    assert set(printed["dates"]) == {"when"}
    succeed("export", place / "mixed.skops", "--json", tmp_path / "m.json")
    assert '"weights"' in (tmp_path / "m.json").read_text(encoding="utf-8")
    assert '"x0"' in succeed("export", place / "quick.skops", "--sql").out
    query = succeed("export", place / "quick.skops", "--sql", "--table", "mails", "--json").document["sql"]
    assert query.startswith("SELECT")


@pytest.mark.parametrize(
    ("model", "n", "told"), [("kernel", 9_000, False), ("kernel", 12_000, True), ("linear", 12_000, False)]
)
def test_a_kernel_on_many_rows_says_beforehand_that_it_takes_minutes(tmp_path, monkeypatch, model, n, told):
    for each in (KernelTauFPLClassifier, TauFPLClassifier):
        monkeypatch.setattr(each, "fit", lambda *_, **__: 1 / 0)
    file = write(frame(0, n=n), tmp_path / "many.csv")
    done = succeed("fit", file, "--target", "y", "--model", model, "-o", tmp_path / "m.skops", code=1)
    assert "ZeroDivisionError" in done.err
    assert ("takes minutes" in done.err) is told
    assert ("--model linear" in done.err) is told


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
@pytest.mark.parametrize(
    "options",
    [
        ("--model", "paper", "--threshold", "np"),
        ("--model", "paper", "--reg", "0.1", "--threshold", "cross"),
        ("--model", "paper", "--reg", "0.1", "--threshold", "np"),
        ("--model", "logistic", "--threshold", "cross"),
        pytest.param(("--model", "logistic", "--threshold", "oob"), marks=pytest.mark.slow),
        ("--model", "boosting", "--threshold", "np"),
        pytest.param(("--model", "forest", "--threshold", "np"), marks=pytest.mark.slow),
        ("--model", "logistic", "--drop", "when", "--threshold", "train"),
        ("--model", "linear", "--threshold", "np"),
        pytest.param(("--model", "kernel", "--reg", "0.1", "--threshold", "cross"), marks=pytest.mark.slow),
        pytest.param(("--model", "kernel", "--threshold", "np"), marks=pytest.mark.slow),
    ],
)
def test_models_and_thresholds(place, tmp_path, options):
    done = succeed(
        "fit", place / "mixed.csv", "--target", "y", "--positive", "fraud", "--tau", 0.1, *options,
        "-o", tmp_path / "m.skops", "--json",
    )  # fmt: skip
    document = done.document
    assert document["threshold_strategy"] == options[-1]
    assert document["guaranteed"] is (options[-1] == "np")
    assert (document["dual_gap"] is not None) is (options[1] in ("paper", "kernel"))
    assert (document["kernel_gap"] is not None) is (options[1] == "kernel")
    if "0.1" in options:
        assert document["reg"] == 0.1
    model = load_model(tmp_path / "m.skops").model
    model.predict(mixed(1).assign(member=1.0))
    # The quantile of the training rows promises nothing, and here it shows.
    succeed("evaluate", tmp_path / "m.skops", place / "new_mixed.csv", code=3 if options[-1] == "train" else 0)


def test_fit_prints_what_it_did(place, tmp_path):
    done = succeed(
        "fit", place / "mixed.csv", "--target", "y", "--positive", "fraud", *QUICK, "-o", tmp_path / "m.skops"
    )
    for words in ("FPR upper bound", "NP-score", "guaranteed", "yes: P(FPR > 5.00%) <= 0.05", "fine", "identifier"):
        assert words in done.out
    assert done.err == ""


def test_a_model_that_no_command_has_fitted(place, tmp_path):
    table = frame(0)
    model = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(table[NAMES], table["y"])
    save_model(model, tmp_path / "own.skops")
    succeed("predict", tmp_path / "own.skops", place / "new.csv", "-o", tmp_path / "out.csv", "--id", "x1")
    found = decisions(tmp_path / "out.csv")
    assert found["x1"].tolist() == frame(1)["x1"].tolist()
    assert found["decision"].tolist() == model.predict(frame(1)[NAMES]).tolist()
    done = command("evaluate", tmp_path / "own.skops", place / "new.csv")
    assert (done.code, "--target is needed" in done.err) == (2, True)
    succeed("evaluate", tmp_path / "own.skops", place / "new.csv", "--target", "y")


def test_rows_without_a_label_are_left_out(place, tmp_path):
    table = frame(1).astype({"y": float})
    table.loc[:9, "y"] = np.nan
    write(table, tmp_path / "gaps.csv")
    done = succeed("evaluate", place / "quick.skops", tmp_path / "gaps.csv", "--json")
    assert done.document["n_negative"] + done.document["n_positive"] == len(table) - 10
    assert "10 rows without a label" in done.err
    # Rows keep their numbers in the file, which are those of predict; a column may name them instead.
    predicted = tmp_path / "p.csv"
    succeed("predict", place / "quick.skops", tmp_path / "gaps.csv", "-o", predicted)
    scores = pd.read_csv(predicted).set_index("row")["score"]
    table["case"] = [f"case-{number}" for number in scores.index]
    write(table, tmp_path / "gaps.csv")
    for options in ((), ("--id", "case")):
        succeed("report", place / "quick.skops", tmp_path / "gaps.csv", "-o", tmp_path / "r.html", *options)
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        lines = table_rows(section(page, "examples"))
        shown = [float(line[1].replace("−", "-")) for line in lines]
        assert shown == pytest.approx([scores[int(line[0].removeprefix("case-"))] for line in lines], rel=1e-2)
        assert ("Row of gaps.csv, from 1" in page, "case-" in page) == (not options, bool(options))


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(("no", "yes"), "yes"), (("True", "False"), True), (("-1", "1"), 1), (("3", "7"), 7)],
)
def test_the_label_that_is_looked_for(tmp_path, labels, positive):
    table = frame(0)
    table["y"] = np.array(labels)[table["y"]]
    write(table, tmp_path / "t.csv")
    done = succeed("fit", tmp_path / "t.csv", "--target", "y", *QUICK, "-o", tmp_path / "m.skops", "--json")
    assert done.document["positive_label"] == positive
    succeed("evaluate", tmp_path / "m.skops", tmp_path / "t.csv")


@pytest.mark.slow
def test_the_demo_shows_who_keeps_the_promise_and_who_finds_most(tmp_path):
    done = succeed("demo", "-o", tmp_path / "demo", "--json")
    rows = {row["name"]: row for row in done.document["rows"]}
    assert len(rows) == 6
    by_hand = rows["gradient boosting, training quantile"]
    assert (by_hand["within_tolerance"], by_hand["promised_upper_bound"]) == (False, None)
    assert rows["gradient boosting, guarded"]["within_tolerance"] is True
    flagship = rows.pop("ScreeningClassifier")
    assert (flagship["guaranteed"], flagship["within_tolerance"]) == (True, True)
    assert flagship["promised_upper_bound"] <= 0.01
    assert all(flagship["recall"] > row["recall"] for row in rows.values() if row["within_tolerance"])
    assert set(contents(tmp_path / "demo")) == {"roc.png", "scores.png", "report.html"}
