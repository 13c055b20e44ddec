"""A linear model over the columns of X themselves: the steps before it are folded into its weights, exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer

from taufpl.estimators import KernelScorer
from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline_visitor import walk
from taufpl.persistence._steps import Encoding, encodings, imputation, is_encoder, scaling
from taufpl.persistence._unwrap import Anatomy, take_apart

# Sums of constants are kept in units of 2^-1200: below the last digit of every double, and without denominators that
# grow with every term.
_UNIT = 1 << 1200


@dataclass(frozen=True, slots=True)
class Column:
    """A column of X as it is, with what takes the place of a missing value."""

    name: str
    fill: Any = None


@dataclass(frozen=True, slots=True)
class Numeric:
    """A multiple of a column, and a constant."""

    column: Column
    slope: Fraction
    constant: Fraction


@dataclass(frozen=True, slots=True)
class Encoded:
    """A multiple of one output of a one-hot encoded column, and a constant."""

    column: Column
    encoding: Encoding
    output: int
    slope: Fraction
    constant: Fraction


@dataclass(frozen=True, slots=True)
class Gap:
    """A multiple of 1 where a column is missing and of 0 where it is not, and a constant."""

    column: Column
    slope: Fraction
    constant: Fraction


Feature = Column | Numeric | Encoded | Gap


@dataclass(slots=True)
class Term:
    """What a numeric column adds: weight times its value.

    Attributes
    ----------
    weight : Fraction
    centre : float
        A point to measure from, so that large values do not cancel.
    filled : Fraction
        What a missing value adds instead.
    unfilled : bool
        Whether there is no such number, because nothing fills the column.
    """

    weight: Fraction = Fraction(0)
    centre: float = 0.0
    filled: Fraction = Fraction(0)
    unfilled: bool = False


@dataclass(slots=True)
class Categories:
    """What a column of categories adds; None where the model gives no answer."""

    weights: dict[Any, Fraction | None]
    missing: Fraction | None
    unknown: Fraction | None


@dataclass(slots=True)
class LinearForm:
    """Raw score = constant + what each column adds; positive where it is above the threshold.

    Attributes
    ----------
    anatomy : Anatomy
    numeric : dict of Term, by name of column
    encoded : dict of weights of outputs, by column and encoding
    constant : Fraction
    """

    anatomy: Anatomy
    numeric: dict[str, Term] = field(default_factory=dict)
    encoded: dict[tuple[Column, Encoding], list[Fraction]] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    def centred(self) -> Fraction:
        """The constant, where every numeric column is measured from its centre."""
        moved = (term.weight * Fraction(term.centre) for term in self.numeric.values())
        return self.constant + sum((_rounded(each) for each in moved), start=Fraction(0))

    def categories(self) -> dict[str, Categories]:
        """What each column of categories adds, all its encodings together."""
        together: dict[str, Categories] = {}
        for (column, encoding), weights in self.encoded.items():
            one = _categories(column, encoding, weights)
            known = together.get(column.name)
            together[column.name] = one if known is None else _sum(known, one)
        return together


def _categories(column: Column, encoding: Encoding, weights: list[Fraction]) -> Categories:
    found: dict[Any, Fraction | None] = {
        value: Fraction(0) if output is None else weights[output]
        for value, output in zip(encoding.categories, encoding.outputs, strict=True)
    }
    unknown = None
    if encoding.unknown is not None:
        shares = map(Fraction, encoding.unknown.tolist())
        unknown = sum((share * weight for share, weight in zip(shares, weights, strict=True)), start=Fraction(0))
    # An encoder that has seen missing values has them from an imputer that looks for others: None is not NaN.
    missing = found.pop(None) if None in found else found.get(column.fill, unknown)
    return Categories(found, missing, unknown)


def _sum(left: Categories, right: Categories) -> Categories:
    def add(one: Fraction | None, other: Fraction | None) -> Fraction | None:
        return None if one is None or other is None else one + other

    values = {
        value: add(left.weights.get(value, left.unknown), right.weights.get(value, right.unknown))
        for value in [*left.weights, *right.weights]
    }
    return Categories(values, add(left.missing, right.missing), add(left.unknown, right.unknown))


def linear_form(model: Any, target: str) -> LinearForm:
    """Weights of the columns of X.

    Parameters
    ----------
    model : estimator
    target : str
        What it is for, as errors call it.

    Raises
    ------
    ExportError
        The model is not linear in what its steps make of X, or a step cannot be written as a sum over columns.
    """
    anatomy = take_apart(model)
    form = LinearForm(anatomy)
    algebra = _Expressions(target)
    columns: list[Feature] = [Column(name) for name in anatomy.names]
    shared = walk(anatomy.steps, columns, algebra)
    share = Fraction(1, len(anatomy.scorers))
    for scorer in anatomy.scorers:
        if scorer.linear is None:
            instead = "save_model keeps" if isinstance(scorer.final, KernelScorer) else "to_onnx exports"
            raise ExportError(
                f"{target} holds linear models only: the score of {type(scorer.final).__name__} is not a sum of "
                f"weights times features. taufpl.persistence.{instead} such models."
            )
        features = walk(scorer.steps, shared, algebra)
        if len(features) != scorer.linear.coef.size:
            raise ExportError(f"the steps make {len(features)} features of X, the model has {scorer.linear.coef.size}.")
        form.constant += share * Fraction(scorer.linear.intercept)
        for feature, weight in zip(features, scorer.linear.coef.tolist(), strict=True):
            _add(form, feature, share * Fraction(weight))
    return form


def _rounded(value: Fraction) -> Fraction:
    return Fraction(round(value * _UNIT), _UNIT)


def _add(form: LinearForm, feature: Feature, weight: Fraction) -> None:
    """Add a multiple of a feature to the sum."""
    if not weight:
        return
    if isinstance(feature, Column):
        feature = Numeric(feature, Fraction(1), Fraction(0))
    form.constant += _rounded(weight * feature.constant)
    if isinstance(feature, Encoded):
        key = (feature.column, feature.encoding)
        weights = form.encoded.setdefault(key, [Fraction(0)] * feature.encoding.n_outputs)
        weights[feature.output] += weight * feature.slope
        return
    term, slope, fill = (
        form.numeric.setdefault(feature.column.name, Term()),
        weight * feature.slope,
        feature.column.fill,
    )
    if isinstance(feature, Gap):
        term.filled += slope
        return
    term.weight += slope
    term.centre = term.centre or float(-feature.constant / feature.slope)
    if fill is None:
        term.unfilled = True
    else:
        term.filled += slope * Fraction(_number(fill, feature.column.name))


def _number(fill: Any, name: str) -> float | int:
    if isinstance(fill, str):
        raise ExportError(f"column {name!r} is filled with {fill!r} and then used as a number.")
    return fill


class _Expressions:
    """Features as expressions in the columns of X."""

    def __init__(self, target: str) -> None:
        self.target = target

    def take(self, features: list[Feature], columns: Sequence[int]) -> list[Feature]:
        return [features[column] for column in columns]

    def join(self, parts: Sequence[list[Feature]]) -> list[Feature]:
        return [feature for part in parts for feature in part]

    def apply(self, step: Any, features: list[Feature]) -> list[Feature]:
        if type(step) is SimpleImputer:
            return self._impute(step, features)
        if is_encoder(step):
            return self._encode(step, features)
        plan = scaling(step)
        if plan is None or plan.bounds is not None:
            reason = " that clips" if plan is not None else ""
            raise ExportError(
                f"{type(step).__name__}{reason} cannot be written in {self.target}: standard, min-max, max-abs and "
                "robust scalers, SimpleImputer, OneHotEncoder, LevelEncoder, selectors and column transformers of "
                "these can. taufpl.persistence.to_onnx exports more."
            )
        parts = (plan.subtract, plan.divide, plan.multiply, plan.add)
        rows = np.broadcast_arrays(*(np.nan if part is None else part for part in parts), np.zeros(len(features)))[:4]
        numbers = np.array(rows).T.tolist()
        return [_scaled(feature, *row) for feature, row in zip(features, numbers, strict=True)]

    def _impute(self, step: SimpleImputer, features: list[Feature]) -> list[Feature]:
        plan = imputation(step)
        filled = [_plain_column(features[column], step) for column in plan.kept]
        made: list[Feature] = [
            Column(each.name, _value(fill)) if each.fill is None else each
            for each, fill in zip(filled, plan.fills, strict=True)
        ]
        for marked in plan.marked:
            column = _plain_column(features[marked], step)
            made.append(Gap(column, Fraction(0 if column.fill is not None else 1), Fraction(0)))
        return made

    def _encode(self, step: Any, features: list[Feature]) -> list[Feature]:
        made: list[Feature] = []
        for feature, encoding in zip(features, encodings(step), strict=True):
            column = _plain_column(feature, step)
            outputs = range(encoding.n_outputs)
            made += [Encoded(column, encoding, output, Fraction(1), Fraction(0)) for output in outputs]
        return made


def _scaled(feature: Feature, subtract: float, divide: float, multiply: float, add: float) -> Feature:
    """The feature after a scaler, in exact numbers; NaN leaves a part out."""
    if isinstance(feature, Column):
        feature = Numeric(feature, Fraction(1), Fraction(0))
    slope, constant = feature.slope, feature.constant
    if not math.isnan(subtract):
        constant -= Fraction(subtract)
    if not math.isnan(divide):
        slope, constant = slope / Fraction(divide), constant / Fraction(divide)
    if not math.isnan(multiply):
        slope, constant = slope * Fraction(multiply), constant * Fraction(multiply)
    if not math.isnan(add):
        constant += Fraction(add)
    if isinstance(feature, Encoded):
        return Encoded(feature.column, feature.encoding, feature.output, slope, constant)
    return type(feature)(feature.column, slope, constant)


def _plain_column(feature: Feature, step: Any) -> Column:
    if isinstance(feature, Column):
        return feature
    raise ExportError(
        f"{type(step).__name__} after a step that changes the numbers cannot be folded into weights: put it first."
    )


def _value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
