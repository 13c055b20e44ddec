"""The course of a monitored false-positive rate."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from taufpl._extras import require
from taufpl.monitoring import FPRMonitor, MonitorHistory
from taufpl.plotting import _style
from taufpl.thresholding._checks import check_delta, check_tau

# How far above the alarm's level the evidence is shown: what has been proven need not be followed further.
_HEADROOM = 4.0


class MonitorDisplay:
    """Running FPR with its lower bound and the tolerance; below, the evidence and the level of the alarm.

    The lower bound holds at all looks together, and the evidence reaches log(1/delta) where it passes tau. Of the first
    1/tau negatives, whose running rate jumps about, and of evidence far beyond the alarm, the picture may show only a
    part.

    Make it by :meth:`from_monitor`.

    Parameters
    ----------
    history : MonitorHistory
    tau, delta : float
    alarm_at : int, default=None
        Number of negatives at which the alarm was raised; None for no alarm.

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

    def __init__(self, *, history: MonitorHistory, tau: float, delta: float, alarm_at: int | None = None) -> None:
        if len(history.n_seen) == 0:
            raise ValueError("history must hold at least one point, got none. Feed the monitor with update first.")
        self.history, self.tau, self.delta, self.alarm_at = history, check_tau(tau), check_delta(delta), alarm_at

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
        display = cls(history=monitor.history, tau=monitor.tau, delta=monitor.delta, alarm_at=monitor.alarm_at)
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : sequence of two matplotlib axes, default=None
            New ones, one above the other, if None.

        Returns
        -------
        display : MonitorDisplay
        """
        self.figure_, self.ax_ = _style.new_panels(
            ax, "to draw a monitor", rows=2, size=(8.0, 6.0), sharex=True, height_ratios=(3, 2)
        )
        self._draw_rate(self.ax_[0])
        self._draw_evidence(self.ax_[1])
        for panel in self.ax_:
            _style.tidy(panel)
            panel.set_xlim(0, 1.01 * float(self.history.n_seen[-1]))
            if self.alarm_at is not None:
                panel.axvline(self.alarm_at, color=_style.VERMILLION, linewidth=1.4)
        if self.alarm_at is not None:
            _style.name_line(self.ax_[0], self.alarm_at, f"alarm after {self.alarm_at:,}", colour=_style.VERMILLION)
        _style.legend_below(self.ax_[1], columns=2, of=self.ax_[0])
        return self

    def _draw_rate(self, ax: Any) -> None:
        seen, fpr, bound = self.history.n_seen, self.history.fpr, self.history.fpr_lower_bound
        ax.plot(seen, fpr, color=_style.BLUE, linewidth=1.6, label="false-positive rate so far")
        label = f"lower bound, {_style.percent(1.0 - self.delta)} at all looks together"
        ax.plot(seen, bound, color=_style.VERMILLION, linewidth=1.4, label=label)
        ax.fill_between(seen, bound, fpr, color=_style.BLUE, alpha=0.10, linewidth=0)
        settled = fpr[seen >= min(1.0 / self.tau, float(seen[-1]))]
        ax.set_ylim(0.0, 1.1 * max(2.0 * self.tau, min(float(settled.max()), 5.0 * float(fpr[-1]))))
        ax.set_ylabel("False-positive rate")
        _style.percent_axis(ax.yaxis)
        _style.mark_tolerance(ax, self.tau, horizontal=True)
        _style.title(ax, "Monitored false-positive rate")

    def _draw_evidence(self, ax: Any) -> None:
        seen, evidence, level = self.history.n_seen, self.history.log_wealth, -math.log(self.delta)
        ax.plot(seen, evidence, color=_style.BLACK, linewidth=1.6)
        ax.axhline(level, color=_style.VERMILLION, linestyle="--", linewidth=1.1)
        _style.name_line(ax, level, "log(1/δ)", horizontal=True, colour=_style.VERMILLION)
        top = np.clip(1.1 * float(evidence.max()), 1.3 * level, _HEADROOM * level)
        ax.set_ylim(top=top)
        ax.set(xlabel="Negatives seen", ylabel="Evidence against τ\n(log of the wealth)")
        ticker = require("matplotlib.ticker", "plot", "to label the axes")
        ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
