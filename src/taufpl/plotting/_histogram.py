"""Histogram of both classes' scores, with the threshold between them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl.plotting import _style
from taufpl.plotting._scores import ClassScores, Vector, check_threshold, respond, split_scores
from taufpl.plotting.statistics import bin_counts, bin_edges


class ScoreDisplay:
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

    def __init__(
        self,
        *,
        negative_scores: Vector,
        positive_scores: Vector,
        threshold: float | None = None,
        name: str | None = None,
        bins: int | None = None,
        pos_label: Any = None,
    ) -> None:
        if bins is not None and bins < 2:
            raise ValueError(f"bins must be at least 2, or None to let the scores decide; got {bins!r}.")
        self.negative_scores, self.positive_scores = negative_scores, positive_scores
        self.threshold = check_threshold(threshold)
        self.name, self.bins, self.pos_label = name, bins, pos_label
        self.fpr: float | None = None
        self.tpr: float | None = None
        if self.threshold is not None:
            self.fpr, self.tpr = ClassScores(negative_scores, positive_scores, pos_label).rates(self.threshold)

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
        pos_label, name, bins, ax, log
            As for :meth:`from_predictions`.

        Returns
        -------
        display : ScoreDisplay
        """
        response = respond(estimator, X, pos_label)
        return cls.from_predictions(
            y,
            response.scores,
            threshold=response.threshold if threshold is None else threshold,
            pos_label=response.pos_label,
            name=type(estimator).__name__ if name is None else name,
            bins=bins,
            ax=ax,
            log=log,
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
        threshold : float, default=None
            A score strictly above it is called positive.
        pos_label : label, default=None
            The positive class; None for the second in sorted order.
        name : str, default=None
            Title.
        bins : int, default=None
            About how many; None lets the scores decide.
        ax : matplotlib axes, default=None
        log : bool, default=False
            Logarithmic shares: shows the few false positives of a small tolerance.

        Returns
        -------
        display : ScoreDisplay
        """
        scores = split_scores(y_true, y_score, pos_label)
        display = cls(
            negative_scores=scores.negative,
            positive_scores=scores.positive,
            threshold=threshold,
            name=name,
            bins=bins,
            pos_label=scores.pos_label,
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
        self.figure_, self.ax_ = _style.new_axes(ax, "to draw a histogram of scores")
        self.edges_ = bin_edges(self.negative_scores, self.positive_scores, self.threshold, self.bins)
        self.negative_share_ = bin_counts(self.negative_scores, self.edges_) / self.negative_scores.size
        self.positive_share_ = bin_counts(self.positive_scores, self.edges_) / self.positive_scores.size
        above = self.edges_[:-1] >= (np.inf if self.threshold is None else self.threshold)
        self._draw_class(self.negative_share_, above, _style.NEGATIVE, self._negative_label())
        # Without a threshold nothing is an error.
        missed = np.zeros_like(above) if self.threshold is None else ~above
        self._draw_class(self.positive_share_, missed, _style.POSITIVE, self._positive_label())
        self._frame(log)
        return self

    def _draw_class(self, share: Vector, is_error: Any, colour: str, label: str) -> None:
        fill: dict[str, Any] = {"fill": True, "color": colour, "linewidth": 0}
        self.ax_.stairs(share, self.edges_, alpha=0.3, label=label, **fill)
        self.ax_.stairs(np.where(is_error, share, 0.0), self.edges_, alpha=0.55, **fill)
        # The outline keeps the class behind readable where the two overlap.
        self.ax_.stairs(share, self.edges_, color=colour, linewidth=1.3)

    def _negative_label(self) -> str:
        n = self.negative_scores.size
        if self.fpr is None:
            return f"{n:,} negatives"
        return f"{n:,} negatives: {round(self.fpr * n):,} above (dark), FPR {_style.percent(self.fpr)}"

    def _positive_label(self) -> str:
        m = self.positive_scores.size
        if self.tpr is None:
            return f"{m:,} positives"
        return f"{m:,} positives: {m - round(self.tpr * m):,} missed (dark), TPR {_style.percent(self.tpr)}"

    def _frame(self, log: bool) -> None:
        ax = self.ax_
        if log:
            ax.set_yscale("log")
            ax.set_ylim(bottom=0.5 / max(self.negative_scores.size, self.positive_scores.size))
        threshold = self.threshold
        if threshold is not None and self.edges_[0] <= threshold <= self.edges_[-1]:
            ax.axvline(threshold, color=_style.TOLERANCE, linestyle="--", linewidth=1.1)
            _style.name_line(ax, threshold, f"threshold {threshold:.3g}")
        ax.set(xlim=(self.edges_[0], self.edges_[-1]), xlabel="Score", ylabel="Share of the class, per bin")
        _style.percent_axis(ax.yaxis)
        _style.tidy(ax)
        _style.title(ax, "Scores of both classes" if self.name is None else self.name)
        _style.legend_below(ax)
