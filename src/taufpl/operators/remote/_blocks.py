"""Rows in blocks, wherever they live: on a device, on the workers of a cluster, on disk.

Nothing above this layer holds a vector with an entry a row. Scores, dual variables and labels are the *state* of the
block whose rows they belong to; what leaves a block is small and adds up over blocks. So one solver serves a tensor on
a GPU (one block) and a table on a hundred machines (many).

A task is a small picklable object that is called with a block and its state. Tasks are pure: a change returns a new
state and leaves the old one alone, so that an engine may run it again where a result was lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Arrays of the block's own library, and small plain things that go with them.
State = Mapping[str, Any]
# Factors and vectors of a linear combination.
Terms = tuple[tuple[float, Any], ...]
# Numbers and NumPy arrays of fixed shapes.
Sums = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer that is still where the block lives. Several travel to the host together: see `Block.settle`.

    Attributes
    ----------
    arrays : tuple
        Small arrays and scalars of the block's library.
    finish : callable
        Makes the answer from them, once they are NumPy arrays.
    """

    arrays: tuple[Any, ...]
    finish: Callable[..., Any]

    @classmethod
    def known(cls, answer: Any) -> Deferred:
        """One that is on the host already."""
        return cls((), lambda: answer)

    @classmethod
    def together(cls, asked: Sequence[Deferred], finish: Callable[..., Any]) -> Deferred:
        """One answer, made from several."""

        def finish_all(*host: Any) -> Any:
            arrays = iter(host)
            return finish(*(later.finish(*(next(arrays) for _ in later.arrays)) for later in asked))

        return cls(tuple(array for later in asked for array in later.arrays), finish_all)

    @classmethod
    def one(cls, array: Any) -> Deferred:
        """An array itself."""
        return cls((array,), lambda host: host)

    @classmethod
    def plain(cls, *arrays: Any) -> Deferred:
        """The arrays themselves, as a tuple."""
        return cls(arrays, lambda *host: host)

    @classmethod
    def stacked(cls, *scalars: Any) -> Deferred:
        """Some numbers, as a vector."""
        return cls(scalars, lambda *host: np.stack(host))


class Selected(ABC):
    """Entries of a vector above a floor: what the search for thresholds looks at again and again.

    Attributes
    ----------
    rows : array
        Where they are; indices in the block's library.
    values : array
        What they are, in the same order.
    """

    rows: Any
    values: Any

    @abstractmethod
    def tally(self, edges: Vector) -> Matrix:
        """For every edge (ascending): how many entries lie above it, how many at it or above, and by how much in all.

        Returns an array of shape (3, number of edges).
        """

    @abstractmethod
    def fetch(self, intervals: Matrix, moves: Any | None, most: int) -> tuple[Matrix, list[Matrix | Vector]]:
        """What lies above every open interval (low, high), and the entries inside.

        Returns an array with a row (count, excess over high, sum of moves, sum of excess times moves) for every
        interval, over the entries at its high end or above; and for every interval an array of shape (2, count) with
        the entries inside, ascending, and their moves (zeros where moves is None). Where more than `most` entries are
        inside, quantiles of them stand in: a vector.
        """

    @abstractmethod
    def split_deferred(self, low: float, cap: float) -> Deferred:
        """Entries by their excess over `low`: rows and excess of those between 0 and `cap`, rows of those from it on.

        Arrays of the block's library, in any order.
        """

    def tally_deferred(self, edges: Vector) -> Deferred:
        """What `tally` tells, together with other things."""
        return Deferred.known(self.tally(edges))

    def fetch_deferred(self, intervals: Matrix, moves: Any | None, most: int) -> Deferred:
        """What `fetch` tells, in two steps: the answer is something to be settled in its turn."""
        return Deferred.known(Deferred.known(self.fetch(intervals, moves, most)))


@dataclass(frozen=True, slots=True)
class Order:
    """Entries in order.

    Attributes
    ----------
    turned : array
        The entries downward, with their sign turned.
    places : array
        Where each was.
    running : array
        Sums of the first 1, 2, ... of `turned`.
    """

    turned: Any
    places: Any
    running: Any


class Ordered(Selected):
    """Entries above a floor that can be had in order at little cost."""

    @property
    @abstractmethod
    def order(self) -> Order:
        """The entries, downward."""

    @property
    @abstractmethod
    def rows_in_order(self) -> Any:
        """Where they are."""


class Block(ABC):
    """Some rows of X, in whatever library they are stored.

    Vectors with an entry a row are arrays of that library (`xp`), in double precision; vectors with an entry a feature
    go in and come out as NumPy arrays, and are small.

    Attributes
    ----------
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
    shape: tuple[int, int]
    exact: bool
    scratch: dict[str, Any]

    @abstractmethod
    def dot(self, coef: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for every row of the block (one pass) or for some; in double precision throughout if `exact`."""

    @abstractmethod
    def add(self, values: Any, rows: Any | None) -> Vector:
        """Sum of values_i x_i over some rows (indices in the block's library; None: all), in double precision."""

    @abstractmethod
    def moments(self, rows: Any, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over some rows."""

    @abstractmethod
    def squares(self, rows: Any) -> Vector:
        """Sum of squares of every column over some rows."""

    @abstractmethod
    def norms(self, rows: Any | None = None) -> Any:
        """Squared Euclidean norm of every row of the block (one pass) or of some, in double precision."""

    @abstractmethod
    def take(self, rows: Any) -> Any:
        """Some rows on the host, few: a NumPy array or a SciPy matrix."""

    @abstractmethod
    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> Selected:
        """Entries of offset + sum of factor * vector that lie above a floor, among some rows (a mask; None: all)."""

    @abstractmethod
    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array of the block's library, where the block lives."""

    @abstractmethod
    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Small arrays and scalars as NumPy arrays, in one transfer where the library lets them travel together."""

    def add_deferred(self, values: Any, rows: Any | None) -> Deferred:
        """What `add` tells, together with other things."""
        return Deferred.known(self.add(values, rows))

    def moments_deferred(self, rows: Any, shift: Vector) -> Deferred:
        """What `moments` tells, together with other things."""
        return Deferred.known(self.moments(rows, shift))

    def combined(self, offset: float, terms: Terms) -> Any:
        """Offset + sum of factor * vector."""
        (factor, vector), *rest = terms
        total = offset + factor * vector
        for factor, vector in rest:
            total = total + factor * vector
        return total

    def settle(self, *asked: Deferred) -> tuple[Any, ...]:
        """Bring answers to the host, in one transfer."""
        later = Deferred.together(asked, lambda *answers: answers)
        answers: tuple[Any, ...] = later.finish(*(self.to_host(*later.arrays) if later.arrays else ()))
        return answers

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scratch": {}}


Reduction = Callable[[Block, State], Sums]


class DeferredReduction(Protocol):
    """A reduction whose answer can travel together with others."""

    def __call__(self, block: Block, state: State) -> Sums:
        """The answer."""
        ...

    def deferred(self, block: Block, state: State) -> Deferred:
        """The answer, still with the block."""
        ...


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
    n_passes : float
        Passes over the data, as tasks report them through `count`.
    in_one_place : bool
        Whether there is one block, and what it selects is `Ordered`: a search can then end where the entries are.
    """

    shape: tuple[int, int]
    n_rounds: int
    n_passes: float
    in_one_place: bool = False

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
        """Let go of the states; the rows belong to whoever made them."""

    def close(self) -> None:
        """Let go of the rows too, where they are held by these blocks; at the end of a ``with`` block, or by hand."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def count(self, share: float) -> None:
        """Note work on a share of all rows."""
        self.n_passes += share


def add_up(first: Sums, second: Sums) -> Sums:
    """Entry by entry, as `reduce` does."""
    return tuple(a + b for a, b in zip(first, second, strict=True))
