"""Names of features in the words of the table that they come from: its columns and their levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np

from taufpl._row_hashes import is_missing
from taufpl.exceptions import ExportError
from taufpl.persistence import visit
from taufpl.preprocessing import DATE_PARTS

# What scikit-learn calls the rare levels of a column, which have one feature together.
_RARE = "infrequent_sklearn"


def feature_names(steps: Iterable[Any], columns: Sequence[str] | None) -> list[str] | None:
    """Names of the features that fitted steps make of columns: "city = Oslo", "age is missing", "created: weekday".

    Steps of other kinds name what they make themselves, without the prefixes of those around them. None where they
    cannot, or where there are no columns, as before a vectorizer of texts, and no step gives names.
    """
    try:
        return visit(steps, None if columns is None else list(columns), _NameVisitor())
    except (AttributeError, ExportError, IndexError, TypeError, ValueError):
        return None


class _NameVisitor:
    """Features by their names; None where they have none."""

    def take(self, features: list[str] | None, columns: Sequence[int]) -> list[str] | None:
        return None if features is None else [features[column] for column in columns]

    def join(self, parts: Sequence[list[str] | None]) -> list[str] | None:
        known = [part for part in parts if part is not None]
        return [name for part in known for name in part] if len(known) == len(parts) else None

    def scale(self, features: list[str] | None, step: Any, scaling: Any) -> list[str] | None:
        return features

    def impute(
        self, features: list[str] | None, step: Any, fills: dict[int, Any], marked: list[int]
    ) -> list[str] | None:
        if features is None:
            return None
        return [*(features[column] for column in fills), *(f"{features[column]} is missing" for column in marked)]

    def encode(self, features: list[str] | None, step: Any, encodings: Iterable[Any]) -> list[str] | None:
        if features is None:
            return None
        encoder = copy(getattr(step, "encoder_", step))
        encoder.feature_name_combiner = _level_name
        encoder.__dict__.pop("feature_names_in_", None)  # else it takes no other names
        return [str(name) for name in encoder.get_feature_names_out(features)]

    def split_dates(self, features: list[str] | None, step: Any) -> list[str] | None:
        if features is None:
            return None
        parts = [f"{name}: {part}" for name in features for part in DATE_PARTS]
        return [*parts, *(f"{features[place]} is missing" for place in step.marked_)]

    def convert(self, features: list[str] | None, step: Any) -> list[str] | None:
        given = None if features is None else np.array(features, dtype=object)
        return [str(name) for name in step.get_feature_names_out(given)]


def _level_name(column: Any, level: Any) -> str:
    if is_missing(level):
        return f"{column} is missing"
    return f"{column} is rare" if level == _RARE else f"{column} = {level}"
