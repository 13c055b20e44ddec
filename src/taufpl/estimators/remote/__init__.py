"""Remote rows as tables: divided, scored and counted where they are."""

from taufpl.estimators.remote._learners import (
    ModelScore,
    RemoteLearner,
    fit_where_rows_are,
    remote_learner,
    to_local,
)
from taufpl.estimators.remote._table import CLASSES, BlockTable, check_header, open_scores, open_table, start_from

__all__ = [
    "CLASSES",
    "BlockTable",
    "ModelScore",
    "RemoteLearner",
    "check_header",
    "fit_where_rows_are",
    "open_scores",
    "open_table",
    "remote_learner",
    "start_from",
    "to_local",
]
