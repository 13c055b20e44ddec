"""Displays in scikit-learn's manner: `from_estimator`, `from_predictions`, `plot`. They need matplotlib."""

from taufpl.plotting._fit_displays import CollapseDisplay, ConvergenceDisplay, LeaderboardDisplay, RoundsDisplay
from taufpl.plotting._operation_displays import LabelPlanDisplay, MonitorDisplay
from taufpl.plotting._regions import DecisionRegionsDisplay
from taufpl.plotting._score_displays import ROCDisplay, ScoreDisplay

__all__ = [
    "CollapseDisplay",
    "ConvergenceDisplay",
    "DecisionRegionsDisplay",
    "LabelPlanDisplay",
    "LeaderboardDisplay",
    "MonitorDisplay",
    "ROCDisplay",
    "RoundsDisplay",
    "ScoreDisplay",
]
