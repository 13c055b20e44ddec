"""A linear model over the columns of X themselves: the steps before it are folded into its weights, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.estimators import KernelScorer
from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline import Encoding, Scaling, visit
from taufpl.persistence._segments import SegmentLabels, segment_labels
from taufpl.persistence._unwrap import UnwrappedModel, unwrap
from taufpl.preprocessing import DATE_PARTS

# Sums of constants are kept in units of 2^-1200: below the last digit of every double, and without denominators that
# grow with every term.
_UNIT = 1 << 1200
# The name of the mark beside the parts of a date.
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Feature:
    """slope * g(column) + constant.

    g is the value of the column, or this `part` of a date, with `fill` in the place of a missing one; or output number
    `output` of its `encoding`; or, if `is_indicator`, 1 where the column is missing and 0 elsewhere.
    """

    column: str
    part: str | None = None
    fill: Any = None
    encoding: Encoding | None = None
    output: int = 0
    is_indicator: bool = False
    slope: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)


@dataclass(slots=True)
class NumericTerm:
    """The share of a numeric column in the score: weight times value, or `filled` where the value is missing.

    `unfilled` says that no step fills a missing value. Large values do not cancel if they are measured from `centre`.
    """

    weight: Fraction = Fraction(0)
    centre: float = 0.0
    filled: Fraction = Fraction(0)
    unfilled: bool = False


@dataclass(slots=True)
class CategoryTerm:
    """The share of a column of categories in the score; None where the model refuses the value."""

    weights: dict[Any, Fraction | None]
    missing: Fraction | None
    unknown: Fraction | None

    def __add__(self, other: CategoryTerm) -> CategoryTerm:
        values = {
            value: _sum(self.weights.get(value, self.unknown), other.weights.get(value, other.unknown))
            for value in [*self.weights, *other.weights]
        }
        return CategoryTerm(values, _sum(self.missing, other.missing), _sum(self.unknown, other.unknown))


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


@dataclass(slots=True)
class LinearForm:
    """Raw score = constant + what each column adds; positive where it is above the threshold."""

    model: UnwrappedModel
    segments: SegmentLabels | None = None  # of a model with a threshold for each segment
    constant: Fraction = Fraction(0)
    numeric: dict[str, NumericTerm] = field(default_factory=dict)
    # By column, then by part; MISSING tells what the mark of a missing date adds.
    dates: dict[str, dict[str, NumericTerm]] = field(default_factory=dict)
    # Weights of the outputs, by column, its fill, and encoding.
    encoded: dict[tuple[str, Any, Encoding], list[Fraction]] = field(default_factory=dict)

    def centred_constant(self) -> Fraction:
        """The constant, where every numeric column is measured from its centre."""
        terms = [*self.numeric.values(), *(term for parts in self.dates.values() for term in parts.values())]
        return self.constant + sum(_rounded(each.weight * Fraction(each.centre)) for each in terms)

    def bare_column(self) -> tuple[str, int] | None:
        """Name of the one column that the score is, and 1, or -1 where it is minus that; None for other scores."""
        if self.constant or self.dates or self.encoded or len(self.numeric) != 1:
            return None
        ((name, term),) = self.numeric.items()
        is_bare = abs(term.weight) == 1 and term.unfilled and not term.centre and not term.filled
        return (name, int(term.weight)) if is_bare else None

    def categories(self) -> dict[str, CategoryTerm]:
        """The share of each column of categories, by its name, all its encodings together."""
        together: dict[str, CategoryTerm] = {}
        for (column, fill, encoding), weights in self.encoded.items():
            term = _category_term(fill, encoding, weights)
            together[column] = together[column] + term if column in together else term
        return together

    def add(self, feature: Feature, weight: Fraction) -> None:
        """Add a multiple of a feature to the score."""
        if not weight:
            return
        slope = weight * feature.slope
        self.constant += _rounded(weight * feature.constant)
        if feature.encoding is not None:
            key = (feature.column, feature.fill, feature.encoding)
            n_outputs = feature.encoding.outputs.shape[1]
            self.encoded.setdefault(key, [Fraction(0)] * n_outputs)[feature.output] += slope
            return
        if feature.part is None:
            term = self.numeric.setdefault(feature.column, NumericTerm())
        else:
            term = self.dates.setdefault(feature.column, {}).setdefault(feature.part, NumericTerm())
        if feature.is_indicator:
            term.filled += slope
            return
        term.weight += slope
        term.centre = term.centre or float(-feature.constant / feature.slope)
        if feature.fill is None:
            term.unfilled = True
        elif isinstance(feature.fill, str):
            raise ExportError(f"column {feature.column!r} is filled with {feature.fill!r} and then used as a number.")
        else:
            term.filled += slope * Fraction(feature.fill)


def _rounded(value: Fraction) -> Fraction:
    return Fraction(round(value * _UNIT), _UNIT)


def _category_term(fill: Any, encoding: Encoding, weights: list[Fraction]) -> CategoryTerm:
    def score(outputs: Vector) -> Fraction:
        return sum((Fraction(outputs[place]) * weights[place] for place in np.flatnonzero(outputs)), start=Fraction(0))

    found: dict[Any, Fraction | None] = dict(zip(encoding.categories, map(score, encoding.outputs), strict=True))
    unknown = None if encoding.unknown is None else score(encoding.unknown)
    # An encoder that has seen missing values has them from an imputer that looks for others: None is not NaN.
    missing = found.pop(None) if None in found else found.get(fill, unknown)
    return CategoryTerm(found, missing, unknown)


def linear_form(model: Any, target: str, segment_column: str | None = None) -> LinearForm:
    """Weights of the columns of X, for a form of export that errors call `target`.

    `segment_column` holds labels of segments that the model was given beside X.
    A model that is not linear in what its steps make of X, or a step that is no sum over columns, is an ExportError.
    """
    unwrapped = unwrap(model)
    visitor = _FeatureVisitor(target)
    shared = visit(unwrapped.steps, [Feature(name) for name in unwrapped.names], visitor)
    form = LinearForm(unwrapped, _with_column(segment_labels(unwrapped, segment_column), shared))
    share = Fraction(1, len(unwrapped.scorers))
    for scorer in unwrapped.scorers:
        if scorer.coef is None:
            instead = "save_model keeps" if isinstance(scorer.final, KernelScorer) else "to_onnx exports"
            raise ExportError(
                f"{target} holds linear models only: the score of {type(scorer.final).__name__} is not a sum of "
                f"weights times features. taufpl.persistence.{instead} such models."
            )
        features = visit(scorer.steps, shared, visitor)
        if len(features) != scorer.coef.size:
            raise ExportError(f"the steps make {len(features)} features of X, the model has {scorer.coef.size}.")
        form.constant += share * Fraction(scorer.intercept)
        for feature, weight in zip(features, scorer.coef.tolist(), strict=True):
            form.add(feature, share * Fraction(weight))
    return form


def _with_column(segments: SegmentLabels | None, features: list[Feature]) -> SegmentLabels | None:
    """Labels of segments by the name of their column of X, which no step before the classifier may change."""
    if segments is None or segments.place is None:
        return segments
    feature = features[segments.place]
    if feature != Feature(feature.column):
        raise ExportError(
            f"a step before the classifier changes the column {feature.column!r}, from which it takes the segments: "
            "give their labels with the rows instead."
        )
    return replace(segments, column=feature.column)


class _FeatureVisitor:
    """Features as exact expressions in the columns of X."""

    def __init__(self, target: str) -> None:
        self.target = target

    def take(self, features: list[Feature], columns: Sequence[int]) -> list[Feature]:
        return [features[column] for column in columns]

    def join(self, parts: Sequence[list[Feature]]) -> list[Feature]:
        return [feature for part in parts for feature in part]

    def scale(self, features: list[Feature], step: Any, scaling: Scaling) -> list[Feature]:
        if scaling.bounds is not None:
            raise self._refusal(f"{type(step).__name__} that clips")
        parts = ((scaling.subtract, 0.0), (scaling.divide, 1.0), (scaling.multiply, 1.0), (scaling.add, 0.0))
        columns = [
            np.broadcast_to(neutral if part is None else part, len(features)).tolist() for part, neutral in parts
        ]
        return [_scaled(feature, *numbers) for feature, *numbers in zip(features, *columns, strict=True)]

    def impute(self, features: list[Feature], step: Any, fills: dict[int, Any], marked: list[int]) -> list[Feature]:
        whole = {column: _fillable(features[column], step) for column in [*fills, *marked]}
        kept = ((whole[column], fill) for column, fill in fills.items())
        gaps = (whole[column] for column in marked)
        return [
            *(replace(each, fill=fill) if each.fill is None else each for each, fill in kept),
            *(replace(each, is_indicator=True, slope=Fraction(int(each.fill is None))) for each in gaps),
        ]

    def encode(self, features: list[Feature], step: Any, encodings: Iterable[Encoding]) -> list[Feature]:
        return [
            replace(_whole_column(feature, step), encoding=encoding, output=output)
            for feature, encoding in zip(features, encodings, strict=True)
            for output in range(encoding.outputs.shape[1])
        ]

    def split_dates(self, features: list[Feature], step: Any) -> list[Feature]:
        whole = [_whole_column(feature, step) for feature in features]
        parts = [replace(feature, part=part) for feature in whole for part in DATE_PARTS]
        return parts + [replace(whole[column], part=MISSING, is_indicator=True) for column in step.marked_]

    def convert(self, features: list[Feature], step: Any) -> list[Feature]:
        raise self._refusal(type(step).__name__)

    def _refusal(self, what: str) -> ExportError:
        return ExportError(
            f"{what} cannot be written in {self.target}: standard, min-max, max-abs and robust scalers, SimpleImputer, "
            "OneHotEncoder, LevelEncoder, DateEncoder, selectors and column transformers of these can. "
            "taufpl.persistence.to_onnx exports more."
        )


def _scaled(feature: Feature, subtract: float, divide: float, multiply: float, add: float) -> Feature:
    """The feature after a scaler, in exact numbers."""
    factor = Fraction(multiply) / Fraction(divide)
    constant = (feature.constant - Fraction(subtract)) * factor + Fraction(add)
    return replace(feature, slope=feature.slope * factor, constant=constant)


def _fillable(feature: Feature, step: Any) -> Feature:
    """A column, or a part of a date; the mark of a missing date is never missing itself."""
    if feature.part is not None and feature.slope == 1 and feature.constant == 0:
        return feature
    return _whole_column(feature, step)


def _whole_column(feature: Feature, step: Any) -> Feature:
    is_changed = feature.part is not None or feature.encoding is not None or feature.is_indicator
    if not is_changed and feature.slope == 1 and feature.constant == 0:
        return feature
    raise ExportError(
        f"{type(step).__name__} after a step that changes the numbers cannot be folded into weights: put it first."
    )
