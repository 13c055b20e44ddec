"""Warnings that users may want to catch by name."""

from __future__ import annotations


class RankingCollapseWarning(UserWarning):
    """The best ranking is w = 0: the mean positive is an average of negatives that count at this tolerance."""


class TooFewNegativesWarning(UserWarning):
    """There are too few negatives for the guarantee; the most careful threshold among them was taken."""
