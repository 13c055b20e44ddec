"""Reports on classifiers under a tolerance: one HTML file each, for those who have to decide about them."""

from taufpl.report._format import amount as amount, rate as rate, total as total
from taufpl.report._page import render_comparison as render_comparison, render_report, write_report

__all__ = ["render_report", "write_report"]
