"""Columns of a table as features of a model, and values in them that training never saw."""

from taufpl.preprocessing._level_encoder import LevelEncoder
from taufpl.preprocessing._unseen import ColumnCounts, TrainingColumn, UnseenCounter

__all__ = ["ColumnCounts", "LevelEncoder", "TrainingColumn", "UnseenCounter"]
