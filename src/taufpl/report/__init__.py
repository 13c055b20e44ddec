"""What a classifier under a tolerance is worth, as one HTML file for those who have to decide about it."""

from taufpl.report._page import render_report, write_report

__all__ = ["render_report", "write_report"]
