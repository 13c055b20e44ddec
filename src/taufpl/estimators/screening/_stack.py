"""Scorers of several families, joined by a logistic stack on the scores of rows that they have not seen."""

from __future__ import annotations

from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from taufpl._row_hashes import copies_among
from taufpl._sklearn import Interval, StrOptions, fit_context, safe_indexing
from taufpl._types import Array, Mask, Matrix, RowIndices, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._predictions import PredictionMixin, indexed
from taufpl.estimators._progress import one_by_one, printing, tell
from taufpl.estimators._reading import Units, in_memory, read_units, split_labels
from taufpl.estimators.screening._candidates import EFFORTS, Candidate, Task, find_candidates
from taufpl.estimators.screening._leaderboard import STACK, Standing, standing
from taufpl.estimators.screening._member import FoldFit, StackMember, fit_fold
from taufpl.preprocessing import TableEncoder


class StackedScorer(PredictionMixin, BaseEstimator):
    """Scorers of several families on the columns of a table, joined by a logistic stack.

    Every candidate j is fitted once without each of K folds, and s_jf is its score, standardised, without fold f. The
    weights w are those of a logistic regression on the scores of rows that a model has not seen, and the score is the
    mean over the folds::

        s(x) = b + 1/K sum_f sum_j w_j s_jf(x)

    No model is fitted on all rows: the mean of K models of (K - 1)/K of the rows costs less than K folds and a refit,
    and ranks as well.

    Parameters
    ----------
    tau : float, default=0.01
        The false-positive rate at which the recall of candidates is told.
    effort, candidates, n_jobs, random_state, verbose, pos_label
        As in :class:`taufpl.ScreeningClassifier`.

    Attributes
    ----------
    encoder_ : TableEncoder
        Columns to features.
    members_ : list of StackMember
        Candidates with a positive weight.
    intercept_ : float
    standings_ : list of Standing
        Every candidate, and the stack: recall, weight and seconds.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "tau": [Interval(Real, 0, 1, closed="neither")],
        "effort": [StrOptions(set(EFFORTS))],
        "candidates": [StrOptions({"auto"}), list, tuple],
        "pos_label": "no_validation",
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        tau: float = 0.01,
        *,
        effort: str = "normal",
        candidates: Any = "auto",
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tau = tau
        self.effort = effort
        self.candidates = candidates
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Candidates have parameters that must be checked too.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the encoder, every candidate without each fold, and the stack.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Two different labels.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are in the same fold.

        Returns
        -------
        self
        """
        X, y = indexed(self, *in_memory(type(self).__name__, X, y))
        labels = split_labels(y, self.pos_label)
        self.classes_ = labels.classes
        self.encoder_ = TableEncoder()
        Z = self.encoder_.fit_transform(X)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.encoder_, name):
                setattr(self, name, getattr(self.encoder_, name))
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        is_positive = np.isin(np.arange(len(y)), labels.positive_rows)
        table = _with_copies_as_units(Z, is_positive, read_units(groups, None, len(y)).groups)
        task = Task(EFFORTS[self.effort], self.tau, Z.shape[1], not self.encoder_.columns_)
        candidates = find_candidates(self.candidates, task)
        parts = self._divisions(table)
        fits = self._fit_folds(candidates, parts, Z, is_positive)
        self._stack(candidates, fits, parts, table)
        return self

    def _fit_table(self, table: Any) -> Self:
        """Fit on remote rows, with `classes_` and the names of columns set already."""
        from taufpl.estimators.screening._cluster import fit_on_cluster

        fit_on_cluster(self, table)
        return self

    def _divisions(self, table: ArrayTable) -> list[tuple[RowIndices, RowIndices]]:
        """Rows of a table that each model is fitted on, and those of its fold; the first division comes first."""
        n_repeats = EFFORTS[self.effort].n_repeats
        return [pair for repeat in range(n_repeats) for pair in self._division(table, repeat)]

    def _division(self, table: ArrayTable, repeat: int) -> list[tuple[RowIndices, RowIndices]]:
        try:
            parts = table.split(EFFORTS[self.effort].n_folds, self.seed_ + repeat)
        except ValueError:  # very few rows, or units, of a class: nothing is left out
            return [(table.rows, table.rows)]
        return [(train.rows, held_out.rows) for train, held_out in parts.pairs]

    def encoded_table(self, table: ArrayTable) -> ArrayTable:
        """The rows of the table that was fitted on, encoded, with the units that no fold tears apart."""
        Z = self.encoder_.transform(safe_indexing(table.X, table.rows))
        groups = table.units.groups
        return _with_copies_as_units(Z, table.is_positive, None if groups is None else groups[table.rows])

    def first_division(self, encoded: ArrayTable) -> list[RowIndices]:
        """The rows of each fold of one division of the encoded table; a single fold of all rows was not left out."""
        return [held_out for _, held_out in self._division(encoded, 0)]

    def _fit_folds(
        self, candidates: list[Candidate], parts: list[tuple[RowIndices, RowIndices]], Z: Any, is_positive: Any
    ) -> list[list[FoldFit]]:
        """Every candidate without every fold, `n_jobs` at the same time."""
        jobs = [(candidate, fold, *rows) for candidate in candidates for fold, rows in enumerate(parts)]
        done: list[FoldFit] = []
        with printing(self.verbose):
            fits = Parallel(n_jobs=self.n_jobs, **one_by_one())(
                delayed(fit_fold)(candidate.name, candidate.make(self.seed_ + fold), Z, is_positive, train, held_out)
                for candidate, fold, train, held_out in jobs
            )
            for (candidate, fold, *_), fitted in zip(jobs, fits, strict=True):
                done.append(fitted)
                tell(len(done), len(jobs), f"{candidate.name}, fold {fold + 1} of {len(parts)}")
        return [done[start : start + len(parts)] for start in range(0, len(jobs), len(parts))]

    def _stack(
        self,
        candidates: list[Candidate],
        fits: list[list[FoldFit]],
        parts: list[tuple[RowIndices, RowIndices]],
        table: ArrayTable,
    ) -> None:
        """Join the candidates; those whose weight is not positive are left out."""
        is_positive = table.is_positive
        scores = np.zeros((is_positive.size, len(candidates)))
        n_repeats = EFFORTS[self.effort].n_repeats
        for column, own in enumerate(fits):
            for (_, held_out), fitted in zip(parts, own, strict=True):
                scores[held_out, column] += fitted.scores / n_repeats
        weights, self.intercept_ = _stack_weights(scores, is_positive)
        self.members_ = [
            StackMember.of(candidate.name, own, weight)
            for candidate, own, weight in zip(candidates, fits, weights.tolist(), strict=True)
            if weight > 0
        ]
        if parts[0][0].size == is_positive.size:
            # Nothing was left out, and scores of rows that models have seen would flatter.
            scores = np.full_like(scores, np.nan)
        seconds = [sum(fitted.seconds for fitted in own) for own in fits]
        names = [candidate.name for candidate in candidates]
        columns = [
            *zip(names, scores.T, weights.tolist(), seconds, strict=True),
            (STACK, scores @ weights, 1.0, sum(seconds)),
        ]
        # One row of each unit counts: others say the same again.
        drawn = [table.units.one_each(rows, self.seed_) for rows in (table.positive_rows, table.negative_rows)]
        self.standings_: list[Standing] = [
            standing(name, own[drawn[0]], own[drawn[1]], self.tau, weight, spent)
            for name, own, weight, spent in columns
        ]

    def of_fold(self, fold: int) -> StackedScorer:
        """The part of the stack that has not seen the rows of a fold."""
        part = copy(self)
        part.members_ = [member.of_fold(fold) for member in self.members_]
        return part

    def encoded_scores(self, Z: Any) -> Vector:
        """Scores of rows that the encoder has been through."""
        return self.intercept_ + sum(member.weight * member.scores(Z).mean(axis=1) for member in self.members_)

    def decision_function(self, X: Any) -> Vector:
        """Score of each row, about the log-odds of the positive class.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.encoded_scores(self.encoder_.transform(in_memory(type(self).__name__, X)[0]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        accepted = tags.input_tags
        accepted.sparse = accepted.allow_nan = accepted.categorical = accepted.string = True
        tags.classifier_tags.multi_class = False
        return tags


def _with_copies_as_units(Z: Any, is_positive: Mask, groups: Array | None) -> ArrayTable:
    """Encoded rows as a table; without groups, copies of a row are a unit, or folds would know their rows by heart."""
    if groups is None and (codes := copies_among(Z)) is not None:
        groups = np.where(codes < 0, np.arange(codes.size) + codes.max() + 1, codes)
    return ArrayTable(Z, np.flatnonzero(is_positive), np.flatnonzero(~is_positive), Units(groups))


def _stack_weights(scores: Matrix, is_positive: Array) -> tuple[Vector, float]:
    """Weights that are at least 0, and an intercept: what would count against the positives is left out."""
    weights, kept = np.zeros(scores.shape[1]), np.ones(scores.shape[1], dtype=bool)
    while True:
        fitted = LogisticRegression(max_iter=1000).fit(scores[:, kept], is_positive)
        weights[:] = 0.0
        weights[kept] = fitted.coef_[0]
        if weights.min() >= 0.0 or weights.max() <= 0.0:
            break
        kept &= weights > 0.0
    if weights.max() <= 0.0:
        # Nothing ranks better than chance: the candidates count alike.
        return np.full(weights.size, 1.0 / weights.size), 0.0
    return weights, float(fitted.intercept_[0])
