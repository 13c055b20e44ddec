"""Trials of an experiment: done in parallel, each on disk as soon as it is finished."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning

from taufpl._files import write_whole
from taufpl.exceptions import RankingCollapseWarning, RepeatedRowsWarning

Row = dict[str, Any]
Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Trial:
    """One method on one dataset in one round; it leaves `n_rows` rows. Methods share the split of a round."""

    dataset: str
    method: str
    round: int
    n_rows: int

    @property
    def key(self) -> Key:
        """The columns that tell a trial from the others of its experiment."""
        return self.dataset, self.method, self.round


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings that all trials of a run share; `coarse` thins the grids out, for a quick look.

    `ranking_rounds` is a file with rounds of the ranking experiment, of the same seed and grids: what it has chosen for
    a scorer is not searched again.
    """

    seed: int = 0
    coarse: bool = False
    ranking_rounds: str | None = None

    def chosen(self, dataset: str, scorer: str, number: int, taus: Sequence[float]) -> list[dict[str, Any]] | None:
        """The hyper-parameters that the ranking experiment has chosen in the same round, if it has got that far."""
        known = {} if self.ranking_rounds is None else _chosen_params(self.ranking_rounds)
        params = [known[key] for tau in taus if (key := (dataset, scorer, number, tau)) in known]
        return params if len(params) == len(taus) else None

    def seed_of(self, number: int) -> int:
        """The seed of a round, whatever the number of rounds."""
        return int(np.random.SeedSequence((self.seed, number)).generate_state(1)[0] % 2**31)


@cache
def _chosen_params(path: str) -> dict[tuple[str, str, int, float], dict[str, Any]]:
    with open(path, encoding="utf-8", newline="") as file:
        return {(*key_of(row), float(row["tau"])): json.loads(row["params"]) for row in csv.DictReader(file)}


# Rows of one trial, without the columns of its key.
Work = Callable[[Trial, RunSettings], list[Row]]
# Told how many trials are done, how many there are, and which one was finished last.
Report = Callable[[int, int, Trial | None], None]


def run_trials(
    work: Work, trials: Sequence[Trial], settings: RunSettings, store: RoundsFile, n_jobs: int, report: Report
) -> None:
    """Do the trials that have not been done yet; a finished trial is on disk before the next one is reported.

    An exception, or Ctrl-C, ends the run; what was finished stays, and the same call goes on from there.
    """
    done = store.keep_complete(trials)
    waiting = [trial for trial in trials if trial.key not in done]
    n_done = len(trials) - len(waiting)
    report(n_done, len(trials), None)
    errors: list[Exception] = []
    # After an error nothing new is started, and what is under way is waited for and kept.
    calls = (delayed(_run)(work, trial, settings) for trial in waiting if not errors)
    # One thread of BLAS each: the trials themselves fill the cores.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for trial, rows in Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(calls):
            if isinstance(rows, Exception):
                errors.append(rows)
                continue
            store.append(trial, rows)
            n_done += 1
            report(n_done, len(trials), trial)
    if errors:
        raise errors[0]


def _run(work: Work, trial: Trial, settings: RunSettings) -> tuple[Trial, list[Row] | Exception]:
    # An exception that left the worker would overtake results that were finished earlier, and these would be lost.
    try:
        return trial, work(trial, settings)
    except Exception as error:
        return trial, error


class RoundsFile:
    """The rows of finished trials, in a CSV file that only grows, with the settings that they share.

    Rows of a trial are appended in one write. Whatever an interruption has cut, a line without its end or a trial
    without all its rows, is dropped when the file is opened again.

    The folder holds ``rounds.csv``, with the columns of a trial's key before the others, and ``settings.json``: rounds
    of other settings are refused with a ValueError.
    """

    def __init__(self, folder: Path, columns: Sequence[str], settings: dict[str, Any]) -> None:
        self.path = folder / "rounds.csv"
        self.columns = ["dataset", "method", "round", *columns]
        folder.mkdir(parents=True, exist_ok=True)
        self._check_settings(folder / "settings.json", settings)
        self.rows = self._read()

    def keep_complete(self, trials: Iterable[Trial]) -> set[Key]:
        """Drop rows of trials that were cut short; return the keys of those that are done."""
        wanted = {trial.key: trial.n_rows for trial in trials}
        found = Counter(key_of(row) for row in self.rows)
        broken = {key for key, count in found.items() if key in wanted and count != wanted[key]}
        self.rows = [row for row in self.rows if key_of(row) not in broken]
        write_text(self.path, self._as_csv(self.rows, header=True))
        return {key for key in found if key in wanted and key not in broken}

    def append(self, trial: Trial, rows: Sequence[Row]) -> None:
        """Add the rows of one finished trial."""
        key = dict(zip(self.columns, trial.key, strict=False))
        new = [{name: str(value) for name, value in (key | row).items()} for row in rows]
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(self._as_csv(new))
            file.flush()
            os.fsync(file.fileno())
        self.rows += new

    def _as_csv(self, rows: Sequence[Row], *, header: bool = False) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _read(self) -> list[Row]:
        if not self.path.exists():
            return []
        text = self.path.read_text("utf-8")
        reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))
        if reader.fieldnames != self.columns:
            raise ValueError(
                f"{self.path} has the columns {reader.fieldnames}, and this experiment writes {self.columns}. "
                "Choose another folder, or move the file away."
            )
        return [row for row in reader if None not in row and None not in row.values()]

    def _check_settings(self, path: Path, settings: dict[str, Any]) -> None:
        if not path.exists():
            write_text(path, json.dumps(settings, indent=2) + "\n")
            return
        found = json.loads(path.read_text("utf-8"))
        if found != settings:
            raise ValueError(
                f"{path} says that the rounds in this folder were made with {found}, not with {settings}. "
                "Go on with the settings of that run, or choose another folder."
            )


def key_of(row: Row) -> Key:
    """The key of the trial that a row belongs to."""
    return row["dataset"], row["method"], int(row["round"])


def write_text(path: Path, text: str) -> None:
    """Write a whole file, or nothing."""
    write_whole(path, text.encode())


@contextmanager
def noted() -> Iterator[Counter[str]]:
    """Count the warnings of solvers, as short notes for the table of rounds, instead of printing them."""
    notes: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for warning in caught:
        if issubclass(warning.category, RankingCollapseWarning):
            notes["collapsed"] += 1
        elif issubclass(warning.category, ConvergenceWarning):
            notes["not converged"] += 1
        elif not issubclass(warning.category, RepeatedRowsWarning):  # the paper's tables have copies
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def joined(notes: Counter[str]) -> str:
    """The notes as text, each with its count."""
    return "; ".join(f"{note} {count}x" for note, count in notes.items())
