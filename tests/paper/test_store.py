"""Rounds on disk: nothing finished is lost or done twice, nothing half-finished counts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taufpl.paper._protocol import RoundsFile, RunSettings, Trial, run_trials

COLUMNS = ("tau", "share")
SETTINGS = {"seed": 0}


ROWS = [{"tau": tau, "share": 0.25 * tau} for tau in (0.1, 0.2)]
TRIALS = [Trial("a, with a comma", "m", number, 2) for number in range(4)]


def test_finished_rounds_come_back(tmp_path):
    store = RoundsFile(tmp_path / "new", COLUMNS, SETTINGS)
    assert store.keep_complete(TRIALS) == set()
    store.append(TRIALS[0], ROWS)
    store.append(TRIALS[2], ROWS)
    again = RoundsFile(tmp_path / "new", COLUMNS, SETTINGS)
    assert again.keep_complete(TRIALS) == {TRIALS[0].key, TRIALS[2].key}
    assert again.rows == store.rows
    assert [float(row["share"]) for row in again.rows] == [0.025, 0.05, 0.025, 0.05]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_end_is_dropped_whole(tmp_path, cut):
    store = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    store.keep_complete(TRIALS)
    store.append(TRIALS[0], ROWS)
    store.append(TRIALS[1], ROWS)
    text = store.path.read_bytes()
    store.path.write_bytes(text[:-cut])
    again = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    assert again.keep_complete(TRIALS) == {TRIALS[0].key}
    again.append(TRIALS[1], ROWS)
    assert again.path.read_bytes() == text


def test_other_settings_and_other_columns_are_refused(tmp_path):
    RoundsFile(tmp_path, COLUMNS, SETTINGS).keep_complete(TRIALS)
    with pytest.raises(ValueError, match=r"were made with {'seed': 0}, not with {'seed': 1}.*choose another folder"):
        RoundsFile(tmp_path, COLUMNS, {"seed": 1})
    with pytest.raises(ValueError, match=r"has the columns .* Choose another folder"):
        RoundsFile(tmp_path, (*COLUMNS, "more"), SETTINGS)


def test_rounds_of_other_trials_are_left_alone(tmp_path):
    other = Trial("b", "m", 0, 2)
    store = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    store.keep_complete([other])
    store.append(other, ROWS)
    again = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    assert again.keep_complete(TRIALS) == set()
    assert len(again.rows) == 2


def fails_at_two(trial: Trial, settings: RunSettings) -> list[dict]:
    if trial.round == 2:
        raise ArithmeticError("two")
    return ROWS


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_loses_nothing_that_was_finished(tmp_path, n_jobs):
    store = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    seen: list = []
    with pytest.raises(ArithmeticError):
        run_trials(fails_at_two, TRIALS, RunSettings(), store, n_jobs, lambda *progress: seen.append(progress))
    kept = RoundsFile(tmp_path, COLUMNS, SETTINGS).keep_complete(TRIALS)
    assert kept >= {trial.key for trial in TRIALS[:2]}
    assert TRIALS[2].key not in kept
    done: list = []

    def record(trial: Trial, settings: RunSettings) -> list[dict]:
        done.append(trial.key)
        return ROWS

    store = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    run_trials(record, TRIALS, RunSettings(), store, 1, lambda *progress: None)
    assert set(done) == {trial.key for trial in TRIALS} - kept
    assert len(store.rows) == 8


SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_store import COLUMNS, ROWS, SETTINGS
from taufpl.paper._protocol import RoundsFile, RunSettings, Trial, run_trials

def slow(trial, settings):
    time.sleep(0.05)
    return ROWS

trials = [Trial("s", "m", number, 2) for number in range(200)]
run_trials(slow, trials, RunSettings(), RoundsFile(Path({folder!r}), COLUMNS, SETTINGS), 1, lambda *progress: None)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_where_it_was(tmp_path, number):
    script = SLOW.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, env=os.environ)
    path = tmp_path / "rounds.csv"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n") > 6):
        time.sleep(0.02)
    process.send_signal(number)
    process.wait(timeout=30)
    trials = [Trial("s", "m", each, 2) for each in range(200)]
    store = RoundsFile(tmp_path, COLUMNS, SETTINGS)
    done = store.keep_complete(trials)
    assert 3 <= len(done) < 200
    fresh: list = []

    def record(trial: Trial, settings: RunSettings) -> list[dict]:
        fresh.append(trial.key)
        return ROWS

    run_trials(record, trials, RunSettings(), store, 1, lambda *progress: None)
    assert len(fresh) == 200 - len(done)
    assert len(store.rows) == 400
