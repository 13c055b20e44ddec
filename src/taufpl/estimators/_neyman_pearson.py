"""A threshold with a promise on the score of any scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from taufpl._sklearn import (
    BaseSearchCV,
    HasMethods,
    Interval,
    StrOptions,
    check_method_params,
    check_sample_weight,
    fit_context,
    routing_enabled,
    safe_indexing,
)
from taufpl._types import Array, Mask, RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._linear import LinearScorer
from taufpl.estimators._predictions import (
    PredictionMixin,
    above_each,
    batch_caveat,
    decisions_of,
    indexed,
    last_step,
    local_model,
    mean_scores,
    refuse_memory,
    scores_of,
    some_rows,
    steps_and_last,
    was_fitted_before,
)
from taufpl.estimators._reading import calibration_classes, in_memory, make_table, read_units, score_table, split_labels
from taufpl.estimators._table import Scores, score_rounding
from taufpl.estimators._thresholded import SEGMENT_CONSTRAINT, THRESHOLD_CONSTRAINTS, SegmentedMixin, forget
from taufpl.estimators.strategies import Automatic, Fitter, Outcome, Plan, Strategy, limits_of, takes_earlier_parameters
from taufpl.operators import is_foreign_array, is_remote, to_numpy
from taufpl.preprocessing import one_unseen_warning, without_unseen_warnings

# Labels that a classifier for 0 and 1 takes as they are.
_CODED = ([0, 1], [1, 0])


class CloneFitter(Fitter):
    """Fits clones of a scikit-learn classifier, or of an outlier detector, which sees negatives only.

    A classifier that refuses the labels is given 0 for negatives and 1 for positives.
    """

    def __init__(self, estimator: Any, classes: Array) -> None:
        self.estimator, self.classes = estimator, classes
        self.learns_from_positives = not is_outlier_detector(estimator)

    def prepare(self, table: Any) -> None:
        """Choose nothing beforehand."""

    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a clone."""
        if not table.in_memory:
            return table.fit_clone(self._clone(), self.classes)
        if not self.learns_from_positives:
            return self._fit(table.negatives(), self.classes)
        if find_own(self.estimator) is not None or self.classes.tolist() in _CODED:
            return self._fit(table, self.classes)
        # Nothing tells which classifiers take 0 and 1 alone, as XGBoost does, but that they refuse other labels.
        try:
            return self._fit(table, self.classes)
        except (TypeError, ValueError) as refusal:
            try:
                return self._fit(table, np.arange(2))
            except Exception:
                raise refusal from None

    def _clone(self) -> Any:
        """A clone; an estimator of this package is told which label is positive, or it would rank the other class."""
        model = clone(self.estimator)
        own = find_own(model)
        if own is not None and own.pos_label is None:
            own.set_params(pos_label=self.classes.tolist()[1])
        return model

    def _fit(self, table: ArrayTable, classes: Array) -> Any:
        model, rows = self._clone(), table.rows
        params = {**check_method_params(table.X, table.params, indices=rows), **self._groups_for(model, table)}
        with without_unseen_warnings:
            return model.fit(safe_indexing(table.X, rows), classes[table.is_positive.astype(np.intp)], **params)

    def _groups_for(self, model: Any, table: ArrayTable) -> dict[str, Any]:
        """The groups of these rows under the name by which an estimator of this package that searches gets them."""
        last, groups = last_step(model), table.units.groups
        if groups is None or not has_fit_parameter(last, "groups") or not isinstance(last, PredictionMixin):
            return {}
        name = "groups"
        if last is not model and routing_enabled():
            last.set_fit_request(groups=True)
        elif last is not model:
            name = f"{model.steps[-1][0]}__groups"
        return {name: groups[table.rows]}

    def scores(self, model: Any, table: Any) -> Scores:
        """Higher for the positive class."""
        positive = known_positive(model, self.classes)
        if not table.in_memory:
            return with_model_rounding(table.scores_by(model, positive), model)
        rows = safe_indexing(table.X, table.by_class)
        with without_unseen_warnings:
            return with_model_rounding(table.with_scores(scores_of(model, rows, positive)), model)

    def is_linear(self, model: Any) -> bool:
        """Whether the last step has coefficients; probabilities are not linear even then."""
        return hasattr(model, "decision_function") and hasattr(last_step(model), "coef_")

    def has_scale(self, model: Any) -> bool:
        """Not if scores are linear: shrinkage makes those of fewer rows smaller."""
        return not self.is_linear(model)


def with_model_rounding(scores: Any, model: Any) -> Any:
    """Scores by a model, with their rounding: a large intercept may hide terms that cancel in them."""
    last = steps_and_last(model)[1]
    scale = max(abs(end) for sample in (scores.negative, scores.positive) if sample.size for end in sample.ends())
    hidden = float(np.max(np.abs(to_numpy(getattr(last, "intercept_", 0.0))), initial=0.0))
    dtype = np.float32 if to_numpy(getattr(last, "coef_", 0.0)).dtype == np.float32 else np.float64
    return scores.with_rounding(score_rounding(scale + hidden, dtype), hidden if hasattr(last, "coef_") else None)


def find_own(model: Any) -> Any:
    """The estimator of this package that a pipeline, a search or a freezer ends in, or that the model is; or None."""
    while True:
        if isinstance(model, Pipeline):
            model = last_step(model)
        elif isinstance(model, BaseSearchCV | FrozenEstimator):
            model = model.estimator
        else:
            return model if isinstance(model, PredictionMixin) else None


def wanted_positive(estimator: Any, pos_label: Any) -> Any:
    """The label that is to be positive: the one given, else that of an estimator of this package, else None."""
    wanted = getattr(find_own(estimator), "pos_label", None)
    if pos_label is None:
        return wanted
    if wanted is not None and wanted != pos_label:
        raise ValueError(
            f"pos_label of the estimator is {wanted!r}, but positives are {pos_label!r} here. "
            "Give the same pos_label to both."
        )
    return pos_label


def known_positive(model: Any, classes: Array) -> Any:
    """What a fitted scorer calls the second of the two classes: 1 where it was given 0 and 1 in place of them."""
    known = getattr(model, "classes_", None)
    is_coded = known is not None and set(to_numpy(known).tolist()) == {0, 1} != set(to_numpy(classes).tolist())
    return 1 if is_coded else classes[1]


def refuse_pairwise(estimator: Any) -> None:
    """A matrix of pairs has a column for each row: models on some of the rows would need other columns later."""
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            f"{type(estimator).__name__} takes a matrix of k(x_i, x_j), whose columns would have to be cut too. "
            'Take KernelTauFPLClassifier(kernel="precomputed", threshold="np"), which does that; or fit the estimator '
            "first and give it with cv='prefit', and k of other rows with those that it was fitted on."
        )


def without_weightless(
    X: Any, y: Array, own: dict[str, Any], params: dict[str, Any]
) -> tuple[Any, Array, dict[str, Any], dict[str, Any]]:
    """Drop rows whose sample_weight is 0: they must not choose a threshold either."""
    # Under its own name, or under that of a step of a pipeline.
    given = [each for name, each in params.items() if name.split("__")[-1] == "sample_weight" and each is not None]
    if not given:
        return X, y, own, params
    weights = check_sample_weight(given[0], X, ensure_non_negative=True)
    rows = np.flatnonzero(weights > 0)
    if rows.size == len(weights):
        return X, y, own, params
    if len(np.unique(y[rows])) < 2:
        raise ValueError(
            f"sample_weight must leave rows of both classes: {len(rows)} rows have a positive weight, all of one class."
        )
    cut = [check_method_params(X, each, indices=rows) for each in (own, params)]
    return safe_indexing(X, rows), y[rows], cut[0], cut[1]


class ScorerClassifier(SegmentedMixin, PredictionMixin, BaseEstimator):
    """A threshold on the mean score of fitted scorers, `estimators_`, for all rows or for each segment."""

    estimators_: list[Any]

    def _keep_outcome(self, outcome: Outcome, X: Any) -> Self:
        self.estimators_ = list(outcome.models)
        self.estimator_ = self.estimators_[0]
        forget(self, "n_features_in_", "feature_names_in_")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._keep_evidence(self._looked_at(outcome, X), X)
        return self

    def _looked_at(self, outcome: Outcome, X: Any) -> Outcome:
        limits = outcome.evidence if outcome.segments is None else outcome.segments.evidence
        if is_remote(X) or not any(each.guaranteed for each in limits):
            return outcome
        rows = some_rows(X)
        with without_unseen_warnings:
            found = [batch_caveat("scores", self._raw_scores, rows, outcome.rounding.sums)]
        segments = getattr(self, "segments", None)
        if callable(segments):
            found.append(batch_caveat("segments", lambda some: np.asarray(segments(some)), rows))
        for caveat in filter(None, found):
            warn_user(
                f"{caveat}: the proof of the threshold needs a function of the row alone, and nothing is guaranteed. "
                "What looks at all rows of a call, such as a scaling to their range, must be learned in fit.",
                UserWarning,
            )
            outcome = outcome.without_guarantee(caveat)
        return outcome

    def _calibrated(self, raw: Any, X: Any, y: Any, groups: Any, plan: Plan, scorer: Any = None) -> Outcome:
        """Thresholds on the scores of rows that the scorer has not seen; scores without a scorer are not rounded."""
        strategy = self._strategy()
        self.strategy_ = strategy.for_fitted.name
        if isinstance(strategy, Automatic) and self.insufficient == "raise" and plan.segments is None:
            # There is nothing to fall back on but the largest score, with a warning.
            plan = replace(plan, insufficient="largest")
        with score_table(self, raw, X, y, groups, plan) as (table, scores):
            scores = scores if scorer is None else with_model_rounding(scores, scorer)
            chosen = strategy.for_fitted.calibrate(scores, plan)
            return limits_of(plan, table).calibrate(table, scores, chosen)

    def _raw_scores(self, X: Any) -> Any:
        models = self.estimators_
        with one_unseen_warning():
            return mean_scores([scores_of(model, X, known_positive(model, self.classes_)) for model in models])

    def decision_function(self, X: Any, segments: Any = None) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where limits are by segment and the parameter `segments` names no column of X.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        threshold = self._threshold_of(X, segments)
        return decisions_of(self._raw_scores(X), threshold)

    def decide(self, X: Any, segments: Any = None) -> Mask:
        """Whether each row is positive at each tolerance, in the order of `tau`.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        segments : array-like of shape (n_samples,), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_taus)
            With limits by segment there is one column.
        """
        check_is_fitted(self)
        threshold = self._threshold_of(X, segments)
        if self.segments_ is None:
            return above_each(self._raw_scores(X), self.thresholds_)
        above: Mask = self._raw_scores(X) > threshold
        return above[:, np.newaxis]


class NeymanPearsonClassifier(MetaEstimatorMixin, ScorerClassifier):
    """Any scikit-learn scorer, with a threshold that keeps the false-positive rate at or under tau.

    Parameters
    ----------
    estimator : estimator
        A classifier with `decision_function` or `predict_proba`, a pipeline that ends in one, or an outlier detector,
        which is fitted on negatives only and whose outliers are the positives.
    tau : float, sequence of float, or mapping, default=0.01
        Tolerated false-positive rate, between 0 and 1. With several, there is a threshold for each, and for "np" and
        "cross" delta is the probability with which one or more of them is exceeded. `predict` and `decision_function`
        use the strictest, :meth:`decide` gives all decisions. A mapping has a tolerance for each of the `segments`, as
        in :class:`TauFPLClassifier`.
    threshold : {"auto", "np", "cross", "oob", "train"} or strategy, default="auto"
        As in :class:`TauFPLClassifier`: "np" where there are enough negatives for it, else "cross"; negatives that are
        held out, with a guarantee, or an error where they are too few; cross-fitting; the paper's out-of-bootstrap;
        the training quantile.
    delta : float or None, default=0.05
        Probability with which tau may be exceeded. None is for "oob" by its rule; where "np" or "cross" need a value
        it then is 0.05.
    cv : int or "prefit", default=5
        Folds of "cross", and of the recall of "np". With "prefit", or with an estimator in
        :class:`sklearn.frozen.FrozenEstimator`, the estimator is taken as it is and all negatives given to `fit` choose
        the threshold: not those that it was fitted on.
    n_jobs : int or None, default=None
        Folds and rounds that are fitted at the same time, in processes; None is 1, -1 all cores.
    insufficient, looks, random_state, verbose
        As in :class:`TauFPLClassifier`. "np" fits the estimator once, and up to `cv` more times to measure the recall.
    segments : str, int, callable or None, default=None
        Limits by segment, as in :class:`TauFPLClassifier`.
    pos_label : label, default=None
        Label of positives. None takes that of an estimator of this package, where it has one, else the second in sorted
        order, with a :class:`~taufpl.exceptions.PositiveLabelWarning` for labels other than 0 and 1, -1 and 1, or False
        and True. An estimator of this package that has none of its own is fitted with it; the scores of other
        classifiers are turned round where they rank the other class.

    Attributes
    ----------
    estimator_ : estimator
        The fitted scorer; the first of `estimators_`.
    estimators_ : list of estimators
        The scorers whose mean score counts: several after "oob" that takes their mean, else one.
    threshold_ : float
        On the scorer's own scale; with several tolerances that of the strictest.
    thresholds_ : ndarray of shape (n_taus,)
    strategy_ : str
        The name of the strategy: what "auto" stood for, "np" or "cross", else that of `threshold`.
    evidence_ : Evidence, or tuple of Evidence with several tolerances
    threshold_history_, sequences_
        As in :class:`TauFPLClassifier`.
    fpr_estimate_, fpr_upper_bound_ : float, or ndarray with several tolerances
        From negatives that the scorer has not seen; with several tolerances each bound holds by itself.
    segments_ : SegmentThresholds or None
        As in :class:`TauFPLClassifier`.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.

    Notes
    -----
    The estimator is fitted on the labels as they are, so that ``class_weight={"fraud": 10}`` means what it says. If it
    raises a ValueError or a TypeError, it is fitted once more on 0 for negatives and 1 for positives, which is all that
    XGBoost takes, say: `estimator_.classes_` is then ``[0, 1]``, and `classes_`, `predict` and all else here keep the
    labels of `y`. An error that remains is raised as it was with the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from taufpl import NeymanPearsonClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 5)) + y[:, np.newaxis]
    >>> classifier = NeymanPearsonClassifier(LogisticRegression(), tau=0.05, random_state=0).fit(X, y)
    >>> bool(classifier.predict(rng.normal(size=(100_000, 5))).mean() <= 0.05), classifier.evidence_.guaranteed
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **THRESHOLD_CONSTRAINTS,
        "estimator": [HasMethods(["fit"])],
        "tau": [Interval(Real, 0, 1, closed="neither"), "array-like", Mapping],
        "segments": SEGMENT_CONSTRAINT,
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"prefit"})],
        "pos_label": "no_validation",
    }

    @takes_earlier_parameters()
    def __init__(
        self,
        estimator: Any,
        tau: float | ArrayLike | Mapping[Any, float] = 0.01,
        *,
        threshold: str | Strategy = "auto",
        delta: float | None = 0.05,
        cv: int | str = 5,
        insufficient: str = "raise",
        looks: int | str = 1,
        segments: Any = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.tau = tau
        self.threshold = threshold
        self.delta = delta
        self.cv = cv
        self.insufficient = insufficient
        self.looks = looks
        self.segments = segments
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # The estimator inside has parameters that must be checked too.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, groups: Any = None, order: Any = None, segments: Any = None, **params: Any) -> Self:
        """Fit the scorer and choose its threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            What the estimator takes. Dask collections and tensors where it is one of this package, or fitted: then
            rows are scored where they are, by any scorer that knows its classes. Dask collections of numbers, with a
            current `distributed.Client`, where it is ``xgboost.dask.DaskXGBClassifier`` or
            ``lightgbm.DaskLGBMClassifier``: it learns where the rows are, and `estimator_` is the classifier of the
            same library for rows in memory.
        y : array-like of shape (n_samples,)
            Two different labels. With a fitted classifier negatives are enough; with a fitted outlier detector, too, if
            `pos_label` names the others.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together, as in :meth:`TauFPLClassifier.fit`. The searches of this package's
            estimators get them too; with metadata routing enabled, so does whatever else asks for them.
        order : array-like of shape (n_samples,), default=None
            When each row came, as in :meth:`TauFPLClassifier.fit`. Not for a fitted estimator.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, as in :meth:`TauFPLClassifier.fit`.
        **params : dict
            Passed on to the estimator's `fit`, cut to the rows that it is fitted on where they have one entry a row.
            With metadata routing enabled, as it has been requested. Rows whose `sample_weight` is 0 count as absent;
            among the others the threshold counts every negative once, whatever its weight.

        Returns
        -------
        self
        """
        plan = self._plan(self._row_segments(X, segments))
        if self._is_fitted_before():
            if params or order is not None:
                given = sorted(params) or ["order"]
                raise ValueError(f"a fitted estimator takes no parameters of fit but groups and segments, got {given}.")
            return self._calibrate(*indexed(self, X, y), groups, plan)
        with make_table(self, X, y, groups, order, params, plan.segment_codes) as table:
            outcome = self._run_strategy(CloneFitter(self.estimator, self.classes_), table, plan)
        if any(map(was_fitted_before, self.estimator.get_params().values())):
            outcome = outcome.without_guarantee(
                "a part of the estimator was fitted before, and whether it has seen these negatives cannot be told"
            )
        return self._keep_outcome(outcome, X)

    def _read_table(
        self, X: Any, y: Any, groups: Any, order: Any, params: dict[str, Any], segments: RowIndices | None
    ) -> ArrayTable:
        """The rows of a fit in memory, with what else the estimator is fitted with."""
        X, y = indexed(self, *in_memory(type(self).__name__, X, y))
        refuse_memory(self.estimator)
        refuse_pairwise(self.estimator)
        given = {"groups": groups, "order": order, "segments": segments}
        X, y, own, params = without_weightless(X, y, given, params)
        labels = split_labels(y, self._positive_label())
        self.classes_ = labels.classes
        units = read_units(own["groups"], own["order"], y.size, own["segments"])
        routed = self._routed(params, own["groups"]).estimator.fit
        return ArrayTable(X, labels.positive_rows, labels.negative_rows, units, None, self.n_jobs, routed)

    def _takes_remote(self, X: Any) -> bool:
        """Whether the estimator is fitted on remote rows where they are; tensors come into memory for others."""
        from taufpl.estimators.remote import remote_learner

        if isinstance(self.estimator, LinearScorer) or not is_foreign_array(X):
            return True
        return remote_learner(self.estimator, X) is not None

    def _check_remote(self, X: Any) -> None:
        from taufpl.estimators.remote import remote_learner

        if isinstance(self.estimator, LinearScorer):
            self.estimator._check_remote(X)
            return
        learner = remote_learner(self.estimator, X)
        if learner is None:
            raise TypeError(
                f"{type(self.estimator).__name__} cannot be fitted on remote rows; TauFPLRanker can, and on a cluster "
                "xgboost.dask.DaskXGBClassifier and lightgbm.DaskLGBMClassifier. Take one of these, or fit the "
                "estimator on rows in memory and give it fitted, with cv='prefit': rows are then scored where they are."
            )
        learner.check(self.estimator)

    def training_rows(
        self, y: Any, groups: Any = None, order: Any = None, segments: Any = None, sample_weight: Any = None
    ) -> RowIndices | None:
        """The rows that `fit` would learn from, as :meth:`TauFPLClassifier.training_rows`.

        Parameters
        ----------
        y, groups, order, segments : array-like of shape (n_samples,)
            As they will be given to `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights that `fit` will pass on: rows of weight 0 count as absent.

        Returns
        -------
        ndarray of int, or None
            Row numbers, ascending, none with a fitted estimator; None where `fit` learns from all rows, because the
            threshold is not "np".
        """
        if self._is_fitted_before():
            return np.empty(0, dtype=np.intp)
        weights = check_sample_weight(sample_weight, y, ensure_non_negative=True)
        return self._training_rows(
            y, groups, order, self._segments_alone(segments, len(y)), np.flatnonzero(weights > 0)
        )

    def _is_fitted_before(self) -> bool:
        return self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator)

    def _positive_label(self) -> Any:
        return wanted_positive(self.estimator, self.pos_label)

    def _learns_from_positives(self) -> bool:
        return not is_outlier_detector(self.estimator)

    def _calibrate(self, X: Any, y: Any, groups: Any, plan: Plan) -> Self:
        """Threshold of a fitted scorer: every negative given is one that it has not seen."""
        check_is_fitted(self.estimator)
        known = getattr(self.estimator, "classes_", None)
        is_known = known is not None and not is_outlier_detector(self.estimator)
        self.classes_ = self._in_order(to_numpy(known)) if is_known else self._classes_of(y)
        scorer = local_model(self.estimator)
        with without_unseen_warnings:
            outcome = self._calibrated(scores_of(scorer, X, self.classes_[1]), X, y, groups, plan, scorer)
        return self._keep_outcome(replace(outcome, models=(scorer,)), X)

    def _in_order(self, known: Array) -> Array:
        """The classes of a fitted estimator, those of one of this package in its own order if `pos_label` is None."""
        is_ordered = self.pos_label is None and find_own(self.estimator) is not None
        return known if is_ordered else split_labels(known, self.pos_label).classes

    def _routed(self, params: dict[str, Any], groups: Any) -> Bunch:
        if not routing_enabled():
            return Bunch(estimator=Bunch(fit=params))
        if groups is not None and get_routing_for_object(self.estimator).consumes("fit", ["groups"]):
            params = {**params, "groups": groups}
        return process_routing(self, "fit", **params)

    def _classes_of(self, y: Any) -> Array:
        """Negative and positive label, where the fitted estimator does not know them."""
        if not isinstance(y, np.ndarray):
            raise ValueError(
                "a fitted estimator must know its classes to be calibrated on remote rows, "
                f"{type(self.estimator).__name__} has no classes_."
            )
        return calibration_classes(y, self.pos_label)

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata go: groups and order stay here, where they were requested; the rest goes to the estimator.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        tags.classifier_tags.multi_class = False
        return tags
