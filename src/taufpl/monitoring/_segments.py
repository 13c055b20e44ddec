"""Monitors of segments, or of the levels of a column, and of the whole, which share one delta and one run length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_delta
from taufpl._records import plain, read_record
from taufpl.monitoring._events import as_names
from taufpl.monitoring._monitor import FPRMonitor, as_flags, check_run_length, usual_run_length
from taufpl.monitoring._state import MonitorRecord
from taufpl.thresholding import OTHERS, level_text, level_texts, named_tolerances, tolerance_of

# Segments that are watched on their own where they are not known beforehand; later ones are watched together.
MOST_SEGMENTS = 50


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
        self.run_length = None if run_length is None else check_run_length(run_length, min(self.tau.values()))
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
        flags, texts = as_flags(false_alarms), level_texts(np.atleast_1d(np.asarray(segments)))
        if texts.size != flags.size:
            raise ValueError(f"segments must name that of each of the {flags.size} negatives, got {texts.size} names.")
        names = None if events is None else as_names(events, flags.size)
        self.whole.update(flags, names)
        # In the order of their first rows, so that batches make no difference.
        for name, rows in _rows_by([self._watch(text) for text in texts.tolist()]).items():
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
        return FPRMonitor(tau, delta, 2.0 * (usual_run_length(tau) if self.run_length is None else self.run_length))

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
        record = read_record(SegmentRecord, state, "the state of the monitor")
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
class SegmentRecord:
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


def _rows_by(names: list[str]) -> dict[str, list[int]]:
    """Rows of each name."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows
