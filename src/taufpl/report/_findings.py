"""Findings about a model on labelled rows, before templates put them into words and HTML."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from taufpl._types import Vector
from taufpl.planning import precision_lower_bound
from taufpl.plotting.statistics import finite_rounds, rounds_over
from taufpl.preprocessing import UnseenCounter
from taufpl.report import _pictures
from taufpl.report._format import rate, shortened
from taufpl.report._pictures import Picture, PlotAxis, interval_path, mark_path, point_path
from taufpl.report._scored_rows import (
    TABLE_TAUS,
    DailyCases,
    Given,
    Rates,
    RowNames,
    ScoredRows,
    TrainingRows,
    measured_rates,
    proven_rates,
)
from taufpl.report._weights import Features, reasons_for
from taufpl.thresholding import (
    OTHERS,
    Evidence,
    JudgedLevels,
    SegmentThresholds,
    level_codes,
    level_counts,
    named_tolerances,
    negatives_needed,
    negatives_to_settle,
    rates_of_levels,
    rates_of_limits,
    tolerance_of,
    tolerance_verdict,
)

_N_REASONS = 3
_REPR_LENGTH = 200
# Longest name of a level beside its picture.
_LEVEL_LENGTH = 18


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a report says about a model on some rows; None for what is not known or cannot be told.

    Each tolerance has its rates, at its own threshold. `is_new` says whether the model has not seen the rows, and
    `edges` are those of the histogram's bins.
    """

    rows: ScoredRows
    rates: tuple[Rates, ...]
    cases: DailyCases
    is_new: bool | None
    given: Given
    features: Features
    feature_names: Any  # as given
    row_names: RowNames
    training: TrainingRows | None
    slider: dict[str, Any] | None
    edges: Vector | None
    n_examples: int
    unseen_values: UnseenCounter | None
    limit_rates: Levels | None = None  # of a model with segments
    levels: Levels | None = None  # of a column

    @property
    def used(self) -> Rates:
        """Rates at the threshold that `predict` uses."""
        return self.rates[self.rows.main]

    @property
    def evidence(self) -> Evidence | None:
        """Evidence for the threshold that `predict` uses."""
        return self.rows.evidence[self.rows.main]

    @property
    def promise(self) -> str:
        """Which promise the evidence allows; the templates put it in words."""
        evidence, strategy = self.evidence, self.strategy
        if evidence is None:
            return "ranking"
        if self.limits is not None and all(each.guaranteed for each in self.limits.evidence):
            return "segments"
        if np.isposinf(evidence.threshold):
            return "nothing found"
        if evidence.guaranteed:
            return "guarantee"
        if evidence.caveats:
            return "caveat"
        if strategy == "cross" and evidence.delta is not None:
            return "cross-fit" if evidence.fpr_upper_bound <= evidence.tau * (1.0 + 1e-12) else "too few to cross-fit"
        if evidence.rounds is not None:
            return "mean of rounds" if evidence.delta is None else "careful rounds"
        return "quantile"

    @property
    def limits(self) -> SegmentThresholds | None:
        """The thresholds by segment, where the model has some."""
        found: SegmentThresholds | None = getattr(self.rows.final, "segments_", None)
        return found

    @property
    def sharing(self) -> list[str]:
        """The segments that share a limit, which is proven for them together."""
        members = {} if self.limits is None else self.limits.members
        return [segment for segment, limit in members.items() if limit == OTHERS]

    @property
    def tolerance_text(self) -> str:
        """The tolerance in percent; of those by segment the strictest and the loosest."""
        taus = [self.rows.tau] if self.limits is None else [each.tau for each in self.limits.evidence]
        return rate(taus[0]) if min(taus) == max(taus) else f"{rate(min(taus))} to {rate(max(taus))}"

    @property
    def strength(self) -> str:
        """How strong the promise is: "guarantee", "close" to one, or "none"."""
        if (self.evidence is not None and self.evidence.guaranteed) or self.promise == "segments":
            return "guarantee"
        return "close" if self.promise in {"cross-fit", "careful rounds"} else "none"

    @property
    def strategy(self) -> str | None:
        """How the threshold was chosen."""
        final = self.rows.final
        return getattr(final, "strategy_", getattr(final, "threshold", None))

    def verdict(self, which: int | None = None) -> str:
        """Verdict on a tolerance, the strictest by default: "kept" only where the rows are new, else "open".

        "broken" counts on rows that were trained on, too, since those flatter the model. Where the model has limits by
        segment, the verdict is on all of them together, and segments that share one are judged as one.
        """
        if which is None and self.limit_rates is not None:
            return self.limit_rates.verdict
        which = self.rows.main if which is None else which
        rates = self.rates[which]
        if not rates.n_negative:
            return "open"
        found = tolerance_verdict(rates.n_false, rates.n_negative, self.rows.taus[which], self.rows.delta)
        return "open" if found == "kept" and not self.is_new else found

    @property
    def n_to_settle(self) -> int | None:
        """How many negatives at the observed rate would settle an open verdict; None if no number would."""
        return negatives_to_settle(self.used.n_false, self.used.n_negative, self.rows.tau, self.rows.delta)

    @property
    def precision_low(self) -> float | None:
        """Lower bound on precision at the model's delta, for every base rate of the range; None where it has none."""
        used, lowest = self.used, self.cases.base_rates[0]
        if lowest is None or not 0.0 < lowest < 1.0 or not used.n_negative or not used.n_positive:
            return None
        return precision_lower_bound(used.n_false, used.n_negative, used.n_true, used.n_positive, lowest, used.delta)

    @property
    def precisions(self) -> str:
        """Precision here at the lowest and at the highest base rate."""
        cases = [replace(self.cases, base_rate=each) for each in self.cases.base_rates]
        return " to ".join(rate(each.precision(self.used.fpr, self.used.recall)) for each in cases)

    @property
    def tolerances(self) -> list[dict[str, Any]]:
        """Rates that other tolerances would have, and the number of negatives that a guarantee takes at each."""
        rows = self.rows
        return [
            {
                "tau": tau,
                "needed": negatives_needed(tau, rows.delta),
                "measured": measured_rates(rows, tau),
                "proven": proven_rates(rows, tau),
            }
            for tau in sorted({*TABLE_TAUS, rows.tau})
        ]

    @property
    def strictest_first(self) -> list[int]:
        """Numbers of the tolerances, the strictest first."""
        return [int(i) for i in np.argsort(self.rows.taus, kind="stable")]

    @property
    def slider_marks(self) -> list[tuple[float, float]]:
        """Places and values of the powers of ten on the slider."""
        taus = [] if self.slider is None else self.slider["tau"]
        last = max(1, len(taus) - 1)
        return [(i / last, tau) for i, tau in enumerate(taus) if f"{tau:.6e}".startswith("1.000000e")]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Names and values of the parameters of the estimator with the threshold."""
        found = sorted(self.rows.final.get_params(deep=False).items())
        return [(name, shortened(repr(value), _REPR_LENGTH)) for name, value in found]

    @property
    def pipeline(self) -> list[tuple[str, str]]:
        """The steps of a pipeline."""
        steps = self.rows.model.steps if isinstance(self.rows.model, Pipeline) else []
        return [("pipeline", " → ".join(type(step).__name__ for _, step in steps))] if steps else []

    def examples(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows nearest to the threshold, above it and below."""
        above, below = self.rows.nearest(self.n_examples)
        both = np.concatenate([above, below])
        reasons = reasons_for(self.rows, self.features, self.feature_names, both, _N_REASONS)
        found = [self._example(row, own) for row, own in zip(both.tolist(), reasons, strict=True)]
        return found[: above.size], found[above.size :]

    def _example(self, row: int, reasons: list[tuple[str, float]]) -> dict[str, Any]:
        value, threshold = float(self.rows.scores[row]), self.rows.threshold
        # A tie but for rounding is one.
        is_tie = abs(value - threshold) < 1e-9 * max(abs(value), abs(threshold))
        return {
            "name": self.row_names.name(row),
            "score": 0.0 if is_tie else _finite(value - threshold),
            "raw_score": value,
            "is_positive": bool(self.rows.is_positive[row]),
            "reasons": reasons,
        }

    def rounds_shown(self) -> dict[str, Any]:
        """Figures and a picture of the rounds, which must be there; no picture where none has a finite threshold."""
        assert self.evidence is not None
        assert self.evidence.rounds is not None
        rounds, final = self.evidence.rounds, self.rows.final
        numbers, _, mean, spread = finite_rounds(rounds.thresholds)
        # A model that was fitted anew on all rows has another scale than those of the rounds.
        is_refit = getattr(getattr(final, "threshold", None), "combine", "mean") == "refit"
        in_use = np.inf if is_refit else self.rows.threshold
        threshold = _finite(in_use)
        return {
            "picture": _pictures.rounds(rounds.thresholds, threshold) if numbers.size else None,
            "mean": mean,
            "spread": spread,
            "threshold": threshold,
            "n_over": rounds_over(rounds.fpr, self.evidence.tau),
            "n_infinite": len(rounds) - numbers.size,
        }

    @property
    def fingerprint(self) -> str:
        """A few digits that change with the scores or the labels, in whatever way."""
        found = hashlib.sha256(np.ascontiguousarray(self.rows.scores).data)
        found.update(np.packbits(self.rows.is_positive).data)
        return found.hexdigest()[:12]

    def data(self) -> dict[str, Any]:
        """What the script needs, and what others may want to read from the file."""
        rows, used, day = self.rows, self.used, self.cases.figures(self.used)
        recall_low, recall_high = used.recall_interval
        named = ("threshold", "fpr", "fpr_upper", "recall", "precision", "true_alarms", "false_alarms")
        found = {
            "tau": rows.tau,
            "delta": rows.delta,
            "promise": self.strength,
            "verdict": self.verdict(),
            "data_is_new": self.is_new,
            "n_seen_before": None if self.given.freshness is None else self.given.freshness.n_seen,
            "n_negative": used.n_negative,
            "n_positive": used.n_positive,
            "volume_per_day": self.cases.volume,
            "base_rate": self.cases.base_rate,
            "base_rates": list(self.cases.base_rates),
            "operating": {
                **{name: day[name] for name in named},
                "n_false": used.n_false,
                "n_true": used.n_true,
                "fpr_lower": used.fpr_lower,
                "recall_low": recall_low,
                "recall_high": recall_high,
                "precision_low": self.precision_low,
            },
            "slider": self.slider,
            "roc_low": _pictures.roc_axis(rows).low if used.n_negative else None,
            "raw_score_range": None if self.edges is None else [float(self.edges[0]), float(self.edges[-1])],
            "fingerprint": self.fingerprint,
            "segments": None if self.limit_rates is None else self.limit_rates.record(),
            "by": None if self.levels is None else self.levels.record(),
            "unseen": None if self.unseen_values is None else self.unseen_values.record(),
        }
        finite: dict[str, Any] = _finite(found)
        return finite


def _finite(value: Any) -> Any:
    """The same with None in the place of infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Levels(JudgedLevels):
    """Judged levels, or limits, that have a picture."""

    __slots__ = ()

    @property
    def tolerances(self) -> tuple[float, float]:
        """The strictest tolerance and the loosest."""
        taus = [each.tau for each in self.rates]
        return min(taus), max(taus)

    @property
    def height(self) -> int:
        """Pixels that the picture takes."""
        return 40 + 34 * len(self.rates)

    def picture(self) -> Picture:
        """FPR of each level with its bounds, and a mark at its tolerance; the rates are on a logarithmic axis."""
        low = min([self.tolerances[0], *(each.fpr for each in self.rates if each.fpr)]) / 10.0
        high = max([2.0 * self.tolerances[1], *(each.fpr_upper_bound for each in self.rates)])
        axis = PlotAxis(low, min(1.0, high), log=True)
        n = len(self.rates)
        shown = [(each, 1.0 - (place + 0.5) / n) for place, each in enumerate(self.rates)]

        def x(share: float) -> float:
            # A rate of 0 has no place on the axis; its dot stays whole at the left end.
            return max(axis.at(share), 0.006)

        paths = [
            ("line", "".join(interval_path(x(each.fpr_lower_bound), x(each.fpr_upper_bound), y) for each, y in shown)),
            ("dots", "".join(point_path(x(each.fpr), y) for each, y in shown if each.fpr is not None)),
            ("tolerance", "".join(mark_path(x(each.tau), y, 0.36 / n) for each, y in shown)),
        ]
        ticks = [(x(each), rate(each)) for each in axis.ticks()]
        return Picture(paths, ticks, [(y, shortened(each.level, _LEVEL_LENGTH)) for each, y in shown])


def limits_of_rows(rows: ScoredRows, column: str, is_new: bool | None) -> Levels | None:
    """The limits of a model with segments on some rows; None for other models."""
    if rows.segments is None:
        return None
    names, codes, _ = level_codes(rows.segments, "segments", rows.scores.size)
    counts = level_counts(codes, len(names), rows.is_positive, rows.is_flagged)
    rates = rates_of_limits(names, counts, rows.final.segments_, rows.final.tau, rows.delta)
    return Levels(column, tuple(rates), rows.delta, bool(is_new), are_limits=True)


def levels_of(rows: ScoredRows, levels: Any, column: str, is_new: bool | None) -> Levels | None:
    """Rates by level; None where none are given. Levels that are the model's segments have their own tolerances."""
    if levels is None:
        return None
    names, codes, _ = level_codes(levels, "by", rows.scores.size)
    counts = level_counts(codes, len(names), rows.is_positive, rows.is_flagged)
    own = None if rows.segments is None else level_codes(rows.segments)
    are_segments = own is not None and own.names == names and np.array_equal(own.codes, codes)
    tau = partial(tolerance_of, named=named_tolerances(rows.final.tau)) if are_segments else (lambda _: rows.tau)
    return Levels(column, tuple(rates_of_levels(names, counts, tau, rows.delta)), rows.delta, bool(is_new))
