"""Tasks on blocks of a remote table: what they read from the states of blocks, and what they keep there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taufpl._types import Vector
from taufpl.estimators.remote._divisions import CODES
from taufpl.operators.remote import Block, State, Sums

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
