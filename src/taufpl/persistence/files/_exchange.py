"""Models with records in the place of what a file keeps in another way, boosters and lists of trees; and back."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from taufpl.estimators import local_model
from taufpl.persistence.boosting import BoosterRecord, class_of, is_booster
from taufpl.persistence.files._tree_list import TreeList, TreeRecord

_HOMES = ("sklearn.", "taufpl.")


def with_records(model: Any, trusted: Collection[str] = ()) -> Any:
    """A model with a record in the place of every booster and list of trees, the model itself where it has none.

    A classifier for clusters becomes the one for rows in memory. Estimators whose class the user trusts stay as they
    are; what objects of other trusted classes hold is exchanged.
    """

    def exchange(item: Any) -> Any:
        if isinstance(item, list):
            return TreeList.of(item) or item
        if class_of(item) in trusted:
            return item
        local = local_model(item)
        return BoosterRecord.of(local) if is_booster(local) else item

    return _Exchange(exchange, trusted).apply(model)


def without_records(model: Any, max_bytes: int, trusted: Collection[str] = ()) -> Any:
    """A loaded model with boosters and trees in the place of their records."""

    def exchange(item: Any) -> Any:
        if isinstance(item, TreeList | TreeRecord):
            return item.restore()
        return item.restore(max_bytes) if isinstance(item, BoosterRecord) else item

    return _Exchange(exchange, trusted).apply(model)


class _Exchange:
    """Exchanges some parts of an object: what holds none of them is kept, what holds one is copied."""

    def __init__(self, exchange: Callable[[Any], Any], trusted: Collection[str]) -> None:
        self._exchange = exchange
        self._trusted = trusted
        self._done: dict[int, tuple[Any, Any]] = {}  # with the item itself, whose id none other may get

    def apply(self, item: Any) -> Any:
        if id(item) not in self._done:
            self._done[id(item)] = item, item
            new = self._exchange(item)
            self._done[id(item)] = item, self._inside(item) if new is item else new
        return self._done[id(item)][1]

    def _inside(self, item: Any) -> Any:
        if isinstance(item, dict):
            return self._refilled(item, item)
        if isinstance(item, list | tuple):
            parts = [self.apply(part) for part in item]
            is_same = all(new is old for new, old in zip(parts, item, strict=True))
            return item if is_same else type(item)(parts)
        if isinstance(item, np.ndarray) and item.dtype == object:
            changes = [(place, self.apply(part)) for place, part in enumerate(item.flat)]
            if all(new is item.flat[place] for place, new in changes):
                return item
            copied = item.copy()
            for place, new in changes:
                copied.flat[place] = new
            return copied
        if not type(item).__module__.startswith(_HOMES) and class_of(item) not in self._trusted:
            return item
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = {each.name: getattr(item, each.name) for each in dataclasses.fields(item)}
            new = self._refilled(fields, fields)
            return item if new is fields else dataclasses.replace(item, **new)
        return self._refilled(item, getattr(item, "__dict__", {}))

    def _refilled(self, item: Any, values: dict[Any, Any]) -> Any:
        """The item, or a copy of it with other values where one of them has changed."""
        changed = {name: new for name, old in values.items() if (new := self.apply(old)) is not old}
        if not changed:
            return item
        if isinstance(item, dict):
            copied: Any = copy.copy(item)
            copied.update(changed)
            return copied
        copied = object.__new__(type(item))
        vars(copied).update({**values, **changed})
        return copied
