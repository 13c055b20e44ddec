"""Rates at the threshold in use and at other tolerances, and the alarms a day that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.plotting.statistics import count_above
from taufpl.problem import top_count
from taufpl.report._scored_rows import ScoredRows
from taufpl.thresholding import fpr_upper_bound, negatives_needed, order_rank, share_interval, share_lower_bound

TABLE_TAUS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1)

# Steps of the slider in a factor of ten, before rounding to two digits; where it ends.
_STEPS, _FIRST, _LAST = 40, 1e-6, 0.5


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts strictly above a threshold, and the bounds on both rates, each missed with probability delta.

    A rate without any row of its class is None. `fpr_upper` is given, because it depends on whether the threshold was
    chosen beforehand or is one of the counted negatives.
    """

    threshold: float
    n_false: int
    n_negative: int
    n_true: int
    n_positive: int
    delta: float
    fpr_upper: float | None

    @property
    def fpr(self) -> float | None:
        """Share of negatives above the threshold."""
        return self.n_false / self.n_negative if self.n_negative else None

    @property
    def recall(self) -> float | None:
        """Share of positives above the threshold."""
        return self.n_true / self.n_positive if self.n_positive else None

    @property
    def fpr_lower(self) -> float | None:
        """Lower bound on the false-alarm rate."""
        return share_lower_bound(self.n_false, self.n_negative, self.delta) if self.n_negative else None

    @property
    def recall_interval(self) -> tuple[float, float] | tuple[None, None]:
        """Both ends of the interval for recall."""
        return share_interval(self.n_true, self.n_positive, self.delta) if self.n_positive else (None, None)


def rates_at(rows: ScoredRows, threshold: float, rank: int | None = None) -> Rates:
    """Rates at a threshold that was chosen without these rows, or is the negative of a rank among them."""
    n_false, n_true = (count_above(scores, threshold) for scores in (rows.negative, rows.positive))
    n = rows.negative.size
    upper = fpr_upper_bound(n_false if rank is None else n - rank, n, rows.delta) if n else None
    return Rates(threshold, n_false, n, n_true, rows.positive.size, rows.delta, upper)


def measured_rates(rows: ScoredRows, tau: float) -> Rates:
    """Rates at the lowest threshold that has at most a share tau of these negatives above it."""
    rank = rows.negative.size + 1 - top_count(tau, rows.negative.size)
    return rates_at(rows, float(rows.negative[rank - 1]), rank)


def proven_rates(rows: ScoredRows, tau: float) -> Rates | None:
    """Rates at the order statistic of these negatives that guarantees tau; None if there are too few negatives."""
    rank = order_rank(rows.negative.size, tau, rows.delta)
    return None if rank is None else rates_at(rows, float(rows.negative[rank - 1]), rank)


@dataclass(frozen=True, slots=True)
class DailyCases:
    """Number of cases that are screened a day, and the share of positives among them (None: not known).

    Where the share has a range, `base_rate` is its middle, at which figures are given.
    """

    volume: float
    base_rate: float | None
    base_rate_range: tuple[float, float] | None = None

    @property
    def base_rates(self) -> tuple[float, float] | tuple[float | None, float | None]:
        """The lowest and the highest share."""
        return self.base_rate_range or (self.base_rate, self.base_rate)

    def figures(self, rates: Rates) -> dict[str, float | None]:
        """Rates and what they mean a day; None for what cannot be told."""
        fpr, recall, base = rates.fpr, rates.recall, self.base_rate
        true = 0.0 if base == 0.0 else _product(self.volume, base, recall)
        false = None if base is None else _product(self.volume, 1.0 - base, fpr)
        return {
            "threshold": rates.threshold,
            "fpr": fpr,
            "fpr_upper": rates.fpr_upper,
            "recall": recall,
            "alarms": None if true is None or false is None else true + false,
            "true_alarms": true,
            "false_alarms": false,
            "missed": None if recall is None else _product(self.volume, base, 1.0 - recall),
            "precision": self.precision(fpr, recall),
        }

    def precision(self, fpr: float | None, recall: float | None) -> float | None:
        """Share of true alarms among all; None where there are no alarms, or something is not known."""
        if self.base_rate is None or fpr is None or recall is None:
            return None
        true, false = self.base_rate * recall, (1.0 - self.base_rate) * fpr
        return true / (true + false) if true + false > 0.0 else None


def _product(volume: float, *shares: float | None) -> float | None:
    known = [share for share in shares if share is not None]
    return math.prod(known, start=volume) if len(known) == len(shares) else None


def slider_taus(tau: float, n_negative: int) -> Vector:
    """Tolerances from a tenth of the model's, or one negative, up to 50 %: even on a logarithmic scale, round numbers.

    Examples
    --------
    >>> taus = slider_taus(0.01, 1000)
    >>> taus.size, float(taus[0]), float(taus[-1]), bool(0.01 in taus)
    (103, 0.001, 0.5, True)
    """
    low = max(_FIRST, min(tau / 10.0, 1.0 / max(n_negative, 1)))
    last = max(_LAST, min(2.0 * tau, 0.99))
    exponents = np.arange(np.floor(_STEPS * np.log10(low)), np.ceil(_STEPS * np.log10(last)) + 1) / _STEPS
    grid = {float(f"{10.0**each:.1e}") for each in exponents}
    return np.array(sorted({each for each in grid if 0.999 * low <= each <= last} | {tau}))


def slider(rows: ScoredRows, *, is_proof: bool) -> dict[str, Any] | None:
    """Figures that the slider shows, one entry a tolerance, with None where no threshold has a guarantee."""
    if not rows.negative.size:
        return None
    taus = slider_taus(rows.tau, rows.negative.size).tolist()
    columns: dict[str, list[Rates | None]] = {"measured": [measured_rates(rows, tau) for tau in taus]}
    if is_proof:
        columns["proven"] = [proven_rates(rows, tau) for tau in taus]
    names = ("threshold", "n_false", "n_true", "fpr_upper")
    return {
        "tau": taus,
        "own": taus.index(rows.tau),
        "needed": [negatives_needed(tau, rows.delta) for tau in taus],
        **{
            way: {name: [getattr(each, name, None) for each in found] for name in names}
            for way, found in columns.items()
        },
    }
