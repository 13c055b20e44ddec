"""How far each column of a row moved its score away from that of negatives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Matrix, RowIndices, Vector
from taufpl.estimators import ScorerClassifier, known_positive, scores_of, transformed
from taufpl.inspection._sources import LinearShare, linear_shares, unwrap_explainable, used_columns
from taufpl.inspection._tables import cells, joined, read_rows
from taufpl.inspection._typical import N_TYPICAL, TypicalNegatives, numbered, typical_rows
from taufpl.persistence import UnwrappedModel
from taufpl.preprocessing import columns_of, read_column, without_unseen_warnings

# Values that are held at a time, and rows that are scored together.
_MOST_VALUES = 4_000_000
_MOST_ROWS = 65_536
# Columns of X whose values can be replaced one after the other.
_MOST_COLUMNS = 2_000


def typical_negatives(model: Any, X: Any) -> TypicalNegatives:
    """What :func:`reasons` needs to know of negatives, told from some of them.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one.
    X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        Negatives, as the model takes them; a few thousand of those that it was trained on are enough.

    Returns
    -------
    TypicalNegatives

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.inspection import TypicalNegatives, typical_negatives
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 2)) + y[:, np.newaxis]
    >>> model = TauFPLClassifier(tau=0.05, random_state=0).fit(X, y)
    >>> typical = typical_negatives(model, X[y == 0])
    >>> typical.n_rows, typical.means.shape
    (2000, (2,))

    In a model file, ``save_model(model, path, training=typical.record())`` keeps it, and
    ``TypicalNegatives.of_header(load_model(path).header)`` reads it.
    """
    unwrapped = unwrap_explainable(model)
    X = read_rows(X, "the negatives")
    names = _names(unwrapped, X)
    shares = linear_shares(unwrapped, len(names))
    if shares is None:
        return TypicalNegatives(X.shape[0], names, rows=typical_rows(replaceable(unwrapped, X)))
    sums = [np.asarray(terms.sum(axis=0)).ravel() for terms in _linear_terms(shares, X, _MOST_ROWS)]
    return TypicalNegatives(X.shape[0], names, means=np.sum(sums, axis=0) / X.shape[0])


def contributions(model: Any, X: Any, negatives: Any) -> Matrix:
    """How far each column moved the score of each row away from that of negatives.

    For a model that is linear in features of which each comes from one column, with weights w and mean m of the
    negatives' features, column c moves the score of a row by ::

        sum over the features j of column c of w_j (x_j - m_j)

    so that the columns of a row add up to its score minus the mean score of the negatives.

    For any other model the column is replaced, alone, by five typical values of the negatives, and the move is the
    score of the row minus the mean of its scores with these values. Such moves do not add up to anything: of two
    columns that say the same, neither moves the score while the other still says it. Rows are then scored which
    nobody has seen.

    Neither is about causes: it is told what the model made of a value, not what a change of it would do in the world.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one.
    X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        With more than 2,000 columns for linear models only.
    negatives : {array-like, sparse matrix, dataframe} or TypicalNegatives
        Rows of negatives, or what is known of them.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        In units of the score; 0 for columns that the model does not use.

    See Also
    --------
    reasons : The columns of a row that raised its score most.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.inspection import contributions
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 2)) + y[:, np.newaxis]
    >>> model = TauFPLClassifier(tau=0.05, random_state=0).fit(X, y)
    >>> moves = contributions(model, X[:5], X[y == 0])
    >>> above_mean = model.decision_function(X[:5]) - model.decision_function(X[y == 0]).mean()
    >>> bool(np.allclose(moves.sum(axis=1), above_mean))
    True
    """
    X = read_rows(X, "X")
    return np.concatenate(list(contributions_in_batches(model, X, negatives)))


def contributions_in_batches(model: Any, X: Any, negatives: Any) -> Iterator[Matrix]:
    """The contributions of some rows after the other, for wide rows, of which not all can be held densely."""
    unwrapped = unwrap_explainable(model)
    typical = negatives if isinstance(negatives, TypicalNegatives) else typical_negatives(model, negatives)
    names = _names(unwrapped, X)
    shares = linear_shares(unwrapped, len(names))
    if typical.names != names or (typical.means is None) != (shares is None):
        raise ValueError("the typical negatives are those of another model: its columns, or their use, differ.")
    size = max(1, min(_MOST_ROWS, _MOST_VALUES // len(names)))
    if shares is not None:
        for terms in _linear_terms(shares, X, size):
            yield (terms.toarray() if hasattr(terms, "toarray") else terms) - typical.means
        return
    X = replaceable(unwrapped, X)
    for batch in gen_batches(X.shape[0], max(1, size // N_TYPICAL)):
        yield _by_replacement(unwrapped, safe_indexing(X, batch), typical.rows, size)


def _names(model: UnwrappedModel, X: Any) -> tuple[str, ...]:
    """Names of the columns of X, once they are those that the model knows."""
    known = model.known_names or numbered(X.shape[1])
    given = tuple(map(str, X.columns)) if model.named and hasattr(X, "iloc") else known
    if X.shape[1] != len(known) or given != known:
        raise ValueError(f"X must have the {len(known):,} columns that the model was fitted on, in their order.")
    return known


def replaceable(model: UnwrappedModel, X: Any) -> Any:
    """Rows whose columns can be replaced one after the other: dense, and not too wide."""
    if X.shape[1] > _MOST_COLUMNS:
        raise ValueError(
            f"the score of {type(model.scorers[0].final).__name__} is not linear in the {X.shape[1]:,} columns of X, "
            f"and at most {_MOST_COLUMNS:,} are replaced one after the other: fit a linear model for reasons on rows "
            "as wide as these."
        )
    return X.toarray() if hasattr(X, "toarray") else X


def _linear_terms(shares: list[LinearShare], X: Any, size: int) -> Iterator[Any]:
    """What each column adds to the scores, for `size` rows after the other; sparse where the features are."""
    for batch in gen_batches(X.shape[0], size):
        rows = safe_indexing(X, batch)
        yield reduce(add, (_features(share.steps, rows) @ share.weights for share in shares))


def _features(steps: tuple[Any, ...], rows: Any) -> Any:
    with without_unseen_warnings:
        features = transformed(steps, rows)
    return features if hasattr(features, "tocsr") else np.asarray(features, dtype=np.float64)


def _by_replacement(model: UnwrappedModel, X: Any, typical: Any, size: int) -> Matrix:
    """The score of each row minus its mean where a column has the values of typical rows instead."""
    n_rows, n_columns = X.shape
    both = joined(X, typical)
    scores = raw_scores(model, cells(both, repeated_index(np.arange(n_rows), n_columns)))
    moves = np.zeros((n_rows, n_columns))
    rows, columns, others = _replacements(both, n_rows, used_columns(model, n_columns))
    for start in range(0, rows.size, size):
        batch = slice(start, start + size)
        index = repeated_index(rows[batch], n_columns)
        index[np.arange(len(index)), columns[batch]] = others[batch]
        lost = scores[rows[batch]] - raw_scores(model, cells(both, index))
        np.add.at(moves, (rows[batch], columns[batch]), lost / N_TYPICAL)
    return moves


def _replacements(both: Any, n_rows: int, used: RowIndices) -> tuple[RowIndices, RowIndices, RowIndices]:
    """Rows, columns, and the rows of other values; a row that has the value already is not scored again."""
    found = []
    columns = columns_of(both)
    for place in used.tolist():
        rows, others = np.nonzero(_differ(read_column(columns[place]).values, n_rows))
        found.append((rows, np.full(rows.size, place), others + n_rows))
    rows, places, others = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, places, others


def _differ(values: Array, n_rows: int) -> Array:
    """Whether each of the first values differs from each of the others; missing ones do not differ."""
    codes = values
    if values.dtype == object:
        known: dict[Any, int] = {}
        codes = np.array([known.setdefault(each, len(known)) for each in values.tolist()])
    first, others = codes[:n_rows, np.newaxis], codes[np.newaxis, n_rows:]
    return np.asarray((first != others) & ((first == first) | (others == others)))


def repeated_index(rows: RowIndices, n_columns: int) -> Array:
    """The index by which :func:`cells` takes whole rows."""
    return np.repeat(rows[:, np.newaxis], n_columns, axis=1)


def raw_scores(model: UnwrappedModel, X: Any) -> Vector:
    """Scores without a threshold: that of a segment is no part of them."""
    with without_unseen_warnings:
        rows, head = transformed(model.steps, X), model.head
        if not isinstance(head, ScorerClassifier):
            return np.asarray(head.decision_function(rows), dtype=np.float64)
        scores = [scores_of(each, rows, known_positive(each, head.classes_)) for each in head.estimators_]
    return np.mean(scores, axis=0)
