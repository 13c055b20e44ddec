"""What the `fit` of an estimator does with rows that live elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone

from taufpl.estimators._block_scores import Direction
from taufpl.estimators._block_search import search_part
from taufpl.estimators._block_solve import rank_part
from taufpl.estimators._block_table import Part, check_header, read_part
from taufpl.estimators._fitters import MOST_EXTENSIONS, SEARCH_TOL
from taufpl.estimators._solve import Ranking, SolverChoice
from taufpl.operators import is_foreign_array, like
from taufpl.problem import BlockRankingProblem, top_count

Vector = NDArray[np.float64]

# Arrays of a fitted linear model, which follow X where scikit-learn is told that they should.
_FOLLOWING = ("coef_", "intercept_", "thresholds_")


def fit_remote(estimator: Any, X: Any, y: Any) -> Any:
    """Fit on rows that stay where they are: read and check them, fit, and let go of them."""
    check_solver(estimator)
    with read_part(estimator, X, y, estimator.pos_label) as part:
        estimator._fit_part(part)
    if get_config()["array_api_dispatch"] and is_foreign_array(X):
        follow(estimator, X)
    return estimator


def follow(estimator: Any, X: Any) -> None:
    """Put the arrays of a fitted model into X's library and on its device."""
    for name in _FOLLOWING:
        if name in vars(estimator):
            setattr(estimator, name, like(X, getattr(estimator, name)))


def check_solver(estimator: Any) -> None:
    """Refuse what there is for rows in memory only."""
    if getattr(estimator, "solver", "newton") != "newton":
        raise ValueError(
            f"solver must be 'newton' for rows that live elsewhere, got {estimator.solver!r}: the paper's method "
            "takes hundreds of passes, and is there for rows in memory only."
        )
    if getattr(estimator, "positive_share", 1.0) != 1.0:
        raise ValueError(
            f"positive_share must be 1 for rows that live elsewhere, got {estimator.positive_share!r}: giving up "
            "positives is there for rows in memory only. Raise tau_scale instead, or fit on a sample in memory."
        )


@dataclass(frozen=True)
class PartModel:
    """A ranking that was fitted on a part."""

    coef: Vector


class PaperFitter:
    """Fits the ranking of the paper on parts, with reg and tau_scale given or searched for."""

    tells_of_all_rows = True

    def __init__(
        self,
        tau: float,
        tau_scale: float | str,
        reg: float | str,
        choice: SolverChoice,
        *,
        regs: int | ArrayLike,
        cv: Any,
    ) -> None:
        self.tau = tau
        self.given = (reg, tau_scale)
        self.reg, self.tau_scale = (math.nan if isinstance(each, str) else float(each) for each in self.given)
        self.choice = choice
        self.regs, self.cv = regs, cv
        # What the search found, and the first fit: that on all rows, or on all that may be fitted on.
        self.cv_results: dict[str, NDArray[Any]] | None = None
        self.first: tuple[Ranking, BlockRankingProblem] | None = None

    def prepare(self, part: Part) -> None:
        """Choose reg and tau_scale on folds of these rows, where they are not given."""
        if "cv" not in self.given:
            return
        search = search_part(
            part,
            self.tau,
            replace(self.choice, tol=max(self.choice.tol, SEARCH_TOL)),
            tau_scale=self.given[1],
            regs=self.regs if self.given[0] == "cv" else [self.reg],
            cv=self.cv,
            max_extensions=MOST_EXTENSIONS,
        )
        best = search.best()
        self.cv_results = search.table()
        self.reg, self.tau_scale = float(best.regs[best.best()]), best.setting.tau_scale

    def fit(self, part: Part) -> PartModel:
        """Solve on these rows."""
        k = top_count(self.tau_scale * self.tau, part.n_negative)
        found = rank_part(part, k, self.reg, self.choice)
        self.first = self.first or found
        return PartModel(found[0].result.coef)

    def direction(self, model: PartModel) -> Direction:
        """Products with w."""
        return Direction(model.coef)


class CloneFitter:
    """Fits clones of a linear estimator of this package on parts.

    Parameters
    ----------
    estimator : estimator
        With `_fit_part`.
    X : collection or array
        Whose columns the clones were fitted on.
    classes : ndarray of shape (2,)
    """

    tells_of_all_rows = False

    def __init__(self, estimator: Any, X: Any, classes: NDArray[Any]) -> None:
        check_solver(estimator)
        self.estimator, self.X, self.classes = estimator, X, classes

    def prepare(self, part: Part) -> None:
        """Nothing is chosen beforehand."""

    def fit(self, part: Part) -> Any:
        """Fit a clone."""
        model = clone(self.estimator)
        check_header(model, self.X, reset=True)
        model.classes_ = self.classes
        return model._fit_part(part)

    def direction(self, model: Any) -> Direction:
        """The decision function of a clone."""
        return Direction(model.coef_[0], float(model.intercept_[0]))


def selection_of(cv_results: dict[str, NDArray[Any]], reg: float, tau_scale: float) -> dict[str, Any]:
    """What was compared, in the form in which the automatic ranking reports it: the paper's rankings alone."""
    scales, regs = cv_results["param_tau_scale"], cv_results["param_reg"]
    return {
        "candidate": [f"paper({scale:g}, {each:g})" for scale, each in zip(scales, regs, strict=True)],
        "mean_share": cv_results["mean_test_score"],
        "std_share": cv_results["std_test_score"],
        "over_logistic": np.full(len(regs), math.nan),
        "kept": (scales == tau_scale) & (regs == reg),
    }
