"""Remote rows in blocks: on a device, on the workers of a cluster, on disk.

Nothing above this layer holds a vector with an entry a row. Scores, dual variables and labels are the *state* of the
block whose rows they belong to; what leaves a block is small and adds up over blocks. So one solver serves a tensor on
a GPU (one block) and a table on a hundred machines (many).

A task is a small picklable object that is called with a block and its state. Tasks are pure: a change returns a new
state and leaves the old one alone, so that a cluster may run the task again where a result was lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators._operator import PassCount, Rows

# Arrays of the block's own library, and small plain things that go with them.
State = Mapping[str, Any]
# Factors and vectors of a linear combination.
Terms = tuple[tuple[float, Any], ...]
# Numbers and NumPy arrays of fixed shapes.
Sums = tuple[Any, ...]

# Quantiles that stand in for entries which are too many to be sent.
N_QUANTILES = 65


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer that is still where its block is. Several travel to the host together, by `Block.settle`.

    `arrays` are small arrays and scalars of the block's library, of which `finish` makes the answer on the host.
    """

    arrays: tuple[Any, ...]
    finish: Callable[..., Any]

    @classmethod
    def known(cls, answer: Any) -> Deferred:
        """An answer that is on the host already."""
        return cls((), lambda: answer)

    @classmethod
    def together(cls, asked: Sequence[Deferred], finish: Callable[..., Any]) -> Deferred:
        """One answer, made from several."""

        def finish_all(*host: Any) -> Any:
            arrays = iter(host)
            return finish(*(each.finish(*(next(arrays) for _ in each.arrays)) for each in asked))

        return cls(tuple(array for each in asked for array in each.arrays), finish_all)

    @classmethod
    def plain(cls, *arrays: Any) -> Deferred:
        """The arrays themselves, as a tuple."""
        return cls(arrays, lambda *host: host)

    @classmethod
    def stacked(cls, *scalars: Any) -> Deferred:
        """Some numbers, as a vector."""
        return cls(scalars, lambda *host: np.stack(host))


class Selected(ABC):
    """Entries of a vector above a floor: what the search for thresholds looks at again and again."""

    rows: Any  # indices of the entries, in the block's library
    values: Any  # the entries, in the same order

    @abstractmethod
    def tally(self, edges: Vector) -> Deferred:
        """For every edge (ascending): how many entries lie above it, how many at it or above, and by how much in all.

        The answer is an array of shape (3, number of edges).
        """

    @abstractmethod
    def fetch(self, intervals: Matrix, moves: Any | None, most: int) -> Deferred:
        """Sums over the entries above every open interval (low, high), and the entries inside, in two transfers.

        The answer is to be settled in its turn. It is then an array with a row (count, excess over high, sum of moves,
        sum of excess times moves) for every interval, over the entries at its high end or above; and for every interval
        an array of shape (2, count) with the entries inside, ascending, and their moves (zeros where moves is None).
        Where more than `most` entries are inside, quantiles of them stand in: a vector.
        """

    @abstractmethod
    def split(self, low: float, cap: float) -> Deferred:
        """Rows and excess over `low` of the entries whose excess is between 0 and `cap`, and rows of those with more.

        Arrays of the block's library, in any order.
        """


class Block(ABC):
    """Some rows of X, and the library in which vectors with an entry for each of these rows are kept.

    Those vectors are arrays of the library, in double precision; vectors with an entry a feature go in and come out as
    NumPy arrays, and are small. Where several answers can travel to the host together, they are `Deferred`.

    Attributes
    ----------
    rows : Rows
    xp : namespace
        The library, by the names of the array API standard.
    shape : tuple of int
        Rows of this block, and features.
    exact : bool
        Whether `dot` adds up in double precision even where it is not asked to.
    scratch : dict
        For what may be computed again: it may be lost at any time, and does not travel.
    """

    xp: Any

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shape, self.exact = rows.shape, rows.exact
        self.scratch: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scratch": {}}

    def on(self, rows: Rows) -> Self:
        """A block of the same kind on other rows of the same shape, without scratch."""
        other = copy(self)
        other.rows = rows
        return other

    def dot(self, coef: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for every row of the block (one pass) or for some; in double precision throughout if `exact`."""
        return self.rows.dot(coef, rows, exact=exact)

    def add(self, values: Any, rows: Any | None) -> Deferred:
        """Sum of values_i x_i over some rows (indices in the block's library; None: all), in double precision."""
        if not values.shape[0]:
            return Deferred.known(np.zeros(self.shape[1]))
        return Deferred((self.rows.add(values, rows),), lambda total: total)

    def moments(self, rows: Any, shift: Vector) -> Deferred:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over some rows."""
        if not rows.shape[0]:
            return Deferred.known((np.zeros((self.shape[1], self.shape[1])), np.zeros(self.shape[1])))
        return Deferred.plain(*self.rows.moments(rows, shift))

    def squares(self, rows: Any) -> Vector:
        """Sum of squares of every column over some rows."""
        sums: Vector = self.to_host(self.rows.squares(rows, axis=0))[0]
        return sums

    def norms(self, rows: Any | None = None) -> Any:
        """Squared Euclidean norm of every row of the block (one pass) or of some, in double precision."""
        return self.rows.squares(rows, axis=1)

    def take(self, rows: Any) -> Any:
        """Some rows on the host, few: a NumPy array or a SciPy matrix."""
        return self.to_host(self.rows.take(rows))[0]

    def settle(self, *asked: Deferred) -> tuple[Any, ...]:
        """Bring answers to the host, in one transfer."""
        all_of_them = Deferred.together(asked, lambda *answers: answers)
        arrays = all_of_them.arrays
        answers: tuple[Any, ...] = all_of_them.finish(*(self.to_host(*arrays) if arrays else ()))
        return answers

    # Vectors: what a library must provide.

    @abstractmethod
    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> Selected:
        """Entries of offset + sum of factor * vector that lie above a floor, among some rows (a mask; None: all)."""

    @abstractmethod
    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array of the block's library, where the block is."""

    @abstractmethod
    def counting(self, count: int) -> Any:
        """The integers from 0 on, this many, as an array of the block's library."""

    @abstractmethod
    def shuffled(self, values: Any, seed: tuple[int, ...]) -> Any:
        """A vector in random order, the same for the same seed and device."""

    @abstractmethod
    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Small arrays and scalars as NumPy arrays, in one transfer where the library lets them travel together."""

    @abstractmethod
    def combined(self, offset: float, terms: Terms) -> Any:
        """Offset + sum of factor * vector."""


Reduction = Callable[[Block, State], Sums]


class DeferredReduction(Protocol):
    """A reduction whose answer can travel together with others."""

    def __call__(self, block: Block, state: State) -> Sums: ...

    def deferred(self, block: Block, state: State) -> Deferred: ...


Change = Callable[[Block, State], State]
ChangeAndReduction = Callable[[Block, State], tuple[State, Sums]]


class Blocks(ABC):
    """All rows, as blocks with a state each.

    Attributes
    ----------
    shape : tuple of int
        Rows and features in all.
    n_rounds : int
        Calls of the methods below that waited for all blocks: what latency is paid for.
    passes : PassCount
        Passes over the data, as tasks report them through `count`; shared with what `fork` makes.
    in_one_place : bool
        Whether there is one block, which sorts what it selects: a search can then end where the entries are.
    """

    shape: tuple[int, int]
    n_rounds: int
    passes: PassCount
    in_one_place: bool = False

    @property
    def n_passes(self) -> float:
        """Passes over the data so far, by these blocks and by those that share their rows."""
        return self.passes.value

    @abstractmethod
    def reduce(self, task: Reduction) -> Sums:
        """Run a task on every block and add up, entry by entry, what it returns."""

    @abstractmethod
    def gather(self, task: Callable[[Block, State], Any]) -> list[Any]:
        """What a task returns for each block, in order; small, since the caller holds all of it."""

    @abstractmethod
    def change(self, task: Change) -> None:
        """Put what a task returns in the place of every block's state."""

    @abstractmethod
    def change_and_reduce(self, task: ChangeAndReduction) -> Sums:
        """Both in one round."""

    @abstractmethod
    def fork(self, task: Change) -> Self:
        """The same rows with states of their own, made by a task from the present ones."""

    @abstractmethod
    def release(self) -> None:
        """Let go of the states; the rows stay."""

    def close(self) -> None:
        """Let go of the rows too, where they are held by these blocks; at the end of a ``with`` block, or by hand."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def count(self, share: float) -> None:
        """Note work on a share of all rows."""
        self.passes.value += share


def add_up(first: Sums, second: Sums) -> Sums:
    """Entry by entry, as `reduce` does."""
    return tuple(a + b for a, b in zip(first, second, strict=True))
