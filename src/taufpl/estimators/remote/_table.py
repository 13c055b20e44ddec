"""Remote rows as a table: masks, codes and scores stay in the blocks of their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, Self

import numpy as np

from taufpl._types import Array, Vector
from taufpl.estimators._linear import LinearScorer
from taufpl.estimators._predictions import scores_of
from taufpl.estimators._progress import call_as_step
from taufpl.estimators._reading import enough_folds, possible_folds
from taufpl.estimators._table import NO_ROUNDING, LinearModel, Parts, Rounding, Scores, Strata, Table, Tally
from taufpl.estimators.remote._divisions import AssignParts, Consecutive, Dealt, DealtPositives, Division, HeldOut
from taufpl.estimators.remote._learners import ModelScore, fit_where_rows_are
from taufpl.estimators.remote._tasks import (
    AddToTally,
    CountAndFirst,
    CountPosed,
    CountTally,
    LinearRowScore,
    NormAt,
    Norms,
    PoseProblem,
    Read,
    RowScore,
    ScoreRows,
    StartTally,
    TakePart,
)
from taufpl.operators.remote import Block, Blocks, State, order_statistic
from taufpl.problem import BlockRankingProblem
from taufpl.solvers import Result, Status
from taufpl.thresholding import Sample
from taufpl.thresholding.remote import BlockSample

# Of negatives, then of positives.
Pair = tuple[int, int]


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
        division = HeldOut.draw((n_held, 0), self.sizes, seed)
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
        divisions = [HeldOut.draw((held[0], held[1]), self.sizes, own) for own in seeds]
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

    def norm_quantile(self, share: float) -> float:
        """A length that this share of the rows does not exceed. One pass."""
        self.blocks.change(Norms())
        self.blocks.count(1.0)
        rank = max(1, math.ceil(share * sum(self.sizes)))
        return math.sqrt(order_statistic(self.blocks, Read("norms"), rank))


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
