"""A compact record of the rows that a model has seen, and what it says about other rows."""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from taufpl._row_hashes import row_hashes, times_by_chance
from taufpl.persistence.rows._hash_set import HashSet

_VERSION = 1
_HEADER = struct.Struct("<BQH")
_PART = struct.Struct("<QQ")

# Chance does not explain a number of hits that it brings with a smaller probability than this.
_IMPROBABLE = 1e-4
# Where chance may bring a larger share of hits than this, a hit says nothing: seen rows could hide among them.
_MOST_CHANCE = 0.5
# Where at most this share of rows repeats by chance, every hit can be left out: common rows are hardly missed.
_MOST_REPEATING = 0.005


@dataclass(frozen=True, slots=True)
class Freshness:
    """Result of a comparison of some rows with those that a model has seen.

    Attributes
    ----------
    n_rows : int
        Rows that were compared.
    n_hits : int
        Rows that equal one which the model has seen, or are taken for one.
    chance : float
        Largest share of hits that rows which the model has never seen may bring: because rows of such a table repeat,
        up to twice as often as the training rows have shown, and by the false hits of the record.
    repeating : float
        Share of the rows that the model has seen which repeat by chance.
    """

    n_rows: int
    n_hits: int
    chance: float
    repeating: float

    @property
    def known(self) -> bool:
        """Whether hits can tell seen rows from new ones: not where many rows of such a table repeat by chance."""
        return self.chance <= _MOST_CHANCE

    @property
    def n_seen(self) -> int | None:
        """Rows that were seen before; 0 where chance explains the hits, None where that cannot be told."""
        if not self.known:
            return None
        return self.n_hits if self.n_hits > binom.isf(_IMPROBABLE, self.n_rows, min(1.0, self.chance)) else 0

    @property
    def separable(self) -> bool:
        """Whether rows without a hit are as good as fresh ones: not where common rows would be missing from them."""
        return self.repeating <= _MOST_REPEATING


class SeenRows:
    """Record of the rows that a model has seen, in about ten bits a row.

    It answers whether a row is one of them. A row that is, is always recognised: in any order, in any container, and
    after a file that kept nine digits of every number, or float32. A row that is not is taken for one with probability
    `false_hit_rate`, 0.4 %.

    The record holds parts of salted hashes. Rows cannot be listed from it: ten bits are no row. But whoever has it
    can check a guess of a whole row, and be wrong in 0.4 % of the cases: where few different rows are possible, all of
    them can be tried.

    Parameters
    ----------
    X : array-like, sparse matrix or dataframe of shape (n_samples, n_features), default=None
        Rows to begin with, as the model takes them: before its preprocessing.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.persistence import SeenRows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> seen = SeenRows(X)
    >>> seen.count(X[::-1]), seen.count(rng.normal(size=(1000, 3))) < 20
    (1000, True)
    """

    def __init__(self, X: Any = None) -> None:
        self._salt = secrets.randbits(64)
        self._parts: list[_Part] = []
        self._new: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._new_part: _Part | None = None
        if X is not None:
            self.add(X)

    @property
    def n_rows(self) -> int:
        """Number of rows that were added, without those that were known already from a file."""
        return sum(part.n_rows for part in self._all())

    @property
    def false_hit_rate(self) -> float:
        """Chance that a row which was never added is taken for one that was."""
        return 1.0 - float(np.prod([1.0 - part.hashes.false_hit_rate for part in self._all()]))

    @property
    def repeating(self) -> float:
        """Share of rows that repeat by chance among those that were added, as new rows of such a table would."""
        return max((part.n_repeating / part.n_rows for part in self._all() if part.n_rows), default=0.0)

    def add(self, X: Any) -> SeenRows:
        """Add rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n_samples, n_features)

        Returns
        -------
        SeenRows
            Itself.
        """
        hashes = row_hashes(X, self._salt, single=True)
        self._new = np.append(self._new, hashes[~_found(self._parts, hashes)])
        self._new_part = None
        return self

    def contains(self, X: Any) -> NDArray[np.bool_]:
        """Mark the rows that were added before, or are taken for such.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n_samples, n_features)

        Returns
        -------
        ndarray of bool of shape (n_samples,)
        """
        return _found(self._all(), row_hashes(X, self._salt, single=True))

    def count(self, X: Any) -> int:
        """Count the rows that :meth:`contains` finds."""
        return int(np.count_nonzero(self.contains(X)))

    def judge(self, n_hits: int, n_rows: int) -> Freshness:
        """Say what a number of hits means.

        Parameters
        ----------
        n_hits, n_rows : int
            Rows that :meth:`contains` has found, and rows that it was asked about.

        Returns
        -------
        Freshness
        """
        share = max((part.chance() for part in self._all()), default=0.0)
        return Freshness(n_rows, n_hits, self.false_hit_rate + share, self.repeating)

    def to_bytes(self) -> bytes:
        """Write the record down."""
        parts = self._all()
        body = (_PART.pack(part.n_rows, part.n_repeating) + part.hashes.to_bytes() for part in parts)
        return _HEADER.pack(_VERSION, self._salt, len(parts)) + b"".join(body)

    @classmethod
    def from_bytes(cls, data: bytes) -> SeenRows:
        """Read what :meth:`to_bytes` has written.

        Raises
        ------
        ValueError
            It is something else, or damaged.
        """
        try:
            version, salt, n_parts = _HEADER.unpack_from(data)
            if version != _VERSION:
                raise ValueError(f"the record of rows is of version {version}, and known is {_VERSION}")
            seen, rest = cls(), memoryview(data)[_HEADER.size :]
            seen._salt = salt
            for _ in range(n_parts):
                n_rows, n_repeating = _PART.unpack_from(rest)
                hashes, rest = HashSet.from_bytes(rest[_PART.size :])
                seen._parts.append(_Part(hashes, n_rows, n_repeating))
        except struct.error as error:
            raise ValueError("the record of rows is cut off") from error
        if rest:
            raise ValueError("the record of rows is longer than it says")
        return seen

    def _all(self) -> list[_Part]:
        """The parts that came from a file, and one of all rows that were added since."""
        if not self._new.size:
            return self._parts
        if self._new_part is None:
            # Rows of a recalibration are few: with two bytes each, false hits do not add up.
            hashes = HashSet.of(self._new, 2 if self._parts else 1)
            self._new_part = _Part(hashes, self._new.size, _count_repeating(self._new))
        return [*self._parts, self._new_part]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows that were added between two times of writing, and how many of them repeat by chance."""

    hashes: HashSet
    n_rows: int
    n_repeating: int

    def chance(self) -> float:
        """Largest share of fresh rows that may repeat one of these: sources change, and a share is an estimate."""
        if not self.n_rows:
            return 0.0
        return min(1.0, (2 * self.n_repeating + 3.0 * np.sqrt(self.n_repeating) + 3.0) / self.n_rows)


def _found(parts: list[_Part], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mark the hashes that are in any of the parts."""
    found = np.zeros(hashes.size, np.bool_)
    for part in parts:
        found |= part.hashes.contains(hashes)
    return found


def _count_repeating(hashes: NDArray[np.uint64]) -> int:
    """Count the rows that equal another one by chance, and not because rows were copied.

    If rows were drawn independently, as large a share of the next rows will equal one of them (Good and Turing).
    """
    times, most = times_by_chance(np.unique(hashes, return_counts=True)[1])
    return int(np.sum(np.arange(2, times.size) * np.minimum(times, most)[2:]))
