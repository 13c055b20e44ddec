"""Labelled rows as a report sees them: scores, names, rates at thresholds, and whether the model has seen them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from taufpl._checks import check_scores
from taufpl._row_hashes import row_hashes
from taufpl._sklearn import num_samples, safe_indexing
from taufpl._types import Array, Mask, RowIndices, Vector
from taufpl.estimators import (
    KernelScorer,
    LinearScorer,
    ThresholdedMixin,
    labels_of_rows,
    steps_and_last,
    transformed,
    wrapped_head,
)
from taufpl.exceptions import UnseenSegmentWarning
from taufpl.operators import as_operator
from taufpl.persistence import Freshness, SeenRows
from taufpl.planning import precision_at
from taufpl.plotting.statistics import count_above
from taufpl.problem import top_count
from taufpl.thresholding import (
    USUAL_DELTA,
    Evidence,
    fpr_upper_bound,
    negatives_needed,
    order_rank,
    share_interval,
    share_lower_bound,
)

# Tolerances of the table, beside the model's own.
TABLE_TAUS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
# Steps of the slider in a factor of ten, before rounding to two digits; where it ends.
_STEPS, _FIRST, _LAST = 40, 1e-6, 0.5


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """A fitted model, labelled rows, and the scores that the model gives them.

    `final` is the estimator in the model that has the threshold, a pipeline's last step or a search's best. `outer` are
    the rows as given, `inner` as `final` sees them. A row is positive if its raw score is strictly above the threshold.
    `negative` and `positive` are the scores of the two classes, sorted upward. Taus, thresholds and evidence have one
    entry a tolerance; the evidence is None where the threshold is a training quantile without any. Where the model has
    a threshold for each segment, `segments` has the label of each row's, and scores are measured from its threshold.
    """

    model: Any
    final: Any
    outer: Any
    inner: Any
    scores: Vector
    is_positive: Mask
    taus: tuple[float, ...]
    thresholds: tuple[float, ...]
    evidence: tuple[Evidence | None, ...]
    negative: Vector
    positive: Vector
    segments: Any = None

    @property
    def main(self) -> int:
        """Number of the tolerance that `predict` uses: the strictest."""
        return int(np.argmin(self.taus))

    @property
    def tau(self) -> float:
        """The strictest tolerance."""
        return self.taus[self.main]

    @property
    def threshold(self) -> float:
        """The threshold that `predict` uses."""
        return self.thresholds[self.main]

    @property
    def is_flagged(self) -> Mask:
        """Which rows are predicted positive."""
        return self.scores > self.threshold

    @property
    def delta(self) -> float:
        """The model's own probability of failure, or the usual one."""
        own = getattr(self.final, "delta", None)
        return USUAL_DELTA if own is None else float(own)

    @property
    def labels(self) -> list[Any]:
        """Label of negatives, then of positives."""
        return list(np.asarray(self.final.classes_).tolist())

    def nearest(self, n: int) -> tuple[RowIndices, RowIndices]:
        """At most n rows above the threshold, the lowest first, and at most n at or below it, the highest first."""
        above, below = np.flatnonzero(self.is_flagged), np.flatnonzero(~self.is_flagged)
        return above[lowest(self.scores[above], n)], below[lowest(-self.scores[below], n)]


def score_rows(model: Any, X: Any, y: Any, segments: Any = None) -> ScoredRows:
    """Check a fitted model and labelled rows, and score the rows."""
    final, inner = _unwrapped(model, X)
    is_positive = _check_labels(y, X, final.classes_)
    labels = None
    if getattr(final, "segments_", None) is not None:
        labels = labels_of_rows(final.segments, inner, segments)
    elif segments is not None:
        raise ValueError("segments are for models with a threshold for each segment; use by= for rates by a column.")
    raw = _raw_scores(final, inner) if labels is None else _decisions(final, inner, labels)
    scores = check_scores("the scores of the model", raw)
    evidence: tuple[Evidence | None, ...]
    if isinstance(final, ThresholdedMixin):
        evidence = final.evidence_ if isinstance(final.evidence_, tuple) else (final.evidence_,)
        taus = tuple(float(each.tau) for each in evidence if each is not None)
        thresholds = (0.0,) if labels is not None else tuple(float(each) for each in final.thresholds_)
    else:
        evidence, taus, thresholds = (None,), (float(final.tau),), (-float(final.intercept_[0]),)
    negative, positive = np.sort(scores[~is_positive]), np.sort(scores[is_positive])
    return ScoredRows(
        model, final, X, inner, scores, is_positive, taus, thresholds, evidence, negative, positive, labels
    )


def _unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """The estimator with the threshold, and the rows as it sees them."""
    check_is_fitted(model)
    steps, final = steps_and_last(model)
    if not isinstance(final, (ThresholdedMixin, KernelScorer, LinearScorer)) or not hasattr(final, "tau"):
        raise TypeError(
            "model must be a classifier or a ranker of this library (TauFPLClassifier, KernelTauFPLClassifier, "
            f"NeymanPearsonClassifier, ...) or a pipeline that ends in one; got {type(final).__name__}. Any fitted "
            "scorer can be put under a tolerance first: "
            "NeymanPearsonClassifier(scorer, tau=0.01, cv='prefit').fit(X_new, y_new)."
        )
    return wrapped_head(model), transformed(steps, X)


def _decisions(final: Any, X: Any, labels: Any) -> Vector:
    """Scores measured from the threshold of each row's segment."""
    with warnings.catch_warnings():
        # The table by segment shows those that were never seen.
        warnings.simplefilter("ignore", UnseenSegmentWarning)
        found: Vector = final.decision_function(X, segments=labels)
    return found


def _raw_scores(final: Any, X: Any) -> Vector:
    """Scores before the threshold is taken off: with an infinite one nothing would be left of them."""
    if isinstance(final, ThresholdedMixin | KernelScorer):
        return final._raw_scores(X)
    return as_operator(final._checked(X, reset=False)).matvec(final.coef_[0])


def _check_labels(y: Any, X: Any, classes: Array) -> Mask:
    """Which rows are positive."""
    labels = np.asarray(column_or_1d(y))
    n_rows = num_samples(X)
    if labels.size != n_rows:
        raise ValueError(f"y must have one label a row of X, {n_rows}; got {labels.size}.")
    if not labels.size:
        raise ValueError("X and y must hold at least one row to report on, got none.")
    is_negative, is_positive = (labels == each for each in classes)
    strange = ~(is_negative | is_positive)
    if strange.any():
        raise ValueError(
            f"y must hold the labels that the model was fitted with, {np.asarray(classes).tolist()}; "
            f"got {labels[strange][0]!r} ({int(strange.sum())} of {n_rows} rows have others). "
            "Leave rows without a label out."
        )
    return is_positive


def lowest(keys: Vector, n: int) -> RowIndices:
    """Positions of the n lowest keys, the lowest first, and among equal ones the first."""
    kept = np.argpartition(keys, n)[:n] if n < keys.size else np.arange(keys.size)
    order: RowIndices = kept[np.lexsort((kept, keys[kept]))]
    return order


@dataclass(frozen=True, slots=True)
class RowNames:
    """Names of rows, one a row of the report, and what they are called: "case_id", "Row"."""

    values: Any
    title: str
    note: str  # a sentence, or nothing

    def name(self, row: int) -> str:
        """The name of a row, by its position."""
        return str(self.values[row])


def column_of(X: Any, parameter: str, given: Any, noun: str) -> Any:
    """What a parameter gives for each row: itself, or the column of X that it names."""
    if not isinstance(given, str):
        return given
    if given not in getattr(X, "columns", ()):
        raise ValueError(
            f"{parameter}={given!r} is no column of X: give a frame with that column, or one {noun} a row."
        )
    return X[given]


def name_rows(ids: Any, X: Any, kept: Any) -> RowNames:
    """Names of the rows of X, of which `kept` are reported on, or all (None).

    `ids` is a column of X, or one id a row; without it the index of a frame names them, or their number from 0.
    """
    n_rows, title, note = num_samples(X), "Row", ""
    if ids is not None:
        title = ids if isinstance(ids, str) else str(getattr(ids, "name", None) or "Id")
        ids = column_of(X, "ids", ids, "id")
        if num_samples(ids) != n_rows:
            raise ValueError(f"ids must hold one id a row of X, {n_rows}; got {num_samples(ids)}.")
    else:
        index = getattr(X, "index", None)
        ids, note = index, "Rows are named by the index of the frame."
        if index is None or callable(index):
            ids, note = np.arange(n_rows), "Rows are numbered from 0, in the order in which they were given."
    values = np.asarray(ids, dtype=object)
    return RowNames(values if kept is None else safe_indexing(values, kept), title, note)


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts strictly above a threshold, and the bounds on both rates, each missed with probability delta.

    A rate without any row of its class is None. `fpr_upper` is given, because it depends on whether the threshold was
    chosen beforehand or is one of the counted negatives.
    """

    threshold: float
    n_false: int
    n_negative: int
    n_true: int
    n_positive: int
    delta: float
    fpr_upper: float | None

    @property
    def fpr(self) -> float | None:
        """Share of negatives above the threshold."""
        return self.n_false / self.n_negative if self.n_negative else None

    @property
    def recall(self) -> float | None:
        """Share of positives above the threshold."""
        return self.n_true / self.n_positive if self.n_positive else None

    @property
    def fpr_lower(self) -> float | None:
        """Lower bound on the false-alarm rate."""
        return share_lower_bound(self.n_false, self.n_negative, self.delta) if self.n_negative else None

    @property
    def recall_interval(self) -> tuple[float, float] | tuple[None, None]:
        """Both ends of the interval for recall."""
        return share_interval(self.n_true, self.n_positive, self.delta) if self.n_positive else (None, None)


def rates_at(rows: ScoredRows, threshold: float, rank: int | None = None) -> Rates:
    """Rates at a threshold that was chosen without these rows, or is the negative of a rank among them."""
    n_false, n_true = (count_above(scores, threshold) for scores in (rows.negative, rows.positive))
    n = rows.negative.size
    upper = fpr_upper_bound(n_false if rank is None else n - rank, n, rows.delta) if n else None
    return Rates(threshold, n_false, n, n_true, rows.positive.size, rows.delta, upper)


def measured_rates(rows: ScoredRows, tau: float) -> Rates:
    """Rates at the lowest threshold that has at most a share tau of these negatives above it."""
    rank = rows.negative.size + 1 - top_count(tau, rows.negative.size)
    return rates_at(rows, float(rows.negative[rank - 1]), rank)


def proven_rates(rows: ScoredRows, tau: float) -> Rates | None:
    """Rates at the order statistic of these negatives that guarantees tau; None if there are too few negatives."""
    rank = order_rank(rows.negative.size, tau, rows.delta)
    return None if rank is None else rates_at(rows, float(rows.negative[rank - 1]), rank)


@dataclass(frozen=True, slots=True)
class DailyCases:
    """Number of cases that are screened a day, and the share of positives among them (None: not known).

    Where the share has a range, `base_rate` is its middle, at which figures are given.
    """

    volume: float
    base_rate: float | None
    base_rate_range: tuple[float, float] | None = None

    @property
    def base_rates(self) -> tuple[float, float] | tuple[float | None, float | None]:
        """The lowest and the highest share."""
        return self.base_rate_range or (self.base_rate, self.base_rate)

    def figures(self, rates: Rates) -> dict[str, float | None]:
        """Rates and what they mean a day; None for what cannot be told."""
        fpr, recall, base = rates.fpr, rates.recall, self.base_rate
        true = 0.0 if base == 0.0 else _product(self.volume, base, recall)
        false = None if base is None else _product(self.volume, 1.0 - base, fpr)
        return {
            "threshold": rates.threshold,
            "fpr": fpr,
            "fpr_upper": rates.fpr_upper,
            "recall": recall,
            "alarms": None if true is None or false is None else true + false,
            "true_alarms": true,
            "false_alarms": false,
            "missed": None if recall is None else _product(self.volume, base, 1.0 - recall),
            "precision": self.precision(fpr, recall),
        }

    def precision(self, fpr: float | None, recall: float | None) -> float | None:
        """Share of true alarms among all; None where there are no alarms, or something is not known."""
        if self.base_rate is None or fpr is None or recall is None:
            return None
        has_alarms = self.base_rate * recall + (1.0 - self.base_rate) * fpr > 0.0
        return precision_at(self.base_rate, recall, fpr) if has_alarms else None


def _product(volume: float, *shares: float | None) -> float | None:
    known = [share for share in shares if share is not None]
    return math.prod(known, start=volume) if len(known) == len(shares) else None


def slider_taus(tau: float, n_negative: int) -> Vector:
    """Tolerances from a tenth of the model's, or one negative, up to 50 %: even on a logarithmic scale, round numbers.

    Examples
    --------
    >>> taus = slider_taus(0.01, 1000)
    >>> taus.size, float(taus[0]), float(taus[-1]), bool(0.01 in taus)
    (103, 0.001, 0.5, True)
    """
    low = max(_FIRST, min(tau / 10.0, 1.0 / max(n_negative, 1)))
    last = max(_LAST, min(2.0 * tau, 0.99))
    exponents = np.arange(np.floor(_STEPS * np.log10(low)), np.ceil(_STEPS * np.log10(last)) + 1) / _STEPS
    grid = {float(f"{10.0**each:.1e}") for each in exponents}
    return np.array(sorted({each for each in grid if 0.999 * low <= each <= last} | {tau}))


def slider(rows: ScoredRows, *, is_proof: bool) -> dict[str, Any] | None:
    """Figures that the slider shows, one entry a tolerance, with None where no threshold has a guarantee."""
    if not rows.negative.size:
        return None
    taus = slider_taus(rows.tau, rows.negative.size).tolist()
    columns: dict[str, list[Rates | None]] = {"measured": [measured_rates(rows, tau) for tau in taus]}
    if is_proof:
        columns["proven"] = [proven_rates(rows, tau) for tau in taus]
    names = ("threshold", "n_false", "n_true", "fpr_upper")
    return {
        "tau": taus,
        "own": taus.index(rows.tau),
        "needed": [negatives_needed(tau, rows.delta) for tau in taus],
        **{
            way: {name: [getattr(each, name, None) for each in found] for name in names}
            for way, found in columns.items()
        },
    }


@dataclass(frozen=True, slots=True)
class Given:
    """Rows of a report, and what a record of the rows that the model has seen says about them, where there is one.

    Rows that were seen before are left out where they can be told from the others; `kept` are the positions of the
    remaining ones, None where none was left out. `is_new` is as said, unless the record contradicts.
    """

    X: Any
    y: Any
    is_new: bool | None
    freshness: Freshness | None = None
    kept: RowIndices | None = None


def leave_out_seen(X: Any, y: Any, is_new: bool | None, seen: SeenRows | None) -> Given:
    """Leave out the rows that a record knows; rows that are known to be old are all kept, to look at."""
    if seen is None:
        return Given(X, y, is_new)
    hit = seen.contains(X)
    found = seen.judge(int(hit.sum()), hit.size)
    if not found.n_seen or is_new is False:
        return Given(X, y, is_new, found)
    if found.n_seen == found.n_rows:
        return Given(X, y, False, found)
    if not found.separable or num_samples(y) != hit.size:
        return Given(X, y, None, found)
    kept = np.flatnonzero(~hit)
    return Given(safe_indexing(X, kept), safe_indexing(y, kept), is_new, found, kept)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Rates on the training rows, and how many of the reported rows are among them."""

    rates: Rates
    n_shared: int


def compare_training(rows: ScoredRows, training: Any) -> TrainingRows:
    """Score the training rows, and look for the reported rows among them."""
    try:
        X, y = training
    except (TypeError, ValueError):
        raise TypeError(
            f"training must be a pair (X, y), the rows that the model was fitted on; got {type(training).__name__}."
        ) from None
    trained = score_rows(rows.model, X, y)
    # Rows are equal where all features are, numbers to seven digits.
    mine, theirs = (row_hashes(each.inner, single=True) for each in (rows, trained))
    return TrainingRows(rates_at(trained, rows.threshold), int(np.isin(mine, theirs).sum()))
