"""The numbers behind the pictures, without matplotlib: ROC curves with their bands, bins of scores, rounds.

At a fixed threshold the numbers of false and of true positives are independent binomials, so that intervals for FPR
and TPR, each missing with probability a = 1 - sqrt(confidence), make a rectangle that holds the true point with the
wanted confidence. The band of a ROC curve is the union of the rectangles of all thresholds.

pointwise
    Clopper-Pearson intervals. At an FPR of f, the true TPR belongs to one fixed, unknown threshold, whose rectangle
    is part of the union: so for each f alone, the band's cut at f holds the true TPR with the wanted confidence or
    more. The intervals shrink with the rate, so that the band says something at small FPR.
simultaneous
    Intervals of width sqrt(log(2/a) / (2 n)) on either side (Dvoretzky, Kiefer, Wolfowitz, Massart; for ROC curves
    Campbell, 1994): the whole curve lies in the band with the wanted confidence. The width does not shrink with the
    rate: FPR under about 1/sqrt(n) cannot be told from 0.

Where scores are tied, the statements hold for the FPRs that some threshold reaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from taufpl._types import Counts, RowIndices, Vector
from taufpl.planning import NPRoc, share_intervals

# A score outside these quantiles of its class, or further from its quartiles than this many times their distance, is
# counted in the outermost bins.
_OUTER, _FENCE = 0.002, 5.0
_FEWEST_BINS, _MOST_BINS = 20, 60


@dataclass(frozen=True, slots=True)
class Band:
    """Rectangles (FPR from, FPR to) x (TPR from, TPR to), one a threshold, from the highest threshold down."""

    fpr_lower: Vector
    fpr_upper: Vector
    tpr_lower: Vector
    tpr_upper: Vector

    def at(self, fpr: Vector | float) -> tuple[Vector, Vector]:
        """Lowest and highest TPR of the union of rectangles at each FPR."""
        # All four arrays rise together, so that the first rectangle reaching fpr is the lowest, the last the highest.
        first = np.searchsorted(self.fpr_upper, fpr, side="left")
        last = np.maximum(np.searchsorted(self.fpr_lower, fpr, side="right") - 1, 0)
        # Between two rectangles, as ties leave them apart, the threshold on the left is the one to take.
        return self.tpr_lower[np.minimum(first, last)], self.tpr_upper[last]

    def steps(self, smallest: float) -> tuple[Vector, Vector, Vector]:
        """FPRs from `smallest` to 1 where an edge of the union steps, and both edges just after each."""
        fpr = np.unique(np.concatenate(([smallest, 1.0], self.fpr_lower, self.fpr_upper)))
        fpr = fpr[fpr >= smallest]
        between = np.append((fpr[1:] + fpr[:-1]) / 2.0, 1.0)
        return fpr, *self.at(between)


def count_above(ascending: Vector, threshold: float) -> int:
    """How many of some sorted scores lie strictly above a threshold."""
    return int(ascending.size - np.searchsorted(ascending, threshold, side="right"))


def rates_above(negative: Vector, positive: Vector, threshold: float) -> tuple[float, float]:
    """FPR and TPR of calling positive what lies strictly above the threshold, of sorted scores."""
    return count_above(negative, threshold) / negative.size, count_above(positive, threshold) / positive.size


def curve_counts(negative: Vector, positive: Vector) -> tuple[Counts, Counts]:
    """False and true positives at every threshold that changes either, from (0, 0) to (n, m), of sorted scores."""
    levels = np.unique(np.concatenate((negative, positive)))[::-1]
    false, true = (
        np.append(0, scores.size - np.searchsorted(scores, levels, side="left")) for scores in (negative, positive)
    )
    return false.astype(np.int64), true.astype(np.int64)


def smallest_rate(n_negative: int | None, tau: float | None) -> float:
    """Left end of a logarithmic FPR axis: half a false positive, or a third of the tolerance where that is less."""
    half = 1e-4 if n_negative is None else 0.5 / n_negative
    return half if tau is None else min(half, tau / 3.0)


def roc_band(false: Counts, true: Counts, n_negative: int, n_positive: int, kind: str, confidence: float) -> Band:
    """Rectangles around the points of a ROC curve.

    Examples
    --------
    No false positive among 59 negatives: with 95 %, FPR is under 5 % or so, since .95^59 = .048.

    >>> import numpy as np
    >>> band = roc_band(np.array([0]), np.array([40]), 59, 50, "pointwise", 0.95**2)
    >>> print(f"{band.fpr_lower[0]:.3f} {band.fpr_upper[0]:.3f}")
    0.000 0.061
    """
    check_confidence(confidence)
    miss = 1.0 - math.sqrt(confidence)
    kept = _visible(false, true, n_positive)
    intervals = share_intervals if kind == "pointwise" else _fixed_width
    return Band(*intervals(false[kept], n_negative, miss), *intervals(true[kept], n_positive, miss))


def check_confidence(confidence: float) -> None:
    """Refuse what is no confidence."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}. Usual is 0.95.")


def _visible(false: Counts, true: Counts, n_positive: int) -> RowIndices:
    """Thresholds that the eye can tell apart: .25 % in FPR or .1 points in TPR. The first few all can."""
    across = np.floor(400.0 * np.log1p(false))
    up = np.floor(1000.0 * true / n_positive)
    new = (np.diff(across) > 0) | (np.diff(up) > 0)
    return np.flatnonzero(np.concatenate(([True], new[:-1], [True])) if new.size else np.ones(1, dtype=bool))


def _fixed_width(counts: Counts, total: int, miss: float) -> tuple[Vector, Vector]:
    width = math.sqrt(math.log(2.0 / miss) / (2.0 * total))
    rates = counts / total
    return np.maximum(rates - width, 0.0), np.minimum(rates + width, 1.0)


def np_roc_steps(curve: NPRoc) -> tuple[Vector, Vector, Vector, Vector]:
    """Tolerances at which NP-ROC steps, up to 1, and the recall from each on: lowest, highest and measured."""
    low, high, middle = (np.append(each, each[-1]) for each in (curve.recall_low, curve.recall_high, curve.recall))
    return np.append(curve.tolerances, 1.0), low, high, middle


def bin_edges(negative: Vector, positive: Vector, threshold: float | None, bins: int | None = None) -> Vector:
    """Equal bins over all but the most extreme scores, one edge on the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> bin_edges(np.array([0.0, 1.0]), np.array([1.0, 2.0]), threshold=0.9, bins=4)
    array([-0.098,  0.401,  0.9  ,  1.399,  1.898,  2.397])
    """
    finite = [scores[np.isfinite(scores)] for scores in (negative, positive)]
    ends = [_usual_range(scores) for scores in finite if scores.size]
    if threshold is not None and np.isfinite(threshold):
        ends.append((threshold, threshold))
    low, high = (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else (0.0, 0.0)
    if not high - low > 1e-12 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    count = _bin_count(finite, high - low) if bins is None else bins
    width = (high - low) / count
    if threshold is None or not np.isfinite(threshold):
        return np.linspace(low, high, count + 1)
    # One more bin on either side of the threshold where the range would end there.
    before = max(int(np.ceil((threshold - low) / width)), 1)
    after = max(int(np.ceil((high - threshold) / width)), 1)
    return np.asarray(threshold + width * np.arange(-before, after + 1), dtype=np.float64)


def _usual_range(scores: Vector) -> tuple[float, float]:
    """Ends of all but the most extreme scores of a class."""
    low, lower, upper, high = (float(end) for end in np.quantile(scores, (_OUTER, 0.25, 0.75, 1.0 - _OUTER)))
    # Quantiles alone would follow a single far score of a small class. Where most scores are tied, only they can tell.
    reach = _FENCE * (upper - lower) if upper > lower else np.inf
    return max(low, lower - reach), min(high, upper + reach)


def _bin_count(classes: list[Vector], span: float) -> int:
    """Count by Freedman and Diaconis's rule, for the class that asks for the narrower bins."""
    widths = []
    for scores in classes:
        if scores.size:
            spread = float(np.subtract(*np.quantile(scores, (0.75, 0.25))))
            widths.append(2.0 * spread / scores.size ** (1.0 / 3.0))
    narrow = min((width for width in widths if width > 0), default=span / _FEWEST_BINS)
    return int(np.clip(np.ceil(span / narrow), _FEWEST_BINS, _MOST_BINS))


def bin_counts(scores: Vector, edges: Vector) -> Counts:
    """Number of scores in each bin (a, b]; what lies outside is counted in the outermost bins."""
    # Closed at the right: a score at the threshold is not above it.
    inside = np.searchsorted(edges, scores, side="left") - 1
    return np.bincount(np.clip(inside, 0, edges.size - 2), minlength=edges.size - 1)


def finite_rounds(thresholds: Vector) -> tuple[RowIndices, Vector, float, float]:
    """Numbers, from 1, and thresholds of the rounds that found a finite one; their mean and standard deviation."""
    is_finite = np.isfinite(thresholds)
    found = thresholds[is_finite]
    mean = float(found.mean()) if found.size else np.nan
    return 1 + np.flatnonzero(is_finite), found, mean, float(found.std(ddof=1)) if found.size > 1 else 0.0


def rounds_over(fpr: Vector, tau: float) -> int:
    """Number of rounds whose FPR on the rows left out is above the tolerance, but for rounding."""
    return int(np.count_nonzero(fpr > tau * (1.0 + 4e-16)))
