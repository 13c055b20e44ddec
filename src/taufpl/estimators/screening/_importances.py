"""What each column is worth: the recall that is lost at the threshold where the column says nothing."""

from __future__ import annotations

import numpy as np

from taufpl._sklearn import safe_indexing
from taufpl._types import RowIndices, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators.screening._stack import StackedScorer

# Rows that are scored for all columns together, and the fewest positives of a fold that are scored for each.
_MOST_ROWS = 10_000
_FEWEST = 20


def permutation_importances(scorer: StackedScorer, table: ArrayTable, level: float) -> Vector | None:
    """Recall lost for each column of X whose values are drawn from random rows instead; None for wide sparse rows.

    Rows of a fold are scored by the part of the stack that has not seen them, and the threshold leaves a share `level`
    of the negatives of the fold above it.
    """
    if not scorer.encoder_.columns_:
        return None
    Z = scorer.encoder_.transform(safe_indexing(table.X, table.rows))
    rng, is_positive = np.random.default_rng(scorer.seed_), table.is_positive
    division = scorer.first_division(table)
    lost, n_scored = np.zeros(scorer.encoder_.n_features_in_), 0
    for fold, held_out in enumerate(division):
        part, own = scorer.of_fold(fold), Z[held_out]
        scores = part.encoded_scores(own)
        negative = np.sort(scores[~is_positive[held_out]])[::-1]
        threshold = negative[int(level * negative.size)]
        positive = np.flatnonzero(is_positive[held_out])
        most = max(_FEWEST, _MOST_ROWS // (len(division) * lost.size))
        drawn = rng.permutation(positive)[:most]
        n_scored += drawn.size
        for column in np.unique(scorer.encoder_.sources_):
            changed = _with_others(own, drawn, scorer.encoder_.sources_ == column, rng)
            lost[column] += np.sum(scores[drawn] > threshold) - np.sum(part.encoded_scores(changed) > threshold)
    return lost / max(1, n_scored)


def _with_others(Z: Vector, rows: RowIndices, features: Vector, rng: np.random.Generator) -> Vector:
    """Some rows, whose values of some features are those of random rows."""
    changed = Z[rows]
    changed[:, features] = Z[rng.integers(0, len(Z), rows.size)][:, features]
    return changed
