"""Stratified random splits for the rounds of out-of-bootstrap thresholding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_count, check_tau
from taufpl._types import RowIndices


def stratified_rounds(
    y_is_positive: ArrayLike,
    n_rounds: int,
    train_share: float = 2 / 3,
    rng: np.random.Generator | np.random.RandomState | int | None = None,
) -> Iterator[tuple[RowIndices, RowIndices]]:
    """Independent random splits that keep the share of each class, both classes in both parts.

    Parameters
    ----------
    y_is_positive : array-like of bool, shape (n_samples,)
    n_rounds : int
        How many splits.
    train_share : float, default=2/3
        Share of each class that trains, rounded to whole rows and to leave at least one row on either side.
    rng : Generator, RandomState, int or None, default=None
        Source of randomness, or its seed.

    Yields
    ------
    train, held_out : ndarray of int
        Row numbers, ascending.

    Examples
    --------
    >>> from taufpl.thresholding import stratified_rounds
    >>> for train, held_out in stratified_rounds([False] * 6 + [True] * 3, n_rounds=2, rng=0):
    ...     print(len(train), len(held_out))
    6 3
    6 3
    """
    is_positive = np.asarray(y_is_positive)
    if is_positive.ndim != 1 or is_positive.dtype != np.bool_:
        raise ValueError(
            "y_is_positive must be a one-dimensional array of booleans, "
            f"got shape {is_positive.shape} and dtype {is_positive.dtype}."
        )
    n_rounds = check_count("n_rounds", n_rounds, least=1)
    train_share = check_tau(train_share, "train_share")
    classes = {"positive": np.flatnonzero(is_positive), "negative": np.flatnonzero(~is_positive)}
    for name, rows in classes.items():
        if rows.size < 2:
            raise ValueError(
                f"y_is_positive must hold at least 2 {name}s, one to train on and one to hold out; got {rows.size}. "
                "Give more of them, or choose a threshold that needs no split."
            )
    random = rng if isinstance(rng, (np.random.Generator, np.random.RandomState)) else np.random.default_rng(rng)
    return _rounds(list(classes.values()), n_rounds, train_share, random)


def _rounds(
    classes: list[RowIndices], n_rounds: int, train_share: float, rng: np.random.Generator | np.random.RandomState
) -> Iterator[tuple[RowIndices, RowIndices]]:
    for _ in range(n_rounds):
        train, held_out = [], []
        for rows in classes:
            n_train = min(max(round(train_share * rows.size), 1), rows.size - 1)
            shuffled = rng.permutation(rows)
            train.append(shuffled[:n_train])
            held_out.append(shuffled[n_train:])
        # Ascending row numbers read memory in order.
        yield np.sort(np.concatenate(train)), np.sort(np.concatenate(held_out))
