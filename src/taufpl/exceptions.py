"""Warnings and errors that users may want to catch by name."""

from __future__ import annotations


class RankingCollapseWarning(UserWarning):
    """The best ranking is w = 0: the mean positive is an average of negatives that count at this tolerance."""


class TooFewNegativesWarning(UserWarning):
    """There are too few negatives for the guarantee; the message says which threshold was taken without it."""


class UnseenSegmentWarning(UserWarning):
    """Rows belong to segments without a proven limit, never seen or with too few negatives: the strictest decides."""


class UnseenValuesWarning(UserWarning):
    """Rows to score hold levels of a category that training never saw; the message counts them by column."""


class RepeatedRowsWarning(UserWarning):
    """Rows repeat exactly where chance does not explain it: copies, which are no independent evidence."""


class PositiveLabelWarning(UserWarning):
    """Nobody said which label is positive, and the labels do not say it: the last in sorted order was taken."""


class DatasetError(OSError):
    """A data set could not be loaded; the message says which file is missing or wrong, and where it belongs."""


class ModelVersionWarning(UserWarning):
    """A model file was written with another version of scikit-learn than the one that reads it."""


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, or holds what must not be loaded; or a model cannot become one."""


class ExportError(ValueError):
    """A model, or a step before it, has no form in ONNX, JSON or SQL."""


class LostWorkerError(RuntimeError):
    """A worker of a cluster was lost while a classifier learned there that cannot go on without it."""
