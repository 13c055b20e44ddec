"""From labels to the rows of two classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from taufpl.estimators._units import Units


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
    positive = 1
    if pos_label is not None:
        found = np.flatnonzero(labels == pos_label)
        if len(found) != 1:
            raise ValueError(f"pos_label must be one of the labels in y, {labels.tolist()}; got {pos_label!r}.")
        positive = int(found[0])
    return positive


def split_rows(rows: NDArray[np.intp], positive_rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The positives among some rows, and the others, each in the order given."""
    is_positive = np.isin(rows, positive_rows, assume_unique=True)
    return rows[is_positive], rows[~is_positive]
