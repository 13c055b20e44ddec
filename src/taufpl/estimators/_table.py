"""Labelled rows of two classes, wherever they are: all that fits, searches and threshold strategies ask of data.

There are two implementations: :class:`ArrayTable` for rows in memory, and `BlockTable` of `taufpl.estimators.remote`
for remote rows. `make_table` and `score_table` choose one of them; what needs rows in memory asks the table for it
(`Table.in_memory`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from taufpl._types import RowIndices, Vector
from taufpl.solvers import Result
from taufpl.thresholding import Sample

# Rounding of a score, in units of eps |x| |w|, by any order of summation that is met in practice.
_ROUNDINGS = 64.0
# That of features in single precision, in units of the score: terms may be a few times as large as their sum.
_SINGLE = 4.0 * float(np.finfo(np.float32).eps)
# Rounding of more than this part of the spread of negatives costs positives.
COARSE = 0.01


def score_rounding(scale: float, dtype: Any = np.float64) -> float:
    """How far scores whose terms are of this size may move when they are summed in another order or batch."""
    return _ROUNDINGS * float(np.finfo(dtype).eps) * scale


@dataclass(frozen=True, slots=True)
class Rounding:
    """How far scores may move: `sums` when they are summed in another order or batch.

    Linear scores may move, too, when features come in single precision, where 0.1 is another number: by a few roundings
    of the threshold and of `hidden`, the size of the intercept. More than `most` costs too many positives; predictions
    in another precision then warn. `hidden` is None for other scores.
    """

    sums: float = 0.0
    hidden: float | None = None
    most: float = 0.0

    @classmethod
    def of(cls, sums: float, hidden: float | None, negative: Sample) -> Rounding:
        """That of scores, linear unless `hidden` is None."""
        if hidden is None:
            return cls(sums)
        with np.errstate(invalid="ignore"):
            return cls(sums, hidden, COARSE * negative.moments()[1] if negative.size else 0.0)

    def of_input(self, threshold: float) -> float:
        """How far scores near the threshold may move in single precision; 0 where they may move too far."""
        margin = _SINGLE * (abs(threshold) + (self.hidden or 0.0))
        return margin if margin <= self.most else 0.0

    def raised(self, threshold: float) -> float:
        """The threshold above which a negative that is tied with it does not come to lie."""
        return threshold + self.sums + self.of_input(threshold)


NO_ROUNDING = Rounding()


class Scores(ABC):
    """Scores of the rows of a table as threshold rules see them, valid until the table is scored again.

    Thresholds are raised by their rounding before anything is counted above them.
    """

    positive: Sample
    negative: Sample
    rounding: Rounding

    @abstractmethod
    def with_rounding(self, sums: float, hidden: float | None = None) -> Self:
        """The same scores, with what rounding may do to them."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A result, and whether it is the collapsed one, w = 0."""

    result: Result
    collapsed: bool


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted linear ranking, and what other fits can start from: a result, and the dual weight of each row."""

    coef: Vector
    result: Result | None = None
    duals: Vector | None = None


@dataclass(frozen=True, slots=True)
class Strata:
    """How many negatives are held out of each stratum, and the stratum of every row of X; those of -1 all train."""

    codes: RowIndices
    sizes: Sequence[int]


class Parts(ABC):
    """Pairs of tables, one to fit on and one held out, from one division of a table."""

    @abstractmethod
    def __len__(self) -> int:
        """How many pairs there are."""

    @abstractmethod
    def __add__(self, other: Any) -> Parts:
        """These pairs, then those of another division of the same table."""

    @abstractmethod
    def map(self, function: Callable[..., Any], *arguments: Sequence[Any], what: str = "fold") -> Iterator[Any]:
        """Yield function(train, held_out, ...) of each pair, with its entry of each of the arguments.

        Scores in a result are valid until the next result is asked for. `what` is what a pair is called where progress
        is told.
        """


class Tally(ABC):
    """Mean of score minus threshold of each row, over the rounds that held it out."""

    @abstractmethod
    def add(self, scores: Scores, thresholds: Sequence[float]) -> None:
        """Add a round: scores of its held-out table, and its threshold for each tolerance."""

    @abstractmethod
    def counts(self, which: int) -> tuple[int, int, int, int]:
        """For one tolerance: negatives with a mean above 0, negatives held out at all, and the same of positives."""


class Table(ABC):
    """Labelled rows of two classes.

    A unit is what a guarantee counts: a row, or, where groups are given, all rows of a group. No division tears a unit
    apart, and a held-out table has one negative of each of its units.

    A table counts its rows of each class, and the passes over the data so far, by all that share its rows. It says
    whether the rows have times, and whether they are in memory, where any estimator can be fitted on them.
    """

    n_positive: int
    n_negative: int
    n_passes: float
    is_ordered: bool = False
    in_memory: bool = True

    @property
    def n_positive_units(self) -> int:
        """How many units have a positive."""
        return self.n_positive

    @property
    def n_negative_units(self) -> int:
        """How many units have a negative."""
        return self.n_negative

    # Divisions.

    @abstractmethod
    def hold_out(
        self, n_held: int | Strata, seed: int, *, needs_positives: bool
    ) -> AbstractContextManager[tuple[Table, Table]]:
        """A table to fit on, and one that holds out this many units with a negative: random ones, or the latest.

        Strata are for rows in memory that are units by themselves, without an order.

        The second has one positive, too, of each unit that is held out, or of every unit if no fit needs positives.
        """

    @abstractmethod
    def folds(self, n_folds: int, seed: int) -> AbstractContextManager[Parts]:
        """Random folds with even shares of both classes."""

    @abstractmethod
    def positive_folds(self, n_folds: int, n_used: int, seed: int) -> AbstractContextManager[Parts]:
        """The first of some random folds of the positives: rows without a fold's, and one positive of its units."""

    @abstractmethod
    def rounds(self, n_rounds: int, train_share: float, seed: int) -> AbstractContextManager[Parts]:
        """Independent random divisions in which a share of each class trains."""

    @abstractmethod
    def search_folds(
        self, cv: Any, *, enough: int | None = None, seed: int | None = None
    ) -> AbstractContextManager[Parts]:
        """Folds of a search: a number of consecutive ones, or, in memory, those of a scikit-learn splitter.

        With a seed, rows are dealt to a number of folds at random. Of a number of folds, as few as hold `enough`
        positives, where that is given: random ones then.
        """

    @abstractmethod
    def negatives(self, seed: int | None = None) -> Table:
        """The negatives alone, or, with a seed, one of each unit; remote tables may keep their positives."""

    @abstractmethod
    def compact(self) -> Table:
        """The same rows in a form that is cheap to score often."""

    # Rankings and scores.

    @abstractmethod
    def problem(self, k: int, reg: float) -> AbstractContextManager[Any]:
        """The ranking problem on these rows."""

    def model(self, ranking: Ranking) -> LinearModel:
        """The model of a ranking on these rows."""
        return LinearModel(ranking.result.coef)

    def start(self, near: LinearModel | None) -> Result | None:
        """Where a solver starts on these rows, given a model of other rows; None for w = 0."""
        return None

    @abstractmethod
    def scores(self, coef: Vector) -> Scores:
        """Products of w with each row."""

    @abstractmethod
    def tally(self, n_taus: int) -> AbstractContextManager[Tally]:
        """An empty tally for rounds on these rows."""

    @abstractmethod
    def norm_of(self, scores: Scores, score: float) -> float:
        """Length of a negative with this score."""

    @abstractmethod
    def score_size(self, coef: Vector, share: float) -> float:
        """A bound on the terms of a score that this share of the rows does not exceed."""

    def with_copies(self) -> Table:
        """The same rows, with a warning where negatives repeat more often than chance explains."""
        return self

    def copies(self, train: Table | None = None) -> str | None:
        """A sentence where negatives are exact copies of each other or of rows that were fitted on; None where not."""
        return None
