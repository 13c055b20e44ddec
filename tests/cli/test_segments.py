"""Limits by segment at the command line: fit --segment --tau-for, and every command on the model."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cli_cases import NAMES, command, commands_of, contents, frame, succeed, write
from report_cases import embedded
from taufpl import NeymanPearsonClassifier
from taufpl.estimators import last_step
from taufpl.monitoring import SegmentMonitor
from taufpl.persistence import load_model, save_model
from taufpl.thresholding import SegmentOrderStatistics

SEGMENTS = ["EU", "FO", "GL", "US", "missing"]
LIMITS = ("--tau", "0.1", "--tau-for", "US=0.05", "--segment", "country")


def table(seed, n=1500, m=200):
    """Rows of four countries, of which one has other negatives and two are small, and some without a country."""
    rng, rows = np.random.default_rng(seed + 50), frame(seed, n=n, m=m)
    countries = np.array(["EU", "US", "FO", "GL", None], dtype=object)
    rows["country"] = rng.choice(countries, n + m, p=[0.5, 0.42, 0.03, 0.03, 0.02])
    rows.loc[rows["country"] == "US", NAMES] += 0.7
    rows["branch"] = rng.integers(1, 3, n + m)
    rows["agency"] = rows["branch"] + 2**60  # more digits than a double has
    return rows


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    for name, seed in (("train.csv", 0), ("new.csv", 1), ("new.parquet", 1), ("fresh.csv", 2)):
        write(table(seed), folder / name)
    document = fit(folder / "train.csv", folder / "m.skops", "--model", "logistic", *LIMITS)
    (folder / "fit.json").write_text(json.dumps(document))
    return folder


def fit(data, model, *options):
    return succeed("fit", data, "--target", "y", *options, "-o", model, "--json").document


def flags(folder, model="m.skops", seed=1):
    """Decisions that are made of scores and thresholds, row by row."""
    rows, head = table(seed), load_model(folder / model).model
    known, strictest = head.segments_.by_segment, head.segments_.strictest
    names = rows["country"].fillna("missing")
    scores = head.estimators_[0].decision_function(
        rows[[*NAMES, "branch", "agency", "country"]].astype({"branch": float, "agency": float})
    )
    return rows, names, scores > [known.get(name, strictest) for name in names]


def test_fit_prints_a_limit_a_segment(place, tmp_path):
    document = json.loads((place / "fit.json").read_text())
    found = {each["limit"]: each for each in document["limits"]}
    assert {name: each["tau"] for name, each in found.items()} == {"EU": 0.1, "US": 0.05, "others": 0.1}
    assert found["others"]["segments"] == ["FO", "GL", "missing"]
    assert all(each["guaranteed"] and each["fpr_upper_bound"] <= each["tau"] for each in found.values())
    assert document["segment"] == "country"
    told = succeed(
        "fit", place / "train.csv", "--target", "y", "--model", "logistic", *LIMITS, "-o", tmp_path / "n"
    ).out
    assert "Limits by country: all hold together with probability 1 - 0.05" in told
    assert "others (FO, GL, missing)" in told
    assert "yes: P(FPR > tolerance, of any limit by country) <= 0.05" in told
    assert "5.00% to 10.00% by country" in told
    strict = fit(place / "train.csv", tmp_path / "m.skops", "--model", "logistic", *LIMITS, "--tau-for", "FO=0.001")
    assert (strict["unproven_segments"], strict["guaranteed"]) == (["FO"], False)
    assert "none (FO)" in succeed("info", tmp_path / "m.skops").out
    assert any("too few negatives for a proof in 1 segment," in each for each in strict["notes"])
    shown = succeed("info", tmp_path / "m.skops").out
    assert "all hold together" not in shown


def test_rows_are_decided_by_the_threshold_of_their_segment(place, tmp_path):
    rows, names, expected = flags(place)
    for data, batch in (("new.csv", 65_536), ("new.parquet", 100)):
        out = tmp_path / f"{data}.parquet"
        done = succeed("predict", place / "m.skops", place / data, "-o", out, "--chunk-rows", batch, "--json").document
        written = pd.read_parquet(out)
        assert (written["decision"] == expected).all()
        assert written["segment"].tolist() == names.tolist()
        assert list(written) == ["row", "score", "decision", "segment"]
        assert done["unseen_segments"] == {"n_rows": 0, "segments": {}}
    strange = rows.assign(country=rows["country"].replace("EU", "Atlantis"))
    done = succeed(
        "predict", place / "m.skops", write(strange, tmp_path / "s.csv"), "-o", tmp_path / "s.parquet", "--json"
    )
    n_strange = int((names == "EU").sum())
    assert done.document["unseen_segments"] == {"n_rows": n_strange, "segments": {"Atlantis": n_strange}}
    assert f"{n_strange} rows are of segments without a proven limit" in done.err


def test_evaluate_and_monitor_go_by_segment(place):
    rows, names, flagged = flags(place)
    done = succeed("evaluate", place / "m.skops", place / "new.csv", "--json").document
    assert done["tau"] == 0.1
    assert "5.00% to 10.00% by country" in succeed("evaluate", place / "m.skops", place / "new.csv").out
    found = {each["limit"]: each for each in done["segments"]["limits"]}
    assert found["others"]["segments"] == ["FO", "GL", "missing"]
    by = succeed("evaluate", place / "m.skops", place / "new.csv", "--by", "country", "--json").document["by"]
    assert sorted(each["level"] for each in by["levels"]) == SEGMENTS
    for each in (*found.values(), *by["levels"]):
        mine = names.isin(each.get("segments", [each.get("level")])) & (rows["y"] == 0)
        assert each["tau"] == (0.05 if names[mine].iloc[0] == "US" else 0.1)
        assert (each["n_negative"], each["n_false_positive"]) == (mine.sum(), (mine & flagged).sum())
    other = succeed("evaluate", place / "m.skops", place / "new.csv", "--by", "branch", "--json").document["by"]
    assert {each["level"]: each["tau"] for each in other["levels"]} == {"1": 0.1, "2": 0.1}
    negative = (rows["y"] == 0).to_numpy()
    for by in ((), ("--by", "branch", "--run-length", "inf")):
        share = (0.025, np.inf) if by else ()
        watches = {
            "limit": SegmentMonitor({"US": 0.05, "others": 0.1}, *share, segments=["EU", "US"]),
            "level": SegmentMonitor(0.1, *share),
        }
        done = succeed("monitor", place / "m.skops", place / "new.csv", *by, "--json").document
        for (noun, watch), table_of in zip(watches.items(), ("segments", "by")[: 1 + bool(by)], strict=False):
            watch.update(flagged[negative], (names if noun == "limit" else rows["branch"])[negative])
            assert {
                each[noun]: (each["tau"], each["n_negative"], each["evidence"]) for each in done[table_of][f"{noun}s"]
            } == {name: (each.tau, each.n_seen, each.evidence) for name, each in watch.monitors.items()}
    assert (done["segments"]["column"], done["by"]["column"]) == ("country", "branch")


def test_an_alarm_in_a_segment_stays_whatever_by_shows(place, tmp_path):
    rows = table(1)
    rows.loc[rows["country"] == "FO", NAMES] += 2.0
    data = write(rows, tmp_path / "new.csv")
    call = ("monitor", place / "m.skops", data, "--by", "branch", "--run-length", "inf", "--state", tmp_path / "w")
    done = succeed(*call, "--json", code=3).document
    raised = [each["limit"] for each in done["segments"]["limits"] if each["alarm"]]
    assert (raised, any(each["alarm"] for each in done["by"]["levels"])) == (["others"], False)
    told = succeed(*call, code=3).out
    assert "ALARM in 1 of 3 limits: others (FO, GL, missing)" in told
    assert "2 calls since" in told


def test_recalibrate_info_and_diff(place, tmp_path):
    new = tmp_path / "new.skops"
    done = succeed("recalibrate", place / "m.skops", place / "fresh.csv", "-o", new, "--json").document
    head, rows = load_model(new).model, table(2)
    negatives = rows[rows["y"] == 0]
    scores = head.estimators_[0].decision_function(
        negatives[[*NAMES, "branch", "agency", "country"]].astype({"branch": float, "agency": float})
    )
    chosen = SegmentOrderStatistics({"US": 0.05, "others": 0.1}).choose(scores, negatives["country"])
    assert {each["limit"]: each["threshold"] for each in done["limits"]} == pytest.approx(
        {name: each.threshold for name, each in zip(chosen.limits, chosen.evidence, strict=True)}, abs=1e-5
    )
    info = succeed("info", new, "--json").document
    assert (info["segment"], info["limits"]) == ("country", done["limits"])
    assert "others (FO, GL, missing)" in succeed("info", place / "m.skops").out
    moved = succeed("diff", place / "m.skops", new, place / "new.csv", "--json").document["rows"]
    sides = flags(place)[2], flags_of(new)
    assert (moved["to_positive"]["n"], moved["to_negative"]["n"]) == (
        (sides[1] & ~sides[0]).sum(),
        (sides[0] & ~sides[1]).sum(),
    )


def flags_of(path):
    return flags(path.parent, path.name)[2]


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "paper", "--reg", "0.1"),
        pytest.param(("--model", "auto", "--effort", "fast"), marks=pytest.mark.slow),
        ("--score", "x0"),
    ],
)
def test_every_model_keeps_its_segments(place, tmp_path, options):
    """Also where the column is no feature, and where its labels are numbers."""
    drop = () if "--score" in options else ("--drop", "agency")
    document = fit(place / "train.csv", tmp_path / "m.skops", *options, *drop, "--tau", "0.1", "--segment", "agency")
    names = [str(2**60 + 1), str(2**60 + 2)]
    assert [each["limit"] for each in document["limits"]] == names
    done = succeed("evaluate", tmp_path / "m.skops", place / "new.csv", "--json").document
    again = succeed("evaluate", tmp_path / "m.skops", place / "new.parquet", "--json").document
    assert done == again
    assert [each["limit"] for each in done["segments"]["limits"]] == names
    assert done["unseen_segments"]["n_rows"] == 0
    assert load_model(tmp_path / "m.skops").header.training["layout"]["segment"] == "agency"
    succeed("recalibrate", tmp_path / "m.skops", place / "fresh.csv")
    assert last_step(load_model(tmp_path / "m.skops").model).segments_.is_number


@pytest.mark.parametrize(
    "labels", [["10:00", "11:30"], [str(2**63 + 1), str(2**63 + 2)], ["2024-01-01T10:00", "2024-01-01 11:00"]]
)
def test_labels_of_csv_files_read_the_same_in_all_commands(labels, tmp_path):
    for name, seed in (("train.csv", 0), ("new.csv", 1)):
        rows = frame(seed, n=1500, m=200)
        write(rows.assign(slot=np.resize(labels, len(rows))), tmp_path / name)
    document = fit(tmp_path / "train.csv", tmp_path / "m.skops", "--tau", "0.1", "--score", "x0", "--segment", "slot")
    assert [each["limit"] for each in document["limits"]] == sorted(labels)
    done = succeed("predict", tmp_path / "m.skops", tmp_path / "new.csv", "-o", tmp_path / "o.csv", "--json").document
    assert done["unseen_segments"]["n_rows"] == 0


def test_models_of_python_name_their_column(place, tmp_path):
    rows = table(0)
    X, y = rows[[*NAMES, "country"]], rows["y"]
    numbers = make_pipeline(ColumnTransformer([("x", "passthrough", NAMES)]), LogisticRegression())
    save_model(
        NeymanPearsonClassifier(numbers, 0.1, segments="country", random_state=0).fit(X, y), tmp_path / "p.skops"
    )
    done = succeed("evaluate", tmp_path / "p.skops", place / "new.csv", "--target", "y", "--json").document
    assert done["segments"]["column"] == "country"
    given = NeymanPearsonClassifier(numbers, 0.1, random_state=0).fit(X, y, segments=rows["branch"])
    save_model(given, tmp_path / "g.skops")
    done = command("evaluate", tmp_path / "g.skops", place / "new.csv", "--target", "y")
    assert (done.code, "was given the segments beside X" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--segment", "contry"), 1, "there is no column 'contry'. Did you mean 'country'?"),
        (("--segment", "y"), 2, "--segment y is the target"),
        (("--tau-for", "EU=0.1"), 2, "--tau-for is for --segment COLUMN"),
        ((*LIMITS, "--tau-for", "UK=0.1"), 1, "tau names the segment 'UK', which no row has. The segments are "),
        ((*LIMITS, "--tau-for", "US=0.2"), 2, "--tau-for US is given twice"),
        ((*LIMITS, "--tau-for", "others=0.2"), 2, "--tau is the tolerance of all segments without their own"),
        ((*LIMITS, "--tau-for", "EU"), 2, "must be a segment and its tolerance, such as EU=0.005; got 'EU'"),
        ((*LIMITS, "--tau-for", "EU=5%"), 2, "5 % is 0.05"),
        ((*LIMITS, "--threshold", "cross"), 2, "--segment is for --threshold auto or np"),
        ((*LIMITS, "--model", "kernel"), 2, "--segment is not for --model kernel"),
        (("--segment", "country", "--tau", "0.0001"), 1, "no segment has enough negatives for a proof"),
        (
            ("--segment", "country", "--alarms-per-day", "5", "--volume", "100"),
            2,
            "--alarms-per-day is for one threshold",
        ),
    ],
)
def test_wrong_use_is_explained_and_writes_nothing(place, tmp_path, options, code, message):
    before = contents(place)
    done = command(
        "fit", place / "train.csv", "--target", "y", "--model", "logistic", *options, "-o", tmp_path / "x.skops"
    )
    assert (done.code, message in done.err) == (code, True), done.err
    assert contents(place) == before
    assert not list(tmp_path.iterdir())


def test_files_without_the_column_are_refused(place, tmp_path):
    lacks = write(table(1).drop(columns="country"), tmp_path / "lacks.csv")
    done = command("evaluate", place / "m.skops", lacks)
    assert (done.code, "there is no column 'country', which the model needs" in done.err) == (1, True)


def test_report_and_evaluate_tell_the_same(place, tmp_path):
    for by in ((), ("--by", "branch"), ("--by", "country")):
        succeed("report", place / "m.skops", place / "new.csv", "-o", tmp_path / "r.html", "--new", *by)
        found = embedded((tmp_path / "r.html").read_text())
        done = succeed("evaluate", place / "m.skops", place / "new.csv", *by, "--json").document
        assert [found[name] for name in ("verdict", "segments", "by")] == [
            done[name] for name in ("verdict", "segments", "by")
        ]


@pytest.mark.slow
def test_the_commands_of_the_how_tos(tmp_path, monkeypatch):
    """Segments, then drift: the same screen, watched by events, recalibrated, and watched every hour."""
    monkeypatch.chdir(tmp_path)
    ran = []
    for seed, page in enumerate(("howto/segments.md", "howto/drift.md")):
        lines = commands_of(page)
        for place, name in enumerate(sorted({each for words in lines for each in words if is_data(each)})):
            write(payments(100 * seed + place), tmp_path / name)
        done = [succeed(*words).out for words in lines]
        ran += [words[0] for words in lines]
        (tmp_path / "watch.json").unlink()
    assert ran == ["fit", "predict", "evaluate", "monitor", "report", "recalibrate",
                   "monitor", "recalibrate", "monitor", "monitor"]  # fmt: skip
    assert "2 calls since" in done[-1]


def is_data(word):
    return word.endswith(".csv") and not word.startswith("decisions")


def payments(seed, n=8000):
    """Rows as those of the page on segments, and an event for each."""
    rng = np.random.default_rng(seed)
    country = rng.choice(["DE", "FR", "US", "FO", "GL"], size=n, p=[0.4, 0.3, 0.26, 0.02, 0.02])
    fraud = (rng.random(n) < 0.08).astype(int)
    amount = rng.normal(size=n) + 1.5 * fraud + np.where(country == "US", 1.0, 0.0)
    velocity = rng.normal(size=n) + 1.5 * fraud
    return pd.DataFrame(
        {"amount": amount, "velocity": velocity, "country": country, "case": np.arange(n), "fraud": fraud}
    )


def scored(flagged):
    """Negatives by country and whether they are flagged, in two branches alike, and some positives."""
    parts = [
        pd.DataFrame({"country": name, "s": np.where(np.arange(n) < n_flagged, 1.0, 0.0), "y": 0})
        for name, (n, n_flagged) in flagged.items()
    ]
    rows = pd.concat([*parts, pd.DataFrame({"country": ["EU"] * 40, "s": 1.0, "y": 1})], ignore_index=True)
    return rows.assign(branch=np.arange(len(rows)) % 2)


@pytest.mark.parametrize(
    ("flagged", "broken", "told"),
    [
        # Of 60 negatives 7 prove nothing at 5 %; of 120 in both countries 14 do.
        ({"FO": (60, 7), "GL": (60, 7)}, "others", "broken in 1 of 3 limits: others (FO, GL)"),
        ({"US": (400, 50)}, "US", "broken in 1 of 3 limits: US"),
        ({"NL": (400, 50)}, "no limit", "broken in 1 of 4 limits: no limit (NL)"),
    ],
)
def test_a_broken_limit_is_the_verdict_whatever_by_shows(tmp_path, flagged, broken, told):
    rng = np.random.default_rng(0)
    train = scored({"EU": (2000, 0), "US": (2000, 0), "FO": (60, 0), "GL": (60, 0)})
    write(train.assign(s=np.where(train["y"] == 0, 0.9 * rng.random(len(train)), 1.0)), tmp_path / "train.csv")
    fit(tmp_path / "train.csv", tmp_path / "m.skops", "--score", "s", "--segment", "country", "--tau", "0.05")
    fine = {"EU": (8000, 0), "US": (4000, 0), "FO": (400, 0), "GL": (400, 0)}
    data = write(scored(fine | flagged), tmp_path / "new.csv")
    for by in ((), ("--by", "branch")):
        done = succeed("evaluate", tmp_path / "m.skops", data, *by, "--json", code=3).document
        verdicts = {each["limit"]: each["verdict"] for each in done["segments"]["limits"]}
        assert [name for name, verdict in verdicts.items() if verdict == "broken"] == [broken]
        assert done["verdict"] == "broken"
        assert (done["by"] is None) == (not by)
        assert told in succeed("evaluate", tmp_path / "m.skops", data, *by, code=3).out
        succeed("report", tmp_path / "m.skops", data, "-o", tmp_path / "r.html", "--new", *by)
        page = (tmp_path / "r.html").read_text()
        assert "the limit “others” is that of FO, GL together, not of each" in page
        found = embedded(page)
        assert (found["verdict"], found["segments"]) == ("broken", done["segments"])
        assert found["by"] == done["by"]
    assert {each["verdict"] for each in done["by"]["levels"]} == {"kept"}
    # What was proven together is not judged apart, unless by the column itself.
    done = succeed("evaluate", tmp_path / "m.skops", data, "--by", "country", "--json", code=3).document["by"]
    of_all = {each["level"]: each["verdict"] for each in done["levels"]}
    assert (of_all.get("FO"), of_all.get("GL")) == (("open",) * 2 if broken == "others" else ("kept",) * 2)
