"""What strategies fit: rankings in the space of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._labels import TwoClasses, split_rows
from taufpl.estimators._search import Setting
from taufpl.estimators._solve import SolverChoice
from taufpl.estimators.kernel._rows import Approximation, KernelRows, Rows, Vector, expand, named, take
from taufpl.estimators.kernel._search import GAMMA_FACTORS, KernelSearch
from taufpl.estimators.kernel._solve import KernelRanking, rank_rows
from taufpl.kernels import Kernel

# Larger shares of the negatives than tau, in multiples of it, that "cv" tries.
TAU_SCALES = (1.0, 2.0, 4.0)
_WITH_GAMMA = ("rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid")


@dataclass(frozen=True, slots=True)
class KernelModel:
    """Rows of X with a weight, in order, and the weights."""

    support: Rows
    weights: Vector


@dataclass(frozen=True, slots=True)
class Wanted:
    """Parameters of the ranking, as they were given: "cv" stands for those to be searched for."""

    gamma: float | str
    reg: float | str
    tau_scale: float | str


class KernelFitter:
    """Fits kernel rankings, with gamma, reg and tau_scale given or searched for.

    Parameters
    ----------
    X : ndarray or CSR matrix
        "precomputed": the kernel matrix of all rows.
    labels : TwoClasses
    tau : float
    wanted : Wanted
    make : callable
        Kernel for a gamma, which may be the name of a rule, and for rows that the rule looks at.
    how : Approximation
    choice : SolverChoice
    regs : ndarray
        The grid for "cv".
    cv : int
        Folds of the search.
    n_jobs : int or None
    seed : int
        Draws landmarks.
    """

    learns_from_neighbours = False
    learns_from_positives = True

    def __init__(
        self,
        X: Any,
        labels: TwoClasses,
        tau: float,
        wanted: Wanted,
        make: Callable[[float | str, Any], Kernel],
        how: Approximation,
        choice: SolverChoice,
        *,
        regs: Vector,
        cv: int,
        n_jobs: int | None,
        seed: int,
    ) -> None:
        self.X = X
        self.positive_rows, self.negative_rows, self.units = labels.positive_rows, labels.negative_rows, labels.units
        self.tau = tau
        self.wanted = wanted
        self.make = make
        self.how, self.choice = how, choice
        self.regs, self.cv, self.n_jobs, self.seed = regs, cv, n_jobs, seed
        self.reg, self.tau_scale = math.nan, math.nan
        self.kernel: Kernel | None = None
        # What the search found, and the first fit: that on all rows, or on all that may be fitted on.
        self.cv_results: dict[str, NDArray[Any]] | None = None
        self.first: tuple[KernelRanking, KernelRows] | None = None

    def prepare(self, rows: Rows) -> None:
        """Choose gamma, reg and tau_scale by these rows alone, where they are not given."""
        wanted = self.wanted
        usual = self.make("median" if wanted.gamma == "cv" else wanted.gamma, self._part(rows))
        if "cv" not in (wanted.gamma, wanted.reg, wanted.tau_scale):
            self.kernel, self.reg, self.tau_scale = usual, float(wanted.reg), float(wanted.tau_scale)
            return
        search = KernelSearch(
            lambda gamma: self.make(gamma, None),
            self.X,
            *split_rows(rows, self.positive_rows),
            self.units,
            self.tau,
            self.choice,
            self.how,
            self.cv,
            self.n_jobs,
            self.seed,
        )
        many = wanted.gamma == "cv" and usual.function in _WITH_GAMMA
        gammas = [factor * usual.gamma for factor in GAMMA_FACTORS] if many else [usual.gamma]
        scales = TAU_SCALES if wanted.tau_scale == "cv" else (float(wanted.tau_scale),)
        regs = self.regs if wanted.reg == "cv" else np.array([float(wanted.reg)])
        found = search.run(gammas, [Setting(scale) for scale in scales], regs, extend=many)
        self.kernel, self.reg, self.tau_scale = self.make(found.gamma, None), found.reg, found.tau_scale
        self.cv_results = found.table

    def fit(self, rows: Rows, near: Any = None) -> KernelModel:
        """Choose landmarks among these rows, and solve."""
        assert self.kernel is not None
        positive, negative = split_rows(rows, self.positive_rows)
        own = np.concatenate((positive, negative))
        cut = positive.size
        parts = (np.arange(cut), np.arange(cut, own.size))
        settings = (self.tau_scale * self.tau, self.reg, self.how, self.choice, np.random.default_rng(self.seed))
        features, found = rank_rows(self.kernel, self._part(own), parts, *settings)
        self.first = self.first or (found, features)
        has_weight = np.flatnonzero(found.weights)
        order = np.argsort(own[has_weight])
        return KernelModel(own[has_weight][order], found.weights[has_weight][order])

    def scores(self, model: KernelModel, rows: Rows) -> Vector:
        """Sums of the weights times the kernel, for each of the rows."""
        assert self.kernel is not None
        return expand(self.kernel, self.X[rows], named(self.kernel, self.X, model.support), model.weights)

    def is_linear(self, model: KernelModel) -> bool:
        """In the space of the kernel only."""
        return False

    def has_scale(self, model: KernelModel) -> bool:
        """Never: a ranking has no intercept."""
        return False

    def _part(self, rows: Rows) -> Any:
        return take(self.make(1.0, None), self.X, rows)
