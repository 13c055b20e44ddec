"""ScreeningClassifier: scorers of several families, joined by a stack, under a tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from math import isnan
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl._sklearn import Interval, fit_context
from taufpl._types import Mask, Matrix, RowIndices, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._neyman_pearson import CloneFitter, ScorerClassifier
from taufpl.estimators._predictions import indexed
from taufpl.estimators._reading import in_memory, make_table, read_units, split_labels
from taufpl.estimators._stack import StackedScorer, Standing, leaderboard_frame, ranked
from taufpl.estimators._thresholded import SEGMENT_CONSTRAINT, THRESHOLD_CONSTRAINTS, forget
from taufpl.estimators.strategies import Strategy, takes_earlier_parameters
from taufpl.operators import is_foreign_array
from taufpl.thresholding import Evidence, SegmentThresholds, shown_names, top_threshold

# Rows that are scored for all columns together, the fewest positives of a fold that are scored for each, and how many
# values are held at a time.
_MOST_ROWS = 10_000
_FEWEST = 10
_MOST_VALUES = 10_000_000


def permutation_importances(scorer: StackedScorer, table: ArrayTable, level: float) -> Vector | None:
    """Recall lost for each column of X whose values are drawn from random rows instead.

    Rows of a fold are scored by the part of the stack that has not seen them, and the threshold leaves a share `level`
    of the negatives of the fold above it. None for wide sparse rows, and where nothing can be left out.
    """
    if not scorer.encoder_.columns_:
        return None
    encoded = scorer.encoded_table(table)
    division, columns = scorer.first_division(encoded), np.unique(scorer.encoder_.sources_)
    if len(division) < 2:
        return None
    Z, is_positive, rng = encoded.X, encoded.is_positive, np.random.default_rng(scorer.seed_)
    most = max(_FEWEST, _MOST_ROWS // (len(division) * columns.size))
    lost, n_scored = np.zeros(scorer.encoder_.n_features_in_), 0
    for fold, held_out in enumerate(division):
        part, own = scorer.of_fold(fold), Z[held_out]
        scores, is_own_positive = part.encoded_scores(own), is_positive[held_out]
        threshold = top_threshold(scores[~is_own_positive], level)
        drawn = rng.permutation(np.flatnonzero(is_own_positive))[:most]
        n_scored += drawn.size
        # Columns are scored together: a call of a forest costs as much as hundreds of rows.
        for some in np.array_split(columns, math.ceil(drawn.size * columns.size * Z.shape[1] / _MOST_VALUES)):
            changed = [_with_others(own, drawn, scorer.encoder_.sources_ == column, rng) for column in some]
            caught = part.encoded_scores(np.concatenate(changed)).reshape(some.size, -1) > threshold
            lost[some] += np.sum(scores[drawn] > threshold) - caught.sum(axis=1)
    return lost / max(1, n_scored)


def _with_others(Z: Matrix, rows: RowIndices, features: Mask, rng: np.random.Generator) -> Matrix:
    """Some rows, whose values of some features are those of random rows."""
    changed = Z[rows]
    changed[:, features] = Z[rng.integers(0, len(Z), rows.size)][:, features]
    return changed


class StackFitter(CloneFitter):
    """Fits stacks, which remember the rows that they were fitted on."""

    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a stack."""
        model = super().fit(table, near)
        if table.in_memory:
            model.training_rows_ = table.rows
        return model

    def unseen_parts(self, model: StackedScorer, train: Any) -> list[tuple[Any, Any]] | None:
        """The part of the stack without a fold, with the positives of the fold, one of each group or set of copies.

        A stack of remote rows has no folds.
        """
        if not train.in_memory:
            return None
        encoded = model.encoded_table(train)
        division = model.first_division(encoded)
        if len(division) < 2:
            return None
        drawn = encoded.units.one_each(encoded.positive_rows, model.seed_)
        own = [np.intersect1d(fold, drawn, assume_unique=True) for fold in division]
        return [(model.of_fold(fold), train.part(train.rows[places])) for fold, places in enumerate(own) if places.size]


def summary_of(screen: Any) -> str:
    """The promise and the recall for each tolerance, then the leaderboard, as lines of text."""
    if screen.segments_ is not None:
        lines = _segment_lines(screen.segments_, screen.strategy_)
    else:
        evidence = screen.evidence_ if isinstance(screen.evidence_, tuple) else (screen.evidence_,)
        lines = [line for each in evidence for line in (_promise(each, screen.strategy_), _recall(each))]
    standings = ranked(screen.estimator_.standings_)
    width = max(len(each.candidate) for each in standings)
    lines.append(f"{'candidate':{width}}  {f'recall at {100 * min(screen._taus()):.4g} % FPR':20}  weight  seconds")
    return "\n".join(f"  {line}" for line in [*lines, *(_row(each, width) for each in standings)])


def _segment_lines(segments: SegmentThresholds, strategy: str) -> list[str]:
    """The promise and the recall of every limit, and which segments have none."""
    lines = [
        f"{name}: {_promise(each, strategy)}; {_recall(each)}"
        for name, each in zip(segments.limits, segments.evidence, strict=True)
    ]
    if segments.unproven:
        lines.append(f"not proven, with the strictest threshold: {shown_names(segments.unproven)}")
    return lines


def _promise(evidence: Evidence, strategy: str) -> str:
    if evidence.guaranteed and evidence.delta is not None:
        told = f"guaranteed with {100 * (1 - evidence.delta):.4g} % confidence by {evidence.n_negative:,} negatives"
    else:
        told = f"aimed at by {strategy!r}, not proven"
    return f"false alarms at most {100 * evidence.tau:.4g} %: {told}"


def _recall(evidence: Evidence) -> str:
    interval = evidence.tpr_interval
    if interval is None or evidence.tpr_estimate is None:
        return "recall not measured"
    low, high = (100 * each for each in interval)
    return f"recall {100 * evidence.tpr_estimate:.0f} % ({low:.0f} to {high:.0f} %)"


def _row(standing: Standing, width: int) -> str:
    share, low, high = (100 * each for each in (standing.recall, standing.recall_low, standing.recall_high))
    weight = "" if standing.is_stack else f"{standing.weight:.2f}"
    recall = "not measured".ljust(20) if isnan(share) else f"{share:3.0f} % ({low:3.0f} to {high:3.0f} %)"
    return f"{standing.candidate:{width}}  {recall:20}  {weight:>6}  {standing.seconds:7.1f}"


class ScreeningClassifier(ScorerClassifier):
    """Finds as many positives as a tolerated false-positive rate allows, in tables as they come.

    Columns are encoded, scorers of several families (boosting, by LightGBM where it is installed; forests; extra trees;
    a linear ranking alone for text and other wide sparse rows) are joined by a stack, and the threshold keeps the
    tolerance on new rows. All of it is inside the guarantee: the negatives that choose the
    threshold have been seen by no part of the scorer.

    Parameters
    ----------
    tau : float, sequence of float, or mapping, default=0.01
        Tolerated false-positive rate, between 0 and 1. With several, there is a threshold for each, as in
        :class:`NeymanPearsonClassifier`. A mapping has a tolerance for each of the `segments`, as in
        :class:`TauFPLClassifier`.
    delta : float, default=0.05
        Probability with which tau may be exceeded.
    threshold : {"auto", "np", "cross", "oob", "train"} or strategy, default="auto"
        As in :class:`TauFPLClassifier`: "np", held-out negatives with a guarantee, where there are enough of them, else
        "cross", for which the whole stack is fitted anew without each of `cv` folds.
    effort : {"fast", "normal", "best"}, default="normal"
        How much time to take: "fast" takes seconds for thousands of rows; "normal" some five times as long, with more
        folds and a second boosting; "best" three times as long again, with CatBoost where it is installed and folds
        drawn twice.
    candidates : "auto" or list, default="auto"
        The scorers: names ("boosting", "deep boosting", "forest", "extra trees", "linear", "lightgbm", "xgboost",
        "catboost"), estimators, or pairs of a name and an estimator, which get the encoded columns and the labels 0
        and 1.
    cv : int, default=5
        Folds of "cross".
    insufficient, looks
        As in :class:`TauFPLClassifier`.
    segments : str, int, callable or None, default=None
        Limits by segment, as in :class:`TauFPLClassifier`. A column of segments is a feature too; where it should not
        be, leave it out of X and give the labels.
    pos_label : label, default=None
        Label of positives; None is the second in sorted order, with a warning for labels other than 0 and 1, -1 and 1,
        or False and True.
    n_jobs : int or None, default=None
        Fits of candidates at the same time, in processes; None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        1 prints the steps of the fit on stderr.

    Attributes
    ----------
    leaderboard_ : DataFrame
        The stack, then every candidate: recall at tau on training rows that it has not seen (`recall`, with an interval
        `recall_low` to `recall_high`), weight in the stack, seconds. Without pandas a structured array.
    threshold_ : float
        On the score of the stack; with several tolerances that of the strictest.
    evidence_ : Evidence, or tuple of Evidence with several tolerances
        What the threshold rests on; its `tpr_estimate` and `tpr_interval` are the recall at the threshold.
    feature_importances_ : ndarray of shape (n_features,)
        Recall that is lost at the threshold where a column's values are those of random rows; on rows that the models
        have not seen. Not there for sparse matrices with more than 2,000 columns, remote rows, and a single positive.
    estimator_ : StackedScorer
        The fitted scorer; after "oob" the first of ten, say, whose leaderboard and importances are told.
    segments_, thresholds_, strategy_, fpr_estimate_, fpr_upper_bound_, threshold_history_, sequences_, classes_, \
n_features_in_, feature_names_in_
        As in :class:`NeymanPearsonClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import ScreeningClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 4))
    >>> y = (np.sum(X[:, :2] ** 2, axis=1) > 5).astype(int)
    >>> screen = ScreeningClassifier(tau=0.05, effort="fast", random_state=0).fit(X, y)
    >>> screen.evidence_.guaranteed, bool(screen.evidence_.tpr_estimate > 0.8)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{
            name: THRESHOLD_CONSTRAINTS[name]
            for name in ("threshold", "insufficient", "looks", "random_state", "n_jobs", "verbose")
        },
        **{name: StackedScorer._parameter_constraints[name] for name in ("effort", "candidates")},
        "tau": [Interval(Real, 0, 1, closed="neither"), "array-like", Mapping],
        "segments": SEGMENT_CONSTRAINT,
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "pos_label": "no_validation",
    }

    @takes_earlier_parameters("holdout")
    def __init__(
        self,
        tau: float | ArrayLike | Mapping[Any, float] = 0.01,
        *,
        delta: float = 0.05,
        threshold: str | Strategy = "auto",
        effort: str = "normal",
        candidates: Any = "auto",
        cv: int = 5,
        insufficient: str = "raise",
        looks: int | str = 1,
        segments: Any = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tau = tau
        self.delta = delta
        self.threshold = threshold
        self.effort = effort
        self.candidates = candidates
        self.cv = cv
        self.insufficient = insufficient
        self.looks = looks
        self.segments = segments
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Candidates have parameters that must be checked too.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, groups: Any = None, order: Any = None, segments: Any = None) -> Self:
        """Fit the scorer and choose its threshold.

        Parameters
        ----------
        X : {dataframe, array-like, sparse matrix} of shape (n_samples, n_features)
            A frame of pandas or polars with numbers, truth values, categories, texts, dates and missing values, or
            an array or matrix of numbers. Or a Dask array or dataframe of numbers, with a current
            `distributed.Client`: LightGBM and XGBoost then learn where the rows are, once each and without folds, and
            the mean of their standardised log-odds is the score. Candidates have no recall there, and there are no
            `feature_importances_`.
        y : array-like of shape (n_samples,)
            Two different labels.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together, as in :meth:`TauFPLClassifier.fit`.
        order : array-like of shape (n_samples,), default=None
            When each row came, as in :meth:`TauFPLClassifier.fit`.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, as in :meth:`TauFPLClassifier.fit`.

        Returns
        -------
        self
        """
        plan = self._plan(self._row_segments(X, segments))
        with make_table(self, X, y, groups, order, segments=plan.segment_codes) as table:
            fitter = StackFitter(self._scorer(plan.seed), self.classes_)
            self._keep_outcome(self._run_strategy(fitter, table, plan), X)
            self._keep_importances(table)
        return self

    def _scorer(self, seed: int) -> StackedScorer:
        return StackedScorer(
            min(self._taus()),
            effort=self.effort,
            candidates=self.candidates,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    def _read_table(
        self, X: Any, y: Any, groups: Any, order: Any, params: Any, segments: RowIndices | None
    ) -> ArrayTable:
        X, y = indexed(self, *in_memory(type(self).__name__, X, y))
        labels = split_labels(y, self.pos_label)
        self.classes_ = labels.classes
        units = read_units(groups, order, y.size, segments)
        # Folds of a threshold follow each other: their stacks use the cores.
        return ArrayTable(X, labels.positive_rows, labels.negative_rows, units)

    def _takes_remote(self, X: Any) -> bool:
        """Whether the stack is fitted where the rows are: those of Dask, while tensors come into memory."""
        return not is_foreign_array(X)

    def _check_remote(self, X: Any) -> None:
        from taufpl.estimators.remote._learners import check_cluster

        check_cluster(self._scorer(0), X)

    def _keep_importances(self, table: Any) -> None:
        forget(self, "feature_importances_")
        if table.in_memory:
            evidence = self.evidence_ if isinstance(self.evidence_, tuple) else (self.evidence_,)
            strictest = evidence[int(np.argmin(self._taus()))]
            level = min(self._taus()) if strictest.expected_fpr is None else strictest.expected_fpr
            train = table.part(self.estimator_.training_rows_)
            importances = permutation_importances(self.estimator_, train, level)
            if importances is not None:
                self.feature_importances_ = importances
        for model in self.estimators_:
            forget(model, "training_rows_")

    @property
    def leaderboard_(self) -> Any:
        """The stack, then every candidate, by its recall."""
        return leaderboard_frame(self.estimator_.standings_)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = super().__repr__(N_CHAR_MAX)
        return f"{parameters}\n{summary_of(self)}" if hasattr(self, "estimators_") else parameters

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows: the summary, above scikit-learn's diagram."""
        shown = super()._repr_mimebundle_(**options)
        if "text/html" in shown and hasattr(self, "estimators_"):
            shown["text/html"] = f"<pre>{escape(summary_of(self))}</pre>{shown['text/html']}"
        return shown

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        accepted = tags.input_tags
        accepted.sparse = accepted.allow_nan = accepted.categorical = accepted.string = True
        tags.classifier_tags.multi_class = False
        return tags
