"""The plain support vector machine with its threshold moved to the tolerance."""

from __future__ import annotations

from typing import Any, ClassVar

from taufpl._types import Vector
from taufpl.baselines._liblinear import LiblinearScorer
from taufpl.estimators import TAU_CONSTRAINT, ArrayTable, train_threshold
from taufpl.problem import RankingProblem


class BiasShiftedSVM(LiblinearScorer):
    """A linear support vector machine, trained without regard to tau, whose threshold is then moved to it.

    With N rows and labels y_i = +1 or -1 it minimises ::

        P(w, b) = (1/N) sum_i max(0, 1 - y_i (x_i . w + b))^2 + (reg/2) (|w|^2 + (b/s)^2),    s = 100

    to a certified relative gap. `predict` does not use b: it compares x . w with the (floor(tau n) + 1)-th largest
    score of the n training negatives, which is an optimistic threshold. On new data the false-positive rate may
    exceed tau; :class:`taufpl.NeymanPearsonClassifier` around it has a guarantee.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerated false-positive rate, between 0 and 1.
    reg : float, default=0.01
        Weight of the penalty, positive. Its best value depends on the scale of the features.
    tol : float, default=1e-4
        Relative duality gap at which to stop.
    max_iter : int, default=1000
        Bound on liblinear's iterations.
    pos_label : label, default=None
        The label of positives; None takes the second of the two in sorted order.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Minus the threshold.
    svm_intercept_ : float
        The b that belongs to the minimum of P.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    objective_ : float
        P at `coef_` and `svm_intercept_`.
    dual_gap_, n_iter_, converged_
        As in :class:`CostSensitiveSVM`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    References
    ----------
    C. Cortes and V. Vapnik, "Support-vector networks", Machine Learning 20, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import BiasShiftedSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> int(BiasShiftedSVM(tau=0.05).fit(X, y).predict(X)[y == 0].sum())
    50
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {**LiblinearScorer._parameter_constraints, "tau": TAU_CONSTRAINT}

    def __init__(
        self, tau: float = 0.01, reg: float = 0.01, *, tol: float = 1e-4, max_iter: int = 1000, pos_label: Any = None
    ) -> None:
        self.tau = tau
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def _solve(self, X: Any, problem: RankingProblem) -> tuple[Vector, float]:
        coef, self.svm_intercept_ = super()._solve(X, problem)
        return coef, -train_threshold(ArrayTable.of(problem), coef, self.tau)

    def _weights(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        return (1.0 / (n_positive + n_negative),) * 2
