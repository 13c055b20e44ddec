"""The fitter of kernel rankings, which strategies for the threshold call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taufpl._types import Array, Rows, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._table import Scores
from taufpl.estimators.kernel._search import KernelSearch
from taufpl.estimators.kernel._solve import KernelRanking, rank_rows
from taufpl.estimators.strategies import Fitter
from taufpl.kernels import Kernel

if TYPE_CHECKING:
    from taufpl.estimators.kernel._classifier import KernelTauFPLClassifier


@dataclass(frozen=True, slots=True)
class KernelModel:
    """Rows of X with a weight, ascending, and the weights."""

    support: Rows
    weights: Vector


class KernelFitter(Fitter):
    """Fits the rankings of a kernel classifier, with gamma, reg and tau_scale given or searched for.

    Parameters
    ----------
    model : KernelTauFPLClassifier
        Its parameters say what is fitted; "cv" stands for those to be searched for.
    X : ndarray or CSR matrix
        All rows; "precomputed": their kernel matrix.
    seed : int
        Draws landmarks.
    """

    def __init__(self, model: KernelTauFPLClassifier, X: Any, seed: int) -> None:
        self.model, self.X, self.seed = model, X, seed
        # A parameter that does not suit the rows is refused before anything is divided.
        self.kernel: Kernel = model._make_kernel(self._usual_gamma, X)
        self.reg, self.tau_scale = math.nan, math.nan
        # What the search found, and the first fit: that on all rows, or on all that may be fitted on.
        self.cv_results: dict[str, Array] | None = None
        self.first: KernelRanking | None = None

    @property
    def _usual_gamma(self) -> float | str:
        return "median" if self.model.gamma == "cv" else self.model.gamma

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

    def fit(self, table: ArrayTable, near: Any = None) -> KernelModel:
        """Choose landmarks among these rows, and solve."""
        model, own = self.model, table.by_class
        classes = (np.arange(table.n_positive), np.arange(table.n_positive, own.size))
        settings = (self.tau_scale * model.tau, self.reg, model._approximation(), model._choice())
        part, rng = self.kernel.restrict(self.X, own), np.random.default_rng(self.seed)
        found = rank_rows(self.kernel, part, classes, *settings, rng)
        self.first = self.first or found
        has_weight = np.flatnonzero(found.weights)
        order = np.argsort(own[has_weight])
        return KernelModel(own[has_weight][order], found.weights[has_weight][order])

    def scores(self, model: KernelModel, table: ArrayTable) -> Scores:
        """Sums of the weights times the kernel, for each of the rows."""
        points = self.kernel.points(self.X, model.support)
        return table.with_scores(self.kernel.expansion(self.X[table.by_class], points, model.weights))

    def mean_weights(self, models: tuple[KernelModel, ...]) -> Vector:
        """Weights of all rows in the mean of the models' scores."""
        weights = np.zeros(self.X.shape[0])
        for model in models:
            weights[model.support] += model.weights / len(models)
        return weights
