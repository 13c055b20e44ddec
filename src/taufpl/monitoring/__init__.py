"""Watching a false-positive rate that must stay under a tolerance, with alarms that are valid at every look."""

from taufpl.monitoring._monitor import FPRMonitor
from taufpl.monitoring._segments import MOST_SEGMENTS as MOST_SEGMENTS, SegmentMonitor
from taufpl.monitoring._stream import MonitorHistory

__all__ = ["FPRMonitor", "MonitorHistory", "SegmentMonitor"]
