"""What columns do to scores: contributions, reasons, and the recall that is lost without each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import gen_batches

from taufpl._row_hashes import is_missing
from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Mask, Matrix, RowIndices, Vector
from taufpl.estimators import ScorerClassifier, ScoreScreen, known_positive, scores_of, transformed
from taufpl.exceptions import ExportError
from taufpl.inspection._typical import N_TYPICAL, TypicalNegatives, cells, joined, numbered, read_rows, typical_rows
from taufpl.persistence import PipelineScorer, UnwrappedModel, unwrap, visit
from taufpl.preprocessing import DATE_PARTS, columns_of, read_column, without_unseen_warnings

# Values that are held at a time, and rows that are scored together.
_MOST_VALUES = 4_000_000
_MOST_ROWS = 65_536
# Columns of X whose values can be replaced one after the other.
_MOST_COLUMNS = 2_000
# Longer texts are cut.
_MOST_LETTERS = 60
# For the recall that is lost: rows that are scored for all columns together, the fewest that are scored for each, and
# the most often that a positive row is scored for each.
_MOST_SCORED, _FEWEST, _MOST_DRAWS = 20_000, 10, 5


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
    shares = _linear_shares(unwrapped, len(names))
    if shares is None:
        return TypicalNegatives(X.shape[0], names, rows=typical_rows(_replaceable(unwrapped, X)))
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
    return np.concatenate(list(_contributions_in_batches(model, X, negatives)))


def _contributions_in_batches(model: Any, X: Any, negatives: Any) -> Iterator[Matrix]:
    """The contributions of some rows after the other, for wide rows, of which not all can be held densely."""
    unwrapped = unwrap_explainable(model)
    typical = negatives if isinstance(negatives, TypicalNegatives) else typical_negatives(model, negatives)
    names = _names(unwrapped, X)
    shares = _linear_shares(unwrapped, len(names))
    if typical.names != names or (typical.means is None) != (shares is None):
        raise ValueError("the typical negatives are those of another model: its columns, or their use, differ.")
    size = max(1, min(_MOST_ROWS, _MOST_VALUES // len(names)))
    if shares is not None:
        for terms in _linear_terms(shares, X, size):
            yield (terms.toarray() if hasattr(terms, "toarray") else terms) - typical.means
        return
    X = _replaceable(unwrapped, X)
    for batch in gen_batches(X.shape[0], max(1, size // N_TYPICAL)):
        yield _by_replacement(unwrapped, safe_indexing(X, batch), typical.rows, size)


def _names(model: UnwrappedModel, X: Any) -> tuple[str, ...]:
    """Names of the columns of X, once they are those that the model knows."""
    known = model.known_names or numbered(X.shape[1])
    given = tuple(map(str, X.columns)) if model.named and hasattr(X, "iloc") else known
    if X.shape[1] != len(known) or given != known:
        raise ValueError(f"X must have the {len(known):,} columns that the model was fitted on, in their order.")
    return known


def _replaceable(model: UnwrappedModel, X: Any) -> Any:
    """Rows whose columns can be replaced one after the other: dense, and not too wide."""
    if X.shape[1] > _MOST_COLUMNS:
        raise ValueError(
            f"the score of {type(model.scorers[0].final).__name__} is not linear in the {X.shape[1]:,} columns of X, "
            f"and at most {_MOST_COLUMNS:,} are replaced one after the other: fit a linear model for reasons on rows "
            "as wide as these."
        )
    return X.toarray() if hasattr(X, "toarray") else X


def _linear_terms(shares: list[_LinearShare], X: Any, size: int) -> Iterator[Any]:
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
    scores = _raw_scores(model, cells(both, _repeated_index(np.arange(n_rows), n_columns)))
    moves = np.zeros((n_rows, n_columns))
    rows, columns, others = _replacements(both, n_rows, _used_columns(model, n_columns))
    for start in range(0, rows.size, size):
        batch = slice(start, start + size)
        index = _repeated_index(rows[batch], n_columns)
        index[np.arange(len(index)), columns[batch]] = others[batch]
        lost = scores[rows[batch]] - _raw_scores(model, cells(both, index))
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


def _repeated_index(rows: RowIndices, n_columns: int) -> Array:
    """The index by which :func:`cells` takes whole rows."""
    return np.repeat(rows[:, np.newaxis], n_columns, axis=1)


def _raw_scores(model: UnwrappedModel, X: Any) -> Vector:
    """Scores without a threshold: that of a segment is no part of them."""
    with without_unseen_warnings:
        rows, head = transformed(model.steps, X), model.head
        if not isinstance(head, ScorerClassifier):
            return np.asarray(head.decision_function(rows), dtype=np.float64)
        scores = [scores_of(each, rows, known_positive(each, head.classes_)) for each in head.estimators_]
    return np.mean(scores, axis=0)


@dataclass(frozen=True, slots=True)
class Reason:
    """A column, its value in a row, and how far it raised the score of the row above that of negatives.

    Attributes
    ----------
    column : str
    value : object
        As X holds it.
    change : float
        In units of the score.

    Examples
    --------
    >>> from taufpl.inspection import Reason
    >>> print(Reason("amount", 912.5, 1.8342), Reason("channel", None, 0.25), sep="; ")
    amount = 912.5 (+1.83); channel is missing (+0.25)
    """

    column: str
    value: Any
    change: float

    @property
    def condition(self) -> str:
        """Column and value in a few words."""
        value = _text(self.value)
        return f"{self.column} {'is missing' if value is None else f'= {value}'}"

    def __str__(self) -> str:
        return f"{self.condition} ({self.change:+.3g})"


def reasons(model: Any, X: Any, negatives: Any, n_reasons: int = 3) -> list[tuple[Reason, ...]]:
    """The columns that raised the score of each row most above that of negatives, largest first.

    What a column does to a score is told by :func:`contributions`, which says what it means and what it does not.
    Columns that lowered the score are no reasons for an alarm.

    Parameters
    ----------
    model, X, negatives
        As in :func:`contributions`.
    n_reasons : int, default=3
        Most reasons of a row.

    Returns
    -------
    list of tuple of Reason
        One tuple a row, of `n_reasons` or fewer.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from taufpl import NeymanPearsonClassifier
    >>> from taufpl.inspection import reasons
    >>> from taufpl.preprocessing import TableEncoder
    >>> rng = np.random.default_rng(0)
    >>> is_fraud = np.repeat([False, True], [2000, 200])
    >>> payments = pd.DataFrame(
    ...     {
    ...         "amount": rng.normal(50 + 40 * is_fraud, 20).round(2),
    ...         "channel": np.where(rng.random(2200) < 0.3 + 0.4 * is_fraud, "web", "shop"),
    ...     }
    ... )
    >>> scorer = make_pipeline(TableEncoder(), LogisticRegression())
    >>> model = NeymanPearsonClassifier(scorer, 0.05, random_state=0).fit(payments, is_fraud)
    >>> flagged = payments[model.predict(payments)].tail(2)
    >>> for found in reasons(model, flagged, payments[~is_fraud]):
    ...     print(*found, sep="; ")
    amount = 95.85 (+4.96); channel = web (+1.09)
    amount = 82.85 (+3.57); channel = web (+1.09)
    """
    return _reasons(model, X, negatives, n_reasons, lambda moves: np.maximum(moves, 0.0))


def reasons_either_way(
    model: Any, X: Any, negatives: Any, n_reasons: int, names: Sequence[str] | None = None
) -> list[tuple[Reason, ...]]:
    """The columns that moved the score of each row most, up or down, largest first; `names` may call them otherwise."""
    return _reasons(model, X, negatives, n_reasons, np.abs, names)


def _reasons(
    model: Any,
    X: Any,
    negatives: Any,
    n_reasons: int,
    size_of: Callable[[Vector], Vector],
    names: Sequence[str] | None = None,
) -> list[tuple[Reason, ...]]:
    unwrapped, X = unwrap_explainable(model), read_rows(X, "X")
    if n_reasons < 1:
        raise ValueError(f"n_reasons must be at least 1; got {n_reasons}.")
    names, rows = names or unwrapped.known_names or numbered(X.shape[1]), X.iloc if hasattr(X, "iloc") else X
    found: list[tuple[Reason, ...]] = []
    for moves in _contributions_in_batches(model, X, negatives):
        for row, own in enumerate(moves, len(found)):
            size = size_of(own)
            order = np.argsort(-size, kind="stable")[:n_reasons].tolist()
            reasons = (Reason(names[place], rows[row, place], float(own[place])) for place in order if size[place] > 0)
            found.append(tuple(reasons))
    return found


def _text(value: Any) -> str | None:
    """A value in a few letters; None for a missing one."""
    if value is None or is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | float | np.number):
        is_whole = float(value).is_integer() and abs(float(value)) < 2**53
        return str(int(value)) if is_whole else f"{value:.6g}"
    text = " ".join(str(value).removesuffix(" 00:00:00").split())
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def recall_lost(model: Any, X: Any, is_positive: Mask, scores: Vector) -> Vector:
    """Recall lost at the threshold for each column of X whose values are drawn from random rows of X instead.

    `scores` are those of `decision_function`, measured from the threshold. The cost is bounded: of many positives some
    are looked at. The same rows give the same answer.
    """
    unwrapped = unwrap_explainable(model)
    X = _replaceable(unwrapped, read_rows(X, "X"))
    n_rows, n_columns = X.shape
    columns, rng = _used_columns(unwrapped, n_columns), np.random.default_rng(0)
    positive = rng.permutation(np.flatnonzero(is_positive))
    most = max(_FEWEST, _MOST_SCORED // columns.size)
    rows = np.resize(positive, min(most, _MOST_DRAWS * positive.size))
    own = _repeated_index(rows, n_columns)
    before, lost = _raw_scores(unwrapped, cells(X, own)), np.zeros(n_columns)
    caught = np.count_nonzero(scores[rows] > 0.0)
    # Columns are scored together: a call of a forest costs as much as hundreds of rows.
    n_together = max(1, _MOST_VALUES // (rows.size * n_columns))
    for start in range(0, columns.size, n_together):
        some = columns[start : start + n_together]
        index = np.tile(own, (some.size, 1)).reshape(some.size, rows.size, n_columns)
        index[np.arange(some.size), :, some] = rng.integers(0, n_rows, (some.size, rows.size))
        after = _raw_scores(unwrapped, cells(X, index.reshape(-1, n_columns))).reshape(some.size, -1)
        still = np.count_nonzero(scores[rows] + (after - before) > 0.0, axis=1)
        lost[some] = (caught - still) / rows.size
    return lost


@dataclass(frozen=True, slots=True)
class _LinearShare:
    """One of the scorers whose mean is a linear score: what X adds to it, by column, is features @ weights."""

    steps: tuple[Any, ...]
    weights: Any  # sparse, of shape (n_features, n_columns)


def unwrap_explainable(model: Any) -> UnwrappedModel:
    """A fitted model in parts; one whose score comes from elsewhere is refused."""
    unwrapped = unwrap(model)
    if isinstance(unwrapped.head, ScoreScreen):
        raise ValueError(
            "a ScoreScreen knows one reason, the score that it is given: what moved that score, only the model that "
            "computes it can tell."
        )
    return unwrapped


def _linear_shares(model: UnwrappedModel, n_columns: int) -> list[_LinearShare] | None:
    """The scorers of a model that is linear in features of which each comes from one column; else None."""
    shares = []
    for scorer in model.scorers:
        sources = _sources(model, scorer, n_columns)
        if scorer.coef is None or sources is None or sources.size != scorer.coef.size:
            return None
        places = (np.arange(sources.size), sources)
        weights = csr_matrix((scorer.coef / len(model.scorers), places), shape=(sources.size, n_columns))
        shares.append(_LinearShare((*model.steps, *scorer.steps), weights))
    return shares


def _used_columns(model: UnwrappedModel, n_columns: int) -> RowIndices:
    """The columns that any feature comes from; all where a step does not tell."""
    found = [_sources(model, scorer, n_columns) for scorer in model.scorers]
    known = [each for each in found if each is not None]
    return np.unique(np.concatenate(known)) if len(known) == len(found) else np.arange(n_columns)


def _sources(model: UnwrappedModel, scorer: PipelineScorer, n_columns: int) -> RowIndices | None:
    try:
        found = visit((*model.steps, *scorer.steps), list(range(n_columns)), _SourceVisitor())
    except ExportError:
        return None
    return np.array(found, dtype=np.intp)


class _SourceVisitor:
    """Features by the number of the column that each comes from."""

    def take(self, features: list[int], columns: Sequence[int]) -> list[int]:
        return [features[column] for column in columns]

    def join(self, parts: Sequence[list[int]]) -> list[int]:
        return [feature for part in parts for feature in part]

    def scale(self, features: list[int], step: Any, scaling: Any) -> list[int]:
        return features

    def impute(self, features: list[int], step: Any, fills: dict[int, Any], marked: list[int]) -> list[int]:
        return [features[column] for column in [*fills, *marked]]

    def encode(self, features: list[int], step: Any, encodings: Iterable[Any]) -> list[int]:
        return [
            feature
            for feature, encoding in zip(features, encodings, strict=True)
            for _ in range(encoding.outputs.shape[1])
        ]

    def split_dates(self, features: list[int], step: Any) -> list[int]:
        return [*np.repeat(features, len(DATE_PARTS)).tolist(), *(features[column] for column in step.marked_)]

    def convert(self, features: list[int], step: Any) -> list[int]:
        raise ExportError(f"{type(step).__name__} may mix columns.")
