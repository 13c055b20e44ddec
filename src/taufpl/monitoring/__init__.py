"""Watching a false-positive rate that must stay under a tolerance, with alarms that are valid at every look."""

from taufpl.monitoring._fpr_monitor import MOST_SEGMENTS as MOST_SEGMENTS, FPRMonitor, SegmentMonitor
from taufpl.monitoring._stream import MonitorHistory

__all__ = ["FPRMonitor", "MonitorHistory", "SegmentMonitor"]
