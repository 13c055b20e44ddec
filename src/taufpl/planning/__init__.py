"""From a tolerance to operations: what alarms are worth."""

from taufpl.planning._precision import check_base_rate as check_base_rate, precision_at, precision_lower_bound

__all__ = ["precision_at", "precision_lower_bound"]
