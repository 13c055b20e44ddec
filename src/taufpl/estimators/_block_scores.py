"""Scores of rows in blocks: as samples for rules, and what is told of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._block_table import Part
from taufpl.estimators._linear import score_rounding
from taufpl.operators.remote import Block, State, Sums, order_statistic
from taufpl.thresholding import BlockSample, Evidence, top_threshold

Vector = NDArray[np.float64]

_CLASSES = ("negative", "positive")


@dataclass(frozen=True)
class Direction:
    """A linear score: x . w + b."""

    coef: Vector
    intercept: float = 0.0

    def __call__(self, block: Block, rows: Any | None) -> Any:
        """Scores of some rows of a block, or of all, in double precision."""
        return block.dot(self.coef, rows, exact=True) + self.intercept


@dataclass(frozen=True)
class Scores:
    """A task: scores of the rows of each class, as two vectors in the state."""

    direction: Direction

    def __call__(self, block: Block, state: State) -> State:
        """Scores in the place of earlier ones."""
        found = {f"{name}_scores": self.direction(block, block.xp.nonzero(state[f"is_{name}"])[0]) for name in _CLASSES}
        return {**state, **found}


@dataclass(frozen=True)
class Of:
    """The scores of one class."""

    name: str

    def __call__(self, block: Block, state: State) -> Any:
        """Read them from a state."""
        return state[f"{self.name}_scores"]


@dataclass(frozen=True)
class Held:
    """Samples of the scores of both classes; `positive` is None where there are no positives."""

    negative: BlockSample
    positive: BlockSample | None

    @classmethod
    def of(cls, part: Part) -> Held:
        """The scores in the state, as a rule sees them."""
        positive = BlockSample(part.blocks, Of("positive"), "positive_scores") if part.n_positive else None
        return cls(BlockSample(part.blocks, Of("negative")), positive)

    def with_recall(self, evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        """Evidence with the share of these positives above its threshold, if there are any."""
        return evidence if self.positive is None else tuple(each.with_recall(self.positive) for each in evidence)


def score(part: Part, direction: Direction) -> None:
    """Scores of all rows of a part, kept with them. One pass over these rows."""
    part.blocks.change(Scores(direction))
    part.blocks.count(sum(part.sizes) / part.blocks.shape[0])


def train_threshold(part: Part, coef: Vector, tau: float) -> float:
    """Proposition 1's threshold on the negatives of a part, safe against rounding, as for rows in memory. One pass."""
    score(part, Direction(coef))
    threshold = top_threshold(BlockSample(part.blocks, Of("negative")), tau)
    norm = max(part.blocks.gather(_NormAt(threshold)))
    return threshold + score_rounding(norm * float(np.linalg.norm(coef)))


def span(part: Part, direction: Direction) -> tuple[float, float]:
    """Mean and standard deviation of the scores of the negatives; (0, 1) where they say nothing."""
    score(part, direction)
    at = float(part.blocks.reduce(_Sum())[0]) / part.n_negative
    width = math.sqrt(float(part.blocks.reduce(_SquaresAround(at))[0]) / part.n_negative)
    return (at, width) if math.isfinite(at) and math.isfinite(width) and width > 0 else (0.0, 1.0)


def norm_quantile(part: Part, share: float) -> float:
    """A length that so large a share of all rows does not exceed. One pass."""
    part.blocks.change(_Norms())
    part.blocks.count(1.0)
    rank = max(1, math.ceil(share * sum(part.sizes)))
    return math.sqrt(order_statistic(part.blocks, _ReadNorms(), rank))


@dataclass(frozen=True)
class _NormAt:
    """Length of the first negative of the block at a threshold; 0 if there is none."""

    threshold: float

    def __call__(self, block: Block, state: State) -> float:
        xp = block.xp
        places = xp.nonzero(state["negative_scores"] == self.threshold)[0][:1]
        if not places.shape[0]:
            return 0.0
        rows = xp.take(xp.nonzero(state["is_negative"])[0], places, axis=0)
        return math.sqrt(float(block.to_host(block.norms(rows)[0])[0]))


@dataclass(frozen=True)
class _Sum:
    def __call__(self, block: Block, state: State) -> Sums:
        return (float(block.to_host(block.xp.sum(state["negative_scores"]))[0]),)


@dataclass(frozen=True)
class _SquaresAround:
    mean: float

    def __call__(self, block: Block, state: State) -> Sums:
        apart = state["negative_scores"] - self.mean
        return (float(block.to_host(block.xp.sum(apart * apart))[0]),)


@dataclass(frozen=True)
class _Norms:
    def __call__(self, block: Block, state: State) -> State:
        norms = block.norms()
        return {**state, "norms": norms[state["is_negative"] | state["is_positive"]]}


@dataclass(frozen=True)
class _ReadNorms:
    def __call__(self, block: Block, state: State) -> Any:
        return state["norms"]
