"""Rates of a classifier by the levels of a column, with bounds that hold for all levels together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taufpl._checks import check_count
from taufpl.thresholding._levels import shared_delta
from taufpl.thresholding._order import USUAL_DELTA, fpr_upper_bound
from taufpl.thresholding._verdict import OPEN, share_interval, share_lower_bound, tolerance_verdict

MOST_LEVELS = 50


@dataclass(frozen=True, slots=True)
class LevelRates:
    """Rates on the rows of one level of a column.

    Attributes
    ----------
    level : str
        Canonical text of the level: "1" for 1, 1.0 and "1", "missing" for rows without a value.
    tau : float
        Tolerance of the level.
    delta : float
        The level's share of delta: with probability 1 - delta of the whole, all lower bounds on FPR hold together, and
        so do all upper bounds and all intervals for recall.
    n_negative, n_false_positive, n_positive, n_true_positive : int
        Rows of the level, and those of them that were predicted positive.
    """

    level: str
    tau: float
    delta: float
    n_negative: int
    n_false_positive: int
    n_positive: int
    n_true_positive: int

    @property
    def fpr(self) -> float | None:
        """Share of the level's negatives that were predicted positive; None without negatives."""
        return self.n_false_positive / self.n_negative if self.n_negative else None

    @property
    def fpr_lower_bound(self) -> float:
        """Lower confidence bound on the level's false-positive rate (Clopper-Pearson); 0 without negatives."""
        return share_lower_bound(self.n_false_positive, self.n_negative, self.delta)

    @property
    def fpr_upper_bound(self) -> float:
        """Upper confidence bound on the level's false-positive rate (Clopper-Pearson); 1 without negatives."""
        return fpr_upper_bound(self.n_false_positive, self.n_negative, self.delta) if self.n_negative else 1.0

    @property
    def recall(self) -> float | None:
        """Share of the level's positives that were predicted positive; None without positives."""
        return self.n_true_positive / self.n_positive if self.n_positive else None

    @property
    def recall_interval(self) -> tuple[float, float]:
        """Two-sided interval for the level's recall (Clopper-Pearson); 0 to 1 without positives."""
        return share_interval(self.n_true_positive, self.n_positive, self.delta) if self.n_positive else (0.0, 1.0)

    @property
    def verdict(self) -> str:
        """Whether the level provably keeps its tolerance: "kept", "broken" or "open".

        With probability 1 - delta of the whole no level that keeps its tolerance is called broken; equally, with that
        probability, no level that breaks it is called kept.
        """
        if not self.n_negative:
            return OPEN
        return tolerance_verdict(self.n_false_positive, self.n_negative, self.tau, self.delta)


def rates_of_levels(
    levels: Sequence[str],
    counts: NDArray[np.int64],
    tau: Callable[[str], float],
    delta: float = USUAL_DELTA,
    most: int = MOST_LEVELS,
) -> list[LevelRates]:
    """Rates of levels, those with the most negatives first, from counts of their rows.

    `counts` has a row a level: negatives, false alarms, positives, true alarms. Beyond `most` levels, the smaller ones
    count as one. Their tolerance is the mean of theirs over their negatives, so that a pool that is above it proves
    that one of them is above its own.
    """
    check_count("most", most, least=1)
    order = np.lexsort((np.arange(len(levels)), -counts[:, 2], -counts[:, 0])).tolist()
    alone, joined = (order, []) if len(order) <= most else (order[: most - 1], order[most - 1 :])
    taus = np.array([tau(level) for level in levels], dtype=np.float64)
    shown = [(levels[place], float(taus[place]), counts[place]) for place in alone]
    if joined:
        pool, n_negative = counts[joined].sum(axis=0), counts[joined, 0]
        mean = np.average(taus[joined], weights=n_negative) if n_negative.any() else taus[joined].min()
        shown.append((f"the {len(joined):,} other levels", float(mean), pool))
    share = shared_delta(delta, len(shown))
    return [LevelRates(level, each, share, *row.tolist()) for level, each, row in shown]
