"""The automatic choice of a ranking: candidates are judged on folds, and the best of them averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from taufpl.estimators._fitters import LinearModel
from taufpl.estimators._labels import TwoClasses, split_rows
from taufpl.estimators._search import Fold, make_folds
from taufpl.estimators.rankings import (
    Name,
    NegativeMoments,
    as_good_as_best,
    average,
    find_candidates,
    held_out_share,
)
from taufpl.operators import Operator, as_operator
from taufpl.problem import RankingProblem

Vector = NDArray[np.float64]
Rows = NDArray[np.intp]


# Values of X, stored ones if it is sparse, from which on no candidate may take a multiple of X in memory.
LARGE = 20_000_000
# Up to so many rows a second division into folds is taken: which rows happen to share a fold moves the order of the
# candidates most where rows are few, and there it costs little.
FEW_ROWS = 4_000


class AutoFitter:
    """Fits the candidates that held-out folds could not tell from the best, and averages them.

    Parameters
    ----------
    X : ndarray or sparse matrix
        For scikit-learn's estimators, which know no operators.
    operator : Operator
        On X.
    labels : TwoClasses
    tau : float
    cv : int
        Folds of the comparison.
    n_jobs : int or None
    """

    learns_from_neighbours = False
    learns_from_positives = True

    def __init__(self, X: Any, operator: Operator, labels: TwoClasses, tau: float, cv: int, n_jobs: int | None) -> None:
        self.X = X
        self.operator = operator
        self.positive_rows, self.negative_rows, self.units = labels.positive_rows, labels.negative_rows, labels.units
        self.tau = tau
        self.cv = cv
        self.n_jobs = n_jobs
        # By all of X, not by the rows of a fold: every fold must have the same candidates.
        self.frugal = X.size > LARGE
        self.kept: list[Name] = []
        self.selection: dict[str, Any] = {}

    def prepare(self, rows: Rows) -> None:
        """Judge all candidates on folds of these rows, which are divided twice where they are few."""
        positive, negative = split_rows(rows, self.positive_rows)
        folds = make_folds(self.cv, positive, negative, self.units)
        if rows.size <= FEW_ROWS:
            folds += make_folds(self.cv, positive, negative, self.units, seed=0)
        judged = Parallel(n_jobs=self.n_jobs)(delayed(_judge)(self.X, fold, self.tau, self.frugal) for fold in folds)
        names = list(judged[0])
        shares = np.array([[fold[name] for fold in judged] for name in names])
        mean = shares.mean(axis=1)
        kept = as_good_as_best(mean, positive.size)
        self.kept = [names[index] for index in kept]
        simplest = max(mean[index] for index, name in enumerate(names) if name[0] == "logistic")
        self.selection = {
            "candidate": [f"{name[0]}({', '.join(f'{x:g}' for x in name[1:])})" for name in names],
            "mean_share": mean,
            "std_share": shares.std(axis=1, ddof=1) if len(folds) > 1 else np.zeros(len(names)),
            "over_logistic": mean - simplest,
            "kept": np.isin(np.arange(len(names)), kept),
        }

    def fit(self, rows: Rows, near: Any = None) -> LinearModel:
        """Fit what was kept on these rows."""
        found, moments = _find(self.X, *split_rows(rows, self.positive_rows), self.tau, self.kept)
        return LinearModel(average(list(found.values()), moments))

    def scores(self, model: LinearModel, rows: Rows) -> Vector:
        """Products of w with each of the rows."""
        return self.operator.matvec_rows(model.coef, rows)

    def is_linear(self, model: LinearModel) -> bool:
        """Always."""
        return True

    def has_scale(self, model: LinearModel) -> bool:
        """Never: a ranking has no intercept."""
        return False


def _judge(X: Any, fold: Fold, tau: float, frugal: bool) -> dict[Name, float]:
    """Held-out share of every candidate on one fold."""
    found, _ = _find(X, fold.positive, fold.negative, tau, frugal=frugal)
    held_out = as_operator(X[np.concatenate((fold.held_out_positive, fold.held_out_negative))])
    cut = fold.held_out_positive.size
    shares = {}
    for name, coef in found.items():
        scores = held_out.matvec(coef)
        shares[name] = held_out_share(scores[:cut], scores[cut:], tau)
    return shares


def _find(
    X: Any, positive: Rows, negative: Rows, tau: float, wanted: list[Name] | None = None, *, frugal: bool = False
) -> tuple[dict[Name, Vector], NegativeMoments]:
    """Candidates on some rows of X, copied, positives first."""
    part = X[np.concatenate((positive, negative))]
    cut = positive.size
    # Candidates choose k and reg themselves.
    problem = RankingProblem(as_operator(part), np.arange(cut), np.arange(cut, cut + negative.size), 1, 1.0)
    moments = NegativeMoments.of(problem)
    return find_candidates(part, problem, moments, tau, wanted, frugal=frugal), moments
