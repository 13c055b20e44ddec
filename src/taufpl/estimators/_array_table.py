"""Rows in memory as a table: divided by their numbers, and their parts worked on in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
from joblib import effective_n_jobs
from sklearn.model_selection import PredefinedSplit, StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from taufpl._row_hashes import copies_among
from taufpl._types import Mask, RowIndices, Vector
from taufpl.estimators._progress import call_as_step, each_told, one_by_one
from taufpl.estimators._reading import CopyFinder, Units, enough_folds, find_copies, possible_folds
from taufpl.estimators._table import NO_ROUNDING, LinearModel, Parts, Ranking, Rounding, Scores, Strata, Table, Tally
from taufpl.operators import Operator, n_threads, worker
from taufpl.problem import RankingProblem
from taufpl.solvers import Result
from taufpl.thresholding import ArraySample, Sample, as_sample, split_by_code, stratified_rounds

# Values of X, stored ones if it is sparse, from which on linear fits gain by threads: with fewer they wait for the
# interpreter more often than they work side by side.
_MANY = 2_000_000
# Rows that tell the size of scores.
_SIZED = 1_000
# Values from which on fits take no multiple of X in memory, unless n_jobs asks for one.
LARGE = 20_000_000


@dataclass(frozen=True)
class ArrayScores(Scores):
    """Scores of rows in memory, with the numbers of the rows, positives first."""

    positive: Sample
    negative: Sample
    values: Vector
    rows: RowIndices
    rounding: Rounding = NO_ROUNDING

    def with_rounding(self, sums: float, hidden: float | None = None) -> Self:
        return replace(self, rounding=Rounding.of(sums, hidden, self.negative))


@dataclass(frozen=True)
class ArrayTable(Table):
    """Some rows of X by their numbers, ascending; X is what a scorer takes, with an operator where fits are linear.

    `n_jobs` parts are worked on at the same time. What else a scorer's `fit` gets stands in `params`, and is cut to the
    rows of a fit where there is one entry a row.
    """

    X: Any
    positive_rows: RowIndices
    negative_rows: RowIndices
    units: Units = field(default_factory=Units)
    operator: Operator | None = None
    n_jobs: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: RankingProblem) -> ArrayTable:
        """The rows of a ranking problem."""
        return cls(None, problem.positive_rows, problem.negative_rows, operator=problem.operator)

    @property
    def n_positive(self) -> int:  # type: ignore[override]
        return self.positive_rows.size

    @property
    def n_negative(self) -> int:  # type: ignore[override]
        return self.negative_rows.size

    @property
    def n_passes(self) -> float:  # type: ignore[override]
        return 0.0 if self.operator is None else self.operator.n_passes

    @property
    def is_ordered(self) -> bool:  # type: ignore[override]
        return self.units.times is not None

    @property
    def n_positive_units(self) -> int:
        return self.units.count(self.positive_rows)

    @property
    def n_negative_units(self) -> int:
        return self.units.count(self.negative_rows)

    @property
    def rows(self) -> RowIndices:
        """All rows, ascending."""
        return np.sort(self.by_class)

    @property
    def by_class(self) -> RowIndices:
        """All rows, positives first."""
        return np.concatenate((self.positive_rows, self.negative_rows))

    @property
    def is_positive(self) -> Mask:
        """Whether each of `rows` is a positive."""
        return np.isin(self.rows, self.positive_rows, assume_unique=True)

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of X."""
        return self.operator is not None and self.n_positive + self.n_negative == self.operator.shape[0]

    def part(self, rows: RowIndices) -> ArrayTable:
        """Some of these rows."""
        is_positive = np.isin(rows, self.positive_rows, assume_unique=True)
        return replace(self, positive_rows=rows[is_positive], negative_rows=rows[~is_positive])

    # Divisions.

    def hold_out(
        self, n_held: int | Strata, seed: int, *, needs_positives: bool
    ) -> AbstractContextManager[tuple[ArrayTable, ArrayTable]]:
        if isinstance(n_held, int) and self.is_ordered:
            train, negatives, others = self._hold_out_latest(n_held, seed)
        else:
            train, negatives, others = self._hold_out_random(n_held, seed)
        if not train.n_negative or (needs_positives and not train.n_positive):
            raise ValueError(
                "nothing would be left to learn from: holding out the negatives that choose the threshold, with all "
                f"rows of their {'time and later' if self.is_ordered else 'groups'}, leaves {train.n_positive} "
                f"positives and {train.n_negative} negatives."
            )
        unseen = (others if needs_positives else self).positive_rows
        held_out = replace(self, positive_rows=self.units.one_each(unseen, seed), negative_rows=negatives)
        return nullcontext((train, held_out))

    def _hold_out_random(self, n_held: int | Strata, seed: int) -> tuple[ArrayTable, RowIndices, ArrayTable]:
        """What trains, one negative of each of some random units, and all rows of these units."""
        rows, own = self.rows, np.unique(self.units.of(self.negative_rows))
        drawn = np.random.default_rng(seed).permutation(own)
        if isinstance(n_held, Strata):
            strata = split_by_code(drawn, n_held.codes[drawn], len(n_held.sizes))
            drawn = np.concatenate([own[:size] for own, size in zip(strata, n_held.sizes, strict=True)])
        else:
            drawn = drawn[:n_held]
        held = np.isin(self.units.of(rows), drawn)
        others = self.part(rows[held])
        return self.part(rows[~held]), self.units.one_each(others.negative_rows, seed), others

    def _hold_out_latest(self, n_held: int, seed: int) -> tuple[ArrayTable, RowIndices, ArrayTable]:
        """What trains, the latest negatives, and all rows that came as late, of units that do not train.

        A unit is as late as the one negative of it that is drawn at random: its last row would favour units with many
        rows. Earlier rows train, but for those of units that are held out; later rows of other units take no part.
        """
        assert self.units.times is not None
        rows, times, drawn = self.rows, self.units.times, self.units.one_each(self.negative_rows, seed)
        cutoff = np.sort(times[drawn])[-n_held]
        negatives, is_late = drawn[times[drawn] >= cutoff], times[rows] >= cutoff
        train = rows[~is_late & ~self.units.with_all(negatives, rows)]
        return self.part(train), negatives, self.part(rows[is_late & ~self.units.with_all(train, rows)])

    def folds(self, n_folds: int, seed: int) -> AbstractContextManager[ArrayParts]:
        """Divide at random; held out are all positives of a fold, and one negative of each unit."""
        rows, is_positive = self.rows, self.is_positive
        if self.units.groups is not None:
            folds = self.units.deal(rows, is_positive, n_folds, seed)
            pairs = [(rows[folds != fold], rows[folds == fold]) for fold in range(n_folds)]
        else:
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
            pairs = [(rows[train], rows[test]) for train, test in splitter.split(np.empty((rows.size, 0)), is_positive)]
        return self._parts(pairs, seed)

    def rounds(self, n_rounds: int, train_share: float, seed: int) -> AbstractContextManager[ArrayParts]:
        """Divide at random some times; a group is positive if one of its rows is, and goes as a whole."""
        rows = self.rows
        codes, places = np.unique(self.units.of(rows), return_inverse=True)
        has_positive = np.zeros(codes.size, dtype=bool)
        has_positive[places[self.is_positive]] = True
        pairs = [
            (rows[np.isin(places, train)], rows[np.isin(places, held_out)])
            for train, held_out in stratified_rounds(has_positive, n_rounds, train_share, seed)
        ]
        return self._parts(pairs, seed)

    def positive_folds(self, n_folds: int, n_used: int, seed: int) -> AbstractContextManager[ArrayParts]:
        """Divide the positives; the rows of their units do not train either."""
        rows, positive = self.rows, self.positive_rows
        folds = self.units.deal(positive, np.ones(positive.size, dtype=bool), n_folds, seed)
        pairs = []
        for fold in range(n_used):
            own = positive[folds == fold]
            drawn = replace(self, positive_rows=self.units.one_each(own, seed), negative_rows=own[:0])
            pairs.append((self.part(rows[~self.units.with_all(own, rows)]), drawn))
        return nullcontext(ArrayParts(pairs, self.n_jobs))

    def search_folds(
        self, cv: Any, *, enough: int | None = None, seed: int | None = None
    ) -> AbstractContextManager[ArrayParts]:
        if enough is not None and isinstance(cv, Integral):
            n_folds = possible_folds(int(cv), self)
            n_used = enough_folds(n_folds, self.n_positive, enough)
            if n_used < n_folds:
                folds = self.split(cv, seed=seed or 0)
                return nullcontext(replace(folds, pairs=folds.pairs[:n_used]))
        return nullcontext(self.split(cv, seed))

    def split(self, cv: Any, seed: int | None = None) -> ArrayParts:
        """Divide by a splitter, or into a number of folds, which a seed shuffles; groups that are given stay whole."""
        rows, is_positive, groups = self.rows, self.is_positive, self.units.groups
        if isinstance(cv, Integral):
            cv = possible_folds(int(cv), self)
            if groups is not None:
                cv = PredefinedSplit(self.units.deal(rows, is_positive, cv, seed or 0))
            elif seed is not None:
                cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
        splitter = check_cv(cv, is_positive, classifier=True)
        given = {} if groups is None or isinstance(splitter, PredefinedSplit) else {"groups": groups[rows]}
        pairs = []
        for number, (train, test) in enumerate(splitter.split(np.zeros((rows.size, 1)), is_positive, **given)):
            pairs.append((self.part(rows[train]), self.part(rows[test])))
            if not all(part.n_positive and part.n_negative for part in pairs[-1]):
                raise ValueError(
                    f"fold {number} of cv has no rows of one class in its training or its held-out part; there are "
                    f"{self.n_positive} positives and {self.n_negative} negatives. "
                    "Use fewer folds, or a stratified splitter."
                )
        return ArrayParts(pairs, self.n_jobs)

    def _parts(self, pairs: list[tuple[RowIndices, RowIndices]], seed: int) -> AbstractContextManager[ArrayParts]:
        """Tables of the rows that train, and of those held out: all positives, and one negative of each unit."""
        tables = []
        for train, rows in pairs:
            held_out = self.part(rows)
            drawn = replace(held_out, negative_rows=self.units.one_each(held_out.negative_rows, seed))
            tables.append((self.part(train), drawn))
        return nullcontext(ArrayParts(tables, self.n_jobs))

    def negatives(self, seed: int | None = None) -> ArrayTable:
        own = self.negative_rows if seed is None else self.units.one_each(self.negative_rows, seed)
        return replace(self, positive_rows=own[:0], negative_rows=own)

    def compact(self) -> ArrayTable:
        """A copy of these rows, positives first: scores then split into views, and other rows are not multiplied."""
        assert self.operator is not None
        places = np.arange(self.n_positive + self.n_negative)
        own = (places[: self.n_positive], places[self.n_positive :])
        return ArrayTable(None, *own, operator=self.operator.take_rows(self.by_class))

    # Rankings and scores.

    def problem(self, k: int, reg: float) -> AbstractContextManager[RankingProblem]:
        """The problem on X itself, if these are all of its rows, or on a copy of them."""
        table = self if self.is_whole else self.compact()
        assert table.operator is not None
        return nullcontext(RankingProblem(table.operator, table.positive_rows, table.negative_rows, k, reg))

    def model(self, ranking: Ranking) -> LinearModel:
        """The model of a ranking on these rows; only one of all rows is ever started from."""
        result = ranking.result
        if ranking.collapsed or not self.is_whole:
            return LinearModel(result.coef)
        duals = np.empty(self.n_positive + self.n_negative)
        duals[self.positive_rows], duals[self.negative_rows] = result.alpha, result.beta
        return LinearModel(result.coef, replace(result, history=()), duals)

    def start(self, near: LinearModel | None) -> Result | None:
        """The result of a model of all rows, cut down to these; a solver makes its dual pair feasible again."""
        if near is None or near.result is None or near.duals is None:
            return None
        return replace(near.result, alpha=near.duals[self.positive_rows], beta=near.duals[self.negative_rows])

    def scores(self, coef: Vector) -> ArrayScores:
        assert self.operator is not None
        rows = self.by_class
        values = self.operator.matvec(coef)[rows] if self.is_whole else self.operator.matvec_rows(coef, rows)
        return self.with_scores(values)

    def with_scores(self, values: Vector) -> ArrayScores:
        """These scores of the rows by class, positives first."""
        positive, negative = values[: self.n_positive], values[self.n_positive :]
        checked = as_sample("negative_scores", negative) if negative.size else ArraySample(negative)
        return ArrayScores(ArraySample(positive), checked, values, self.by_class)

    def tally(self, n_taus: int) -> AbstractContextManager[ArrayTally]:
        """Sums for every row of X."""
        return nullcontext(ArrayTally(self, n_taus))

    def norm_of(self, scores: Scores, score: float) -> float:
        """Length of the first negative with this score."""
        assert self.operator is not None
        assert isinstance(scores.negative, ArraySample)
        first = self.negative_rows[np.flatnonzero(scores.negative.scores == score)[:1]]
        return float(np.sqrt(self.operator.row_gram(first)[0, 0]))

    def score_size(self, coef: Vector, share: float) -> float:
        """The sum of sizes of terms that this share of the rows does not exceed, of a thousand from all over X."""
        n_rows = self.X.shape[0]
        some = self.X[np.unique(np.linspace(0, n_rows - 1, _SIZED).astype(np.intp))]
        return float(np.quantile(abs(some) @ np.abs(coef), share))

    def with_copies(self, among: CopyFinder = copies_among) -> ArrayTable:
        """The same rows, with copies among the negatives found and warned of, unless there are groups."""
        if self.units.groups is not None:
            return self
        return replace(self, units=replace(self.units, copies=find_copies(self.X, self.negative_rows, among)))

    def copies(self, train: Table | None = None) -> str | None:
        seen = train.rows if isinstance(train, ArrayTable) else self.negative_rows[:0]
        return self.units.copies_caveat(seen, self.negative_rows)


@dataclass(frozen=True)
class ArrayParts(Parts):
    """Pairs of tables of rows in memory."""

    pairs: list[tuple[ArrayTable, ArrayTable]]
    n_jobs: int | None

    def __len__(self) -> int:
        return len(self.pairs)

    def __add__(self, other: ArrayParts) -> ArrayParts:
        return replace(self, pairs=self.pairs + other.pairs)

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any], what: str = "fold") -> Iterator[Any]:
        """Results of all pairs, `n_jobs` at the same time.

        Linear fits spend their time in compiled code that lets other threads run, and threads share the rows. Scorers
        of any kind get processes, which start anew and get a copy of the rows.
        """
        jobs = list(zip(self.pairs, *arguments, strict=True))
        n_workers = min(self._n_workers(), len(jobs))
        if n_workers == 1:
            for place, (pair, *own) in enumerate(jobs):
                yield call_as_step(place, len(jobs), what, function, *pair, *own)
            return
        if any(train.operator is None for train, _ in self.pairs):
            scorers = Parallel(n_jobs=self.n_jobs, **one_by_one())
            results = scorers(delayed(function)(*pair, *own) for pair, *own in jobs)
        else:
            linear = joblib.Parallel(n_workers, prefer="threads", **one_by_one())
            results = linear(joblib.delayed(_work)(function, *pair, *own) for pair, *own in jobs)
        yield from each_told(results, len(jobs), what)

    def _n_workers(self) -> int:
        """How many parts at a time: `n_jobs`; one for linear fits on few values, all threads for others by default."""
        operator, n_jobs = self.pairs[0][0].operator, effective_n_jobs(self.n_jobs)
        if operator is None:
            return n_jobs
        n_values = operator.n_stored()
        if n_values < _MANY:
            return 1
        by_default = self.n_jobs is None and n_values <= LARGE
        return max(n_jobs, n_threads()) if by_default else n_jobs


def _work(function: Callable[..., Any], train: ArrayTable, held_out: ArrayTable, *own: Any) -> Any:
    """Call it in one of several threads, with a count of passes of its own."""
    assert train.operator is not None
    operator = train.operator.counted_apart()
    with worker():
        return function(replace(train, operator=operator), replace(held_out, operator=operator), *own)


class ArrayTally(Tally):
    """Sums of score minus threshold, and how often each row was held out."""

    def __init__(self, table: ArrayTable, n_taus: int) -> None:
        n_rows = int(table.rows[-1]) + 1
        self.table = table
        self.totals, self.times = np.zeros((n_taus, n_rows)), np.zeros(n_rows)

    def add(self, scores: Scores, thresholds: Sequence[float]) -> None:
        assert isinstance(scores, ArrayScores)
        for total, threshold in zip(self.totals, thresholds, strict=True):
            total[scores.rows] += scores.values - threshold
        self.times[scores.rows] += 1

    def counts(self, which: int) -> tuple[int, int, int, int]:
        own = (self.table.negative_rows, self.table.positive_rows)
        seen = [rows[self.times[rows] > 0] for rows in own]
        above = [int(np.sum(self.totals[which, rows] > 0)) for rows in seen]
        return above[0], seen[0].size, above[1], seen[1].size
