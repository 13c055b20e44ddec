"""Records as plain values and back: what JSON and model files hold, which somebody else may have written."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")

_MOST = 2**63
_WORDS = {
    str: "a text",
    int: "a whole number, not negative",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}


def plain(value: Any, *, lenient: bool = False) -> Any:
    """The same value in dicts, lists, strings and numbers of Python; a TypeError where something else is in it.

    If `lenient`, the text of something else takes its place, and None that of NaN and infinities: JSON has none.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(each, lenient=lenient) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, lenient=lenient) for each in value]
    if lenient and isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if lenient:
        return str(value)
    raise TypeError(f"plain values can be written down: numbers, strings, lists, dicts; got {type(value).__name__}.")


def read_record(kind: type[T], values: Any, name: str) -> T:
    """A dataclass from what JSON holds: fields by name, lists for tuples, objects for dataclasses inside.

    Fields are texts, numbers, truth values, dicts, tuples of one type, other dataclasses, or one of these or None.
    Whole numbers are counts. Names that are no fields are passed over; fields with a default may be missing. A field
    that is missing or of another type is a ValueError, whose message says which, and calls the whole `name`.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} is not an object but {_shown(values)}")
    hints, read = get_type_hints(kind), {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in values:
            read[field.name] = _read(hints[field.name], values[field.name], f"{name}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{name} lacks {field.name!r}")
    return kind(**read)


def _read(hint: Any, value: Any, name: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        (hint,) = (each for each in get_args(hint) if each is not type(None))
        return _read(hint, value, name)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} is not a list but {_shown(value)}")
        return tuple(_read(get_args(hint)[0], each, f"{name}[{place}]") for place, each in enumerate(value))
    if is_dataclass(hint):
        return read_record(hint, value, name)  # type: ignore[arg-type]
    kind = origin or hint
    if not _fits(kind, value):
        raise ValueError(f"{name} is not {_WORDS[kind]} but {_shown(value)}")
    return float(value) if kind is float else value


def _fits(kind: type, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        return isinstance(value, float) or (isinstance(value, int) and abs(value) < _MOST)
    if kind is int:
        return isinstance(value, int) and 0 <= value < _MOST
    # Half of a surrogate pair is in no text that can be printed or looked for.
    return isinstance(value, kind) and not (
        isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value)
    )


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:59] + "…"


def with_named_state(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots that is written down by the names of its fields, so that files outlive a new field.

    Its own `_set_state`, where it has one, takes the place of `set_named_state`. A decorator, above that of the
    dataclass: Python before 3.11.4 replaces `__getstate__` and `__setstate__` of the class by its own.
    """
    methods = {"__getstate__": _named_state, "__setstate__": cls.__dict__.get("_set_state", set_named_state)}
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _named_state(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def set_named_state(record: Any, state: dict[str, Any]) -> None:
    """Fill a record from its fields by name; one that the state does not know takes its default."""
    known = {field.name: field.default for field in fields(record)}
    missing = [name for name, default in known.items() if name not in state and default is MISSING]
    strange = [name for name in state if name not in known]
    if missing or strange:
        raise ValueError(
            f"the state of {type(record).__name__} must hold {list(known)}; missing are {missing}, unknown {strange}."
        )
    for name, default in known.items():
        object.__setattr__(record, name, state.get(name, default))
