"""Rates by the levels of a column: counted in batches, told in a document and a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._types import Array, Labels, Mask
from taufpl.cli._output import confidence, percent, print_rows
from taufpl.thresholding import LevelRates, rates_of_levels

# Names of levels in one sentence.
_MOST_NAMES = 5
# Longest name of a level in a table.
_LONGEST = 40


class LevelTally:
    """Numbers of rows by level; seen before or not; flagged or not; negative, positive, without a label."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._counts = np.zeros((1, 2, 2, 3), np.int64)

    def add(self, levels: Array | None, is_seen: Mask, is_flagged: Mask, labels: Labels) -> None:
        """Count rows; without levels, all are of one."""
        levels = np.zeros(labels.size, dtype="U1") if levels is None else levels
        different, rows = np.unique(levels, return_inverse=True)
        places = np.array([self._places.setdefault(each, len(self._places)) for each in different.tolist()], np.intp)
        while len(self._places) > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        np.add.at(self._counts, (places[rows], is_seen.astype(np.intp), is_flagged.astype(np.intp), labels), 1)

    @property
    def whole(self) -> NDArray[np.int64]:
        """Numbers of rows of all levels."""
        return self._counts.sum(axis=0)

    def rates(self, only_fresh: bool, tau: Callable[[str], float], delta: float) -> list[LevelRates]:
        """Rates of levels that have labelled rows; of all rows, or of those that were not seen before."""
        by_flag = self._counts[: len(self._places), 0] if only_fresh else self._counts[: len(self._places)].sum(axis=1)
        n, flagged = by_flag.sum(axis=1), by_flag[:, 1]
        counts = np.stack((n[:, 0], flagged[:, 0], n[:, 1], flagged[:, 1]), axis=1)
        found = np.asarray(counts.any(axis=1))
        levels = [level for level, has_rows in zip(self._places, found.tolist(), strict=True) if has_rows]
        return rates_of_levels(levels, counts[found], tau, delta)


def levels_record(column: str, rates: Sequence[LevelRates], verdicts: Sequence[str], delta: float) -> dict[str, Any]:
    """Rates by level, for a document."""
    return {
        "column": column,
        "delta": delta,
        "delta_of_each": rates[0].delta,
        "levels": [
            {
                "level": each.level,
                "tau": each.tau,
                "n_negative": each.n_negative,
                "n_positive": each.n_positive,
                "n_false_positive": each.n_false_positive,
                "n_true_positive": each.n_true_positive,
                "fpr": each.fpr,
                "fpr_lower_bound": each.fpr_lower_bound,
                "fpr_upper_bound": each.fpr_upper_bound,
                "recall": each.recall,
                "recall_low": each.recall_interval[0],
                "recall_high": each.recall_interval[1],
                "verdict": verdict,
            }
            for each, verdict in zip(rates, verdicts, strict=True)
        ],
    }


def print_levels(record: dict[str, Any]) -> None:
    """A table of rates by level."""
    levels = record["levels"]
    head = [
        "level",
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
            shortened(each["level"]),
            percent(each["tau"]),
            f"{each['n_negative']:,}",
            percent(each["fpr"]),
            percent(each["fpr_lower_bound"]),
            percent(each["fpr_upper_bound"]),
            f"{each['n_positive']:,}",
            percent(each["recall"]),
            f"{percent(each['recall_low'])} to {percent(each['recall_high'])}",
            each["verdict"],
        ]
        for each in levels
    ]
    title = f"By {record['column']}: bounds hold for all levels together, at {confidence(record['delta'])}"
    print_rows(title, head, rows, numeric=range(1, 9))


def in_words(names: Sequence[str]) -> str:
    """Some names of levels in a sentence."""
    shown, rest = ", ".join(map(shortened, names[:_MOST_NAMES])), len(names) - _MOST_NAMES
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def counted_levels(n: int) -> str:
    """A number of levels."""
    return f"{n:,} level{'' if n == 1 else 's'}"


def shortened(level: str) -> str:
    """A name of a level, cut where it is long."""
    line = " ".join(level.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
