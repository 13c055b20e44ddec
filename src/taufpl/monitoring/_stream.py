"""A monitored stream of negatives: counts, both alarms, and points for a plot."""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taufpl.monitoring._change import ChangeState, ChangeStatistic
from taufpl.monitoring._state import ChangeRecord, StreamRecord
from taufpl.monitoring._wealth import Counts, Floats, log_wealth, lower_bounds, upper_bounds

# Rows of a batch that are taken at a time, to keep the memory of their statistics small.
_BLOCK = 65_536
# Most points kept for a plot. When there are more, every second point is dropped.
_MOST_POINTS = 1024


class MonitorHistory(NamedTuple):
    """Counts, bounds and evidence of a monitor at evenly spaced numbers of negatives; arrays of equal length.

    Attributes
    ----------
    n_seen, n_false_alarms : ndarray of int
    fpr : ndarray of float
        Share of false alarms so far.
    fpr_lower_bound : ndarray of float
        Lower confidence bound on the mean false-positive rate so far.
    log_wealth : ndarray of float
        Logarithm of the evidence against the tolerance; the alarm is raised at log(1 / delta).
    fpr_upper_bound : ndarray of float
        Upper confidence bound on the mean false-positive rate so far.
    log_change_evidence : ndarray of float
        Logarithm of the evidence that the rate has risen at some time; a change is signalled at log(run_length).
    """

    n_seen: Counts
    n_false_alarms: Counts
    fpr: Floats
    fpr_lower_bound: Floats
    log_wealth: Floats
    fpr_upper_bound: Floats
    log_change_evidence: Floats


class Stream:
    """Negatives in their order, each a false alarm or not, with the state of the test and of the change detector."""

    def __init__(self, tau: float, delta: float, run_length: float) -> None:
        self._tau, self._delta, self._run_length = tau, delta, run_length
        self._change = ChangeStatistic(tau)
        self.n_seen = 0
        self.n_false_alarms = 0
        self.alarm_at: int | None = None
        self.change_at: int | None = None
        # (n_seen, state of the change statistic), at most one in a cell of _stride negatives
        self._points: list[tuple[int, ChangeState]] = []
        self._stride = 1

    def copy(self) -> Stream:
        """The same stream, to go on from without changing this one."""
        other = copy.copy(self)
        other._change, other._points = copy.copy(self._change), list(self._points)
        return other

    def record(self) -> StreamRecord:
        """The stream as plain values."""
        return StreamRecord(
            self.n_seen,
            self.n_false_alarms,
            self.alarm_at,
            self.change_at,
            ChangeRecord.of(self._change.state),
            self._stride,
            tuple(n_seen for n_seen, _ in self._points),
            tuple(ChangeRecord.of(state) for _, state in self._points),
        )

    def restore(self, record: StreamRecord) -> None:
        """Go on from where another stream, of the same settings, was recorded."""
        n_sums = self._change.state.log_starts.size
        record.check(_MOST_POINTS, n_sums)
        self._change.state = record.change.state(n_sums)
        self.n_seen, self.n_false_alarms = record.n_seen, record.n_false_alarms
        self.alarm_at, self.change_at, self._stride = record.alarm_at, record.change_at, record.stride
        states = (each.state(n_sums) for each in record.point_states)
        self._points = list(zip(record.points, states, strict=True))

    def feed(self, flags: NDArray[np.bool_]) -> None:
        """Add negatives in their order. Where batches begin and end makes no difference."""
        for start in range(0, flags.size, _BLOCK):
            self._feed_block(flags[start : start + _BLOCK])

    def _feed_block(self, flags: NDArray[np.bool_]) -> None:
        flagged = np.flatnonzero(flags) + (self.n_seen + 1)
        ends = self._cell_ends(flags.size)
        change, states = self._change.feed(flagged, ends)
        # Other negatives lower the wealth, and the change statistic too where it is above the least run length: both
        # cross at a false alarm only.
        self._find_crossings(self.n_false_alarms + np.arange(1, flagged.size + 1), flagged, change)
        self._points += zip(ends.tolist(), states, strict=True)
        self.n_seen += flags.size
        self.n_false_alarms += flagged.size

    def _find_crossings(self, n_false: Counts, n_seen: Counts, change: Floats) -> None:
        """Find the first of some looks, if any, at which the wealth and the change statistic reach their levels."""
        if self.alarm_at is None:
            wealth = log_wealth(n_false, n_seen, np.array([self._tau]))
            self.alarm_at = _first_at(n_seen, wealth >= -math.log(self._delta))
        if self.change_at is None:
            self.change_at = _first_at(n_seen, change >= math.log(self._run_length))

    def feed_counts(self, n_false: int, n_negative: int) -> None:
        """Add a batch in unknown order, and look once, at its end."""
        self._change.feed_counts(n_false, n_negative, self.n_seen)
        self.n_seen += n_negative
        self.n_false_alarms += n_false
        self._find_crossings(*self.counts, np.array([self.log_change_evidence]))
        if n_negative and not (self._points and self._points[-1][0] // self._stride == self.n_seen // self._stride):
            self._points.append((self.n_seen, self._change.state))
            if len(self._points) > _MOST_POINTS:
                self._widen_cells()

    @property
    def log_wealth(self) -> float:
        """Logarithm of the evidence that the mean rate so far is above tau."""
        return float(log_wealth(*self.counts, np.array([self._tau]))[0])

    @property
    def log_change_evidence(self) -> float:
        """Logarithm of the evidence that the rate has risen above tau at some time."""
        return float(self._change.log_values([self._change.state], np.array([self.n_seen]))[0])

    @property
    def history(self) -> MonitorHistory:
        """The points that were kept, and the present one."""
        points = list(self._points)
        if self.n_seen and (not points or points[-1][0] != self.n_seen):
            points.append((self.n_seen, self._change.state))
        n = np.array([n_seen for n_seen, _ in points], dtype=np.int64)
        states = [state for _, state in points]
        false = np.array([state.n_false for state in states], dtype=np.int64)
        return MonitorHistory(
            n_seen=n,
            n_false_alarms=false,
            fpr=false / n,
            fpr_lower_bound=lower_bounds(false, n, self._delta),
            log_wealth=log_wealth(false, n, np.array([self._tau])),
            fpr_upper_bound=upper_bounds(false, n, self._delta),
            log_change_evidence=self._change.log_values(states, n),
        )

    @property
    def counts(self) -> tuple[Counts, Counts]:
        """False alarms and negatives so far, as arrays of one entry."""
        return np.array([self.n_false_alarms]), np.array([self.n_seen])

    def _cell_ends(self, n: int) -> Counts:
        """Numbers of negatives, within the next n, at which a point is kept; cells grow until the points are few."""
        last = self.n_seen + n
        while (first := (self.n_seen // self._stride + 1) * self._stride) <= last:
            ends = np.arange(first, last + 1, self._stride, dtype=np.int64)
            if not self._points and first > 1:
                ends = np.append(1, ends)
            if len(self._points) + ends.size <= _MOST_POINTS:
                return ends
            self._widen_cells()
        return np.empty(0, dtype=np.int64)

    def _widen_cells(self) -> None:
        """Join cells in pairs, and keep the first point of each."""
        self._stride *= 2
        first = {point[0] // self._stride: point for point in reversed(self._points)}
        self._points = list(reversed(first.values()))


def _first_at(places: Counts, crossed: NDArray[np.bool_]) -> int | None:
    return int(places[crossed.argmax()]) if crossed.any() else None
