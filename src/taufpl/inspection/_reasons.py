"""The columns that raised the score of a row most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._row_hashes import is_missing
from taufpl._types import Vector
from taufpl.inspection._contributions import contributions_in_batches
from taufpl.inspection._sources import unwrap_explainable
from taufpl.inspection._tables import read_rows
from taufpl.inspection._typical import numbered

# Longer texts are cut.
_MOST_LETTERS = 60


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
    for moves in contributions_in_batches(model, X, negatives):
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
