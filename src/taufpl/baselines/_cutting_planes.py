"""Minimise a convex, piecewise linear risk plus a quadratic penalty by cutting planes.

::

    P(w) = R(w) + (reg/2) |w|^2

with one plane under R an iteration, the model that they make (`_bundle`), and a line search towards its minimiser.

References
----------
C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle methods for regularized risk minimization", JMLR 2010.

V. Franc and S. Sonnenburg, "Optimized cutting plane algorithm for large-scale risk minimization", JMLR 2009: the line
search, and where the next plane is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from taufpl.baselines._bundle import Bundle
from taufpl.operators import one_blas_thread
from taufpl.solvers import Callback, Record

Vector = NDArray[np.float64]

# The next plane is taken so far from the best point towards the minimiser of the model.
_TOWARDS_MODEL = 0.1
# The model is minimised to this share of what the certificate has to tell apart.
_MODEL_SHARE = 0.01
# The share of the possible gain over w = 0 under which a direction is not trusted, and the gain that counts as none.
_TRUSTED_SHARE = 0.5
_NO_GAIN = 1e-6
# Never closer to an end of the bracket of a line search than this share of it.
_MARGIN = 0.05


class Risk(Protocol):
    """A convex function of scores, which are linear in w: the maximum of linear pieces, never negative."""

    n_features: int

    @property
    def n_passes(self) -> float:
        """Passes over the data so far."""

    def scores(self, coef: Vector) -> Vector:
        """The scores of w, one a row."""

    def piece(self, scores: Vector) -> tuple[Vector, float]:
        """Weights g and offset b with R >= g . scores + b everywhere and equality at these scores."""

    def combine(self, weights: Vector) -> Vector:
        """The vector a with a . w = weights . scores(w)."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """The best point that was seen, and how far from the optimum it can be at most.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    primal, dual : float
        P(coef), and the largest lower bound of P.
    n_iter, n_planes : int
        Planes taken, and those that the bundle holds.
    n_passes : float
    converged : bool
        Whether the gap came under the tolerance.
    collapsed : bool
        Whether w = 0 is the optimum, up to a gain that counts as none.
    history : tuple of Record
    """

    coef: Vector
    primal: float
    dual: float
    n_iter: int
    n_planes: int
    n_passes: float
    converged: bool
    collapsed: bool
    history: tuple[Record, ...]

    @property
    def gap(self) -> float:
        """(primal - dual) / primal."""
        return (self.primal - self.dual) / self.primal


def minimise(
    risk: Risk,
    reg: float,
    *,
    tol: float,
    max_iter: int,
    bundle: Bundle | None = None,
    start: Vector | None = None,
    callback: Callback | None = None,
) -> Minimum:
    """Minimise R(w) + (reg/2) |w|^2 to a relative gap of tol.

    Each iteration minimises the model, goes from the best point towards its minimiser as far as P falls, which
    costs no pass since scores are linear along a line, and takes a plane between the two.

    Parameters
    ----------
    risk : Risk
    reg, tol : float
    max_iter : int
        Planes to take at most.
    bundle : Bundle, default=None
        Planes of the same risk that are already there; it grows.
    start : ndarray of shape (d,), default=None
        Where to start; zero if None.
    callback : callable, default=None
        Gets a record after every iteration.
    """
    run = _Run(risk, reg, Bundle(risk.n_features) if bundle is None else bundle, start, callback)
    n_iter = 0
    if not len(run.bundle):
        run.take(run.scores)
        n_iter = 1
    with one_blas_thread:
        while True:
            model = run.bound(tol)
            if run.is_done(tol) or n_iter >= max_iter:
                return run.minimum(n_iter, tol)
            run.bundle.prune()
            run.step(model)
            n_iter += 1


@dataclass(frozen=True, slots=True)
class Tangent:
    """Value and slope of a function at a point."""

    at: float
    value: float
    slope: float


def search(along: Callable[[float], Tangent], *, tol: float = 0.1, max_eval: int = 12) -> Tangent:
    """Minimise a convex function of t >= 0, up to a share of what is gained.

    The tangents at both ends of a bracket bound the function from below. Where they cross is the next point if the
    function has a kink; the root of the line through the slopes is, if it has none: they take turns.

    Examples
    --------
    >>> search(lambda t: Tangent(t, abs(t - 0.25), 1.0 if t >= 0.25 else -1.0)).at
    0.25
    """
    low = first = along(0.0)
    high: Tangent | None = None
    t = 1.0
    for n_eval in range(max_eval if first.slope < 0 else 0):
        new = along(t)
        if new.slope < 0:
            low = new
        else:
            high = new
        if high is None:
            t *= 3.0
            continue
        width = high.at - low.at
        crossing = (high.value - low.value - high.slope * width) / (low.slope - high.slope)
        best = min(low.value, high.value)
        if best - (low.value + crossing * low.slope) <= tol * (first.value - best) or not 0.0 < crossing < width:
            break
        secant = width * min(max(low.slope / (low.slope - high.slope), _MARGIN), 1.0 - _MARGIN)
        t = low.at + (crossing if n_eval % 2 == 0 else secant)
    return low if high is None or low.value <= high.value else high


class _Run:
    """The best point, its scores, and the bounds, while planes are taken."""

    def __init__(self, risk: Risk, reg: float, bundle: Bundle, start: Vector | None, callback: Callback | None) -> None:
        self.risk, self.reg, self.bundle, self._callback = risk, reg, bundle, callback
        self._began, self._passes = time.perf_counter(), risk.n_passes
        self.coef = np.zeros(risk.n_features) if start is None else start
        self.scores = risk.scores(self.coef)
        self.primal = self._objective(self.coef, self.scores)
        self.dual = 0.0
        self._at_zero = self._objective(np.zeros_like(self.coef), np.zeros_like(self.scores))
        self.history: list[Record] = []

    def _objective(self, coef: Vector, scores: Vector) -> float:
        weights, offset = self.risk.piece(scores)
        return float(weights @ scores) + offset + 0.5 * self.reg * float(coef @ coef)

    def bound(self, tol: float) -> Vector:
        """Minimise the model, which bounds P from below, and write the history."""
        scale = min(self.primal, self._at_zero - self.dual)
        model, bound = self.bundle.minimise(self.reg, _MODEL_SHARE * tol * scale)
        self.dual = max(self.dual, bound)
        gap = (self.primal - self.dual) / self.primal
        seconds = time.perf_counter() - self._began
        self.history.append(Record(self.risk.n_passes - self._passes, seconds, self.primal, self.dual, gap))
        if self._callback is not None:
            self._callback(self.history[-1])
        return model

    def is_done(self, tol: float) -> bool:
        """Whether the gap is small, beside P and beside what can be gained over w = 0.

        P is about R(0) where reg is large, so that w = 0 lies within the tolerance although other directions rank well.
        """
        gap = self.primal - self.dual
        return gap <= tol * self.primal and (
            gap <= _TRUSTED_SHARE * (self._at_zero - self.dual) or self._is_collapsed()
        )

    def _is_collapsed(self) -> bool:
        first = self.bundle.slopes[0]
        unit = min(self._at_zero, float(first @ first) / (2.0 * self.reg))
        return self._at_zero - self.dual <= _NO_GAIN * unit

    def step(self, model: Vector) -> None:
        """Go towards the minimiser of the model, and take a plane."""
        coef, scores, move = self.coef, self.scores, model - self.coef
        goal = self.risk.scores(model)
        direction = goal - scores
        constant, linear, quadratic = (self.reg * float(a @ b) for a, b in ((coef, coef), (coef, move), (move, move)))

        def along(t: float) -> Tangent:
            there = scores + t * direction
            weights, offset = self.risk.piece(there)
            value = float(weights @ there) + offset + 0.5 * constant + t * (linear + 0.5 * t * quadratic)
            return Tangent(t, value, float(weights @ direction) + linear + t * quadratic)

        found = search(along)
        if found.value < self.primal:
            self.primal, self.coef, self.scores = found.value, coef + found.at * move, scores + found.at * direction
        self.take((1.0 - _TOWARDS_MODEL) * self.scores + _TOWARDS_MODEL * goal)

    def take(self, scores: Vector) -> None:
        """Add the plane of these scores."""
        weights, offset = self.risk.piece(scores)
        self.bundle.add(self.risk.combine(weights), offset)

    def minimum(self, n_iter: int, tol: float) -> Minimum:
        """Close the book."""
        converged = self.is_done(tol)
        collapsed = converged and self._is_collapsed()
        return Minimum(
            np.zeros_like(self.coef) if collapsed else self.coef,
            self._at_zero if collapsed else self.primal,
            self.dual,
            n_iter,
            len(self.bundle),
            self.risk.n_passes - self._passes,
            converged,
            collapsed,
            tuple(self.history),
        )
