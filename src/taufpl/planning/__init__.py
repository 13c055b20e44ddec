"""From a tolerance to operations: budgets of alarms, plans for labels, and what alarms are worth."""

from taufpl.planning._budget import AlarmBudget, alarm_budget
from taufpl.planning._labels import LabelPlan, PlannedLabels, plan_labels
from taufpl.planning._precision import check_base_rate as check_base_rate, precision_at, precision_lower_bound

__all__ = [
    "AlarmBudget",
    "LabelPlan",
    "PlannedLabels",
    "alarm_budget",
    "plan_labels",
    "precision_at",
    "precision_lower_bound",
]
