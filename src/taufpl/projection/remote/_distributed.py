"""The weighted projection of vectors that lie in blocks, by few rounds of reductions.

A round asks every block for the counts and excesses over many candidate thresholds at once and adds them up. Chords and
tangents through them (`_piecewise_linear.py`) enclose the level, and thereby the thresholds, far more closely than the
candidates lie. Once few entries are left inside, they come to the caller, and the closed form on the pieces is exact.

A candidate that equals an entry makes that entry known, however often it occurs. So where too many entries stay inside
an interval, the next candidates are quantiles of them: ties are met exactly, the rest is cut by a factor.

Where all entries lie in one place, in order, a guess is enough to solve the whole problem there. On a device a round
trip costs as much as thousands of operations on a host, and a launch as much as a dozen. So the entries are sorted
there, with their sums, and the search works on few of them here. Chords of the excess go through a regular sample of
the entries first; a compiled sweep (`_kernels/_chords.pyx`) solves the projection for them. The entries on the chords
where its thresholds lie come next, all of them where they are few, and so on. A chord between neighbours is exact:
where all three thresholds lie on such chords, so is the answer.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from taufpl._kernels import _chords
from taufpl._types import Matrix, Vector
from taufpl.operators.remote import ArraySelected, Block, Blocks, Deferred, Reduction, Selected, State, Sums
from taufpl.projection import Thresholds, next_widths
from taufpl.projection.remote._piecewise_linear import (
    AROUND,
    INSIDE,
    Equation,
    Pieces,
    Root,
    Samples,
    Segment,
    assembled,
    distinct,
    moved_over,
)

Interval = tuple[float, float]
Brackets = tuple[list[Interval], list[Interval]]
Edges = tuple[Vector, Vector]
FirstRound = Callable[[Reduction], Sums]

# Entries of each vector that the first chords go through, and of each chord that is looked at more closely.
_SAMPLE, _CLOSER_SAMPLE = 256, 64
# Entries of a chord that come all at once.
_MANY = 4096
_MOST_LOOKS = 12
# Entries that may come to the caller, and size of the sample that a projection without a guess begins with.
MOST_ENTRIES = 4096
_MOST_ROUNDS = 40
_PATIENCE = 8
# Candidates below all others, in units of the range of those, where fewer than k entries lie above the lowest.
_BELOW = 4.0 ** np.arange(-1, 8)
_SLOW = 0.2
_ROUNDING = 4e-15


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


@dataclass(frozen=True, slots=True)
class SolveOnDevice:
    """Task for blocks in one place: the answer, if there is one, and whether it takes entries below the floor.

    There is none where it is special: zero, or shared by the k largest entries. Entries are finite.
    """

    alpha: Source
    beta: Source
    floor: float  # entries of beta below are left out
    k: int
    weight: float
    balance: float  # as in `Equation`

    def __call__(self, block: Block, state: State) -> Sums:
        """An answer or None, which cannot be added to others, and a bool.

        The answer is the root, the products of alpha and beta with the moves of their sources (0 where there are none),
        and the number of entries of beta above the floor, or above a lower one where those were held already.
        """
        alpha = _Line(self.alpha.above(block, state, -math.inf, "alpha"))
        # This waits for the device, which sorts alpha meanwhile.
        beta = _Line(self.beta.above(block, state, self.floor, "beta"))
        if beta.size <= self.k or not alpha.size:
            return None, beta.size <= self.k
        parts = alpha.first_parts(), beta.first_parts()
        for _ in range(_MOST_LOOKS):
            block.settle(alpha.learn_deferred(parts[0]), beta.learn_deferred(parts[1]))
            found = _chords.solve(alpha.known, alpha.size, beta.known, beta.size, self.k, self.weight, self.balance)
            if found is None:
                break
            level, u, mu, delta, *places = found
            if beta.is_last(places[1]):
                return None, True
            parts = alpha.closer(places[:1]), beta.closer(places[1:])
            if not (parts[0] or parts[1]):
                root = Root(level, u, mu, delta, self.k * (delta - mu))
                moved = self._moved(block, state, root, alpha.above(places[0]), beta.above(places[1]))
                return (root, moved, float(beta.size)), False
        return None, False

    def _moved(
        self, block: Block, state: State, root: Root, alpha: tuple[Any, Any], beta: tuple[Any, Any]
    ) -> tuple[float, float]:
        """Products with the moves, over the turned entries that have a part and their rows."""
        xp, moves = block.xp, (self.alpha.moved(state), self.beta.moved(state))
        asked = []
        if moves[0] is not None:
            asked.append(xp.matmul(xp.take(moves[0], alpha[1], axis=0), alpha[0] + root.u))
        if moves[1] is not None:
            under = xp.clip(beta[0] + root.mu, root.mu - root.delta, None)
            asked.append(xp.matmul(xp.take(moves[1], beta[1], axis=0), under))
        told = iter(block.to_host(*asked))
        ours, theirs = (0.0 if each is None else -float(next(told)) for each in moves)
        return ours, theirs


class _Line:
    """A vector in order, and what is known of it here."""

    known: Matrix  # in three rows: ranks, ascending, the turned entries there, and the sums of those before

    def __init__(self, entries: Selected) -> None:
        assert isinstance(entries, ArraySelected)
        self.entries = entries
        self.turned, self.running = entries.order.turned, entries.order.running
        self.size: int = self.turned.shape[0]
        self.known = np.empty((3, 0))

    def first_parts(self) -> list[slice]:
        """Ranks of a sample of all entries."""
        return [slice(0, self.size, -(-self.size // _SAMPLE))]

    def learn_deferred(self, parts: list[slice]) -> Deferred:
        """Learn about the entries at some ranks, and forget others between these."""
        asked = [x[part] for part in parts for x in (self.turned, self.running)]

        def finish(*found: Vector) -> None:
            for part, turned, running in zip(parts, found[::2], found[1::2], strict=True):
                new = np.empty((3, len(turned)))
                new[0] = np.arange(part.start, part.stop, part.step)
                new[1], new[2] = turned, running - turned
                start, stop = self.known[0].searchsorted((part.start, part.stop))
                pieces = [x for x in (self.known[:, :start], new, self.known[:, stop:]) if x.shape[1]]
                self.known = np.concatenate(pieces, axis=1) if len(pieces) > 1 else new

        return Deferred(tuple(asked), finish)

    def closer(self, places: list[int]) -> list[slice]:
        """Ranks to learn about for thresholds on chords below some known entries; none where these are exact."""
        parts = []
        for place in set(places):
            if not self._is_exact(place):
                first, last = (int(rank) for rank in (*self.known[0, place : place + 2], self.size)[:2])
                parts.append(slice(first, last, 1 if last - first <= _MANY else -(-(last - first) // _CLOSER_SAMPLE)))
        return parts

    def is_last(self, place: int) -> bool:
        """Whether a known entry is the last one of all."""
        return place >= 0 and bool(self.known[0, place] == self.size - 1)

    def above(self, place: int) -> tuple[Any, Any]:
        """Entries above a threshold on an exact chord below a known entry, and their rows."""
        count = 0 if place < 0 else int(self.known[0, place]) + 1
        return self.turned[:count], self.entries.rows_in_order[:count]

    def _is_exact(self, place: int) -> bool:
        after = self.known[0, place : place + 2]
        return place < 0 or self.is_last(place) or (len(after) == 2 and bool(after[1] - after[0] == 1.0))


@dataclass(frozen=True, slots=True)
class Projection:
    """The pair that a search has found, in terms of thresholds."""

    thresholds: Thresholds
    moved: tuple[float, float]  # products of alpha and beta with the moves of their sources
    sources: tuple[Source, Source]  # relative to origins near the thresholds; blocks still hold their largest entries
    local: tuple[float, float]  # thresholds of alpha and of beta, relative to those origins
    floor: float = -math.inf  # blocks hold the entries of beta above it
    n_held: float = 0.0  # about how many these are; 0 where nobody knows


@dataclass(frozen=True, slots=True)
class ProjectionTask:
    """What is projected: two vectors over all blocks, with their numbers of entries."""

    alpha: Source
    beta: Source
    sizes: tuple[int, int]
    k: int
    weight: float


def project_by_rounds(
    blocks: Blocks,
    task: ProjectionTask,
    guess: Thresholds | None = None,
    first: FirstRound | None = None,
    most: int = MOST_ENTRIES,
) -> Projection:
    """Project on the top-k simplex; the answer is expected near the guess, at a distance like its widths.

    `first` runs the first reduction, where that can be part of a task that has to run anyway, and has to run first; at
    most `most` entries come to the caller.
    """
    return _Search(blocks, task, most).run(guess, first)


class _Search:
    def __init__(self, blocks: Blocks, task: ProjectionTask, most: int) -> None:
        self.blocks = blocks
        self.task = task
        self.most = most
        self.share = task.sizes[1] == task.k  # every entry of beta is at its cap
        self.total: Vector | None = None  # of beta and its moves, in that case
        self.samples: tuple[Samples | None, Samples | None] = (None, None)

    def run(self, guess: Thresholds | None, first: FirstRound | None) -> Projection:
        self.guess = guess
        usable = guess is not None and guess.total > 0 and math.isfinite(guess.lam + sum(guess.widths))
        if guess is None or not (usable and (self.share or math.isfinite(guess.mu))):
            if first is not None:
                first(Look(self.task.alpha, self.task.beta, np.empty(0), np.empty(0), (math.inf, math.inf)))
            self._place_by_sample()
        else:
            answer = self._begin_near(guess, first or self.blocks.reduce)
            if answer is not None:
                return answer
        before = math.inf
        for n_rounds in range(_MOST_ROUNDS):
            if n_rounds >= _PATIENCE:
                self.most *= 4  # rounding keeps the bounds apart: let more entries come
            known = self.samples[1]
            if known is not None and known.n_from[0] <= self.task.k:
                span = max(float(np.ptp(known.at)), 1e-3 * abs(self.origins[1]), 1e-9)
                edges = (np.empty(0), known.at[0] - _BELOW * span)
            else:
                brackets = self._brackets()
                left = self._n_undecided(brackets)
                # Where candidates do not help much, entries themselves are asked for.
                found = self._fetch(brackets) if left <= self.most or left > _SLOW * before else None
                before = left
                if isinstance(found, Projection):
                    return found
                edges = found if found is not None else self._edges_inside(brackets)
            self._look(*edges, self.blocks.reduce)
        raise ArithmeticError(
            "the thresholds of a projection were not found: entries differ too much in size for double precision."
        )

    def _begin_near(self, guess: Thresholds, run: FirstRound) -> Projection | None:
        """Look around a guess; the answer, where that is possible in one place."""
        self._place((guess.lam / self.task.weight, 0.0 if self.share else guess.mu))
        self.expected = guess.cap
        least = 1e-9 * (abs(self.origins[1]) + abs(guess.cap))
        width = [max(w, least, 1e-300) for w in guess.widths]
        if self.blocks.in_one_place and not self.share:
            answer = self._solve_in_place(-width[1], run)
            if answer is not None:
                return answer
            run = self.blocks.reduce
        beta = np.concatenate((AROUND * width[1], guess.cap + AROUND * width[2]))
        self._look(AROUND * max(width[0], 1e-9 * abs(self.origins[0])), beta, run)
        return None

    def _place(self, origins: tuple[float, float]) -> None:
        """Measure from these origins from now on."""
        task = self.task
        self.origins = origins = (float(origins[0]), float(origins[1]))
        self.sources = (task.alpha.shifted(origins[0]), task.beta.shifted(origins[1]))
        self.balance = -math.fsum((origins[1], task.weight * origins[0]))
        self.floors = (math.inf, -math.inf if self.share else math.inf)

    def _place_by_sample(self) -> None:
        task = self.task
        strides = tuple(max(1, size // self.most) for size in task.sizes)
        drawn = self.blocks.gather(SampleBoth(task.alpha, task.beta, (strides[0], strides[1])))
        alpha, beta = (np.sort(np.concatenate([found[i] for found in drawn])) for i in (0, 1))
        if not len(alpha) or not len(beta):  # blocks that are shorter than a stride
            drawn = self.blocks.gather(SampleBoth(task.alpha, task.beta, (1, 1)))
            alpha, beta = (np.sort(np.concatenate([found[i] for found in drawn])) for i in (0, 1))
        centre = (float(np.median(alpha)), float(np.median(beta)))
        balance = -math.fsum((centre[1], task.weight * centre[0]))
        pieces = (_scaled(alpha - centre[0], task.sizes[0]), _scaled(beta - centre[1], task.sizes[1]))
        root = Equation(*pieces, task.k, task.weight, balance).solve()
        mu, delta = ((x if math.isfinite(x) else 0.0) + centre[1] for x in (root.mu, root.delta))
        u = root.u + centre[0]
        self._place((u, 0.0 if self.share else mu))
        self.expected = delta - self.origins[1]
        places = np.concatenate((_near(beta, mu), _near(beta, delta)))
        self._look(_near(alpha, u) - self.origins[0], places - self.origins[1], self.blocks.reduce)

    def _solve_in_place(self, floor: float, run: FirstRound) -> Projection | None:
        """The answer, where all entries lie in one place; None where it is special."""
        task = self.task
        for factor in (1.0, 16.0):
            found, is_lower = run(SolveOnDevice(*self.sources, factor * floor, task.k, task.weight, self.balance))
            if found is not None:
                self.floors = (-math.inf, factor * floor)
                return self._answer(*found)
            if not is_lower:
                return None
            run = self.blocks.reduce
        return None

    def _look(self, alpha: Vector, beta: Vector, run: FirstRound) -> None:
        alpha = distinct(alpha)
        beta = np.empty(0) if self.share else distinct(beta)
        self.floors = (float(min([self.floors[0], *alpha[:1]])), float(min([self.floors[1], *beta[:1]])))
        found = run(Look(*self.sources, alpha, beta, self.floors, self.share))
        if self.share:
            self.total = found[1]
            beta_samples = None
        else:
            beta_samples = _joined(self.samples[1], Samples(beta, *found[1]))
        self.samples = (_joined(self.samples[0], Samples(alpha, *found[0])), beta_samples)

    def _equation(self, alpha: Pieces, beta: Pieces | None) -> Equation:
        if beta is None:
            assert self.total is not None
            k = float(self.task.k)
            beta = Pieces(np.zeros(1), self.total[:1], np.array([k, k]))
        return Equation(alpha, beta, self.task.k, self.task.weight, self.balance)

    def _brackets(self) -> Brackets:
        """Intervals that hold the thresholds of alpha and of beta."""
        alpha, beta = self.samples
        assert alpha is not None
        n_positive, n_negative = self.task.sizes
        chords = self._equation(alpha.chords(n_positive), None if beta is None else beta.chords(n_negative))
        tangents = self._equation(alpha.tangents(), None if beta is None else beta.tangents())
        scale = abs(self.balance) * self.task.k + max(map(abs, chords.rise[0][:1].tolist()), default=0.0)
        above, below = chords.solve().level, tangents.solve().level
        slack = _ROUNDING * (scale + abs(above) + abs(below))
        high, low = above + slack, below - slack
        outer, inner = tangents.ends_at(high), chords.ends_at(low)
        apart = low > chords.minimum and inner[0] < inner[1]
        most = self.task.k * (outer[1] - outer[0])
        least = self.task.k * (inner[1] - inner[0]) if apart else 0.0
        u_low = tangents.threshold(least, low if apart else high)
        u_high = tangents.threshold(most, high)
        if not self.share:
            u_low = max(u_low, tangents.alpha.inverse(most))
            u_high = min(u_high, chords.alpha.inverse(least)) if least > 0 else u_high
        else:
            u_low, u_high = tangents.solve().u, chords.solve().u
        first, last = float(alpha.at[0]), float(alpha.at[-1])
        pad = _ROUNDING * (abs(u_low) + abs(first) + abs(last) + abs(self.origins[0]))
        ours = [_padded(u_low, u_high, pad)]
        if self.share:
            return ours, []
        assert beta is not None
        pad = _ROUNDING * (max(abs(float(beta.at[0])), abs(float(beta.at[-1]))) + abs(self.origins[1]))
        if apart:
            return ours, [_padded(outer[0], inner[0], pad), _padded(inner[1], outer[1], pad)]
        return ours, [_padded(*outer, pad)]

    def _n_undecided(self, brackets: Brackets) -> float:
        """About how many entries lie inside."""
        total = 0.0
        for samples, size, intervals in zip(self.samples, self.task.sizes, brackets, strict=True):
            for low, high in intervals if samples is not None else ():
                assert samples is not None
                total += _expected(samples, size, low, high)
        return total

    def _edges_inside(self, brackets: Brackets) -> Edges:
        edges = []
        for intervals in brackets:
            parts = [np.concatenate(([low], low + (high - low) * INSIDE, [high])) for low, high in intervals]
            edges.append(np.concatenate(parts) if parts else np.empty(0))
        return edges[0], edges[1]

    def _fetch(self, brackets: Brackets) -> Projection | Edges:
        """The answer; or candidates, where more entries were inside than expected."""
        cuts = [_cut(s, i) for s, i in zip(self.samples, brackets, strict=True)]
        floors = tuple(min([f, *c[:, 0]]) if len(c) else f for f, c in zip(self.floors, cuts, strict=True))
        self.floors = (float(floors[0]), float(floors[1]))
        parts = self.blocks.gather(Fetch(*self.sources, cuts[0], cuts[1], self.floors, self.most))
        sums = [np.sum([part[i][0] for part in parts], axis=0) for i in (0, 1)]
        inside = [[[part[i][1][j] for part in parts] for j in range(len(cuts[i]))] for i in (0, 1)]
        if any(entries.ndim == 1 for lists in inside for blocks in lists for entries in blocks):
            edges = [np.concatenate([_as_edges(b) for b in lists]) if lists else np.empty(0) for lists in inside]
            return edges[0], edges[1]
        segments = [
            [Segment.of(ends[0], ends[1], row, entries) for ends, row, entries in zip(*args, strict=True)]
            for args in zip(cuts, sums, inside, strict=True)
        ]
        beta = None if self.share else assembled(segments[1])
        root = self._within(self._equation(assembled(segments[0]), beta).solve())
        known = self.samples[1]
        n_held = 0.0 if known is None else float(known.n_from[0])
        return self._answer(root, self._moved(root, segments[0], segments[1]), n_held)

    def _within(self, root: Root) -> Root:
        """The root itself; on a flat piece that begins outside of what was fetched, a known place on it."""
        known = self.samples[1]
        if known is None or math.isfinite(root.mu) or not root.total > 0:
            return root
        for place in known.at[known.n_above == self.task.k][:1].tolist():
            return replace(root, mu=place, delta=place + root.total / self.task.k)
        return root

    def _moved(self, root: Root, alpha: list[Segment], beta: list[Segment]) -> tuple[float, float]:
        """Products with the moves."""
        if not root.total > 0:
            return 0.0, 0.0
        if self.share:
            assert self.total is not None
            pulled = root.total / self.task.k * float(self.total[1])
        else:
            pulled = moved_over(beta, root.mu) - moved_over(beta, root.delta)
        return moved_over(alpha, root.u), pulled

    def _answer(self, root: Root, moved: tuple[float, float], n_held: float) -> Projection:
        weight, k = self.task.weight, self.task.k
        cap = root.total / k
        mu = -math.inf if self.share else root.mu
        lam = weight * (root.u + self.origins[0])
        steps = [abs(x) if math.isfinite(x) else 0.0 for x in (root.u, root.mu, root.delta - self.expected)]
        sizes = (abs(lam / weight), abs(self.origins[1]), abs(root.delta + self.origins[1]))
        centres = (sizes[0], *(x if math.isfinite(x) else 0.0 for x in sizes[1:]))
        widths = next_widths((steps[0], steps[1], steps[2]), (centres[0], centres[1], centres[2]), self.guess)
        thresholds = Thresholds(lam, mu + self.origins[1], cap, root.total, widths)
        return Projection(thresholds, moved, self.sources, (root.u, mu), self.floors[1], n_held)


def _joined(known: Samples | None, new: Samples) -> Samples:
    if known is None or not len(new.at):
        return new if known is None else known
    return known.joined(new)


def _scaled(values: Vector, size: int) -> Pieces:
    """The excess of a vector of which `values`, ascending, are a fair sample."""
    share = size / len(values)
    at, counts = np.unique(values, return_counts=True)
    above = share * np.append(np.cumsum(counts[::-1])[::-1], 0.0)
    value = np.append(np.cumsum((above[1:-1] * np.diff(at))[::-1])[::-1], 0.0)
    return Pieces(at, value, above)


def _near(values: Vector, threshold: float) -> Vector:
    """Entries of a sample at ranks near a threshold: close ones closely, far ones farther apart."""
    rank = int(np.searchsorted(values, threshold))
    steps = np.concatenate(([0], 2 ** np.arange(14)))
    ranks = np.unique(np.concatenate((rank - steps, rank + steps)))
    return np.append(values[ranks[(ranks >= 0) & (ranks < len(values))]], threshold)


def _expected(samples: Samples, size: int, low: float, high: float) -> float:
    """About how many entries lie between two thresholds and on none that is known."""
    known = samples.at.tolist()
    first, last = bisect_right(known, low), bisect_left(known, high)
    total = 0.0
    for i, (a, b) in enumerate(pairwise([low, *known[first:last], high]), first - 1):
        above = float(samples.n_above[i]) if i >= 0 else float(size)
        beyond = float(samples.n_from[i + 1]) if i + 1 < len(known) else 0.0
        if 0 <= i < len(known) - 1:
            total += (above - beyond) * (b - a) / (known[i + 1] - known[i])
        else:
            total += above - beyond
    return total


def _cut(samples: Samples | None, intervals: list[Interval]) -> Matrix:
    """Intervals, cut where the function is known: what lies on a cut need not be fetched."""
    if samples is None:
        return np.empty((0, 2))
    cuts = []
    for low, high in intervals:
        at = np.concatenate(([low], samples.at[(samples.at > low) & (samples.at < high)], [high]))
        cuts += list(pairwise(at))
    return np.array(cuts)


def _as_edges(parts: list[Any]) -> Vector:
    """Candidates from what blocks have sent for one interval, entries or quantiles."""
    return np.concatenate([np.atleast_2d(part)[0] for part in parts])


def _padded(low: float, high: float, pad: float) -> Interval:
    # Rounding may have turned two ends that are all but equal.
    return min(low, high) - pad, max(low, high) + pad
