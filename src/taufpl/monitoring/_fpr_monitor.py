"""Monitors of a false-positive rate, of one stream and of segments, with alarms that are valid at every look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_count, check_delta, check_number, check_tau
from taufpl._records import plain, read_record
from taufpl._types import Mask
from taufpl.monitoring._stream import (
    MonitorHistory,
    MonitorRecord,
    OpenEvents,
    Stream,
    as_names,
    lower_bounds,
    text_of_name,
    upper_bounds,
)
from taufpl.thresholding import OTHERS, level_text, level_texts, named_tolerances, tolerance_of

# False alarms that the tolerance allows while the change detector may raise one of its own, on average: by default, and
# at the least. With fewer than the least, its statistic could reach the run length without any false alarm.
_USUAL_ALLOWED = 5000
_LEAST_ALLOWED = 10
# Segments that are watched on their own where they are not known beforehand; later ones are watched together.
MOST_SEGMENTS = 50


class FPRMonitor:
    """Raise an alarm when the false-positive rate has left its tolerance, over all negatives or since a change.

    Three statements are made about the same negatives. One may look at them after every negative, and stop or go on as
    one likes. "The rate keeps to the tolerance" means: every negative is a false alarm with probability at most tau,
    whatever came before.

    **The test** asks whether the rate has been above tau from the start. A gambler who starts with 1 bets on every
    labelled negative that it will be a false alarm more often than tau allows. After n negatives with S false alarms
    the wealth is::

        W_n = sum_g w_g exp( S a_g - n log(1 + tau (exp(a_g) - 1)) ),   sum_g w_g = 1,   a_g > 0

    While the rate keeps to the tolerance it is expected not to grow, so that it ever reaches 1/delta with probability
    at most delta (Ville's inequality). `alarm` is raised at that moment.

    **The change detector** asks whether the rate has been above tau since some time. A good past pays for a bad present
    in the test; here a new gambler starts with 1 before every negative, and R_n is the wealth of all gamblers. While
    the rate keeps to the tolerance R_n is expected to grow by at most 1 a negative. `change` is signalled where it
    reaches `run_length`: then falsely at most once in that many negatives, on average, and among the first n negatives
    with probability at most n / run_length.

    **The confidence sequence**, `fpr_lower_bound` to `fpr_upper_bound`, holds the mean rate of the negatives so far.
    Each bound fails, ever, with probability at most delta. `verdict` says what follows.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerance, strictly between 0 and 1.
    delta : float, default=0.05
        Probability that the alarm is ever raised although the rate keeps to the tolerance.
    run_length : float, default=None
        Negatives in which the change detector gives at most one false signal on average, while the rate keeps to the
        tolerance; at least 10 / tau. None stands for 5000 / tau, which is 500,000 at a tolerance of 1 %: one false
        signal while the tolerance allows 5,000 false alarms. Twice the run length delays a signal by some 10 %.
        `math.inf` turns the detector off.

    Notes
    -----
    Each term of the wealth is the likelihood ratio of a rate with odds exp(a_g) times those of tau, and the mixture
    needs nobody to say how large a change to expect. The change detector leaves out odds that grow by less than a
    quarter, in logarithms, which the test finds. Delays that were measured are in the guide to drift. The cost of a
    negative does not grow with their number.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.monitoring import FPRMonitor
    >>> monitor = FPRMonitor(tau=0.01, delta=0.05)
    >>> rng = np.random.default_rng(0)
    >>> monitor.update(rng.random(10_000) < 0.006)
    False
    >>> monitor.verdict
    'within'
    >>> monitor.update(rng.random(10_000) < 0.03)
    True
    >>> 10_000 < monitor.change_at < monitor.alarm_at < 20_000
    True
    >>> monitor.verdict
    'left'

    Rows of one event count once:

    >>> monitor.reset().update([True, True, False, True], events=["a", "a", "b", "a"])
    False
    >>> monitor.n_seen, monitor.n_false_alarms
    (2, 1)
    """

    def __init__(self, tau: float = 0.01, delta: float = 0.05, run_length: float | None = None) -> None:
        self.tau = check_tau(tau)
        self.delta = check_delta(delta)
        self.run_length = _USUAL_ALLOWED / self.tau if run_length is None else _check_run_length(run_length, self.tau)
        self.reset()

    def reset(self) -> FPRMonitor:
        """Forget everything that was seen, alarms and events included."""
        self._settled = Stream(self.tau, self.delta, self.run_length)
        self._stream = self._settled  # with the open events, where there are any
        self._open = OpenEvents()
        return self

    def update(self, false_alarms: ArrayLike, events: Any = None) -> bool:
        """Feed negatives one by one or in batches, in the order of their coming.

        Parameters
        ----------
        false_alarms : bool or array-like of bool, shape (n,)
            For each labelled negative, whether it was predicted positive (True or 1).
        events : array-like of hashable, shape (n,), default=None
            The event that each row belongs to, by number or name. Rows of one event count as one negative, at the place
            of the event's first row, and as one false alarm once any of them was flagged, in this batch or a later one.
            Rows of a missing event (None, NaN) count one by one, as all rows do without events. The latest 10,000
            events are remembered: one that comes back after 10,000 others have begun counts anew.

        Returns
        -------
        bool
            Whether the test's alarm has been raised, by now or before; `change` tells of the change detector. Where
            batches begin and end makes no difference.
        """
        flags = _as_flags(false_alarms)
        if events is None and not len(self._open):
            self._settled.feed(flags)
            self._stream = self._settled
        else:
            self._settled.feed(self._open.add(flags, as_names(events, flags.size)))
            self._look_at_open()
        return self.alarm

    def _look_at_open(self) -> None:
        """Let the stream be that of the settled negatives and the open events."""
        self._stream = self._settled.copy()
        self._stream.feed(self._open.flags)

    def update_counts(self, n_false_alarms: int, n_negative: int) -> bool:
        """Feed a batch of which only the counts are known.

        The order within the batch being unknown, one look is taken at its end. That is as valid, if the size of the
        batch was not chosen by what is in it, and may raise an alarm later than :meth:`update` would, or not at all if
        the batch ends better than it began. Events that came before are complete with it.

        Parameters
        ----------
        n_false_alarms, n_negative : int
            Labelled negatives of the batch that were predicted positive, and all its labelled negatives.

        Returns
        -------
        bool
            Whether the test's alarm has been raised, by now or before.
        """
        n_negative = check_count("n_negative", n_negative)
        n_false = check_count("n_false_alarms", n_false_alarms)
        if n_false > n_negative:
            raise ValueError(f"n_false_alarms must be at most n_negative, {n_negative}; got {n_false}.")
        self._settled, self._open = self._stream, OpenEvents()
        self._settled.feed_counts(n_false, n_negative)
        return self.alarm

    @property
    def n_seen(self) -> int:
        """Negatives seen so far; events where events were given."""
        return self._stream.n_seen

    @property
    def n_false_alarms(self) -> int:
        """False alarms among the negatives seen so far."""
        return self._stream.n_false_alarms

    @property
    def alarm_at(self) -> int | None:
        """Number of negatives at which the test raised its alarm; None before."""
        return self._stream.alarm_at

    @property
    def alarm(self) -> bool:
        """Whether the test has raised its alarm. It stays until `reset`."""
        return self.alarm_at is not None

    @property
    def change_at(self) -> int | None:
        """Number of negatives at which the change detector gave its signal; None before."""
        return self._stream.change_at

    @property
    def change(self) -> bool:
        """Whether the change detector has given its signal. It stays until `reset`."""
        return self.change_at is not None

    @property
    def verdict(self) -> Literal["within", "left", "open"]:
        """The proven statement about the rate, wrong with probability at most delta over all looks together.

        "left": the test's alarm has been raised; the rate has been above tau. "within": the upper bound on the mean
        rate is at most tau, and no change has been signalled, after which the mean would speak of the past. "open":
        neither.
        """
        if self.alarm:
            return "left"
        return "within" if not self.change and self.fpr_upper_bound <= self.tau else "open"

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
        return float(lower_bounds(*self._stream.counts, self.delta)[0])

    @property
    def fpr_upper_bound(self) -> float:
        """Upper confidence bound on the mean false-positive rate of the negatives seen so far.

        As the lower bound, with bets on fewer false alarms (a < 0): with probability at least 1 - delta it is never
        below the mean of the rates that the negatives had. 1 before the first negative.
        """
        return float(upper_bounds(*self._stream.counts, self.delta)[0])

    @property
    def log_wealth(self) -> float:
        """Logarithm of the evidence that the rate has been above tau; 0 at the start."""
        return self._stream.log_wealth

    @property
    def evidence(self) -> float:
        """The wealth itself: the alarm is raised where it reaches 1/delta. Infinite beyond the range of floats."""
        return _exp(self.log_wealth)

    @property
    def log_change_evidence(self) -> float:
        """Logarithm of the evidence that the rate has been above tau since some time; -inf at the start."""
        return self._stream.log_change_evidence

    @property
    def change_evidence(self) -> float:
        """The sum over start times itself: a change is signalled where it reaches the run length."""
        return _exp(self.log_change_evidence)

    @property
    def history(self) -> MonitorHistory:
        """The stream so far, at no more than 1,024 points and the present one."""
        return self._stream.history

    def to_dict(self) -> dict[str, Any]:
        """The whole state in plain values, as JSON holds them: settings, counts, alarms, open events and history.

        Returns
        -------
        dict
            For :meth:`from_dict`. The names of open events must be texts or numbers.

        Examples
        --------
        >>> import json
        >>> from taufpl.monitoring import FPRMonitor
        >>> monitor = FPRMonitor(tau=0.01)
        >>> monitor.update([False, True, False])
        False
        >>> text = json.dumps(monitor.to_dict())
        >>> again = FPRMonitor.from_dict(json.loads(text))
        >>> again.n_seen, again.n_false_alarms, again.evidence == monitor.evidence
        (3, 1, True)
        """
        record = MonitorRecord(
            self.tau,
            self.delta,
            None if math.isinf(self.run_length) else self.run_length,
            self._settled.record(),
            tuple(None if name is None else text_of_name(name) for name in self._open.names),
            tuple(self._open.flags.tolist()),
        )
        found: dict[str, Any] = plain(asdict(record))
        return found

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """A monitor that goes on from a state, and gives bit for bit what one stream would have given.

        Parameters
        ----------
        state : mapping
            As :meth:`to_dict` gives it. One with values that no monitor can have is refused.

        Returns
        -------
        FPRMonitor
        """
        record = read_record(MonitorRecord, state, "the state of the monitor")
        monitor = cls(record.tau, record.delta, math.inf if record.run_length is None else record.run_length)
        monitor._settled.restore(record.stream)
        monitor._open.open(record.open_events())
        if len(monitor._open):
            monitor._look_at_open()
        return monitor

    def __repr__(self) -> str:
        start = f"FPRMonitor(tau={self.tau:g}, delta={self.delta:g}): "
        if not self.n_seen:
            return start + "nothing seen yet"
        alarms = [f"ALARM at {self.alarm_at}"] * self.alarm + [f"CHANGE at {self.change_at}"] * self.change
        state = " and ".join(alarms) or "no alarm"
        return (
            f"{start}{state}, {self.n_false_alarms} false alarms in {self.n_seen} negatives "
            f"(FPR {self.fpr:.3g}, at least {self.fpr_lower_bound:.3g} and at most {self.fpr_upper_bound:.3g}; "
            f"tolerance: {self.verdict})"
        )


def _check_run_length(run_length: Any, tau: float) -> float:
    """A number of negatives that is not too small for the tolerance."""
    number, least = check_number("run_length", run_length), _LEAST_ALLOWED / tau
    if not number >= least:
        raise ValueError(
            f"run_length must be at least {_LEAST_ALLOWED} / tau = {least:g} negatives, got {run_length!r}. "
            "It is the mean number of negatives to a false signal of the change detector."
        )
    return number


def _exp(log: float) -> float:
    return math.exp(log) if log < 709.0 else math.inf


def _as_flags(false_alarms: Any) -> Mask:
    """Flags of negatives, checked."""
    x = np.atleast_1d(np.asarray(false_alarms))
    if x.ndim != 1:
        raise ValueError(f"false_alarms must be one flag or a one-dimensional array of flags, got shape {x.shape}.")
    if x.size and x.dtype != np.bool_ and (x.dtype.kind not in "fiu" or not np.all((x == 0) | (x == 1))):
        raise ValueError(
            "false_alarms must hold True or False (or 1 or 0) for every negative, got other values. "
            "For a batch of counts use update_counts."
        )
    return x.astype(np.bool_, copy=False)


class SegmentMonitor:
    """Raise an alarm when the false-positive rate has left its tolerance in a segment, or over all of them.

    Each segment has an :class:`FPRMonitor` at its own tolerance, and so has the whole, at the loosest. All statements
    together are as those of one monitor: `alarm` is ever raised although every segment keeps to its tolerance with
    probability at most `delta`, and then `change` is signalled at most once in `run_length` negatives, on average.

    Parameters
    ----------
    tau : float or mapping, default=0.01
        Tolerance of all segments, or of each by name; the key "others" is that of all segments that have no own.
    delta : float, default=0.05
        Probability that any alarm is ever raised although the rate keeps to the tolerance in every segment.
    run_length : float, default=None
        Negatives in which change detectors give at most one false signal on average, together. None stands for one
        while the tolerances allow 5,000 false alarms. `math.inf` turns them off.
    segments : iterable, default=None
        The segments that are known beforehand. Rows of all others are watched together, as the segment "others". None
        watches the first 49 that come on their own, and later ones together.

    Attributes
    ----------
    whole : FPRMonitor
    monitors : dict of str to FPRMonitor
        By segment, as canonical text (1, 1.0 and "1" are one segment; "missing" where a row has none).

    Notes
    -----
    Half of delta is the whole's. The other half, d, is shared by segments: of G that are known beforehand, and the
    others, each gets 1 - (1 - d)^(1/(G + 1)); of those that are not, the k-th that comes gets
    1 - (1 - d)^(1/(k (k + 1))), exponents that add up to 1. Then none is ever raised falsely with probability at least
    1 - d: with the wealths W_g, each stopped at 1/d_g, only one factor of prod_g (1 - d_g W_g) moves at a negative, in
    expectation not downwards, so that the product is expected to stay at least prod_g (1 - d_g) = 1 - d; and it is 0
    once an alarm is raised. A negative belongs to one segment, so that false signals of changes add up to at most
    n / (2 run_length) in n negatives over all segments, and to as many of the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.monitoring import SegmentMonitor
    >>> rng = np.random.default_rng(0)
    >>> country = np.array(["EU", "US", "FO"])[rng.choice(3, 20_000, p=[0.7, 0.28, 0.02])]
    >>> false_alarms = rng.random(20_000) < np.where(country == "FO", 0.08, 0.005)
    >>> watch = SegmentMonitor(tau=0.01, segments=["EU", "US", "FO"])
    >>> watch.update(false_alarms, country)
    True
    >>> watch.raised, watch.whole.alarm
    (['FO'], False)
    """

    def __init__(
        self,
        tau: float | Mapping[Any, float] = 0.01,
        delta: float = 0.05,
        run_length: float | None = None,
        segments: Iterable[Any] | None = None,
    ) -> None:
        self.delta = check_delta(delta)
        self.tau = named_tolerances(tau)
        # The bound for one monitor: those of segments are given twice as many negatives.
        self.run_length = None if run_length is None else _check_run_length(run_length, min(self.tau.values()))
        self.segments = None if segments is None else tuple(sorted({*map(level_text, segments)} - {OTHERS}))
        self.reset()

    def reset(self) -> SegmentMonitor:
        """Forget everything that was seen, alarms, events and segments included."""
        self.whole = self._monitor(max(self.tau.values()), 1.0)
        self.monitors: dict[str, FPRMonitor] = {}
        for name in self.segments or ():
            self._watch(name)
        return self

    def update(self, false_alarms: ArrayLike, segments: ArrayLike, events: Any = None) -> bool:
        """Feed negatives one by one or in batches, in the order of their coming.

        Parameters
        ----------
        false_alarms : array-like of bool, shape (n,)
            For each labelled negative, whether it was predicted positive (True or 1).
        segments : array-like of shape (n,)
            The segment of each.
        events : array-like of hashable, shape (n,), default=None
            As in :meth:`FPRMonitor.update`; an event with rows in several segments counts once in each of them.

        Returns
        -------
        bool
            Whether the alarm of the whole or of a segment has been raised, by now or before.
        """
        flags, texts = _as_flags(false_alarms), level_texts(np.atleast_1d(np.asarray(segments)))
        if texts.size != flags.size:
            raise ValueError(f"segments must name that of each of the {flags.size} negatives, got {texts.size} names.")
        names = None if events is None else as_names(events, flags.size)
        self.whole.update(flags, names)
        # In the order of their first rows, so that batches make no difference.
        rows_of: dict[str, list[int]] = {}
        for row, text in enumerate(texts.tolist()):
            rows_of.setdefault(self._watch(text), []).append(row)
        for name, rows in rows_of.items():
            self.monitors[name].update(flags[rows], None if names is None else [names[row] for row in rows])
        return self.alarm

    def _watch(self, segment: str) -> str:
        """The name of the monitor that watches a segment; a new one for a segment that came just now."""
        if segment in self.monitors:
            return segment
        n_watched = len(self.monitors)
        if self.segments is not None:
            weight = 1.0 / (len(self.segments) + 1)
            name = segment if segment in self.segments else OTHERS
        else:
            # The last monitor gets all that is left.
            is_last = n_watched >= MOST_SEGMENTS - 1
            weight = 1.0 / (n_watched + 1) if is_last else 1.0 / ((n_watched + 1) * (n_watched + 2))
            name = OTHERS if is_last else segment
        if name not in self.monitors:
            self.monitors[name] = self._monitor(self.tolerance(name), weight)
        return name

    def _monitor(self, tau: float, weight: float) -> FPRMonitor:
        """A monitor with a share of one half of delta, and of one half of the false signals of changes."""
        delta = -math.expm1(weight * math.log1p(-self.delta / 2.0))
        return FPRMonitor(tau, delta, 2.0 * (_USUAL_ALLOWED / tau if self.run_length is None else self.run_length))

    def tolerance(self, segment: str) -> float:
        """The tolerance of a segment: its own, that of the others, or the strictest where neither is named."""
        return tolerance_of(segment, self.tau)

    @property
    def alarm(self) -> bool:
        """Whether the test of the whole or of a segment has raised its alarm. It stays until `reset`."""
        return self.whole.alarm or any(each.alarm for each in self.monitors.values())

    @property
    def change(self) -> bool:
        """Whether the change detector of the whole or of a segment has given its signal. It stays until `reset`."""
        return self.whole.change or any(each.change for each in self.monitors.values())

    @property
    def raised(self) -> list[str]:
        """The segments with an alarm or a change."""
        return [name for name, each in self.monitors.items() if each.alarm or each.change]

    def to_dict(self) -> dict[str, Any]:
        """The whole state in plain values, as JSON holds them; see :meth:`FPRMonitor.to_dict`."""
        is_usual = self.run_length is None or math.isinf(self.run_length)
        found: dict[str, Any] = plain(
            {
                "tau": self.tau,
                "delta": self.delta,
                "run_length": None if is_usual else self.run_length,
                "segments": self.segments,
                "whole": self.whole.to_dict(),
                "names": list(self.monitors),
                "monitors": [each.to_dict() for each in self.monitors.values()],
            }
        )
        return found

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Monitors that go on from a state; see :meth:`FPRMonitor.from_dict`."""
        record = read_record(_SegmentRecord, state, "the state of the monitor")
        run_length = math.inf if record.whole.run_length is None else record.run_length
        monitor = cls(record.tau, record.delta, run_length, record.segments)
        names = [monitor._watch(name) for name in record.names]
        if names != list(monitor.monitors) or len(names) != len(record.monitors):
            raise ValueError("the state of the monitor has segments that it cannot have come to")
        monitor.whole = _restored(monitor.whole, state["whole"])
        kept = zip(monitor.monitors.items(), state["monitors"], strict=True)
        monitor.monitors = {name: _restored(each, values) for (name, each), values in kept}
        return monitor

    def __repr__(self) -> str:
        lines = [f"{name}: {each}" for name, each in {"all segments": self.whole, **self.monitors}.items()]
        return "SegmentMonitor(\n  " + "\n  ".join(lines) + "\n)"


@dataclass(frozen=True, slots=True)
class _SegmentRecord:
    """The state of monitors by segment."""

    tau: dict[str, float]
    delta: float
    run_length: float | None  # None: the usual one, or none at all, as the whole says
    segments: tuple[str, ...] | None
    whole: MonitorRecord
    names: tuple[str, ...]
    monitors: tuple[MonitorRecord, ...]


def _restored(fresh: FPRMonitor, state: Mapping[str, Any]) -> FPRMonitor:
    """A monitor out of a state, whose settings must be those of the fresh one in its place."""
    found = FPRMonitor.from_dict(state)
    if (found.tau, found.delta, found.run_length) != (fresh.tau, fresh.delta, fresh.run_length):
        raise ValueError("the state of the monitor has settings that do not fit together")
    return found
