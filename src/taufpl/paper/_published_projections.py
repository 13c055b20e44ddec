"""Published projections on the top-k simplex and the top-k cone, to compare `taufpl.projection` with.

`ibis`, `bisection` and the search of `ptkc` are compiled, with gcc on x86-64 Linux for the same instruction sets.
The others lean on NumPy's sort. Entries must be finite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from taufpl._kernels import _projection_peers
from taufpl._types import Vector
from taufpl.projection import as_vectors, check_k, check_out, detached

__all__ = ["bisection", "ibis", "ptkc", "sort_based", "sort_based_cone"]

Pair = tuple[Vector, Vector]  # alpha, beta
Affine = tuple[float, float]  # value at 0, slope


def ibis(
    alpha: ArrayLike, beta: ArrayLike, k: int = 1, *, tol: float = 0.0, prune: bool = False, out: Pair | None = None
) -> Pair:
    """Project on the top-k simplex by improved bisection.

    ::

        min  (1/2)|alpha - alpha0|^2 + (1/2)|beta - beta0|^2
        over alpha, beta >= 0,  sum alpha = sum beta,  beta_j <= (sum alpha)/k

    Bisection on the multiplier lambda, in which tangents at the ends of the bracket and the chord between
    them bound the root from both sides; the next point is the middle of those bounds or, once they are tight,
    one of them [1]_. For k = 1 the function is ``sum [alpha0 - lambda]_+ - sum [beta0 + lambda]_+``.
    For k > 1 the method is carried over: each step on lambda solves for mu by the same search. It ends at the
    exact answer, once the active set stands still.

    Parameters
    ----------
    alpha, beta : array-like of shape (m,), (n,)
        The point to project.
    k : int, default=1
        At most a share 1/k of the total in one entry of beta, 1 <= k <= n.
    tol : float, default=0.0
        Stop early once lambda is known to within tol. With 0, go on to the exact answer.
    prune : bool, default=False
        Drop entries that the bracket has decided, as the authors' released code (SLEP) does. By default each
        step scans all entries.
    out : pair of float64 arrays, default=None
        Where to write the answer.

    Returns
    -------
    alpha, beta : ndarray of shape (m,), (n,)

    References
    ----------
    .. [1] J. Liu and J. Ye, "Efficient Euclidean projections in linear time", ICML 2009.

    Examples
    --------
    >>> from taufpl.baselines.projection import ibis
    >>> alpha, beta = ibis([3.0, 0.0], [1.0, 0.5, -3.0], k=2)
    >>> alpha, beta
    (array([2.5, 0. ]), array([1.25, 1.25, 0.  ]))
    """
    return _bisect(alpha, beta, k, improved=True, pruned=prune, tol=tol, out=out)


def bisection(alpha: ArrayLike, beta: ArrayLike, k: int, *, tol: float = 1e-10, out: Pair | None = None) -> Pair:
    """Project on the top-k simplex by bisection with pruned caches, the tau-FPL paper's Algorithm 2.

    ::

        f(lambda) = k lambda + k mu(C) + sum_j [beta0_j - mu(C) - C/k]_+ = 0,    C = sum_i [alpha0_i - lambda]_+

    Bisection on lambda from ``(-max(beta0), max(alpha0))``. The bracket of lambda brackets C, mu and
    delta = mu + C/k too; entries outside their brackets leave the caches for partial sums. mu(C) is found by
    improved bisection in the caches of mu and delta.

    Parameters
    ----------
    alpha, beta : array-like of shape (m,), (n,)
        The point to project.
    k : int
        At most a share 1/k of the total in one entry of beta, 1 <= k <= n.
    tol : float, default=1e-10
        Stop once the bracket of lambda is no wider than this.
    out : pair of float64 arrays, default=None
        Where to write the answer.

    Returns
    -------
    alpha, beta : ndarray of shape (m,), (n,)

    References
    ----------
    .. [1] The tau-FPL paper, Algorithm 2, "Linear-time projection on top-k simplex".

    Examples
    --------
    >>> from taufpl.baselines.projection import bisection
    >>> alpha, beta = bisection([3.0, 0.0], [1.0, 0.5, -3.0], k=2)
    >>> alpha.round(6), beta.round(6)
    (array([2.5, 0. ]), array([1.25, 1.25, 0.  ]))
    """
    return _bisect(alpha, beta, k, improved=False, pruned=True, tol=tol, out=out)


def ptkc(beta: ArrayLike, k: int) -> Vector:
    """Project on the top-k cone by sorting and exhaustive search, in O(n log n + k n).

    ::

        min  (1/2)|beta - beta0|^2   over 0 <= beta_j <= (sum beta)/k

    After two special cases (the answer is zero; the k largest entries share the total evenly), every pair of
    sizes (entries at the cap, entries between 0 and the cap) is tried in turn. Prefix sums make a check O(1),
    and the first pair that satisfies the optimality conditions is the answer [1]_.

    Parameters
    ----------
    beta : array-like of shape (n,)
        The point to project.
    k : int
        At most a share 1/k of the total in one entry, 1 <= k <= n.

    Returns
    -------
    beta : ndarray of shape (n,)

    References
    ----------
    .. [1] M. Lapin, M. Hein and B. Schiele, "Top-k multiclass SVM", NIPS 2015.

    Examples
    --------
    >>> from taufpl.baselines.projection import ptkc
    >>> ptkc([3.0, 1.5, 0.0], k=2)
    array([2.5, 2. , 0.5])
    """
    return _project_on_cone(beta, k, _first_feasible_sizes)


def sort_based(alpha: ArrayLike, beta: ArrayLike, k: int, *, weight: float = 1.0) -> Pair:
    """Project on the top-k simplex by sorting, in O(m log m + n log n).

    ::

        min  (a/2)|alpha - alpha0|^2 + (1/2)|beta - beta0|^2
        over alpha, beta >= 0,  sum alpha = sum beta,  beta_j <= (sum alpha)/k

    Sorted vectors and their prefix sums give the value at a breakpoint in O(log n). Binary searches over the
    breakpoints tell which entries are positive and which at the cap; a linear system then gives the answer.

    Parameters
    ----------
    alpha, beta : array-like of shape (m,), (n,)
        The point to project.
    k : int
        At most a share 1/k of the total in one entry of beta, 1 <= k <= n.
    weight : float, default=1.0
        The weight a > 0 of alpha in the distance.

    Returns
    -------
    alpha, beta : ndarray of shape (m,), (n,)

    Examples
    --------
    >>> from taufpl.baselines.projection import sort_based
    >>> alpha, beta = sort_based([3.0, 0.0], [1.0, 0.5, -3.0], k=2)
    >>> alpha, beta
    (array([2.5, 0. ]), array([1.25, 1.25, 0.  ]))
    """
    alpha, beta = as_vectors(alpha=np.asarray(alpha, np.float64), beta=np.asarray(beta, np.float64))
    k = check_k(k, beta.size)
    if not weight > 0.0:
        raise ValueError(f"weight must be positive, got {weight!r}.")
    ordered_alpha, sums_alpha = _sorted("alpha", alpha)
    ordered, sums = _sorted("beta", beta)
    if k * weight * ordered_alpha[0] + sums[k] <= 0.0:
        return np.zeros_like(alpha), np.zeros_like(beta)
    levels = _Levels(ordered, sums, k)
    sizes = levels.sizes_at_root(
        lambda level, total: _excess(ordered_alpha, sums_alpha, (total - level) / (k * weight)) - total
    )
    total, mu = _total_and_mu(ordered, k, *sizes)
    lam = _multiplier(ordered_alpha, sums_alpha, weight, total)
    cap = (total[0] + total[1] * lam) / k
    return np.maximum(alpha - lam / weight, 0.0), np.clip(beta - (mu[0] + mu[1] * lam), 0.0, cap)


def sort_based_cone(beta: ArrayLike, k: int) -> Vector:
    """Project on the top-k cone by sorting, in O(n log n).

    ::

        min  (1/2)|beta - beta0|^2   over 0 <= beta_j <= (sum beta)/k

    As `sort_based`, without alpha.

    Parameters
    ----------
    beta : array-like of shape (n,)
        The point to project.
    k : int
        At most a share 1/k of the total in one entry, 1 <= k <= n.

    Returns
    -------
    beta : ndarray of shape (n,)

    Examples
    --------
    >>> from taufpl.baselines.projection import sort_based_cone
    >>> sort_based_cone([3.0, 1.5, 0.0], k=2)
    array([2.5, 2. , 0.5])
    """
    return _project_on_cone(
        beta, k, lambda *sorted_beta: _Levels(*sorted_beta).sizes_at_root(lambda level, total: level - total)
    )


def _check_finite(name: str, statistic: float) -> None:
    """Refuse NaN and infinity by a statistic that they spoil, which costs no pass of its own."""
    if not np.isfinite(statistic):
        raise ValueError(f"{name} must have finite entries, got NaN or infinity.")


def _bisect(
    alpha: ArrayLike, beta: ArrayLike, k: int, *, improved: bool, pruned: bool, tol: float, out: Pair | None
) -> Pair:
    alpha, beta = as_vectors(alpha=np.asarray(alpha, np.float64), beta=np.asarray(beta, np.float64))
    k = check_k(k, beta.size)
    alpha_max, beta_max, beta_min = alpha.max(), beta.max(), beta.min()
    _check_finite("alpha", alpha_max)
    _check_finite("beta", beta_max - beta_min)
    targets = check_out(out, (alpha, beta), ("alpha", "beta"))
    alpha, beta = detached((alpha, beta), targets)
    if alpha_max + beta_max <= 0.0:
        for target in targets:
            target.fill(0.0)
        return targets[0], targets[1]
    if k == 1:
        _projection_peers.project_pair(alpha, beta, alpha_max, beta_max, improved, pruned, tol, targets[0], targets[1])
    else:
        work = np.empty(beta.size if pruned else 0)
        _projection_peers.project_topk(
            alpha, beta, k, alpha_max, beta_min, beta_max, improved, pruned, tol, targets[0], targets[1], work
        )
    return targets[0], targets[1]


def _project_on_cone(beta: ArrayLike, k: int, find_sizes: Callable[[Vector, Vector, int], tuple[int, int]]) -> Vector:
    """Project on the top-k cone, given how to find the numbers of entries at the cap and above zero."""
    [beta] = as_vectors(beta=np.asarray(beta, np.float64))
    k = check_k(k, beta.size)
    ordered, sums = _sorted("beta", beta)
    if sums[k] <= 0.0:
        return np.zeros_like(beta)
    total, mu = _total_and_mu(ordered, k, *find_sizes(ordered, sums, k))
    return np.clip(beta - mu[0], 0.0, total[0] / k)


def _sorted(name: str, vector: Vector) -> tuple[Vector, Vector]:
    """Return the entries downward, then -inf; and sums, where sums[i] adds up the i largest."""
    n = vector.size
    ordered, sums = np.empty(n + 1), np.zeros(n + 1)
    ordered[:n] = np.sort(vector)[::-1]
    ordered[n] = -np.inf
    np.cumsum(ordered[:n], out=sums[1:])
    _check_finite(name, sums[n])
    return ordered, sums


def _first_feasible_sizes(ordered: Vector, sums: Vector, k: int) -> tuple[int, int]:
    """Numbers of entries at the cap and above zero; the slack grows until rounding lets a pair through."""
    if ordered[k - 1] - sums[k] / k >= ordered[k]:  # the k largest share the total evenly
        return k, k
    slack = 16 * np.finfo(np.float64).eps * np.abs(ordered[:-1]).max()
    n_capped = n_positive = -1
    while n_positive < 0:
        n_capped, n_positive = _projection_peers.search_sizes(ordered, sums, k, slack)
        slack *= 16
    return n_capped, n_positive


def _total_and_mu(ordered: Vector, k: int, n_capped: int, n_positive: int) -> tuple[Affine, Affine]:
    """Write the total and mu as affine functions of lambda, given how many entries are capped and positive.

    With cap = total/k, U and F the sums of the capped and of the free entries, they solve

        (k - n_capped) cap + n_free mu = F          (k - n_capped) mu - n_capped cap = -U - k lambda.
    """
    capped = ordered[:n_capped].sum()
    if n_capped == n_positive:  # = k: the k largest share the total evenly
        return (capped, k), (ordered[k], 0.0)
    room, n_free, free = k - n_capped, n_positive - n_capped, ordered[n_capped:n_positive].sum()
    scale = room * room + n_free * n_capped
    total = k * (room * free + n_free * capped) / scale, k * k * n_free / scale
    mu = (n_capped * free - room * capped) / scale, -k * room / scale
    return total, mu


def _excess(ordered: Vector, sums: Vector, t: float) -> float:
    """Add up [x - t]_+."""
    count = ordered.size - np.searchsorted(ordered[::-1], t, side="right")
    return float(sums[count] - count * t)


def _multiplier(ordered: Vector, sums: Vector, weight: float, total: Affine) -> float:
    """Find lambda where sum [alpha0 - lambda/weight]_+ = total[0] + total[1] lambda."""

    def is_idle(i: int) -> bool:
        return bool(sums[i] - i * ordered[i] >= total[0] + total[1] * weight * ordered[i])

    count = bisect_left(range(sums.size - 1), True, key=is_idle)
    return float((ordered[:count].sum() - total[0]) / (count / weight + total[1]))


class _Levels:
    """The level sets of T(t) = sum [beta0 - t]_+ + k t, convex, from its values at the sorted entries.

    T falls up to the (k+1)-th largest entry and rises from the k-th. {T <= level} is an interval [mu, delta]
    with the total k (delta - mu). See docs/projection.md.
    """

    def __init__(self, ordered: Vector, sums: Vector, k: int) -> None:
        heights = sums[:-1] - np.arange(-k, sums.size - 1 - k) * ordered[:-1]
        self.rising = heights[k - 1 :: -1]
        self.falling = heights[k:]
        self.ordered, self.sums, self.k = ordered, sums, k

    def total(self, level: float) -> float:
        """The total at a level."""
        k, sums = self.k, self.sums
        n_capped = k - int(np.searchsorted(self.rising, level, side="right"))
        n_positive = k + int(np.searchsorted(self.falling, level, side="left"))
        if n_capped == k or n_positive == k:
            return float(k * (self.ordered[k - 1] - self.ordered[k]))
        delta = (level - sums[n_capped]) / (k - n_capped)
        mu = (sums[n_positive] - level) / (n_positive - k)
        return float(k * (delta - mu))

    def sizes_at_root(self, psi: Callable[[float, float], float]) -> tuple[int, int]:
        """Numbers of entries at the cap and above zero where psi(level, total) = 0; psi decreases."""
        if not self.falling.size:  # k = n
            return self.k, self.k

        def is_past(level: float) -> bool:
            return psi(level, self.total(level)) <= 0.0

        n_capped = self.k - bisect_left(self.rising, True, key=is_past)
        return n_capped, self.k + bisect_left(self.falling, True, key=is_past)
