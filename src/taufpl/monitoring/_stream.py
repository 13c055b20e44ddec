"""A stream of negatives: the wealth of a gambler who bets against its rate, the change detector, events, a record."""

from __future__ import annotations

import copy
import json
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from taufpl._row_hashes import is_missing
from taufpl._types import Counts, Mask, Vector

# Alternatives multiply the odds of a false alarm by exp(shift), shift from 1/1024 to 16 in steps of sqrt(2). Off by
# half a step, a bet still grows at 97 % of the best rate. Weight is highest around exp(1) and falls off slowly.
STEPS: Vector = np.arange(-20, 9) / 2.0
SHIFTS: Vector = 2.0**STEPS
WEIGHTS: Vector = 1.0 / (1.0 + np.abs(STEPS)) ** 2
LOG_WEIGHTS: Vector = np.log(WEIGHTS / WEIGHTS.sum())
ABOVE, BELOW = SHIFTS, -SHIFTS

# Halvings of the bracket of a bound: as many as a float has digits, and some for small rates.
_HALVINGS = 64
# Rows of a batch that are taken at a time, to keep the memory of their statistics small.
_BLOCK = 65_536
# Most points kept for a plot. When there are more, every second point is dropped.
_MOST_POINTS = 1024
# Events that further rows can still join. An older event is settled and its name forgotten, which bounds the memory.
_MOST_OPEN = 10_000
# Beyond this, a count is no longer a number that doubles hold exactly.
_MOST_NEGATIVES = 2**53


def log_wealth(n_false: Counts, n_seen: Counts, rate: Vector, shifts: Vector = ABOVE) -> Vector:
    """Logarithm of the wealth after each pair of counts, against each rate, or against the only one.

    Bets ABOVE win where false alarms are more frequent than the rate says, bets BELOW where they are rarer.
    """
    growth = np.log1p(rate[:, None] * np.expm1(shifts))
    return log_sum(n_false[:, None] * shifts - n_seen[:, None] * growth + LOG_WEIGHTS)


def log_sum(logs: Vector) -> Vector:
    """Logarithm of the sum over each row, of which the logarithms are given."""
    top = logs.max(axis=1)
    total: Vector = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    return total


def lower_bounds(n_false: Counts, n_seen: Counts, delta: float) -> Vector:
    """The largest rate that bets ABOVE it reject, their wealth being 1/delta; 0 where they reject none.

    Their wealth decreases in the rate, and is at most 1 at S/n, where no likelihood exceeds the one it is divided by.
    """
    return _rejected_end(n_false, n_seen, delta, ABOVE, np.zeros(n_seen.size))


def upper_bounds(n_false: Counts, n_seen: Counts, delta: float) -> Vector:
    """The smallest rate that bets BELOW it reject; 1 where they reject none. See `lower_bounds`."""
    return _rejected_end(n_false, n_seen, delta, BELOW, np.ones(n_seen.size))


def _rejected_end(n_false: Counts, n_seen: Counts, delta: float, shifts: Vector, rejected: Vector) -> Vector:
    """Halve between an end of the unit interval and S/n, which is never rejected; the end is kept where it is not."""
    kept = n_false / np.maximum(n_seen, 1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (rejected + kept)
        is_rejected = log_wealth(n_false, n_seen, middle, shifts) >= -math.log(delta)
        rejected, kept = np.where(is_rejected, middle, rejected), np.where(is_rejected, kept, middle)
    return rejected


# Odds that grow by less than exp(1/4) are left to the test over all negatives: a sum over start times would need longer
# to find them than it may run without a false alarm.
_FINDABLE = SHIFTS >= 0.25
_CHANGE_SHIFTS: Vector = SHIFTS[_FINDABLE]
_CHANGE_LOG_WEIGHTS: Vector = LOG_WEIGHTS[_FINDABLE] - np.log(np.exp(LOG_WEIGHTS[_FINDABLE]).sum())


class ChangeState(NamedTuple):
    """Sums over start times up to a number of negatives, the last of which was a false alarm or ended a batch."""

    n_seen: int
    n_false: int
    log_starts: Vector


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
        self._costs: Vector = np.log1p(tau * np.expm1(_CHANGE_SHIFTS))
        self._log_first: Vector = np.log(-np.expm1(-self._costs))
        self.state = ChangeState(0, 0, np.full(_CHANGE_SHIFTS.size, -np.inf))

    def feed(self, flagged: Counts, others: Counts) -> tuple[Vector, list[ChangeState]]:
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
        path = self.state.n_false * _CHANGE_SHIFTS - n_before * self._costs
        starts = np.logaddexp(starts, np.log(n_negative) - path)
        self.state = ChangeState(n_before + n_negative, self.state.n_false + n_false, starts)

    def log_values(self, states: list[ChangeState], n_seen: Counts) -> Vector:
        """Logarithms of R at numbers of negatives, after each state and without a false alarm since; -inf at 0."""
        if not n_seen.size or not n_seen[0]:
            return np.full(n_seen.size, -np.inf)
        n_false = np.array([state.n_false for state in states])
        return self._log_total(self._log_starts(states, n_seen), n_false, n_seen)

    def _log_starts(self, states: list[ChangeState], n_seen: Counts) -> Vector:
        """Sums over start times at numbers of negatives, after each state and without a false alarm since."""
        before, n_false, sums = (np.array(part) for part in zip(*states, strict=True))
        with np.errstate(divide="ignore"):  # no start time, and log(0), where nothing came since
            starts: Vector = np.logaddexp(sums, self._log_between(n_false, before, n_seen))
        return starts

    def _log_between(self, n_false: Counts, start: Counts, end: Counts) -> Vector:
        """Log of the sum over start <= k < end of exp(-A_k), where no false alarm lies between."""
        largest: Vector = (end - 1)[:, None] * self._costs - n_false[:, None] * _CHANGE_SHIFTS
        return largest + np.log(-np.expm1((start - end)[:, None] * self._costs)) - self._log_first

    def _log_total(self, log_starts: Vector, n_false: Counts, n_seen: Counts) -> Vector:
        return log_sum(
            log_starts + n_false[:, None] * _CHANGE_SHIFTS - n_seen[:, None] * self._costs + _CHANGE_LOG_WEIGHTS
        )


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
    fpr: Vector
    fpr_lower_bound: Vector
    log_wealth: Vector
    fpr_upper_bound: Vector
    log_change_evidence: Vector


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

    def feed(self, flags: Mask) -> None:
        """Add negatives in their order. Where batches begin and end makes no difference."""
        for start in range(0, flags.size, _BLOCK):
            self._feed_block(flags[start : start + _BLOCK])

    def _feed_block(self, flags: Mask) -> None:
        flagged = np.flatnonzero(flags) + (self.n_seen + 1)
        ends = self._cell_ends(flags.size)
        change, states = self._change.feed(flagged, ends)
        # Other negatives lower the wealth, and the change statistic too where it is above the least run length: both
        # cross at a false alarm only.
        self._find_crossings(self.n_false_alarms + np.arange(1, flagged.size + 1), flagged, change)
        self._points += zip(ends.tolist(), states, strict=True)
        self.n_seen += flags.size
        self.n_false_alarms += flagged.size

    def _find_crossings(self, n_false: Counts, n_seen: Counts, change: Vector) -> None:
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


def _first_at(places: Counts, crossed: Mask) -> int | None:
    return int(places[crossed.argmax()]) if crossed.any() else None


class OpenEvents:
    """The latest events in the order of their first rows, each flagged once one of its rows is."""

    def __init__(self) -> None:
        self._flagged: OrderedDict[Hashable, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._flagged)

    @property
    def flags(self) -> Mask:
        """Whether each open event has been flagged by now."""
        return np.fromiter(self._flagged.values(), dtype=np.bool_, count=len(self))

    @property
    def names(self) -> list[Hashable]:
        """Name of each open event; None for a row whose event is missing."""
        return [None if type(name) is object else name for name in self._flagged]

    def open(self, names_and_flags: Iterable[tuple[Hashable, bool]]) -> None:
        """Open events, in the order of their first rows."""
        for name, flag in names_and_flags:
            self._flagged[object() if name is None else name] = flag

    def add(self, flags: Mask, names: Sequence[Any]) -> Mask:
        """Add rows; give the flags of the events that this closes, the oldest of more than the memory holds."""
        settled = []
        for flag, name in zip(flags.tolist(), names, strict=True):
            # A row without a name is an event of its own.
            key = object() if is_missing(name) else name
            self._flagged[key] = self._flagged.get(key, False) or flag
            if len(self) > _MOST_OPEN:
                settled.append(self._flagged.popitem(last=False)[1])
        return np.array(settled, dtype=np.bool_)


def as_names(events: Any, n: int) -> list[Any]:
    """One name a row; None for each where no events were given."""
    if events is None:
        return [None] * n
    names = events.tolist() if hasattr(events, "tolist") else events
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        names = [names]
    names = list(names)
    if len(names) != n:
        raise ValueError(f"events must name the event of each of the {n} negatives, got {len(names)} names.")
    for name in names:
        if not isinstance(name, Hashable):
            raise TypeError(f"events must be numbers, texts or other hashable names; got {name!r}.")
    return names


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A state of the change detector; without a start time so far there are no sums."""

    n_seen: int
    n_false: int
    log_starts: tuple[float, ...]

    @classmethod
    def of(cls, state: ChangeState) -> ChangeRecord:
        """The record of a state."""
        sums = tuple(state.log_starts.tolist())
        return cls(state.n_seen, state.n_false, () if math.isinf(sums[0]) else sums)

    def state(self, n_sums: int) -> ChangeState:
        """The state that was recorded."""
        sums = self.log_starts or (-math.inf,) * n_sums
        return ChangeState(self.n_seen, self.n_false, np.array(sums))


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A monitored stream: counts, alarms, the change detector, and the points that are kept for a plot."""

    n_seen: int
    n_false_alarms: int
    alarm_at: int | None
    change_at: int | None
    change: ChangeRecord
    stride: int
    points: tuple[int, ...]
    point_states: tuple[ChangeRecord, ...]

    def check(self, most_points: int, n_sums: int) -> None:
        """Refuse what no stream can have come to."""
        _need(self.n_seen <= _MOST_NEGATIVES, f"has seen {self.n_seen} negatives, more than can be counted")
        _need(self.n_false_alarms <= self.n_seen, "has more false alarms than negatives")
        for name in ("alarm_at", "change_at"):
            place = getattr(self, name)
            _need(place is None or 1 <= place <= self.n_seen, f"has {name} outside its negatives")
        _need(self.change.n_false == self.n_false_alarms, "has counted its false alarms in two ways")
        _need(len(self.points) == len(self.point_states) <= most_points, "has points that do not fit its states")
        _need(0 < self.stride <= _MOST_NEGATIVES and self.stride.bit_count() == 1, "has a stride that is no power of 2")
        ends = (0, *self.points, self.n_seen + 1)
        _need(all(a < b for a, b in pairwise(ends)), "has points out of their order")
        for end, state in zip((*self.points, self.n_seen), (*self.point_states, self.change), strict=True):
            _need(state.n_false <= state.n_seen <= end, "has a change detector that is ahead of its negatives")
            _need(len(state.log_starts) == (n_sums if state.n_seen else 0), "has a change detector of another size")
            _need(all(map(math.isfinite, state.log_starts)), "has sums in its change detector that are not finite")


@dataclass(frozen=True, slots=True)
class MonitorRecord:
    """A monitor: its settings, the stream of settled negatives, and the events that rows can still join."""

    tau: float
    delta: float
    run_length: float | None  # None: the change detector is off
    stream: StreamRecord
    event_names: tuple[str | None, ...] = ()  # as JSON: "7" is the number, "\"7\"" the text; None where one is missing
    event_flags: tuple[bool, ...] = ()

    def open_events(self) -> list[tuple[Hashable, bool]]:
        """Names and flags of the events; refused are those that no monitor can hold."""
        _need(len(self.event_flags) == len(self.event_names) <= _MOST_OPEN, "has events that do not fit their flags")
        names = [None if text is None else _name_in(text) for text in self.event_names]
        known = [name for name in names if name is not None]
        _need(len(set(known)) == len(known), "has an event twice")
        return list(zip(names, self.event_flags, strict=True))


def text_of_name(name: Hashable) -> str:
    """The name of an event as JSON; names that are neither texts nor numbers are refused."""
    value = name.item() if isinstance(name, np.generic) else name
    if not isinstance(value, str | int | float):
        raise TypeError(
            f"the state of a monitor can be written down where events are texts or numbers; got {name!r}. Give the "
            "text of it."
        )
    return json.dumps(value)


def _name_in(text: str) -> Hashable:
    try:
        name: Hashable = json.loads(text)
    except ValueError:
        name = None
    _need(isinstance(name, str | int | float) and name == name, "has events that are no texts or numbers")
    return name


def _need(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(f"the state of the monitor {otherwise}")
