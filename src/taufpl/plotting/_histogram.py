"""Histogram of both classes' scores, with the threshold between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl._types import Vector
from taufpl.plotting import style
from taufpl.plotting._display import Display, display_name
from taufpl.plotting._scores import check_threshold, respond, split_scores
from taufpl.plotting.statistics import bin_counts, bin_edges, rates_above


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreDisplay(Display):
    """Histogram of the scores of both classes, each as shares of its class, with the threshold and its errors.

    A bin ends at the threshold, so that no bar straddles it; bars of errors are dark, those of right decisions light.
    The range leaves out the .2 % most extreme scores of either class at either end, and those more than five times the
    distance of the quartiles beyond them; they are counted in the outermost bins. The threshold is always in it.

    Make it by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    negative_scores, positive_scores : ndarray
        Sorted upward.
    threshold : float, default=None
        A score strictly above it is called positive. None draws no threshold.
    name : str, default=None
        Title.
    bins : int, default=None
        About how many; None lets the scores decide, between 20 and 60.

    Attributes
    ----------
    fpr, tpr : float or None
        Shares of the two classes above the threshold.
    edges_ : ndarray of shape (n_bins + 1,)
    negative_share_, positive_share_ : ndarray of shape (n_bins,)
        Heights of the bars; each sums to 1. All three after `plot`.
    ax_, figure_ : matplotlib objects
        After `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.plotting import ScoreDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> score = rng.normal(size=2200) + 2.5 * y
    >>> display = ScoreDisplay.from_predictions(y, score, threshold=2.3)
    >>> print(f"{display.fpr:.4f} {display.tpr:.3f}")
    0.0095 0.545
    """

    _purpose = "to draw a histogram of scores"

    negative_scores: Vector
    positive_scores: Vector
    threshold: float | None = None
    name: str | None = None
    bins: int | None = None
    pos_label: Any = None

    def __post_init__(self) -> None:
        if self.bins is not None and self.bins < 2:
            raise ValueError(f"bins must be at least 2, or None to let the scores decide; got {self.bins!r}.")
        self.threshold = check_threshold(self.threshold)
        self.fpr: float | None = None
        self.tpr: float | None = None
        if self.threshold is not None:
            self.fpr, self.tpr = rates_above(self.negative_scores, self.positive_scores, self.threshold)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        threshold: float | None = None,
        pos_label: Any = None,
        name: str | None = None,
        bins: int | None = None,
        ax: Any = None,
        log: bool = False,
    ) -> Self:
        """Draw the scores that a fitted estimator gives.

        Parameters
        ----------
        estimator : estimator
            With `decision_function`, or `predict_proba` and `classes_`.
        X : array-like of shape (n_samples, n_features)
            Samples that the estimator was not fitted on.
        y : array-like of shape (n_samples,)
        threshold : float, default=None
            None is 0 for a decision function and 1/2 for probabilities.
        name : str, default=None
            Title; None for the estimator's class.
        pos_label, bins, ax, log
            As for :meth:`from_predictions`; the positive class is the estimator's second one where it is not given.

        Returns
        -------
        display : ScoreDisplay
        """
        scores, own, pos_label = respond(estimator, X, pos_label)
        threshold, name = own if threshold is None else threshold, display_name(estimator, name)
        return cls.from_predictions(
            y, scores, threshold=threshold, pos_label=pos_label, name=name, bins=bins, ax=ax, log=log
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        threshold: float | None = None,
        pos_label: Any = None,
        name: str | None = None,
        bins: int | None = None,
        ax: Any = None,
        log: bool = False,
    ) -> Self:
        """Draw scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels of two classes.
        y_score : array-like of shape (n_samples,)
            Higher for samples that look more positive.
        threshold, name, bins
            As for the class.
        pos_label : label, default=None
            The positive class; None for the second in sorted order.
        ax : matplotlib axes, default=None
        log : bool, default=False
            Logarithmic shares: shows the few false positives of a small tolerance.

        Returns
        -------
        display : ScoreDisplay
        """
        negative, positive, pos_label = split_scores(y_true, y_score, pos_label)
        display = cls(
            negative_scores=negative,
            positive_scores=positive,
            threshold=threshold,
            name=name,
            bins=bins,
            pos_label=pos_label,
        )
        return display.plot(ax=ax, log=log)

    def plot(self, ax: Any = None, *, log: bool = False) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            New ones if None.
        log : bool, default=False
            Logarithmic shares.

        Returns
        -------
        display : ScoreDisplay
        """
        ax, threshold = self._open(ax), self.threshold
        self.edges_ = bin_edges(self.negative_scores, self.positive_scores, threshold, self.bins)
        n, m = self.negative_scores.size, self.positive_scores.size
        self.negative_share_ = bin_counts(self.negative_scores, self.edges_) / n
        self.positive_share_ = bin_counts(self.positive_scores, self.edges_) / m
        negatives, positives = f"{n:,} negatives", f"{m:,} positives"
        # Without a threshold nothing is an error.
        is_above = is_missed = np.zeros(self.negative_share_.size, dtype=np.bool_)
        if threshold is not None and self.fpr is not None and self.tpr is not None:
            is_above = self.edges_[:-1] >= threshold
            is_missed = ~is_above
            negatives += f": {round(self.fpr * n):,} above (dark), FPR {style.percent(self.fpr)}"
            positives += f": {m - round(self.tpr * m):,} missed (dark), TPR {style.percent(self.tpr)}"
        self._draw_class(self.negative_share_, is_above, style.NEGATIVE, negatives)
        self._draw_class(self.positive_share_, is_missed, style.POSITIVE, positives)
        if log:
            ax.set_yscale("log")
            ax.set_ylim(bottom=0.5 / max(n, m))
        if threshold is not None and self.edges_[0] <= threshold <= self.edges_[-1]:
            ax.axvline(threshold, color=style.TOLERANCE, linestyle="--", linewidth=1.1)
            style.name_line(ax, threshold, f"threshold {threshold:.3g}")
        ax.set(xlim=(self.edges_[0], self.edges_[-1]), xlabel="Score", ylabel="Share of the class, per bin")
        style.percent_axis(ax.yaxis)
        style.tidy(ax)
        style.title(ax, "Scores of both classes" if self.name is None else self.name)
        style.legend_below(ax)
        return self

    def _draw_class(self, share: Vector, is_error: Any, colour: str, label: str) -> None:
        fill: dict[str, Any] = {"fill": True, "color": colour, "linewidth": 0}
        self.ax_.stairs(share, self.edges_, alpha=0.3, label=label, **fill)
        self.ax_.stairs(np.where(is_error, share, 0.0), self.edges_, alpha=0.55, **fill)
        # The outline keeps the class behind readable where the two overlap.
        self.ax_.stairs(share, self.edges_, color=colour, linewidth=1.3)
