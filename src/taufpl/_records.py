"""Records from plain values that somebody else may have written: every field is there, and of its type."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")

_MOST = 2**63
_WORDS = {
    str: "a text",
    int: "a whole number, not negative",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}


def read_record(kind: type[Record], values: Any, name: str) -> Record:
    """A dataclass from what JSON holds: fields by name, lists for tuples, objects for records inside.

    Parameters
    ----------
    kind : type
        A dataclass whose fields are texts, numbers, truth values, dicts, tuples of one type, other dataclasses, or one
        of these or None. Whole numbers are counts.
    values : object
        What was read. Names that are no fields are passed over; fields with a default may be missing.
    name : str
        What errors call it.

    Raises
    ------
    ValueError
        A field is missing or of another type; the message says which.
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
    # A half of a surrogate pair is in no text that can be printed or looked for.
    return isinstance(value, kind) and not (isinstance(value, str) and not value.isascii() and _is_torn(value))


def _is_torn(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:59] + "…"
