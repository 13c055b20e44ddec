"""What rankings share as estimators: the choice of a solver and what it finds, validation, decisions, predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import Interval, StrOptions
from taufpl._types import RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._predictions import PredictionMixin, linear_scores
from taufpl.estimators._reading import TwoClasses, in_memory, needs_memory, read_units, split_labels
from taufpl.estimators._table import Ranking, Table, score_rounding
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import LARGEST_VALUE, as_operator, check_squares, to_numpy
from taufpl.problem import BaseRankingProblem
from taufpl.solvers import Accelerated, Callback, Newton, Record, Result, Solver
from taufpl.thresholding import top_threshold

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

# The share of the possible gain under which a direction is not trusted.
_TRUSTED_SHARE = 0.5
# The next try aims at a gap of this share of the possible gain.
_AIM = 0.1
# Gains under this are hard to tell from rounding; they are looked for at a smaller reg, where they are of this size.
_TOO_FINE = 1e-9
_PLAIN = 1e-4

_DEFAULT_MAX_ITER = {"newton": 1_000, "accelerated": 100_000}


@dataclass(frozen=True, slots=True)
class SolverChoice:
    """A solver by name, with the settings that estimators share; None iterations are the solver's own number."""

    name: str = "newton"
    tol: float = 1e-4
    max_iter: int | None = None
    # Gains over w = 0 under this are none, in units that do not depend on reg or on the scale of the features. To be
    # sure of a collapse takes a gap as small as this.
    no_gain: float = 1e-8

    def make(self, tol: float | None = None) -> Solver:
        """Build the solver, for another tolerance if one is given."""
        kind = Newton if self.name == "newton" else Accelerated
        max_iter = _DEFAULT_MAX_ITER[self.name] if self.max_iter is None else self.max_iter
        return kind(tol=self.tol if tol is None else tol, max_iter=max_iter)

    def solve(
        self, problem: BaseRankingProblem, start: Result | None = None, callback: Callback | None = None
    ) -> Result:
        """Solve as `solve_ranking` does, for whoever wants a solver."""
        return solve_ranking(problem, self, start, callback).result


class RankingScorer(PredictionMixin, BaseEstimator):
    """A score with a threshold, learned as a ranking: what linear and kernel estimators share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {"pos_label": "no_validation"}

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

    def _read_table(
        self, X: Any, y: Any, groups: Any, order: Any, params: Any, segments: RowIndices | None = None
    ) -> ArrayTable:
        """The rows of a fit in memory."""
        X, labels = self._read(X, y)
        units = read_units(groups, order, X.shape[0], segments)
        rows = (labels.positive_rows, labels.negative_rows)
        return ArrayTable(X, *rows, units, as_operator(X), getattr(self, "n_jobs", None))

    def _takes_remote(self, X: Any) -> bool:
        """Whether the estimator is fitted on remote rows where they are."""
        return True

    def _check_remote(self, X: Any) -> None:
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


def solve_ranking(
    problem: BaseRankingProblem, choice: SolverChoice, start: Result | None = None, callback: Callback | None = None
) -> Ranking:
    """Solve to the tolerance, and further where the gain over w = 0 is still in doubt.

    P(0) = l(0) whatever the data, so that a relative gap of 1e-4 says little where P* is close to l(0): with a large
    reg, say, w = 0 itself may lie within the tolerance although every small step in the right direction ranks well.
    What counts then is the share of the possible gain: l(0) - P(w) beside l(0) - D, its upper bound. Either that share
    becomes large, or the bound becomes negligible, and w = 0 is the answer: the ranking has collapsed.

    It starts from the result of a neighbouring problem, with another k or reg; remote rows go on from where their last
    solve has ended. The callback gets the records of all runs as if they were one.
    """
    result = choice.make().solve(problem, start, callback)
    at_zero = problem.primal_at_zero
    while result.converged:
        possible = at_zero - result.dual
        if at_zero - result.primal > _TRUSTED_SHARE * possible:
            break
        units = _units(problem)
        if units * _TOO_FINE > 1.0:
            return _solve_with_less(problem, choice, 1.0 / (units * _PLAIN))
        if possible * units <= choice.no_gain:
            return Ranking(replace(result, coef=np.zeros(problem.n_features), primal=at_zero), collapsed=True)
        if possible < _TOO_FINE:
            return _solve_with_less(problem, choice, possible / _PLAIN)
        following = _shifted(callback, result.history)
        result = _joined(result, choice.make(_AIM * possible).solve(problem, result, following))
    return Ranking(result, collapsed=not result.coef.any())


def _units(problem: BaseRankingProblem) -> float:
    """1 + reg / (2 R^2), R^2 the mean squared distance of the positives from the mean negative.

    With dist the distance of the mean positive from what the negatives can average to, the gain is about
    dist^2 / (R^2 + reg/2); times this it is dist^2 / R^2, whatever reg is and wherever the origin lies.
    """
    squares = problem.positive_spread()
    return 1.0 + 0.5 * problem.reg / squares if squares > 0 else 1.0


def _solve_with_less(problem: BaseRankingProblem, choice: SolverChoice, factor: float) -> Ranking:
    """Solve at a reg smaller by a factor, so that the gain can be seen, and take the direction over.

    Where the penalty outweighs all else, the gain falls as 1/reg, and so does the length of w; its direction stays.
    """
    ranking = solve_ranking(problem.replace(reg=problem.reg * factor), choice)
    result = ranking.result
    if ranking.collapsed:
        return ranking
    coef = result.coef * factor
    certificate = problem.certify(coef, result.alpha, result.beta)
    kept = replace(result, coef=coef, primal=certificate.primal, dual=certificate.dual, gap=certificate.gap)
    return Ranking(kept, collapsed=False)


def _shifted(callback: Callback | None, history: tuple[Record, ...]) -> Callback | None:
    """Pass records on with the cost of an earlier run added."""
    if callback is None or not history:
        return callback
    last = history[-1]
    return lambda record: callback(_after(last, record))


def _after(last: Record, record: Record) -> Record:
    """A record of a run that began where another one ended."""
    return replace(
        record,
        n_passes=last.n_passes + record.n_passes,
        seconds=last.seconds + record.seconds,
        n_rounds=last.n_rounds + record.n_rounds,
    )


def _joined(first: Result, second: Result) -> Result:
    """The second result, which started from the first, with the cost of both."""
    last = first.history[-1]
    return replace(
        second,
        n_iter=first.n_iter + second.n_iter,
        n_passes=first.n_passes + second.n_passes,
        n_rounds=first.n_rounds + second.n_rounds,
        n_projections=first.n_projections + second.n_projections,
        history=first.history + tuple(_after(last, record) for record in second.history),
    )
