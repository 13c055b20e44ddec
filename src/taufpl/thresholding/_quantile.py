"""The threshold of the paper's Proposition 1, and what it catches."""

from __future__ import annotations

from numpy.typing import ArrayLike

from taufpl._checks import check_tau
from taufpl.problem import top_count
from taufpl.thresholding._sample import Sample, as_sample


def top_threshold(negative_scores: ArrayLike | Sample, tau: float) -> float:
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


def share_above(positive_scores: ArrayLike | Sample, negative_scores: ArrayLike | Sample, tau: float) -> float:
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
