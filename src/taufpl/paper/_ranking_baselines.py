"""RankSVM over all pairs of a positive and a negative, and TopPush above the highest negative."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np

from taufpl._types import RowIndices, Vector
from taufpl.estimators import TauFPLRanker
from taufpl.paper._linear_baselines import BaselineScorer, combine_rows, stacked_scores
from taufpl.problem import RankingProblem, conjugate_gradients
from taufpl.solvers import Callback, Record, line_search

# Conjugate gradients end where the residual has fallen by this factor, or by more near the optimum.
_LOOSEST = 0.1


class PairLoss:
    """The loss of all pairs at some scores, with its derivatives in the scores.

    ::

        L(s) = (1/(m n)) sum_i sum_j max(0, 1 - (s_i+ - s_j-))^2

    In sorted order the negatives that a positive does not exceed by 1 are the last ones, and the positives that do
    not exceed a negative by 1 are the first ones, so that all sums over pairs are differences of cumulative sums. The
    scores of the m positives come first, then those of the negatives.
    """

    def __init__(self, scores: Vector, m: int) -> None:
        # Only differences count: sums of squares lose fewer digits around zero.
        centred = scores - scores.mean()
        self._positives: RowIndices = np.argsort(centred[:m])
        self._negatives: RowIndices = m + np.argsort(centred[m:])
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
        """L, the mean loss of a pair."""
        s, sums, squares = self._positive, _tail_sums(self._raised), _tail_sums(np.square(self._raised))
        pairs = s * (self._n_negatives * s - 2.0 * sums[self._first]) + squares[self._first]
        return float(pairs.sum()) * self._scale

    def gradient(self) -> Vector:
        """Derivative of L in each score."""
        return self._sum_over_pairs(self._positive, self._raised)

    def hessian_product(self, direction: Vector) -> Vector:
        """The generalised Hessian of L times a direction, which has the shape of the scores."""
        return self._sum_over_pairs(direction[self._positives], direction[self._negatives])

    def _sum_over_pairs(self, positive: Vector, negative: Vector) -> Vector:
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


def _minimise(problem: RankingProblem, tol: float, max_iter: int) -> tuple[Vector, Vector, tuple[Record, ...]]:
    """Coefficients, scores and history of truncated Newton steps, once the gap is at most tol.

    At least one step is taken: w = 0 ranks nothing, however small its gap may be.
    """
    variances = _column_variances(problem)
    began, passes = time.perf_counter(), problem.operator.n_passes
    coef, scores = np.zeros(problem.n_features), np.zeros(problem.n_positive + problem.n_negative)
    history: list[Record] = []
    while True:
        loss = PairLoss(scores, problem.n_positive)
        gradient = combine_rows(problem, loss.gradient()) + problem.reg * coef
        primal = loss.value() + 0.5 * problem.reg * float(coef @ coef)
        gap = float(gradient @ gradient) / (2.0 * problem.reg)
        n_passes, seconds = problem.operator.n_passes - passes, time.perf_counter() - began
        history.append(Record(n_passes, seconds, primal, primal - gap, gap / primal))
        if (gap <= tol * primal and len(history) > 1) or len(history) > max_iter:
            break
        diagonal = 4.0 * loss.active_share * variances + problem.reg
        before = coef
        coef, scores = _step(problem, loss, coef, scores, gradient, diagonal)
        if np.array_equal(coef, before):  # the gradient is zero, or rounding allows no step
            break
    return coef, scores, tuple(history)


def _step(
    problem: RankingProblem, loss: PairLoss, coef: Vector, scores: Vector, gradient: Vector, diagonal: Vector
) -> tuple[Vector, Vector]:
    """Conjugate gradients, preconditioned by a diagonal, and a line search on scores."""
    reg = problem.reg
    forcing = min(_LOOSEST, float(np.sqrt(np.linalg.norm(gradient / np.sqrt(diagonal)))))

    def hessian_product(vector: Vector) -> Vector:
        return combine_rows(problem, loss.hessian_product(stacked_scores(problem, vector))) + reg * vector

    move = conjugate_gradients(hessian_product, lambda residual: residual / diagonal, -gradient, forcing)
    direction = stacked_scores(problem, move)
    linear, quadratic = reg * float(coef @ move), reg * float(move @ move)

    def slope(t: float) -> float:
        pairs = PairLoss(scores + t * direction, problem.n_positive)
        return float(pairs.gradient() @ direction) + linear + t * quadratic

    t = line_search(slope, float(gradient @ move))
    return coef + t * move, scores + t * direction


def _column_variances(problem: RankingProblem) -> Vector:
    operator = problem.operator
    n_rows = operator.shape[0]
    mean = operator.rmatvec(np.full(n_rows, 1.0 / n_rows))
    return np.maximum(operator.column_squares() / n_rows - np.square(mean), 0.0)


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


class RankSVM(BaselineScorer):
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

    def __init__(self, reg: float = 0.01, *, tol: float = 1e-4, max_iter: int = 100, pos_label: Any = None) -> None:
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def _solve(self, X: Any, problem: RankingProblem) -> tuple[Vector, float]:
        coef, scores, self.history_ = _minimise(problem, self.tol, self.max_iter)
        last, m = self.history_[-1], problem.n_positive
        self.primal_objective_, self.dual_objective_, self.dual_gap_ = last.primal, last.dual, last.gap
        self.n_iter_, self.n_passes_ = max(1, len(self.history_) - 1), last.n_passes
        self.converged_ = bool(last.gap <= self.tol)
        return coef, -balanced_threshold(scores[:m], scores[m:])


class TopPush(TauFPLRanker):
    """Rank positives above the single highest negative: the case k = 1 of :class:`taufpl.TauFPLRanker`.

    ::

        P(w) = (1/m) sum_i max(0, 1 - (x_i+ . w - max_j x_j- . w))^2 + (reg/2) |w|^2

    `predict` says positive above every training negative.

    Parameters
    ----------
    reg : float, default=0.01
        Weight of the penalty, positive.
    solver, tol, max_iter, pos_label, callback
        As in :class:`taufpl.TauFPLRanker`, whose fitted attributes it has too.

    References
    ----------
    N. Li, R. Jin and Z.-H. Zhou, "Top rank optimization in linear time", NIPS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import TopPush
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + 2.0 * y[:, np.newaxis]
    >>> int(TopPush().fit(X, y).predict(X)[y == 0].sum())
    0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: constraint
        for name, constraint in TauFPLRanker._parameter_constraints.items()
        if name not in ("tau", "tau_scale", "positive_share")
    }
    # The ranker at a tolerance of 0: k = 1, and no training negative above the threshold.
    _tolerance = 0.0
    tau_scale = positive_share = 1.0

    def __init__(
        self,
        reg: float = 0.01,
        *,
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int | None = None,
        pos_label: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.reg = reg
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.callback = callback
