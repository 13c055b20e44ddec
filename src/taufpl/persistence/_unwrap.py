"""A fitted model taken out of pipelines and searches, as all exports see it: its parts, segments and steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from taufpl._row_hashes import is_missing
from taufpl._types import Array, Vector
from taufpl.estimators import (
    KernelScorer,
    LinearScorer,
    ScorerClassifier,
    ScoreScreen,
    StackedScorer,
    TauFPLClassifier,
    known_positive,
    steps_and_last,
    wrapped_head,
)
from taufpl.exceptions import ExportError
from taufpl.preprocessing import DateEncoder, LevelEncoder, TableEncoder
from taufpl.thresholding import MISSING_LEVEL, SegmentThresholds

# Decision functions that are X coef + intercept. All linear classifiers of scikit-learn have one of the last two.
_LINEAR = tuple(
    each.decision_function for each in (LinearScorer, TauFPLClassifier, LogisticRegression, LinearDiscriminantAnalysis)
)


@dataclass(frozen=True, slots=True)
class PipelineScorer:
    """One of the scorers whose mean is the score: an estimator behind the steps of its own pipeline.

    `positive` is what the estimator calls the label that a high score stands for. The score of a linear one is
    features @ coef + intercept; `coef` is None for others. The score of a stack is the sum of its terms + intercept.
    """

    steps: tuple[Any, ...]
    final: Any
    positive: Any
    coef: Vector | None
    intercept: float = 0.0
    terms: tuple[StackTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class StackTerm:
    """What one model adds to the score of a stack: factor (log-odds - center)."""

    scorer: PipelineScorer
    center: float
    factor: float


@dataclass(frozen=True, slots=True)
class UnwrappedModel:
    """A fitted model in parts: a row is positive where the mean of its scores is above the threshold.

    `known_names` are those of the columns of X: x0, x1, ... for a model that was fitted without names, which `named`
    tells; None if it does not know how many columns X had.
    """

    head: Any  # the estimator of this library, with the caveats of what is around it
    steps: tuple[Any, ...]  # of the pipeline around it
    scorers: tuple[PipelineScorer, ...]
    threshold: float
    classes: Array  # the label of negatives, then that of positives
    known_names: tuple[str, ...] | None
    named: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of X, which an export needs."""
        if self.known_names is None:
            raise ExportError(
                f"{type(self.head).__name__} does not know how many columns it was fitted on: its estimator has no "
                "n_features_in_."
            )
        return self.known_names


def unwrap(model: Any) -> UnwrappedModel:
    """Take a fitted model apart; a TypeError where no estimator of this library makes the decision."""
    steps, head = steps_and_last(model)[0], wrapped_head(model)
    if not isinstance(head, LinearScorer | KernelScorer | ScorerClassifier):
        raise TypeError(
            "model must be a ScreeningClassifier, a TauFPLClassifier, a KernelTauFPLClassifier, a "
            "NeymanPearsonClassifier, a ScoreScreen or a ranker of this library, or a pipeline or a search that ends "
            f"in one; got {type(head).__name__}."
        )
    check_is_fitted(head)
    scorers: tuple[PipelineScorer, ...]
    if isinstance(head, ScorerClassifier):
        scorers, threshold = _scorers(head), head._raw_threshold
    else:
        coef = None if isinstance(head, KernelScorer) else np.asarray(head.coef_[0], dtype=np.float64)
        scorers, threshold = (PipelineScorer((), head, head.classes_[1], coef),), -float(head.intercept_[0])
    given, count = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    if count is None and not steps and not scorers[0].steps and scorers[0].coef is not None:
        count = scorers[0].coef.size
    names = given if given is not None or count is None else [f"x{column}" for column in range(count)]
    known_names = None if names is None else tuple(str(name) for name in names)
    return UnwrappedModel(head, steps, scorers, threshold, head.classes_, known_names, given is not None)


def _scorers(head: ScorerClassifier) -> tuple[PipelineScorer, ...]:
    if not isinstance(head, ScoreScreen):
        return tuple(_scorer(each, head.classes_) for each in head.estimators_)
    # The column of scores itself, or minus it.
    place = head.column % head.n_features_in_ if isinstance(head.column, int | np.integer) else 0
    return (PipelineScorer((TakeColumns((place,)),), head, head.classes_[1], np.array([head._sign])),)


def _scorer(model: Any, classes: Array) -> PipelineScorer:
    steps, final = steps_and_last(model)
    positive = known_positive(final, classes)
    if isinstance(final, StackedScorer):
        return _stack(steps, final, positive)
    if getattr(type(final), "decision_function", None) not in _LINEAR:
        return PipelineScorer(steps, final, positive, None)
    sign = 1.0 if final.classes_[1] == positive else -1.0
    coef = final.coef_.toarray() if hasattr(final.coef_, "toarray") else final.coef_
    intercept = float(np.ravel(final.intercept_)[0])
    return PipelineScorer(steps, final, positive, sign * np.asarray(coef, dtype=np.float64).ravel(), sign * intercept)


def _stack(steps: tuple[Any, ...], stack: StackedScorer, positive: Any) -> PipelineScorer:
    """A stack behind its encoder; it is linear where all its models are."""
    sign = 1.0 if stack.classes_[1] == positive else -1.0
    terms = tuple(
        StackTerm(_scorer(model, np.array([0, 1])), center, sign * member.weight / (len(member.models) * scale))
        for member in stack.members_
        for model, center, scale in zip(member.models, member.centers, member.scales, strict=True)
    )
    coef, intercept = None, sign * stack.intercept_
    weights = [
        term.factor * term.scorer.coef for term in terms if term.scorer.coef is not None and not term.scorer.steps
    ]
    if len(weights) == len(terms):
        coef = np.sum(weights, axis=0)
        intercept += sum(term.factor * (term.scorer.intercept - term.center) for term in terms)
    return PipelineScorer((*steps, stack.encoder_), stack, positive, coef, intercept, terms)


def finite(threshold: float) -> float:
    """The threshold, or the largest number in the place of infinity: no score is above either."""
    return min(threshold, float(np.finfo(np.float64).max))


# Ways to write a truth value.
_TRUTH = {"false": ("false", "False", "FALSE"), "true": ("true", "True", "TRUE")}
# Digits to which whole numbers in texts may be filled up by zeros.
_MOST_DIGITS = 12
# A label of a sample that no segment has.
_UNSEEN = "a segment never seen"


@dataclass(frozen=True, slots=True)
class SegmentLabels:
    """The column with the labels of segments, and the thresholds.

    `place` is that of the column among those that the classifier sees; None says that the column stands beside them.
    """

    limits: SegmentThresholds
    column: str
    place: int | None

    @property
    def missing(self) -> float:
        """The threshold of rows without a label."""
        return finite(self.limits.by_segment.get(MISSING_LEVEL, self.limits.strictest))

    @property
    def unknown(self) -> float:
        """The threshold of all other labels, the strictest."""
        return finite(self.limits.strictest)

    @property
    def are_truth_values(self) -> bool:
        """Whether all labels are truth values, or texts that say so."""
        return {*self.limits.members, *self.limits.unproven} <= {*_TRUTH, MISSING_LEVEL}

    def texts(self) -> dict[str, float]:
        """The threshold of each text that is a label: 12, 012 and 12.0 are ways to write the same."""
        # The text "missing" is read as no label is.
        known = {MISSING_LEVEL: self.missing, **self.limits.by_segment}
        ways = {text: name for name in known for text in _ways_to_write(name)}
        # What is itself the name of a segment is no way to write another.
        return {text: finite(known[name]) for text, name in (ways | {name: name for name in known}).items()}

    def numbers(self) -> dict[int | float, float]:
        """The threshold of each number that is a label; truth values are 0 and 1."""
        known = {name: each for name, each in self.limits.by_segment.items() if name != MISSING_LEVEL}
        return {_number(name): finite(threshold) for name, threshold in known.items()}

    def sample(self, n_rows: int) -> Array:
        """Labels of all segments, of one that was never seen, and missing ones, in turn."""
        names = [*self.limits.members, *self.limits.unproven]
        labels: list[Any] = [name for name in names if name != MISSING_LEVEL]
        if self.limits.is_number:
            labels = [*map(_number, labels), max(map(abs, map(_number, labels)), default=0.0) + 1.0, np.nan]
            return np.resize(np.array(labels, dtype=np.float64), n_rows)
        return np.resize(np.array([*labels, _UNSEEN, None], dtype=object), n_rows)

    def as_known(self, labels: Any, *, is_text: bool) -> Array:
        """Labels of rows for the model, as an export knows them: other ways to write them were never seen."""
        values = np.asarray(labels, dtype=object).tolist()
        if is_text:
            known = {*self.texts(), ""}
            values = [each if is_missing(each) or each in known else _UNSEEN for each in values]
        elif self.are_truth_values:
            values = [None if is_missing(each) else bool(each) for each in values]
        return np.array([*values, None], dtype=object)[:-1]


def _ways_to_write(name: str) -> list[str]:
    """Texts that the model reads as this label."""
    if name in _TRUTH:
        return list(_TRUTH[name])
    if not (name.isascii() and name.isdigit()):
        return [name]
    return [*(name.zfill(width) for width in range(len(name), max(_MOST_DIGITS, len(name)) + 1)), f"{name}.0"]


def _number(name: str) -> int | float:
    if name in _TRUTH:
        return int(name == "true")
    try:
        return int(name)
    except ValueError:
        return float(name)


def segment_labels(model: UnwrappedModel, given: str | None) -> SegmentLabels | None:
    """Where a model with thresholds by segment finds labels; None for models with one threshold.

    `given` names the column of labels that were given to the fit beside X.
    """
    head, limits = model.head, getattr(model.head, "segments_", None)
    if limits is None:
        if given is not None:
            raise ValueError(f"segment_column={given!r} is for models with segments; this one has a single threshold.")
        return None
    if callable(head.segments):
        raise ExportError(
            "the segments of the model come from a function of X, which no export can hold. Name a column of X by "
            "segments, or give the labels with the rows and fit again."
        )
    # A column has its place among those that the classifier sees; labels that were given beside them have none.
    names, place = _seen_names(model), limits.column
    if isinstance(place, str):
        place = names.index(place) if place in names else None
    if place is None:
        column = limits.column if given is None else given
        if column is None:
            raise ExportError(
                "the labels of segments were given beside X: name the column that will hold them by segment_column."
            )
        return SegmentLabels(limits, str(column), None)
    name = names[place]
    if given not in (None, name):
        raise ValueError(f"segment_column={given!r}: the model finds its segments in its own column {name!r}.")
    return SegmentLabels(limits, name, place)


def _seen_names(model: UnwrappedModel) -> tuple[str, ...]:
    """Names of the columns that the classifier sees, which steps before it have made."""
    if not model.steps:
        return model.known_names or ()
    count = int(getattr(model.head, "n_features_in_", 0))
    return tuple(map(str, getattr(model.head, "feature_names_in_", map("x{}".format, range(count)))))


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
