"""Labelled rows of two classes, wherever they are: all that fits, searches and threshold strategies ask of data.

There are two implementations: :class:`ArrayTable` for rows in memory, and `BlockTable` of `taufpl.estimators.remote`
for remote rows. `make_table` and `score_table` choose one of them; nothing else asks where the rows are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from taufpl.estimators._solve import Ranking
from taufpl.operators import is_foreign_array, is_remote, like, to_numpy
from taufpl.solvers import Result
from taufpl.thresholding import Sample

Vector = NDArray[np.float64]

# Arrays of a fitted linear model, which follow X where scikit-learn is told that they should.
_FOLLOWING = ("coef_", "intercept_", "thresholds_")


class Scores:
    """Scores of the rows of a table as threshold rules see them, valid until the table is scored again."""

    positive: Sample
    negative: Sample


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted linear ranking, and what other fits can start from: a result, and the dual weight of each row."""

    coef: Vector
    result: Result | None = None
    duals: Vector | None = None


class Parts(ABC):
    """Pairs of tables, one to fit on and one held out, from one division of a table."""

    @abstractmethod
    def __len__(self) -> int:
        """How many pairs there are."""

    @abstractmethod
    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
        """Yield function(train, held_out, ...) of each pair, with its entry of each of the arguments.

        Scores in a result are valid until the next result is asked for.
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

    Attributes
    ----------
    n_positive, n_negative : int
        Rows of each class.
    n_passes : float
        Passes over the data so far, by this table and by all that share its rows.
    is_ordered : bool
        Whether rows have times.
    in_memory : bool
        Whether any estimator can be fitted on the rows.
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
    def hold_out(self, n_held: int, seed: int, *, needs_positives: bool) -> AbstractContextManager[tuple[Table, Table]]:
        """A table to fit on, and one that holds out this many units with a negative: random ones, or the latest.

        The second has one positive, too, of each unit that is held out, or of every unit if no fit needs positives.
        """

    @abstractmethod
    def folds(self, n_folds: int, seed: int) -> AbstractContextManager[Parts]:
        """Random folds with even shares of both classes."""

    @abstractmethod
    def positive_folds(self, n_folds: int, n_used: int, seed: int) -> AbstractContextManager[Parts]:
        """The first of some random folds of the positives: all other rows, and one positive of each unit of a fold."""

    @abstractmethod
    def rounds(self, n_rounds: int, train_share: float, seed: int) -> AbstractContextManager[Parts]:
        """Independent random divisions in which a share of each class trains."""

    @abstractmethod
    def search_folds(self, cv: Any) -> AbstractContextManager[Parts]:
        """Folds of a search: a number of consecutive ones, or, in memory, those of a scikit-learn splitter."""

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
    def norm_quantile(self, share: float) -> float:
        """A length that this share of the rows does not exceed."""

    def with_copies(self) -> Table:
        """The same rows, with a warning where negatives repeat more often than chance explains."""
        return self

    def copies(self, train: Table | None = None) -> str | None:
        """A sentence where negatives are exact copies of each other or of rows that were fitted on; None where not."""
        return None


def possible_folds(wanted: int, table: Table) -> int:
    """As many folds as are wanted, or as every one of them can have a unit of each class."""
    fewest = min(table.n_positive_units, table.n_negative_units)
    if fewest < 2:
        counts = ((table.n_positive_units, "positive"), (table.n_negative_units, "negative"))
        got = " and ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in counts)
        raise ValueError(
            f"cross-validation needs at least 2 rows of each class, got {got}. Give more rows; or give reg, and for "
            'kernels gamma, as numbers with threshold="np", which takes no folds.'
        )
    return min(wanted, fewest)


@contextmanager
def make_table(
    estimator: Any, X: Any, y: Any, groups: Any = None, order: Any = None, params: dict[str, Any] | None = None
) -> Iterator[Table]:
    """All rows of a fit, checked; remote rows are let go of at the end, whatever happens.

    Sets `classes_`, `n_features_in_` and `feature_names_in_` of the estimator. Its `_read_table` reads rows in memory,
    `_takes_remote` says whether it is fitted on X where it is, and `_check_remote` refuses what is for memory only.
    """
    if not (is_remote(X) and estimator._takes_remote(X)):
        yield estimator._read_table(X, y, groups, order, params)
        return
    from taufpl.estimators.remote import open_table

    refuse_units(groups, order)
    if params:
        raise ValueError(f"remote rows take no parameters of fit, got {sorted(params)}.")
    estimator._check_remote()
    with open_table(estimator, X, y) as table:
        yield table
    if get_config()["array_api_dispatch"] and hasattr(estimator, "coef_"):
        follow(estimator, X)


@contextmanager
def score_table(estimator: Any, scores: Any, X: Any, y: Any, groups: Any, plan: Any) -> Iterator[tuple[Table, Scores]]:
    """Rows that a fitted scorer has not seen, with their scores: one negative of each group, and all positives.

    Without y all rows are negatives.

    Raises
    ------
    ValueError
        If y has other labels than the two classes of the estimator, or no negatives.
    """
    if not is_remote(scores):
        yield estimator._read_scores(scores, X, y, groups, plan)
        return
    from taufpl.estimators.remote import open_scores

    refuse_units(groups, None)
    with open_scores(scores, y, to_numpy(estimator.classes_)) as opened:
        yield opened


def follow(estimator: Any, array: Any) -> None:
    """Put the arrays of a fitted model into the library of an array and on its device, unless that is NumPy."""
    for name in _FOLLOWING if is_foreign_array(array) else ():
        if name in vars(estimator):
            setattr(estimator, name, like(array, getattr(estimator, name)))


def in_memory(name: str, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Rows and labels for what computes in this process: arrays of other libraries are copied, collections refused.

    Raises
    ------
    TypeError
        If X is a dask collection.
    """
    if is_remote(X):
        if not is_foreign_array(X):
            raise TypeError(
                f"{needs_memory(name)} X is a {type(X).__module__.partition('.')[0]} collection, {type(X).__name__}: "
                "give X.compute(), or a sample of its rows, where that fits."
            )
        from taufpl.operators.remote import rows_on_host

        X = rows_on_host(X)
    return X, to_numpy(y) if is_foreign_array(y) else y


def needs_memory(name: str) -> str:
    """What to say of an estimator or a function that takes no remote rows."""
    return (
        f"{name} needs rows in memory: NumPy arrays, SciPy matrices, or dataframes. TauFPLRanker, TauFPLRankerCV, "
        "TauFPLClassifier and TopPush take remote rows."
    )


def refuse_units(groups: Any, order: Any) -> None:
    """Refuse groups and times of remote rows."""
    for name, given in (("groups", groups), ("order", order)):
        if given is not None:
            raise ValueError(
                f"{name} is for rows in memory, and X is remote. Fit on a sample of the rows in memory; or divide them "
                "yourself, fit a ranker on one part, and give it to NeymanPearsonClassifier(cv='prefit') with one "
                "negative of each group of the other part."
            )
