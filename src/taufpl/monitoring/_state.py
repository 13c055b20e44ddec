"""The state of a monitor as plain values, which a file can hold: records, and the checks of what a file says."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from taufpl.monitoring._change import ChangeState
from taufpl.monitoring._events import MOST_OPEN

# Beyond this, a count is no longer a number that doubles hold exactly.
MOST_NEGATIVES = 2**53


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
        _need(self.n_seen <= MOST_NEGATIVES, f"has seen {self.n_seen} negatives, more than can be counted")
        _need(self.n_false_alarms <= self.n_seen, "has more false alarms than negatives")
        for name in ("alarm_at", "change_at"):
            place = getattr(self, name)
            _need(place is None or 1 <= place <= self.n_seen, f"has {name} outside its negatives")
        _need(self.change.n_false == self.n_false_alarms, "has counted its false alarms in two ways")
        _need(len(self.points) == len(self.point_states) <= most_points, "has points that do not fit its states")
        _need(0 < self.stride <= MOST_NEGATIVES and self.stride.bit_count() == 1, "has a stride that is no power of 2")
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
        _need(len(self.event_flags) == len(self.event_names) <= MOST_OPEN, "has events that do not fit their flags")
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
