"""SVM-pAUC (Narasimhan and Agarwal 2013): the partial area under the ROC curve by a structural SVM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from taufpl._types import RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.baselines._bundle import Bundle
from taufpl.baselines._cutting_planes import Minimum, minimise
from taufpl.baselines._scorer import BaselineScorer
from taufpl.estimators import SOLVER_CONSTRAINTS, TAU_CONSTRAINT, ArrayTable, train_threshold
from taufpl.exceptions import RankingCollapseWarning
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Callback


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
