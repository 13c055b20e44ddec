"""Remote rows as a table: masks, codes and scores stay in the blocks of their rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.validation import check_consistent_length

from taufpl._sklearn import check_feature_names, check_n_features
from taufpl._types import Array, Vector
from taufpl.estimators._linear import LinearScorer
from taufpl.estimators._predictions import scores_of
from taufpl.estimators._progress import call_as_step
from taufpl.estimators._reading import check_known, enough_folds, order_labels, possible_folds
from taufpl.estimators._table import NO_ROUNDING, LinearModel, Parts, Rounding, Scores, Strata, Table, Tally
from taufpl.estimators.remote._learners import ModelScore, fit_where_rows_are
from taufpl.operators import are_together, device_of, is_foreign_array, is_remote, namespace, plain, to_numpy
from taufpl.operators.remote import (
    Block,
    Blocks,
    State,
    Sums,
    as_blocks,
    check_rows,
    divide,
    header,
    label_counts,
    order_statistic,
)
from taufpl.problem import BlockRankingProblem
from taufpl.solvers import Result, Status
from taufpl.thresholding import Sample
from taufpl.thresholding.remote import BlockSample

# Of negatives, then of positives.
Pair = tuple[int, int]
# Where the code of every row in a division is kept.
CODES = "part"


class Division(ABC):
    """A rule from the places of rows to the codes of parts."""

    seed: int | None

    @abstractmethod
    def codes(self, kind: int, first: int, steps: Any) -> Any:
        """Codes of the places `first` + steps, integers of any library, of negatives (kind 0) or positives (kind 1)."""


@dataclass(frozen=True)
class Consecutive(Division):
    """Folds of rows that follow each other, as scikit-learn's StratifiedKFold makes them without shuffling."""

    # For negatives and for positives, the place after the last one of each fold.
    ends: tuple[tuple[int, ...], tuple[int, ...]]
    seed: None = None

    @classmethod
    def folds(cls, n_folds: int, counts: Pair, first_kind: int) -> Consecutive:
        """Folds of rows that are counted by class, where the first row of all is of the given kind."""
        # As if all rows of the kind that comes first were dealt to the folds in turn, and then the others.
        before = (0, counts[0]) if first_kind == 0 else (counts[1], 0)
        sizes = [
            [len(range((fold - before[kind]) % n_folds, counts[kind], n_folds)) for fold in range(n_folds)]
            for kind in (0, 1)
        ]
        ends = [tuple(np.cumsum(each).tolist()) for each in sizes]
        return cls((ends[0], ends[1]))

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        xp = namespace(steps)
        ends = xp.asarray([end - first for end in self.ends[kind]], dtype=xp.int64, device=device_of(steps))
        return xp.searchsorted(ends, steps, side="right")


@dataclass(frozen=True)
class Dealt(Division):
    """Random folds: shuffled rows are dealt out in turn, from a random fold on."""

    n_folds: int
    shifts: Pair
    seed: int

    @classmethod
    def folds(cls, n_folds: int, seed: int) -> Self:
        """A random division into this many folds."""
        shifts = np.random.default_rng(seed).integers(n_folds, size=2).tolist()
        return cls(n_folds, (shifts[0], shifts[1]), seed)

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        return (steps + (first + self.shifts[kind]) % self.n_folds) % self.n_folds


@dataclass(frozen=True)
class DealtPositives(Dealt):
    """Random folds of the positives; negatives are in none of them, and have code -1."""

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        return super().codes(kind, first, steps) if kind else 0 * steps - 1


@dataclass(frozen=True)
class HeldOutRows(Division):
    """A random part of each class, code 1; the rest has code 0. Held-out places are spread evenly from a random one."""

    held: Pair
    counts: Pair
    starts: Pair
    seed: int

    @classmethod
    def draw(cls, held: Pair, counts: Pair, seed: int) -> HeldOutRows:
        """A random division that holds out this many rows of each class."""
        starts = np.random.default_rng(seed).integers(np.maximum(counts, 1)).tolist()
        return cls(held, counts, (starts[0], starts[1]), seed)

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        """1 where floor((held place + start) / count) steps up, which over all places it does `held` times."""
        held, total = self.held[kind], self.counts[kind]
        reached = held * steps + (held * first + self.starts[kind]) % total  # the latter in whole numbers of any size
        return (reached + held) // total - reached // total


@dataclass(frozen=True)
class AssignParts:
    """A task: write the code of every row into the state."""

    division: Division
    # For each block, how many negatives and positives there are in the blocks before it.
    first: tuple[Pair, ...]

    @classmethod
    def of(cls, division: Division, counts: Sequence[Pair]) -> AssignParts:
        """The task for blocks with these counts of negatives and positives."""
        before = np.cumsum([(0, 0), *counts], axis=0)[:-1].tolist()
        return cls(division, tuple((each[0], each[1]) for each in before))

    def __call__(self, block: Block, state: State) -> State:
        """Codes in the place of earlier ones; rows of neither class have code -1."""
        xp = block.xp
        masks = [state[name] for name in ("is_negative", "is_positive")]
        codes = xp.astype(masks[0], xp.int32) * 0 - 1
        for kind, count in enumerate(block.to_host(*map(xp.count_nonzero, masks))):
            if count:
                places = xp.cumulative_sum(xp.astype(masks[kind], xp.int64)) - 1
                own = self._codes(block, state["number"], kind, int(count))
                codes = xp.where(masks[kind], xp.take(own, xp.clip(places, 0, None), axis=0), codes)
        return {**state, CODES: codes}

    def _codes(self, block: Block, number: int, kind: int, count: int) -> Any:
        codes = self.division.codes(kind, self.first[number][kind], block.counting(count))
        codes = block.xp.astype(codes, block.xp.int32)
        return codes if self.division.seed is None else block.shuffled(codes, (self.division.seed, number, kind))


CLASSES = ("negative", "positive")
# Scores of some rows of a block, or of all (None), as an array of the block's library in double precision.
RowScore = Callable[[Block, Any | None], Any]


@dataclass(frozen=True)
class LinearRowScore:
    """A linear score: x . w + b."""

    coef: Vector
    intercept: float = 0.0

    def __call__(self, block: Block, rows: Any | None) -> Any:
        """Scores of some rows of a block, or of all, in double precision."""
        return block.dot(self.coef, rows, exact=True) + self.intercept


@dataclass(frozen=True)
class Read:
    """An entry of the state."""

    key: str

    def __call__(self, block: Block, state: State) -> Any:
        return state[self.key]


@dataclass(frozen=True)
class CountAndFirst:
    """Negatives, positives, and the class of the first row that takes part; -1 if there is none."""

    def __call__(self, block: Block, state: State) -> tuple[int, int, int]:
        xp = block.xp
        masks = state["is_negative"], state["is_positive"]
        negative, positive = (int(count) for count in block.to_host(*(xp.count_nonzero(mask) for mask in masks)))
        first = -1
        if negative and positive:
            places = block.to_host(*(xp.argmax(xp.astype(mask, xp.int32)) for mask in masks))
            first = int(places[1] < places[0])
        elif negative or positive:
            first = int(positive > 0)
        return negative, positive, first


@dataclass(frozen=True)
class TakePart:
    """Masks of the rows with a code, or of all others."""

    code: int
    others: bool

    def __call__(self, block: Block, state: State) -> State:
        codes = state[CODES]
        chosen = (codes != self.code) if self.others else (codes == self.code)
        masks = {name: state[name] & chosen for name in ("is_negative", "is_positive")}
        return {"number": state["number"], "start": state["start"], **masks}


@dataclass(frozen=True)
class PoseProblem:
    """The state that a ranking problem begins with, from masks; with a floor, of positives that score at least that."""

    floor: float | None = None

    def __call__(self, block: Block, state: State) -> State:
        positive = block.xp.nonzero(state["is_positive"])[0]
        if self.floor is not None:
            positive = positive[state["positive_scores"] >= self.floor]
        return {"number": state["number"], "positive": positive, "is_negative": state["is_negative"]}


@dataclass(frozen=True)
class CountPosed:
    """Positives of a ranking problem."""

    def __call__(self, block: Block, state: State) -> int:
        return int(state["positive"].shape[0])


@dataclass(frozen=True)
class ScoreRows:
    """Scores of the rows of each class, in the place of earlier ones."""

    score: RowScore

    def __call__(self, block: Block, state: State) -> State:
        found = {f"{name}_scores": self.score(block, block.xp.nonzero(state[f"is_{name}"])[0]) for name in CLASSES}
        return {**state, **found}


@dataclass(frozen=True)
class NormAt:
    """Length of the first negative of the block with a score; 0 if there is none."""

    score: float

    def __call__(self, block: Block, state: State) -> float:
        xp = block.xp
        places = xp.nonzero(state["negative_scores"] == self.score)[0][:1]
        if not places.shape[0]:
            return 0.0
        rows = xp.take(xp.nonzero(state["is_negative"])[0], places, axis=0)
        return math.sqrt(float(block.to_host(block.norms(rows)[0])[0]))


@dataclass(frozen=True)
class Norms:
    """Squared lengths of the rows that take part."""

    def __call__(self, block: Block, state: State) -> State:
        return {**state, "norms": block.norms()[state["is_negative"] | state["is_positive"]]}


@dataclass(frozen=True)
class StartTally:
    """Zeros: no row has been held out so far."""

    n_taus: int

    def __call__(self, block: Block, state: State) -> State:
        zeros = block.xp.zeros_like(block.xp.astype(state["is_positive"], block.xp.float64))
        return {**state, "times": zeros, **{f"total_{i}": zeros for i in range(self.n_taus)}}


@dataclass(frozen=True)
class AddToTally:
    """Score minus threshold of the rows that a round has held out, added for each tolerance."""

    score: RowScore
    thresholds: tuple[float, ...]

    def __call__(self, block: Block, state: State) -> State:
        xp, scores = block.xp, self.score(block, None)
        held_out = state[CODES] == 1
        added = {"times": state["times"] + xp.astype(held_out, xp.float64)}
        for i, threshold in enumerate(self.thresholds):
            added[f"total_{i}"] = state[f"total_{i}"] + xp.where(held_out, scores - threshold, xp.zeros_like(scores))
        return {**state, **added}


@dataclass(frozen=True)
class CountTally:
    """Negatives that are above 0 on average, those held out at all, and the same of positives."""

    which: int

    def __call__(self, block: Block, state: State) -> Sums:
        xp, found = block.xp, []
        for name in CLASSES:
            seen = state[f"is_{name}"] & (state["times"] > 0)
            found += [xp.count_nonzero(seen & (state[f"total_{self.which}"] > 0)), xp.count_nonzero(seen)]
        return tuple(int(count) for count in block.to_host(*found))


class BlockScores(Scores):
    """Scores in the states of blocks, with the function that made them."""

    def __init__(self, table: BlockTable, score: RowScore) -> None:
        self.table, self.score, self.rounding = table, score, NO_ROUNDING

    def with_rounding(self, sums: float, hidden: float | None = None) -> Self:
        self.rounding = Rounding.of(sums, hidden, self.negative)
        return self

    @cached_property
    def positive(self) -> Sample:  # type: ignore[override]
        return BlockSample(self.table.blocks, Read("positive_scores"), "positive_scores")

    @cached_property
    def negative(self) -> Sample:  # type: ignore[override]
        return BlockSample(self.table.blocks, Read("negative_scores"), "negative_scores")


class BlockTable(Table):
    """Some rows of each class: those in the masks `is_positive` and `is_negative` in the states of blocks.

    Known are the counts of negatives and positives of each block, the class of the first row of all, the estimator
    whose `n_features_in_` and `feature_names_in_` are those of the rows, and the division that held these rows out.
    """

    in_memory = False

    def __init__(
        self,
        blocks: Blocks,
        counts: tuple[Pair, ...],
        first_kind: int,
        estimator: Any = None,
        division: Division | None = None,
    ) -> None:
        self.blocks, self.counts, self.first_kind = blocks, counts, first_kind
        self.estimator, self.division = estimator, division
        self.n_negative, self.n_positive = np.sum(counts, axis=0).tolist()
        self._length: float | None = None

    @classmethod
    def of(cls, blocks: Blocks, estimator: Any = None, division: Division | None = None) -> BlockTable:
        """The rows that the masks name. One round."""
        found = blocks.gather(CountAndFirst())
        counts = tuple((negative, positive) for negative, positive, _ in found)
        return cls(blocks, counts, next((first for *_, first in found if first >= 0), 0), estimator, division)

    @property
    def n_passes(self) -> float:  # type: ignore[override]
        return self.blocks.n_passes

    @property
    def sizes(self) -> Pair:
        """All negatives and all positives."""
        return self.n_negative, self.n_positive

    # Divisions.

    @contextmanager
    def hold_out(
        self, n_held: int | Strata, seed: int, *, needs_positives: bool
    ) -> Iterator[tuple[BlockTable, BlockTable]]:
        """Hold out random negatives."""
        assert isinstance(n_held, int)
        division = HeldOutRows.draw((n_held, 0), self.sizes, seed)
        with self._coded(division, 1) as part, part.divided() as tables:
            yield tables

    def folds(self, n_folds: int, seed: int) -> AbstractContextManager[BlockParts]:
        """Deal the rows of each class to random folds."""
        return self._parts(Dealt.folds(n_folds, seed), n_folds)

    def positive_folds(self, n_folds: int, n_used: int, seed: int) -> AbstractContextManager[BlockParts]:
        """Deal the positives to random folds."""
        return self._parts(DealtPositives.folds(n_folds, seed), n_used)

    def search_folds(
        self, cv: Any, *, enough: int | None = None, seed: int | None = None
    ) -> AbstractContextManager[BlockParts]:
        """Consecutive folds, as a number stands for in scikit-learn; random ones with a seed, or where some will do."""
        if not isinstance(cv, Integral):
            raise TypeError(
                f"cv must be a number of folds for remote rows, got {cv!r}: splitters choose rows by their numbers, in "
                "memory."
            )
        n_folds = possible_folds(int(cv), self)
        n_used = n_folds if enough is None else enough_folds(n_folds, self.n_positive, enough)
        if n_used < n_folds or seed is not None:
            return self._parts(Dealt.folds(n_folds, seed or 0), n_used)
        return self._parts(Consecutive.folds(n_folds, self.sizes, self.first_kind), n_folds)

    def rounds(self, n_rounds: int, train_share: float, seed: int) -> AbstractContextManager[BlockParts]:
        """Hold out random rows of both classes, each time others."""
        held = tuple(count - min(max(round(train_share * count), 1), count - 1) for count in self.sizes)
        seeds = np.random.default_rng(seed).integers(2**31 - 1, size=n_rounds).tolist()
        divisions = [HeldOutRows.draw((held[0], held[1]), self.sizes, own) for own in seeds]
        return nullcontext(BlockParts([self._coded(division, 1) for division in divisions]))

    @contextmanager
    def _parts(self, division: Division, n_parts: int) -> Iterator[BlockParts]:
        """The rows with each code, and all others; codes are let go of at the end."""
        with self._coded(division, 0) as part:
            yield BlockParts([nullcontext(replace(part, code=code)) for code in range(n_parts)])

    @contextmanager
    def _coded(self, division: Division, code: int) -> Iterator[_Part]:
        """Give every row a code, which is let go of at the end."""
        with _forked(self.blocks, self.assign(division)) as blocks:
            yield _Part(self, blocks, division, code)

    def assign(self, division: Division) -> AssignParts:
        """The task that gives every row its code in a division."""
        return AssignParts.of(division, self.counts)

    def negatives(self, seed: int | None = None) -> BlockTable:
        """The table itself: every row is a unit, and one pass scores both classes."""
        return self

    def compact(self) -> BlockTable:
        """The table itself."""
        return self

    # Rankings and scores.

    @contextmanager
    def problem(self, k: int, reg: float) -> Iterator[BlockRankingProblem]:
        """The ranking problem on these rows; its vectors are let go of at the end."""
        with _forked(self.blocks, PoseProblem()) as blocks:
            yield BlockRankingProblem(blocks, self.n_positive, self.n_negative, k, reg)

    @contextmanager
    def chosen_problem(self, k: int, reg: float, floor: float) -> Iterator[BlockRankingProblem]:
        """The ranking problem of the positives with scores of at least a floor, as the table was scored last."""
        with _forked(self.blocks, PoseProblem(floor)) as blocks:
            n_positive = sum(blocks.gather(CountPosed()))
            yield BlockRankingProblem(blocks, n_positive, self.n_negative, k, reg)

    def start(self, near: LinearModel | None) -> Result | None:
        """The coefficients of the model of other rows."""
        return None if near is None else start_from(near.coef)

    def scores(self, coef: Vector, intercept: float = 0.0) -> BlockScores:
        """X w + b, kept with the rows. One pass over these rows."""
        return self.scored(LinearRowScore(coef, intercept))

    def scores_by(self, model: Any, positive: Any) -> BlockScores:
        """Scores by a model of `fit_clone`, kept with the rows, higher for the class `positive`."""
        if isinstance(model, LinearScorer):
            return self.scores(model.coef_[0], float(model.intercept_[0]))
        names = getattr(model, "feature_names_in_", None)
        return self.scored(ModelScore(partial(scores_of, model, positive=positive), names))

    def scored(self, score: RowScore) -> BlockScores:
        """Scores by any function of rows, kept with the rows."""
        self.blocks.change(ScoreRows(score))
        self.blocks.count(sum(self.sizes) / self.blocks.shape[0])
        return BlockScores(self, score)

    def fit_clone(self, model: Any, classes: Array) -> Any:
        """Fit an estimator of this package on these rows, or a classifier that learns where they are."""
        if not hasattr(model, "_fit_table"):
            return fit_where_rows_are(model, self)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator, name):
                setattr(model, name, getattr(self.estimator, name))
        model.classes_ = classes
        return model._fit_table(self)

    @contextmanager
    def tally(self, n_taus: int) -> Iterator[BlockTally]:
        """Sums that are kept with the rows."""
        with _forked(self.blocks, StartTally(n_taus)) as blocks:
            yield BlockTally(self, blocks)

    def norm_of(self, scores: Scores, score: float) -> float:
        """Length of a negative with this score, the longest of one a block."""
        return max(self.blocks.gather(NormAt(score)))

    def score_size(self, coef: Vector, share: float) -> float:
        """|x| |w|, with a length that this share of the rows does not exceed. One pass, the first time."""
        if self._length is None:
            self.blocks.change(Norms())
            self.blocks.count(1.0)
            rank = max(1, math.ceil(share * sum(self.sizes)))
            self._length = math.sqrt(order_statistic(self.blocks, Read("norms"), rank))
        return self._length * float(np.linalg.norm(coef))


@dataclass(frozen=True)
class _Part:
    """Rows with codes: those with one of the codes are held out, all others train."""

    table: BlockTable
    blocks: Blocks
    division: Division
    code: int

    @contextmanager
    def divided(self) -> Iterator[tuple[BlockTable, BlockTable]]:
        """The rows with other codes, and those with the code; let go of at the end."""
        train, held_out = (_forked(self.blocks, TakePart(self.code, others)) for others in (True, False))
        describe = partial(BlockTable.of, estimator=self.table.estimator, division=self.division)
        with train as train_blocks, held_out as held_out_blocks:
            yield describe(train_blocks), describe(held_out_blocks)


class BlockParts(Parts):
    """Parts of remote rows, one after the other: every one of them keeps all workers busy."""

    def __init__(self, parts: list[AbstractContextManager[_Part]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts)

    def __add__(self, other: BlockParts) -> BlockParts:
        return BlockParts(self._parts + other._parts)

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any], what: str = "fold") -> Iterator[Any]:
        """Results one after the other; a part is let go of when the next result is asked for."""
        for place, (opened, *own) in enumerate(zip(self._parts, *arguments, strict=True)):
            with opened as part, part.divided() as tables:
                yield call_as_step(place, len(self), what, function, *tables, *own)


class BlockTally(Tally):
    """Sums of score minus threshold, and how often each row was held out, in the states of blocks."""

    def __init__(self, table: BlockTable, blocks: Blocks) -> None:
        self.table, self.blocks = table, blocks

    def add(self, scores: Scores, thresholds: Sequence[float]) -> None:
        assert isinstance(scores, BlockScores)
        assert scores.table.division is not None
        self.blocks.change(self.table.assign(scores.table.division))
        self.blocks.change(AddToTally(scores.score, tuple(thresholds)))

    def counts(self, which: int) -> tuple[int, int, int, int]:
        n_false, n_negative, n_caught, n_positive = self.blocks.reduce(CountTally(which))
        return int(n_false), int(n_negative), int(n_caught), int(n_positive)


def start_from(coef: Vector) -> Result:
    """Coefficients as a start of the solver over blocks, which asks for no more."""
    return Result(coef, None, None, math.inf, -math.inf, math.inf, 0, 0.0, Status.MAX_ITER, ())


@contextmanager
def _forked(blocks: Blocks, task: Callable[[Block, State], State]) -> Iterator[Blocks]:
    """The same rows with states of their own, which are let go of at the end."""
    made = blocks.fork(task)
    try:
        yield made
    finally:
        made.release()


def check_header(estimator: Any, X: Any, *, reset: bool) -> None:
    """Number and names of the columns, as scikit-learn checks them: kept at a fit, compared later."""
    columns = header(X)
    if len(columns.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(columns.shape)}D array instead: X must have rows and columns, "
            f"its shape is {tuple(columns.shape)}."
        )
    check_feature_names(estimator, columns, reset=reset)
    check_n_features(estimator, columns, reset=reset)


@contextmanager
def open_table(estimator: Any, X: Any, y: Any) -> Iterator[BlockTable]:
    """All rows of X with labels y, checked where they are; whatever happens, they are let go of at the end.

    Sets `classes_`, `n_features_in_` and `feature_names_in_` of the estimator.
    """
    check_header(estimator, X, reset=True)
    for size, name in zip(X.shape, ("sample", "feature"), strict=True):
        if isinstance(size, int) and size == 0:
            raise ValueError(f"Found array with 0 {name}(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
    with as_blocks(X, _read_labels(X, y)) as blocks:
        counts = label_counts(blocks)
        estimator.classes_ = order_labels(np.array(list(counts)), estimator._positive_label(), sum(counts.values()))
        divide(blocks, estimator.classes_.tolist()[1])
        if not get_tags(estimator).input_tags.allow_nan:
            check_rows(blocks)
        yield BlockTable.of(blocks, estimator)


@contextmanager
def open_scores(scores: Any, y: Any, classes: Array) -> Iterator[tuple[BlockTable, BlockScores]]:
    """Scores as a table of one column, and as samples of negatives and positives; without y all are of negatives."""
    column = scores[:, None]
    with as_blocks(column, None if y is None else _read_labels(column, y)) as blocks:
        if y is None:
            blocks.change(_AllNegative())
        else:
            check_known(label_counts(blocks), classes)
            divide(blocks, classes.tolist()[1])
        table = BlockTable.of(blocks)
        yield table, table.scores(np.ones(1))


def _read_labels(X: Any, y: Any) -> Any:
    """Labels for blocks: collections, and arrays beside an array of their library, stay where they are."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: y must hold the labels of the rows of X.")
    if is_remote(y) and not is_foreign_array(y) and not is_foreign_array(X):
        return y
    labels = plain(y) if are_together(X, y) and len(y.shape) == 1 else column_or_1d(to_numpy(y), warn=True)
    if isinstance(X.shape[0], int):
        check_consistent_length(np.broadcast_to(0, (X.shape[0],)), np.broadcast_to(0, labels.shape))
    return labels


@dataclass(frozen=True)
class _AllNegative:
    """Mark every row as a negative."""

    def __call__(self, block: Block, state: State) -> State:
        everything = block.asarray(np.ones(block.shape[0], dtype=bool))
        return {**state, "is_negative": everything, "is_positive": ~everything}
