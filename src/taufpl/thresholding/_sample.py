"""Scores as threshold rules see them: how many there are, which has a given rank, how many lie above a threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import Scores, check_scores, check_tau
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
