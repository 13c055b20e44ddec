"""Rows that repeat exactly where chance does not repeat them: copies, which are no new evidence.

Rows of a few levels are often equal by chance, but then rows that come twice, three times and so on follow a pattern
that copies do not. And a number with many digits does not come twice by chance: rows that share it, and everything
else, and that nobody else shares it with, are one observation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._row_hashes import row_hashes, times_by_chance
from taufpl._sklearn import safe_indexing
from taufpl.estimators._units import Rows
from taufpl.exceptions import RepeatedRowsWarning

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


def find_repeats(X: Any, negative_rows: Rows) -> Rows | None:
    """For each row a code that it shares with its copies among the negatives, -1 where it has none; warns of copies.

    Parameters
    ----------
    X : array-like, sparse matrix or frame
        What cannot be made a table of it, such as a list of images, is not looked at.
    negative_rows : ndarray of int

    Returns
    -------
    ndarray of int, or None where nothing repeats
    """
    table = _as_table(X)
    codes = None if table is None else copies_among(safe_indexing(table, negative_rows))
    if codes is None:
        return None
    n_copies = int(np.count_nonzero(codes >= 0))
    n_different = np.unique(codes[codes >= 0]).size
    warnings.warn(
        f"{n_copies:,} of {negative_rows.size:,} negatives repeat exactly, as {n_different:,} different rows, more "
        "often than chance explains. Copies are no new evidence: the guarantee does not hold where they lie on both "
        "sides of the division. Leave copies out, or name what belongs together by groups=.",
        RepeatedRowsWarning,
        stacklevel=4,
    )
    repeats = np.full(table.shape[0], -1, dtype=np.intp)
    repeats[negative_rows] = codes
    return repeats


def copies_among(X: Any) -> Rows | None:
    """For each row a code that it shares with its copies, -1 where it has none; None where there are no copies.

    Equal rows are copies in two cases. Rows come k times more often than independent rows can, for some k
    (`times_by_chance`). Or they have numbers that no other row has, of so many digits that the chance for two rows to
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


def _as_table(X: Any) -> Any:
    """Rows and columns: a frame or matrix as it is, lists as an array, and a list of texts as one column."""
    if len(getattr(X, "shape", ())) == 2:
        return X
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return None
    return array if array.ndim == 2 else array[:, np.newaxis] if array.ndim == 1 else None


def repeats_caveat(repeats: Rows | None, train: Rows, held_out: Rows) -> str | None:
    """A sentence where copies of held-out negatives lie among the training rows, or among themselves."""
    if repeats is None:
        return None
    own = repeats[held_out]
    codes, counts = np.unique(own[own >= 0], return_counts=True)
    n_copies = int(np.sum(counts[(counts > 1) | np.isin(codes, repeats[train])]))
    if not n_copies:
        return None
    return (
        f"{n_copies:,} of the {held_out.size:,} negatives that chose the threshold are exact copies of others or of "
        "training rows: they are not independent"
    )


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
