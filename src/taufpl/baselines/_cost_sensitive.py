"""The support vector machine and the logistic regression with a price on false positives."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.linear_model import LogisticRegression

from taufpl._sklearn import Interval
from taufpl.baselines._liblinear import LiblinearScorer, Logistic


class CostSensitiveScorer(LiblinearScorer):
    """A classifier that adds the mean losses of the classes, that of the negatives times a cost."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LiblinearScorer._parameter_constraints,
        "negative_cost": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        reg: float = 0.01,
        negative_cost: float = 1.0,
        *,
        tol: float = 1e-4,
        max_iter: int = 1000,
        pos_label: Any = None,
    ) -> None:
        self.reg = reg
        self.negative_cost = negative_cost
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def _weights(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        return 1.0 / n_positive, self.negative_cost / n_negative


class CostSensitiveSVM(CostSensitiveScorer):
    """A linear support vector machine in which false positives have a price of their own.

    With m positives and n negatives it minimises ::

        P(w, b) = (1/m) sum_i max(0, 1 - (x_i+ . w + b))^2 + negative_cost (1/n) sum_j max(0, 1 + (x_j- . w + b))^2
                  + (reg/2) (|w|^2 + (b/s)^2),    s = 100

    to a certified relative gap, and says positive where x . w + b > 0. A higher `negative_cost` lowers the
    false-positive rate, but which cost gives which rate has to be searched for. The penalty on b is there because
    liblinear cannot do without it; its gradient is reg b / 10,000, which hardly matters below a reg of 100.

    Parameters
    ----------
    reg : float, default=0.01
        Weight of the penalty, positive. Its best value depends on the scale of the features.
    negative_cost : float, default=1.0
        Weight of the negatives' mean loss beside that of the positives, positive.
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
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    objective_ : float
        P at `coef_` and `intercept_`.
    dual_gap_ : float
        Bound on how far this is above the minimum, relative to P: ``|grad P|^2 / (2 reg P)``, the gradient with respect
        to (w, b/s).
    n_iter_ : int
        Iterations of liblinear.
    converged_ : bool
        Whether `dual_gap_` came down to `tol`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    References
    ----------
    E. Osuna, R. Freund and F. Girosi, "Support vector machines: training and applications", A.I. Memo 1602, MIT, 1997.

    R.-E. Fan, K.-W. Chang, C.-J. Hsieh, X.-R. Wang and C.-J. Lin, "LIBLINEAR: a library for large linear
    classification", JMLR 9, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import CostSensitiveSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> [int(CostSensitiveSVM(negative_cost=cost).fit(X, y).predict(X)[y == 0].sum()) for cost in (1, 10, 100)]
    [142, 13, 0]
    """


class CostSensitiveLogisticRegression(CostSensitiveScorer):
    """Logistic regression in which false positives have a price of their own.

    With m positives and n negatives it minimises ::

        P(w, b) = (1/m) sum_i log(1 + exp(-(x_i+ . w + b))) + negative_cost (1/n) sum_j log(1 + exp(x_j- . w + b))
                  + (reg/2) (|w|^2 + (b/s)^2),    s = 100

    to a certified relative gap, and says positive where x . w + b > 0: where it takes the row to be more than
    `negative_cost` times as likely among positives as among negatives.

    Parameters
    ----------
    reg, negative_cost, tol, max_iter, pos_label
        As in :class:`CostSensitiveSVM`, whose fitted attributes it has too.

    References
    ----------
    C.-J. Lin, R. C. Weng and S. S. Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 9,
    2008.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import CostSensitiveLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> models = [CostSensitiveLogisticRegression(negative_cost=cost).fit(X, y) for cost in (1, 10, 100)]
    >>> [int(model.predict(X)[y == 0].sum()) for model in models]
    [142, 15, 1]
    """

    _loss = Logistic()

    def _liblinear(self, **settings: Any) -> Any:
        return LogisticRegression(solver="liblinear", **settings)
