"""The fitter of kernel rankings, which strategies for the threshold call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from taufpl._types import Array, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._table import Scores, score_rounding
from taufpl.estimators.kernel._search import KernelSearch
from taufpl.estimators.kernel._solve import KernelReport, rank_rows
from taufpl.estimators.strategies import Fitter
from taufpl.kernels import Kernel, score_sizes

if TYPE_CHECKING:
    from taufpl.estimators.kernel._classifier import KernelTauFPLClassifier


class KernelFit(NamedTuple):
    """The weights that all rows of X have in a ranking, and its report, unless that of a neighbour is kept."""

    weights: Vector
    report: KernelReport | None


class KernelFitter(Fitter):
    """Fits the rankings of a kernel classifier, with gamma, reg and tau_scale given or, where "cv", searched for.

    The seed draws landmarks.
    """

    def __init__(self, model: KernelTauFPLClassifier, X: Any, seed: int) -> None:
        self.model, self.X, self.seed = model, X, seed
        self._usual_gamma = "median" if model.gamma == "cv" else model.gamma
        # A parameter that does not suit the rows is refused before anything is divided.
        self.kernel: Kernel = model._make_kernel(self._usual_gamma, X)
        self.reg, self.tau_scale = math.nan, math.nan
        self.cv_results: dict[str, Array] | None = None

    def prepare(self, table: ArrayTable) -> None:
        """Choose gamma, reg and tau_scale by these rows alone, where they are not given."""
        model = self.model
        self.kernel = model._make_kernel(self._usual_gamma, self.kernel.restrict(self.X, table.rows))
        if "cv" not in (model.gamma, model.reg, model.tau_scale):
            self.reg, self.tau_scale = float(model.reg), float(model.tau_scale)
            return
        search = KernelSearch(model, table, self.seed)
        gamma, best, self.cv_results = search.run(self.kernel.gamma, has_gamma=self.kernel.has_gamma)
        self.kernel = model._make_kernel(gamma)
        self.reg, self.tau_scale = best.best_reg(), best.setting.tau_scale

    def fit(self, table: ArrayTable, near: KernelFit | None = None) -> KernelFit:
        """Choose landmarks among these rows, and solve."""
        model, own = self.model, table.by_class
        classes = (np.arange(table.n_positive), np.arange(table.n_positive, own.size))
        settings = (self.tau_scale * model.tau, self.reg, model._approximation(), model._choice())
        part, rng = self.kernel.restrict(self.X, own), np.random.default_rng(self.seed)
        found = rank_rows(self.kernel, part, classes, *settings, rng)
        weights = np.zeros(self.X.shape[0])
        weights[own] = found.weights
        return KernelFit(weights, found.report() if near is None else None)

    def scores(self, model: KernelFit, table: ArrayTable) -> Scores:
        """Sums of the weights times the kernel, for each of the rows."""
        support = np.flatnonzero(model.weights)
        points, weights = self.kernel.points(self.X, support), model.weights[support]
        # Of all but the longest rows: one huge row must not decide the rounding of the others.
        size = np.quantile(score_sizes(self.kernel, self.X, support, weights), 1.0 - 0.1 * self.model.tau)
        scores = table.with_scores(self.kernel.expansion(self.X[table.by_class], points, weights))
        return scores.with_rounding(score_rounding(float(size)))
