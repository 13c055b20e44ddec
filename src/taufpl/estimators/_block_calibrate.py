"""Thresholds of fitted scorers from rows that live elsewhere: scores are computed there, and stay there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from taufpl.estimators._block_scores import Direction, Held, score
from taufpl.estimators._block_table import Part, read_labels
from taufpl.estimators._fitters import scores_of
from taufpl.estimators._linear import LinearScorer
from taufpl.operators.remote import Block, State, as_blocks, divide, label_counts, map_rows


def scores_remote(model: Any, X: Any, positive: Any) -> Any:
    """Scores of a fitted model, higher for positives, where the rows of X are; of a collection not computed yet."""
    inner = model.estimator if isinstance(model, FrozenEstimator) else model
    if isinstance(inner, LinearScorer):
        scores = inner.decision_function(X)
        return scores if inner.classes_[1] == positive else -scores
    return map_rows(X, partial(scores_of, model, positive=positive))


@contextmanager
def held_scores(scores: Any, y: Any, classes: NDArray[Any]) -> Iterator[Held]:
    """Samples of scores that live elsewhere, of negatives and of positives; without y all are of negatives.

    Raises
    ------
    ValueError
        If y has other labels than the two classes, or no negatives.
    """
    column = scores[:, None]
    with as_blocks(column, None if y is None else read_labels(column, y)) as blocks:
        if y is None:
            blocks.change(_AllNegative())
        else:
            check_known(label_counts(blocks), classes)
            divide(blocks, classes.tolist()[1])
        part = Part.of(blocks)
        score(part, Direction(np.ones(1)))
        yield Held.of(part)


def counted(labels: NDArray[Any]) -> dict[Any, int]:
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


@dataclass(frozen=True)
class _AllNegative:
    def __call__(self, block: Block, state: State) -> State:
        everything = block.asarray(np.ones(block.shape[0], dtype=bool))
        return {**state, "is_negative": everything, "is_positive": ~everything}
