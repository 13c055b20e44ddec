"""Scores as threshold rules see them, and random divisions of rows that keep the shares of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import Scores, check_count, check_scores, check_tau
from taufpl._types import RowIndices
from taufpl.problem import top_count


class Sample(ABC):
    """Scores of some rows, wherever they are kept.

    Rules ask no more than this, so that they give the same evidence for an array and for remote scores.

    Attributes
    ----------
    size : int
        How many scores there are, at least one.
    """

    size: int

    @abstractmethod
    def at_rank(self, rank: int) -> float:
        """The rank-th smallest score, from 1 to `size`; equal scores have a rank each."""

    @abstractmethod
    def n_above(self, threshold: float) -> int:
        """How many scores are strictly greater."""

    @abstractmethod
    def above(self, threshold: float) -> Scores:
        """The scores that are strictly greater, in any order, as an array in memory."""

    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest finite score; (0, 0) where there is none."""

    @abstractmethod
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""

    def share_above(self, threshold: float) -> float:
        """The share of scores that are strictly greater."""
        return self.n_above(threshold) / self.size


ScoresLike = ArrayLike | Sample


class ArraySample(Sample):
    """Scores in a NumPy array. Each answer takes linear time."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self.size = scores.size

    def at_rank(self, rank: int) -> float:
        return float(np.partition(self.scores, rank - 1)[rank - 1])

    def n_above(self, threshold: float) -> int:
        return int(np.count_nonzero(self.scores > threshold))

    def above(self, threshold: float) -> Scores:
        return self.scores[self.scores > threshold]

    def ends(self) -> tuple[float, float]:
        finite = self.scores[np.isfinite(self.scores)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)

    def moments(self) -> tuple[float, float]:
        return float(self.scores.mean()), float(self.scores.std())


class TopSample(ArraySample):
    """The highest scores of a sample, all above a floor: others are known to be at most the floor.

    Parameters
    ----------
    scores : ndarray
        The highest scores.
    size : int
        How many there are with all others.
    floor : float, default=-inf
        At least as high as every other score: it stands for them.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import TopSample
    >>> TopSample(np.array([0.8, 0.9]), size=10).share_above(0.85)
    0.1
    """

    def __init__(self, scores: Scores, size: int, floor: float = -np.inf) -> None:
        super().__init__(scores)
        self.size, self.floor = size, floor

    def at_rank(self, rank: int) -> float:
        """The rank-th smallest score of all, or the floor where it is not among the highest."""
        place = rank - self.size + self.scores.size
        return super().at_rank(place) if place > 0 else self.floor

    def ends(self) -> tuple[float, float]:
        raise TypeError("the highest scores do not tell the lowest one.")

    def moments(self) -> tuple[float, float]:
        raise TypeError("the highest scores do not tell the mean of all.")


def as_sample(name: str, scores: Any) -> Sample:
    """A sample as it is, or one made of an array, which is checked."""
    return scores if isinstance(scores, Sample) else ArraySample(check_scores(name, scores))


def top_threshold(negative_scores: ScoresLike, tau: float) -> float:
    """Lowest threshold with at most a share tau of these negatives strictly above it.

    ::

        b = s_[k],   k = floor(tau n) + 1,   s_[1] >= s_[2] >= ... >= s_[n]

    At most k - 1 = floor(tau n) negatives exceed b, ties or not. Found in linear time.

    Parameters
    ----------
    negative_scores : array-like of shape (n,), or Sample
    tau : float
        Tolerance, at least 0 and below 1. At 0 the threshold is the highest negative.

    Returns
    -------
    float
        Positive is what scores strictly more.

    Examples
    --------
    >>> from taufpl.thresholding import top_threshold
    >>> top_threshold([0.1, 0.9, 0.3, 0.5], tau=0.25)
    0.5
    """
    scores = as_sample("negative_scores", negative_scores)
    return scores.at_rank(scores.size - top_count(check_tau(tau, zero=True), scores.size) + 1)


def share_above(positive_scores: ScoresLike, negative_scores: ScoresLike, tau: float) -> float:
    """Share of positives strictly above the threshold that tau gives on these negatives.

    ::

        (1 / m)  # { i : s_i+ > b },   b = top_threshold(negative_scores, tau)

    Examples
    --------
    >>> from taufpl.thresholding import share_above
    >>> share_above([0.2, 0.5, 0.6, 1.0], [0.1, 0.9, 0.3, 0.5], tau=0.25)
    0.5
    """
    positives = as_sample("positive_scores", positive_scores)
    return positives.share_above(top_threshold(negative_scores, tau))


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
