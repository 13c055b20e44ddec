"""What each column is worth: the recall that is lost at the threshold where the column says nothing."""

from __future__ import annotations

import math

import numpy as np

from taufpl._types import Mask, Matrix, RowIndices, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators.screening._stack import StackedScorer
from taufpl.thresholding import top_threshold

# Rows that are scored for all columns together, the fewest positives of a fold that are scored for each, and how many
# values are held at a time.
_MOST_ROWS = 10_000
_FEWEST = 10
_MOST_VALUES = 10_000_000


def permutation_importances(scorer: StackedScorer, table: ArrayTable, level: float) -> Vector | None:
    """Recall lost for each column of X whose values are drawn from random rows instead.

    Rows of a fold are scored by the part of the stack that has not seen them, and the threshold leaves a share `level`
    of the negatives of the fold above it. None for wide sparse rows, and where nothing can be left out.
    """
    if not scorer.encoder_.columns_:
        return None
    encoded = scorer.encoded_table(table)
    division, columns = scorer.first_division(encoded), np.unique(scorer.encoder_.sources_)
    if len(division) < 2:
        return None
    Z, is_positive, rng = encoded.X, encoded.is_positive, np.random.default_rng(scorer.seed_)
    most = max(_FEWEST, _MOST_ROWS // (len(division) * columns.size))
    lost, n_scored = np.zeros(scorer.encoder_.n_features_in_), 0
    for fold, held_out in enumerate(division):
        part, own = scorer.of_fold(fold), Z[held_out]
        scores, is_own_positive = part.encoded_scores(own), is_positive[held_out]
        threshold = top_threshold(scores[~is_own_positive], level)
        drawn = rng.permutation(np.flatnonzero(is_own_positive))[:most]
        n_scored += drawn.size
        # Columns are scored together: a call of a forest costs as much as hundreds of rows.
        for some in np.array_split(columns, math.ceil(drawn.size * columns.size * Z.shape[1] / _MOST_VALUES)):
            changed = [_with_others(own, drawn, scorer.encoder_.sources_ == column, rng) for column in some]
            caught = part.encoded_scores(np.concatenate(changed)).reshape(some.size, -1) > threshold
            lost[some] += np.sum(scores[drawn] > threshold) - caught.sum(axis=1)
    return lost / max(1, n_scored)


def _with_others(Z: Matrix, rows: RowIndices, features: Mask, rng: np.random.Generator) -> Matrix:
    """Some rows, whose values of some features are those of random rows."""
    changed = Z[rows]
    changed[:, features] = Z[rng.integers(0, len(Z), rows.size)][:, features]
    return changed
