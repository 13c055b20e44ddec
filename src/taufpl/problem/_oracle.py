"""The dual problem as a second-order solver sees it, wherever the rows are.

Between two moves of its proximal centre the solver minimises::

    psi(w) = (m reg/2)|w|^2 + max over the dual set of
             { -alpha . s+ - sum_i l*(-alpha_i) + beta . s- - |beta - centre|^2 / (2 sigma) }

with s = X w. Where l*(-a) = (c/2) a^2 - b a, the maximiser is a projection with weight sigma c, of
alpha0 = (b - s+)/c and beta0 = centre + sigma s-, and

    grad psi(w) = m reg w - v,    v = X+' alpha - X-' beta.

Only beta needs the proximal term: the conjugate is strongly convex in alpha already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taufpl.operators import Operator
from taufpl.problem._moments import Moments
from taufpl.projection import LEAST_WEIGHT, MOST_WEIGHT, Thresholds

if TYPE_CHECKING:
    from taufpl.problem._ranking import BaseRankingProblem, Certificate

Vector = NDArray[np.float64]

# A warm start begins this share of the way, in decades, from a cold start's sigma to that where the neighbour ended,
# which counts up to this many times the largest beta: there psi had lost most of its smoothness.
_WARM_SHARE = 0.65
_WARM_SIGMA = 1e6


@dataclass(frozen=True, slots=True)
class Point:
    """A point w, the pair that maximises psi's inner problem there, and their values."""

    coef: Vector
    dual_direction: Vector  # v of the pair
    total: float  # sum of alpha; where it is 0, psi is its penalty alone
    primal: float  # an upper bound on P(w)
    slack: float  # how far below it P(w) may be
    dual: float  # D of the pair that the oracle would return, at its best scale
    plain_dual: float  # D of this pair as it is


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows held in a class whose entries are ``target_i + rate x_i . delta - threshold``."""

    moments: Moments
    target: float  # mean target of the projection at delta = 0
    rate: float  # how fast targets follow the scores
    dual_direction: Vector  # sum of entry times row at delta = 0

    def target_at(self, delta: Vector) -> float:
        """Mean target at w + delta."""
        return self.target + self.rate * float(self.moments.mean @ delta)

    def direction_at(self, delta: Vector, shift: float) -> Vector | float:
        """Sum of entry times row at w + delta, when the threshold has grown by shift; 0 without rows."""
        count, mean = self.moments.count, self.moments.mean
        if count == 0:
            return 0.0
        moved = self.rate * float(mean @ delta) - shift
        return self.dual_direction + self.rate * (self.moments.gram @ delta) + (count * moved) * mean

    def along(self, step: Vector, delta: Vector) -> tuple[float, float, float]:
        """Constant, slope in t, and slope in the shift, of step . direction_at(delta + t step, shift)."""
        if self.moments.count == 0:
            return 0.0, 0.0, 0.0
        along = self.moments.count * float(self.moments.mean @ step)
        image = self.rate * (self.moments.gram @ step + along * self.moments.mean)
        return float(self.dual_direction @ step + image @ delta), float(image @ step), -along


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Rows that a model of psi follows, those that it holds in their class, and the numbers that shape psi."""

    rows: Operator  # the positives that are followed, then the negatives
    positive_scores: Vector
    negative_scores: Vector
    alpha: Vector
    beta: Vector
    centre: Vector
    thresholds: Thresholds  # of the projection at w
    active: HeldRows  # positives with alpha > 0
    free: HeldRows  # negatives with 0 < beta < cap
    n_capped: int  # negatives with beta = cap
    capped_mean: Vector  # their mean row
    capped_target: float  # and mean target
    k: int
    sigma: float
    curvature: float  # c of the loss's conjugate
    slope: float  # b of the loss's conjugate
    ridge: float


class Oracle(ABC):
    """psi and the certificates of one problem along the way of a solver: the point is w + t step.

    A step goes: `step`, then `project` for one t after the other, then `accept`.

    Attributes
    ----------
    point : Point
        The present one.
    factored : bool
        Whether a d x d matrix is cheap beside the products with the data.
    model_is_cheap : bool
        Whether a working set costs no more than a Newton step.
    n_projections : int
    """

    point: Point
    factored: bool
    model_is_cheap: bool

    def __init__(self, problem: BaseRankingProblem) -> None:
        curvature = problem.loss.conjugate_curvature
        if curvature is None:
            raise ValueError(
                f"the Newton solver needs a loss with a quadratic conjugate, got {type(problem.loss).__name__}; "
                "use the accelerated solver."
            )
        self.curvature: float = curvature
        self.slope: float = problem.loss.conjugate_slope
        self.n_projections = 0
        self._sigma = 1.0

    @property
    def sigma(self) -> float:
        """Proximal step; kept where the projection accepts the weight that it gives to alpha."""
        return self._sigma

    @sigma.setter
    def sigma(self, value: float) -> None:
        self._sigma = min(max(value, 2.0 * LEAST_WEIGHT / self.curvature), 0.5 * MOST_WEIGHT / self.curvature)

    @property
    def weight(self) -> float:
        """Weight of alpha in the projection."""
        return self.sigma * self.curvature

    @staticmethod
    def warm_sigma(sigma: float, cap: float, before: float | None) -> float:
        """First sigma of a warm start, between that of a cold start and the last one of the neighbour."""
        return sigma if before is None else sigma * (max(sigma, min(before, _WARM_SIGMA * cap)) / sigma) ** _WARM_SHARE

    @abstractmethod
    def start(self, start: Any | None, sigma: float) -> None:
        """Go to w = 0, or to the result of a neighbouring problem; sigma is in units of the largest beta there."""

    @abstractmethod
    def step(self, direction: Vector, expected: Thresholds | None) -> None:
        """Take the scores of a step; its full length is expected to lead to these thresholds. One pass."""

    @abstractmethod
    def project(self, t: float) -> float:
        """Find the pair at w + t step; return the product of its dual direction with the step. No pass."""

    @abstractmethod
    def accept(self, t: float) -> None:
        """Go to w + t step."""

    @abstractmethod
    def adapt(self, sigma: float, *, recentre: bool, curvature: bool) -> None:
        """Take another sigma and, perhaps, the present beta as centre; ask for the Hessian there at the same time."""

    @abstractmethod
    def newton_step(self, gradient: Vector, enough: float) -> tuple[Vector, Thresholds | None]:
        """-H^-1 gradient, and the thresholds that it should lead to.

        By conjugate gradients it goes only so far that ``|gradient|^2 <= enough`` can be hoped for.
        """

    @abstractmethod
    def working_set(self, size: int) -> WorkingSet:
        """About `size` negatives nearest to a change of class, the positives that are as near, and all others."""

    @abstractmethod
    def tighten(self) -> None:
        """Make the present primal value exact."""

    def settle(self, coef: Vector, tol: float) -> Certificate | None:
        """Keep the pair, and recompute both values in double precision; None where they are known so.

        Where the gap comes out larger than tol, the solver goes on from this coefficient vector.
        """
        return None

    @abstractmethod
    def finish(self) -> tuple[Vector, Vector] | tuple[None, None]:
        """Leave what is known to the next solve on the same rows; return the pair where it can be had."""
