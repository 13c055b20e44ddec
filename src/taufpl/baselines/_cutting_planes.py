"""Cutting planes: minimise a convex, piecewise linear risk plus a quadratic penalty.

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

import numpy as np

from taufpl._types import Vector
from taufpl.baselines._bundle import Bundle
from taufpl.baselines._scorer import combine_rows, stacked_scores
from taufpl.operators import one_blas_thread
from taufpl.problem import RankingProblem
from taufpl.solvers import Callback, Record

# From scores, of the positives and then of the negatives, to the linear piece of R there: weights g and an offset b
# with R >= g . scores + b everywhere, and equality at these scores. R is never negative.
Piece = Callable[[Vector], tuple[Vector, float]]

# The next plane is taken this share of the way from the best point to the minimiser of the model.
_TOWARDS_MODEL = 0.1
# The model is minimised to this share of what the certificate has to tell apart.
_MODEL_SHARE = 0.01
# The share of the possible gain over w = 0 under which a direction is not trusted, and the gain that counts as none.
_TRUSTED_SHARE = 0.5
_NO_GAIN = 1e-6
# A line search never comes closer to an end of its bracket than this share of it.
_MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class Minimum:
    """The best point that was seen, P there, and the largest lower bound of P.

    `n_iter` counts the planes taken, `n_planes` those that the bundle still holds; `collapsed` says that w = 0 is the
    optimum, up to a gain that counts as none.
    """

    coef: Vector
    primal: float
    dual: float
    n_iter: int
    n_planes: int
    converged: bool
    collapsed: bool
    history: tuple[Record, ...]

    @property
    def gap(self) -> float:
        """(primal - dual) / primal."""
        return (self.primal - self.dual) / self.primal


def minimise(
    problem: RankingProblem,
    piece: Piece,
    *,
    tol: float,
    max_iter: int,
    bundle: Bundle | None = None,
    start: Vector | None = None,
    callback: Callback | None = None,
) -> Minimum:
    """Minimise R(w) + (reg/2) |w|^2 to a relative gap of tol, on the rows and at the reg of a ranking problem.

    Each iteration minimises the model, goes from the best point towards its minimiser as far as P falls, which
    costs no pass since scores are linear along a line, and takes a plane between the two, at most `max_iter` of them.
    It starts from zero or from `start`, and from the planes of a bundle of the same risk, which grows.
    """
    run = _CuttingPlanes(problem, piece, Bundle(problem.n_features) if bundle is None else bundle, start, callback)
    n_iter = 0
    if not len(run.bundle):
        run.add_plane(run.scores)
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


class _CuttingPlanes:
    """The best point, its scores, and the bounds, while planes are added."""

    def __init__(
        self, problem: RankingProblem, piece: Piece, bundle: Bundle, start: Vector | None, callback: Callback | None
    ) -> None:
        self.problem, self.reg, self.piece, self.bundle, self._callback = problem, problem.reg, piece, bundle, callback
        self._began, self._passes = time.perf_counter(), problem.operator.n_passes
        self.coef = np.zeros(problem.n_features) if start is None else start
        self.scores = stacked_scores(problem, self.coef)
        self.primal = self._objective(self.coef, self.scores)
        self.dual = 0.0
        self._at_zero = self._objective(np.zeros_like(self.coef), np.zeros_like(self.scores))
        self.history: list[Record] = []

    def _objective(self, coef: Vector, scores: Vector) -> float:
        weights, offset = self.piece(scores)
        return float(weights @ scores) + offset + 0.5 * self.reg * float(coef @ coef)

    def bound(self, tol: float) -> Vector:
        """Minimise the model, which bounds P from below, and write the history."""
        scale = min(self.primal, self._at_zero - self.dual)
        model, bound = self.bundle.minimise(self.reg, _MODEL_SHARE * tol * scale)
        self.dual = max(self.dual, bound)
        gap = (self.primal - self.dual) / self.primal
        n_passes, seconds = self.problem.operator.n_passes - self._passes, time.perf_counter() - self._began
        self.history.append(Record(n_passes, seconds, self.primal, self.dual, gap))
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
        """Go towards the minimiser of the model, and add a plane."""
        coef, scores, move = self.coef, self.scores, model - self.coef
        goal = stacked_scores(self.problem, model)
        direction = goal - scores
        constant, linear, quadratic = (self.reg * float(a @ b) for a, b in ((coef, coef), (coef, move), (move, move)))

        def along(t: float) -> Tangent:
            there = scores + t * direction
            weights, offset = self.piece(there)
            value = float(weights @ there) + offset + 0.5 * constant + t * (linear + 0.5 * t * quadratic)
            return Tangent(t, value, float(weights @ direction) + linear + t * quadratic)

        found = search(along)
        if found.value < self.primal:
            self.primal, self.coef, self.scores = found.value, coef + found.at * move, scores + found.at * direction
        self.add_plane((1.0 - _TOWARDS_MODEL) * self.scores + _TOWARDS_MODEL * goal)

    def add_plane(self, scores: Vector) -> None:
        """Add the plane that supports R at these scores."""
        weights, offset = self.piece(scores)
        self.bundle.add(combine_rows(self.problem, weights), offset)

    def minimum(self, n_iter: int, tol: float) -> Minimum:
        """The best point, or zero where the ranking has collapsed."""
        converged = self.is_done(tol)
        collapsed = converged and self._is_collapsed()
        coef = np.zeros_like(self.coef) if collapsed else self.coef
        primal = self._at_zero if collapsed else self.primal
        history, n_planes = tuple(self.history), len(self.bundle)
        return Minimum(coef, primal, self.dual, n_iter, n_planes, converged, collapsed, history)
