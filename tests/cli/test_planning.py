"""Budgets, plans and precision on the command line."""

import re
from pathlib import Path

import pytest

from cli_cases import command, contents, frame, succeed, write
from taufpl.datasets import load_spambase
from taufpl.planning import alarm_budget, np_roc, precision_lower_bound
from taufpl.thresholding import fpr_upper_bound, negatives_needed, sequence_negatives_needed


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planning")
    write(frame(0, n=2000, m=300), folder / "good.csv")
    write(frame(1, n=3000, m=300), folder / "new.csv")
    write(frame(2, n=100, m=1).query("y == 0"), folder / "negatives.csv")
    succeed("fit", folder / "good.csv", "--target", "y", "--tau", 0.05, "--model", "logistic", "--threshold", "np",
            "-o", folder / "good.skops")  # fmt: skip
    by_land = frame(0, n=2000, m=300).assign(land=lambda table: ["EU", "US"] * (len(table) // 2))
    succeed("fit", write(by_land, folder / "lands.csv"), "--target", "y", "--tau", 0.05, "--score", "x0",
            "--segment", "land", "-o", folder / "lands.skops")  # fmt: skip
    return folder


def test_evaluate_bounds_precision_over_a_range(place):
    line = ["evaluate", place / "good.skops", place / "new.csv"]
    found = succeed(*line, "--base-rate", "0.001:0.01", "--json").document
    counts = (found[name] for name in ("n_false_positive", "n_negative", "n_true_positive", "n_positive"))
    assert found["base_rate"] == [0.001, 0.01]
    assert found["precision_lower_bound"] == precision_lower_bound(*counts, 0.001, found["delta"])
    assert found["precision_lower_bound"] < found["precision_at_base_rate"][0] < found["precision_at_base_rate"][1]
    text = succeed(*line, "--base-rate", "0.01").out
    assert "precision, base rate 1.00%" in text
    assert "at least" in text


def test_fit_finds_the_tolerance_of_a_budget(place):
    line = ["fit", place / "good.csv", "--target", "y", "--model", "logistic", "-o", place / "budget.skops",
            "--alarms-per-day", 600, "--volume", 10_000, "--base-rate", 0.02]  # fmt: skip
    found = succeed(*line, "--json").document
    budget = alarm_budget(600, 10_000, 0.02)
    assert (found["tau"], found["delta"], found["guaranteed"]) == (budget.tau, budget.delta_threshold, True)
    half, this, double = found["budget"]["recalls"]
    assert [row["alarms_per_day"] for row in (half, this, double)] == [300, 600, 1200]
    assert half["recall"] < this["recall"] == found["recall_estimate"] < double["recall"]
    text = succeed(*line).out
    assert "with 95% confidence, at most 600 alarms on a day of 10,000 rows" in text
    assert "What other budgets would find" in text
    # The model file says where its tolerance comes from, after a recalibration, too.
    succeed("recalibrate", place / "budget.skops", place / "new.csv")
    assert "at most 600 alarms on a day of 10,000 rows" in succeed("info", place / "budget.skops").out


def test_a_base_rate_from_the_labels_is_an_upper_bound(place):
    budget = succeed("fit", place / "good.csv", "--target", "y", "--model", "logistic", "-o", place / "budget.skops",
                     "--alarms-per-day", 2500, "--volume", 10_000, "--json").document["budget"]  # fmt: skip
    assert budget["base_rate"] == fpr_upper_bound(300, 2300, 0.05 / 3)
    assert budget["delta"] == pytest.approx(0.05)


def test_plan_tells_numbers_recall_and_draws_them(place):
    found = succeed("plan", "--tau", 0.001, "--negatives", 3000, "--json").document
    assert (found["n_needed"], [each["n_negative"] for each in found["held_out"]]) == (2995, [3000, 6000, 30_000])
    assert found["held_out"][0]["n_above"] is None
    assert found["all_choose"][0]["n_above"] == 0
    picture = place / "plan.png"
    line = ["plan", place / "good.skops", place / "new.csv", "--negatives", 200]
    plan = succeed(*line, "-o", picture, "--json").document
    assert (plan["tau"], plan["n_negative_scores"], plan["n_positive_scores"]) == (0.05, 3000, 300)
    recalls = [each["recall"] for each in plan["all_choose"]]
    assert recalls == sorted(recalls)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "no proof" in succeed("plan", "--tau", 0.001, "--negatives", 3000).out
    assert "recall, mean" in succeed(*line).out


@pytest.mark.parametrize("looks", [4, "any"])
def test_plan_needs_as_many_as_the_next_threshold_of_the_model(place, tmp_path, looks):
    screen, new = tmp_path / "m.skops", place / "new.csv"
    options = ("--target", "y", "--score", "x0", "--tau", 0.05, "--looks", looks, "-o", screen)
    succeed("fit", place / "good.csv", *options)
    plan = succeed("plan", screen, new, "--json").document
    few = write(frame(3, n=plan["n_needed"] - 1, m=5), tmp_path / "few.csv")
    # Where negatives grow, those of the fit are among them: too few is what a fit can have.
    done = command("fit", few, *options) if looks == "any" else command("recalibrate", screen, few)
    needed = int(re.search(r"([\d,]+) are needed", done.err)[1])
    expected = sequence_negatives_needed(0.05, 0.05 / 2) if looks == "any" else negatives_needed(0.05, 0.05 / 4)
    assert plan["looks"] == looks
    assert (needed, expected) == (plan["n_needed"], plan["n_needed"])
    assert f"needs {expected} negatives" in succeed("plan", screen, new).out
    first = plan["all_choose"][0]
    assert (first["n_threshold"], first["n_above"]) == (expected, 0)


def test_a_budget_for_scores_of_your_own_rests_on_all_negatives(place):
    found = succeed("fit", place / "good.csv", "--target", "y", "--score", "x0", "-o", place / "budget.skops",
                    "--alarms-per-day", 600, "--volume", 10_000, "--base-rate", 0.02, "--json").document  # fmt: skip
    assert (found["n_negative_used"], found["guaranteed"]) == (2000, True)
    table = frame(0, n=2000, m=300)
    curve = np_roc(table.query("y == 0").x0, table.query("y == 1").x0, 0.025)
    assert [row["recall"] for row in found["budget"]["recalls"]] == [
        curve.at(alarm_budget(alarms, 10_000, 0.02).tau)[0] for alarms in (300, 600, 1200)
    ]


@pytest.mark.slow
def test_the_commands_of_the_how_to_run(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "budgets.md"
    lines = re.findall(r"^taufpl (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    X, y = load_spambase(return_X_y=True, as_frame=True)
    mail = X.assign(spam=y)[~X.duplicated()].sample(frac=1.0, random_state=0)
    write(mail[:2500], "mail.csv")
    write(mail[2500:], "new.csv")
    found = [succeed(*line.split()).out for line in lines]
    assert len(found) == 5
    assert "What other budgets would find" in found[1]
    assert {"plan.png", "screen.html", "screen.skops"} <= {path.name for path in tmp_path.iterdir()}


FIT = "fit good.csv --target y --model logistic -o out.skops "
BAD = [
    (FIT + "--alarms-per-day 100", 2, "--alarms-per-day needs --volume"),
    (FIT + "--volume 100", 2, "belong to --alarms-per-day"),
    (FIT + "--base-rate 0.1", 2, "belong to --alarms-per-day"),
    (FIT + "--alarms-per-day 9 --volume 100 --tau 0.01", 2, "exclude each other"),
    (FIT + "--alarms-per-day 9 --volume 100 --threshold cross", 2, "which --threshold cross cannot prove"),
    (FIT + "--alarms-per-day 9 --volume 100 --group x0", 2, "counts rows"),
    (FIT + "--alarms-per-day 0 --volume 100", 2, "'--alarms-per-day'"),
    (FIT + "--alarms-per-day 100 --volume 100", 2, "100 must be less than --volume 100"),
    (FIT + "--alarms-per-day 100 --volume 1000", 1, "--base-rate states that of the traffic"),
    (FIT + "--alarms-per-day 25 --volume 10000 --base-rate 0.001", 1, "smallest budget that could be met is"),
    ("plan good.skops", 2, "MODEL needs DATA, too"),
    ("plan good.skops good.csv", 1, "fitted on these very rows"),
    ("plan good.skops negatives.csv", 1, "no positives that the model has not seen"),
    ("plan lands.skops lands.csv", 1, "has a threshold for each segment"),
    ("plan -o plan.svg", 2, "the picture is written as .png"),
    ("plan -o missing/plan.png", 1, "the folder missing does not exist"),
    ("plan --tau 5", 2, "strictly between 0 and 1"),
    ("evaluate good.skops new.csv --base-rate 0.1:0.01", 2, "LOW:HIGH with the lower share first"),
    ("evaluate good.skops new.csv --base-rate 0.1:0.2:0.3", 2, "LOW:HIGH"),
    ("evaluate good.skops new.csv --base-rate 1%", 2, "1 % is 0.01"),
    ("evaluate good.skops negatives.csv --base-rate 0.01", 1, "no positives to measure the recall on"),
]


@pytest.mark.parametrize(("line", "code", "words"), BAD, ids=[line for line, _, _ in BAD])
def test_bad_uses_end_with_a_sentence(place, monkeypatch, line, code, words):
    monkeypatch.chdir(place)
    before = contents(place)
    done = command(*line.split())
    assert (done.code, done.out) == (code, ""), done
    said = [text for text in done.err.splitlines() if not text.startswith("taufpl: note: ")]
    assert len(said) == 1
    assert words in said[0]
    assert contents(place) == before
