"""Confidence bands of a ROC curve.

At a fixed threshold the numbers of false and of true positives are independent binomials, so that intervals for FPR
and TPR, each missing with probability a = 1 - sqrt(confidence), make a rectangle that holds the true point with the
wanted confidence. The band is the union of the rectangles of all thresholds.

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
from numpy.typing import NDArray

from taufpl.plotting._scores import ClassScores, Vector
from taufpl.thresholding import fpr_upper_bound

Counts = NDArray[np.int64]

BANDS = ("pointwise", "simultaneous")


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


def curve_counts(scores: ClassScores) -> tuple[Counts, Counts]:
    """False and true positives at every threshold that changes either, from (0, 0) to (n, m)."""
    levels = np.unique(np.concatenate((scores.negative, scores.positive)))[::-1]
    false = scores.negative.size - np.searchsorted(scores.negative, levels, side="left")
    true = scores.positive.size - np.searchsorted(scores.positive, levels, side="left")
    return np.concatenate(([0], false)).astype(np.int64), np.concatenate(([0], true)).astype(np.int64)


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
    if kind not in BANDS:
        raise ValueError(f"band must be one of {BANDS} or None, got {kind!r}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}. Usual is 0.95.")
    miss = 1.0 - math.sqrt(confidence)
    kept = _visible(false, true, n_positive)
    intervals = _clopper_pearson if kind == "pointwise" else _fixed_width
    return Band(*intervals(false[kept], n_negative, miss), *intervals(true[kept], n_positive, miss))


def _visible(false: Counts, true: Counts, n_positive: int) -> NDArray[np.intp]:
    """Thresholds that the eye can tell apart: .25 % in FPR or .1 points in TPR. The first few all can."""
    across = np.floor(400.0 * np.log1p(false))
    up = np.floor(1000.0 * true / n_positive)
    new = (np.diff(across) > 0) | (np.diff(up) > 0)
    return np.flatnonzero(np.concatenate(([True], new[:-1], [True])) if new.size else np.ones(1, dtype=bool))


def _clopper_pearson(counts: Counts, total: int, miss: float) -> tuple[Vector, Vector]:
    upper = np.asarray(fpr_upper_bound(counts, total, miss / 2.0))
    return 1.0 - np.asarray(fpr_upper_bound(total - counts, total, miss / 2.0)), upper


def _fixed_width(counts: Counts, total: int, miss: float) -> tuple[Vector, Vector]:
    width = math.sqrt(math.log(2.0 / miss) / (2.0 * total))
    rates = counts / total
    return np.maximum(rates - width, 0.0), np.minimum(rates + width, 1.0)
