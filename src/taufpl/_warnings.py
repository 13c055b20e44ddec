"""Warnings that point to the line of the caller."""

from __future__ import annotations

import sys
import warnings

# Frames between the line of the user and the place where something is noticed.
_INSIDE = ("taufpl.", "sklearn.", "joblib.", "contextlib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn on the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
