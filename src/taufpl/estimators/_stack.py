"""The stack: candidates, what each is worth, and the sum of their log-odds, weighted by held-out folds."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_outlier_detector
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from taufpl._extras import require
from taufpl._row_hashes import copies_among
from taufpl._sklearn import Interval, StrOptions, fit_context, safe_indexing
from taufpl._types import Array, Mask, Matrix, RowIndices, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._classifier import TauFPLClassifier
from taufpl.estimators._predictions import PredictionMixin, indexed, log_odds
from taufpl.estimators._progress import one_by_one, printing, tell, watching
from taufpl.estimators._reading import Units, in_memory, read_units, split_labels
from taufpl.operators import one_blas_thread
from taufpl.preprocessing import TableEncoder
from taufpl.thresholding import USUAL_DELTA, share_interval, top_threshold

STACK = "stack"


@dataclass(frozen=True)
class Standing:
    """A candidate, its recall at the tolerance with a confidence interval, its weight in the stack, and its cost."""

    candidate: str
    recall: float = nan  # not known
    recall_low: float = nan
    recall_high: float = nan
    weight: float = 1.0
    seconds: float = 0.0

    @property
    def is_stack(self) -> bool:
        """Whether it is the stack of all others."""
        return self.candidate == STACK


def standing(name: str, positive: Vector, negative: Vector, tau: float, weight: float, seconds: float) -> Standing:
    """The standing of a candidate by scores of rows that it has not seen.

    The recall is that of the exact quantile: at most a share tau of the negatives lies above it. It is unknown
    where the scores are.
    """
    if np.isnan(positive).any():
        return Standing(name, weight=weight, seconds=seconds)
    n_caught, n_positive = int(np.sum(positive > top_threshold(negative, tau))), positive.size
    low, high = share_interval(n_caught, n_positive, USUAL_DELTA)
    return Standing(name, n_caught / n_positive, low, high, weight, seconds)


def ranked(standings: list[Standing]) -> list[Standing]:
    """The stack, then all others, best first."""
    return sorted(standings, key=lambda each: (not each.is_stack, -each.recall))


def leaderboard_frame(standings: list[Standing]) -> Any:
    """The ranked standings as a frame of pandas, or, without pandas, as a structured array."""
    records = [asdict(each) for each in ranked(standings)]
    try:
        pandas = import_module("pandas")
    except ImportError:
        kinds = [("candidate", "U40"), *((name, np.float64) for name in records[0] if name != "candidate")]
        return np.array([tuple(each.values()) for each in records], dtype=kinds)
    return pandas.DataFrame(records)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into a stack.

    Trees are those of a forest over all folds and repeats; rounds and learning rate are those of each boosting. "auto"
    takes at most `n_boosters` of LightGBM and its like where they are installed, and a boosting with larger trees
    beside them where `deep` says so, in tables of at most 100 features.
    """

    n_folds: int
    n_repeats: int  # divisions into folds
    n_trees: int
    n_rounds: int
    learning_rate: float
    n_boosters: int
    deep: bool

    @property
    def n_models(self) -> int:
        """Models of a candidate."""
        return self.n_folds * self.n_repeats


# Wider tables do without the boosting with larger trees, whose cost grows with the features.
_DEEP_FEATURES = 100

EFFORTS = {
    "fast": Effort(3, 1, n_trees=150, n_rounds=125, learning_rate=0.08, n_boosters=1, deep=False),
    "normal": Effort(5, 1, n_trees=300, n_rounds=250, learning_rate=0.04, n_boosters=1, deep=True),
    "best": Effort(5, 2, n_trees=600, n_rounds=250, learning_rate=0.04, n_boosters=2, deep=True),
}


@dataclass(frozen=True, slots=True)
class Task:
    """What scorers are made for."""

    effort: Effort
    tau: float
    n_features: int
    is_sparse: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scorer by its name, and how to make one with a seed."""

    name: str
    make: Callable[[int], Any]


def _boosting(task: Task, seed: int) -> Any:
    return HistGradientBoostingClassifier(
        learning_rate=task.effort.learning_rate,
        max_iter=task.effort.n_rounds,
        max_leaf_nodes=15,
        max_features=0.6,
        early_stopping=False,
        random_state=seed,
    )


def _deep_boosting(task: Task, seed: int) -> Any:
    """Larger trees on fewer features: other mistakes than those of many small trees."""
    return _boosting(task, seed).set_params(
        learning_rate=2 * task.effort.learning_rate, max_leaf_nodes=31, max_features=0.3, min_samples_leaf=10
    )


def _forest(kind: Any, task: Task, seed: int) -> Any:
    return kind(task.effort.n_trees // task.effort.n_models, random_state=seed)


def _linear(task: Task, seed: int) -> Any:
    return TauFPLClassifier(task.tau, threshold="train", random_state=seed)


def _lightgbm(task: Task, seed: int) -> Any:
    return require("lightgbm", "boost", "for the candidate 'lightgbm'").LGBMClassifier(
        learning_rate=task.effort.learning_rate,
        n_estimators=task.effort.n_rounds,
        num_leaves=15,
        colsample_bytree=0.6,
        subsample=0.8,
        subsample_freq=1,
        n_jobs=1,
        random_state=seed,
        verbose=-1,
    )


def _xgboost(task: Task, seed: int) -> Any:
    return require("xgboost", "boost", "for the candidate 'xgboost'").XGBClassifier(
        learning_rate=1.5 * task.effort.learning_rate,
        n_estimators=task.effort.n_rounds,
        max_depth=5,
        colsample_bylevel=0.6,
        subsample=0.8,
        n_jobs=1,
        random_state=seed,
    )


def _catboost(task: Task, seed: int) -> Any:
    return require("catboost", "boost", "for the candidate 'catboost'").CatBoostClassifier(
        learning_rate=2 * task.effort.learning_rate,
        iterations=task.effort.n_rounds,
        depth=5,
        thread_count=1,
        random_seed=seed,
        allow_writing_files=False,
        verbose=False,
    )


_KNOWN: dict[str, Callable[[Task, int], Any]] = {
    "boosting": _boosting,
    "deep boosting": _deep_boosting,
    "forest": partial(_forest, RandomForestClassifier),
    "extra trees": partial(_forest, ExtraTreesClassifier),
    "linear": _linear,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
}
# In the order in which they are taken: XGBoost added nothing to a stack that has the other two.
_BOOSTERS = ("lightgbm", "catboost", "xgboost")


def find_candidates(wanted: Any, task: Task) -> list[Candidate]:
    """The scorers that `candidates=` stands for; on sparse rows "auto" is the linear ranking alone."""
    if isinstance(wanted, str) and wanted == "auto":
        wanted = ["linear"] if task.is_sparse else [*_boosters(task), "forest", "extra trees"]
    if not wanted:
        raise ValueError("candidates must be 'auto' or a list of names and estimators; got an empty one.")
    found = [_candidate(each, task) for each in wanted]
    names = [each.name for each in found]
    return [
        Candidate(f"{each.name} {names[:place].count(each.name) + 1}", each.make)
        if each.name in names[:place]
        else each
        for place, each in enumerate(found)
    ]


def _boosters(task: Task) -> list[str]:
    installed = [name for name in _BOOSTERS if find_spec(name) is not None]
    deep = ["deep boosting"] if task.effort.deep and task.n_features <= _DEEP_FEATURES else []
    return [*(installed[: task.effort.n_boosters] or ["boosting"]), *deep]


def _candidate(given: Any, task: Task) -> Candidate:
    if isinstance(given, str):
        if given not in _KNOWN:
            raise ValueError(f"candidates must be names among {', '.join(_KNOWN)}, or estimators; got {given!r}.")
        return Candidate(given, partial(_KNOWN[given], task))
    if isinstance(given, tuple) and given and given[0] == STACK:
        raise ValueError(f"a candidate cannot be called {STACK!r}, which is all of them together.")
    name, estimator = given if isinstance(given, tuple) and len(given) == 2 else (type(given).__name__, given)
    _check_classifier(estimator)
    return Candidate(str(name), partial(_clone_with_seed, estimator))


def _check_classifier(estimator: Any) -> None:
    """Refuse what cannot be fitted without each fold, or gives no scores."""
    scores = any(hasattr(estimator, name) for name in ("decision_function", "predict_proba"))
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not scores or is_outlier_detector(estimator):
        raise TypeError(
            "candidates must be names or classifiers with decision_function or predict_proba, such as "
            f"LogisticRegression(), or pairs of a name and a classifier; got {estimator!r}."
        )
    if any(isinstance(each, FrozenEstimator) for each in (estimator, *estimator.get_params().values())):
        raise ValueError(
            "candidates are fitted without each fold, and a frozen part may have seen the rows that choose the "
            "threshold. Give it to NeymanPearsonClassifier, with rows that it has not seen."
        )


def _clone_with_seed(estimator: Any, seed: int) -> Any:
    """A clone; seeds that the user has set stay."""
    model = clone(estimator)
    params = model.get_params().items()
    unset = {name: seed for name, value in params if name.split("__")[-1] == "random_state" and value is None}
    return model.set_params(**unset)


@dataclass(frozen=True, slots=True)
class FoldFit:
    """A candidate fitted without a fold, and the standardised scores that it gives to the rows of the fold."""

    model: Any
    center: float
    scale: float
    scores: Vector
    seconds: float


@dataclass
class StackMember:
    """A scorer of the stack: models of its folds, and how much their mean score counts.

    The score of a model is standardised by `center` and `scale`, the mean and the standard deviation that it gives to
    the negatives of the fold that it has not seen: rankings have no scale of their own, and models of other rows have
    another one.
    """

    name: str
    models: list[Any]
    centers: list[float]
    scales: list[float]
    weight: float

    @classmethod
    def of(cls, name: str, fits: list[FoldFit], weight: float) -> StackMember:
        """The member of these fits."""
        return cls(
            name,
            [fitted.model for fitted in fits],
            [fitted.center for fitted in fits],
            [fitted.scale for fitted in fits],
            weight,
        )

    def scores(self, Z: Any) -> Matrix:
        """Standardised scores of encoded rows by the model of each fold, of shape (n_rows, n_folds)."""
        parts = zip(self.models, self.centers, self.scales, strict=True)
        return np.column_stack([(log_odds(model, Z) - center) / scale for model, center, scale in parts])

    def of_fold(self, fold: int) -> StackMember:
        """The member with the model of one fold alone."""
        own = slice(fold, fold + 1)
        return replace(self, models=self.models[own], centers=self.centers[own], scales=self.scales[own])


def fit_fold(name: str, model: Any, Z: Any, is_positive: Mask, train: RowIndices, held_out: RowIndices) -> FoldFit:
    """Fit a candidate on some encoded rows, and score those of its fold."""
    began = time.perf_counter()
    # Many small fits: threads of OpenMP would wait for each other. `n_jobs` is how the cores are used. OpenMP has a
    # limit for each thread; that of BLAS belongs to the process, and is shared.
    # The stack tells of its folds; what a candidate does inside is too fine.
    with one_blas_thread, threadpool_limits(1, user_api="openmp"), watching(None):
        try:
            model.fit(Z[train], is_positive[train].astype(np.intp))
            scores = log_odds(model, Z[held_out])
        except Exception as error:
            error.add_note(f"The candidate was {name!r}.")
            raise
    if scores.shape != held_out.shape or not np.isfinite(scores).all():
        raise ValueError(f"candidate {name!r} must give every row one finite score; it gave NaN, infinity, or several.")
    negative = scores[~is_positive[held_out]]
    center, scale = float(negative.mean()), float(negative.std())
    # Scores that are all the same say nothing, and stay as they are.
    scale = scale if scale > 0 else 1.0
    return FoldFit(model, center, scale, (scores - center) / scale, time.perf_counter() - began)


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
        from taufpl.estimators.remote._learners import fit_on_cluster

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
