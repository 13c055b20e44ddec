"""Public projections: check the arguments, call the kernel, translate its exit code.

Every message of a check: the parameter, what it must be, what it got.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_vector
from taufpl._kernels import _projection as kernels
from taufpl._types import Array

Vectors = tuple[Array, ...]
# Inputs, outputs, and the factor by which the inputs were scaled; returns the kernel's answer.
Kernel = Callable[[Vectors, Vectors, float], tuple[float, ...]]
# Centres and half widths of the three thresholds.
Guess = tuple[float, float, float, float, float, float]

# A guess is looked for within this distance, relative to its size, even when the last answer did not move at all.
_LEAST_WIDTH = 1e-9
LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e12
# total / cap is taken for a whole number within this relative distance: it was one before rounding.
_WHOLE = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a projection.

    With them, ``alpha = max(alpha0 - lam / weight, 0)`` and ``beta = min(max(beta0 - mu, 0), cap)``, unless the
    answer is zero: then the total and the cap are 0, and `lam` and `mu` say nothing.

    Attributes
    ----------
    lam : float
        Multiplier of the sum of alpha; 0 for the sets that have no alpha.
    mu : float
        Where beta starts; -inf when every entry of beta is at its cap.
    cap : float
        Upper bound on an entry of beta.
    total : float
        Common sum of alpha and beta.
    widths : tuple of three floats
        How far from here the next answer is looked for first when this one is its guess: around
        ``lam / weight``, ``mu`` and ``mu + cap``.
    """

    lam: float
    mu: float
    cap: float
    total: float
    widths: tuple[float, float, float]


@overload
def project_topk_simplex(
    alpha: ArrayLike,
    beta: ArrayLike,
    k: int,
    *,
    weight: float = ...,
    guess: Thresholds | None = ...,
    out: tuple[Array, Array] | None = ...,
    return_thresholds: Literal[False] = ...,
) -> tuple[Array, Array]: ...
@overload
def project_topk_simplex(
    alpha: ArrayLike,
    beta: ArrayLike,
    k: int,
    *,
    weight: float = ...,
    guess: Thresholds | None = ...,
    out: tuple[Array, Array] | None = ...,
    return_thresholds: Literal[True],
) -> tuple[Array, Array, Thresholds]: ...
def project_topk_simplex(
    alpha: ArrayLike,
    beta: ArrayLike,
    k: int,
    *,
    weight: float = 1.0,
    guess: Thresholds | None = None,
    out: tuple[Array, Array] | None = None,
    return_thresholds: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Thresholds]:
    """Project a pair of vectors on the top-k simplex.

    ::

        min (weight/2)|a - alpha|^2 + (1/2)|b - beta|^2
        over a >= 0, b >= 0, sum a = sum b, b_j <= (sum a) / k

    The answer is exact up to rounding and takes time linear in the number of entries.

    Parameters
    ----------
    alpha : array-like of shape (m,)
        Finite values or -inf (which stays at zero).
    beta : array-like of shape (n,)
        Likewise. With fewer than `k` finite entries the answer is zero.
    k : int
        Between 1 and n.
    weight : float, default=1.0
        Weight of alpha's part of the distance, between 1e-12 and 1e12.
    guess : Thresholds, default=None
        Thresholds of a similar projection, to start from. A bad guess costs time, never accuracy.
    out : pair of arrays, default=None
        Where to write the answer: C-contiguous, of the inputs' shapes and of the result's type. They may be the
        inputs themselves.
    return_thresholds : bool, default=False
        Also return the thresholds, which describe the answer and serve as the next call's guess.

    Returns
    -------
    alpha : ndarray of shape (m,)
    beta : ndarray of shape (n,)
        float32 if both inputs are, else float64.
    thresholds : Thresholds
        Only if `return_thresholds`.

    Raises
    ------
    ValueError
        If an argument is out of its range, or an entry is NaN or +inf.
    OverflowError
        If an entry of the answer is larger than its type can hold.

    Examples
    --------
    >>> from taufpl.projection import project_topk_simplex
    >>> alpha, beta = project_topk_simplex([1.0, 0.2], [1.0, 0.6, -0.3], k=2)
    >>> alpha
    array([1.1, 0.3])
    >>> beta
    array([0.7, 0.7, 0. ])
    """
    inputs = as_vectors(alpha=alpha, beta=beta)
    count = check_k(k, inputs[1].size)
    weight = check_weight(weight)
    first, second = check_out(out, inputs, ("alpha", "beta"))
    given = detached(inputs, (first, second))
    thresholds = project_topk_simplex_into(given[0], given[1], count, weight, guess, (first, second))
    return (first, second, thresholds) if return_thresholds else (first, second)


def project_topk_simplex_into(
    alpha: Array, beta: Array, k: int, weight: float, guess: Thresholds | None, out: tuple[Array, Array]
) -> Thresholds:
    """:func:`project_topk_simplex` for solvers, which call it many times on short vectors: arguments are not checked.

    All arrays are C-contiguous and of one floating type, `out` shares no memory with the inputs, 1 <= k <= n, and the
    weight is a float in its range.
    """

    def kernel(x: Vectors, to: Vectors, scale: float) -> tuple[float, ...]:
        return kernels.topk_simplex(x[0], x[1], k, weight, to[0], to[1], _as_guess(guess, weight, scale))

    return _thresholds(_run(kernel, (alpha, beta), out, ("alpha", "beta")), weight, k, guess)


def project_topk_cone(
    beta: ArrayLike,
    k: int,
    *,
    guess: Thresholds | None = None,
    out: Array | None = None,
    return_thresholds: bool = False,
) -> Any:
    """Project a vector on the top-k cone of Lapin, Hein and Schiele (2015).

    ::

        min (1/2)|b - beta|^2   over 0 <= b_j <= (1/k) sum b

    Parameters
    ----------
    beta : array-like of shape (n,)
        Finite values or -inf. With fewer than `k` finite entries the answer is zero.
    k : int
        Between 1 and n.
    guess, out, return_thresholds
        As in :func:`project_topk_simplex`; `out` is one array.

    Returns
    -------
    beta : ndarray of shape (n,)
    thresholds : Thresholds
        Only if `return_thresholds`.

    Examples
    --------
    >>> from taufpl.projection import project_topk_cone
    >>> project_topk_cone([3.0, 1.0, -1.0], k=2)
    array([2., 2., 0.])
    """
    inputs = as_vectors(beta=beta)
    count = check_k(k, inputs[0].size)
    outputs = check_out(None if out is None else (out,), inputs, ("beta",))

    def kernel(x: Vectors, to: Vectors, scale: float) -> tuple[float, ...]:
        return kernels.topk_cone(x[0], count, to[0], _as_guess(guess, 1.0, scale))

    answer = _run(kernel, detached(inputs, outputs), outputs, ("beta",))
    return (outputs[0], _thresholds(answer, 0.0, count, guess)) if return_thresholds else outputs[0]


def project_capped_simplex(
    beta: ArrayLike,
    total: float,
    cap: float,
    *,
    guess: Thresholds | None = None,
    out: Array | None = None,
    return_thresholds: bool = False,
) -> Any:
    """Project a vector on the capped simplex (the continuous quadratic knapsack).

    ::

        min (1/2)|b - beta|^2   over 0 <= b_j <= cap, sum b = total

    Parameters
    ----------
    beta : array-like of shape (n,)
        Finite values or -inf (which stays at zero).
    total : float
        At least 0 and at most ``cap`` times the number of finite entries.
    cap : float
        Positive; np.inf for the plain simplex.
    guess, out, return_thresholds
        As in :func:`project_topk_simplex`; `out` is one array.

    Returns
    -------
    beta : ndarray of shape (n,)
    thresholds : Thresholds
        Only if `return_thresholds`.

    Examples
    --------
    >>> from taufpl.projection import project_capped_simplex
    >>> project_capped_simplex([0.9, 0.4, 0.1], total=1.0, cap=0.5)
    array([0.5, 0.4, 0.1])
    """
    inputs = as_vectors(beta=beta)
    total, most, count = check_total(total, cap, inputs[0].size)
    outputs = check_out(None if out is None else (out,), inputs, ("beta",))

    def kernel(x: Vectors, to: Vectors, scale: float) -> tuple[float, ...]:
        if total == 0.0:
            check_entries(("beta",), x)
            return (kernels.ZERO_ANSWER, *(0.0,) * 7)
        return kernels.capped_simplex(x[0], total * scale, most * scale, count, to[0], _as_guess(guess, 1.0, scale))

    answer = _run(kernel, detached(inputs, outputs), outputs, ("beta",))
    if answer[0] == kernels.NOT_FEASIBLE:
        finite = int(np.isfinite(inputs[0]).sum())
        raise ValueError(
            f"total must be at most cap times the number of finite entries of beta, {cap} * {finite}; got {total}."
        )
    return (outputs[0], _thresholds(answer, 0.0, count, guess)) if return_thresholds else outputs[0]


def _run(kernel: Kernel, inputs: Vectors, outputs: Vectors, names: tuple[str, ...]) -> tuple[float, ...]:
    """Call the kernel; handle the exits where it has no answer."""
    answer = kernel(inputs, outputs, 1.0)
    if answer[0] == kernels.OVERFLOW:
        answer = _run_scaled(kernel, inputs, outputs)
    if answer[0] == kernels.BAD_VALUE:
        check_entries(names, inputs)
    if answer[0] == kernels.ZERO_ANSWER:
        for out in outputs:
            out.fill(0.0)
    if answer[0] == kernels.FOUND and not answer[3] < float(np.finfo(outputs[0].dtype).max):
        for name, out in zip(names, outputs, strict=True):
            if np.isinf(out).any():
                raise OverflowError(f"an entry of the projected {name} is larger than {out.dtype} can hold.")
    return answer


def _run_scaled(kernel: Kernel, inputs: Vectors, outputs: Vectors) -> tuple[float, ...]:
    """Project on a smaller scale: the sets are cones, or scale with their total."""
    largest = max(float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0)) for x in inputs)
    exponent = int(np.clip(-np.frexp(largest)[1], -1000, 1000))
    scaled = tuple(np.ldexp(x.astype(np.float64), exponent) for x in inputs)
    results = tuple(np.zeros_like(x) for x in scaled)
    code, *numbers = kernel(scaled, results, float(np.ldexp(1.0, exponent)))
    if code == kernels.OVERFLOW:
        raise ArithmeticError(
            "the entries differ too much in size for double precision to hold their projection; please report them."
        )
    with np.errstate(over="ignore"):
        for out, result in zip(outputs, results, strict=True):
            out[:] = np.ldexp(result, -exponent)
        return (code, *(float(np.ldexp(x, -exponent)) for x in numbers))


def _thresholds(answer: tuple[float, ...], weight: float, k: float, guess: Thresholds | None) -> Thresholds:
    _, scaled_lam, mu, total, *moved, _ = answer
    cap = total / k
    widths = next_widths((moved[0], moved[1], moved[2]), (scaled_lam, mu, mu + cap), guess)
    return Thresholds(weight * scaled_lam, mu, cap, total, widths)


def _as_guess(guess: Thresholds | None, weight: float, scale: float) -> Guess | None:
    """Centres and half widths for the kernel, or None where the guess says nothing."""
    if guess is not None and not isinstance(guess, Thresholds):
        raise TypeError(f"guess must be the Thresholds of an earlier projection or None, got {guess!r}.")
    if guess is None or not guess.total > 0:
        return None
    numbers = (guess.lam / weight, guess.mu, guess.mu + guess.cap, *guess.widths)
    a, b, c, d, e, f = (scale * x for x in numbers)
    return (a, b, c, d, e, f) if all(map(math.isfinite, numbers)) and min(d, e, f) >= 0 else None


def next_widths(
    moved: tuple[float, float, float], centres: tuple[float, float, float], guess: Thresholds | None
) -> tuple[float, float, float]:
    """Twice as far as the thresholds moved this time, but not suddenly much less than before."""
    least = _LEAST_WIDTH * max(map(abs, centres))
    before = (0.0, 0.0, 0.0) if guess is None else guess.widths
    a, b, c = (max(2.0 * step, width / 4.0, least) for step, width in zip(moved, before, strict=True))
    return a, b, c


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
