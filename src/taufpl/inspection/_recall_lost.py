"""What each column is worth to a fitted model on given rows: the recall that is lost where the column says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._types import Mask, Vector
from taufpl.inspection._contributions import raw_scores, repeated_index, replaceable
from taufpl.inspection._sources import unwrap_explainable, used_columns
from taufpl.inspection._tables import cells, read_rows

# Rows that are scored for all columns together, the fewest that are scored for each, the most a positive row is scored
# for each, and how many values are held at a time.
_MOST_ROWS = 20_000
_FEWEST = 10
_MOST_DRAWS = 5
_MOST_VALUES = 4_000_000


def recall_lost(model: Any, X: Any, is_positive: Mask, scores: Vector) -> Vector:
    """Recall lost at the threshold for each column of X whose values are drawn from random rows of X instead.

    `scores` are those of `decision_function`, measured from the threshold. The cost is bounded: of many positives some
    are looked at. The same rows give the same answer.
    """
    unwrapped = unwrap_explainable(model)
    X = replaceable(unwrapped, read_rows(X, "X"))
    n_rows, n_columns = X.shape
    columns, rng = used_columns(unwrapped, n_columns), np.random.default_rng(0)
    positive = rng.permutation(np.flatnonzero(is_positive))
    most = max(_FEWEST, _MOST_ROWS // columns.size)
    rows = np.resize(positive, min(most, _MOST_DRAWS * positive.size))
    own = repeated_index(rows, n_columns)
    before, lost = raw_scores(unwrapped, cells(X, own)), np.zeros(n_columns)
    caught = np.count_nonzero(scores[rows] > 0.0)
    # Columns are scored together: a call of a forest costs as much as hundreds of rows.
    n_together = max(1, _MOST_VALUES // (rows.size * n_columns))
    for start in range(0, columns.size, n_together):
        some = columns[start : start + n_together]
        index = np.tile(own, (some.size, 1)).reshape(some.size, rows.size, n_columns)
        index[np.arange(some.size), :, some] = rng.integers(0, n_rows, (some.size, rows.size))
        after = raw_scores(unwrapped, cells(X, index.reshape(-1, n_columns))).reshape(some.size, -1)
        still = np.count_nonzero(scores[rows] + (after - before) > 0.0, axis=1)
        lost[some] = (caught - still) / rows.size
    return lost
