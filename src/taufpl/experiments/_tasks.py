"""One task of an experiment: a dataset, a method and a round; and the rows that it leaves."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit

from taufpl.exceptions import RankingCollapseWarning, RepeatedRowsWarning
from taufpl.experiments._data import Data

Row = dict[str, Any]

# Two thirds of the rows train, as in the paper.
_TEST_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class Task:
    """What one worker does at a time.

    Attributes
    ----------
    dataset, method : str
    round : int
        Rounds share their split between methods.
    n_rows : int
        How many rows the task leaves, one a tolerance.
    """

    dataset: str
    method: str
    round: int
    n_rows: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from other tasks of the same experiment."""
        return self.dataset, self.method, self.round


@dataclass(frozen=True, slots=True)
class Settings:
    """What every task of a run shares, and what a continued run must share with the one before.

    Attributes
    ----------
    seed : int
    coarse : bool
        Whether grids are thinned out, for a quick look.
    ranking_rounds : str or None
        A file with rounds of the ranking experiment of the same seed and grids: what it has chosen for a scorer is not
        searched again.
    """

    seed: int = 0
    coarse: bool = False
    ranking_rounds: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the figures."""
        return {"seed": self.seed, "coarse": self.coarse}

    def chosen(
        self, dataset: str, scorer: str, round_number: int, taus: Sequence[float]
    ) -> list[dict[str, Any]] | None:
        """What the ranking experiment has chosen in the same round, if it has got that far."""
        known = {} if self.ranking_rounds is None else _chosen_params(self.ranking_rounds)
        params = [known.get((dataset, scorer, round_number, tau)) for tau in taus]
        return None if None in params else [each for each in params if each is not None]

    def seed_of(self, round_number: int) -> int:
        """The seed of a round, whatever the number of rounds."""
        return int(np.random.SeedSequence((self.seed, round_number)).generate_state(1)[0] % 2**31)


@cache
def _chosen_params(path: str) -> dict[tuple[str, str, int, float], dict[str, Any]]:
    with open(path, encoding="utf-8", newline="") as file:
        return {
            (row["dataset"], row["method"], int(row["round"]), float(row["tau"])): json.loads(row["params"])
            for row in csv.DictReader(file)
        }


def split(data: Data, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train and rows to test, stratified."""
    splitter = StratifiedShuffleSplit(1, test_size=_TEST_SHARE, random_state=seed)
    train, test = next(splitter.split(np.zeros(data.y.size), data.y))
    return np.sort(train), np.sort(test)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what solvers warn of, as short notes for the table of rounds, instead of printing it."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    others = []
    for warning in caught:
        if issubclass(warning.category, RankingCollapseWarning):
            notes.append("collapsed")
        elif issubclass(warning.category, ConvergenceWarning):
            notes.append("not converged")
        elif not issubclass(warning.category, RepeatedRowsWarning):  # the paper's tables have copies
            others.append(warning)
    for warning in others:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def joined(notes: list[str]) -> str:
    """Each note once, with how often it was made."""
    return "; ".join(f"{note} {notes.count(note)}x" for note in dict.fromkeys(notes))


def as_text(params: dict[str, Any]) -> str:
    """Hyper-parameters in one cell of a table, to the last digit."""
    return json.dumps(params)
