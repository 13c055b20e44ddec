"""A plan for labels as a picture: what more negatives bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from taufpl.planning import LabelPlan, PlannedLabels
from taufpl.plotting import style
from taufpl.plotting._display import Display

# Both ways to spend negatives: a name, how many are needed for one that chooses, and the look of the curve.
_WAYS = (
    ("all choose the threshold", 1, style.BLUE, "o", "-"),
    ("a fit holds half of them out", 2, style.VERMILLION, "D", "--"),
)


class LabelPlanDisplay(Display):
    """Usable share of a tolerance against the number of negatives, and the recall where the plan tells it.

    Parameters
    ----------
    plan : LabelPlan
        As :func:`taufpl.planning.plan_labels` returns it.

    Attributes
    ----------
    figure_ : matplotlib figure
    ax_ : matplotlib axes, or an array of two where the plan tells the recall

    Examples
    --------
    >>> from taufpl.planning import plan_labels
    >>> from taufpl.plotting import LabelPlanDisplay
    >>> display = LabelPlanDisplay.from_plan(plan_labels(tau=0.001, negatives=5000))
    >>> display.ax_.get_xlabel()
    'Negatives (logarithmic)'
    """

    _purpose = "to draw a plan for labels"

    def __init__(self, plan: LabelPlan) -> None:
        self.plan = plan

    @classmethod
    def from_plan(cls, plan: LabelPlan, *, ax: Any = None) -> Self:
        """Draw a plan.

        Parameters
        ----------
        plan : LabelPlan
        ax : matplotlib axes, or two of them where the plan tells the recall; default=None
            New ones if None.

        Returns
        -------
        LabelPlanDisplay
        """
        return cls(plan).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, or two of them where the plan tells the recall; default=None
            New ones if None.

        Returns
        -------
        LabelPlanDisplay
            Itself.
        """
        has_recall = any(each.recall is not None for each in self.plan.curve)
        panels = 2 if has_recall else 1
        self.figure_, self.ax_ = style.new_axes(ax, self._purpose, columns=panels, size=(5.6 * panels + 1.0, 4.8))
        usable, *recall = np.atleast_1d(np.asarray(self.ax_, dtype=object))
        self._draw(usable, "usable_share", "Share of the tolerance in use, mean")
        style.title(usable, f"Negatives for τ = {style.percent(self.plan.tau)}, δ = {style.percent(self.plan.delta)}")
        for panel in recall:
            self._draw(panel, "recall", "Recall, mean")
            self._draw_band(panel)
            style.title(panel, "What they find")
        for panel in (usable, *recall):
            panel.set(xlabel="Negatives (logarithmic)")
            style.tidy(panel)
            style.legend_below(panel)
        return self

    def _draw(self, ax: Any, name: str, label: str) -> None:
        for (text, times, colour, marker, dashes), marked in zip(
            _WAYS, (self.plan.all_choose, self.plan.held_out), strict=True
        ):
            x, y = _series(self.plan.curve, name)
            ax.plot(times * x, y, dashes, color=colour, linewidth=1.8, label=text)
            points = [(each.n_negative, getattr(each, name)) for each in marked if each.n_above is not None]
            for place in points:
                ax.plot(*place, marker, color=colour, markersize=6, zorder=4)
        ax.set_xscale("log")
        ax.set(ylim=(0.0, 1.02), ylabel=label)
        style.percent_axis(ax.yaxis)
        ax.xaxis.set_major_formatter(style.matplotlib("ticker").FuncFormatter(lambda count, _: f"{count:,.0f}"))
        style.mark_line(ax, self.plan.n_needed, f"{self.plan.n_needed:,} needed")

    def _draw_band(self, ax: Any) -> None:
        (_, times, colour, _, _), confidence = _WAYS[0], style.percent(1.0 - self.plan.delta)
        x, ends = _series(self.plan.curve, "recall_interval")
        low, high = ends.T
        label = f"{confidence} confidence, approximate"
        ax.fill_between(times * x, low, high, color=colour, alpha=0.16, linewidth=0, label=label)


def _series(curve: Sequence[PlannedLabels], name: str) -> tuple[Any, Any]:
    """Numbers of negatives, and something about each."""
    return np.array([each.n_negative for each in curve]), np.array([getattr(each, name) for each in curve])
