"""``taufpl monitor``: both alarms, the verdict, events, and the exit code."""

import numpy as np
import pytest

from cli_cases import NAMES, command, frame, numbers, succeed, write
from taufpl.monitoring import FPRMonitor
from taufpl.persistence import load_model

QUICK = ("--tau", "0.05", "--model", "logistic", "--threshold", "np")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, a stream that drifts after a long good past, and one in which an event comes in a burst."""
    folder = tmp_path_factory.mktemp("monitor")
    write(frame(0), folder / "train.csv")
    succeed("fit", folder / "train.csv", "--target", "y", *QUICK, "-o", folder / "m.skops")
    drift = negatives(6000)
    drift.loc[5000:, NAMES] += 0.8
    write(drift, folder / "drift.csv")
    burst = negatives(1000)
    flagged = flags_of(folder, burst)
    burst["case"] = [f"case {row}" for row in range(len(burst))]
    worst = burst[flagged].iloc[[0] * 60]
    burst = type(burst)(np.vstack((burst[:500], worst, burst[500:])), columns=burst.columns)
    write(burst, folder / "burst.csv")
    return folder


def negatives(n):
    """Negatives as those of the training rows, drawn with replacement and moved a little."""
    rng = np.random.default_rng(7)
    X, y = numbers(1)
    table = frame(1).iloc[rng.choice(np.flatnonzero(y == 0), n)].reset_index(drop=True)
    table[NAMES] += 0.1 * rng.normal(size=(n, X.shape[1]))
    return table


def flags_of(folder, table):
    model = load_model(folder / "m.skops").model
    return model.decision_function(table[NAMES].astype(float)) > 0


def test_a_change_after_a_good_past_is_an_exit_code(place):
    done = succeed("monitor", place / "m.skops", place / "drift.csv", "--json", "--chunk-rows", 100, code=3).document
    assert (done["change"], done["alarm"]) == (True, False)
    assert 5000 < done["change_at_negative"] < done["n_rows"] < 6000
    assert done["run_length"] == 100_000
    assert done["change_evidence"] >= done["run_length"]
    table = succeed("monitor", place / "m.skops", place / "drift.csv", code=3).out
    assert f"ALARM at negative {done['change_at_negative']:,}" in table
    assert "no alarm; evidence" in table
    off = succeed("monitor", place / "m.skops", place / "drift.csv", "--run-length", "inf", code=3).out
    assert "turned off" in off
    assert "ALARM at negative 5," in off


def test_the_verdict_is_shown(place):
    done = succeed("monitor", place / "m.skops", place / "drift.csv", "--tau", 0.5, "--json").document
    assert done["verdict"] == "within"
    assert done["fpr_lower_bound"] < done["fpr"] < done["fpr_upper_bound"] < 0.5
    done = succeed("monitor", place / "m.skops", place / "drift.csv", "--tau", 0.001, "--json", code=3).document
    assert (done["verdict"], done["alarm"]) == ("left", True)
    assert "LEFT" in succeed("monitor", place / "m.skops", place / "drift.csv", "--tau", 0.001, code=3).out
    assert "within" in succeed("monitor", place / "m.skops", place / "drift.csv", "--tau", 0.5).out


def test_rows_of_one_event_count_once(place):
    plain = succeed("monitor", place / "m.skops", place / "burst.csv", "--json", "--chunk-rows", 2000, code=3).document
    assert (plain["n_negative"], plain["n_negative_rows"], plain["event"]) == (1060, 1060, None)
    text = (place / "burst.csv").read_bytes()
    given = ("--event", "case", "--json")
    filed = succeed("monitor", place / "m.skops", place / "burst.csv", *given).document
    lived = succeed("monitor", place / "m.skops", "-", *given, "--chunk-rows", 17, stdin=text).document
    assert filed == lived
    assert (filed["n_negative"], filed["n_negative_rows"], filed["event"]) == (1000, 1060, "case")
    watch = FPRMonitor(0.05, 0.05)
    watch.update(flags_of(place, negatives(1000)))
    assert filed["n_false_alarms"] == watch.n_false_alarms
    assert filed["change_evidence"] == pytest.approx(watch.change_evidence)
    assert "events of negatives seen" in succeed("monitor", place / "m.skops", place / "burst.csv", *given[:2]).out


@pytest.mark.parametrize(
    ("data", "options", "code", "message"),
    [
        ("burst.csv", ("--event", "cse"), 1, "there is no column 'cse'. Did you mean 'case'?"),
        ("train.svm", ("--event", "case"), 2, "--event case: the columns of a svmlight file have no names"),
        ("burst.csv", ("--run-length", "3"), 1, "run_length must be at least 10 / tau = 200 negatives, got 3.0"),
    ],
)
def test_wrong_use_is_explained(place, data, options, code, message):
    write(frame(0), place / "train.svm")
    done = command("monitor", place / "m.skops", place / data, *options)
    assert done.code == code
    assert message in done.err
