"""Rates by the levels of a column, or by the limits of a model: counted in batches, told in words and a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taufpl._types import Array, Mask
from taufpl.cli._output import confidence, percent, print_rows
from taufpl.thresholding import BROKEN, OPEN, JudgedLevels, level_counts

# Names of levels in one sentence.
_MOST_NAMES = 5
# Longest name of a level in a table.
_LONGEST = 40


class LevelTally:
    """Negatives, false alarms, positives and true alarms by level, of fresh rows and of those that were seen before."""

    def __init__(self) -> None:
        self._counts: dict[str, NDArray[np.int64]] = {}

    def add(self, levels: Array | None, is_seen: Mask, is_flagged: Mask, is_positive: Mask) -> None:
        """Count labelled rows; without levels, all are of one."""
        names, codes = np.unique(np.full(is_seen.size, "") if levels is None else levels, return_inverse=True)
        counts = level_counts(2 * codes + is_seen, 2 * names.size, is_positive, is_flagged).reshape(-1, 2, 4)
        for name, each in zip(names.tolist(), counts, strict=True):
            self._counts[name] = self._counts.get(name, 0) + each

    @property
    def whole(self) -> NDArray[np.int64]:
        """Numbers of rows of all levels."""
        return np.sum([*self._counts.values()], axis=0) if self._counts else np.zeros((2, 4), np.int64)

    def counts(self, only_fresh: bool) -> tuple[list[str], NDArray[np.int64]]:
        """Levels that have rows, and their counts; of all rows, or of those that were not seen before."""
        by_level = {name: each[0] if only_fresh else each.sum(axis=0) for name, each in sorted(self._counts.items())}
        found = {name: each for name, each in by_level.items() if each.any()}
        return list(found), np.stack([*found.values()])


def print_levels(found: JudgedLevels) -> None:
    """A table of rates by level, or by limit."""
    head = [
        found.noun,
        "tolerance",
        "negatives",
        "FPR",
        "at least",
        "at most",
        "positives",
        "recall",
        "interval",
        "verdict",
    ]
    rows = [
        [
            limit_name(each.level, each.segments),
            percent(each.tau),
            f"{each.n_negative:,}",
            percent(each.fpr),
            percent(each.fpr_lower_bound),
            percent(each.fpr_upper_bound),
            f"{each.n_positive:,}",
            percent(each.recall),
            " to ".join(map(percent, each.recall_interval)),
            found.verdict_on(each),
        ]
        for each in found.rates
    ]
    by = f"{'Limits by' if found.are_limits else 'By'} {found.column}"
    title = f"{by}: bounds hold for all {found.noun}s together, at {confidence(found.delta)}"
    print_rows(title, head, rows, numeric=range(1, 9))


def verdict_in_words(found: JudgedLevels) -> str:
    """In which levels or limits the tolerance is provably broken, else in how many it is kept."""
    broken, is_open = (
        [limit_name(each.level, each.segments) for each in found.with_verdict(verdict)] for verdict in (BROKEN, OPEN)
    )
    n = f"{len(found.rates):,} {found.noun}{'' if len(found.rates) == 1 else 's'}"
    if broken:
        return f"broken in {len(broken):,} of {n}: {listed(broken)}"
    settled = f"kept in {len(found.rates) - len(is_open):,} of {n}"
    return f"{settled}; open: {listed(is_open)}" if is_open else settled


def limit_name(name: str, segments: Sequence[str]) -> str:
    """A name for a table; that of a limit with the segments that share it."""
    return shortened(name) if list(segments) in ([], [name]) else f"{shortened(name)} ({in_words(segments)})"


def in_words(names: Sequence[str]) -> str:
    """Some names of levels in a sentence."""
    return listed(list(map(shortened, names)))


def listed(names: Sequence[str]) -> str:
    """Names one after the other; of many, the first ones and how many there are more."""
    shown, rest = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def shortened(level: str) -> str:
    """A name of a level, cut where it is long."""
    line = " ".join(level.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
