"""What is known of rows beside their features: their classes, which belong together, when they came, which are copies.

A unit is what the guarantee counts: a row, or, where groups are given, all rows of a group. Units never lie on both
sides of a division, and each gives the threshold one negative.

Copies are no new evidence. Rows of a few levels are often equal by chance, but then rows that come twice, three times
and so on follow a pattern that copies do not. And a number with many digits does not come twice by chance: rows that
share it, and everything else, and that nobody else shares it with, are one observation.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from taufpl._row_hashes import row_hashes, times_by_chance
from taufpl._sklearn import safe_indexing
from taufpl.exceptions import PositiveLabelWarning, RepeatedRowsWarning

Rows = NDArray[np.intp]

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
# Labels whose larger one everybody takes for positive, in any numeric type: True is 1, and 1.0 is 1.
_USUAL = ([0, 1], [-1, 1])
# Frames between the line of the user and the place where its labels are read.
_INSIDE = ("taufpl.", "sklearn.", "contextlib")


@dataclass(frozen=True, slots=True)
class TwoClasses:
    """The labels of a binary problem, and which rows have them.

    Attributes
    ----------
    classes : ndarray of shape (2,)
        The label of negatives, then that of positives.
    positive_rows, negative_rows : ndarray of int
    """

    classes: NDArray[Any]
    positive_rows: NDArray[np.intp]
    negative_rows: NDArray[np.intp]


def split_labels(y: NDArray[Any], pos_label: Any = None) -> TwoClasses:
    """Tell positives from negatives.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Two different labels.
    pos_label : label, default=None
        Which of them is positive; None takes the second in sorted order.

    Raises
    ------
    ValueError
        If there are not exactly two labels, or `pos_label` is not one of them.

    Warns
    -----
    PositiveLabelWarning
        If `pos_label` is None and the labels are other than 0 and 1, -1 and 1, or False and True.
    """
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    labels, codes = np.unique(y, return_inverse=True)
    positive = _positive_place(labels, kind, pos_label, len(y))
    return TwoClasses(
        labels[[1 - positive, positive]], np.flatnonzero(codes == positive), np.flatnonzero(codes != positive)
    )


def order_labels(labels: NDArray[Any], pos_label: Any, n_rows: int) -> NDArray[Any]:
    """The label of negatives, then that of positives, from the distinct labels of `n_rows` rows, ascending."""
    check_classification_targets(labels)
    positive = _positive_place(labels, type_of_target(labels, input_name="y"), pos_label, n_rows)
    return labels[[1 - positive, positive]]


def _positive_place(labels: NDArray[Any], kind: str, pos_label: Any, n_rows: int) -> int:
    """Which of the distinct labels is that of positives: 0 or 1."""
    if len(labels) > 2 or kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}. "
            "Turn y into two labels, for example y == the_label_to_find."
        )
    if len(labels) < 2:
        raise ValueError(
            "y must have two classes, negatives and positives; "
            f"got one class only, {labels.tolist()[0]!r}, in {n_rows} rows."
        )
    if pos_label is None:
        if labels.tolist() not in _USUAL:
            other, taken = labels.tolist()
            warn_user(
                f"{taken!r} is taken for the positive label, the one to find, and not {other!r}, because it is the "
                f"last in sorted order. Say which one is meant: pos_label={taken!r} or pos_label={other!r}.",
                PositiveLabelWarning,
            )
        return 1
    found = np.flatnonzero(labels == pos_label)
    if len(found) != 1:
        raise ValueError(f"pos_label must be one of the labels in y, {labels.tolist()}; got {pos_label!r}.")
    return int(found[0])


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn on the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def count_labels(labels: NDArray[Any]) -> dict[Any, int]:
    """Distinct labels of rows in memory, and how many rows have each."""
    if labels.dtype.kind == "O":  # which need not have an order
        return Counter(labels.tolist())
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def check_known(counts: dict[Any, int], classes: NDArray[Any]) -> None:
    """Refuse labels that a fitted model does not know, and rows without any negative."""
    known = classes.tolist()
    strange = [label for label in counts if label not in known]
    if strange:
        raise ValueError(f"y must hold the labels that the fitted estimator knows, {known}; got {strange} too.")
    if known[0] not in counts:
        raise ValueError(
            f"y must hold negatives, {known[0]!r}, to calibrate a fitted estimator on; "
            f"got {sum(counts.values())} rows without any."
        )


@dataclass(frozen=True, slots=True)
class Units:
    """The units of all rows of X.

    Attributes
    ----------
    groups : ndarray of int or None
        For each row the code of its group; None: every row is a unit.
    times : ndarray of int or None
        For each row its place in time, equal for equal times; None: rows have no order.
    copies : ndarray of int or None
        For each row a code that identical rows share, -1 for rows that are like no other; None: there are none.
    """

    groups: Rows | None = None
    times: Rows | None = None
    copies: Rows | None = None

    def of(self, rows: Rows) -> Rows:
        """The unit of each of these rows."""
        return rows if self.groups is None else self.groups[rows]

    def count(self, rows: Rows) -> int:
        """How many units have one of these rows."""
        return rows.size if self.groups is None else np.unique(self.groups[rows]).size

    def take(self, rows: Rows) -> Units:
        """The units of some rows, which are then counted from 0."""
        return Units(*(None if each is None else each[rows] for each in (self.groups, self.times, self.copies)))

    def one_each(self, rows: Rows, seed: int) -> Rows:
        """One of these rows from each of their units, drawn at random, always the same of a unit; ascending."""
        if self.groups is None:
            return np.sort(rows)
        drawn = rows[np.argsort(np.random.default_rng(seed).random(self.groups.size)[rows])]
        _, first = np.unique(self.groups[drawn], return_index=True)
        return np.sort(drawn[first])

    def with_all(self, rows: Rows, among: Rows) -> NDArray[np.bool_]:
        """Which rows of `among` belong to a unit of `rows`."""
        return np.isin(self.of(among), self.of(rows))

    def deal(self, rows: Rows, is_positive: NDArray[np.bool_], n_folds: int, seed: int) -> Rows:
        """The fold of each row: groups are dealt out so that each fold has its share of both classes.

        Groups with many positives come first, then those with many negatives, in an order that runs to and fro over the
        folds; equals are shuffled.
        """
        codes, places = np.unique(self.of(rows), return_inverse=True)
        n_positive = np.bincount(places, weights=is_positive)
        n_negative = np.bincount(places, weights=~is_positive)
        shuffled = np.random.default_rng(seed).random(codes.size)
        order = np.lexsort((shuffled, -n_negative, -n_positive))
        to_and_fro = np.concatenate((np.arange(n_folds), np.arange(n_folds)[::-1]))
        folds = np.empty(codes.size, dtype=np.intp)
        folds[order] = to_and_fro[np.arange(codes.size) % to_and_fro.size]
        return folds[places]

    def copies_caveat(self, train: Rows, held_out: Rows) -> str | None:
        """A sentence where copies of held-out negatives lie among the training rows, or among themselves."""
        if self.copies is None:
            return None
        own = self.copies[held_out]
        codes, counts = np.unique(own[own >= 0], return_counts=True)
        n_copies = int(np.sum(counts[(counts > 1) | np.isin(codes, self.copies[train])]))
        if not n_copies:
            return None
        return (
            f"{n_copies:,} of the {held_out.size:,} negatives that chose the threshold are exact copies of others or "
            "of training rows: they are not independent"
        )


def read_units(groups: Any, order: Any, n_rows: int) -> Units:
    """Groups and times as they were given, checked and coded.

    Raises
    ------
    ValueError
        One has another length than X, or misses a value.
    """
    times = _codes("order", order, n_rows)
    if times is not None and any(isinstance(each, str | bytes) for each in np.asarray(order).ravel()[:1].tolist()):
        raise ValueError("order must hold numbers or dates, got texts: sorted by the alphabet, 10 would come before 9.")
    return Units(_codes("groups", groups, n_rows), times)


def _codes(name: str, values: Any, n_rows: int) -> Rows | None:
    """For each row which of the different values it has, ascending."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(f"{name} must have one entry a row of X, {n_rows}; got an array of shape {array.shape}.")
    missing = _is_missing(array)
    if missing.any():
        raise ValueError(
            f"{name} must have a value for every row; {int(missing.sum())} are missing, first in row "
            f"{int(np.argmax(missing))}. Give those rows a value of their own, or leave them out."
        )
    try:
        _, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} must hold values of one kind that can be sorted; got a mixture.") from error
    return codes.astype(np.intp)


def _is_missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind == "O":
        return np.array([_is_no_value(each) for each in array.tolist()])
    return array != array


def _is_no_value(value: Any) -> bool:
    """None, NaN, and what pandas has for them."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def find_copies(X: Any, negative_rows: Rows) -> Rows | None:
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
    warn_user(
        f"{n_copies:,} of {negative_rows.size:,} negatives repeat exactly, as {n_different:,} different rows, more "
        "often than chance explains. Copies are no new evidence: the guarantee does not hold where they lie on both "
        "sides of the division. Leave copies out, or name what belongs together by groups=.",
        RepeatedRowsWarning,
    )
    copies = np.full(table.shape[0], -1, dtype=np.intp)
    copies[negative_rows] = codes
    return copies


def copies_among(X: Any) -> Rows | None:
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


def _as_table(X: Any) -> Any:
    """Rows and columns: a frame or matrix as it is, lists as an array, and a list of texts as one column."""
    if len(getattr(X, "shape", ())) == 2:
        return X
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return None
    return array if array.ndim == 2 else array[:, np.newaxis] if array.ndim == 1 else None


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
