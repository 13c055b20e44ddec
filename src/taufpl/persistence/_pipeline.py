"""The visitor of pipelines that all exports share: it tells them, in numbers, what each step does."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from taufpl._row_hashes import is_missing
from taufpl._types import Vector
from taufpl.exceptions import ExportError
from taufpl.preprocessing import DateEncoder, LevelEncoder, TableEncoder

FeaturesT = TypeVar("FeaturesT")


@dataclass(frozen=True, slots=True)
class Scaling:
    """((x - subtract) / divide) multiply + add, clipped to `bounds`; None leaves a part out."""

    subtract: Vector | None = None
    divide: Vector | None = None
    multiply: Vector | None = None
    add: Vector | None = None
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """One column of an encoder of levels: the output features of each category that was seen, and of any other value.

    None stands for a missing value among the categories, and in the place of `unknown` where the encoder would raise.
    """

    categories: list[Any]
    outputs: Vector  # of shape (n_categories, n_outputs)
    unknown: Vector | None  # of shape (n_outputs,)


@dataclass(frozen=True, slots=True)
class TakeColumns:
    """A step that selects columns by their positions."""

    columns: tuple[int, ...]


class PipelineVisitor(Protocol[FeaturesT]):
    """A form of export: what becomes of features, in its own notation, by each kind of step."""

    def take(self, features: FeaturesT, columns: Sequence[int]) -> FeaturesT:
        """Select columns, in this order."""

    def join(self, parts: Sequence[FeaturesT]) -> FeaturesT:
        """Put the columns of all parts side by side."""

    def scale(self, features: FeaturesT, step: Any, scaling: Scaling) -> FeaturesT:
        """Scale every column."""

    def impute(self, features: FeaturesT, step: SimpleImputer, fills: dict[int, Any], marked: list[int]) -> FeaturesT:
        """Keep the columns that have a fill for missing values, and mark where a value of some others is missing."""

    def encode(self, features: FeaturesT, step: Any, encodings: Iterable[Encoding]) -> FeaturesT:
        """Encode every column."""

    def split_dates(self, features: FeaturesT, step: DateEncoder) -> FeaturesT:
        """Make the numbers of every column of dates, which come as seconds since 1970, then the marks."""

    def convert(self, features: FeaturesT, step: Any) -> FeaturesT:
        """Apply a transformer of any other class, or refuse it."""


def visit(steps: Iterable[Any], features: FeaturesT, visitor: PipelineVisitor[FeaturesT]) -> FeaturesT:
    """Lead the features through all steps.

    Scalers, imputers and encoders are recognised by their exact class: a subclass may do something else.
    """
    for step in steps:
        features = _visit_step(step, features, visitor)
    return features


def _visit_step(step: Any, features: FeaturesT, visitor: PipelineVisitor[FeaturesT]) -> FeaturesT:
    if step is None or step == "passthrough" or (isinstance(step, FunctionTransformer) and step.func is None):
        return features
    if isinstance(step, FrozenEstimator):
        return _visit_step(step.estimator, features, visitor)
    if isinstance(step, Pipeline):
        return visit((each for _, each in step.steps), features, visitor)
    if isinstance(step, ColumnTransformer | FeatureUnion | TableEncoder):
        return visitor.join([_visit_step(*part, visitor) for part in _branches(step, features, visitor)])
    if isinstance(step, TakeColumns):
        return visitor.take(features, step.columns)
    if isinstance(step, SelectorMixin):
        return visitor.take(features, step.get_support(indices=True).tolist())
    if type(step) is SimpleImputer:
        marked = [] if step.indicator_ is None else step.indicator_.features_.tolist()
        return visitor.impute(features, step, _fills(step), marked)
    if type(step) in (OneHotEncoder, LevelEncoder):
        return visitor.encode(features, step, _encodings(step))
    if type(step) is DateEncoder:
        return visitor.split_dates(features, step)
    scaling = _scaling(step)
    return visitor.convert(features, step) if scaling is None else visitor.scale(features, step, scaling)


def _branches(step: Any, features: FeaturesT, visitor: PipelineVisitor[FeaturesT]) -> list[tuple[Any, FeaturesT]]:
    """The transformers that work side by side, each with the features that it gets."""
    if isinstance(step, TableEncoder):
        return [(each, visitor.take(features, columns.tolist())) for _, each, columns in step.parts_]
    if step.transformer_weights:
        raise ExportError(
            f"{type(step).__name__} with transformer_weights cannot be exported: scale the parts instead."
        )
    if isinstance(step, FeatureUnion):
        return [(each, features) for _, each in step.transformer_list if each != "drop"]
    columns = {name: list(indices) for name, indices in step._transformer_to_input_indices.items()}
    used = [(each, columns[name]) for name, each, _ in step.transformers_ if each != "drop" and columns[name]]
    return [(each, visitor.take(features, indices)) for each, indices in used]


def _scaling(step: Any) -> Scaling | None:
    """The operations of a scaler, in its order; None if the step is no scaler."""
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


def _fills(step: SimpleImputer) -> dict[int, Any]:
    """The value that fills each column that is kept."""
    if not is_missing(step.missing_values):
        raise ExportError(
            f"SimpleImputer(missing_values={step.missing_values!r}) cannot be exported: only that of NaN and None can."
        )
    fills = [each.item() if hasattr(each, "item") else each for each in step.statistics_]
    # A column without any value is dropped, unless it is to be kept; then its fill is a value. None is one.
    return {column: fill for column, fill in enumerate(fills) if fill is None or not is_missing(fill)}


def _encodings(step: OneHotEncoder | LevelEncoder) -> Iterator[Encoding]:
    """The encoding of each column, asked from the encoder itself: dropped and rare categories are no special case.

    One after the other, when it is asked for: the outputs of a column with many levels are a large matrix.
    """
    encoder = step.encoder_ if isinstance(step, LevelEncoder) else step
    start = 0
    for column, (values, width) in enumerate(zip(encoder.categories_, encoder._n_features_outs, strict=True)):
        place = slice(start, start := start + int(width))
        outputs = _outputs(encoder, column, place)
        unknown = step.shares_[place] if isinstance(step, LevelEncoder) else _unknown(encoder, column, outputs)
        categories = [None if is_missing(value) else value for value in values.tolist()]
        yield Encoding(categories, outputs, unknown)


def _outputs(encoder: OneHotEncoder, column: int, place: slice) -> Vector:
    """The outputs that the encoder makes for each category of a column, of shape (n_categories, n_outputs)."""
    values = encoder.categories_[column]
    numeric = values.dtype.kind in "biuf" and len({each.dtype.kind for each in encoder.categories_}) == 1
    probe = np.empty((len(values), len(encoder.categories_)), dtype=None if numeric else object)
    for other, known in enumerate(encoder.categories_):
        probe[:, other] = values if other == column else known[0]
    with warnings.catch_warnings():
        # The encoder may know names of columns, and the probe has none.
        warnings.simplefilter("ignore", UserWarning)
        made = encoder.transform(probe)[:, place]
    return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)


def _unknown(encoder: OneHotEncoder, column: int, outputs: Vector) -> Vector | None:
    if encoder.handle_unknown == "error":
        return None
    rare = getattr(encoder, "infrequent_categories_", [None] * (column + 1))[column]
    if encoder.handle_unknown == "ignore" or rare is None:
        return np.zeros(outputs.shape[1])
    return outputs[int(np.flatnonzero(encoder.categories_[column] == rare[0])[0])]
