"""Columns of a table as features of a model, and values in them that training never saw."""

from taufpl.preprocessing._encoders import (
    DATE_PARTS as DATE_PARTS,
    DAYS_OF_YEAR as DAYS_OF_YEAR,
    MONDAY as MONDAY,
    SECONDS_OF_DAY as SECONDS_OF_DAY,
    DateEncoder,
    LevelEncoder,
    TableEncoder,
    encoding_parts as encoding_parts,
)
from taufpl.preprocessing._table_columns import (
    MIN_ROWS as MIN_ROWS,
    ColumnPlan,
    as_kind as as_kind,
    column_at as column_at,
    columns_of as columns_of,
    first_too_large as first_too_large,
    is_frame as is_frame,
    odd_values_note as odd_values_note,
    plan_numbers as plan_numbers,
    plan_texts as plan_texts,
    read_column as read_column,
    reasons_against as reasons_against,
    seconds_of as seconds_of,
    unused as unused,
)
from taufpl.preprocessing._unseen import (
    ColumnCounts,
    TrainingColumn,
    UnseenCounter,
    one_unseen_warning as one_unseen_warning,
    without_unseen_warnings as without_unseen_warnings,
)

__all__ = [
    "ColumnCounts",
    "ColumnPlan",
    "DateEncoder",
    "LevelEncoder",
    "TableEncoder",
    "TrainingColumn",
    "UnseenCounter",
]
