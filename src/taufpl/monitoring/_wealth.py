"""Wealth of a gambler who bets against a rate: a mixture over alternatives, and the confidence bounds it gives."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Alternatives multiply the odds of a false alarm by exp(shift), shift from 1/1024 to 16 in steps of sqrt(2). Off by
# half a step, a bet still grows at 97 % of the best rate. Weight is highest around exp(1) and falls off slowly.
STEPS: Floats = np.arange(-20, 9) / 2.0
SHIFTS: Floats = 2.0**STEPS
WEIGHTS: Floats = 1.0 / (1.0 + np.abs(STEPS)) ** 2
LOG_WEIGHTS: Floats = np.log(WEIGHTS / WEIGHTS.sum())
ABOVE, BELOW = SHIFTS, -SHIFTS

# Halvings of the bracket of a bound: as many as a float has digits, and some for small rates.
_HALVINGS = 64


def log_wealth(n_false: Counts, n_seen: Counts, rate: Floats, shifts: Floats = ABOVE) -> Floats:
    """Logarithm of the wealth after each pair of counts, against each rate, or against the only one.

    Bets ABOVE win where false alarms are more frequent than the rate says, bets BELOW where they are rarer.
    """
    growth = np.log1p(rate[:, None] * np.expm1(shifts))
    return log_sum(n_false[:, None] * shifts - n_seen[:, None] * growth + LOG_WEIGHTS)


def log_sum(logs: Floats) -> Floats:
    """Logarithm of the sum over each row, of which the logarithms are given."""
    top = logs.max(axis=1)
    total: Floats = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    return total


def lower_bounds(n_false: Counts, n_seen: Counts, delta: float) -> Floats:
    """The largest rate that bets ABOVE it reject, their wealth being 1/delta; 0 where they reject none.

    Their wealth decreases in the rate, and is at most 1 at S/n, where no likelihood exceeds the one it is divided by.
    """
    return _rejected_end(n_false, n_seen, delta, ABOVE, np.zeros(n_seen.size))


def upper_bounds(n_false: Counts, n_seen: Counts, delta: float) -> Floats:
    """The smallest rate that bets BELOW it reject; 1 where they reject none. See `lower_bounds`."""
    return _rejected_end(n_false, n_seen, delta, BELOW, np.ones(n_seen.size))


def _rejected_end(n_false: Counts, n_seen: Counts, delta: float, shifts: Floats, rejected: Floats) -> Floats:
    """Halve between an end of the unit interval and S/n, which is never rejected; the end is kept where it is not."""
    kept = n_false / np.maximum(n_seen, 1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (rejected + kept)
        is_rejected = log_wealth(n_false, n_seen, middle, shifts) >= -math.log(delta)
        rejected, kept = np.where(is_rejected, middle, rejected), np.where(is_rejected, kept, middle)
    return rejected
