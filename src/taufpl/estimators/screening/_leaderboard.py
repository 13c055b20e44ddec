"""How candidates stand: the recall of each at the tolerance, on rows that it has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import import_module
from math import nan
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.thresholding import USUAL_DELTA, share_interval, top_threshold

STACK = "stack"


@dataclass(frozen=True)
class Standing:
    """A candidate, its recall at the tolerance with a confidence interval, its weight in the stack, and its cost."""

    candidate: str
    recall: float = nan  # not known
    recall_low: float = nan
    recall_high: float = nan
    weight: float = 1.0
    seconds: float = 0.0

    @property
    def is_stack(self) -> bool:
        """Whether it is the stack of all others."""
        return self.candidate == STACK


def standing(name: str, positive: Vector, negative: Vector, tau: float, weight: float, seconds: float) -> Standing:
    """The standing of a candidate by scores of rows that it has not seen.

    The recall is that of the exact quantile: at most a share tau of the negatives lies above it. It is unknown
    where the scores are.
    """
    if np.isnan(positive).any():
        return Standing(name, weight=weight, seconds=seconds)
    n_caught, n_positive = int(np.sum(positive > top_threshold(negative, tau))), positive.size
    low, high = share_interval(n_caught, n_positive, USUAL_DELTA)
    return Standing(name, n_caught / n_positive, low, high, weight, seconds)


def ranked(standings: list[Standing]) -> list[Standing]:
    """The stack, then all others, best first."""
    return sorted(standings, key=lambda each: (not each.is_stack, -each.recall))


def leaderboard_frame(standings: list[Standing]) -> Any:
    """The ranked standings as a frame of pandas, or, without pandas, as a structured array."""
    records = [asdict(each) for each in ranked(standings)]
    try:
        pandas = import_module("pandas")
    except ImportError:
        kinds = [("candidate", "U40"), *((name, np.float64) for name in records[0] if name != "candidate")]
        return np.array([tuple(each.values()) for each in records], dtype=kinds)
    return pandas.DataFrame(records)
