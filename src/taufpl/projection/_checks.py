"""Checks of the arguments of projections. Every message: the parameter, what it must be, what it got."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_vector
from taufpl._types import Array

LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e12

# total / cap is taken for a whole number within this relative distance: it was one before rounding.
_WHOLE = 4 * float(np.finfo(np.float64).eps)


def as_vectors(**vectors: ArrayLike) -> tuple[Array, ...]:
    """One-dimensional, not empty, C-contiguous, all of one type: float32 if all are, else float64."""
    arrays = tuple(check_vector(name, x) for name, x in vectors.items())
    dtype = np.float32 if all(x.dtype.newbyteorder("=") == np.float32 for x in arrays) else np.float64
    return tuple(np.ascontiguousarray(x, dtype) for x in arrays)


def check_k(k: int, n: int) -> int:
    """A whole number between 1 and n."""
    try:
        count = operator.index(k)
    except TypeError:
        raise TypeError(f"k must be an integer, got {k!r}.") from None
    if not 1 <= count <= n:
        raise ValueError(f"k must be between 1 and the number of entries of beta, {n}; got {count}.")
    return count


def check_weight(weight: float) -> float:
    """A number for which lambda / weight keeps some digits."""
    number = _as_float("weight", weight)
    if not LEAST_WEIGHT <= number <= MOST_WEIGHT:
        raise ValueError(f"weight must be positive, between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}; got {weight!r}.")
    return number


def check_total(total: float, cap: float, n: int) -> tuple[float, float, float]:
    """The total, the cap, and how many entries at their cap make up the total."""
    amount, most = _as_float("total", total), _as_float("cap", cap)
    if not (amount >= 0 and math.isfinite(amount)):
        raise ValueError(f"total must be finite and at least 0, got {total!r}.")
    if not most > 0:
        raise ValueError(f"cap must be positive, got {cap!r}.")
    most = min(most, amount)  # a cap above the total never binds
    count = amount / most if amount > 0 else 1.0
    if count <= n + 1 and abs(count - round(count)) <= _WHOLE * count:
        count = float(round(count))
    if count > n:
        raise ValueError(f"total must be at most cap times the number of entries, {cap} * {n}; got {total!r}.")
    return amount, most, count


def check_out(out: Sequence[Array] | None, inputs: tuple[Array, ...], names: tuple[str, ...]) -> tuple[Array, ...]:
    """The arrays to write to: given ones must fit exactly, because nothing is copied."""
    if out is None:
        return tuple(np.empty_like(x) for x in inputs)
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"out must be a tuple of {len(inputs)} arrays, got {type(out).__name__}.")
    if len(out) != len(inputs):
        raise ValueError(f"out must hold {len(inputs)} arrays, one for each input; got {len(out)}.")
    for index, (name, x, target) in enumerate(zip(names, inputs, out, strict=True)):
        if not isinstance(target, np.ndarray):
            raise TypeError(f"out for {name} must be a NumPy array, got {type(target).__name__}.")
        if target.shape != x.shape or target.dtype != x.dtype:
            raise ValueError(
                f"out for {name} must have shape {x.shape} and dtype {x.dtype}, "
                f"got shape {target.shape} and dtype {target.dtype}."
            )
        if not (target.flags.c_contiguous and target.flags.writeable):
            raise ValueError(f"out for {name} must be C-contiguous and writeable.")
        _check_overlap(index, name, inputs, out)
    return tuple(out)


def detached(inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """Inputs that no output overwrites: a kernel may read its input again after it has written."""
    return tuple(x.copy() if np.may_share_memory(x, out) else x for x, out in zip(inputs, outputs, strict=True))


def _check_overlap(index: int, name: str, inputs: tuple[Array, ...], out: Sequence[Array]) -> None:
    """An output may be its own input, entry for entry; any other sharing would be read after it was written."""
    target = out[index]
    for other, x in enumerate(inputs):
        is_own = other == index
        if not is_own and np.may_share_memory(target, out[other]):
            raise ValueError(f"out for {name} must not share memory with the other out.")
        if np.may_share_memory(target, x) and not (is_own and target.ctypes.data == x.ctypes.data):
            raise ValueError(f"out for {name} must not share memory with an input, unless it is its own, whole.")


def check_entries(names: tuple[str, ...], vectors: tuple[Array, ...]) -> None:
    """No NaN and no +inf."""
    for name, x in zip(names, vectors, strict=True):
        bad = np.flatnonzero(np.isnan(x) | (x == np.inf))
        if bad.size:
            raise ValueError(
                f"{name} must hold finite numbers or -inf, got {x[bad[0]]} at index {bad[0]} "
                f"({bad.size} such entries in all)."
            )


def _as_float(name: str, value: Any) -> float:
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    return float(value)
