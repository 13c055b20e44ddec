"""A threshold with a guarantee on scores that somebody else has computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from taufpl._checks import near_or_all
from taufpl._row_hashes import copied_scores
from taufpl._sklearn import Interval, check_y, fit_context
from taufpl._types import RowIndices, Vector
from taufpl.estimators._array_table import ArrayScores, ArrayTable
from taufpl.estimators._neyman_pearson import ScorerClassifier
from taufpl.estimators._reading import RowSegments, calibration_classes, in_memory
from taufpl.estimators._thresholded import SEGMENT_CONSTRAINT, THRESHOLD_CONSTRAINTS, forget
from taufpl.estimators.strategies import Plan
from taufpl.preprocessing import column_at, is_frame, read_column
from taufpl.thresholding import Evidence


class ScoreScreen(ScorerClassifier):
    """A threshold that keeps the false-positive rate at or under tau, for scores that you already have.

    A row is positive where its score is strictly above the threshold, or strictly below it with
    ``higher_is_positive=False``. All negatives given to :meth:`fit` choose the threshold, by the order statistic with
    the guarantee P(FPR > tau) <= delta; the positives tell the recall.

    **What the guarantee rests on**: the scorer must not have been trained, tuned or chosen on these rows, the negatives
    must be independent draws from the source that new ones come from, and new scores must come from the same scorer.
    Scores may be discrete, and may be tied.

    Parameters
    ----------
    column : str, int or None, default=None
        The column of X with the scores: its name in a frame, whose other columns are not looked at, or its position.
        None says that X is nothing but scores.
    tau : float, sequence of float, or mapping, default=0.01
        Tolerated false-positive rate, between 0 and 1. With several, there is a threshold for each, and delta is the
        probability with which one or more of them is exceeded. `predict` and `decision_function` use the strictest,
        :meth:`decide` gives all decisions. A mapping has a tolerance for each of the `segments`, as in
        :class:`TauFPLClassifier`.
    delta : float, default=0.05
        Probability with which tau may be exceeded; with segments, any of their limits.
    segments : str, int, callable or None, default=None
        Limits by segment, as in :class:`TauFPLClassifier`: a column of X by name or position, or a function of X.
    higher_is_positive : bool, default=True
        Whether high scores stand for positives; False where low ones do.
    insufficient : {"raise", "infinite"}, default="raise"
        What to do with too few negatives for the guarantee: refuse them, or predict nobody positive; of segments as in
        :class:`TauFPLClassifier`.
    looks : int or "any", default=1
        How many thresholds, by `fit` and `recalibrate`, `delta` is for, as in :class:`TauFPLClassifier`.
    pos_label : label, default=None
        Label of positives. None takes the second in sorted order, with a
        :class:`~taufpl.exceptions.PositiveLabelWarning` for labels other than 0 and 1, -1 and 1, or False and True.
    random_state : int, RandomState instance or None, default=None
        Draws one negative of each group; without groups nothing is random.

    Attributes
    ----------
    threshold_ : float
        On the scale of the scores: a row is positive where its score is above it, or below it with
        ``higher_is_positive=False``. With several tolerances that of the strictest.
    thresholds_ : ndarray of shape (n_taus,)
        On the scale on which high means positive: minus the scores with ``higher_is_positive=False``. So is the
        threshold of `evidence_`, and those of `segments_`.
    segments_ : SegmentThresholds or None
        The thresholds by segment, with their evidence.
    evidence_ : Evidence, or tuple of Evidence with several tolerances
    threshold_history_, sequences_
        As in :class:`TauFPLClassifier`.
    fpr_estimate_, fpr_upper_bound_ : float, or ndarray with several tolerances
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        The name of the column of scores, where it has one, then that of the segments; all of a frame, where a position
        says which column is meant.

    See Also
    --------
    NeymanPearsonClassifier : For a scorer in Python, fitted or not.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import ScoreScreen
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> scores = np.round(rng.normal(size=2200) + 2 * y, 2)
    >>> screen = ScoreScreen(tau=0.05).fit(scores, y)
    >>> screen.threshold_, screen.evidence_.guaranteed
    (1.69, True)
    >>> screen.predict([1.69, 1.7])
    array([0, 1])
    >>> bool(np.mean(rng.normal(size=100_000) > screen.threshold_) <= 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "column": [str, Integral, None],
        "tau": [Interval(Real, 0, 1, closed="neither"), "array-like", Mapping],
        "segments": SEGMENT_CONSTRAINT,
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "higher_is_positive": ["boolean"],
        "insufficient": THRESHOLD_CONSTRAINTS["insufficient"],
        "looks": THRESHOLD_CONSTRAINTS["looks"],
        "pos_label": "no_validation",
        "random_state": ["random_state"],
    }
    threshold = "np"

    def __init__(
        self,
        column: str | int | None = None,
        tau: float | ArrayLike | Mapping[Any, float] = 0.01,
        *,
        delta: float = 0.05,
        segments: str | int | Callable[[Any], Any] | None = None,
        higher_is_positive: bool = True,
        insufficient: str = "raise",
        looks: int | str = 1,
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.column = column
        self.tau = tau
        self.delta = delta
        self.segments = segments
        self.higher_is_positive = higher_is_positive
        self.insufficient = insufficient
        self.looks = looks
        self.pos_label = pos_label
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None, segments: Any = None) -> Self:
        """Choose the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, 1), or frame or array with that column
            Scores of rows that the scorer has not been trained on: finite numbers.
        y : array-like of shape (n_samples,)
            Two different labels; negatives are enough where `pos_label` names the others.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group (a customer, a device) belong together: a group gives the threshold one negative, drawn at
            random. What is then guaranteed is the false-positive rate on a random negative of a random group.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where the parameter `segments` names no column of X.

        Returns
        -------
        self
        """
        forget(self, "n_features_in_", "feature_names_in_")
        X, y = in_memory(type(self).__name__, X, y)
        raw = self._sign * self._numbers(X, reset=True)
        y = check_y(y, estimator=self)
        if y.size != raw.size:
            raise ValueError(f"y must have one label a score, {raw.size}; got {y.size}.")
        plan = self._plan(self._row_segments(X, segments))
        self.classes_ = calibration_classes(y, self.pos_label)
        self._keep_evidence(self._calibrated(raw, X, y, groups, plan), X)
        return self

    def training_rows(self, y: Any, groups: Any = None, order: Any = None, segments: Any = None) -> RowIndices:
        """The rows that `fit` would learn from: none, since all negatives choose the threshold.

        Parameters
        ----------
        y, groups, order, segments : array-like of shape (n_samples,)
            As other classifiers take them.

        Returns
        -------
        ndarray of int of shape (0,)
        """
        return np.empty(0, dtype=np.intp)

    @property
    def _sign(self) -> float:
        return 1.0 if self.higher_is_positive else -1.0

    def _raw_scores(self, X: Any) -> Vector:
        raw = self._sign * self._numbers(in_memory(type(self).__name__, X)[0], reset=False)
        limits = () if self.segments_ is None else self.segments_.evidence
        thresholds = np.array([*self.thresholds_, *(each.threshold for each in limits)])
        with np.errstate(over="ignore"):
            single = thresholds.astype(np.float32).astype(np.float64)
        # A score that is the threshold in single precision is tied with it.
        for tie in np.flatnonzero(single > thresholds):
            raw[raw == single[tie]] = thresholds[tie]
        return raw

    def _precision_of(self, X: Any, margin: float) -> None:
        """Ties are told in both precisions, in `_raw_scores`."""

    def _as_kept(self, evidence: Evidence) -> Evidence:
        return replace(super()._as_kept(evidence), threshold=_above_its_ties(evidence.threshold))

    def _read_scores(self, scores: Vector, X: Any, y: Any, groups: Any, plan: Plan) -> tuple[ArrayTable, ArrayScores]:
        return super()._read_scores(scores, scores[:, np.newaxis], y, groups, plan)

    def _copies_among(self, X: Any) -> RowIndices | None:
        return copied_scores(X)

    def _whole_delta_plan(self, segments: RowSegments | None = None) -> Plan:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Plan(self._taus(), self.delta, insufficient=self.insufficient, seed=seed, segments=segments)

    def _numbers(self, X: Any, *, reset: bool) -> Vector:
        """The scores as doubles."""
        if np.ma.isMaskedArray(X):
            raise TypeError("scores must not be a masked array: leave the masked rows out, X[~mask] and y[~mask].")
        values = self._at_position(X, reset) if isinstance(self.column, Integral) else self._by_name(X, reset)
        column = read_column(values)
        if column.kind not in ("number", "boolean"):
            first = next((each for each in column.values.tolist() if each is not None), None)
            raise ValueError(f"scores must be numbers; got {first!r} (type {column.type}).")
        numbers: Vector = column.values
        if not numbers.size:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: there are no scores.")
        is_wrong = ~np.isfinite(numbers)
        if is_wrong.any():
            row = int(is_wrong.argmax())
            raise ValueError(
                f"scores must be finite numbers; {int(is_wrong.sum()):,} of {numbers.size:,} are NaN or infinite, the "
                f"first is {numbers[row]:g} in row {row}. Leave those rows out, or give them a number: what the scorer "
                "does not score, somebody has to decide."
            )
        return numbers

    def _at_position(self, X: Any, reset: bool) -> Any:
        """The column at the position `column` of a table, whose width is kept."""
        table = X if is_frame(X) else check_array(X, dtype=None, ensure_all_finite=False)
        validate_data(self, X, reset=reset, skip_check_array=True)
        assert isinstance(self.column, Integral)
        n_columns = table.shape[1]
        if not -n_columns <= self.column < n_columns:
            raise ValueError(f"column={self.column} is no position of a column: X has {n_columns} columns.")
        return column_at(table, int(self.column))

    def _by_name(self, X: Any, reset: bool) -> Any:
        """The column `column` of a frame, or the one column that there is."""
        name = getattr(self, "feature_names_in_", [None])[0] if self.column is None and not reset else self.column
        if is_frame(X):
            names = [*X.columns]
            name = names[0] if name is None and len(names) == 1 else name
            if names.count(name) != 1:
                raise ValueError(_wrong_columns(name, names))
            values = column_at(X, names.index(name))
        elif hasattr(X, "tocsr"):
            raise TypeError(f"scores must be a dense column; got {type(X).__name__}. Give X.toarray().")
        else:
            values = X if hasattr(X, "dtype") else np.asarray(X)
            values = values[:, 0] if values.shape[1:] == (1,) else values
            if len(values.shape) != 1:
                raise ValueError(
                    f"X must hold one score a row; got shape {np.shape(X)}. Give one column, or name that of the "
                    "scores by column=, its name in a frame or its position."
                )
            name = getattr(X, "name", None) if name is None else name
        if reset:
            self._keep_names(name)
        return values

    def _keep_names(self, name: Any) -> None:
        """Keep the names of the columns that are looked at: that of the scores, then that of the segments."""
        if isinstance(self.segments, Integral):
            raise ValueError(
                f"segments={self.segments} is a position, and that of the scores is not given so: give two positions, "
                "or two names of a frame."
            )
        names = [name, self.segments] if isinstance(self.segments, str) else [name]
        self.n_features_in_ = len(names)
        if isinstance(name, str):
            self.feature_names_in_ = np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # nothing is learned but the threshold
        return tags


def _above_its_ties(threshold: float) -> float:
    """A threshold, or, where it is a number of single precision that stands for another, the end of what it stands for.

    0.1 in single precision is a little more than 0.1, and 0.7 a little less than 0.7.
    """
    single = np.float32(threshold)
    if not np.isfinite(single) or float(single) != threshold or float(str(single)) == threshold:
        return threshold
    return 0.5 * (threshold + float(np.nextafter(single, np.float32(np.inf))))


def _wrong_columns(name: Any, names: list[Any]) -> str:
    """Why a frame with these columns has no column of scores."""
    if name is None:
        return f"X has {len(names)} columns: name that of the scores by column=, for example column={names[0]!r}."
    if name in names:
        return f"X has {names.count(name)} columns {name!r}; leave all but one out."
    return f"X has no column {name!r}, which column= names.{near_or_all(str(name), map(str, names), 'columns')}"
