"""The protocol of the experiments: the paper's sets and figures, trials on disk, tables and pictures."""

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
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit

from taufpl._extras import require
from taufpl._files import write_whole, written_whole
from taufpl._types import Labels, Matrix
from taufpl.exceptions import RankingCollapseWarning, RepeatedRowsWarning
from taufpl.paper._libsvm import SHIPPED, fetch_libsvm

# Datasets in another form, judged by the same figures: the paper's instance space is the unit ball, and it does not say
# how rows got there.
FORMS = {"spambase-unit": "spambase"}
# The paper's rules: 30 rounds for small sets, 10 for those with more rows than this; two thirds of the rows train.
SMALL_ROWS = 10_000
ROUNDS_SMALL, ROUNDS_LARGE = 30, 10
_TEST_SHARE = 1 / 3


class LabelledData(NamedTuple):
    """Rows and labels, 1 for positives and 0 for negatives."""

    X: Any
    y: Labels

    def split(self, seed: int) -> tuple[LabelledData, LabelledData]:
        """The rows to train and the rows to test, stratified."""
        splitter = StratifiedShuffleSplit(1, test_size=_TEST_SHARE, random_state=seed)
        parts = (np.sort(part) for part in next(splitter.split(np.zeros(self.y.size), self.y)))
        train, test = (LabelledData(self.X[part], self.y[part]) for part in parts)
        return train, test


@lru_cache(maxsize=2)
def read_dataset(name: str, download: bool = False) -> LabelledData:
    """A dataset by the paper's name, features as at its source; heart and breast-cancer are scaled there.

    With ``-unit`` after the name, columns are divided by their standard deviation, then rows by their norm. A set that
    would have to be downloaded, where that is not wanted or fails, is a DatasetError.
    """
    if name in FORMS:
        data = read_dataset(FORMS[name], download)
        return LabelledData(in_unit_rows(data.X), data.y)
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
        return LabelledData(np.ascontiguousarray(X, dtype=np.float64), y)
    return LabelledData(*fetch_libsvm(name, return_X_y=True, download_if_missing=download))


def in_unit_rows(X: Matrix) -> Matrix:
    """Columns divided by their standard deviation, then rows by their norm."""
    X = X / X.std(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@cache
def _tables() -> dict[str, Any]:
    return json.loads(resources.files("taufpl.paper").joinpath("paper.json").read_text("utf-8"))


def table_datasets(table: str) -> list[str]:
    """The datasets of a table, "ranking" or "classification", in the paper's order."""
    return list(_tables()[table])


def table_taus(table: str, dataset: str) -> list[float]:
    """The tolerances at which a table judges a dataset."""
    return [float(percent) / 100 for percent in _tables()[table][FORMS.get(dataset, dataset)]]


def printed_figure(table: str, dataset: str, tau: float, method: str) -> Any:
    """A share for "ranking", (FPR, TPR, NP-score) for "classification"; None where the paper is silent."""
    return _tables()[table].get(FORMS.get(dataset, dataset), {}).get(f"{100 * tau:g}", {}).get(method)


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
        write_whole(self.path, self._as_csv(self.rows, header=True).encode())
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
            write_whole(path, f"{json.dumps(settings, indent=2)}\n".encode())
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


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def percent(tau: float) -> str:
    """A tolerance in percent."""
    return f"{100 * tau:g} %"


def write_table(folder: Path, *paragraphs: str) -> Path:
    """Write paragraphs to ``table.md``."""
    write_whole(folder / "table.md", ("\n\n".join(paragraphs) + "\n").encode())
    return folder / "table.md"


def save_picture(figure: Any, path: Path) -> Path:
    """Write a picture, whole or not at all."""
    with written_whole(path) as draft:
        figure.savefig(draft, dpi=130, format="png")
    return path


def panels(n: int, *, width: float = 4.6, height: float = 4.4) -> tuple[Any, Any]:
    """A figure with panels side by side."""
    # A figure of its own, without pyplot: nothing is left open, and no window is asked for.
    module = require("matplotlib.figure", "plot", "to draw the results")
    figure = module.Figure(figsize=(width * n, height), layout="constrained")
    return figure, figure.subplots(1, n, squeeze=False)[0]


def legend(figure: Any, ax: Any, columns: int = 7) -> None:
    """Put the legend of some axes under their figure."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(len(labels), columns)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
