"""The change detector: a sum over the times at which the rate may have begun to exceed the tolerance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taufpl.monitoring._wealth import LOG_WEIGHTS, SHIFTS, Counts, Floats, log_sum

# Odds that grow by less than exp(1/4) are left to the test over all negatives: a sum over start times would need longer
# to find them than it may run without a false alarm.
_FINDABLE = SHIFTS >= 0.25
_SHIFTS: Floats = SHIFTS[_FINDABLE]
_LOG_WEIGHTS: Floats = LOG_WEIGHTS[_FINDABLE] - np.log(np.exp(LOG_WEIGHTS[_FINDABLE]).sum())


class ChangeState(NamedTuple):
    """Sums over start times up to a number of negatives, the last of which was a false alarm or ended a batch."""

    n_seen: int
    n_false: int
    log_starts: Floats


class ChangeStatistic:
    """Evidence that the rate has been above tau since some time, no matter which.

    With bets a_g > 0, their cost l_g = log(1 + tau (exp(a_g) - 1)) and the path A_n = a_g S_n - n l_g, the statistic is
    the wealth of gamblers of whom one starts, with 1, before every negative (Shiryaev and Roberts)::

        R_n = sum_g w_g sum_{k < n} exp(A_n - A_k),   that is   R_n = (R_{n-1} + 1) exp(a_g X_n - l_g)  for one g

    As long as every negative is a false alarm with probability at most tau, whatever came before, R_n is expected to
    grow by at most 1 a negative. Hence R first reaches N after at least N negatives, in expectation; restarted from 0
    whenever it does, it does so at most n/N times in n negatives, in expectation; and it ever does so among the first n
    with probability at most n/N. Such a process is an e-detector (Shin, Ramdas and Rinaldo).

    Kept are the sums over k of exp(-A_k), as logarithms, up to the last false alarm. Between false alarms they are
    geometric series, so that the state does not depend on how the negatives come in batches.
    """

    def __init__(self, tau: float) -> None:
        self._costs: Floats = np.log1p(tau * np.expm1(_SHIFTS))
        self._log_first: Floats = np.log(-np.expm1(-self._costs))
        self.state = ChangeState(0, 0, np.full(_SHIFTS.size, -np.inf))

    def feed(self, flagged: Counts, others: Counts) -> tuple[Floats, list[ChangeState]]:
        """Add the next false alarms; give log R there, and the states at `others`, further numbers of negatives.

        `flagged` are the numbers of negatives, counted from the first of all, at which the false alarms come.
        """
        if not flagged.size:
            return np.empty(0), [self.state] * others.size
        n_false = self.state.n_false + np.arange(1, flagged.size + 1)
        previous = np.append(self.state.n_seen, flagged[:-1])
        sums = self._log_between(n_false - 1, previous, flagged)
        sums[0] = np.logaddexp(sums[0], self.state.log_starts)
        np.logaddexp.accumulate(sums, axis=0, out=sums)
        # Copies, since a view would hold on to the sums of all false alarms.
        states = [
            ChangeState(int(flagged[place]), int(n_false[place]), sums[place].copy()) if place >= 0 else self.state
            for place in (np.searchsorted(flagged, others, side="right") - 1).tolist()
        ]
        self.state = ChangeState(int(flagged[-1]), int(n_false[-1]), sums[-1].copy())
        return self._log_total(sums, n_false, flagged), states

    def feed_counts(self, n_false: int, n_negative: int, n_before: int) -> None:
        """Add a batch in unknown order, with `n_before` negatives before it.

        All start times of the batch are put at its beginning: R = (R + n) exp(a S - n l) for n negatives with S false
        alarms. It is expected to grow by at most n.
        """
        if not n_negative:
            return
        starts = self._log_starts([self.state], np.array([n_before]))[0]
        path = self.state.n_false * _SHIFTS - n_before * self._costs
        starts = np.logaddexp(starts, np.log(n_negative) - path)
        self.state = ChangeState(n_before + n_negative, self.state.n_false + n_false, starts)

    def log_values(self, states: list[ChangeState], n_seen: Counts) -> Floats:
        """Logarithms of R at numbers of negatives, after each state and without a false alarm since; -inf at 0."""
        if not n_seen.size or not n_seen[0]:
            return np.full(n_seen.size, -np.inf)
        n_false = np.array([state.n_false for state in states])
        return self._log_total(self._log_starts(states, n_seen), n_false, n_seen)

    def _log_starts(self, states: list[ChangeState], n_seen: Counts) -> Floats:
        """Sums over start times at numbers of negatives, after each state and without a false alarm since."""
        before, n_false, sums = (np.array(part) for part in zip(*states, strict=True))
        with np.errstate(divide="ignore"):  # no start time, and log(0), where nothing came since
            starts: Floats = np.logaddexp(sums, self._log_between(n_false, before, n_seen))
        return starts

    def _log_between(self, n_false: Counts, start: Counts, end: Counts) -> Floats:
        """Log of the sum over start <= k < end of exp(-A_k), where no false alarm lies between."""
        largest: Floats = (end - 1)[:, None] * self._costs - n_false[:, None] * _SHIFTS
        return largest + np.log(-np.expm1((start - end)[:, None] * self._costs)) - self._log_first

    def _log_total(self, log_starts: Floats, n_false: Counts, n_seen: Counts) -> Floats:
        return log_sum(log_starts + n_false[:, None] * _SHIFTS - n_seen[:, None] * self._costs + _LOG_WEIGHTS)
