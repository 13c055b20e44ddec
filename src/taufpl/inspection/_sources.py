"""Which column of X each feature of a scorer comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from taufpl._types import RowIndices
from taufpl.estimators import ScoreScreen
from taufpl.exceptions import ExportError
from taufpl.persistence import PipelineScorer, UnwrappedModel, unwrap, visit
from taufpl.preprocessing import DATE_PARTS


@dataclass(frozen=True, slots=True)
class LinearShare:
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


def linear_shares(model: UnwrappedModel, n_columns: int) -> list[LinearShare] | None:
    """The scorers of a model that is linear in features of which each comes from one column; else None."""
    shares = []
    for scorer in model.scorers:
        sources = _sources(model, scorer, n_columns)
        if scorer.coef is None or sources is None or sources.size != scorer.coef.size:
            return None
        places = (np.arange(sources.size), sources)
        weights = csr_matrix((scorer.coef / len(model.scorers), places), shape=(sources.size, n_columns))
        shares.append(LinearShare((*model.steps, *scorer.steps), weights))
    return shares


def used_columns(model: UnwrappedModel, n_columns: int) -> RowIndices:
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
