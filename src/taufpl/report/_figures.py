"""The figures of a report: rates at the threshold in use, at other tolerances, and what they mean a day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.problem import top_count
from taufpl.report._subject import Subject, Vector
from taufpl.thresholding import fpr_upper_bound, negatives_needed, order_rank, share_interval, share_lower_bound

TABLE_TAUS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1)

# Steps of the slider in a factor of ten, before rounding to two digits; where it ends.
_STEPS, _FIRST, _LAST = 40, 1e-6, 0.5


@dataclass(frozen=True, slots=True)
class Rates:
    """What lies above a threshold.

    Attributes
    ----------
    threshold : float
    n_false, n_negative, n_true, n_positive : int
    fpr_upper, fpr_lower : float or None
        One-sided bounds, each missed with probability delta; None without negatives.
    recall_low, recall_high : float or None
        Clopper-Pearson interval, missed with probability delta; None without positives.
    """

    threshold: float
    n_false: int
    n_negative: int
    n_true: int
    n_positive: int
    fpr_upper: float | None
    fpr_lower: float | None
    recall_low: float | None
    recall_high: float | None

    @property
    def fpr(self) -> float | None:
        """Share of negatives above the threshold."""
        return self.n_false / self.n_negative if self.n_negative else None

    @property
    def recall(self) -> float | None:
        """Share of positives above the threshold."""
        return self.n_true / self.n_positive if self.n_positive else None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is screened: how many cases a day, and which share of them is positive (None: not known)."""

    volume: float
    base_rate: float | None

    def alarms(self, fpr: float | None, recall: float | None) -> tuple[float | None, float | None]:
        """True and false alarms a day."""
        if self.base_rate is None:
            return None, None
        true = 0.0 if self.base_rate == 0.0 else _times(self.volume * self.base_rate, recall)
        return true, _times(self.volume * (1.0 - self.base_rate), fpr)

    def precision(self, fpr: float | None, recall: float | None) -> float | None:
        """Share of true ones among the alarms; None where there are none, or something is not known."""
        if self.base_rate is None or fpr is None or recall is None:
            return None
        true, false = self.base_rate * recall, (1.0 - self.base_rate) * fpr
        return true / (true + false) if true + false > 0.0 else None


@dataclass(frozen=True, slots=True)
class Choice:
    """A threshold that a tolerance asks for on these rows, and what it does on them.

    Attributes
    ----------
    threshold : float
    n_false, n_true : int
    fpr_upper : float
        Bound for an order statistic of its rank: it holds although these rows chose the threshold.
    """

    threshold: float
    n_false: int
    n_true: int
    fpr_upper: float


def rates_at(subject: Subject, threshold: float, delta: float) -> Rates:
    """Count what lies strictly above a threshold that was chosen beforehand."""
    n_false, n_true = count_above(subject.negative, threshold), count_above(subject.positive, threshold)
    n, m = subject.negative.size, subject.positive.size
    lower = share_lower_bound(n_false, n, delta) if n else None
    upper = fpr_upper_bound(n_false, n, delta) if n else None
    low, high = share_interval(n_true, m, delta) if m else (None, None)
    return Rates(threshold, n_false, n, n_true, m, upper, lower, low, high)


def count_above(ascending: Vector, threshold: float) -> int:
    """How many scores lie strictly above a threshold."""
    return int(ascending.size - np.searchsorted(ascending, threshold, side="right"))


def measured_choice(subject: Subject, tau: float, delta: float) -> Choice | None:
    """The lowest threshold with at most a share tau of these negatives above it."""
    n = subject.negative.size
    return _choice(subject, top_count(tau, n) - 1, delta) if n else None


def proven_choice(subject: Subject, tau: float, delta: float) -> Choice | None:
    """The order statistic of these negatives that keeps tau with probability 1 - delta; None if there are too few."""
    n_negative = subject.negative.size
    rank = order_rank(n_negative, tau, delta)
    return None if rank is None else _choice(subject, n_negative - rank, delta)


def _choice(subject: Subject, allowed: int, delta: float) -> Choice:
    """The negative with so many above it, ties apart."""
    negative = subject.negative
    threshold = float(negative[negative.size - 1 - allowed])
    n_false, n_true = count_above(negative, threshold), count_above(subject.positive, threshold)
    return Choice(threshold, n_false, n_true, fpr_upper_bound(allowed, negative.size, delta))


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


def slider(subject: Subject, delta: float, *, is_proof: bool) -> dict[str, Any]:
    """What the slider shows, one entry a tolerance; None where there is no threshold with a guarantee."""
    taus = slider_taus(subject.tau, subject.negative.size)
    ways = {"measured": measured_choice, **({"proven": proven_choice} if is_proof else {})}
    return {
        "tau": taus.tolist(),
        "needed": [negatives_needed(tau, delta) for tau in taus.tolist()],
        **{name: _columns([choose(subject, tau, delta) for tau in taus.tolist()]) for name, choose in ways.items()},
    }


def _columns(choices: list[Choice | None]) -> dict[str, list[Any]]:
    return {
        "threshold": [None if each is None else each.threshold for each in choices],
        "n_false": [None if each is None else each.n_false for each in choices],
        "n_true": [None if each is None else each.n_true for each in choices],
        "fpr_upper": [None if each is None else each.fpr_upper for each in choices],
    }


def nearest_rows(subject: Subject, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows above the threshold, the lowest first, and rows at or below it, the highest first: n of each at most."""
    above = np.flatnonzero(subject.scores > subject.threshold)
    below = np.flatnonzero(subject.scores <= subject.threshold)
    return _lowest(above, subject.scores[above], n), _lowest(below, -subject.scores[below], n)


def _lowest(rows: NDArray[np.intp], keys: Vector, n: int) -> NDArray[np.intp]:
    if n < rows.size:
        kept = np.argpartition(keys, n)[:n]
        rows, keys = rows[kept], keys[kept]
    return rows[np.lexsort((rows, keys))][:n]


def _times(number: float, share: float | None) -> float | None:
    return None if share is None else number * share
