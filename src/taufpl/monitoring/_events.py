"""Rows of one event count as one negative."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._row_hashes import is_missing

# Events that further rows can still join. An older event is settled and its name forgotten, which bounds the memory.
MOST_OPEN = 10_000


class OpenEvents:
    """The latest events in the order of their first rows, each flagged once one of its rows is."""

    def __init__(self) -> None:
        self._flagged: OrderedDict[Hashable, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._flagged)

    @property
    def flags(self) -> NDArray[np.bool_]:
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

    def add(self, flags: NDArray[np.bool_], names: Sequence[Any]) -> NDArray[np.bool_]:
        """Add rows; give the flags of the events that this closes, the oldest of more than the memory holds."""
        settled = []
        for flag, name in zip(flags.tolist(), names, strict=True):
            # A row without a name is an event of its own.
            key = object() if is_missing(name) else name
            self._flagged[key] = self._flagged.get(key, False) or flag
            if len(self) > MOST_OPEN:
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
