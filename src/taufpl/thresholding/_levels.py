"""Levels of a column as canonical texts, and the share of delta that each of several independent statements gets."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_count, check_delta
from taufpl._row_hashes import is_missing
from taufpl._types import Array, RowIndices

# The level of rows without a value.
MISSING_LEVEL = "missing"


def shared_delta(delta: float, n_statements: int) -> float:
    """The probability of failure that each of n independent statements may have, so that all hold together.

    ::

        delta_g = 1 - (1 - delta)^(1 / n),   so that   (1 - delta_g)^n = 1 - delta

    Counts of the rows of disjoint segments, or levels, are independent, given the model and the labels.

    Parameters
    ----------
    delta : float
        Probability that any of the statements fails.
    n_statements : int
        How many there are, at least 1.

    Returns
    -------
    float

    Examples
    --------
    >>> from taufpl.thresholding import shared_delta
    >>> round(shared_delta(0.05, 3), 6), shared_delta(0.05, 1)
    (0.016952, 0.05)
    """
    delta, n = check_delta(delta), check_count("n_statements", n_statements, least=1)
    return delta if n == 1 else -math.expm1(math.log1p(-delta) / n)


def canonical(label: Any) -> str:
    """The text of a label, the same for 1, 1.0 and "1", or for True and "true"."""
    if isinstance(label, str):
        text = label.strip()
        if text.lower() in ("true", "false"):
            return text.lower()
        return text if "_" in text else _number_in(text) or text
    if isinstance(label, bool | np.bool_):
        return str(bool(label)).lower()
    if isinstance(label, float | np.floating | Decimal) and math.isfinite(label) and label == int(label):
        return str(int(label))
    return str(label)


def _number_in(text: str) -> str | None:
    """A text that is a number, in one way of writing it."""
    try:
        return str(int(text))
    except ValueError:
        pass
    try:
        return canonical(float(text))
    except ValueError:
        return None


def level_text(value: Any) -> str:
    """The text of a level; "missing" for None, NaN and their like, and for a blank text."""
    if isinstance(value, str):
        return canonical(value) or MISSING_LEVEL
    return MISSING_LEVEL if is_missing(value) else canonical(value)


def level_texts(values: ArrayLike) -> Array:
    """The text of each row's level, as an array of objects; see :func:`level_text`."""
    x = np.asarray(values)
    if x.ndim != 1:
        raise ValueError(f"levels must be one-dimensional, one a row; got shape {x.shape}.")
    if x.dtype.kind in "biufU":
        different, places = np.unique(x, return_inverse=True)
        texts = np.array([level_text(each) for each in different.tolist()], dtype=object)
        return texts[places]
    if x.dtype.kind == "M":
        x = x.astype("datetime64[us]")
    known: dict[Any, str] = {}
    found = np.empty(x.size, dtype=object)
    for place, value in enumerate(x.astype(object).tolist()):
        # 1 and True are equal, and have different texts.
        key = (type(value), value)
        text = known.get(key)
        if text is None:
            text = known[key] = level_text(value)
        found[place] = text
    return found


class LevelCodes(NamedTuple):
    """The different levels of some rows as texts, sorted; which of them each row has; whether they are numbers."""

    names: tuple[str, ...]
    codes: RowIndices
    is_number: bool


def level_codes(values: Any, name: str = "labels", n_rows: int | None = None) -> LevelCodes:
    """Levels, one a row, by codes; errors call them `name`."""
    x = np.asarray(values)
    if x.ndim != 1 or (n_rows is not None and x.size != n_rows):
        wanted = "one label a row" if n_rows is None else f"one label a row, {n_rows}"
        raise ValueError(f"{name} must have {wanted}; got an array of shape {x.shape}.")
    texts = level_texts(x).tolist()
    names = tuple(sorted(set(texts)))
    place = {each: code for code, each in enumerate(names)}
    codes = np.array([place[each] for each in texts], dtype=np.intp)
    return LevelCodes(names, codes, x.dtype.kind in "iuf" or (x.dtype.kind == "O" and _are_numbers(x.tolist())))


def _are_numbers(values: list[Any]) -> bool:
    """Whether all that is not missing is a number, and no truth value."""
    kinds = {each for each in set(map(type, values)) if each.__name__ not in ("NoneType", "NAType", "NaTType")}
    return all(issubclass(each, Real | Decimal) and not issubclass(each, bool) for each in kinds)
