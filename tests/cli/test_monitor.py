"""``taufpl monitor``: both alarms, the verdict, events, and the exit code."""

import errno
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise

import numpy as np
import pytest

from cli_cases import NAMES, command, contents, exit_code, frame, numbers, succeed, write
from taufpl.monitoring import FPRMonitor, SegmentMonitor
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


def hours(place, folder, table, cuts):
    """A table in several files."""
    bounds = [0, *cuts, len(table)]
    parts = [table.iloc[a:b] for a, b in pairwise(bounds)]
    return [
        write(part, folder / f"{hour}.{kind}") for hour, (part, kind) in enumerate(zip(parts, FORMATS, strict=False))
    ]


FORMATS = ("csv", "parquet", "csv.gz", "tsv")
NUMBERS = ("n_negative", "n_false_alarms", "evidence", "change_evidence", "fpr_upper_bound", "change_at_negative")


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--event", "case"), marks=pytest.mark.slow),
        ("--event", "case", "--by", "branch"),
    ],
)
def test_calls_with_a_state_are_one_stream(place, tmp_path, options):
    table = negatives(4000).assign(case=np.arange(4000) // 3, branch=np.arange(4000) % 5)
    parts, state = hours(place, tmp_path, table, (1000, 1001, 3000)), tmp_path / "state.json"
    options = (*options, "--tau", 0.3)
    for part in parts:
        done = succeed("monitor", place / "m.skops", part, *options, "--state", state, "--json").document
    whole = succeed("monitor", place / "m.skops", write(table, tmp_path / "all.csv"), *options, "--json").document
    assert [done[name] for name in NUMBERS] == [whole[name] for name in NUMBERS]
    assert done.get("by") == whole.get("by")
    assert (done["state"]["n_calls"], done["state"]["n_rows"], done["n_rows"]) == (4, 4000, 1000)
    told = succeed("monitor", place / "m.skops", parts[0], *options, "--state", state).out
    assert "5 calls since" in told


def test_an_alarm_stays_until_reset(place, tmp_path):
    drift, state = negatives(6000), tmp_path / "state.json"
    drift.loc[5000:, NAMES] += 0.8
    parts = hours(place, tmp_path, drift, (5000,))
    call = ("monitor", place / "m.skops")
    succeed(*call, parts[0], "--state", state)
    done = succeed(*call, parts[1], "--state", state, "--json", code=3).document
    # The file is read to its end, and the next call goes on with an alarm.
    assert (done["change"], done["n_rows"]) == (True, 1000)
    again = succeed(*call, parts[0], "--state", state, "--json", code=3).document
    assert (again["n_negative"], again["change_at_negative"]) == (11_000, done["change_at_negative"])
    live = succeed(*call, "-", "--state", state, "--json", "--chunk-rows", 500, stdin=parts[0].read_bytes(), code=3)
    assert live.document["n_rows"] == 5000
    fresh = succeed(*call, parts[0], "--state", state, "--reset", "--json").document
    assert (fresh["n_negative"], fresh["state"]["n_calls"]) == (5000, 1)


def test_levels_are_watched(place, tmp_path):
    table = negatives(6000)
    table["country"] = np.where(np.arange(6000) % 20 == 0, "FO", "EU")
    table.loc[table["country"] == "FO", NAMES] += 0.6
    call = ("monitor", place / "m.skops", write(table, tmp_path / "t.csv"), "--by", "country", "--chunk-rows", 100)
    done = succeed(*call, "--json", code=3).document
    assert {each["level"]: each["alarm"] or each["change"] for each in done["by"]["levels"]} == {
        "EU": False,
        "FO": True,
    }
    assert (done["alarm"] or done["change"], done["alarm_at_negative"], done["change_at_negative"]) == (
        True,
        None,
        None,
    )
    assert done["n_rows"] < 6000
    watch = SegmentMonitor(0.05, 0.05)
    watch.update(flags_of(place, table)[: done["n_rows"]], table["country"][: done["n_rows"]])
    expected = [(name, each.n_seen, each.evidence) for name, each in watch.monitors.items()]
    assert [(each["level"], each["n_negative"], each["evidence"]) for each in done["by"]["levels"]] == expected
    told = succeed(*call, code=3).out
    assert "ALARM in 1 of 2 levels: FO" in told
    assert "all alarms together are ever false with probability at most 0.05" in told


class Interrupted(io.BytesIO):
    """Standard input of a process that is told to end while it waits for rows."""

    def read1(self, size=-1):
        part = super().read1(size)
        if not part:
            raise KeyboardInterrupt
        return part


def test_rows_of_stdin_count_although_the_call_is_interrupted(place, tmp_path):
    state = tmp_path / "state.json"
    text = write(negatives(300), tmp_path / "t.csv").read_bytes()
    assert command("monitor", place / "m.skops", "-", "--state", state, stdin=Interrupted(text)).code == 130
    done = succeed("monitor", place / "m.skops", tmp_path / "t.csv", "--state", state, "--json").document
    assert (done["n_negative"], done["state"]["n_calls"]) == (600, 2)


class Closed(io.StringIO):
    """Standard output whose reader has gone, or whose disk is full, once it has done something."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def flush(self):
        self.act()


def fail():
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_result_that_cannot_be_printed_leaves_the_state(place, tmp_path):
    state, call = tmp_path / "state.json", [place / "m.skops", place / "burst.csv", "--state"]
    command("monitor", *call, state)
    before = contents(tmp_path)
    with redirect_stdout(Closed(fail)):
        assert exit_code("monitor", *call, state) == 1
    assert contents(tmp_path) == before
    text = (place / "burst.csv").read_bytes()
    with redirect_stdout(Closed(fail)), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert exit_code("monitor", call[0], "-", "--state", state) == 1
    # The rows of stdin are gone, and count.
    assert json.loads(state.read_text())["n_calls"] == 2


def test_two_calls_at_the_same_time_lose_no_rows_in_silence(place, tmp_path):
    state, call = tmp_path / "state.json", ("monitor", place / "m.skops", place / "burst.csv", "--state")
    command(*call, state)
    err = io.StringIO()
    with redirect_stderr(err), redirect_stdout(Closed(lambda: command(*call, state))):
        assert exit_code(*call, state, "--json") == 1
    assert "another call has written it" in err.getvalue()
    assert json.loads(state.read_text())["n_calls"] == 2
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def edited(text):
    return text.replace('"n_rows": 1060', '"n_rows": 1061')


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, ("--tau", "0.04"), "was begun with --tau 0.05, and now it is 0.04"),
        (None, ("--delta", "0.01"), "was begun with --delta 0.05, and now it is 0.01"),
        (None, ("--run-length", "inf"), "was begun with --run-length 100000.0, and now it is inf"),
        (None, ("--event", "case"), "was begun with --event none, and now it is case"),
        (None, ("--by", "case"), "was begun with --by none, and now it is case"),
        (edited, (), "has been changed since it was written"),
        (lambda text: text[:-100], (), "is damaged, or no state of taufpl monitor"),
        (lambda text: text[:-100], ("--reset",), "is damaged, or no state of taufpl monitor"),
        (lambda _: '{"a": 1}', ("--reset",), "is no state of taufpl monitor"),
        (lambda text: text.replace('"version": 1', '"version": 2'), (), "is of version 2"),
        (lambda _: "[" * 100_000, (), "is damaged, or no state"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_stays(place, tmp_path, content, options, message):
    state, call = tmp_path / "state.json", ("monitor", place / "m.skops", place / "burst.csv", "--state")
    command(*call, state)
    if content is not None:
        state.write_text(content(state.read_text()))
    before = contents(tmp_path)
    done = command(*call, state, *options)
    assert done.code == 1
    assert message in done.err
    assert contents(tmp_path) == before


def test_the_state_of_another_model_is_refused(place, tmp_path):
    state = tmp_path / "state.json"
    command("monitor", place / "m.skops", place / "burst.csv", "--state", state)
    succeed("recalibrate", place / "m.skops", write(negatives(500), tmp_path / "n.csv"), "-o", tmp_path / "other.skops")
    done = command("monitor", tmp_path / "other.skops", place / "burst.csv", "--state", state)
    assert (done.code, "is the state of another model" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("data", "options", "code", "message"),
    [
        ("burst.csv", ("--event", "cse"), 1, "there is no column 'cse'. Did you mean 'case'?"),
        ("train.svm", ("--event", "case"), 2, "--event case: the columns of a svmlight file have no names"),
        ("burst.csv", ("--run-length", "3"), 1, "run_length must be at least 10 / tau = 200 negatives, got 3.0"),
        ("burst.csv", ("--reset",), 2, "--reset is for --state FILE"),
        ("burst.csv", ("--state", "m.skops"), 1, "is the file that is read"),
        ("burst.csv", ("--by", "cse"), 1, "there is no column 'cse'. Did you mean 'case'?"),
        ("train.svm", ("--by", "case"), 2, "--by case: the columns of a svmlight file have no names"),
    ],
)
def test_wrong_use_is_explained(place, data, options, code, message):
    write(frame(0), place / "train.svm")
    options = [place / each if each == "m.skops" else each for each in options]
    done = command("monitor", place / "m.skops", place / data, *options)
    assert done.code == code
    assert message in done.err
