"""What blocks are asked in a round of a projection."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators.remote import Block, Deferred, Selected, State, Sums


@dataclass(frozen=True, slots=True)
class Source:
    """A vector as a combination of vectors in the state of the blocks: offset + sum of factor * state[name]."""

    offset: float
    terms: tuple[tuple[float, str], ...]
    among: str | None = None  # name of the mask of the entries that count; None: all
    moves: str | None = None  # name of a vector whose product with the projection is wanted

    def above(self, block: Block, state: State, floor: float, slot: str) -> Selected:
        """Entries above a floor. They stay with the block under `slot`, for as long as its vectors stay the same."""
        terms = tuple((factor, state[name]) for factor, name in self.terms if factor)
        kept = block.scratch.get(slot)
        if kept is not None:
            source, vectors, known_floor, selected = kept
            same = len(vectors) == len(terms) and all(v is w for v, (_, w) in zip(vectors, terms, strict=True))
            if same and source == self and known_floor <= floor:
                return selected
        among = None if self.among is None else state[self.among]
        # Entries that equal the lowest candidate count as well.
        floor = float(np.nextafter(floor, -math.inf))
        selected = block.select(floor, self.offset, terms, among)
        block.scratch[slot] = (self, tuple(w for _, w in terms), floor, selected)
        return selected

    def moved(self, state: State) -> Any | None:
        """The vector of moves, if any."""
        return None if self.moves is None else state[self.moves]

    def shifted(self, origin: float) -> Source:
        """The same entries, relative to an origin."""
        return replace(self, offset=self.offset - origin)


@dataclass(frozen=True, slots=True)
class Look:
    """Task: counts and excesses over candidates; instead of those of beta, if asked, its sum and that of its moves."""

    alpha: Source
    beta: Source
    alpha_edges: Vector
    beta_edges: Vector
    floors: tuple[float, float]
    with_total: bool = False

    def __call__(self, block: Block, state: State) -> Sums:
        """Two arrays, to be added up over blocks."""
        alpha = self.alpha.above(block, state, self.floors[0], "alpha").tally(self.alpha_edges)
        beta = self.beta.above(block, state, self.floors[1], "beta")
        if not self.with_total:
            return block.settle(alpha, beta.tally(self.beta_edges))
        xp, moves = block.xp, self.beta.moved(state)
        moved = xp.sum(beta.values) * 0.0 if moves is None else xp.sum(xp.take(moves, beta.rows, axis=0))
        return block.settle(alpha, Deferred.stacked(xp.sum(beta.values), moved))


@dataclass(frozen=True, slots=True)
class Fetch:
    """Task, to be gathered: the entries inside some intervals and sums over those above them."""

    alpha: Source
    beta: Source
    alpha_intervals: Matrix
    beta_intervals: Matrix
    floors: tuple[float, float]
    most: int

    def __call__(self, block: Block, state: State) -> tuple[tuple[Matrix, list[Any]], tuple[Matrix, list[Any]]]:
        """For alpha and for beta: what `Selected.fetch` tells."""
        found = []
        for source, intervals, floor, slot in (
            (self.alpha, self.alpha_intervals, self.floors[0], "alpha"),
            (self.beta, self.beta_intervals, self.floors[1], "beta"),
        ):
            selected = source.above(block, state, floor, slot)
            found.append(selected.fetch(intervals, source.moved(state), self.most))
        alpha, beta = block.settle(*block.settle(*found))
        return alpha, beta


@dataclass(frozen=True, slots=True)
class SampleBoth:
    """Task, to be gathered: a regular sample of both vectors, sorted."""

    alpha: Source
    beta: Source
    strides: tuple[int, int]

    def __call__(self, block: Block, state: State) -> tuple[Vector, Vector]:
        """Samples of alpha and of beta."""
        found = []
        for source, stride in ((self.alpha, self.strides[0]), (self.beta, self.strides[1])):
            terms = tuple((factor, state[name][::stride]) for factor, name in source.terms)
            among = None if source.among is None else state[source.among][::stride]
            found.append(block.select(-math.inf, source.offset, terms, among).values)
        alpha, beta = block.to_host(*found)
        return alpha, beta
