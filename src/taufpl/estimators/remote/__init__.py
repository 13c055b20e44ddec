"""Remote rows as tables: divided, scored and counted where they are."""

from taufpl.estimators.remote._reading import check_header, open_scores, open_table
from taufpl.estimators.remote._table import BlockTable

__all__ = ["BlockTable", "check_header", "open_scores", "open_table"]
