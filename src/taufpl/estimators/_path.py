"""Rankings over a grid of tolerances and penalties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_X_y

from taufpl._sklearn import validate_params
from taufpl._types import Array, Mask
from taufpl.estimators._linear import SOLVER_CONSTRAINTS, TAU_SCALE_CONSTRAINT, SolverChoice
from taufpl.estimators._reading import in_memory, split_labels
from taufpl.estimators._search import reg_grid, tau_grid
from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Callback, Result, solve_path
from taufpl.thresholding import top_threshold


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
