"""SVM-pAUC (Narasimhan and Agarwal 2013): the partial area under the ROC curve by a structural SVM."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_X_y

from taufpl._sklearn import Interval, fit_context, validate_params
from taufpl.baselines._bundle import Bundle
from taufpl.baselines._cutting_planes import Minimum, minimise
from taufpl.estimators import (
    REG_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    LinearScorer,
    in_memory,
    reg_grid,
    split_labels,
    train_threshold,
    warn_not_converged,
)
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Callback

Vector = NDArray[np.float64]


def range_count(tau: float, n_negative: int) -> int:
    """Count the negatives in the range [0, tau] of false-positive rates: j = floor(tau n), at least 1.

    Examples
    --------
    >>> range_count(0.07, 100), range_count(0.001, 100)
    (7, 1)
    """
    return max(1, top_count(tau, n_negative) - 1)


class PartialAUCRisk:
    """The tight surrogate of the partial AUC loss over the k highest negatives of a ranking problem.

    ::

        R(w) = (1/(m k)) sum_i sum_{z among the k highest} max(0, 1 - (s_i+ - s_z-))

    Parameters
    ----------
    problem : RankingProblem
        Which rows are positive, which negative, and k; its loss and its reg are not used.
    """

    def __init__(self, problem: RankingProblem) -> None:
        self.problem = problem
        self.n_features = problem.n_features

    @property
    def n_passes(self) -> float:
        """Passes over the data so far."""
        return self.problem.operator.n_passes

    def scores(self, coef: Vector) -> Vector:
        """Scores of the positives, then those of the negatives. One pass."""
        return np.concatenate(self.problem.scores(coef))

    def piece(self, scores: Vector) -> tuple[Vector, float]:
        """Weights and offset of the linear piece of R at these scores: the most violated constraint.

        It is the subset of the k highest negatives, and the ordering in which a positive stands below those of them
        that it does not exceed by 1. A pair of them adds 1 - s_i + s_z, so that only counts are needed: how many of
        the subset each positive fails to exceed, and the other way round.
        """
        m, k = self.problem.n_positive, self.problem.k
        positive, negative = scores[:m], scores[m:]
        subset = highest(negative, k)
        passed = np.searchsorted(negative[subset], positive - 1.0, side="right")
        failed_by = np.cumsum(np.bincount(passed, minlength=k + 1))[:k]
        weights = np.zeros(scores.size)
        weights[:m] = (passed - k) / (m * k)
        weights[m + subset] = failed_by / (m * k)
        return weights, float(m * k - passed.sum()) / (m * k)

    def combine(self, weights: Vector) -> Vector:
        """Sum of the rows with these weights. Only rows with weight are touched."""
        m = self.problem.n_positive
        return self.problem.combine(weights[:m], -weights[m:])


def highest(scores: Vector, k: int) -> NDArray[np.intp]:
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


@dataclass(frozen=True, slots=True)
class PartialAUCPath:
    """Solutions over a grid of penalties, in the order in which they were asked for.

    Attributes
    ----------
    regs : ndarray of shape (n_regs,)
    coefs : ndarray of shape (n_regs, n_features)
    primal_objectives, dual_gaps : ndarray of shape (n_regs,)
    n_iter : ndarray of int of shape (n_regs,)
        Planes that were added for each, to those of the larger penalties.
    converged : ndarray of bool of shape (n_regs,)
    """

    regs: Vector
    coefs: NDArray[np.float64]
    primal_objectives: Vector
    dual_gaps: Vector
    n_iter: NDArray[np.intp]
    converged: NDArray[np.bool_]


_SETTINGS: dict[str, list[Any]] = {
    "tau": TAU_CONSTRAINT,
    "tol": SOLVER_CONSTRAINTS["tol"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
}


@validate_params({**_SETTINGS, "pos_label": "no_validation"}, prefer_skip_nested_validation=True)
def partial_auc_path(
    X: Any,
    y: ArrayLike,
    tau: float,
    regs: ArrayLike,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    pos_label: Any = None,
) -> PartialAUCPath:
    """What `PartialAUCSVM` finds for every reg of a grid, with one bundle of planes for all of them.

    Planes bound the risk, whatever the penalty is. The grid is walked from the largest reg down, and each solve starts
    from the planes and the solution of the one before.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Two different labels.
    tau : float
        End of the range of false-positive rates, between 0 and 1.
    regs : float or array-like of float
        Weights of the penalty, positive.
    tol, max_iter, pos_label
        As in :class:`PartialAUCSVM`, for each reg.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [500, 100])
    >>> X = rng.normal(size=(600, 5)) + y[:, np.newaxis]
    >>> path = partial_auc_path(X, y, 0.05, np.geomspace(0.01, 1, 5))
    >>> path.coefs.shape, bool(path.converged.all())
    ((5, 5), True)
    """
    X, y = in_memory("partial_auc_path", X, y)
    data, target = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True)
    labels, values = split_labels(target, pos_label), reg_grid(regs)
    k = range_count(tau, labels.negative_rows.size)
    problem = RankingProblem(as_operator(data), labels.positive_rows, labels.negative_rows, k, values[0])
    found = dict(_walk(PartialAUCRisk(problem), values, tol, max_iter))
    results = [found[reg] for reg in values.tolist()]
    return PartialAUCPath(
        regs=values,
        coefs=np.array([result.coef for result in results]),
        primal_objectives=np.array([result.primal for result in results]),
        dual_gaps=np.array([result.gap for result in results]),
        n_iter=np.array([result.n_iter for result in results]),
        converged=np.array([result.converged for result in results]),
    )


def _walk(risk: PartialAUCRisk, regs: Vector, tol: float, max_iter: int) -> Iterator[tuple[float, Minimum]]:
    bundle, start = Bundle(risk.n_features), None
    for reg in np.unique(regs)[::-1].tolist():
        result = minimise(risk, reg, tol=tol, max_iter=max_iter, bundle=bundle, start=start)
        yield reg, result
        start = result.coef


class PartialAUCSVM(LinearScorer):
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
        **LinearScorer._parameter_constraints,
        **_SETTINGS,
        "reg": REG_CONSTRAINT,
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
        k = range_count(self.tau, labels.negative_rows.size)
        problem = RankingProblem(as_operator(X), labels.positive_rows, labels.negative_rows, k, self.reg)
        result = minimise(
            PartialAUCRisk(problem), self.reg, tol=self.tol, max_iter=self.max_iter, callback=self.callback
        )
        return self._keep_minimum(result, problem)

    def _keep_minimum(self, result: Minimum, problem: RankingProblem) -> Self:
        """Set what the fit leaves behind."""
        self.coef_ = result.coef[np.newaxis].copy()
        self.intercept_ = np.array([-train_threshold(problem, result.coef, self.tau)])
        self._keep_certificate(result, problem)
        return self

    def _keep_certificate(self, result: Minimum, problem: RankingProblem) -> None:
        """Set what the solver said, and warn where it did not go as hoped."""
        self.primal_objective_ = result.primal
        self.dual_objective_ = result.dual
        self.dual_gap_ = result.gap
        self.n_iter_ = result.n_iter
        self.n_planes_ = result.n_planes
        self.n_passes_ = result.n_passes
        self.history_ = result.history
        self.converged_ = result.converged
        self.collapsed_ = result.collapsed
        if not self.converged_:
            warn_not_converged(type(self).__name__, result.n_iter, self.dual_gap_, self.tol)
        elif self.collapsed_:
            self._warn_collapsed(problem)

    def _warn_collapsed(self, problem: RankingProblem) -> None:
        warnings.warn(
            f"{type(self).__name__} found nothing better than w = 0, for any reg: the mean of the {problem.n_positive} "
            f"positives is an average of negatives in which {problem.k} of {problem.n_negative} decide, so that no "
            "direction separates them. Nothing is predicted positive. Raise tau.",
            RankingCollapseWarning,
            stacklevel=6,
        )
