"""Displays for the life of a screen: a plan for labels, and the course of a monitored false-positive rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from taufpl._checks import check_delta, check_tau
from taufpl.monitoring import FPRMonitor, MonitorHistory
from taufpl.planning import LabelPlan, PlannedLabels
from taufpl.plotting import style
from taufpl.plotting._display import Display, PanelDisplay

# Both ways to spend negatives: a name, how many are needed for one that chooses, and the look of the curve.
_WAYS = (
    ("all choose the threshold", 1, style.BLUE, "o", "-"),
    ("a fit holds half of them out", 2, style.VERMILLION, "D", "--"),
)
# How far above an alarm's level the evidence is shown, and how far below 0: what has been settled need not be followed.
_HEADROOM = 1.5
# Colour and name of the two courses of evidence.
_OVER_ALL = (style.BLACK, "evidence over all negatives; alarm at log(1/δ)")
_CHANGE = (style.VERMILLION, "evidence of a change; signal at the log of the run length N")


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


@dataclass(kw_only=True, eq=False, repr=False)
class MonitorDisplay(PanelDisplay):
    """Running FPR with its bounds and the tolerance; below, the evidence of both alarms and their levels.

    Each bound holds at all looks together, and the evidence over all negatives reaches log(1/delta) where the lower one
    passes tau. The evidence of a change reaches log(run_length) sooner after a good past. Of the first 1/tau negatives,
    whose running rate jumps about, and of evidence far beyond an alarm, the picture may show only a part.

    Make it by :meth:`from_monitor`.

    Parameters
    ----------
    history : MonitorHistory
    tau, delta : float
    alarm_at : int, default=None
        Number of negatives at which the alarm was raised; None for no alarm.
    run_length : float, default=None
        Level of the evidence of a change; None draws none.
    change_at : int, default=None
        Number of negatives at which a change was signalled; None for no signal.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib axes
        After `plot`, as is `figure_`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.monitoring import FPRMonitor
    >>> from taufpl.plotting import MonitorDisplay
    >>> rng = np.random.default_rng(0)
    >>> monitor = FPRMonitor(tau=0.01)
    >>> monitor.update(rng.random(20_000) < np.repeat([0.008, 0.03], 10_000))
    True
    >>> display = MonitorDisplay.from_monitor(monitor)
    >>> display.alarm_at == monitor.alarm_at
    True
    """

    _purpose = "to draw a monitor"
    _layout: ClassVar = {"rows": 2, "size": (8.0, 6.0), "sharex": True, "height_ratios": (3, 2)}

    history: MonitorHistory
    tau: float
    delta: float
    alarm_at: int | None = None
    run_length: float | None = None
    change_at: int | None = None

    def __post_init__(self) -> None:
        if len(self.history.n_seen) == 0:
            raise ValueError("history must hold at least one point, got none. Feed the monitor with update first.")
        self.tau, self.delta = check_tau(self.tau), check_delta(self.delta)

    @classmethod
    def from_monitor(cls, monitor: FPRMonitor, *, ax: Any = None) -> Self:
        """Draw what a monitor has seen.

        Parameters
        ----------
        monitor : FPRMonitor
        ax : sequence of two matplotlib axes, default=None

        Returns
        -------
        display : MonitorDisplay
        """
        display = cls(
            history=monitor.history,
            tau=monitor.tau,
            delta=monitor.delta,
            alarm_at=monitor.alarm_at,
            run_length=monitor.run_length if math.isfinite(monitor.run_length) else None,
            change_at=monitor.change_at,
        )
        return display.plot(ax=ax)

    def _draw(self, first: Any, second: Any) -> None:
        self._draw_rate(first)
        self._draw_evidence(second)
        for panel in (first, second):
            panel.set_xlim(0, 1.01 * float(self.history.n_seen[-1]))
        self._mark_alarms()
        style.legend_below(second, columns=2, of=first)

    def _draw_rate(self, ax: Any) -> None:
        seen, fpr = self.history.n_seen, self.history.fpr
        lower, upper = self.history.fpr_lower_bound, self.history.fpr_upper_bound
        ax.plot(seen, fpr, color=style.BLUE, linewidth=1.6, label="false-positive rate so far")
        label = f"its bounds, each {style.percent(1.0 - self.delta)} at all looks together"
        ax.plot(seen, lower, color=style.SKY, linewidth=1.2, label=label)
        ax.plot(seen, upper, color=style.SKY, linewidth=1.2)
        ax.fill_between(seen, lower, upper, color=style.SKY, alpha=0.15, linewidth=0)
        settled = fpr[seen >= min(1.0 / self.tau, float(seen[-1]))]
        ax.set_ylim(0.0, 1.1 * max(2.0 * self.tau, min(float(settled.max()), 5.0 * float(fpr[-1]))))
        ax.set_ylabel("False-positive rate")
        style.percent_axis(ax.yaxis)
        style.mark_tolerance(ax, self.tau, horizontal=True)
        style.title(ax, "Monitored false-positive rate")

    def _draw_evidence(self, ax: Any) -> None:
        courses = [(self.history.log_wealth, -math.log(self.delta), "log(1/δ)", *_OVER_ALL)]
        if self.run_length is not None:
            courses.append((self.history.log_change_evidence, math.log(self.run_length), "log(N)", *_CHANGE))
        for evidence, level, name, colour, label in courses:
            ax.plot(self.history.n_seen, evidence, color=colour, linewidth=1.4)
            ax.axhline(level, color=colour, linestyle="--", linewidth=1.1)
            style.name_line(ax, level, name, horizontal=True, colour=colour)
            self.ax_[0].plot([], [], color=colour, linewidth=1.4, label=label)  # for the legend of both panels
        highest = max(level for _, level, *_ in courses)
        top = max(float(evidence.max()) for evidence, *_ in courses)
        bottom = min(float(evidence.min()) for evidence, *_ in courses)
        ax.set_ylim(max(1.1 * bottom, -_HEADROOM * highest), np.clip(1.1 * top, 1.15 * highest, _HEADROOM * highest))
        ax.set(xlabel="Negatives seen", ylabel="Evidence against τ\n(logarithm)")
        ax.xaxis.set_major_formatter(style.matplotlib("ticker").StrMethodFormatter("{x:,.0f}"))

    def _mark_alarms(self) -> None:
        """A line through both panels at each alarm, named above them, on its own side of the other one."""
        alarms = [(self.change_at, "change after", _CHANGE[0]), (self.alarm_at, "alarm after", _OVER_ALL[0])]
        raised = [(at, f"{name} {at:,}", colour) for at, name, colour in alarms if at is not None]
        earliest = min((at for at, *_ in raised), default=None)
        for at, text, colour in raised:
            for panel in self.ax_:
                panel.axvline(at, color=colour, linewidth=1.4)
            side = "center" if len(raised) == 1 else "right" if at == earliest else "left"
            style.name_line(self.ax_[0], at, text, colour=colour, side=side)
