"""What a rule asks of scores: how many there are, which has a given rank, how many lie above a threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from taufpl._checks import Scores, check_scores


class Sample(ABC):
    """Scores of some rows, wherever they are kept.

    Rules ask no more than this, so that they give the same evidence for an array here and for scores that stay with
    the rows of a cluster.

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
        """The scores that are strictly greater, in any order, as an array here."""

    def share_above(self, threshold: float) -> float:
        """The share of scores that are strictly greater."""
        return self.n_above(threshold) / self.size


class ArraySample(Sample):
    """Scores in a NumPy array. Each answer takes linear time."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self.size = scores.size

    def at_rank(self, rank: int) -> float:
        """The rank-th smallest score."""
        return float(np.partition(self.scores, rank - 1)[rank - 1])

    def n_above(self, threshold: float) -> int:
        """How many scores are strictly greater."""
        return int(np.count_nonzero(self.scores > threshold))

    def above(self, threshold: float) -> Scores:
        """The scores that are strictly greater."""
        return self.scores[self.scores > threshold]


class TopSample(ArraySample):
    """Scores of which only the highest are here: all above some score, under which nothing is asked.

    Parameters
    ----------
    scores : ndarray
        The highest scores.
    size : int
        How many there are with all others.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import TopSample
    >>> TopSample(np.array([0.8, 0.9]), size=10).share_above(0.85)
    0.1
    """

    def __init__(self, scores: Scores, size: int) -> None:
        super().__init__(scores)
        self.size = size

    def at_rank(self, rank: int) -> float:
        """The rank-th smallest score of all."""
        return super().at_rank(rank - self.size + self.scores.size)


def as_sample(name: str, scores: Any) -> Sample:
    """A sample as it is, or one made of an array, which is checked."""
    return scores if isinstance(scores, Sample) else ArraySample(check_scores(name, scores))
