"""From labels to the rows of two classes."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from taufpl.estimators._units import Units
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
    units : Units
        Which rows belong together.
    """

    classes: NDArray[Any]
    positive_rows: NDArray[np.intp]
    negative_rows: NDArray[np.intp]
    units: Units = field(default_factory=Units)


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
            _warn_taken(*labels.tolist())
        return 1
    found = np.flatnonzero(labels == pos_label)
    if len(found) != 1:
        raise ValueError(f"pos_label must be one of the labels in y, {labels.tolist()}; got {pos_label!r}.")
    return int(found[0])


def _warn_taken(other: Any, taken: Any) -> None:
    """Say which label was taken for positive, on the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{taken!r} is taken for the positive label, the one to find, and not {other!r}, because it is the last in "
        f"sorted order. Say which one is meant: pos_label={taken!r} or pos_label={other!r}.",
        PositiveLabelWarning,
        stacklevel=level,
    )


def split_rows(rows: NDArray[np.intp], positive_rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The positives among some rows, and the others, each in the order given."""
    is_positive = np.isin(rows, positive_rows, assume_unique=True)
    return rows[is_positive], rows[~is_positive]
