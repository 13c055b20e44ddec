"""The data of a fit, read and checked: rows wherever they are, classes, units, times and segments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from taufpl._checks import near_or_all
from taufpl._row_hashes import copies_among, is_missing
from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Mask, RowIndices
from taufpl._warnings import warn_user
from taufpl.estimators._table import Scores, Table
from taufpl.exceptions import PositiveLabelWarning, RepeatedRowsWarning
from taufpl.operators import is_foreign_array, is_remote, like, to_numpy
from taufpl.preprocessing import column_at
from taufpl.thresholding import level_codes, segment_tolerances

# Arrays of a fitted linear model, which follow X where scikit-learn is told that they should.
_FOLLOWING = ("coef_", "intercept_", "thresholds_")
# Labels whose larger one everybody takes for positive, in any numeric type: True is 1, and 1.0 is 1.
_USUAL = ([0, 1], [-1, 1])
# A code for each row that it shares with its copies, -1 where it has none; or None.
CopyFinder = Callable[[Any], RowIndices | None]


@dataclass(frozen=True, slots=True)
class TwoClasses:
    """The label of negatives and that of positives, and which rows have them, ascending."""

    classes: Array
    positive_rows: RowIndices
    negative_rows: RowIndices


def split_labels(y: Array, pos_label: Any = None) -> TwoClasses:
    """Tell positives from negatives: `pos_label`, or, where it is None, the second of the two labels in sorted order.

    None warns where the labels are other than 0 and 1, -1 and 1, or False and True.
    """
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    labels, codes = np.unique(y, return_inverse=True)
    positive = _positive_place(labels, kind, pos_label, len(y))
    is_positive = codes == positive
    return TwoClasses(labels[[1 - positive, positive]], np.flatnonzero(is_positive), np.flatnonzero(~is_positive))


def calibration_classes(y: Array, pos_label: Any) -> Array:
    """The label of negatives, then that of positives; negatives alone will do where `pos_label` names the others."""
    labels = np.unique(y)
    if len(labels) == 1 and pos_label is not None and pos_label != labels[0]:
        return np.array([labels[0], pos_label])
    if len(labels) == 1:
        raise ValueError(
            f"y holds one class only, {labels.tolist()[0]!r}, and nothing else tells the classes: name the label of "
            "positives by pos_label, and give negatives, which choose the threshold."
        )
    return split_labels(y, pos_label).classes


def order_labels(labels: Array, pos_label: Any, n_rows: int) -> Array:
    """The label of negatives, then that of positives, from the distinct labels of `n_rows` rows, ascending."""
    check_classification_targets(labels)
    positive = _positive_place(labels, type_of_target(labels, input_name="y"), pos_label, n_rows)
    return labels[[1 - positive, positive]]


def _positive_place(labels: Array, kind: str, pos_label: Any, n_rows: int) -> int:
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


def count_labels(labels: Array) -> dict[Any, int]:
    """Distinct labels of rows in memory, and how many rows have each."""
    if labels.dtype.kind == "O":  # which need not have an order
        return Counter(labels.tolist())
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def check_known(counts: dict[Any, int], classes: Array) -> None:
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
    """Which rows of X belong together, when they came, which are copies of each other, and of which segment each is."""

    groups: RowIndices | None = None  # a code for the group of each row; None: every row is a unit by itself
    times: RowIndices | None = None  # a code for the time of each row, ascending; None: rows have no order
    copies: RowIndices | None = None  # a code for equal rows, -1 for rows that stand once; None: there are no copies
    segments: RowIndices | None = None  # a code for the segment of each row; None: there is one tolerance for all

    def of(self, rows: RowIndices) -> RowIndices:
        """The unit of each of these rows."""
        return rows if self.groups is None else self.groups[rows]

    def count(self, rows: RowIndices) -> int:
        """How many units have one of these rows."""
        return rows.size if self.groups is None else np.unique(self.groups[rows]).size

    def take(self, rows: RowIndices) -> Units:
        """The units of some rows, which are then counted from 0."""
        own = (self.groups, self.times, self.copies, self.segments)
        return Units(*(None if each is None else each[rows] for each in own))

    def one_each(self, rows: RowIndices, seed: int) -> RowIndices:
        """One of these rows from each of their units, drawn at random, always the same of a unit; ascending."""
        if self.groups is None:
            return np.sort(rows)
        drawn = rows[np.argsort(np.random.default_rng(seed).random(self.groups.size)[rows])]
        _, first = np.unique(self.groups[drawn], return_index=True)
        return np.sort(drawn[first])

    def with_all(self, rows: RowIndices, among: RowIndices) -> Mask:
        """Which rows of `among` belong to a unit of `rows`."""
        return np.isin(self.of(among), self.of(rows))

    def deal(self, rows: RowIndices, is_positive: Mask, n_folds: int, seed: int) -> RowIndices:
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

    def copies_caveat(self, train: RowIndices, held_out: RowIndices) -> str | None:
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


def read_units(groups: Any, order: Any, n_rows: int, segments: RowIndices | None = None) -> Units:
    """Groups and times as they were given, checked and coded; segments are coded already."""
    times = _codes("order", order, n_rows)
    if times is not None and any(isinstance(each, str | bytes) for each in np.asarray(order).ravel()[:1].tolist()):
        raise ValueError("order must hold numbers or dates, got texts: sorted by the alphabet, 10 would come before 9.")
    return Units(_codes("groups", groups, n_rows), times, segments=segments)


def _codes(name: str, values: Any, n_rows: int) -> RowIndices | None:
    """For each row which of the different values it has, ascending."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(f"{name} must have one entry a row of X, {n_rows}; got an array of shape {array.shape}.")
    missing = np.array([is_missing(each) for each in array]) if array.dtype.kind == "O" else array != array
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


def find_copies(X: Any, negative_rows: RowIndices, among: CopyFinder = copies_among) -> RowIndices | None:
    """For each row a code that it shares with its copies among the negatives, -1 where it has none; warns of copies.

    None where nothing repeats, and where X cannot be made a table of, such as a list of images.
    """
    table = _as_table(X)
    codes = None if table is None else among(safe_indexing(table, negative_rows))
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


def _as_table(X: Any) -> Any:
    """Rows and columns: a frame or matrix as it is, lists as an array, and a list of texts as one column."""
    if len(getattr(X, "shape", ())) == 2:
        return X
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return None
    return array if array.ndim == 2 else array[:, np.newaxis] if array.ndim == 1 else None


def possible_folds(wanted: int, table: Table) -> int:
    """As many folds as are wanted, or as every one of them can have a unit of each class."""
    fewest = min(table.n_positive_units, table.n_negative_units)
    if fewest < 2:
        counts = ((table.n_positive_units, "positive"), (table.n_negative_units, "negative"))
        got = " and ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in counts)
        raise ValueError(
            f"cross-validation needs at least 2 rows of each class, got {got}. Give more rows; or give reg, and for "
            'kernels gamma, as numbers with threshold="np", which takes no folds.'
        )
    return min(wanted, fewest)


# Held-out positives that choose the parameters of a classifier: a share of this many has a standard error of .0035 at
# most, and the difference of two shares of the same positives one of about .001.
ENOUGH_POSITIVES = 20_000


def enough_folds(n_folds: int, n_positive: int, enough: int) -> int:
    """As few of the folds as hold this many positives, of which each has an equal share; all where there are fewer."""
    return min(n_folds, math.ceil(enough * n_folds / n_positive))


@contextmanager
def make_table(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    order: Any = None,
    params: dict[str, Any] | None = None,
    segments: RowIndices | None = None,
) -> Iterator[Table]:
    """All rows of a fit, checked; remote rows are let go of at the end, whatever happens.

    Sets `classes_`, `n_features_in_` and `feature_names_in_` of the estimator. Its `_read_table` reads rows in memory,
    `_takes_remote` says whether it is fitted on X where it is, and `_check_remote` refuses what is for memory only.
    """
    if not (is_remote(X) and estimator._takes_remote(X)):
        yield estimator._read_table(X, y, groups, order, params, segments)
        return
    from taufpl.estimators.remote import open_table

    refuse_units(groups, order)
    if params:
        raise ValueError(f"remote rows take no parameters of fit, got {sorted(params)}.")
    estimator._check_remote(X)
    with open_table(estimator, X, y) as table:
        yield table
    if get_config()["array_api_dispatch"] and hasattr(estimator, "coef_"):
        follow(estimator, X)


@contextmanager
def score_table(estimator: Any, scores: Any, X: Any, y: Any, groups: Any, plan: Any) -> Iterator[tuple[Table, Scores]]:
    """Rows that a fitted scorer has not seen, with their scores: one negative of each group, and all positives.

    Without y all rows are negatives.
    """
    if not is_remote(scores):
        yield estimator._read_scores(scores, X, y, groups, plan)
        return
    from taufpl.estimators.remote import open_scores

    refuse_units(groups, None)
    with open_scores(scores, y, to_numpy(estimator.classes_)) as opened:
        yield opened


def follow(estimator: Any, array: Any) -> None:
    """Put the arrays of a fitted model into the library of an array and on its device, unless that is NumPy."""
    for name in _FOLLOWING if is_foreign_array(array) else ():
        if name in vars(estimator):
            setattr(estimator, name, like(array, getattr(estimator, name)))


def in_memory(name: str, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Rows and labels for what computes in this process: arrays of other libraries are copied, collections refused."""
    if is_remote(X):
        if not is_foreign_array(X):
            raise TypeError(
                f"{needs_memory(name)} X is a {type(X).__module__.partition('.')[0]} collection, {type(X).__name__}: "
                "give X.compute(), or a sample of its rows, where that fits."
            )
        from taufpl.operators.remote import rows_on_host

        X = rows_on_host(X)
    return X, to_numpy(y) if is_foreign_array(y) else y


def needs_memory(name: str) -> str:
    """What to say of an estimator or a function that takes no remote rows."""
    return (
        f"{name} needs rows in memory: NumPy arrays, SciPy matrices, or dataframes. TauFPLRanker, TauFPLRankerCV, "
        "TauFPLClassifier, NeymanPearsonClassifier, ScreeningClassifier and baselines.TopPush take remote rows."
    )


def refuse_units(groups: Any, order: Any) -> None:
    """Refuse groups and times of remote rows."""
    for name, given in (("groups", groups), ("order", order)):
        if given is not None:
            raise ValueError(
                f"{name} is for rows in memory, and X is remote. Fit on a sample of the rows in memory; or divide them "
                "yourself, fit a ranker on one part, and give it to NeymanPearsonClassifier(cv='prefit') with one "
                "negative of each group of the other part."
            )


@dataclass(frozen=True, slots=True)
class RowSegments:
    """The segments of some rows by their codes, and the tolerance of each segment in the order of the codes.

    `column` of X and `is_number` are as in :class:`taufpl.thresholding.SegmentThresholds`.
    """

    codes: RowIndices
    taus: dict[str, float]
    is_number: bool
    column: str | int | None = None


def labels_of_rows(source: Any, X: Any, given: Any) -> Any:
    """The label of each row's segment: those given, else from the column or the function that `source` is; or None."""
    if given is None and source is None:
        return None
    if is_remote(X):
        raise TypeError(
            "segments are for rows in memory, and X is remote. Fit the scorer on the remote rows, and choose its "
            "thresholds by NeymanPearsonClassifier(scorer, cv='prefit') on a sample in memory, with segments."
        )
    if given is not None:
        return given
    labels = source(X) if callable(source) else _column(source, X)
    if labels is None:
        raise ValueError("the function that segments= is must give one label a row of X; got None.")
    return labels


def read_segments(labels: Any, tau: Any, n_rows: int, known: Sequence[str] = ()) -> RowSegments | None:
    """Labels as codes, with the tolerance of every segment; None where there are no labels.

    Segments that are `known` may have no row.
    """
    if labels is None:
        if isinstance(tau, Mapping):
            raise ValueError(
                "tau has a tolerance for each segment, but nothing says of which segment a row is: name a column by "
                "the parameter segments, or give segments= with the rows, one label a row."
            )
        return None
    if np.ndim(tau):
        raise ValueError(
            f"tau must be a number, or have a number for each segment, where there are segments; got {tau!r}. Fit a "
            "classifier for each tolerance."
        )
    found = level_codes(labels, "segments", n_rows)
    names = sorted({*found.names, *known})
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place[name] for name in found.names], dtype=np.intp)[found.codes]
    return RowSegments(codes, segment_tolerances(tau, names), found.is_number)


def _column(which: str | int, X: Any) -> Any:
    """A column of a frame by its name or position, or of an array or matrix by its position."""
    names = getattr(X, "columns", None)
    if isinstance(which, str):
        if names is None:
            raise ValueError(
                f"segments={which!r} names a column, and X is {type(X).__name__}, whose columns have no names: give "
                "the position of the column, or give segments= with the rows."
            )
        if which not in list(names):
            raise ValueError(f"segments={which!r} is no column of X.{near_or_all(which, map(str, names), 'columns')}")
        return X[which]
    table: Any = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    n_columns = table.shape[1] if len(table.shape) == 2 else 0
    if not 0 <= which < n_columns:
        raise ValueError(f"segments={which} is no column of X, whose columns have the positions 0 to {n_columns - 1}.")
    return table[:, [which]].toarray().ravel() if hasattr(table, "tocsr") else column_at(table, which)
