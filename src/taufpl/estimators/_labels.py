"""From labels to the rows of two classes."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from taufpl.exceptions import PositiveLabelWarning

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
    """The label of negatives, then that of positives, from the distinct labels of so many rows, ascending."""
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
