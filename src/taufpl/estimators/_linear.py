"""What all linear estimators share: parameters of the solver, validation, decision function, prediction."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import Interval, StrOptions
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._labels import TwoClasses, read_units, split_labels, warn_user
from taufpl.estimators._predictions import AccuracyMixin, labels_of, linear_scores
from taufpl.estimators._solve import Ranking, SolverChoice
from taufpl.estimators._table import Table, in_memory, needs_memory
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import LARGEST_VALUE, as_operator, check_squares, to_numpy
from taufpl.problem import BaseRankingProblem
from taufpl.thresholding import top_threshold

Vector = NDArray[np.float64]

SOLVER_CONSTRAINTS: dict[str, list[Any]] = {
    "solver": [StrOptions({"newton", "accelerated"})],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left"), None],
    "callback": [callable, None],
}
TAU_CONSTRAINT = [Interval(Real, 0, 1, closed="neither")]
REG_CONSTRAINT = [Interval(Real, 0, None, closed="neither")]
SHARE_CONSTRAINT = [Interval(Real, 0, 1, closed="right")]
TAU_SCALE_CONSTRAINT = [Interval(Real, 0, None, closed="neither")]

# Rounding of a score, in units of eps |x| |w|, by any order of summation that is met in practice.
_ROUNDINGS = 64.0


class RankingScorer(AccuracyMixin, BaseEstimator):
    """A score with a threshold, learned as a ranking: what linear and kernel estimators share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {"pos_label": "no_validation"}

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row: positive where the score is strictly above the threshold.

        Parameters
        ----------
        X : rows of shape (n_samples, n_features)
            As `decision_function` takes them.

        Returns
        -------
        array of shape (n_samples,)
            Where X is; labels that are text are a NumPy array where X is a tensor.
        """
        return labels_of(self.decision_function(X), self.classes_)

    def _choice(self) -> SolverChoice:
        return SolverChoice(self.solver, self.tol, self.max_iter)

    def _keep_labels(self, y: Any) -> TwoClasses:
        """Rows by class; set `classes_`."""
        labels = split_labels(y, self.pos_label)
        self.classes_ = labels.classes
        return labels

    def _keep_result(self, ranking: Ranking) -> None:
        """Set what the solver said."""
        result = ranking.result
        self.primal_objective_ = result.primal
        self.dual_objective_ = result.dual
        self.dual_gap_ = (result.primal - result.dual) / result.primal
        self.n_iter_ = max(1, result.n_iter)
        self.n_passes_ = result.n_passes
        self.history_ = result.history
        self.converged_ = bool(self.dual_gap_ <= self.tol)
        self.collapsed_ = ranking.collapsed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class LinearScorer(RankingScorer):
    """A linear score with a threshold: subclasses write `fit` and end it with `_keep`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Minus the threshold.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    """

    def decision_function(self, X: Any) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Of any kind, whatever the model was fitted on.

        Returns
        -------
        ndarray, dask array or tensor of shape (n_samples,)
            Where X is, in double precision. A dask array is not computed, and has the chunks of X; rows with NaN, which
            are refused in memory, then have the score NaN and are not predicted positive.
        """
        check_is_fitted(self)
        return linear_scores(self, X, float(to_numpy(self.intercept_)[0]))

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        return validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True
        )

    def _read(self, X: Any, y: Any) -> tuple[Any, TwoClasses]:
        """Validate the data of a fit; set `classes_`. X comes back as an array or a CSR matrix."""
        try:
            X, y = self._checked(*in_memory(type(self).__name__, X, y))
        except ValueError as error:
            if "contains NaN" not in str(error):
                raise
            raise ValueError(
                f"{error}\nIf none was missing: a scaler before {type(self).__name__} makes NaN of values beyond "
                f"{LARGEST_VALUE:g}, whose squares overflow."
            ) from error
        check_squares(X)
        return X, self._keep_labels(y)

    def _read_table(self, X: Any, y: Any, groups: Any, order: Any, params: Any) -> ArrayTable:
        """The rows of a fit in memory."""
        X, labels = self._read(X, y)
        units = read_units(groups, order, X.shape[0])
        rows = (labels.positive_rows, labels.negative_rows)
        return ArrayTable(X, *rows, units, as_operator(X), getattr(self, "n_jobs", None))

    def _takes_remote(self, X: Any) -> bool:
        """Whether the estimator is fitted on remote rows where they are."""
        return True

    def _check_remote(self) -> None:
        """Refuse what there is for rows in memory only."""
        if getattr(self, "solver", "newton") != "newton":
            raise ValueError(
                f"solver must be 'newton' for remote rows, got {self.solver!r}: the paper's method takes hundreds of "
                "passes, and is there for rows in memory only."
            )
        if getattr(self, "positive_share", 1.0) != 1.0:
            raise ValueError(
                f"positive_share must be 1 for remote rows, got {self.positive_share!r}: giving up positives is there "
                "for rows in memory only. Raise tau_scale instead, or fit on a sample in memory."
            )

    def _positive_label(self) -> Any:
        return self.pos_label

    def _fit_table(self, table: Table) -> Self:
        """Fit, with `classes_` and `n_features_in_` set already."""
        raise TypeError(needs_memory(type(self).__name__))

    def _keep(self, ranking: Ranking, problem: BaseRankingProblem, threshold: float) -> Self:
        """Set what the fit of a ranker leaves behind."""
        self.coef_ = ranking.result.coef[np.newaxis].copy()
        self.intercept_ = np.array([-threshold])
        self._keep_ranking(ranking, problem)
        return self

    def _keep_ranking(self, ranking: Ranking, problem: BaseRankingProblem) -> None:
        """Set what the solver said, and warn where it did not go as hoped."""
        self._keep_result(ranking)
        if not self.converged_:
            warn_not_converged(type(self).__name__, ranking.result.n_iter, self.dual_gap_, self.tol)
        elif self.collapsed_:
            warn_collapsed(type(self).__name__, problem)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def train_threshold(table: Table, coef: Vector, tau: float) -> float:
    """Proposition 1's threshold on the negatives that the ranking was trained on, safe against rounding.

    The negative at the threshold must not be predicted positive because its score was summed in another order, so
    that the threshold is raised by a bound on that rounding. Costs one pass.
    """
    scores = table.scores(coef)
    threshold = top_threshold(scores.negative, tau)
    return threshold + score_rounding(table.norm_of(scores, threshold) * float(np.linalg.norm(coef)))


def score_rounding(scale: float, dtype: Any = np.float64) -> float:
    """How far scores whose terms are of this size may move when they are summed in another order or batch."""
    return _ROUNDINGS * float(np.finfo(dtype).eps) * scale


def warn_not_converged(name: str, n_iter: int, gap: float, tol: float) -> None:
    """Say how far the solver came."""
    warn_user(
        f"{name} stopped after {n_iter} iterations at a relative gap of {gap:.2g}, above tol={tol:g}: its objective is "
        "certified to that gap only. Raise max_iter or tol, increase reg, or scale the features.",
        ConvergenceWarning,
    )


def warn_collapsed(name: str, problem: BaseRankingProblem) -> None:
    """Say what has happened and what helps."""
    warn_user(
        f"{name} found nothing better than w = 0, for any reg: the mean of the {problem.n_positive} positives is an "
        f"average of negatives in which the worst {problem.k} of {problem.n_negative} decide, so that no direction "
        "separates them. Nothing is predicted positive. Raise tau_scale, to train on a larger share of the negatives "
        "than tau, or lower positive_share, to give up the positives that cannot be reached, or raise tau itself.",
        RankingCollapseWarning,
    )
