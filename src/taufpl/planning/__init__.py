"""From a tolerance to operations: budgets of alarms, and what alarms are worth."""

from taufpl.planning._budget import AlarmBudget, alarm_budget
from taufpl.planning._precision import check_base_rate as check_base_rate, precision_at, precision_lower_bound

__all__ = ["AlarmBudget", "alarm_budget", "precision_at", "precision_lower_bound"]
