"""The rows that a model was trained on: a fingerprint of their table, and a compact record of them."""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from taufpl._row_hashes import is_missing, row_hashes, times_by_chance
from taufpl.operators import contents

# Values that are hashed at once: enough for the hash to be the work, few enough to fit beside the data.
_HASHED_AT_ONCE = 1 << 20


def fingerprint(X: Any, y: Any = None) -> str:
    """SHA-256 of a table, and of its labels: types, shape, names of columns and content, in order.

    The same numbers give the same fingerprint in C and in Fortran order, on machines of either byte order, and for
    sparse data in any format. Another order of rows or columns, another type, another name or another value gives
    another one. Frames of pandas and polars with the same names, numbers and strings agree.

    Parameters
    ----------
    X : array-like, sparse matrix or dataframe of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None

    Returns
    -------
    str
        "sha256:" and 64 hexadecimal digits.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.persistence import fingerprint
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(X) == fingerprint(np.asfortranarray(X)), fingerprint(X) == fingerprint(X[::-1])
    (True, False)
    """
    digest = hashlib.sha256()
    for part in chain(_parts(X, "X"), () if y is None else _parts(y, "y")):
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _parts(data: Any, name: str) -> Iterator[bytes]:
    columns = getattr(data, "columns", None)
    if columns is not None:
        yield f"{name}: frame of {len(columns)}\n".encode()
        for place, column in enumerate(columns):
            yield f"{len(str(column))}:{column}\n".encode()
            values = data.iloc[:, place] if hasattr(data, "iloc") else data[column]
            yield from _array(values.to_numpy())
        return
    kind, arrays = contents(data.to_numpy() if hasattr(data, "to_numpy") else data)
    yield f"{name}: {kind} {np.shape(data)}\n".encode()
    for array in arrays:
        yield from _array(array)


def _array(array: NDArray[Any]) -> Iterator[bytes]:
    """Type, shape and values of an array, block by block in C order."""
    plain = array.dtype.kind in "biufcmM"
    label = array.dtype.newbyteorder("<").str if plain else "object"
    yield f"{label} {array.shape}\n".encode()
    rows = max(1, _HASHED_AT_ONCE // max(1, int(np.prod(array.shape[1:]))))
    for start in range(0, len(array) if array.ndim else 1, rows):
        block = array[start : start + rows] if array.ndim else array
        if plain:
            yield np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).tobytes()
        else:
            yield b"".join(_value(value) for value in np.ravel(block).tolist())


def _value(value: Any) -> bytes:
    """A tag for the type, the length and the text, so that no two lists of values run into the same bytes."""
    if is_missing(value):
        return b"-"
    if isinstance(value, str):
        tag, text = "s", value
    elif isinstance(value, bool | np.bool_):
        tag, text = "b", str(bool(value))
    elif isinstance(value, Integral):
        tag, text = "i", str(int(value))
    elif isinstance(value, Real):
        tag, text = "f", float(value).hex()
    else:
        tag, text = "o", f"{type(value).__name__} {value!r}"
    encoded = text.encode("utf-8", "surrogatepass")
    return f"{tag}{len(encoded)}:".encode() + encoded


_SET_HEADER = struct.Struct("<QB")


@dataclass(frozen=True)
class HashSet:
    """Distinct hashes, shortened and sorted, as Elias and Fano write increasing numbers down.

    Of a set of d hashes (`size`) each falls into one of d buckets, by its first 32 bits, and leaves a remainder, its
    last 8 or 16 bits (`width` of 1 or 2 bytes). The remainders lie in the order of the buckets; the buckets are a row
    of 2 d bits, a one for every hash and a zero wherever the next bucket begins. That is 10 bits a hash for remainders
    of one byte. A hash that is in the set is always found; another one with probability 1 - exp(-1/256), 0.39 %, or
    0.0015 % for remainders of two bytes.
    """

    size: int
    width: int
    buckets: NDArray[np.uint8] = field(repr=False)
    remainders: NDArray[Any] = field(repr=False)

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], width: int) -> HashSet:
        """Make the set of some 64-bit hashes; less than 2^32 of them."""
        distinct = np.unique(hashes)
        keys = np.sort(_keys(distinct, distinct.size, width))
        bits = np.zeros(2 * keys.size, np.uint8)
        bits[(keys >> np.uint64(8 * width)).astype(np.int64) + np.arange(keys.size)] = 1
        return cls(keys.size, width, np.packbits(bits), keys.astype(f"<u{width}"))

    @property
    def false_hit_rate(self) -> float:
        """Chance that a hash which is not in the set is said to be."""
        return -float(np.expm1(-(2.0 ** (-8 * self.width)))) if self.size else 0.0

    def contains(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Mark the hashes that are in the set, or are taken for members."""
        if not self.size:
            return np.zeros(hashes.size, np.bool_)
        keys = _keys(hashes, self.size, self.width)
        places = np.minimum(np.searchsorted(self._sorted, keys), self.size - 1)
        return self._sorted[places] == keys

    @cached_property
    def _sorted(self) -> NDArray[np.uint64]:
        ones = np.flatnonzero(np.unpackbits(self.buckets, count=2 * self.size))
        buckets = (ones - np.arange(self.size)).astype(np.uint64)
        return (buckets << np.uint64(8 * self.width)) | self.remainders.astype(np.uint64)

    def to_bytes(self) -> bytes:
        """Write the set down."""
        return _SET_HEADER.pack(self.size, self.width) + self.buckets.tobytes() + self.remainders.tobytes()

    @classmethod
    def from_bytes(cls, data: memoryview) -> tuple[HashSet, memoryview]:
        """Read a set, and give back what follows it; raises ValueError if the set is damaged."""
        try:
            size, width = _SET_HEADER.unpack_from(data)
        except struct.error as error:
            raise ValueError("a set of hashes is cut off") from error
        middle = _SET_HEADER.size + (size + 3) // 4
        end = middle + size * width
        if width not in (1, 2) or end > len(data):
            raise ValueError("a set of hashes is not as long as it says")
        buckets = np.frombuffer(data[_SET_HEADER.size : middle], np.uint8)
        # The last byte may have bits to spare, which come after all buckets.
        spare = -2 * size % 8
        if int(np.bitwise_count(buckets).sum()) != size or (spare and int(buckets[-1]) % 2**spare):
            raise ValueError("a set of hashes does not hold as many as it says")
        return cls(size, width, buckets, np.frombuffer(data[middle:end], f"<u{width}")), data[end:]


def _keys(hashes: NDArray[np.uint64], size: int, width: int) -> NDArray[np.uint64]:
    """Bucket and remainder in one number."""
    buckets = ((hashes >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
    return (buckets << np.uint64(8 * width)) | (hashes & np.uint64(256**width - 1))


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
