"""Watching a false-positive rate that must stay under a tolerance, with an alarm that is valid at every look."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taufpl.thresholding._checks import check_count, check_delta, check_tau

__all__ = ["FPRMonitor", "MonitorHistory"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Alternatives multiply the odds of a false alarm by exp(shift), shift from 1/1024 to 16 in steps of sqrt(2). Off by
# half a step, a bet still grows at 97 % of the best rate. Weight is highest around exp(1) and falls off slowly.
_STEPS = np.arange(-20, 9) / 2.0
_SHIFTS: Floats = 2.0**_STEPS
_ODDS_GROWTH: Floats = np.expm1(_SHIFTS)
_WEIGHTS: Floats = 1.0 / (1.0 + np.abs(_STEPS)) ** 2
_LOG_WEIGHTS: Floats = np.log(_WEIGHTS / _WEIGHTS.sum())

# Rows of a batch are taken so many at a time, to keep the memory of their wealths small.
_BLOCK = 16_384
# Points kept for a plot. When there are more, every second one goes.
_MOST_POINTS = 1024
# Halvings of the bracket of a bound: as many as a float has digits, and some for small rates.
_HALVINGS = 64


class MonitorHistory(NamedTuple):
    """What a monitor has seen, at evenly spaced numbers of negatives; arrays of equal length.

    Attributes
    ----------
    n_seen, n_false_alarms : ndarray of int
    fpr : ndarray of float
        Share of false alarms so far.
    fpr_lower_bound : ndarray of float
        Lower confidence bound on the mean false-positive rate so far.
    log_wealth : ndarray of float
        Logarithm of the evidence against the tolerance; the alarm is raised at log(1 / delta).
    """

    n_seen: Counts
    n_false_alarms: Counts
    fpr: Floats
    fpr_lower_bound: Floats
    log_wealth: Floats


class FPRMonitor:
    """Raise an alarm when the false-positive rate has provably left its tolerance.

    A gambler who starts with 1 bets on every labelled negative that it will be a false alarm more often than tau
    allows. After n negatives with S false alarms the wealth is::

        W_n = sum_g w_g exp( S a_g - n log(1 + tau (exp(a_g) - 1)) ),   sum_g w_g = 1,   a_g > 0

    As long as every negative is a false alarm with probability at most tau, whatever came before, the wealth is
    expected not to grow, so that it ever reaches 1/delta with probability at most delta (Ville's inequality). The
    alarm is raised at that moment. One may look after every negative, and stop or go on as one likes.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerance, strictly between 0 and 1.
    delta : float, default=0.05
        Probability that the alarm is ever raised although the rate keeps to the tolerance.

    Attributes
    ----------
    n_seen, n_false_alarms : int
        Negatives fed so far, and those of them that were flagged.
    alarm : bool
        Whether the alarm has been raised. It stays until `reset`.
    alarm_at : int or None
        Number of negatives at which it was raised.

    Notes
    -----
    Each term of the wealth is the likelihood ratio of a rate with odds exp(a_g) times those of tau, and the mixture
    needs nobody to say how large a change to expect. At tau = 0.01 and delta = 0.05 a rate of 2 tau is found after
    some 900 negatives, one of 1.1 tau after some 75,000 (medians). The cost of a negative does not grow with their
    number.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.monitoring import FPRMonitor
    >>> monitor = FPRMonitor(tau=0.01, delta=0.05)
    >>> rng = np.random.default_rng(0)
    >>> monitor.update(rng.random(10_000) < 0.008)
    False
    >>> monitor.update(rng.random(10_000) < 0.03)
    True
    >>> 10_000 < monitor.alarm_at < 20_000
    True
    """

    def __init__(self, tau: float = 0.01, delta: float = 0.05) -> None:
        self.tau = check_tau(tau)
        self.delta = check_delta(delta)
        self.reset()

    def reset(self) -> FPRMonitor:
        """Forget everything that was seen, the alarm included."""
        self.n_seen = 0
        self.n_false_alarms = 0
        self.alarm_at: int | None = None
        self._points: list[tuple[int, int]] = []  # (n_seen, n_false_alarms), at most one in a cell of _stride negatives
        self._stride = 1
        return self

    def update(self, false_alarms: ArrayLike) -> bool:
        """Feed negatives one by one or in batches, in the order of their coming.

        Parameters
        ----------
        false_alarms : bool or array-like of bool, shape (n,)
            For each labelled negative, whether it was predicted positive (True or 1).

        Returns
        -------
        bool
            Whether the alarm has been raised, by now or before. Where batches begin and end makes no difference.
        """
        flags = _as_flags(false_alarms)
        places = np.flatnonzero(flags)
        if self.alarm_at is None:
            self._look_at(places)
        self._remember(self._cell_ends(flags.size), places)
        self.n_seen += flags.size
        self.n_false_alarms += places.size
        return self.alarm

    def update_counts(self, n_false_alarms: int, n_negative: int) -> bool:
        """Feed a batch of which only the counts are known.

        The order within the batch being unknown, one look is taken at its end. That is as valid, and may raise the
        alarm later than :meth:`update` would, or not at all if the batch ends better than it began.

        Parameters
        ----------
        n_false_alarms, n_negative : int
            How many of the batch's labelled negatives were predicted positive, and how many there were.

        Returns
        -------
        bool
            Whether the alarm has been raised, by now or before.
        """
        n_negative = check_count("n_negative", n_negative)
        n_false = check_count("n_false_alarms", n_false_alarms)
        if n_false > n_negative:
            raise ValueError(f"n_false_alarms must be at most n_negative, {n_negative}; got {n_false}.")
        self.n_seen += n_negative
        self.n_false_alarms += n_false
        if self.alarm_at is None and self.log_wealth >= -math.log(self.delta):
            self.alarm_at = self.n_seen
        if n_negative:
            self._add_point(self.n_seen, self.n_false_alarms)
        return self.alarm

    @property
    def alarm(self) -> bool:
        """Whether the alarm has been raised."""
        return self.alarm_at is not None

    @property
    def fpr(self) -> float:
        """Share of false alarms among the negatives seen; NaN before the first."""
        return self.n_false_alarms / self.n_seen if self.n_seen else math.nan

    @property
    def fpr_lower_bound(self) -> float:
        """Lower confidence bound on the mean false-positive rate of the negatives seen so far.

        It is the tolerance at which the wealth would now be 1/delta. With probability at least 1 - delta it never, at
        no look, exceeds the mean of the rates that the negatives had: log(1 + p (exp(a) - 1)) is concave in p, so that
        the wealth at the mean rate is at most what a gambler who knew every rate would have. It may fall again when
        the rate recovers; the alarm stays.
        """
        return float(_lower_bounds(np.array([self.n_false_alarms]), np.array([self.n_seen]), self.delta)[0])

    @property
    def log_wealth(self) -> float:
        """Logarithm of the evidence that the rate has been above tau; 0 at the start."""
        return float(_log_wealth(np.array([self.n_false_alarms]), np.array([self.n_seen]), np.array([self.tau]))[0])

    @property
    def evidence(self) -> float:
        """The wealth itself: the alarm is raised where it reaches 1/delta. Infinite beyond the range of floats."""
        return math.exp(self.log_wealth) if self.log_wealth < 709.0 else math.inf

    @property
    def history(self) -> MonitorHistory:
        """The course so far, at no more than 1,024 points and the present one."""
        points = list(self._points)
        if self.n_seen and (not points or points[-1][0] != self.n_seen):
            points.append((self.n_seen, self.n_false_alarms))
        n, false = np.array(points, dtype=np.int64).reshape(-1, 2).T
        bounds = _lower_bounds(false, n, self.delta)
        return MonitorHistory(n, false, false / n, bounds, _log_wealth(false, n, np.full(n.size, self.tau)))

    def __repr__(self) -> str:
        start = f"FPRMonitor(tau={self.tau:g}, delta={self.delta:g}): "
        if not self.n_seen:
            return start + "nothing seen yet"
        state = f"ALARM at {self.alarm_at}" if self.alarm else "no alarm"
        return (
            f"{start}{state}, {self.n_false_alarms} false alarms in {self.n_seen} negatives "
            f"(FPR {self.fpr:.3g}, at least {self.fpr_lower_bound:.3g})"
        )

    def _look_at(self, places: NDArray[np.intp]) -> None:
        """Find the first false alarm of a batch, if any, at which the wealth reaches 1/delta."""
        # Every other negative lowers the wealth, so that it can cross at a false alarm only.
        for start in range(0, places.size, _BLOCK):
            block = places[start : start + _BLOCK]
            false = self.n_false_alarms + start + np.arange(1, block.size + 1)
            seen = self.n_seen + block + 1
            crossed = _log_wealth(false, seen, np.full(block.size, self.tau)) >= -math.log(self.delta)
            if crossed.any():
                self.alarm_at = int(seen[crossed.argmax()])
                return

    def _cell_ends(self, n: int) -> Iterable[int]:
        """Numbers of negatives, within the next n, at which a point is kept; the stride may grow on the way."""
        end, last = self.n_seen, self.n_seen + n
        while (end := (end // self._stride + 1) * self._stride) <= last:
            yield end

    def _remember(self, ends: Iterable[int], places: NDArray[np.intp]) -> None:
        for end in ends:
            self._add_point(end, self.n_false_alarms + int(np.searchsorted(places, end - self.n_seen)))

    def _add_point(self, n_seen: int, n_false: int) -> None:
        """Keep a point if it is the first in its cell; join the cells in pairs when there are too many."""
        if self._points and self._points[-1][0] // self._stride == n_seen // self._stride:
            return
        self._points.append((n_seen, n_false))
        if len(self._points) > _MOST_POINTS:
            self._stride *= 2
            first = {n // self._stride: (n, false) for n, false in reversed(self._points)}
            self._points = list(reversed(first.values()))


def _log_wealth(n_false: Counts, n_seen: Counts, tau: Floats) -> Floats:
    """Log of the wealth after each pair of counts, against each tau; arrays of equal length."""
    growth = np.log1p(tau[:, None] * _ODDS_GROWTH)
    logs: Floats = n_false[:, None] * _SHIFTS - n_seen[:, None] * growth + _LOG_WEIGHTS
    top = logs.max(axis=1)
    total: Floats = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    return total


def _lower_bounds(n_false: Counts, n_seen: Counts, delta: float) -> Floats:
    """The tau at which each wealth is 1/delta, from below; 0 where it is nowhere so large.

    The wealth decreases in tau, and is at most 1 at tau = S/n, where no likelihood exceeds the one in its denominator.
    """
    low = np.zeros(n_seen.size)
    high = n_false / np.maximum(n_seen, 1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rejected = _log_wealth(n_false, n_seen, middle) >= -math.log(delta)
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return low


def _as_flags(false_alarms: Any) -> NDArray[np.bool_]:
    x = np.atleast_1d(np.asarray(false_alarms))
    if x.ndim != 1:
        raise ValueError(f"false_alarms must be one flag or a one-dimensional array of flags, got shape {x.shape}.")
    if x.dtype == np.bool_:
        return x
    if x.size == 0:
        return np.zeros(0, dtype=np.bool_)
    if x.dtype.kind not in "fiu" or not np.all((x == 0) | (x == 1)):
        raise ValueError(
            "false_alarms must hold True or False (or 1 or 0) for every negative, got other values. "
            "For a batch of counts use update_counts."
        )
    return x.astype(np.bool_)
