"""Displays in scikit-learn's manner: `from_estimator`, `from_predictions`, `plot`. They need matplotlib."""

from taufpl.plotting._collapse import CollapseDisplay
from taufpl.plotting._convergence import ConvergenceDisplay
from taufpl.plotting._histogram import ScoreDisplay
from taufpl.plotting._label_plan import LabelPlanDisplay
from taufpl.plotting._leaderboard import LeaderboardDisplay
from taufpl.plotting._monitor import MonitorDisplay
from taufpl.plotting._regions import DecisionRegionsDisplay
from taufpl.plotting._roc import ROCDisplay
from taufpl.plotting._rounds import RoundsDisplay

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
