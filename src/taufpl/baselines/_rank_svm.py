"""RankSVM with the squared hinge over all pairs of a positive and a negative, in linearithmic time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from taufpl._sklearn import Interval, fit_context
from taufpl.estimators import REG_CONSTRAINT, SOLVER_CONSTRAINTS, LinearScorer, warn_not_converged
from taufpl.operators import as_operator
from taufpl.problem import RankingProblem
from taufpl.solvers import Record
from taufpl.solvers._line_search import line_search

Vector = NDArray[np.float64]
Rows = NDArray[np.intp]

# Conjugate gradients: how far the residual must fall, and how often it may be asked.
_LOOSEST = 0.1
_MOST_PRODUCTS = 500


class PairLoss:
    """The loss of all pairs at some scores, with its derivatives in the scores.

    ::

        L(s) = (1/(m n)) sum_i sum_j max(0, 1 - (s_i+ - s_j-))^2

    In sorted order the negatives that a positive does not exceed by 1 are the last ones, and the positives that do
    not exceed a negative by 1 are the first ones, so that all sums over pairs are differences of cumulative sums.

    Parameters
    ----------
    scores : ndarray of shape (m + n,)
        Of the positives, then of the negatives.
    m : int
        Number of positives.
    """

    def __init__(self, scores: Vector, m: int) -> None:
        # Only differences count: sums of squares lose fewer digits around zero.
        centred = scores - scores.mean()
        self._positives: Rows = np.argsort(centred[:m])
        self._negatives: Rows = m + np.argsort(centred[m:])
        self._scale = 1.0 / (m * (scores.size - m))
        self._positive, self._raised = centred[self._positives], centred[self._negatives] + 1.0
        n = self._raised.size
        # The first negative that counts for a positive, and how many positives count for a negative. The second comes
        # from the first: by another search, rounding could have a pair count for one of the two only.
        self._first = np.searchsorted(self._raised, self._positive, side="right")
        self._n_negatives = n - self._first
        self._n_positives = np.cumsum(np.bincount(self._first, minlength=n + 1))[:n]

    @property
    def active_share(self) -> float:
        """The share of pairs with a loss."""
        return float(self._n_negatives.sum()) * self._scale

    def value(self) -> float:
        """L."""
        s, sums, squares = self._positive, _tail_sums(self._raised), _tail_sums(np.square(self._raised))
        pairs = s * (self._n_negatives * s - 2.0 * sums[self._first]) + squares[self._first]
        return float(pairs.sum()) * self._scale

    def gradient(self) -> Vector:
        """Derivative of L in each score."""
        return self._spread(self._positive, self._raised)

    def hessian_product(self, direction: Vector) -> Vector:
        """The generalised Hessian of L times a direction, which has the shape of the scores."""
        return self._spread(direction[self._positives], direction[self._negatives])

    def _spread(self, positive: Vector, negative: Vector) -> Vector:
        """2/(m n) times the sum over active pairs of (p_i - q_j)(e_i - e_j)."""
        out = np.empty(positive.size + negative.size)
        out[self._positives] = self._n_negatives * positive - _tail_sums(negative)[self._first]
        out[self._negatives] = self._n_positives * negative - _head_sums(positive)[self._n_positives]
        return 2.0 * self._scale * out


def _head_sums(values: Vector) -> Vector:
    """Sums of the first 0, 1, ..., n values."""
    return np.concatenate(([0.0], np.cumsum(values)))


def _tail_sums(values: Vector) -> Vector:
    """Sums of the last n, n - 1, ..., 0 values."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))


@dataclass(frozen=True, slots=True)
class _Fit:
    """Where Newton's method ended, and the book it kept."""

    coef: Vector
    scores: Vector
    history: tuple[Record, ...]

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1


class _Newton:
    """Truncated Newton steps: conjugate gradients, and a line search on scores.

    Parameters
    ----------
    problem : RankingProblem
        Which rows are positive, which negative, and reg; its loss and its k are not used.
    """

    def __init__(self, problem: RankingProblem) -> None:
        self.problem = problem
        self._spreads = _spreads(problem)

    def solve(self, tol: float, max_iter: int) -> _Fit:
        """Step until the gap is at most tol, at least once: w = 0 ranks nothing, however small its gap may be."""
        began, passes = time.perf_counter(), self.problem.operator.n_passes
        coef = np.zeros(self.problem.n_features)
        scores = np.zeros(self.problem.n_positive + self.problem.n_negative)
        history: list[Record] = []
        while True:
            loss = PairLoss(scores, self.problem.n_positive)
            gradient = self._combine(loss.gradient()) + self.problem.reg * coef
            squared = float(gradient @ gradient)
            primal = loss.value() + 0.5 * self.problem.reg * float(coef @ coef)
            gap = squared / (2.0 * self.problem.reg)
            n_passes = self.problem.operator.n_passes - passes
            history.append(Record(n_passes, time.perf_counter() - began, primal, primal - gap, gap / primal))
            is_close = gap <= tol * primal and len(history) > 1
            if is_close or len(history) > max_iter:
                return _Fit(coef, scores, tuple(history))
            before = coef
            coef, scores = self._step(loss, coef, scores, gradient)
            if np.array_equal(coef, before):  # the gradient is zero, or rounding allows no step
                return _Fit(coef, scores, tuple(history))

    def _step(self, loss: PairLoss, coef: Vector, scores: Vector, gradient: Vector) -> tuple[Vector, Vector]:
        reg, m = self.problem.reg, self.problem.n_positive
        diagonal = 4.0 * loss.active_share * self._spreads + reg
        forcing = min(_LOOSEST, float(np.sqrt(np.linalg.norm(gradient / np.sqrt(diagonal)))))
        move = conjugate_gradients(
            lambda v: self._combine(loss.hessian_product(self._scores(v))) + reg * v, -gradient, diagonal, forcing
        )
        direction = self._scores(move)
        linear, quadratic = reg * float(coef @ move), reg * float(move @ move)

        def slope(t: float) -> float:
            return float(PairLoss(scores + t * direction, m).gradient() @ direction) + linear + t * quadratic

        t = line_search(slope, float(gradient @ move))
        return coef + t * move, scores + t * direction

    def _scores(self, coef: Vector) -> Vector:
        return np.concatenate(self.problem.scores(coef))

    def _combine(self, weights: Vector) -> Vector:
        m = self.problem.n_positive
        return self.problem.combine(weights[:m], -weights[m:])


def _spreads(problem: RankingProblem) -> Vector:
    """Variance of each feature."""
    operator = problem.operator
    n_rows = operator.shape[0]
    mean = operator.rmatvec(np.full(n_rows, 1.0 / n_rows))
    return np.maximum(operator.column_squares() / n_rows - np.square(mean), 0.0)


def conjugate_gradients(product: Callable[[Vector], Vector], right: Vector, diagonal: Vector, forcing: float) -> Vector:
    """Solve H x = right until the residual has fallen by the factor forcing, in the norm of the preconditioner.

    Parameters
    ----------
    product : callable
        v to H v, H positive definite.
    right : ndarray of shape (d,)
    diagonal : ndarray of shape (d,)
        A diagonal matrix similar to H, as preconditioner.
    forcing : float

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda v: matrix @ v, np.array([6.0, 7.0]), np.array([4.0, 3.0]), 1e-12).round(9)
    array([1., 2.])
    """
    x, residual = np.zeros_like(right), right.copy()
    scaled = residual / diagonal
    direction, size = scaled, float(residual @ scaled)
    enough = forcing**2 * size
    for _ in range(_MOST_PRODUCTS):
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:  # by rounding only
            break
        step = size / curvature
        x += step * direction
        residual -= step * image
        scaled = residual / diagonal
        before, size = size, float(residual @ scaled)
        if size <= enough:
            break
        direction = scaled + (size / before) * direction
    return x


def balanced_threshold(positive: Vector, negative: Vector) -> float:
    """The midpoint of neighbouring scores with the smallest sum of both error rates, the highest of equals.

    Where all scores are the same, that score.

    Examples
    --------
    >>> import numpy as np
    >>> balanced_threshold(np.array([3.0, 5.0, 1.0]), np.array([0.0, 2.0]))
    2.5
    """
    scores = np.concatenate((positive, negative))
    order = np.argsort(scores)
    ordered, is_positive = scores[order], order < positive.size
    last = np.flatnonzero(np.diff(ordered) > 0)  # of each group of equal scores but the highest
    if last.size == 0:
        return float(ordered[0])
    missed = np.cumsum(is_positive)[last]
    alarms = negative.size - np.cumsum(~is_positive)[last]
    errors = (missed * negative.size + alarms * positive.size)[::-1]  # whole numbers, so that equals are equal
    best = last[last.size - 1 - int(np.argmin(errors))]
    below, above = float(ordered[best]), float(ordered[best + 1])
    middle = 0.5 * (below + above)
    return middle if middle < above else below


class RankSVM(LinearScorer):
    """Rank positives above negatives, over all pairs: the whole area under the ROC curve.

    ::

        P(w) = (1/(m n)) sum_i sum_j max(0, 1 - (x_i+ . w - x_j- . w))^2 + (reg/2) |w|^2

    Newton's method with conjugate gradients. Values, gradients and products with the Hessian come from sorted scores
    and cumulative sums [1]_ [2]_, in O((m + n) log (m + n)) beside the products with X, though there are m n pairs.

    Parameters
    ----------
    reg : float, default=0.01
        Weight of the penalty, positive.
    tol : float, default=1e-4
        Relative gap to reach.
    max_iter : int, default=100
        Newton steps to take at most.
    pos_label : label, default=None
        Which label is positive; None takes the second in sorted order.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Minus the threshold, of which P says nothing: it is put where the sum of the two error rates on the training
        rows is smallest, halfway between two scores, and as high as possible.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    primal_objective_, dual_objective_ : float
        P(w), and a lower bound of its minimum: ``P(w) - |grad P(w)|^2 / (2 reg)``. This follows from strong convexity,
        and it is the dual value at the weights 2 max(0, 1 - (s_i - s_j)) / (m n) of the pairs too.
    dual_gap_ : float
        Their difference relative to P(w).
    converged_ : bool
    n_iter_ : int
        Newton steps.
    n_passes_ : float
        Passes over the data.
    history_ : tuple of Record
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    References
    ----------
    .. [1] T. Joachims, "Training linear SVMs in linear time", KDD 2006.
    .. [2] C.-P. Lee and C.-J. Lin, "Large-scale linear RankSVM", Neural Computation 26, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from taufpl.baselines import RankSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> svm = RankSVM().fit(X, y)
    >>> bool(roc_auc_score(y, svm.decision_function(X)) > 0.9), svm.converged_
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearScorer._parameter_constraints,
        "reg": REG_CONSTRAINT,
        "tol": SOLVER_CONSTRAINTS["tol"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, reg: float = 0.01, *, tol: float = 1e-4, max_iter: int = 100, pos_label: Any = None) -> None:
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the ranking.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Two different labels.

        Returns
        -------
        self
        """
        X, labels = self._read(X, y)
        problem = RankingProblem(as_operator(X), labels.positive_rows, labels.negative_rows, 1, self.reg)
        return self._keep_fit(_Newton(problem).solve(self.tol, self.max_iter), problem)

    def _keep_fit(self, fit: _Fit, problem: RankingProblem) -> Self:
        """Set what the fit leaves behind."""
        m = problem.n_positive
        self.coef_ = fit.coef[np.newaxis].copy()
        self.intercept_ = np.array([-balanced_threshold(fit.scores[:m], fit.scores[m:])])
        self._keep_certificate(fit)
        return self

    def _keep_certificate(self, fit: _Fit) -> None:
        """Set what the solver said, and warn where it did not get there."""
        last = fit.history[-1]
        self.primal_objective_ = last.primal
        self.dual_objective_ = last.dual
        self.dual_gap_ = last.gap
        self.n_iter_ = max(1, fit.n_iter)
        self.n_passes_ = last.n_passes
        self.history_ = fit.history
        self.converged_ = bool(last.gap <= self.tol)
        if not self.converged_:
            warn_not_converged(type(self).__name__, fit.n_iter, last.gap, self.tol)
