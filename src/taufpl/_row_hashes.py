"""A 64-bit hash of every row of a table, equal for equal rows, and which equal rows are copies.

Copies are no new evidence. Rows of a few levels are often equal by chance, but then rows that come twice, three times
and so on follow a pattern that copies do not. And a number with many digits does not come twice by chance: rows that
share it, and everything else, and that nobody else shares it with, are one observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers that are hashed at once: they fit into the second-level cache, and no temporary array is larger.
_BLOCK = 1 << 16
# Values of other types at once, which take some 100 bytes each.
_OBJECTS = 1 << 14

# Rows count as copies where chance would bring about fewer pairs than this in the whole table.
_CHANCE = 0.05
# Values lie closer in some parts of a range than in others: pairs meet this much more often than evenly spread ones.
_CROWDING = 4.0
# Columns that are looked at: the first ones.
_MOST_COLUMNS = 100
# The smallest gap is one step, or a few.
_DIVISORS = (1, 2, 3, 4)
_MOST_DECIMALS = 12
_MOST_STEPS = 1e11

# Scores repeat for many reasons: only those that come this often at most are looked at, and copies must be this share
# of all rows beyond what chance explains.
_FEW_TIMES = 5
_LEAST_COPIES = 0.05

# Rows of one source are the same but for their order with a lower chance than this, where that is to tell something.
_SAME_BY_CHANCE = 1e-6
_SALTS = (1, 2)

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MISSING = np.array(np.nan).view(np.uint64)[()]


def row_hashes(X: Any, salt: int = 0, *, single: bool = False) -> NDArray[np.uint64]:
    r"""64-bit hashes of the rows of a table, whatever holds the table.

    .. math:: h(x) = f\Bigl(\sum_j m_j g(x_j) \bmod 2^{64}\Bigr)

    where :math:`g` maps the bits of a value as float64 one to one with :math:`g(0) = 0`, the :math:`m_j` are odd
    pseudo-random numbers that follow from the salt and the position j, and :math:`f` is one to one. Rows that differ in
    one column only never share a hash if both hold numbers; other rows do so with a chance of about :math:`2^{-64}`.
    The hash is no cryptographic one: whoever knows the salt, of which 64 bits count, can make rows that collide.

    X is an array, a sparse matrix, or a frame of pandas or polars. Numbers and booleans count by their value as
    float64, so that 1, 1.0 and True are equal, as are 0.0, -0.0 and an entry that a sparse matrix does not store; dates
    by their microseconds; texts and categories by their characters. Whatever is missing (NaN, None, NaT, NA) is equal
    to whatever else is missing. Names of columns do not count. `single` rounds numbers to float32 first, some seven
    digits: then rows agree with what is left of them after a file that kept nine digits, or float32.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from taufpl._row_hashes import row_hashes
    >>> X = np.array([[0, 1], [2, 0], [0, 1]])
    >>> hashes = row_hashes(X)
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)
    >>> np.array_equal(hashes, row_hashes(sparse.csc_array(X, dtype=float)))
    True
    """
    salt &= _MASK
    words = _Words(salt, single)
    if hasattr(X, "columns"):
        sums, width = _frame_sums(X, words), len(X.columns)
    else:
        X = X if hasattr(X, "tocsr") else np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
        sums, width = (_csr_sums if hasattr(X, "tocsr") else _array_sums)(X, words), X.shape[1]
    for rows in _blocks(len(sums), _BLOCK):
        sums[rows] = _splitmix(sums[rows] + np.uint64((salt + width * _GOLDEN) & _MASK))
    return sums


def times_by_chance(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Numbers of different rows that come k times, and the numbers that chance explains, for k = 0, 1, 2, ...

    Let :math:`f_k` be the number of different rows that come k times. Independent rows of whatever source have
    :math:`f_k^2 \le f_{k-1} f_{k+1} (k+1) / k` on average (Cauchy and Schwarz, for mixtures of Poisson counts); copies
    do not: a table of which every row comes five times has nothing but :math:`f_5`. So at most that many count for
    each k > 1, with three standard deviations added to the right. `counts` tells how often each different row comes.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl._row_hashes import times_by_chance
    >>> times, most = times_by_chance(np.array([5] * 100))
    >>> float(times[5]), bool(most[5] < 4)
    (100.0, True)
    """
    times = np.append(np.bincount(counts), 0).astype(np.float64)
    high = times + 3.0 * np.sqrt(times) + 3.0
    most, k = times.copy(), np.arange(2, times.size - 1)
    most[k] = np.sqrt(high[k - 1] * high[k + 1] * (k + 1) / k)
    return times, most


def copies_among(X: Any) -> NDArray[np.intp] | None:
    """For each row a code that it shares with its copies, -1 where it has none; None where there are no copies.

    Equal rows are copies in two cases. Rows come k times more often than independent rows can, for some k
    (`times_by_chance`). Or they have numbers that no other row has, with enough digits that the chance for two rows to
    meet there, in the two columns with the most digits, times the number of all pairs of rows is under 0.05.
    """
    _, codes, counts = np.unique(row_hashes(X), return_inverse=True, return_counts=True)
    n_equal = counts[codes]
    if n_equal.max(initial=0) < 2:
        return None
    times, most = times_by_chance(counts)
    chances = np.ones((codes.size, 2))  # of two rows to meet in the column with the most digits, and in the next one
    for values in _numbers(X):
        _, places, holders = np.unique(values, return_inverse=True, return_counts=True)
        alone = (n_equal > 1) & (holders[places] == n_equal) & np.isfinite(values)
        if alone.any():
            lowest = np.sort(np.column_stack((chances[alone], np.full(alone.sum(), _chance_to_meet(values)))), axis=1)
            chances[alone] = lowest[:, :2]
    is_copy = (chances.prod(axis=1) * codes.size**2 / 2 < _CHANCE) | (times > most)[n_equal]
    return np.where(is_copy, codes, -1) if is_copy.any() else None


def copied_scores(X: Any) -> NDArray[np.intp] | None:
    """As `copies_among`, for a single column of scores, whose digits say nothing: trees, say, have few different ones.

    Scores are copies where those that come two to five times are more than chance explains (`times_by_chance`), by more
    rows than 5 % of all: rows that were written twice, or a score for every customer in all rows of the customer.
    """
    _, codes, counts = np.unique(np.asarray(X).ravel(), return_inverse=True, return_counts=True)
    times, most = times_by_chance(counts)
    k = np.arange(2, min(_FEW_TIMES + 1, times.size))
    excess = np.maximum(times[k] - most[k], 0.0)
    if excess @ k <= _LEAST_COPIES * codes.size:
        return None
    return np.where(np.isin(counts, k[excess > 0])[codes], codes, -1)


@dataclass(frozen=True, slots=True)
class MultisetHash:
    """A hash of rows whatever their order: sums of their hashes, to which those of further rows can be added.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl._row_hashes import MultisetHash
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> MultisetHash().add(X) == MultisetHash().add(X[2:]).add(X[:2])
    True
    """

    n_rows: int = 0
    sums: tuple[int, ...] = (0,) * len(_SALTS)

    def add(self, X: Any) -> MultisetHash:
        """The hash of these rows, too; numbers count as float32."""
        new = (int(np.sum(row_hashes(X, salt, single=True), dtype=np.uint64)) for salt in _SALTS)
        sums = tuple((old + each) & _MASK for old, each in zip(self.sums, new, strict=True))
        return MultisetHash(self.n_rows + X.shape[0], sums)

    def __str__(self) -> str:
        return ":".join((str(self.n_rows), *(f"{each:016x}" for each in self.sums)))


def telling_hash(X: Any) -> str | None:
    r"""The `MultisetHash` of rows as text; None where other rows of their source may well have the same.

    Rows of which one comes c times in two samples have the same counts with a chance of about
    :math:`\prod 1 / \sqrt{4 \pi c}`, for Poisson counts.
    """
    _, counts = np.unique(row_hashes(X, single=True), return_counts=True)
    if -0.5 * float(np.log(4.0 * np.pi * counts).sum()) > np.log(_SAME_BY_CHANCE):
        return None
    return str(MultisetHash().add(X))


def _chance_to_meet(values: NDArray[np.float64]) -> float:
    """Probability for two rows to share a number by chance, from the range of a column and the step of its values."""
    different = np.unique(values[np.isfinite(values)])
    if different.size < 2:
        return 1.0
    gaps = np.diff(different)
    steps = [gaps.min() / divisor for divisor in _DIVISORS] + [10.0**-decimals for decimals in range(_MOST_DECIMALS)]
    # Whole numbers, rounded ones, and both after a change of scale are multiples of a step.
    step = next((each for each in steps if _are_whole(gaps / each)), None)
    if step is None:
        single = np.array_equal(different, different.astype(np.float32))
        step = float(np.finfo(np.float32 if single else np.float64).eps * np.median(np.abs(different)))
    return min(1.0, float(_CROWDING * step / (different[-1] - different[0])))


def _are_whole(ratios: NDArray[np.float64]) -> bool:
    """Whether these are whole numbers, but for rounding; ones beyond all digits say nothing."""
    return bool(ratios.max() < _MOST_STEPS and np.max(np.abs(ratios - np.rint(ratios))) < 1e-3)


def _numbers(X: Any) -> Iterator[NDArray[np.float64]]:
    """Columns of numbers; none of sparse rows, whose weights of words have many digits and are counts all the same."""
    for place in range(0 if hasattr(X, "tocsr") else min(X.shape[1], _MOST_COLUMNS)):
        values = np.asarray(X.iloc[:, place] if hasattr(X, "iloc") else X[:, place])
        if values.dtype.kind in "iuf":
            yield values.astype(np.float64)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT, or pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finaliser of splitmix64, in place: one to one, and every bit of x reaches every bit of the result."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _multipliers(columns: NDArray[Any], salt: int) -> NDArray[np.uint64]:
    """An odd number for each position, computed where it is needed: tables may have very many columns."""
    start = int(_splitmix(np.array([salt ^ _GOLDEN], np.uint64))[0])
    steps = (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    return _splitmix(steps + np.uint64(start)) | np.uint64(1)


def _number_words(values: NDArray[Any], *, single: bool = False) -> NDArray[np.uint64]:
    """The map g for numbers, one to one with g(0) = 0.

    The last bits of small whole numbers as float64 are all zero, and a product modulo 2^64 would keep them so: the
    first bits are mixed into the last ones.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = values.astype(np.float32) if single else values
        numbers = np.add(rounded, 0.0, dtype=np.float64, order="C", casting="unsafe")  # -0.0 becomes 0.0
    missing = np.isnan(numbers)
    words: NDArray[np.uint64] = numbers.view(np.uint64)
    if missing.any():
        words[missing] = _MISSING
    words ^= words >> np.uint64(32)
    words *= np.uint64(0xD6E8FEB86659FD93)
    words ^= words >> np.uint64(29)
    return words


class _Words(dict[Any, int]):
    """The map g for values of any type: what is not known yet is computed and kept, up to a bound on memory."""

    def __init__(self, salt: int, single: bool) -> None:
        super().__init__()
        self.salt, self._single = salt, single
        self._key = salt.to_bytes(8, "little")
        self._missing = int(self.numbers(np.array([np.nan]))[0])

    def __missing__(self, value: Any) -> int:
        if is_missing(value):
            return self._missing
        if len(self) >= _OBJECTS:
            self.clear()
        self[value] = word = self._word(value)
        return word

    def _word(self, value: Any) -> int:
        if isinstance(value, np.datetime64 | np.timedelta64 | date | timedelta):
            return int(_number_words(_microseconds(np.array([_without_zone(value)])))[0])
        if isinstance(value, Real | Decimal | np.bool_):
            return int(self.numbers(np.array([float(value)]))[0])
        text = value if isinstance(value, str) else repr(value)
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key)
        return int.from_bytes(digest.digest(), "little")

    def numbers(self, values: NDArray[Any]) -> NDArray[np.uint64]:
        """Words of an array of numbers, of its shape."""
        return _number_words(values, single=self._single)

    def of(self, values: Any) -> NDArray[np.uint64]:
        """Words of a column or of a part of it, a NumPy array or a series of pandas or polars."""
        if hasattr(values, "factorize") and not isinstance(values.dtype, np.dtype):
            return self._of_pandas_type(values)
        array = values if isinstance(values, np.ndarray) else values.to_numpy()
        if array.dtype.kind in "mM":
            return _number_words(_microseconds(array))
        if array.dtype.kind in "biuf":
            return self.numbers(array)
        parts = (array[rows].tolist() for rows in _blocks(len(array), _OBJECTS))
        return np.fromiter((self[value] for part in parts for value in part), np.uint64, len(array))

    def _of_pandas_type(self, values: Any) -> NDArray[np.uint64]:
        """Words where pandas has a type of its own: texts, categories, and numbers that may be missing."""
        if values.dtype.kind in "biuf":
            return self.numbers(values.to_numpy(np.float64, na_value=np.nan))
        codes, distinct = values.factorize()
        return np.append(self.of(distinct.to_numpy()), np.uint64(self._missing))[codes]


def _without_zone(value: Any) -> Any:
    """The same moment without a time zone, which NumPy does not know."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _microseconds(values: NDArray[Any]) -> NDArray[np.float64]:
    """Microseconds as float64, NaN where a date is missing: exact to the year 2255, whatever the unit was."""
    kind = "m8[us]" if values.dtype.kind == "m" or isinstance(values.flat[0], timedelta) else "M8[us]"
    moments = values.astype(kind)
    return np.where(np.isnat(moments), np.nan, moments.view(np.int64).astype(np.float64))


def _blocks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(n, start + size)) for start in range(0, n, size))


def _frame_sums(X: Any, words: _Words) -> NDArray[np.uint64]:
    """Sums over the columns of a frame, each with its own type."""
    sums = np.zeros(len(X), np.uint64)
    for place, multiplier in enumerate(_multipliers(np.arange(len(X.columns)), words.salt)):
        column = X.iloc[:, place] if hasattr(X, "iloc") else X[:, place]
        for rows in _blocks(len(X), _BLOCK):
            part = column.iloc[rows] if hasattr(column, "iloc") else column[rows]
            sums[rows] += words.of(part) * multiplier
    return sums


def _array_sums(X: NDArray[Any], words: _Words) -> NDArray[np.uint64]:
    """Sums over the columns of a dense array."""
    sums = np.zeros(len(X), np.uint64)
    numbers = X.dtype.kind in "biuf"
    for columns in _blocks(X.shape[1], _BLOCK if numbers else 1):
        multipliers = _multipliers(np.arange(columns.start, columns.stop), words.salt)
        for rows in _blocks(len(X), max(1, _BLOCK // len(multipliers))):
            block = X[rows, columns]
            sums[rows] += words.numbers(block) @ multipliers if numbers else words.of(block[:, 0]) * multipliers
    return sums


def _csr_sums(X: Any, words: _Words) -> NDArray[np.uint64]:
    """Sums over the stored entries of a sparse matrix: differences of running sums, which wrap around without harm."""
    csr = X.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is X else csr
        csr.sum_duplicates()
    sums = np.zeros(csr.shape[0], np.uint64)
    for part in _blocks(len(csr.data), _BLOCK):
        running = np.zeros(part.stop - part.start + 1, np.uint64)
        np.cumsum(words.numbers(csr.data[part]) * _multipliers(csr.indices[part], words.salt), out=running[1:])
        first = np.searchsorted(csr.indptr, part.start, "right") - 1
        last = np.searchsorted(csr.indptr, part.stop, "left")
        ends = np.clip(csr.indptr[first : last + 1], part.start, part.stop) - part.start
        sums[first:last] += np.diff(running[ends])
    return sums
