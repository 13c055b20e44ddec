"""The projections for arrays of any library that follows the array API standard, by reductions alone.

The answers are those of :mod:`taufpl.projection`, up to rounding relative to the largest entry; where entries lie so
many decades apart that this loses the sum, an ArithmeticError says so. NumPy arrays are projected much faster there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from taufpl.projection._checks import check_k, check_total, check_weight
from taufpl.projection._level_equation import ArrayReductions, InfeasibleError, Kind, LevelEquation, Solution

__all__ = ["ArrayReductions", "project_capped_simplex", "project_topk_cone", "project_topk_simplex"]


def project_topk_simplex(
    alpha: Any, beta: Any, k: int, *, weight: float = 1.0, xp: Any | None = None
) -> tuple[Any, Any]:
    """Project a pair of arrays on the top-k simplex.

    Parameters
    ----------
    alpha, beta : one-dimensional floating-point arrays of one library
        Finite values or -inf.
    k : int
        Between 1 and the size of beta.
    weight : float, default=1.0
        Weight of alpha's part of the distance, between 1e-12 and 1e12.
    xp : namespace, default=None
        The array library; needed for arrays that do not name it themselves (``__array_namespace__``).

    Returns
    -------
    alpha, beta : arrays like the inputs

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.projection import agnostic
    >>> agnostic.project_topk_simplex(np.array([1.0, 0.2]), np.array([1.0, 0.6, -0.3]), k=2, xp=np)
    (array([1.1, 0.3]), array([0.7, 0.7, 0. ]))
    """
    xp = _namespace(alpha, xp)
    _check(xp, alpha=alpha, beta=beta)
    count = check_k(k, beta.shape[0])
    weight = check_weight(weight)

    def problem(u: float, v: float) -> LevelEquation:
        first, second = ArrayReductions(alpha, xp, u), ArrayReductions(beta, xp, v)
        return LevelEquation(Kind.SIMPLEX, second, v, count, alpha=first, alpha_origin=u, weight=weight)

    u, v, answer = _solve_twice(problem)
    if answer.total == 0.0:
        return xp.zeros_like(alpha), xp.zeros_like(beta)
    new_alpha = _clip(ArrayReductions(alpha, xp, u), answer.u, math.inf)
    total = float(xp.sum(new_alpha))
    new_beta = _write_beta(ArrayReductions(beta, xp, v), answer.v, total, total / count)
    return xp.astype(new_alpha, alpha.dtype), xp.astype(new_beta, beta.dtype)


def project_topk_cone(beta: Any, k: int, *, xp: Any | None = None) -> Any:
    """Project an array on the top-k cone ``{0 <= b_j <= (1/k) sum b}``.

    Parameters and returned value are as in :func:`project_topk_simplex`, without alpha.
    """
    xp = _namespace(beta, xp)
    _check(xp, beta=beta)
    count = check_k(k, beta.shape[0])
    return _project_beta(beta, xp, Kind.CONE, count, 0.0)


def project_capped_simplex(beta: Any, total: float, cap: float, *, xp: Any | None = None) -> Any:
    """Project an array on the capped simplex ``{0 <= b_j <= cap, sum b = total}``.

    Parameters and returned value are as in :func:`project_topk_simplex`, without alpha.
    """
    xp = _namespace(beta, xp)
    _check(xp, beta=beta)
    total, most, count = check_total(total, cap, beta.shape[0])
    if total == 0.0:
        return xp.zeros_like(beta)
    try:
        return _project_beta(beta, xp, Kind.CAPPED, count, total, most)
    except InfeasibleError:
        raise ValueError(
            f"total must be at most cap times the number of finite entries of beta; got {total}, cap {cap}."
        ) from None


def _project_beta(beta: Any, xp: Any, kind: Kind, k: float, total: float, cap: float | None = None) -> Any:
    def problem(u: float, v: float) -> LevelEquation:
        return LevelEquation(kind, ArrayReductions(beta, xp, v), v, k, total=total)

    _, v, answer = _solve_twice(problem)
    if answer.total == 0.0:
        return xp.zeros_like(beta)
    cap = answer.total / k if cap is None else cap
    return xp.astype(_write_beta(ArrayReductions(beta, xp, v), answer.v, answer.total, cap), beta.dtype)


def _solve_twice(problem: Callable[[float, float], LevelEquation]) -> tuple[float, float, Solution]:
    """Once to find out where the thresholds are, once more with them as origins: differences are exact there."""
    rough = problem(0.0, 0.0).solve()
    u = rough.u if math.isfinite(rough.u) else 0.0
    v = rough.v if math.isfinite(rough.v) else 0.0
    return u, v, problem(u, v).solve()


def _clip(vector: ArrayReductions, offset: float, cap: float) -> Any:
    xp = vector.xp
    if offset == -math.inf:  # every finite entry is at its cap
        return xp.where(xp.isfinite(vector.x), xp.full_like(vector.x, cap), xp.zeros_like(vector.x))
    over = vector.x - offset
    over = xp.where(over > 0, over, xp.zeros_like(over))
    return xp.where(over < cap, over, xp.full_like(over, cap)) if cap < math.inf else over


def _write_beta(vector: ArrayReductions, offset: float, total: float, cap: float) -> Any:
    """Beta under its cap, with mu nudged until the sum is right to a few ulps."""
    xp = vector.xp
    for _ in range(4):
        beta = _clip(vector, offset, cap)
        surplus = float(xp.sum(beta)) - total
        free = int(xp.sum(xp.astype((beta > 0) & (beta < cap), xp.int64)))
        if abs(surplus) <= 8 * 2.0**-52 * total or free == 0:
            break
        offset += surplus / free
    if abs(surplus) > 1e-9 * total + beta.shape[0] * 2.0**-1022:
        raise ArithmeticError(
            "the entries differ too much in size for double precision to hold their projection; please report them."
        )
    return beta


def _namespace(x: Any, xp: Any | None) -> Any:
    if xp is not None:
        return xp
    if not hasattr(x, "__array_namespace__"):
        raise TypeError(
            f"xp must be given for arrays of type {type(x).__name__}, which do not name their library; "
            "pass the namespace, for example xp=array_api_compat.torch."
        )
    return x.__array_namespace__()


def _check(xp: Any, **vectors: Any) -> None:
    for name, x in vectors.items():
        if len(x.shape) != 1 or x.shape[0] == 0:
            raise ValueError(f"{name} must be one-dimensional and not empty, got shape {tuple(x.shape)}.")
        if not xp.isdtype(x.dtype, "real floating"):
            raise TypeError(f"{name} must have a real floating-point dtype, got {x.dtype}.")
        if bool(xp.any(xp.isnan(x) | (x == math.inf))):
            raise ValueError(f"{name} must hold finite numbers or -inf, got NaN or inf.")
