"""Warnings and errors that users may want to catch by name."""

from __future__ import annotations


class RankingCollapseWarning(UserWarning):
    """The best ranking is w = 0: the mean positive is an average of negatives that count at this tolerance."""


class TooFewNegativesWarning(UserWarning):
    """There are too few negatives for the guarantee; the most careful threshold among them was taken."""


class DatasetError(OSError):
    """A data set could not be loaded; the message says which file is missing or wrong, and where it belongs."""
