"""Remote rows and their labels, read and checked without being moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.validation import check_consistent_length

from taufpl._sklearn import check_feature_names, check_n_features
from taufpl._types import Array
from taufpl.estimators._reading import check_known, order_labels
from taufpl.estimators.remote._table import BlockScores, BlockTable
from taufpl.operators import are_together, is_foreign_array, is_remote, plain, to_numpy
from taufpl.operators.remote import Block, State, as_blocks, check_rows, divide, header, label_counts


def check_header(estimator: Any, X: Any, *, reset: bool) -> None:
    """Number and names of the columns, as scikit-learn checks them: kept at a fit, compared later."""
    columns = header(X)
    if len(columns.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(columns.shape)}D array instead: X must have rows and columns, "
            f"its shape is {tuple(columns.shape)}."
        )
    check_feature_names(estimator, columns, reset=reset)
    check_n_features(estimator, columns, reset=reset)


@contextmanager
def open_table(estimator: Any, X: Any, y: Any) -> Iterator[BlockTable]:
    """All rows of X with labels y, checked where they are; whatever happens, they are let go of at the end.

    Sets `classes_`, `n_features_in_` and `feature_names_in_` of the estimator.
    """
    check_header(estimator, X, reset=True)
    for size, name in zip(X.shape, ("sample", "feature"), strict=True):
        if isinstance(size, int) and size == 0:
            raise ValueError(f"Found array with 0 {name}(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
    with as_blocks(X, _read_labels(X, y)) as blocks:
        counts = label_counts(blocks)
        estimator.classes_ = order_labels(np.array(list(counts)), estimator._positive_label(), sum(counts.values()))
        divide(blocks, estimator.classes_.tolist()[1])
        if not get_tags(estimator).input_tags.allow_nan:
            check_rows(blocks)
        yield BlockTable.of(blocks, estimator)


@contextmanager
def open_scores(scores: Any, y: Any, classes: Array) -> Iterator[tuple[BlockTable, BlockScores]]:
    """Scores as a table of one column, and as samples of negatives and positives; without y all are of negatives."""
    column = scores[:, None]
    with as_blocks(column, None if y is None else _read_labels(column, y)) as blocks:
        if y is None:
            blocks.change(_AllNegative())
        else:
            check_known(label_counts(blocks), classes)
            divide(blocks, classes.tolist()[1])
        table = BlockTable.of(blocks)
        yield table, table.scores(np.ones(1))


def _read_labels(X: Any, y: Any) -> Any:
    """Labels for blocks: collections, and arrays beside an array of their library, stay where they are."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: y must hold the labels of the rows of X.")
    if is_remote(y) and not is_foreign_array(y) and not is_foreign_array(X):
        return y
    labels = plain(y) if are_together(X, y) and len(y.shape) == 1 else column_or_1d(to_numpy(y), warn=True)
    if isinstance(X.shape[0], int):
        check_consistent_length(np.broadcast_to(0, (X.shape[0],)), np.broadcast_to(0, labels.shape))
    return labels


@dataclass(frozen=True)
class _AllNegative:
    """Mark every row as a negative."""

    def __call__(self, block: Block, state: State) -> State:
        everything = block.asarray(np.ones(block.shape[0], dtype=bool))
        return {**state, "is_negative": everything, "is_positive": ~everything}
