"""Rates of a classifier by the levels of a column, or by the limits of a model, with bounds that hold together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._checks import check_count
from taufpl._types import Mask, RowIndices
from taufpl.thresholding._levels import shared_delta
from taufpl.thresholding._order import USUAL_DELTA, fpr_upper_bound
from taufpl.thresholding._segments import SegmentThresholds, named_tolerances, tolerance_of
from taufpl.thresholding._verdict import BROKEN, KEPT, OPEN, share_interval, share_lower_bound, tolerance_verdict

MOST_LEVELS = 50
# The row of segments for which no limit is proven.
NO_LIMIT = "no limit"


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
    segments : tuple of str
        Where the level is a limit of a model with segments: those that share it.
    """

    level: str
    tau: float
    delta: float
    n_negative: int
    n_false_positive: int
    n_positive: int
    n_true_positive: int
    segments: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class JudgedLevels:
    """Rates of the levels of a column, or of the limits of a model, with a verdict on each and on all together."""

    column: str
    rates: tuple[LevelRates, ...]
    delta: float
    is_new: bool  # whether the model has not seen the rows: only then a tolerance is called kept
    are_limits: bool = False

    @property
    def noun(self) -> str:
        """What one of them is called."""
        return "limit" if self.are_limits else "level"

    def verdict_on(self, level: LevelRates) -> str:
        """The verdict on a level: kept only where the rows are new."""
        return OPEN if level.verdict == KEPT and not self.is_new else level.verdict

    def with_verdict(self, verdict: str) -> list[LevelRates]:
        """The levels with a verdict."""
        return [each for each in self.rates if self.verdict_on(each) == verdict]

    @property
    def verdict(self) -> str:
        """The verdict on all levels together: broken where one is, kept where all are."""
        if self.with_verdict(BROKEN):
            return BROKEN
        return KEPT if len(self.with_verdict(KEPT)) == len(self.rates) else OPEN

    def record(self) -> dict[str, Any]:
        """All rates and verdicts in plain values, for a document."""
        return {
            "column": self.column,
            "delta": self.delta,
            "delta_of_each": self.rates[0].delta,
            f"{self.noun}s": [self._record_of(each) for each in self.rates],
        }

    def _record_of(self, level: LevelRates) -> dict[str, Any]:
        counts = ("tau", "n_negative", "n_positive", "n_false_positive", "n_true_positive")
        rates = ("fpr", "fpr_lower_bound", "fpr_upper_bound", "recall")
        return {
            self.noun: level.level,
            **({"segments": list(level.segments)} if self.are_limits else {}),
            **{name: getattr(level, name) for name in (*counts, *rates)},
            "recall_low": level.recall_interval[0],
            "recall_high": level.recall_interval[1],
            "verdict": self.verdict_on(level),
        }


def level_counts(codes: RowIndices, n_levels: int, is_positive: Mask, is_flagged: Mask) -> NDArray[np.int64]:
    """Negatives, false alarms, positives and true alarms of each level, from the level of each row."""
    parts = (~is_positive, ~is_positive & is_flagged, is_positive, is_positive & is_flagged)
    return np.stack([np.bincount(codes[part], minlength=n_levels) for part in parts], axis=1)


def rates_of_levels(
    levels: Sequence[str],
    counts: NDArray[np.int64],
    tau: Callable[[str], float],
    delta: float = USUAL_DELTA,
    most: int = MOST_LEVELS,
) -> list[LevelRates]:
    """Rates of levels, those with the most negatives first, from counts of their rows.

    `counts` has a row a level, as :func:`level_counts` gives it. Beyond `most` levels, the smaller ones count as one.
    """
    check_count("most", most, least=1)
    order = np.lexsort((np.arange(len(levels)), -counts[:, 2], -counts[:, 0])).tolist()
    alone, joined = (order, []) if len(order) <= most else (order[: most - 1], order[most - 1 :])
    taus = np.array([tau(level) for level in levels], dtype=np.float64)
    shown = [(levels[place], float(taus[place]), counts[place]) for place in alone]
    if joined:
        shown.append((f"the {len(joined):,} other levels", *_pool(taus[joined], counts[joined])))
    share = shared_delta(delta, len(shown))
    return [LevelRates(level, each, share, *row.tolist()) for level, each, row in shown]


def rates_of_limits(
    levels: Sequence[str],
    counts: NDArray[np.int64],
    limits: SegmentThresholds,
    tau: float | Mapping[Any, float],
    delta: float = USUAL_DELTA,
) -> list[LevelRates]:
    """Rates of all limits of a model, each over the segments that were proven together, from counts by segment.

    Segments without a proven limit count as one more, where there are any; `tau` has their tolerances.
    """
    names = [limits.members.get(level) for level in levels]
    shown = [
        (name, each.tau, counts[[other == name for other in names]].sum(axis=0), _members(limits, name))
        for name, each in zip(limits.limits, limits.evidence, strict=True)
    ]
    rest = [place for place, name in enumerate(names) if name is None]
    if rest:
        without = tuple(levels[place] for place in rest)
        taus = np.array([tolerance_of(level, named_tolerances(tau)) for level in without])
        shown.append((NO_LIMIT, *_pool(taus, counts[rest]), without))
    share = shared_delta(delta, len(shown))
    return [LevelRates(*[name, each, share, *row.tolist(), members]) for name, each, row, members in shown]


def _members(limits: SegmentThresholds, name: str) -> tuple[str, ...]:
    return tuple(segment for segment, limit in limits.members.items() if limit == name)


def _pool(taus: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]]:
    """Tolerance and counts of some levels together.

    The tolerance is the mean of theirs over their negatives, so that a pool that is above it proves that one of them is
    above its own.
    """
    n_negative = counts[:, 0]
    mean = np.average(taus, weights=n_negative) if n_negative.any() else taus.min()
    return float(mean), counts.sum(axis=0)
