"""Count, mean row and centred Gram matrix of a set of rows, and how sets are joined and parted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taufpl.operators import Operator, add_square

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean row, and sum of (x - mean)(x - mean)' of a set of rows."""

    count: int
    mean: Vector
    gram: Matrix

    @classmethod
    def of(cls, operator: Operator, rows: Rows) -> Moments:
        """Moments of these rows of an operator."""
        gram, mean = operator.centred_gram_rows(rows)
        return cls(len(rows), mean, gram)

    @classmethod
    def empty(cls, n_features: int) -> Moments:
        """Moments of no rows."""
        return cls(0, np.zeros(n_features), np.zeros((n_features, n_features)))

    def joined(self, other: Moments) -> Moments:
        """Moments of the union of two sets without common rows (Chan, Golub and LeVeque)."""
        if other.count == 0 or self.count == 0:
            return self if other.count == 0 else other
        count = self.count + other.count
        apart = other.mean - self.mean
        gram = self.gram + other.gram
        add_square(gram, self.count * other.count / count, apart)
        return Moments(count, self.mean + apart * (other.count / count), gram)

    def without(self, other: Moments) -> Moments:
        """Moments of what is left of a set when a part of it goes."""
        count = self.count - other.count
        if count == 0 or other.count == 0:
            return self if other.count == 0 else Moments.empty(len(self.mean))
        mean = self.mean + (self.mean - other.mean) * (other.count / count)
        apart = other.mean - mean
        gram = self.gram - other.gram
        add_square(gram, -(count * other.count / self.count), apart)
        return Moments(count, mean, gram)


class RunningMoments:
    """Moments of a set of rows that changes a little at a time: only rows that come or go are read.

    Rounding errors stay bounded: once as many rows have come and gone as half of the set, it is read afresh.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._rows: Rows = np.empty(0, dtype=np.intp)
        self._moments = Moments.empty(operator.shape[1])
        self._changes = 0

    def update(self, rows: Rows) -> Moments:
        """Moments of these rows (sorted, each once)."""
        coming = np.setdiff1d(rows, self._rows, assume_unique=True)
        going = np.setdiff1d(self._rows, rows, assume_unique=True)
        self._changes += len(coming) + len(going)
        if 2 * self._changes > len(rows):
            self._moments = Moments.of(self._operator, rows)
            self._changes = 0
        else:
            if len(going):
                self._moments = self._moments.without(Moments.of(self._operator, going))
            if len(coming):
                self._moments = self._moments.joined(Moments.of(self._operator, coming))
        self._rows = rows
        return self._moments
