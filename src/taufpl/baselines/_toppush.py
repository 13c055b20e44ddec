"""TopPush (Li, Jin and Zhou 2014): positives above the highest negative."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from taufpl._sklearn import fit_context
from taufpl.estimators import REG_CONSTRAINT, SOLVER_CONSTRAINTS, LinearScorer, solve_ranking
from taufpl.estimators._block_fit import fit_remote
from taufpl.estimators._block_scores import train_threshold
from taufpl.estimators._block_solve import rank_part
from taufpl.estimators._block_table import Part
from taufpl.operators import as_operator, is_remote
from taufpl.problem import RankingProblem
from taufpl.solvers import Callback


class TopPush(LinearScorer):
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
        **LinearScorer._parameter_constraints,
        **SOLVER_CONSTRAINTS,
        "reg": REG_CONSTRAINT,
    }

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

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the ranking.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            As in :class:`taufpl.TauFPLRanker`.
        y : {array-like, dask collection, tensor} of shape (n_samples,)
            Two different labels.

        Returns
        -------
        self
        """
        if is_remote(X):
            return fit_remote(self, X, y)
        X, labels = self._read(X, y)
        operator = as_operator(X)
        problem = RankingProblem(operator, labels.positive_rows, labels.negative_rows, 1, self.reg)
        return self._keep(solve_ranking(problem, self._choice(), callback=self.callback), problem, tau=0.0)

    def _fit_part(self, part: Part) -> Self:
        ranking, problem = rank_part(part, 1, self.reg, self._choice(), self.callback)
        return self._keep_part(ranking, problem, train_threshold(part, ranking.result.coef, 0.0))
