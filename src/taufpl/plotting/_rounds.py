"""Thresholds of out-of-bootstrap rounds, and their rates on the samples that each round left out."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from taufpl._checks import check_scores
from taufpl.plotting import style
from taufpl.plotting._display import PanelDisplay, display_name
from taufpl.plotting._scores import check_threshold, check_tolerance, find_attribute
from taufpl.plotting.statistics import finite_rounds, rounds_over


class RoundsDisplay(PanelDisplay):
    """Thresholds of the rounds with their mean and spread; beside them, out-of-bag FPR against TPR.

    Make it by :meth:`from_estimator`, or from arrays with the constructor and `plot`.

    Parameters
    ----------
    thresholds, fpr, tpr : array-like of shape (n_rounds,)
        One a round: the threshold chosen, and the rates it has on the samples that the round left out.
    tau : float, default=None
        Tolerance on the false-positive rate.
    threshold : float, default=None
        The threshold in use at the end; None for the mean of the rounds.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib axes
        After `plot`, as is `figure_`.

    Examples
    --------
    >>> from taufpl.plotting import RoundsDisplay
    >>> display = RoundsDisplay([2.1, 2.4, 2.2], fpr=[0.012, 0.007, 0.01], tpr=[0.66, 0.58, 0.61], tau=0.01)
    >>> display.n_over
    1
    >>> display = display.plot()
    """

    _purpose = "to draw rounds"
    _layout: ClassVar = {"columns": 2, "size": (9.0, 4.6)}

    def __init__(
        self,
        thresholds: ArrayLike,
        fpr: ArrayLike,
        tpr: ArrayLike,
        *,
        tau: float | None = None,
        threshold: float | None = None,
        name: str | None = None,
    ) -> None:
        self.thresholds = check_scores("thresholds", thresholds)
        self.fpr, self.tpr = check_scores("fpr", fpr), check_scores("tpr", tpr)
        check_consistent_length(self.thresholds, self.fpr, self.tpr)
        self.tau = check_tolerance(tau)
        self.threshold = check_threshold(threshold)
        self.name = name

    @property
    def n_over(self) -> int | None:
        """Rounds whose out-of-bag FPR is above the tolerance."""
        return None if self.tau is None else rounds_over(self.fpr, self.tau)

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the rounds of a classifier fitted with out-of-bootstrap thresholds.

        Parameters
        ----------
        estimator : estimator
            Fitted; its `evidence_` is a :class:`taufpl.thresholding.Evidence` with rounds.
        name : str, default=None
            Title; None for the estimator's class.
        ax : sequence of two matplotlib axes, default=None

        Returns
        -------
        display : RoundsDisplay
        """
        check_is_fitted(estimator)
        evidence = find_attribute(estimator, "evidence_")
        rounds = getattr(evidence, "rounds", None)
        if rounds is None:
            raise ValueError(
                f"estimator must have been fitted with out-of-bootstrap rounds, and this {type(estimator).__name__} "
                "has none. Fit it with threshold='oob'."
            )
        display = cls(
            rounds.thresholds,
            rounds.fpr,
            rounds.tpr,
            tau=evidence.tau,
            threshold=evidence.threshold,
            name=display_name(estimator, name),
        )
        return display.plot(ax=ax)

    def _draw(self, first: Any, second: Any) -> None:
        self._draw_thresholds(first)
        self._draw_rates(second)
        for panel in (first, second):
            style.legend_below(panel)

    def _draw_thresholds(self, ax: Any) -> None:
        numbers, found, mean, spread = finite_rounds(self.thresholds)
        n_infinite = self.thresholds.size - numbers.size
        refused = f" ({n_infinite} infinite, not shown)" if n_infinite else ""
        ax.plot(numbers, found, "o", color=style.BLUE, markersize=5, label=f"threshold of a round{refused}")
        if found.size:
            ax.axhspan(mean - spread, mean + spread, color=style.BLUE, alpha=0.13, linewidth=0)
            label = f"mean {mean:.4g}, standard deviation {spread:.2g}"
            ax.axhline(mean, color=style.BLUE, linewidth=1.4, label=label)
        if self.threshold is not None and np.isfinite(self.threshold):
            label = f"in use: {self.threshold:.4g}"
            ax.axhline(self.threshold, color=style.BLACK, linewidth=1.2, linestyle="--", label=label)
        ax.xaxis.set_major_locator(style.matplotlib("ticker").MaxNLocator(integer=True))
        ax.set(xlabel="Round", ylabel="Threshold (score)")
        style.title(ax, "Thresholds" if self.name is None else f"{self.name}: thresholds")

    def _draw_rates(self, ax: Any) -> None:
        label = "a round" if self.n_over is None else f"a round ({self.n_over} of {self.fpr.size} above τ)"
        ax.plot(self.fpr, self.tpr, "o", color=style.BLUE, markersize=5, label=label)
        fpr, tpr = float(self.fpr.mean()), float(self.tpr.mean())
        label = f"mean: FPR {style.percent(fpr)}, TPR {style.percent(tpr)}"
        ax.plot(fpr, tpr, "D", color=style.VERMILLION, markersize=8, markeredgecolor="white", label=label)
        right = 1.08 * max(float(self.fpr.max()), 0.0 if self.tau is None else 1.25 * self.tau)
        ax.set_xlim(0.0, right if right > 0 else 1.0)
        if self.tau is not None:
            style.mark_tolerance(ax, self.tau, shade=True)
        ax.set(xlabel="Out-of-bag false-positive rate", ylabel="Out-of-bag true-positive rate")
        style.percent_axis(ax.xaxis)
        style.percent_axis(ax.yaxis)
        style.title(ax, "Out-of-bag rates")
