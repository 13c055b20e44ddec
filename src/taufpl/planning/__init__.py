"""From a tolerance to operations: budgets of alarms, plans for labels, NP-ROC, and what alarms are worth."""

from taufpl.planning._alarms import (
    AlarmBudget,
    alarm_budget,
    check_base_rate as check_base_rate,
    precision_at,
    precision_lower_bound,
)
from taufpl.planning._guarantee import (
    LabelPlan,
    NPRoc,
    PlannedLabels,
    np_roc,
    plan_labels,
    share_intervals as share_intervals,
)

__all__ = [
    "AlarmBudget",
    "LabelPlan",
    "NPRoc",
    "PlannedLabels",
    "alarm_budget",
    "np_roc",
    "plan_labels",
    "precision_at",
    "precision_lower_bound",
]
