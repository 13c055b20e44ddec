"""Rows of two classes that live elsewhere: read and checked without being moved, and divided into parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from taufpl._sklearn import check_feature_names, check_n_features
from taufpl.estimators._block_parts import AssignParts, Division, Pair
from taufpl.estimators._labels import order_labels
from taufpl.operators import is_foreign_array, is_remote, to_numpy
from taufpl.operators.remote import (
    Block,
    Blocks,
    State,
    as_blocks,
    check_rows,
    divide,
    header,
    label_counts,
    rows_on_host,
)

_CODES = "part"


@dataclass(frozen=True)
class Part:
    """Some rows of each class.

    Attributes
    ----------
    blocks : Blocks
        With masks `is_positive` and `is_negative` in every state; rows in neither take no part.
    counts : tuple of pairs
        Negatives and positives of each block.
    first_kind : int
        Class of the first row of all: 1 if positive.
    """

    blocks: Blocks
    counts: tuple[Pair, ...]
    first_kind: int

    @classmethod
    def of(cls, blocks: Blocks) -> Part:
        """The rows that the masks name. One round."""
        found = blocks.gather(_CountAndFirst())
        counts = tuple((negative, positive) for negative, positive, _ in found)
        return cls(blocks, counts, next((first for *_, first in found if first >= 0), 0))

    @property
    def sizes(self) -> Pair:
        """All negatives and all positives."""
        negative, positive = np.sum(self.counts, axis=0).tolist()
        return negative, positive

    @property
    def n_negative(self) -> int:
        """All negatives."""
        return self.sizes[0]

    @property
    def n_positive(self) -> int:
        """All positives."""
        return self.sizes[1]

    @contextmanager
    def divided(self, division: Division) -> Iterator[Divided]:
        """Give every row a code; codes are let go of at the end."""
        blocks = self.blocks.fork(AssignParts.of(division, self.counts, _CODES))
        try:
            yield Divided(blocks)
        finally:
            blocks.release()


@dataclass(frozen=True)
class Divided:
    """Rows with codes."""

    blocks: Blocks

    @contextmanager
    def rows_of(self, code: int, *, others: bool = False) -> Iterator[Part]:
        """The rows with a code, or all others, as a part by itself; let go of at the end."""
        blocks = self.blocks.fork(_Take(code, others))
        try:
            yield Part.of(blocks)
        finally:
            blocks.release()


@dataclass(frozen=True)
class _CountAndFirst:
    """Negatives, positives, and the class of the first row that takes part; -1 if there is none."""

    def __call__(self, block: Block, state: State) -> tuple[int, int, int]:
        xp = block.xp
        masks = state["is_negative"], state["is_positive"]
        negative, positive = (int(count) for count in block.to_host(*(xp.count_nonzero(mask) for mask in masks)))
        first = -1
        if negative and positive:
            places = block.to_host(*(xp.argmax(xp.astype(mask, xp.int32)) for mask in masks))
            first = int(places[1] < places[0])
        elif negative or positive:
            first = int(positive > 0)
        return negative, positive, first


@dataclass(frozen=True)
class _Take:
    code: int
    others: bool

    def __call__(self, block: Block, state: State) -> State:
        codes = state[_CODES]
        chosen = (codes != self.code) if self.others else (codes == self.code)
        masks = {name: state[name] & chosen for name in ("is_negative", "is_positive")}
        return {"number": state["number"], "start": state["start"], **masks}


def in_memory(name: str, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Rows and labels for what computes in this process: arrays of other libraries are copied, collections refused.

    Raises
    ------
    TypeError
        If X is a dask collection.
    """
    if is_remote(X) and not is_foreign_array(X):
        raise TypeError(
            f"{needs_memory(name)} X is a {type(X).__module__.partition('.')[0]} collection, {type(X).__name__}: give "
            "X.compute(), or a sample of its rows, where that fits."
        )
    return rows_on_host(X), to_numpy(y) if is_foreign_array(y) else y


def needs_memory(name: str) -> str:
    """What to say of an estimator or a function that takes no rows that live elsewhere."""
    return (
        f"{name} needs rows in memory: NumPy arrays, SciPy matrices, or dataframes. TauFPLRanker, TauFPLRankerCV, "
        "TauFPLClassifier and TopPush take rows that live elsewhere."
    )


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
def read_part(estimator: Any, X: Any, y: Any, pos_label: Any) -> Iterator[Part]:
    """All rows of X with labels y, checked where they are; whatever happens, they are let go of at the end.

    Sets `classes_`, `n_features_in_` and `feature_names_in_` of the estimator.
    """
    check_header(estimator, X, reset=True)
    for size, name in zip(X.shape, ("sample", "feature"), strict=True):
        if isinstance(size, int) and size == 0:
            raise ValueError(f"Found array with 0 {name}(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
    with as_blocks(X, read_labels(X, y)) as blocks:
        counts = label_counts(blocks)
        estimator.classes_ = order_labels(np.array(list(counts)), pos_label, sum(counts.values()))
        divide(blocks, estimator.classes_.tolist()[1])
        check_rows(blocks)
        yield Part.of(blocks)


def read_labels(X: Any, y: Any) -> Any:
    """Labels for blocks: collections stay what they are, one array comes here."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: y must hold the labels of the rows of X.")
    if is_remote(y) and not is_foreign_array(y) and not is_foreign_array(X):
        return y
    labels = column_or_1d(to_numpy(y), warn=True)
    if isinstance(X.shape[0], int):
        check_consistent_length(np.broadcast_to(0, (X.shape[0],)), labels)
    return labels
