"""All that a report has to say, before it is put in HTML."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._checks import check_count
from taufpl._sklearn import num_samples
from taufpl.persistence import SeenRows
from taufpl.plotting._scores import find_attribute
from taufpl.preprocessing import UnseenCounter
from taufpl.report._features import Features, features_of
from taufpl.report._figures import Rates, Traffic, rates_at, slider
from taufpl.report._fresh import Given, leave_out_seen
from taufpl.report._plots import histogram_edges, roc_axis
from taufpl.report._promise import Promise, Verdict, promise_of, verdict_on
from taufpl.report._subject import Subject, Vector, judge
from taufpl.report._training import Training, compare, settled

# The page stays well under 3 MB, long names and all.
MOST_EXAMPLES = 500


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found about a model on some rows.

    Attributes
    ----------
    subject : Subject
    rates, verdicts : tuple
        One a tolerance, each at its own threshold.
    promise : Promise
    traffic : Traffic
    is_new : bool or None
        Whether the model has not seen the rows; None if nobody knows.
    given : Given
        The rows, and what a record of the rows that the model has met says about them.
    features : Features
    training : Training or None
    slider : dict or None
        None without negatives.
    edges : ndarray or None
        Bins of the histogram.
    n_examples : int
    unseen_values : UnseenCounter or None
        None where the training rows are not known by column.
    """

    subject: Subject
    rates: tuple[Rates, ...]
    verdicts: tuple[Verdict, ...]
    promise: Promise
    traffic: Traffic
    is_new: bool | None
    given: Given
    features: Features
    training: Training | None
    slider: dict[str, Any] | None
    edges: Vector | None
    n_examples: int
    unseen_values: UnseenCounter | None

    @property
    def used(self) -> Rates:
        """Rates at the threshold that `predict` uses."""
        return self.rates[self.subject.main]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the strictest tolerance."""
        return self.verdicts[self.subject.main]

    @property
    def collapsed(self) -> bool:
        """Whether the ranking gives every row the same score."""
        return bool(find_attribute(self.subject.model, "collapsed_"))

    def precision(self) -> tuple[float | None, float | None]:
        """Of the alarms in use, measured, and at the worse ends of both intervals."""
        used = self.used
        worst = self.traffic.precision(used.fpr_upper, used.recall_low)
        return self.traffic.precision(used.fpr, used.recall), worst

    def data(self) -> dict[str, Any]:
        """What the script needs, and what others may want to read from the file."""
        subject, used = self.subject, self.used
        true_alarms, false_alarms = self.traffic.alarms(used.fpr, used.recall)
        return {
            "tau": subject.tau,
            "delta": subject.delta,
            "promise": self.promise.kind,
            "verdict": self.verdict.kind,
            "data_is_new": self.is_new,
            "n_seen_before": None if self.given.freshness is None else self.given.freshness.n_seen,
            "n_negative": used.n_negative,
            "n_positive": used.n_positive,
            "volume_per_day": self.traffic.volume,
            "base_rate": self.traffic.base_rate,
            "operating": {
                "threshold": _finite(used.threshold),
                "n_false": used.n_false,
                "n_true": used.n_true,
                "fpr": used.fpr,
                "fpr_lower": used.fpr_lower,
                "fpr_upper": used.fpr_upper,
                "recall": used.recall,
                "recall_low": used.recall_low,
                "recall_high": used.recall_high,
                "precision": self.precision()[0],
                "precision_low": self.precision()[1],
                "true_alarms": true_alarms,
                "false_alarms": false_alarms,
            },
            "slider": _finite_lists(self.slider),
            "roc_low": roc_axis(subject).low if used.n_negative else None,
            "raw_score_range": None if self.edges is None else [float(self.edges[0]), float(self.edges[-1])],
            "fingerprint": fingerprint(subject),
            "unseen": None if self.unseen_values is None else self.unseen_values.record(),
        }


def investigate(
    model: Any,
    X: Any,
    y: Any,
    *,
    volume_per_day: float,
    base_rate: float | None,
    n_examples: int,
    feature_names: Any,
    training: Any,
    data_is_new: bool | None,
    seen: SeenRows | None,
    unseen_values: UnseenCounter | None,
) -> Findings:
    """Check what was given and find out all that there is to say."""
    n_examples = check_count("n_examples", n_examples)
    if n_examples > MOST_EXAMPLES:
        raise ValueError(
            f"n_examples must be at most {MOST_EXAMPLES}, a report is no place for a table; got {n_examples}."
        )
    traffic = Traffic(_check_volume(volume_per_day), None if base_rate is None else _check_base_rate(base_rate))
    if data_is_new is not None and not isinstance(data_is_new, (bool, np.bool_)):
        raise TypeError(f"data_is_new must be True, False or None, got {data_is_new!r}.")
    given = leave_out_seen(X, y, data_is_new, seen)
    subject = judge(model, given.X, given.y)
    compared = None if training is None else compare(subject, training)
    is_new = settled(given.is_new, compared, num_samples(given.X))
    rates = tuple(rates_at(subject, threshold, subject.delta) for threshold in subject.thresholds)
    verdicts = tuple(
        verdict_on(each, tau, subject.delta, is_new) for each, tau in zip(rates, subject.taus, strict=True)
    )
    if base_rate is None and subject.negative.size and subject.positive.size:
        traffic = Traffic(traffic.volume, subject.positive.size / subject.scores.size)
    steps = slider(subject, subject.delta, is_proof=is_new is not False) if subject.negative.size else None
    return Findings(
        subject,
        rates,
        verdicts,
        promise_of(subject),
        traffic,
        is_new,
        given,
        features_of(subject, feature_names),
        compared,
        None if steps is None else {**steps, "own": steps["tau"].index(subject.tau)},
        histogram_edges(subject),
        n_examples,
        _counted(X, training) if unseen_values is None else unseen_values,
    )


def _counted(X: Any, training: Any) -> UnseenCounter | None:
    """What the rows have that the training rows never had, where both are frames."""
    if training is None or not (hasattr(X, "iloc") and hasattr(training[0], "iloc")):
        return None
    counter = UnseenCounter.from_rows(training[0])
    counter.update(X)
    return counter


def fingerprint(subject: Subject) -> str:
    """A few digits that change with the scores or the labels, in whatever way."""
    found = hashlib.sha256(np.ascontiguousarray(subject.scores).data)
    found.update(np.packbits(subject.is_positive).data)
    return found.hexdigest()[:12]


def _check_volume(volume: Any) -> float:
    value = _number("volume_per_day", volume)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"volume_per_day must be a number of cases, at least 0; got {volume!r}.")
    return value


def _check_base_rate(base_rate: Any) -> float:
    value = _number("base_rate", base_rate)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"base_rate must lie between 0 and 1, got {base_rate!r}. It is a share: write 0.01 for 1 %.")
    return value


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}.") from None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finite_lists(columns: Any) -> Any:
    """The same with None in the place of infinities, which JSON does not know."""
    if isinstance(columns, dict):
        return {name: _finite_lists(column) for name, column in columns.items()}
    if isinstance(columns, list):
        return [_finite_lists(each) for each in columns]
    return _finite(columns) if isinstance(columns, float) else columns
