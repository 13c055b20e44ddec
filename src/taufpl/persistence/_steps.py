"""What common transformers do to their columns, in numbers: the same plan for every form of export."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from taufpl.exceptions import ExportError
from taufpl.preprocessing import LevelEncoder

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scaling:
    """((x - subtract) / divide) multiply + add, then cut off at `bounds`; None leaves a part out."""

    subtract: Vector | None = None
    divide: Vector | None = None
    multiply: Vector | None = None
    add: Vector | None = None
    bounds: tuple[float, float] | None = None


def scaling(step: Any) -> Scaling | None:
    """What a scaler does, in the order in which it does it; None if the step is no scaler that is known.

    Classes are compared exactly, here and for other steps: a subclass may do something else.
    """
    kind = type(step)
    if kind is StandardScaler:
        return Scaling(step.mean_ if step.with_mean else None, step.scale_ if step.with_std else None)
    if kind is RobustScaler:
        return Scaling(step.center_ if step.with_centering else None, step.scale_ if step.with_scaling else None)
    if kind is MaxAbsScaler:
        return Scaling(divide=step.scale_, bounds=(-1.0, 1.0) if getattr(step, "clip", False) else None)
    if kind is MinMaxScaler:
        low, high = (float(bound) for bound in step.feature_range)
        return Scaling(multiply=step.scale_, add=step.min_, bounds=(low, high) if step.clip else None)
    return None


@dataclass(frozen=True, slots=True)
class Imputation:
    """Columns that are kept, what fills them, and columns whose gaps are features of their own."""

    kept: list[int]
    fills: list[Any]
    marked: list[int]


def imputation(step: SimpleImputer) -> Imputation:
    """What an imputer of missing values does.

    Raises
    ------
    ExportError
        It looks for something else than a missing value.
    """
    if not is_missing(step.missing_values):
        raise ExportError(
            f"SimpleImputer(missing_values={step.missing_values!r}) cannot be exported: only that of NaN and None can."
        )
    fills = list(step.statistics_)
    # A column without any value is dropped, unless it is to be kept; then its fill is a value. None is one.
    kept = [column for column, fill in enumerate(fills) if fill is None or not is_missing(fill)]
    marked = [] if step.indicator_ is None else step.indicator_.features_.tolist()
    return Imputation(kept, [fills[column] for column in kept], marked)


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def is_left(step: SimpleImputer, value: Any) -> bool:
    """Whether a missing value is one that the imputer does not look for: it leaves None where it fills NaN."""
    return is_missing(value) and (value is None) != (step.missing_values is None)


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """One column of an encoder of levels.

    Attributes
    ----------
    categories : list
        Values that were seen; None for a missing one.
    outputs : list of int or None
        Which of the features that the column becomes is 1 for each of them; None where all are 0.
    n_outputs : int
        How many features it becomes.
    unknown : ndarray of shape (n_outputs,) or None
        These features for a value that was not seen; None where the encoder would raise.
    """

    categories: list[Any]
    outputs: list[int | None]
    n_outputs: int
    unknown: Vector | None


def is_encoder(step: Any) -> bool:
    """Whether `encodings` knows what a step does."""
    return type(step) in (OneHotEncoder, LevelEncoder)


def encodings(step: OneHotEncoder | LevelEncoder) -> list[Encoding]:
    """What an encoder does, asked from itself: dropped and infrequent categories need no special case."""
    inner = step.encoder_ if isinstance(step, LevelEncoder) else step
    starts = np.concatenate(([0], np.cumsum(inner._n_features_outs)))
    ends = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    found = [_encoding(inner, column, start, stop) for column, (start, stop) in enumerate(ends)]
    if not isinstance(step, LevelEncoder):
        return found
    return [
        replace(each, unknown=shares) for each, shares in zip(found, np.split(step.shares_, starts[1:-1]), strict=True)
    ]


def _encoding(step: OneHotEncoder, column: int, start: int, stop: int) -> Encoding:
    values = step.categories_[column]
    same = len({each.dtype.kind for each in step.categories_}) == 1
    probe = np.empty(
        (len(values), len(step.categories_)), dtype=None if same and values.dtype.kind in "biuf" else object
    )
    for other, known in enumerate(step.categories_):
        probe[:, other] = values if other == column else known[0]
    with warnings.catch_warnings():
        # The encoder may know names of columns, and the probe has none.
        warnings.simplefilter("ignore", UserWarning)
        block = step.transform(probe)[:, start:stop]
    dense = np.asarray(block.todense()) if hasattr(block, "todense") else np.asarray(block)
    outputs = [int(np.flatnonzero(row)[0]) if row.any() else None for row in dense]
    return Encoding(
        [None if is_missing(value) else value for value in values.tolist()],
        outputs,
        stop - start,
        _unknown(step, column, values, outputs, stop - start),
    )


def _unknown(
    step: OneHotEncoder, column: int, values: NDArray[Any], outputs: list[int | None], width: int
) -> Vector | None:
    if step.handle_unknown == "error":
        return None
    row = np.zeros(width)
    rare = getattr(step, "infrequent_categories_", [None] * (column + 1))[column]
    if step.handle_unknown != "ignore" and rare is not None:
        output = outputs[int(np.flatnonzero(values == rare[0])[0])]
        if output is not None:
            row[output] = 1.0
    return row
