"""SVM-pAUC (Narasimhan and Agarwal 2013): the partial area under the ROC curve, by cutting planes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack, qr

from taufpl._types import Matrix, RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.estimators import SOLVER_CONSTRAINTS, TAU_CONSTRAINT, ArrayTable, train_threshold
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import one_blas_thread
from taufpl.paper._linear_baselines import BaselineScorer, combine_rows, stacked_scores
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Callback, Record

# Planes that had no weight for this number of iterations are dropped.
_MAX_AGE = 50
# A direction that adds less than this to a set of planes, relative to its size, adds nothing.
_DEPENDENT = 1e-13


class Bundle:
    """Planes under a convex risk, and the minimum of the model that they make.

    ::

        M(w) = max_k (a_k . w + b_k) + (reg/2) |w|^2

    The minimum of the model is a quadratic program over the weights of the planes,

        max  b . alpha - |A' alpha|^2 / (2 reg)   over   alpha >= 0, sum alpha = 1,      w = -A' alpha / reg,

    and every feasible alpha, exact or not, gives a lower bound. Each solution starts from the weights of the last.
    Planes do not depend on reg, so that a bundle of them serves a whole grid of penalties.
    """

    def __init__(self, n_features: int) -> None:
        self.slopes: Matrix = np.empty((0, n_features))
        self.offsets: Vector = np.empty(0)
        self.weights: Vector = np.empty(0)
        self._ages = np.empty(0, dtype=np.intp)
        # Coordinates of the slopes in an orthonormal basis of their span: short vectors, where features are many.
        self._basis: Matrix = np.empty((0, n_features))
        self._coordinates: Matrix = np.empty((0, 0))

    def __len__(self) -> int:
        return self.offsets.size

    def add(self, slope: Vector, offset: float) -> None:
        """Add the plane slope . w + offset."""
        coordinates = self._place(slope)
        self.slopes = np.vstack((self.slopes, slope))
        self.offsets = np.append(self.offsets, offset)
        self.weights = np.append(self.weights, 0.0 if len(self) > 1 else 1.0)
        self._ages = np.append(self._ages, 0)
        self._coordinates = np.vstack((self._coordinates, coordinates))

    def minimise(self, reg: float, precision: float) -> tuple[Vector, float]:
        """The minimiser of the model plus penalty to within this precision, and a lower bound of P."""
        coef, self.weights = minimise_model(self._coordinates, self.offsets, self.weights, reg, precision)
        gradient = self.weights @ self.slopes
        bound = float(self.weights @ self.offsets) - float(gradient @ gradient) / (2.0 * reg)
        return coef @ self._basis, bound

    def prune(self) -> None:
        """Drop the planes that have long had no weight."""
        self._ages = np.where(self.weights > 0, 0, self._ages + 1)
        kept = self._ages <= _MAX_AGE
        if kept.all():
            return
        self.slopes, self.offsets, self.weights = self.slopes[kept], self.offsets[kept], self.weights[kept]
        self._ages, self._coordinates = self._ages[kept], self._coordinates[kept]
        if len(self._basis) > 2 * len(self):
            directions, triangle = qr(self.slopes.T, mode="economic", check_finite=False)
            self._basis, self._coordinates = np.ascontiguousarray(directions.T), np.ascontiguousarray(triangle.T)

    def _place(self, slope: Vector) -> Vector:
        """Coordinates of a slope; the basis grows where it does not lie in the span."""
        coordinates = self._basis @ slope
        rest = slope - coordinates @ self._basis
        again = self._basis @ rest  # a second time, since the first leaves rounding in the place of what is small
        rest -= again @ self._basis
        coordinates += again
        size = float(np.linalg.norm(rest))
        if size <= _DEPENDENT * float(np.linalg.norm(slope)) or len(self._basis) == len(slope):
            return coordinates
        self._basis = np.vstack((self._basis, rest / size))
        self._coordinates = np.pad(self._coordinates, ((0, 0), (0, 1)))
        return np.append(coordinates, size)


def minimise_model(
    planes: Matrix, offsets: Vector, start: Vector, reg: float, precision: float
) -> tuple[Vector, Vector]:
    """Minimise max_k (a_k . w + b_k) + (reg/2) |w|^2 by an active set on the weights of the planes.

    The support grows by the plane that is violated most, and shrinks where a weight would become negative. It starts
    from feasible weights, and ends with weights whose value is within `precision` of the optimum. Slopes and w are
    coordinates in any orthonormal basis.

    Examples
    --------
    >>> import numpy as np
    >>> planes, offsets = np.array([[1.0], [-1.0], [2.0]]), np.array([0.0, 0.5, -9.0])
    >>> minimise_model(planes, offsets, np.array([1.0, 0.0, 0.0]), reg=1.0, precision=1e-9)
    (array([0.25]), array([0.375, 0.625, 0.   ]))
    """
    support = np.flatnonzero(start > 0)
    weights = start[support]
    kept, best = (np.empty(0), np.empty(0)), -np.inf
    while True:
        support, weights, coef = _settle(planes, offsets, reg, support, weights)
        gradient = weights @ planes[support]
        value = float(weights @ offsets[support]) - float(gradient @ gradient) / (2.0 * reg)
        if value <= best:  # by rounding: no further gain can be seen
            return kept
        full = np.zeros(offsets.size)
        full[support] = weights
        kept, best = (coef, full), value
        heights = planes @ coef + offsets
        highest = int(np.argmax(heights))
        if heights[highest] - float(weights @ heights[support]) <= precision:
            return kept
        if not full[highest]:
            support, weights = np.append(support, highest), np.append(weights, 0.0)


def _settle(
    planes: Matrix, offsets: Vector, reg: float, support: RowIndices, weights: Vector
) -> tuple[RowIndices, Vector, Vector]:
    """Move to the optimum on the support, leaving planes behind whose weights reach zero on the way."""
    while support.size > 1:
        target, coef = _affine_optimum(planes[support], offsets[support], reg)
        falling = np.flatnonzero(target < 0)
        if falling.size == 0 and coef is not None:
            return support, target / target.sum(), coef
        move = target if coef is None else target - weights
        steps = weights[falling] / -move[falling]
        first = int(np.argmin(steps))
        weights = np.maximum(weights + steps[first] * move, 0.0)
        weights[falling[first]] = 0.0
        kept = weights > 0
        support, weights = support[kept], weights[kept] / weights.sum()
    return support, np.ones(1), planes[support[0]] / -reg


def _affine_optimum(planes: Matrix, offsets: Vector, reg: float) -> tuple[Vector, Vector | None]:
    """The best weights of sum 1, whatever their signs, and the point w where all these planes have the same height.

    Where the slope of the newest plane depends on the others there is no such point. Then comes a ray, of sum 0, along
    which A' alpha stays as it is while the weight of the newest plane grows.

    With c the smallest slope and the columns of D the other slopes minus c, A' alpha = c + D beta = -reg w, while D' w
    is known: minus the differences of the offsets. Both come from a QR factorisation of (D, c). The Gram matrix would
    square the spread of the scales of the features, and w = -A' alpha / reg would divide rounding by reg.
    """
    reference = int(np.argmin(np.einsum("ij,ij->i", planes[:-1], planes[:-1])))
    others = np.delete(np.arange(offsets.size), reference)
    n, r = others.size, planes.shape[1]
    columns = np.empty((r, n + 1), order="F")
    columns[:, :n] = (planes[others] - planes[reference]).T
    columns[:, n] = planes[reference]
    newest = float(np.linalg.norm(columns[:, n - 1]))
    factor, reflections = lapack.dgeqrf(columns, overwrite_a=1)[:2]
    weights, coef = np.empty(n + 1), None
    if n > r or abs(factor[n - 1, n - 1]) <= _DEPENDENT * newest:
        weights[others[-1]] = 1.0
        if n > 1:
            weights[others[:-1]] = -lapack.dtrtrs(factor[: n - 1, : n - 1], factor[: n - 1, n - 1])[0]
        weights[reference] = -weights[others].sum()
    else:
        triangle = factor[:n, :n]
        lifted = lapack.dtrtrs(triangle, offsets[others] - offsets[reference], trans=1)[0]
        weights[others] = lapack.dtrtrs(triangle, reg * lifted - factor[:n, n])[0]
        weights[reference] = 1.0 - weights[others].sum()
        rotated = np.zeros((r, 1), order="F")
        rotated[:n, 0] = -lifted
        rotated[n : n + 1, 0] = factor[n : n + 1, n] / -reg
        coef = lapack.dormqr("L", "N", factor[:, : len(reflections)], reflections, rotated, 64)[0][:, 0]
    return weights, coef


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
    """Minimise P(w) = R(w) + (reg/2) |w|^2 to a relative gap of tol by cutting planes.

    R is convex and piecewise linear; rows and reg are those of a ranking problem.

    Each iteration minimises the model, goes from the best point towards its minimiser as far as P falls, which
    costs no pass since scores are linear along a line, and takes a plane between the two, at most `max_iter` of them.
    It starts from zero or from `start`, and from the planes of a bundle of the same risk, which grows.

    References
    ----------
    C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle methods for regularized risk minimization", JMLR
    2010.

    V. Franc and S. Sonnenburg, "Optimized cutting plane algorithm for large-scale risk minimization", JMLR 2009: the
    line search, and where the next plane is taken.
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


def range_count(tau: float, n_negative: int) -> int:
    """Count the negatives in the range [0, tau] of false-positive rates: j = floor(tau n), at least 1.

    Examples
    --------
    >>> range_count(0.07, 100), range_count(0.001, 100)
    (7, 1)
    """
    return max(1, top_count(tau, n_negative) - 1)


def partial_auc_piece(scores: Vector, m: int, k: int) -> tuple[Vector, float]:
    """Weights and offset of the linear piece, at these scores, of the tight surrogate of the partial AUC loss.

    ::

        R = (1/(m k)) sum_i sum_{z among the k highest} max(0, 1 - (s_i+ - s_z-))

    The piece is the most violated constraint: the subset of the k highest negatives, and the ordering in which a
    positive stands below those of them that it does not exceed by 1. A pair adds 1 - s_i + s_z, so that only counts are
    needed: how many of the subset each positive fails to exceed, and the other way round. The scores of the m
    positives come first.
    """
    positive, negative = scores[:m], scores[m:]
    subset = highest(negative, k)
    passed = np.searchsorted(negative[subset], positive - 1.0, side="right")
    failed_by = np.cumsum(np.bincount(passed, minlength=k + 1))[:k]
    weights = np.zeros(scores.size)
    weights[:m] = (passed - k) / (m * k)
    weights[m + subset] = failed_by / (m * k)
    return weights, float(m * k - passed.sum()) / (m * k)


def highest(scores: Vector, k: int) -> RowIndices:
    """Indices of the k highest scores, from the lowest of them up.

    Examples
    --------
    >>> import numpy as np
    >>> highest(np.array([5.0, 1.0, 3.0, 1.0, 0.0]), 3)
    array([1, 2, 0])
    """
    level = np.partition(scores, -k)[-k]  # of values: many times faster than argpartition
    above = np.flatnonzero(scores > level)
    equal = np.flatnonzero(scores == level)[: k - above.size]
    return np.concatenate((equal, above[np.argsort(scores[above])]))


def partial_auc_path(
    problem: RankingProblem, regs: Sequence[float], *, tol: float = 1e-3, max_iter: int = 1000
) -> list[Minimum]:
    """Minima for every reg of a grid, on the rows and at the k of a ranking problem, with one bundle of planes for all.

    Planes bound the risk, whatever the penalty is. The grid is solved from the largest reg down, and each solve starts
    from the planes and the solution of the one before.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import as_operator
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate((rng.normal(size=(500, 5)), 1 + rng.normal(size=(100, 5))))
    >>> problem = RankingProblem(as_operator(X), np.arange(500, 600), np.arange(500), range_count(0.05, 500), 1.0)
    >>> [minimum.converged for minimum in partial_auc_path(problem, [0.01, 0.1, 1.0])]
    [True, True, True]
    """
    piece = partial(partial_auc_piece, m=problem.n_positive, k=problem.k)
    bundle, start, found = Bundle(problem.n_features), None, {}
    for reg in sorted(set(regs), reverse=True):
        found[reg] = minimise(problem.replace(reg=reg), piece, tol=tol, max_iter=max_iter, bundle=bundle, start=start)
        start = found[reg].coef
    return [found[reg] for reg in regs]


class PartialAUCSVM(BaselineScorer):
    """Rank positives above the highest negatives one pair at a time: the partial area under the ROC curve.

    ::

        P(w) = (1/(m j)) sum_i sum_{z in Z(w)} max(0, 1 - (x_i+ . w - x_z- . w)) + (reg/2) |w|^2

    where Z(w) are the j = max(1, floor(tau n)) highest of the n negatives: the tight structural surrogate [1]_ of the
    area under the ROC curve over false-positive rates in [0, tau]. `predict` allows a share tau of the training
    negatives to be called positive.

    It is solved by cutting planes with a line search (OCAS); the most violated constraint takes a sort. The minimum
    of the planes is a lower bound of the optimum, and the distance to it is the duality gap.

    Parameters
    ----------
    tau : float, default=0.01
        End of the range of false-positive rates, between 0 and 1.
    reg : float, default=0.01
        Weight of the penalty, positive. A structural SVM's C is 1/reg.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, default=1000
        Cutting planes to take at most. Dozens are common; a few hundred are needed where reg is small, the scales of
        the features differ by thousands, and j is small.
    pos_label : label, default=None
        Which label is positive; None takes the second in sorted order.
    callback : callable, default=None
        Gets a record after every iteration.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Minus the (floor(tau n) + 1)-th largest score of a training negative.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    primal_objective_, dual_objective_ : float
        P(w), and the lower bound of its minimum.
    dual_gap_ : float
        Their difference relative to P(w).
    converged_ : bool
    collapsed_ : bool
        Whether w = 0 is the optimum. Then nothing is predicted positive, and a warning says so.
    n_iter_, n_planes_ : int
        Planes taken, and those that were still held at the end.
    n_passes_ : float
        Passes over the data.
    history_ : tuple of Record
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X has names.

    References
    ----------
    .. [1] H. Narasimhan and S. Agarwal, "SVM_pAUC^tight: a new support vector method for optimizing partial AUC based
       on a tight convex upper bound", KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import PartialAUCSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + 2.0 * y[:, np.newaxis]
    >>> svm = PartialAUCSVM(tau=0.01).fit(X, y)
    >>> int(svm.predict(X)[y == 0].sum()), svm.dual_gap_ <= 1e-3
    (10, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaselineScorer._parameter_constraints,
        "tau": TAU_CONSTRAINT,
        "callback": SOLVER_CONSTRAINTS["callback"],
    }

    def __init__(
        self,
        tau: float = 0.01,
        reg: float = 0.01,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        pos_label: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.tau = tau
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.callback = callback

    def _solve(self, X: Any, problem: RankingProblem) -> tuple[Vector, float]:
        k = range_count(self.tau, problem.n_negative)
        piece = partial(partial_auc_piece, m=problem.n_positive, k=k)
        result = minimise(problem, piece, tol=self.tol, max_iter=self.max_iter, callback=self.callback)
        self.primal_objective_, self.dual_objective_, self.dual_gap_ = result.primal, result.dual, result.gap
        self.n_iter_, self.n_planes_ = result.n_iter, result.n_planes
        self.n_passes_, self.history_ = result.history[-1].n_passes, result.history
        self.converged_, self.collapsed_ = result.converged, result.collapsed
        if self.collapsed_:
            warn_user(
                f"{type(self).__name__} found nothing better than w = 0, for any reg: the mean of the "
                f"{problem.n_positive} positives is an average of negatives in which {k} of "
                f"{problem.n_negative} decide, so that no direction separates them. Nothing is predicted positive. "
                "Raise tau.",
                RankingCollapseWarning,
            )
        return result.coef, -train_threshold(ArrayTable.of(problem), result.coef, self.tau)
