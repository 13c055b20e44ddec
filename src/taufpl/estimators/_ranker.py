"""The rankers: the paper's method at one reg, by search, and along a path of tolerances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_X_y

from taufpl._sklearn import Interval, StrOptions, fit_context, validate_params
from taufpl._types import Array, Mask
from taufpl.estimators._linear import (
    REG_CONSTRAINT,
    SHARE_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    TAU_SCALE_CONSTRAINT,
    LinearScorer,
    SolverChoice,
    train_threshold,
)
from taufpl.estimators._progress import printing
from taufpl.estimators._reading import in_memory, make_table, split_labels
from taufpl.estimators._search import RankingSearch, reg_grid, search_ranking, tau_grid
from taufpl.estimators._table import Table
from taufpl.estimators.rankings import rank
from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Callback, Result, solve_path
from taufpl.thresholding import top_threshold


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


@dataclass(frozen=True, slots=True)
class TauPath:
    """Solutions over a grid, one row a tau and one column a reg, in the order in which they were asked for.

    Attributes
    ----------
    taus, regs : ndarray
    coefs : ndarray of shape (n_taus, n_regs, n_features)
    thresholds : ndarray of shape (n_taus, n_regs)
        The (floor(tau n) + 1)-th largest score of a training negative.
    primal_objectives, dual_objectives, dual_gaps : ndarray of shape (n_taus, n_regs)
    n_passes : ndarray of shape (n_taus, n_regs)
        Passes over the data of each solve, which started from a neighbour's solution.
    converged : ndarray of bool of shape (n_taus, n_regs)
    """

    taus: Array
    regs: Array
    coefs: Array
    thresholds: Array
    primal_objectives: Array
    dual_objectives: Array
    dual_gaps: Array
    n_passes: Array
    converged: Mask


@validate_params(
    {**SOLVER_CONSTRAINTS, "tau_scale": TAU_SCALE_CONSTRAINT, "pos_label": "no_validation"},
    prefer_skip_nested_validation=True,
)
def tau_path(
    X: Any,
    y: ArrayLike,
    taus: ArrayLike,
    regs: ArrayLike,
    *,
    tau_scale: float = 1.0,
    solver: str = "newton",
    tol: float = 1e-4,
    max_iter: int | None = None,
    pos_label: Any = None,
    callback: Callback | None = None,
) -> TauPath:
    """Rankings for every tau and reg of a grid, each solved from its neighbour's solution.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Two different labels.
    taus : float or array-like of float
        Tolerances between 0 and 1.
    regs : float or array-like of float
        Weights of the penalty, positive.
    tau_scale, solver, tol, max_iter, pos_label
        As in :class:`TauFPLRanker`.
    callback : callable, default=None
        Gets a record after every iteration of every solve.

    Returns
    -------
    TauPath

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import tau_path
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [500, 100])
    >>> X = rng.normal(size=(600, 5)) + y[:, np.newaxis]
    >>> path = tau_path(X, y, taus=[0.05, 0.1], regs=np.geomspace(1, 0.01, 20))
    >>> path.coefs.shape, bool(path.converged.all())
    ((2, 20, 5), True)
    """
    X, y = in_memory("tau_path", X, y)
    data, target = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True)
    labels = split_labels(target, pos_label)
    tau_values, reg_values = tau_grid(taus), reg_grid(regs)
    ks = np.array([top_count(tau_scale * tau, labels.negative_rows.size) for tau in tau_values])
    problem = RankingProblem(as_operator(data), labels.positive_rows, labels.negative_rows, ks[0], reg_values[0])
    choice = SolverChoice(solver, tol, max_iter)
    found = {}
    for k, reg, result in solve_path(choice, problem, ks.tolist(), reg_values.tolist(), callback):
        _, negative = problem.scores(result.coef)
        for tau in tau_values[ks == k]:
            found[tau, reg] = (result, top_threshold(negative, tau))

    def grid(read: Callable[[Result], Any]) -> Array:
        return np.array([[read(found[tau, reg][0]) for reg in reg_values] for tau in tau_values])

    return TauPath(
        taus=tau_values,
        regs=reg_values,
        coefs=grid(lambda result: result.coef),
        thresholds=np.array([[found[tau, reg][1] for reg in reg_values] for tau in tau_values]),
        primal_objectives=grid(lambda result: result.primal),
        dual_objectives=grid(lambda result: result.dual),
        dual_gaps=grid(lambda result: result.gap),
        n_passes=grid(lambda result: result.n_passes),
        converged=grid(lambda result: result.gap <= tol),
    )


class TauFPLRankerCV(LinearScorer):
    """The ranking of :class:`TauFPLRanker` with reg chosen by cross-validation.

    In each fold the grid is taken from the largest reg down, each fit starting from the one before; where hardly any
    loss is left, smaller values are judged by the ranking that there is, without a fit. A value is judged by the share
    of held-out positives above the (floor(tau n) + 1)-th largest of the n held-out negatives. Where the best value is
    an end of the grid, and better than its neighbour, the grid is extended there. The chosen ranking is then fitted on
    all data.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerated false-positive rate, between 0 and 1.
    regs : int or array-like of float, default=10
        The grid, or how many values it has, from 1e-5 to 10 in equal factors.
    cv : int, cross-validation generator or iterable, default=5
        As in scikit-learn; an int stratifies without shuffling. For remote rows it must be an int.
    tau_scale : float or "cv", default="cv"
        The ranking trains at tau_scale tau; judgement and threshold stay at tau. "cv" chooses among 1, 2, 4, 16, ...
        and the scale at which all negatives count alike.
    positive_share : float or "cv", default=1.0
        Share of the positives to train on, as in :class:`TauFPLRanker`; "cv" chooses among 1, .75, .5, .25 and .1.
    max_extensions : int, default=20
        How many values the grid may grow by. 0 keeps it as given.
    cv_tol : float, default=1e-3
        Relative gap at which fits on folds stop: shares do not tell finer ones apart. The final fit goes to `tol`.
    solver, tol, max_iter, pos_label, callback
        As in :class:`TauFPLRanker`; the callback sees the final fit.
    n_jobs : int, default=None
        Folds that are fitted at the same time, in threads, as in :class:`TauFPLClassifier`. Folds of remote rows follow
        each other, and their blocks are worked on at the same time.
    verbose : int, default=0
        1 prints the steps of the search (settings, folds) on stderr.

    Attributes
    ----------
    reg_, tau_scale_, positive_share_ : float
        The chosen values.
    best_score_ : float
        Its mean share over the folds.
    cv_results_ : dict of ndarrays
        One entry a value of `param_reg`, largest first, for each `param_tau_scale` and `param_positive_share`:
        `split<i>_test_score`, `mean_test_score`, `std_test_score`, `rank_test_score`, and `mean_fit_time`,
        `mean_n_passes` of a fold.
    n_extensions_ : int
        How many values were added to the grid.
    coef_, intercept_, classes_, primal_objective_, dual_objective_, dual_gap_, n_iter_, n_passes_, converged_, \
collapsed_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`TauFPLRanker`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLRankerCV
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 100])
    >>> X = rng.normal(size=(2100, 5)) + y[:, np.newaxis]
    >>> ranker = TauFPLRankerCV(tau=0.05, regs=[1.0, 0.1, 0.01]).fit(X, y)
    >>> bool(ranker.reg_ in ranker.cv_results_["param_reg"])
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearScorer._parameter_constraints,
        **SOLVER_CONSTRAINTS,
        "tau": TAU_CONSTRAINT,
        "regs": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "tau_scale": [*TAU_SCALE_CONSTRAINT, StrOptions({"cv"})],
        "positive_share": [*SHARE_CONSTRAINT, StrOptions({"cv"})],
        "max_extensions": [Interval(Integral, 0, None, closed="left")],
        "cv_tol": SOLVER_CONSTRAINTS["tol"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    verbose: int = 0  # models of older files do not say

    def __init__(
        self,
        tau: float = 0.01,
        regs: int | ArrayLike = 10,
        cv: Any = 5,
        *,
        tau_scale: float | str = "cv",
        positive_share: float | str = 1.0,
        max_extensions: int = 20,
        cv_tol: float = 1e-3,
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        pos_label: Any = None,
        callback: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tau = tau
        self.regs = regs
        self.cv = cv
        self.tau_scale = tau_scale
        self.positive_share = positive_share
        self.max_extensions = max_extensions
        self.cv_tol = cv_tol
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.pos_label = pos_label
        self.callback = callback
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Choose reg, then learn the ranking on all data.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            As in :class:`TauFPLRanker`.
        y : {array-like, dask collection, tensor} of shape (n_samples,)
            Two different labels.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together: no fold divides them. For rows in memory.

        Returns
        -------
        self
        """
        with make_table(self, X, y, groups) as table:
            return self._fit_table(table)

    def _fit_table(self, table: Table) -> Self:
        with printing(self.verbose):
            search = search_ranking(
                table,
                self.tau,
                replace(self._choice(), tol=self.cv_tol),
                tau_scale=self.tau_scale,
                positive_share=self.positive_share,
                regs=self.regs,
                cv=self.cv,
                max_extensions=self.max_extensions,
            )
        self._keep_search(search)
        with table.problem(top_count(self.tau_scale_ * self.tau, table.n_negative), self.reg_) as problem:
            ranking = rank(problem, self.positive_share_, self.tau, self._choice(), callback=self.callback)
        return self._keep(ranking, problem, train_threshold(table, ranking.result.coef, self.tau))

    def _keep_search(self, search: RankingSearch) -> None:
        best = search.best()
        self.n_extensions_ = search.n_extensions
        self.cv_results_ = search.table()
        self.best_score_ = best.best_score()
        self.reg_ = best.best_reg()
        self.tau_scale_, self.positive_share_ = best.setting.tau_scale, best.setting.positive_share
