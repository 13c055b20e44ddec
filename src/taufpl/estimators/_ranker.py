"""The ranking of the paper as an estimator."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from taufpl._sklearn import fit_context
from taufpl.estimators._linear import (
    REG_CONSTRAINT,
    SHARE_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    TAU_SCALE_CONSTRAINT,
    LinearScorer,
    train_threshold,
)
from taufpl.estimators._reading import make_table
from taufpl.estimators._table import Table
from taufpl.estimators.rankings import rank
from taufpl.problem import top_count
from taufpl.solvers import Callback


class TauFPLRanker(LinearScorer):
    """Rank positives above the mean of the worst tau share of the negatives.

    With m positives, n negatives, k = floor(tau_scale tau n) + 1 and T_k(s) the mean of the k largest entries of s, it
    minimises ::

        P(w) = (1/m) sum_i max(0, 1 - (x_i+ . w - T_k(X- w)))^2 + (reg/2) |w|^2

    to a certified relative gap. `predict` compares with the (floor(tau n) + 1)-th largest score of a training negative,
    which is an optimistic threshold: on new data the false-positive rate may exceed tau. Use it to rank.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerated false-positive rate, between 0 and 1.
    reg : float, default=0.01
        Weight of the penalty, positive. Its best value depends on the scale of the features.
    tau_scale : float, default=1.0
        The ranking trains at tau_scale tau, the threshold stays at tau. 2 is the 2tau variant of the paper; where
        tau_scale tau is 1 or more, all negatives count alike.
    positive_share : float, default=1.0
        Share rho of the positives that are ranked; the others are given up. Below 1 the mean above goes over the
        ceil(rho m) positives with the highest scores: no longer convex, solved by alternation from several starts.
        P, D and the gap then speak of the convex problem on the positives that were chosen.
    solver : {"newton", "accelerated"}, default="newton"
        The second-order solver, or the paper's.
    tol : float, default=1e-4
        Relative duality gap (P - D) / P at which to stop.
    max_iter : int, default=None
        Bound on the solver's iterations; None is 1,000 for newton and 100,000 for accelerated.
    pos_label : label, default=None
        The label of positives; None takes the second of the two in sorted order, with a
        :class:`~taufpl.exceptions.PositiveLabelWarning` for labels other than 0 and 1, -1 and 1, or False and True.
        Metrics that ask for no label, such as `roc_auc_score`, take the larger one for positive; where `pos_label` is
        the smaller, give ``y == pos_label``. The scorers of :mod:`taufpl.metrics` ask the estimator.
    callback : callable, default=None
        Gets a :class:`taufpl.solvers.Record` after every iteration, for progress.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Of NumPy, whatever X was; of X's library where scikit-learn's `array_api_dispatch` is on.
    intercept_ : ndarray of shape (1,)
        Minus the threshold.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    primal_objective_, dual_objective_ : float
        P at `coef_`, and a lower bound on P everywhere.
    dual_gap_ : float
        Their difference relative to P.
    n_iter_ : int
    n_passes_ : float
        Passes over the data that the solver took.
    converged_ : bool
        Whether `dual_gap_` came down to `tol`.
    collapsed_ : bool
        Whether w = 0 is the optimum, for every reg: no direction ranks better than none. Then nothing is predicted
        positive, and a :class:`taufpl.exceptions.RankingCollapseWarning` says what helps.
    history_ : tuple of Record
        Passes, seconds, primal and dual value and gap after every iteration; rounds, where rows are remote.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLRanker
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 100])
    >>> X = rng.normal(size=(2100, 5)) + 2.0 * y[:, np.newaxis]
    >>> ranker = TauFPLRanker(tau=0.01).fit(X, y)
    >>> bool(ranker.predict(X)[y == 0].mean() <= 0.01), bool(ranker.dual_gap_ <= 1e-4)
    (True, True)
    >>> float(ranker.predict(X)[y == 1].mean())
    0.99
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearScorer._parameter_constraints,
        **SOLVER_CONSTRAINTS,
        "tau": TAU_CONSTRAINT,
        "reg": REG_CONSTRAINT,
        "tau_scale": TAU_SCALE_CONSTRAINT,
        "positive_share": SHARE_CONSTRAINT,
    }

    def __init__(
        self,
        tau: float = 0.01,
        reg: float = 0.01,
        *,
        tau_scale: float = 1.0,
        positive_share: float = 1.0,
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int | None = None,
        pos_label: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.tau = tau
        self.reg = reg
        self.tau_scale = tau_scale
        self.positive_share = positive_share
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.callback = callback

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the ranking.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Real numbers. Dense data in C or Fortran order and CSR data of type float32 or float64 are not copied. Dask
            arrays and dataframes (``docs/scale.md``) and arrays of other libraries (``docs/howto/gpu.md``) stay where
            they are; for them `positive_share` must be 1 and `solver` "newton".
        y : {array-like, dask collection, tensor} of shape (n_samples,)
            Two different labels.

        Returns
        -------
        self
        """
        with make_table(self, X, y) as table:
            return self._fit_table(table)

    def _fit_table(self, table: Table) -> Self:
        with table.problem(self._top_count(table.n_negative), self.reg) as problem:
            ranking = rank(problem, self.positive_share, self._tolerance, self._choice(), callback=self.callback)
        return self._keep(ranking, problem, train_threshold(table, ranking.result.coef, self._tolerance))

    @property
    def _tolerance(self) -> float:
        """The share of the training negatives that `predict` may call positive; subclasses without a tau set it."""
        return self.tau

    def _top_count(self, n_negative: int) -> int:
        """How many of the highest negatives the objective averages over."""
        return top_count(self.tau_scale * self._tolerance, n_negative)
