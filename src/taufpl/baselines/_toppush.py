"""TopPush (Li, Jin and Zhou 2014): rank positives above the highest negative."""

from __future__ import annotations

from typing import Any, ClassVar

from taufpl.estimators import TauFPLRanker
from taufpl.solvers import Callback


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
