"""From a tolerance to operations: budgets of alarms, plans for labels, NP-ROC, and what alarms are worth."""

from taufpl.planning._budget import AlarmBudget, alarm_budget
from taufpl.planning._labels import LabelPlan, PlannedLabels, plan_labels
from taufpl.planning._np_roc import NPRoc, np_roc
from taufpl.planning._precision import check_base_rate as check_base_rate, precision_at, precision_lower_bound

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
