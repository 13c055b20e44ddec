"""Ranking positives above the mean of the k highest negatives: loss, primal, dual, and the gap between them.

With m positives X+, n negatives X- and T_k(s) the mean of the k largest entries of s::

    primal   P(w) = (1/m) sum_i l(x_i+ . w - T_k(X- w)) + (reg/2) |w|^2
    dual     D(alpha, beta) = -(1/m) ( |v|^2 / (2 m reg) + sum_i l*(-alpha_i) ),   v = X+' alpha - X-' beta
    set      alpha >= 0, beta >= 0, sum alpha = sum beta, beta_j <= (sum alpha) / k
    link     w = v / (m reg)

D <= P always, with equality at the optimum only. P(0) = l(0), which is 1 for the paper's loss. A new loss is one class
here: it must be convex, decreasing, differentiable, at least 1 at u = 0 and finite there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from taufpl._types import RowIndices, Vector
from taufpl.operators import Operator
from taufpl.problem._memory_oracle import MemoryOracle, prefers_factoring
from taufpl.problem._oracle import Oracle

# Above this share of rows with weight, one product with all rows is cheaper than picking them.
_MOST_WEIGHTED = 0.9
# Rows up to which a problem with more features is solved in coordinates of their span: H then has as many rows as the
# data, and is factored. Where rows are sparse and features many, conjugate gradients take a small part of that time and
# come first; small values of reg may stall them.
_MOST_DENSE_ROWS = 2000
_MOST_SPARSE_ROWS = 1000


class Loss(ABC):
    """A convex decreasing loss l(u) and its conjugate l*(-a) = max over u of -a u - l(u), for a >= 0.

    Attributes
    ----------
    conjugate_curvature : float or None
        c, where ``l*(-a) = (c/2) a^2 - conjugate_slope a`` on a >= 0; None where the conjugate is not of this form.
        The Newton solver needs it.
    conjugate_slope : float
        See above; without meaning where `conjugate_curvature` is None.
    conjugate_smoothness : float
        Largest second derivative of l*(-a) on a >= 0, which bounds a gradient step on the dual; may be np.inf.
    """

    conjugate_curvature: float | None = None
    conjugate_slope: float = math.nan
    conjugate_smoothness: float = math.inf

    @abstractmethod
    def value(self, margins: Vector) -> Vector:
        """l(u), entry by entry."""

    @abstractmethod
    def derivative(self, margins: Vector) -> Vector:
        """l'(u), entry by entry; never positive."""

    @abstractmethod
    def conjugate(self, alpha: Vector) -> Vector:
        """l*(-alpha), entry by entry, for alpha >= 0."""

    @abstractmethod
    def conjugate_derivative(self, alpha: Vector) -> Vector:
        """Derivative of a -> l*(-a) at alpha, entry by entry."""

    def best_scale(self, alpha: Vector, quadratic: float) -> float:
        """Argmin over theta >= 0 of theta^2 quadratic + sum_i l*(-theta alpha_i), for an alpha that is not zero."""

        def along_ray(theta: float) -> float:
            return theta * theta * quadratic + float(self.conjugate(theta * alpha).sum())

        upper = 1.0
        while upper < 1e12 and along_ray(2.0 * upper) < along_ray(upper):
            upper *= 2.0
        return float(minimize_scalar(along_ray, bounds=(0.0, 2.0 * upper), method="bounded").x)


class SquaredHinge(Loss):
    """The truncated quadratic loss of the paper.

    ::

        l(u) = max(0, 1 - u)^2        l'(u) = -2 max(0, 1 - u)        l*(-a) = a^2/4 - a  for a >= 0

    Examples
    --------
    >>> import numpy as np
    >>> SquaredHinge().value(np.array([-1.0, 0.0, 2.0]))
    array([4., 1., 0.])
    """

    conjugate_curvature = 0.5
    conjugate_slope = 1.0
    conjugate_smoothness = 0.5

    def value(self, margins: Vector) -> Vector:
        """l(u) = max(0, 1 - u)^2."""
        return np.square(np.maximum(1.0 - margins, 0.0))

    def derivative(self, margins: Vector) -> Vector:
        """l'(u) = -2 max(0, 1 - u)."""
        return -2.0 * np.maximum(1.0 - margins, 0.0)

    def conjugate(self, alpha: Vector) -> Vector:
        """l*(-a) = a^2/4 - a."""
        return alpha * (0.25 * alpha - 1.0)

    def conjugate_derivative(self, alpha: Vector) -> Vector:
        """a/2 - 1."""
        return 0.5 * alpha - 1.0

    def best_scale(self, alpha: Vector, quadratic: float) -> float:
        """S / (2 Q) with S = sum alpha and ``Q = quadratic + |alpha|^2 / 4``."""
        return 0.5 * float(alpha.sum()) / (quadratic + 0.25 * float(alpha @ alpha))


def top_count(tau: float, n_negative: int) -> int:
    """Count the highest negatives that a tolerance tau speaks of: k = floor(tau n) + 1, at most n.

    Examples
    --------
    >>> top_count(0.1, 100), top_count(0.0, 100), top_count(1.0, 100), top_count(2.5, 100)
    (11, 1, 100, 100)
    """
    # A product such as .07 * 100 lies just above or below the whole number that was meant.
    return min(math.floor(tau * n_negative * (1.0 + 4e-16)) + 1, n_negative)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A primal value, a dual value at a feasible pair, and (primal - dual) / primal."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Relative gap; at least 0 up to rounding, and at most 1 where the dual value is not negative."""
        return (self.primal - self.dual) / self.primal


@dataclass(frozen=True, slots=True)
class OptimalityResiduals:
    """How far (w, alpha, beta) is from satisfying each optimality condition, all zero at the optimum.

    Attributes
    ----------
    link : float
        ``|w - v/(m reg)|`` relative to the larger of the two.
    slope : float
        ``max_i |alpha_i + l'(s_i - T_k)|``.
    ranking : float
        T_k(s-) - (beta . s-) / sum(beta), never negative: do the highest negatives carry the weight?
    infeasibility : float
        Largest violation of the dual set, relative to sum(alpha).
    """

    link: float
    slope: float
    ranking: float
    infeasibility: float


@dataclass(frozen=True, slots=True)
class RowSpace:
    """A problem with more features than rows, in coordinates of the rows' span, and the ways of a w there and back.

    The optimal w is a combination of rows. With X = L Q' and orthonormal columns in Q, the problem with the rows of L
    is the same problem: w = Q u has the scores X w = L u and the norm |w| = |u|. It has no more features than rows, so
    that H can be factored where d is far too large for that.
    """

    problem: RankingProblem
    shrink: Callable[[Vector], Vector]
    lift: Callable[[Vector], Vector]


class BaseRankingProblem(ABC):
    """The ranking problem, for rows in memory and for remote rows alike."""

    n_features: int

    def __init__(self, n_positive: int, n_negative: int, k: int, reg: float, loss: Loss | None) -> None:
        self.n_positive, self.n_negative = int(n_positive), int(n_negative)
        self.k, self.reg = int(k), float(reg)
        self.loss = SquaredHinge() if loss is None else loss
        # What oracles leave to the next solve on the same rows; problems made by `replace` share it.
        self.kept: dict[str, object] = {}
        if not 1 <= self.k <= self.n_negative:
            raise ValueError(f"k must be between 1 and the number of negatives, {self.n_negative}; got {k!r}.")
        if not (self.reg > 0 and math.isfinite(self.reg)):
            raise ValueError(f"reg must be positive and finite, got {reg!r}.")

    @property
    def ridge(self) -> float:
        """Curvature m reg that the penalty gives to m P."""
        return self.n_positive * self.reg

    @property
    def primal_at_zero(self) -> float:
        """P(0) = l(0)."""
        return float(self.loss.value(np.zeros(1))[0])

    def replace(self, *, k: int | None = None, reg: float | None = None) -> Self:
        """Pose the same problem on the same data with another k or reg."""
        other = self._posed(self.k if k is None else k, self.reg if reg is None else reg)
        other.kept = self.kept
        return other

    @property
    @abstractmethod
    def cost(self) -> tuple[float, int]:
        """Passes over the data, and rounds that waited for all blocks of remote rows, so far."""

    @abstractmethod
    def oracle(self) -> Oracle:
        """The dual problem as a second-order solver sees it."""

    def row_space(self, *, stalled: bool = False) -> RowSpace | None:
        """The same problem in coordinates of the rows' span, where these are few, and fewer than the features.

        For sparse rows with many features that is worth it only where a solver has stalled on the problem itself.
        """
        return None

    @abstractmethod
    def _posed(self, k: int, reg: float) -> Self:
        """The same problem with this k and this reg."""

    @abstractmethod
    def certify(self, coef: Vector, alpha: Vector | None, beta: Vector | None) -> Certificate:
        """Recompute both values from scratch, without rescaling. Up to two passes."""

    @abstractmethod
    def positive_spread(self) -> float:
        """Mean squared distance of the positives from the mean negative. Up to two passes."""


class RankingProblem(BaseRankingProblem):
    """The primal and dual ranking problem over the rows of one operator.

    Positives and negatives are rows of the same operator, named by their indices, so that nothing is copied.
    Methods that take scores touch no data; `scores` and `combine` are the two that do.

    Parameters
    ----------
    operator : Operator
        The data, m + n rows or more.
    positive_rows, negative_rows : array-like of int
        Indices of the m positives and of the n negatives.
    k : int
        How many of the highest negatives count, between 1 and n. See :func:`top_count`.
    reg : float
        Positive weight of the penalty.
    loss : Loss, default=None
        SquaredHinge if None.

    Attributes
    ----------
    n_positive, n_negative, n_features : int
        m, n and d.
    ridge : float
        Curvature m reg that the penalty gives to m P.
    """

    def __init__(
        self,
        operator: Operator,
        positive_rows: ArrayLike,
        negative_rows: ArrayLike,
        k: int,
        reg: float,
        loss: Loss | None = None,
    ) -> None:
        self.operator = operator
        self.positive_rows: RowIndices = np.asarray(positive_rows, dtype=np.intp)
        self.negative_rows: RowIndices = np.asarray(negative_rows, dtype=np.intp)
        for name, rows in (("positive_rows", self.positive_rows), ("negative_rows", self.negative_rows)):
            if rows.ndim != 1 or rows.size == 0:
                raise ValueError(f"{name} must name at least one row, got an array of shape {rows.shape}.")
        super().__init__(self.positive_rows.size, self.negative_rows.size, k, reg, loss)
        self.n_features = operator.shape[1]
        # Where the rows are consecutive, scores are split by views.
        self._positive_part = _as_slice(self.positive_rows)
        self._negative_part = _as_slice(self.negative_rows)

    @property
    def cost(self) -> tuple[float, int]:
        """Passes over the data so far, and no rounds."""
        return self.operator.n_passes, 0

    def oracle(self) -> Oracle:
        """The dual problem with the compiled projection."""
        return MemoryOracle(self)

    def row_space(self, *, stalled: bool = False) -> RowSpace | None:
        """The same problem in coordinates of the rows' span; the operator keeps the factor, for other reg and k too."""
        n_rows, n_features = self.operator.shape
        is_dense = n_rows**2 <= self.operator.n_stored()
        if n_rows > (_MOST_DENSE_ROWS if is_dense else _MOST_SPARSE_ROWS) or n_rows >= n_features:
            return None
        if not (is_dense or stalled or prefers_factoring(self)):
            return None
        factor = self.operator.row_factor()
        small = RankingProblem(factor.reduced, self.positive_rows, self.negative_rows, self.k, self.reg, self.loss)
        return RowSpace(small, factor.coordinates, factor.lift)

    def _posed(self, k: int, reg: float) -> Self:
        return type(self)(self.operator, self.positive_rows, self.negative_rows, k, reg, self.loss)

    # Products with the data.

    def scores(self, coef: Vector) -> tuple[Vector, Vector]:
        """(X+ w, X- w). One pass."""
        scores = np.asarray(self.operator.matvec(coef), dtype=np.float64)
        return scores[self._positive_part], scores[self._negative_part]

    def combine(self, alpha: Vector, beta: Vector) -> Vector:
        """Sum v = X+' alpha - X-' beta. Only rows with weight are touched."""
        is_positive, is_negative = np.flatnonzero(alpha), np.flatnonzero(beta)
        n_rows = self.operator.shape[0]
        if is_positive.size + is_negative.size > _MOST_WEIGHTED * n_rows:
            return np.asarray(self.operator.rmatvec(self.row_weights(alpha, beta)), dtype=np.float64)
        rows = np.concatenate((self.positive_rows[is_positive], self.negative_rows[is_negative]))
        weights = np.concatenate((alpha[is_positive], -beta[is_negative]))
        return np.asarray(self.operator.rmatvec_rows(weights, rows), dtype=np.float64)

    def row_weights(self, alpha: Vector, beta: Vector) -> Vector:
        """Dual weights of all rows of the operator: alpha of the positives, minus beta of the negatives."""
        weights = np.zeros(self.operator.shape[0])
        weights[self._positive_part] = alpha
        weights[self._negative_part] = -beta
        return weights

    # Values.

    def objective(self, coef: Vector) -> float:
        """P(w). One pass."""
        positive, negative = self.scores(coef)
        return self.primal(positive, self.top_mean(negative), float(coef @ coef))

    def top_mean(self, negative_scores: Vector) -> float:
        """T_k: mean of the k largest scores."""
        if self.k == 1:
            return float(negative_scores.max())
        if self.k == self.n_negative:
            return float(negative_scores.mean())
        return float(np.partition(negative_scores, -self.k)[-self.k :].mean())

    def primal(self, positive_scores: Vector, top_mean: float, squared_norm: float) -> float:
        """P from the scores of the positives, T_k of the negatives' and ``|w|^2``."""
        losses = self.loss.value(positive_scores - top_mean)
        return float(losses.mean()) + 0.5 * self.reg * squared_norm

    def dual(self, alpha: Vector, squared_norm: float) -> tuple[float, float]:
        """Highest dual value on the ray through a feasible pair, and the scale where it is reached.

        Parameters
        ----------
        alpha : ndarray of shape (m,)
        squared_norm : float
            ``|X+' alpha - X-' beta|^2``.

        Returns
        -------
        value : float
            D(theta alpha, theta beta), a lower bound on P everywhere.
        theta : float
            The dual set is a cone, so that the scaled pair is feasible too.
        """
        quadratic = squared_norm / (2.0 * self.ridge)
        theta = self.loss.best_scale(alpha, quadratic) if alpha.any() else 1.0
        total = theta * theta * quadratic + float(self.loss.conjugate(theta * alpha).sum())
        return -total / self.n_positive, theta

    def primal_from_dual(self, alpha: Vector, beta: Vector) -> Vector:
        """Primal point w = (X+' alpha - X-' beta) / (m reg)."""
        return self.combine(alpha, beta) / self.ridge

    def positive_spread(self) -> float:
        rows = (self.positive_rows, self.negative_rows)
        means = [self.operator.rmatvec_rows(np.full(chosen.size, 1.0 / chosen.size), chosen) for chosen in rows]
        squares = float(self.operator.column_squares(self.positive_rows).sum())
        return spread_about(squares / self.n_positive, *means)

    def certify(self, coef: Vector, alpha: Vector | None, beta: Vector | None) -> Certificate:
        assert alpha is not None
        assert beta is not None
        primal = self.objective(coef)
        direction = self.combine(alpha, beta)
        squared = float(direction @ direction)
        conjugates = float(self.loss.conjugate(alpha).sum())
        return Certificate(primal, -(squared / (2.0 * self.ridge) + conjugates) / self.n_positive)

    def residuals(self, coef: Vector, alpha: Vector, beta: Vector) -> OptimalityResiduals:
        """Residual of every optimality condition at (w, alpha, beta). Up to two passes."""
        positive, negative = self.scores(coef)
        top = self.top_mean(negative)
        link = self.primal_from_dual(alpha, beta)
        size = max(float(np.linalg.norm(coef)), float(np.linalg.norm(link)))
        total = float(alpha.sum())
        mean = float(beta @ negative) / total if total > 0 else top
        excess = (abs(total - beta.sum()), beta.max() - total / self.k, -alpha.min(), -beta.min(), 0.0)
        return OptimalityResiduals(
            link=float(np.linalg.norm(coef - link)) / size if size > 0 else 0.0,
            slope=float(np.abs(alpha + self.loss.derivative(positive - top)).max()),
            ranking=top - mean,
            infeasibility=float(max(excess)) / total if total > 0 else float(max(excess)),
        )


# Squares that are this part of those which they were taken from are but rounding.
_ROUNDED = 64.0 * float(np.finfo(np.float64).eps)


def spread_about(mean_square: float, mean: Vector, other: Vector) -> float:
    """Mean squared distance from another mean, of rows with this mean square of their norms and this mean.

    0 where it is but rounding: of constant features, say.
    """
    found = max(mean_square - float(mean @ mean), 0.0) + float(np.square(mean - other).sum())
    return found if found > _ROUNDED * mean_square else 0.0


def _as_slice(rows: RowIndices) -> RowIndices | slice:
    if rows[-1] - rows[0] == rows.size - 1 and bool(np.all(np.diff(rows) == 1)):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
