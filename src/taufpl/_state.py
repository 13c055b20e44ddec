"""How frozen records are written down: by the names of their fields, so that files outlive a new field or order."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


def named_state(record: Any) -> dict[str, Any]:
    """Fields by name; a frozen dataclass with slots takes it as its `__getstate__`."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def set_named_state(record: Any, state: dict[str, Any]) -> None:
    """The way back, as `__setstate__`: a field that the state does not know takes its default.

    Raises
    ------
    ValueError
        A field without a default is not there, or there are names that are no fields.
    """
    known = {field.name: field.default for field in fields(record)}
    missing = [name for name, default in known.items() if name not in state and default is MISSING]
    strange = [name for name in state if name not in known]
    if missing or strange:
        raise ValueError(
            f"the state of {type(record).__name__} must hold {list(known)}; missing are {missing}, unknown {strange}."
        )
    for name, default in known.items():
        object.__setattr__(record, name, state.get(name, default))
