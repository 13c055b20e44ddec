"""The dual problem as a second-order solver sees it, wherever the rows are.

Between two moves of its proximal centre the solver minimises::

    psi(w) = (m reg/2)|w|^2 + max over the dual set of
             { -alpha . s+ - sum_i l*(-alpha_i) + beta . s- - |beta - centre|^2 / (2 sigma) }

with s = X w. Where l*(-a) = (c/2) a^2 - b a, the maximiser is a projection with weight sigma c, of
alpha0 = (b - s+)/c and beta0 = centre + sigma s-, and

    grad psi(w) = m reg w - v,    v = X+' alpha - X-' beta.

Only beta needs the proximal term: the conjugate is strongly convex in alpha already.

The generalised Hessian of psi, with the active positives A, the free negatives F and the capped ones D, and Xc the
rows with their own mean removed, is::

    H = m reg I + (1/c) Xc_A' Xc_A + sigma Xc_F' Xc_F + (sigma/rho) z z'
    q = 1 - |D|/k     rho = sigma c/|A| + q^2/|F| + |D|/k^2
    z = -mean(X_A) + q mean(X_F) + (1/k) sum(X_D)

For few features it is formed from the moments of A, F and D, and factored. For many it is only multiplied, by
conjugate gradients: preconditioned by the diagonal of H, as long as that takes less time than the exact inverse from a
matrix of the size of the active and free rows (Woodbury); the iteration around this one only repairs the rounding that
a tiny reg brings.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from taufpl._types import Matrix, RowIndices, Vector
from taufpl.operators import Operator, add_square
from taufpl.projection import LEAST_WEIGHT, MOST_WEIGHT, Thresholds

if TYPE_CHECKING:
    from taufpl.problem._memory_oracle import MemoryOracle
    from taufpl.problem._ranking import BaseRankingProblem, Certificate

LinearMap = Callable[[Vector], Vector]

# Lifts of the diagonal that a failed factorisation tries.
_MOST_LIFTS = 8
# A warm start begins at cold^(1 - share) last^share, between a cold start's sigma and the last one of the neighbour,
# which counts up to this many times the largest beta: there psi had lost most of its smoothness.
_WARM_SHARE = 0.65
_WARM_SIGMA = 1e6
# Moments that take no more products than this are computed sooner than what has changed is found.
_FEW_PRODUCTS = 1_000_000
# Largest matrix that the Woodbury way may form.
_MOST_WOODBURY_ROWS = 2000
_MOST_ITERATIONS = 300
# Residuals at which conjugate gradients stop, beside the gradient; short steps lower the first, long ones raise it.
_LOOSE = 0.1
_LOOSEST = 0.5
_TIGHTEST = 1e-4
_TIGHTER = 0.4
_LOOSER = 3.0
_SHORT_STEP = 0.45
# After this many steps in a row that hardly move, conjugate gradients are expected to take this many iterations.
_STUCK_STEP = 0.1
_MOST_STUCK = 2
_HOPELESS = 1000.0
_EXACT = 1e-3
# An exact step leads further than one by conjugate gradients: they get this share of the time of the Woodbury way.
_PATIENCE = 0.5
# How fast the iterations that a system took are forgotten while the Woodbury way is gone.
_FORGETTING = 0.9


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
class Moments:
    """Count, mean row, and sum of (x - mean)(x - mean)' of a set of rows."""

    count: int
    mean: Vector
    gram: Matrix

    @classmethod
    def of(cls, operator: Operator, rows: RowIndices) -> Moments:
        """Moments of these rows of an operator."""
        gram, mean = operator.centred_gram_rows(rows)
        return cls(len(rows), mean, gram)

    @classmethod
    def empty(cls, n_features: int) -> Moments:
        """Moments of no rows."""
        return cls(0, np.zeros(n_features), np.zeros((n_features, n_features)))

    def joined(self, other: Moments) -> Moments:
        """Moments of the union of two sets without common rows (Chan, Golub and LeVeque)."""
        if other.count == 0 or self.count == 0:
            return self if other.count == 0 else other
        count = self.count + other.count
        apart = other.mean - self.mean
        gram = self.gram + other.gram
        add_square(gram, self.count * other.count / count, apart)
        return Moments(count, self.mean + apart * (other.count / count), gram)

    def without(self, other: Moments) -> Moments:
        """Moments of what is left of a set when a part of it goes."""
        count = self.count - other.count
        if count == 0 or other.count == 0:
            return self if other.count == 0 else Moments.empty(len(self.mean))
        mean = self.mean + (self.mean - other.mean) * (other.count / count)
        apart = other.mean - mean
        gram = self.gram - other.gram
        add_square(gram, -(count * other.count / self.count), apart)
        return Moments(count, mean, gram)


class RunningMoments:
    """Moments of a set of rows that changes a little at a time: only rows that come or go are read.

    Rounding errors stay bounded: once as many rows have come and gone as half of the set, it is read afresh.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._rows: RowIndices = np.empty(0, dtype=np.intp)
        self._moments = Moments.empty(operator.shape[1])
        self._changes = 0

    def update(self, rows: RowIndices) -> Moments:
        """Moments of these rows (sorted, each once)."""
        if len(rows) * self._operator.shape[1] ** 2 <= _FEW_PRODUCTS or not self._follow(rows):
            self._moments, self._changes = Moments.of(self._operator, rows), 0
        self._rows = rows
        return self._moments

    def _follow(self, rows: RowIndices) -> bool:
        """Take in the rows that come and take out those that go; False where they are too many by now."""
        coming = np.setdiff1d(rows, self._rows, assume_unique=True)
        going = np.setdiff1d(self._rows, rows, assume_unique=True)
        self._changes += len(coming) + len(going)
        if 2 * self._changes > len(rows):
            return False
        if len(going):
            self._moments = self._moments.without(Moments.of(self._operator, going))
        if len(coming):
            self._moments = self._moments.joined(Moments.of(self._operator, coming))
        return True


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
    """

    point: Point  # the present one
    factored: bool  # whether a d x d matrix is cheap beside the products with the data
    model_is_cheap: bool  # whether a working set costs no more than a Newton step

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

    def tighten(self) -> None:  # noqa: B027 (values are exact in memory)
        """Make the present primal value exact."""

    def settle(self, coef: Vector, tol: float) -> Certificate | None:
        """Keep the pair, and recompute both values in double precision; None where they are known so.

        Where the gap comes out larger than tol, the solver goes on from this coefficient vector.
        """
        return None

    @abstractmethod
    def finish(self) -> tuple[Vector, Vector] | tuple[None, None]:
        """Leave what is known to the next solve on the same rows; return the pair where it can be had."""


def rank_one(
    counts: tuple[int, int, int], means: tuple[Vector, Vector, Vector], k: int, weight: float
) -> tuple[Vector, float] | None:
    """Vector z and 1/rho of the last term of H, from the counts and mean rows of A, F and D.

    None where the term is absent: F is empty and D is not k rows, or A is empty.
    """
    n_active, n_free, n_capped = counts
    if n_active == 0 or (n_free == 0 and n_capped != k):
        return None
    share = 1.0 - n_capped / k
    rho = weight / n_active + n_capped / k**2
    z = (n_capped / k) * means[2] - means[0]
    if n_free:
        rho += share * share / n_free
        z += share * means[1]
    return z, 1.0 / rho


def newton_direction(
    gradient: Vector,
    active: Moments,
    free: Moments,
    capped: tuple[int, Vector],
    k: int,
    sigma: float,
    curvature: float,
    ridge: float,
) -> Vector:
    """-H^-1 gradient by Cholesky, from the moments of A and F and the count and mean row of D."""
    hessian = active.gram * (1.0 / curvature)
    if free.count:
        hessian += sigma * free.gram
    counts, means = (active.count, free.count, capped[0]), (active.mean, free.mean, capped[1])
    last = rank_one(counts, means, k, sigma * curvature)
    if last is not None:
        add_square(hessian, sigma * last[1], last[0])
    np.einsum("ii->i", hessian)[:] += ridge
    return -solve_factored(factor_lower(hessian), gradient)


def solve_factored(factor: Matrix, rhs: Vector) -> Vector:
    # LAPACK itself: SciPy's checks around it take longer than the arithmetic where there are few features.
    solution: Vector = dpotrs(factor, rhs, lower=1)[0]
    return solution


def factor_lower(matrix: Matrix) -> Matrix:
    """Lower Cholesky factor of a positive definite matrix; a diagonal that rounding spoilt is lifted until it works.

    Where nothing helps, because a feature is 1e8 times the others, say, and rounding has eaten them, the diagonal alone
    is factored: still a descent step.
    """
    diagonal = np.einsum("ii->i", matrix)
    # Of a sum of squares, rounding can leave less than nothing.
    np.maximum(diagonal, np.finfo(np.float64).eps * np.max(diagonal, initial=1e-300), out=diagonal)
    if np.isfinite(matrix).all():
        lift = 1e-15
        for _ in range(_MOST_LIFTS):
            diagonal *= 1.0 + lift  # relative to each entry, because features may differ in scale
            factor: Matrix
            factor, failed = dpotrf(matrix.T, lower=1, clean=0)
            if not failed:
                return factor
            lift *= 100.0
    return np.diag(np.sqrt(np.nan_to_num(diagonal, nan=1.0, posinf=1e300)))


@dataclass(slots=True)
class KrylovEffort:
    """What the systems of a solve have taught so far: how exactly to solve, and how many iterations that takes.

    At a small reg, what conjugate gradients leave of a system lies where H curves least, and steps come out short: the
    next system is then solved further, and after steps that hardly moved, exactly if rows are few enough for that.
    """

    forcing: float = _LOOSE
    expected: float = 0.0
    n_stuck: int = 0

    def see_step(self, t: float) -> None:
        """Take note of a step length."""
        if t < _SHORT_STEP:
            self.forcing = max(_TIGHTER * self.forcing, _TIGHTEST)
        else:
            self.forcing = min(_LOOSER * self.forcing, _LOOSE)
        self.n_stuck = self.n_stuck + 1 if t < _STUCK_STEP else 0
        if self.n_stuck >= _MOST_STUCK:
            self.expected = max(self.expected, _HOPELESS)


def forcing_for(gradient: Vector, enough: float, least: float = _LOOSE) -> float:
    """Residual, beside the gradient, at which ``|gradient|^2 <= enough`` can be hoped for after the step."""
    wanted = 0.5 * math.sqrt(enough / max(float(gradient @ gradient), 1e-300))
    return min(max(wanted, least), _LOOSEST * least / _LOOSE)


def krylov_direction(product: LinearMap, diagonal: Vector, gradient: Vector, enough: float) -> Vector:
    """-H^-1 gradient by conjugate gradients, so far that ``|gradient|^2 <= enough`` can be hoped for.

    Preconditioned by a vector like the diagonal of H.
    """
    return -conjugate_gradients(product, lambda r: r / diagonal, gradient, forcing_for(gradient, enough))


def estimated_diagonal(oracle: Oracle, ridge: float, squares: tuple[Vector, Vector], counts: tuple[int, int]) -> Vector:
    """About the diagonal of H, as if A and F were fair samples of positives and negatives with these mean squares."""
    diagonal = squares[0] * (counts[0] / oracle.curvature)
    diagonal += squares[1] * (counts[1] * oracle.sigma)
    diagonal += ridge
    return diagonal


class KrylovSystem:
    """H at the pair of an oracle over rows in memory, as a product: nothing of size d x d.

    Xc' Xc p needs no centred rows: take the mean off the vector X p instead.
    """

    def __init__(self, oracle: MemoryOracle) -> None:
        problem, operator = oracle.problem, oracle.problem.operator
        loaded = np.flatnonzero(oracle.beta)
        at_cap = oracle.beta[loaded] >= oracle.thresholds.cap
        active, free = np.flatnonzero(oracle.alpha), loaded[~at_cap]
        self.oracle, self.operator, self.ridge = oracle, operator, problem.ridge
        self.n_active, self.n_free = len(active), len(free)
        self.rows = np.concatenate((problem.positive_rows[active], problem.negative_rows[free]))
        self.weights = np.repeat((1.0 / oracle.curvature, oracle.sigma), (self.n_active, self.n_free))
        # z = X' z_rows + z_rest, where the rest comes from the capped rows.
        self.z_rows = np.zeros(len(self.rows))
        self.z_rest = np.zeros(problem.n_features)
        self.z_weight = self._rank_one(problem.negative_rows[loaded[at_cap]])

    def _rank_one(self, capped_rows: RowIndices) -> float:
        """Set up z and return sigma/rho; 0 where the term is absent."""
        oracle, n_capped, (e0, e1, e2) = self.oracle, len(capped_rows), np.eye(3)
        k = oracle.problem.k
        last = rank_one((self.n_active, self.n_free, n_capped), (e0, e1, e2), k, oracle.weight)
        if last is None:
            return 0.0
        of_means, inverse_rho = last  # z in terms of the three means
        self.z_rows[: self.n_active] = of_means[0] / self.n_active
        self.z_rows[self.n_active :] = of_means[1] / max(1, self.n_free)
        if n_capped:
            self.z_rest = self.operator.rmatvec_rows(np.full(n_capped, of_means[2] / n_capped), capped_rows)
        return oracle.sigma * inverse_rho

    def centred(self, values: Matrix) -> Matrix:
        """Take off the mean of the active part and that of the free part, in place."""
        for part in (values[: self.n_active], values[self.n_active :]):
            if len(part):
                part -= part.mean(axis=0)
        return values

    def product(self, vector: Vector) -> Vector:
        """H p. Two products with the active and free rows."""
        inner = self.operator.matvec_rows(vector, self.rows)
        along = self.z_weight * (float(self.z_rows @ inner) + float(self.z_rest @ vector))
        self.centred(inner)
        inner *= self.weights
        inner += along * self.z_rows
        out = self.operator.rmatvec_rows(inner, self.rows)
        out += self.ridge * vector
        out += along * self.z_rest
        return out

    def solve(self, gradient: Vector, enough: float, squares: tuple[Vector, Vector], effort: KrylovEffort) -> Vector:
        """-H^-1 gradient; the mean squares of positives and negatives precondition conjugate gradients."""
        worth = self._iterations_worth_woodbury()
        if effort.expected < worth:
            diagonal = estimated_diagonal(self.oracle, self.ridge, squares, (self.n_active, self.n_free))
            forcing = forcing_for(gradient, enough, effort.forcing)
            most = _MOST_ITERATIONS if worth == math.inf else math.ceil(worth)
            step, n_iter, is_solved = _iterate(self.product, lambda r: r / diagonal, gradient, forcing, most)
            effort.expected = n_iter if is_solved else 2.0 * n_iter
            if is_solved or worth == math.inf:
                return -step
        else:
            effort.expected *= _FORGETTING
        return -conjugate_gradients(self.product, self._woodbury(), gradient, _EXACT)

    def _iterations_worth_woodbury(self) -> float:
        """Iterations of conjugate gradients to try before the Woodbury way; infinitely many where it is closed.

        The numbers are nanoseconds, measured: calls around the arithmetic, a pass over a matrix of the size of the
        rows, its factorisation, inner products of rows; and of an iteration, calls, features and stored values.
        """
        n_rows, n_features = len(self.rows), len(self.z_rest)
        if n_rows > min(n_features, _MOST_WOODBURY_ROWS):
            return math.inf
        if self.operator.knows_row_gram:
            return 0.0
        n_stored = self.operator.n_stored(self.rows)
        woodbury = 3e5 + 8.0 * n_rows**2 + n_rows**3 / 90.0 + n_rows * n_stored / 35.0
        return _PATIENCE * woodbury / (7.5e4 + 4.0 * n_features + 2.4 * n_stored)

    def _fill_centred(self, out: Matrix, gram: Matrix) -> None:
        """Inner products of centred rows times the roots of their weights, from those of the rows."""
        parts = [part for part in (slice(0, self.n_active), slice(self.n_active, None)) if len(self.weights[part])]
        means = [gram[:, part].mean(axis=1) for part in parts]  # products with the mean row of each part
        for i, left in enumerate(parts):
            for j, right in enumerate(parts):
                block = np.subtract(gram[left, right], means[j][left, None], out=out[left, right])
                block -= means[i][right] - means[i][right].mean()
                block *= math.sqrt(self.weights[left][0] * self.weights[right][0])

    def _woodbury(self) -> LinearMap:
        """(m reg I + B'B)^-1 r = (r - B' (m reg I + BB')^-1 B r) / (m reg), for the rows B of the square root of H."""
        n_rows = len(self.rows)
        few = self.operator.take_rows(self.rows)
        z = few.rmatvec(self.z_rows) + self.z_rest
        scale, z_scale = np.sqrt(self.weights), np.sqrt(self.z_weight)
        kernel = np.empty((n_rows + 1, n_rows + 1))
        self._fill_centred(kernel[:-1, :-1], few.row_gram(np.arange(n_rows)))
        kernel[:-1, -1] = kernel[-1, :-1] = scale * self.centred(few.matvec(z)) * z_scale
        kernel[-1, -1] = self.z_weight * float(z @ z)
        kernel[np.diag_indices(n_rows + 1)] += self.ridge
        factor = factor_lower(kernel)

        def apply(vector: Vector) -> Vector:
            left = np.append(scale * self.centred(few.matvec(vector)), z_scale * float(z @ vector))
            left = solve_factored(factor, left)
            right = few.rmatvec(self.centred(scale * left[:-1])) + (z_scale * left[-1]) * z
            return np.asarray((vector - right) / self.ridge)

        return apply


def conjugate_gradients(product: LinearMap, precondition: LinearMap, rhs: Vector, forcing: float) -> Vector:
    """Solve a positive definite system up to a residual of `forcing` times rhs, both in the preconditioner's norm."""
    return _iterate(product, precondition, rhs, forcing, _MOST_ITERATIONS)[0]


def _iterate(
    product: LinearMap, precondition: LinearMap, rhs: Vector, forcing: float, most: int
) -> tuple[Vector, int, bool]:
    """At most this many iterations of conjugate gradients: the solution, their number, and whether they were enough."""
    solution = np.zeros_like(rhs)
    residual = rhs.copy()
    direction = preconditioned = precondition(residual)
    energy = float(residual @ preconditioned)
    enough = forcing * forcing * energy
    for n_iter in range(most):
        image = product(direction)
        curvature = float(direction @ image)
        if not curvature > 0:
            return solution, n_iter, True
        length = energy / curvature
        solution += length * direction
        residual -= length * image
        preconditioned = precondition(residual)
        energy, before = float(residual @ preconditioned), energy
        if not energy > enough:
            return solution, n_iter + 1, True
        direction = preconditioned + (energy / before) * direction
    return solution, most, False
