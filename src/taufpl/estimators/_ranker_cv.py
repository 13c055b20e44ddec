"""The ranking with reg chosen on held-out folds."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from taufpl._sklearn import Interval, StrOptions, fit_context
from taufpl.estimators._linear import (
    SHARE_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    TAU_SCALE_CONSTRAINT,
    LinearScorer,
    train_threshold,
)
from taufpl.estimators._progress import printing
from taufpl.estimators._reading import make_table
from taufpl.estimators._search import RankingSearch, search_ranking
from taufpl.estimators._table import Table
from taufpl.estimators.rankings import rank
from taufpl.problem import top_count


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
    tau_scale : float or "cv", default=1.0
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
        tau_scale: float | str = 1.0,
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
