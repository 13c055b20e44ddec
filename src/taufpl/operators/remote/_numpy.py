"""Blocks of NumPy arrays and SciPy matrices, on top of the compiled products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.operators._base import Operator
from taufpl.operators._convert import as_operator
from taufpl.operators._csr import CSROperator
from taufpl.operators._dense import DenseOperator
from taufpl.operators.remote._blocks import Block, Deferred, Matrix, Selected, Terms, Vector

Rows = NDArray[np.intp]

# Entries that are worked on at a time: a few vectors of this length fit the second-level cache.
_CHUNK = 1 << 14
# Quantiles that stand in for entries which are too many to be sent.
N_QUANTILES = 65


class NumpyBlock(Block):
    """Rows of a NumPy array or a SciPy matrix.

    Parameters
    ----------
    X : ndarray, SciPy sparse matrix or Operator
        Whatever :func:`taufpl.operators.as_operator` takes, or an array without rows.
    """

    xp = np
    exact = True

    def __init__(self, X: Any) -> None:
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.scratch = {}
        # Some blocks of a table may be empty; an operator never is.
        self._operator: Operator | None = as_operator(X) if self.shape[0] else None

    def dot(self, coef: Vector, rows: Rows | None = None, *, exact: bool = False) -> Vector:
        """x_i . w for every row of the block or for some."""
        if self._operator is None or (rows is not None and not len(rows)):
            return np.zeros(0)
        return self._operator.matvec(coef) if rows is None else self._operator.matvec_rows(coef, rows)

    def add(self, values: Vector, rows: Rows | None) -> Vector:
        """Sum of values_i x_i over some rows."""
        if self._operator is None or not len(values):
            return np.zeros(self.shape[1])
        return self._operator.rmatvec(values) if rows is None else self._operator.rmatvec_rows(values, rows)

    def moments(self, rows: Rows, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over some rows."""
        d = self.shape[1]
        if self._operator is None or not len(rows):
            return np.zeros((d, d)), np.zeros(d)
        count, ones = len(rows), np.ones(len(rows))
        total = self._operator.rmatvec_rows(ones, rows) - count * shift
        if isinstance(self._operator, CSROperator):  # sparse rows are shifted after they were multiplied
            gram = self._operator.gram_rows(rows)
            crossed = np.outer(shift, total)
            gram -= crossed + crossed.T + count * np.outer(shift, shift)
        else:
            gram = self._operator._gram(np.ascontiguousarray(rows), ones, shift)
        return gram, total

    def squares(self, rows: Rows) -> Vector:
        """Sum of squares of every column over some rows."""
        if self._operator is None or not len(rows):
            return np.zeros(self.shape[1])
        return self._operator.column_squares(rows)

    def norms(self, rows: Rows | None = None) -> Vector:
        """Squared norm of every row of the block or of some."""
        if self._operator is None:
            return np.zeros(0)
        norms = self._operator.row_norms()
        return norms if rows is None else norms[rows]

    def take(self, rows: Rows) -> Any:
        """A copy of some rows."""
        if self._operator is None:
            return np.zeros((0, self.shape[1]))
        taken = self._operator.take_rows(rows)
        if isinstance(taken, CSROperator):
            return taken._matrix
        assert isinstance(taken, DenseOperator)
        return taken._x

    def select(self, floor: float, offset: float, terms: Terms, among: Any | None = None) -> NumpySelected:
        """Entries of a linear combination that lie above a floor."""
        if not len(terms[0][1]):
            return NumpySelected(np.empty(0, np.intp), np.empty(0))
        found = [_select_chunk(part, floor, offset, terms, among) for part in _chunks(len(terms[0][1]))]
        rows, values = zip(*found, strict=True)
        return NumpySelected(np.concatenate(rows), np.concatenate(values))

    def __sizeof__(self) -> int:
        """Bytes of the rows: what a worker of a cluster counts as used."""
        operator = self._operator
        if operator is None:
            return object.__sizeof__(self)
        index = 4 if isinstance(operator, CSROperator) else 0
        return object.__sizeof__(self) + operator.n_stored() * (operator.dtype.itemsize + index)

    def asarray(self, values: Any) -> Any:
        """Numbers from the host as an array."""
        return np.asarray(values)

    def to_host(self, *values: Any) -> tuple[Any, ...]:
        """Nothing to do: they are there."""
        return values


def _chunks(length: int) -> Iterator[slice]:
    return (slice(start, min(start + _CHUNK, length)) for start in range(0, length, _CHUNK))


def _select_chunk(part: slice, floor: float, offset: float, terms: Terms, among: Any | None) -> tuple[Rows, Vector]:
    (factor, vector), *rest = terms
    total = factor * vector[part]
    for factor, vector in rest:
        total += vector[part] if factor == 1.0 else factor * vector[part]
    total += offset
    chosen = total > floor
    if among is not None:
        chosen &= among[part]
    places = np.flatnonzero(chosen)
    return places + part.start, total[places]


class NumpySelected(Selected):
    """Entries above a floor, in the order of their rows."""

    def __init__(self, rows: Rows, values: Vector) -> None:
        self.rows = rows
        self.values = values

    def tally(self, edges: Vector) -> Matrix:
        """Counts above every edge and at it or above, and the excess over it."""
        size = len(edges)
        if not size:
            return np.zeros((3, 0))
        ladder = _Ladder(edges, self.values)
        n_from, excess = ladder.sums()
        middle, at = ladder.middle, ladder.place - 1
        n_at = np.bincount(at[edges[at] == middle], minlength=size)
        n_at[-1] += np.count_nonzero(ladder.beyond == 0.0)
        return np.vstack((n_from - n_at, n_from, excess))

    def fetch(self, intervals: Matrix, moves: Vector | None, most: int) -> tuple[Matrix, list[Matrix | Vector]]:
        """What lies above every interval, and the entries inside."""
        if not len(intervals):
            return np.zeros((0, 4)), []
        ladder = _Ladder(np.unique(intervals), self.values)
        sums = np.zeros((len(ladder.edges), 4))
        sums[:, 0], sums[:, 1] = ladder.sums()
        if moves is not None:
            sums[:, 2], sums[:, 3] = ladder.sums(moves[self.rows[ladder.above]], moves[self.rows[ladder.inside]])
        starts, ends = np.searchsorted(ladder.edges, intervals.T)
        inside = []
        for low, start in zip(intervals[:, 0], starts, strict=True):
            places = ladder.inside[(ladder.place == start + 1) & (ladder.middle > low)]
            inside.append(self._inside(places, moves, most))
        return sums[ends], inside

    def split_deferred(self, low: float, cap: float) -> Deferred:
        """Rows and excess of the entries between `low` and `low + cap`, and rows of those above."""
        over = self.values - low
        free, capped = np.flatnonzero((over > 0) & (over < cap)), np.flatnonzero((over > 0) & (over >= cap))
        return Deferred.known((self.rows[free], over[free], self.rows[capped]))

    def _inside(self, places: Rows, moves: Vector | None, most: int) -> Matrix | Vector:
        values = self.values[places]
        if len(places) > most:
            ranks = np.linspace(0, len(values) - 1, N_QUANTILES).astype(np.intp)
            return np.partition(values, ranks)[ranks]
        order = np.argsort(values, kind="stable")
        moved = np.zeros(len(values)) if moves is None else moves[self.rows[places[order]]]
        return np.vstack((values[order], moved))


class _Ladder:
    """Entries between edges (ascending): only those that are not above all of them are looked up."""

    def __init__(self, edges: Vector, values: Vector) -> None:
        self.edges = edges
        self.above = np.flatnonzero(values >= edges[-1])
        self.beyond = values[self.above] - edges[-1]
        self.inside = np.flatnonzero((values >= edges[0]) & (values < edges[-1]))
        self.middle = values[self.inside]
        self.place = np.searchsorted(edges, self.middle, side="right")  # edges at or below the entry

    def sums(self, above: Vector | None = None, inside: Vector | None = None) -> tuple[Vector, Vector]:
        """For every edge: the sum of weights of the entries at it or above, and of weight times excess."""
        size = len(self.edges)
        # Relative to the highest edge below an entry, differences are small and exact.
        over = self.middle - self.edges[self.place - 1]
        weights = np.bincount(self.place, inside, minlength=size + 1)[1 : size + 1].astype(np.float64)
        over = over if inside is None else over * inside
        products = np.bincount(self.place, over, minlength=size + 1)[1 : size + 1].astype(np.float64)
        weights[-1] += len(self.above) if above is None else above.sum()
        products[-1] += self.beyond.sum() if above is None else self.beyond @ above
        total = np.cumsum(weights[::-1])[::-1]
        # From one edge down to the next, every entry above gains the step between them.
        products[:-1] += total[1:] * np.diff(self.edges)
        return total, np.cumsum(products[::-1])[::-1]
