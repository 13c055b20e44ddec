"""Checks of arguments. Every message: the parameter, what it must be, what it got."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Scores = NDArray[np.float64]

# Below this tolerance, numbers of negatives come near the largest float.
_LEAST_TAU = 1e-300
# More names than that are not listed one by one.
_MOST_NAMES = 12


def check_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """One-dimensional, not empty, of real numbers."""
    x = np.asarray(values)
    if x.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got an array of shape {x.shape}.")
    if x.size == 0:
        raise ValueError(f"{name} must have at least one entry, got none.")
    if x.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {x.dtype}.")
    return x


def check_scores(name: str, scores: ArrayLike) -> Scores:
    """A vector without NaN. Infinite scores have a rank like any other."""
    if np.ma.isMaskedArray(scores):
        raise TypeError(f"{name} must not be a masked array: leave the masked ones out.")
    x = check_vector(name, scores).astype(np.float64, copy=False)
    is_nan = np.isnan(x)
    if is_nan.any():
        raise ValueError(
            f"{name} must not hold NaN, got {int(is_nan.sum())} of them, the first at index {int(is_nan.argmax())}. "
            "A NaN has no rank: repair the scorer or leave those rows out."
        )
    return x


def check_tau(tau: Any, name: str = "tau", *, zero: bool = False) -> float:
    """A tolerance strictly between 0 and 1; 0 itself is allowed where `zero` says so."""
    number = check_number(name, tau)
    if not (0 < number < 1 or (zero and number == 0)):
        needed = "at least 0 and below 1" if zero else "strictly between 0 and 1"
        raise ValueError(f"{name} must be {needed}, got {tau!r}. It is a share: write 0.01 for 1 %.")
    if number < _LEAST_TAU and not zero:
        raise ValueError(f"{name} must be at least {_LEAST_TAU:g}, got {tau!r}: smaller shares have lost their digits.")
    return number


def check_delta(delta: Any, name: str = "delta") -> float:
    """A probability of failure strictly between 0 and 1."""
    number = check_number(name, delta)
    if not 0 < number < 1:
        raise ValueError(
            f"{name} must be strictly between 0 and 1, got {delta!r}. "
            "It is the probability with which the statement may fail, for example 0.05."
        )
    return number


def check_count(name: str, value: Any, least: int = 0) -> int:
    """A whole number, at least `least`."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}.")
    return count


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the nearest of the known names, or nothing."""
    folded = {each.casefold(): each for each in known}
    near = get_close_matches(name.casefold(), folded, 1, cutoff=0.6)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


def near_or_all(name: str, known: Iterable[str], what: str) -> str:
    """A question with the nearest of the known names, or, where none is near, a sentence that lists them."""
    names = list(known)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return did_you_mean(name, names) or f" The {what} are {', '.join(map(repr, names[:_MOST_NAMES]))}{more}."


def check_number(name: str, value: Any) -> float:
    """A real number, which truth values are not."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    return float(value)
