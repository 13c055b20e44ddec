"""Which rows belong together and when they came: what a division of the rows must respect.

A unit is what the guarantee counts: a row, or, where groups are given, all rows of a group. Units never lie on both
sides of a division, and each gives the threshold one negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Units:
    """The units of all rows of X.

    Attributes
    ----------
    groups : ndarray of int or None
        For each row the code of its group; None: every row is a unit.
    times : ndarray of int or None
        For each row its place in time, equal for equal times; None: rows have no order.
    repeats : ndarray of int or None
        For each row a code that identical rows share, -1 for rows that are like no other; None: there are none.
    """

    groups: Rows | None = None
    times: Rows | None = None
    repeats: Rows | None = None

    def of(self, rows: Rows) -> Rows:
        """The unit of each of these rows."""
        return rows if self.groups is None else self.groups[rows]

    def count(self, rows: Rows) -> int:
        """How many units have one of these rows."""
        return rows.size if self.groups is None else np.unique(self.groups[rows]).size

    def take(self, rows: Rows) -> Units:
        """The units of some rows, which are then counted from 0."""
        return Units(*(None if each is None else each[rows] for each in (self.groups, self.times, self.repeats)))

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


def refuse_units(groups: Any, order: Any) -> None:
    """Groups and times are for rows in memory.

    Raises
    ------
    ValueError
        One was given.
    """
    for name, given in (("groups", groups), ("order", order)):
        if given is not None:
            raise ValueError(
                f"{name} is for rows in memory, and X lives elsewhere. Fit on a sample of the rows in memory; or "
                "divide them yourself, fit a ranker on one part, and give it to NeymanPearsonClassifier(cv='prefit') "
                "with one negative of each group of the other part."
            )


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
