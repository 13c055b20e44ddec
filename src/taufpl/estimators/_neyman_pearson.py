"""Any scorer under a tolerance."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    check_method_params,
    check_sample_weight,
    check_y,
    fit_context,
    num_samples,
    routing_enabled,
    safe_indexing,
)
from taufpl.estimators._block_calibrate import held_scores, scores_remote
from taufpl.estimators._block_fit import CloneFitter
from taufpl.estimators._block_table import in_memory, read_part
from taufpl.estimators._fitters import EstimatorFitter, find_own, known_positive, last_step, scores_of, wanted_positive
from taufpl.estimators._grid import tau_grid
from taufpl.estimators._labels import split_labels
from taufpl.estimators._linear import AccuracyMixin, LinearScorer, score_rounding
from taufpl.estimators._strategies import Outcome, largest
from taufpl.estimators._thresholded import THRESHOLD_CONSTRAINTS, ThresholdedMixin, finite, forget
from taufpl.estimators._units import refuse_units
from taufpl.operators import is_foreign_array, is_remote, like, to_numpy
from taufpl.operators.remote import lazy_labels
from taufpl.thresholding import Evidence, JointOrderStatistic, NPScoreRule, TrainQuantile

Vector = NDArray[np.float64]


class NeymanPearsonClassifier(ThresholdedMixin, AccuracyMixin, MetaEstimatorMixin, BaseEstimator):
    """Any scikit-learn scorer, with a threshold that keeps the false-positive rate at or under tau.

    Parameters
    ----------
    estimator : estimator
        A classifier with `decision_function` or `predict_proba`, a pipeline that ends in one, or an outlier detector,
        which is fitted on negatives only and whose outliers are the positives.
    tau : float or sequence of float, default=0.01
        Tolerated false-positive rate, between 0 and 1. With several, there is a threshold for each, and for "np" and
        "cross" delta is the probability with which one or more of them is exceeded. `predict` and `decision_function`
        use the strictest, :meth:`decide` gives all decisions.
    threshold : {"auto", "np", "cross", "oob", "train"}, default="auto"
        As in :class:`TauFPLClassifier`: "np" where there are enough negatives for it, else "cross"; negatives that are
        held out, with a guarantee, or an error where they are too few; cross-fitting; the paper's out-of-bootstrap;
        the training quantile.
    delta : float or None, default=0.05
        Probability with which tau may be exceeded. None is for "oob" by `rule`.
    cv : int or "prefit", default=5
        Folds of "cross", and of the recall of "np". With "prefit", or with an estimator in
        :class:`sklearn.frozen.FrozenEstimator`, the estimator is taken as it is and all negatives given to `fit` choose
        the threshold: not those that it was fitted on.
    n_rounds, train_share, rule, combine, holdout, measure_recall, insufficient, n_jobs, random_state
        As in :class:`TauFPLClassifier`. "np" fits the estimator once, and up to `cv` more times to measure the recall.
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
        The scorers whose mean score counts: several after "oob" with ``combine="mean"``, else one.
    threshold_ : float
        On the scorer's own scale; with several tolerances that of the strictest.
    thresholds_ : ndarray of shape (n_taus,)
    strategy_ : str
        What "auto" stood for: "np" or "cross"; else `threshold`.
    evidence_ : Evidence, or tuple of Evidence with several tolerances
    fpr_estimate_, fpr_upper_bound_ : float, or ndarray with several tolerances
        From negatives that the scorer has not seen; with several tolerances each bound holds by itself.
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
        "tau": [Interval(Real, 0, 1, closed="neither"), "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"prefit"})],
        "pos_label": "no_validation",
    }

    def __init__(
        self,
        estimator: Any,
        tau: float | ArrayLike = 0.01,
        *,
        threshold: str = "auto",
        delta: float | None = 0.05,
        cv: int | str = 5,
        n_rounds: int = 10,
        train_share: float = 2 / 3,
        rule: str = "np_score",
        combine: str = "mean",
        holdout: float | str = "auto",
        measure_recall: bool = True,
        insufficient: str = "raise",
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.tau = tau
        self.threshold = threshold
        self.delta = delta
        self.cv = cv
        self.n_rounds = n_rounds
        self.train_share = train_share
        self.rule = rule
        self.combine = combine
        self.holdout = holdout
        self.measure_recall = measure_recall
        self.insufficient = insufficient
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    # The estimator inside has parameters that must be checked too.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, groups: Any = None, order: Any = None, **params: Any) -> Self:
        """Fit the scorer and choose its threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            What the estimator takes; dask collections and tensors where it is one of this package, or fitted: then
            rows are scored where they are, by any scorer that knows its classes.
        y : array-like of shape (n_samples,)
            Two different labels. With a fitted classifier negatives are enough; with a fitted outlier detector, too, if
            `pos_label` names the others.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together, as in :meth:`TauFPLClassifier.fit`. The searches of this package's
            estimators get them too; with metadata routing enabled, so does whatever else asks for them.
        order : array-like of shape (n_samples,), default=None
            When each row came, as in :meth:`TauFPLClassifier.fit`. Not for a fitted estimator.
        **params : dict
            Passed on to the estimator's `fit`, cut to the rows that it is fitted on where they have one entry a row.
            With metadata routing enabled, as it has been requested. Rows whose `sample_weight` is 0 count as absent;
            among the others the threshold counts every negative once, whatever its weight.

        Returns
        -------
        self
        """
        tau_grid(self.tau)
        is_fitted = self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator)
        if is_remote(X) and (is_fitted or isinstance(self.estimator, LinearScorer) or not is_foreign_array(X)):
            refuse_units(groups, order)
            return self._fit_remote(X, y, params, is_fitted=is_fitted)
        X, y = indexable(*in_memory(type(self).__name__, X, y))
        if num_samples(X) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X and y must hold rows.")
        y = check_y(y, estimator=self)
        if is_fitted:
            if params or order is not None:
                given = sorted(params) or ["order"]
                raise ValueError(f"a fitted estimator takes no parameters of fit but groups, got {given}.")
            return self._calibrate(X, y, groups)
        _refuse_pairwise(self.estimator)
        X, y, own, params = _without_weightless(X, y, {"groups": groups, "order": order}, params)
        labels = split_labels(y, wanted_positive(self.estimator, self.pos_label))
        labels = self._with_units(labels, X, own["groups"], own["order"])
        self.classes_ = labels.classes
        routed = self._routed(params, own["groups"]).estimator.fit
        fitter = EstimatorFitter(self.estimator, X, y, labels, routed)
        outcome = self._run_strategy(fitter, self._plan())
        if any(isinstance(part, FrozenEstimator) for part in self.estimator.get_params().values()):
            outcome = outcome.without_guarantee(
                "a part of the estimator was fitted before, and whether it has met these negatives cannot be told"
            )
        return self._keep_outcome(outcome)

    def _fit_remote(self, X: Any, y: Any, params: dict[str, Any], *, is_fitted: bool) -> Self:
        """Rows that stay where they are: a fitted scorer of any kind, or a linear one of this package."""
        if params:
            raise ValueError(f"rows that live elsewhere take no parameters of fit, got {sorted(params)}.")
        if is_fitted:
            return self._calibrate_remote(X, y)
        if not isinstance(self.estimator, LinearScorer):
            raise TypeError(
                f"{type(self.estimator).__name__} cannot be fitted on rows that live elsewhere, TauFPLRanker can. "
                "Fit it on rows in memory and give it fitted, with cv='prefit': rows are then scored where they are."
            )
        with read_part(self, X, y, wanted_positive(self.estimator, self.pos_label)) as part:
            fitter = CloneFitter(self.estimator, X, self.classes_)
            return self._keep_outcome(self._run_block_strategy(fitter, part, self._plan()))

    def _calibrate_remote(self, X: Any, y: Any) -> Self:
        check_is_fitted(self.estimator)
        self.classes_ = self._known_classes()
        scores = scores_remote(self.estimator, X, self.classes_[1])
        with held_scores(scores, y, self.classes_) as held:
            evidence = held.with_recall(self._choose(held.negative, held.positive))
            largest_score = max(each.largest for each in (held.negative, held.positive) if each is not None)
        return self._keep_outcome(Outcome((self.estimator,), evidence, largest_score))

    def _known_classes(self) -> NDArray[Any]:
        known = getattr(self.estimator, "classes_", None)
        if is_outlier_detector(self.estimator) or known is None:
            raise ValueError(
                "a fitted estimator must know its classes to be calibrated on rows that live elsewhere, "
                f"{type(self.estimator).__name__} has no classes_."
            )
        return self._in_order(to_numpy(known))

    def _in_order(self, known: NDArray[Any]) -> NDArray[Any]:
        """The classes of a fitted estimator, those of one of this package in its own order if `pos_label` is None."""
        is_ordered = self.pos_label is None and find_own(self.estimator) is not None
        return known if is_ordered else split_labels(known, self.pos_label).classes

    def _routed(self, params: dict[str, Any], groups: Any) -> Bunch:
        if not routing_enabled():
            return Bunch(estimator=Bunch(fit=params))
        if groups is not None and get_routing_for_object(self.estimator).consumes("fit", ["groups"]):
            params = {**params, "groups": groups}
        return process_routing(self, "fit", **params)

    def _calibrate(self, X: Any, y: NDArray[Any], groups: Any) -> Self:
        """Threshold of a fitted scorer: every negative given is one that it has not seen."""
        check_is_fitted(self.estimator)
        self.classes_ = self._prefit_classes(y)
        labels = self._known_labels(y, y.size)
        scores = scores_of(self.estimator, X, self.classes_[1])
        positive = scores[labels.positive_rows]
        evidence = self._fresh_evidence(X, scores, labels, groups, lambda negative: self._choose(negative, positive))
        return self._keep_outcome(Outcome((self.estimator,), evidence, largest(scores)))

    def _choose(self, negative: Any, positive: Any) -> tuple[Evidence, ...]:
        """By the rule of `threshold`, from scores of rows that a fitted scorer has not seen."""
        plan = self._plan()
        self.strategy_ = "np" if self.threshold == "auto" else self.threshold
        if self.strategy_ in ("np", "cross") or (self.strategy_ == "oob" and plan.delta is not None):
            # There is nothing to fall back on but the largest score, with a warning.
            insufficient: Any = (
                "largest" if (self.threshold, self.insufficient) == ("auto", "raise") else self.insufficient
            )
            return JointOrderStatistic(plan.taus, plan.bound_delta, insufficient).choose_all(negative)
        by_score = self.threshold == "oob" and self.rule == "np_score"
        rules = [(NPScoreRule if by_score else TrainQuantile)(tau) for tau in plan.taus]
        return tuple(rule.choose(negative, positive) for rule in rules)

    def _prefit_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        """Negative and positive label, as the fitted estimator knows them."""
        known = getattr(self.estimator, "classes_", None)
        if is_outlier_detector(self.estimator) or known is None:
            labels = np.unique(y)
            if len(labels) == 1 and self.pos_label is not None and self.pos_label != labels[0]:
                return np.array([labels[0], self.pos_label])
            if len(labels) == 1:
                raise ValueError(
                    f"y holds one label only, {labels.tolist()[0]!r}, and the fitted estimator knows no classes: "
                    "name the label of positives by pos_label."
                )
            return split_labels(y, self.pos_label).classes
        return self._in_order(np.asarray(known))

    def _keep_outcome(self, outcome: Outcome) -> Self:
        self.estimators_ = list(outcome.models)
        self.estimator_ = self.estimators_[0]
        forget(self, "n_features_in_", "feature_names_in_")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._keep_evidence(outcome.evidence, self._rounding(outcome.scale))
        return self

    def _rounding(self, scale: float) -> float:
        """Scores may come in single precision, and a large intercept may hide terms that cancel in them."""
        last = last_step(self.estimator_)
        hidden = float(np.max(np.abs(to_numpy(getattr(last, "intercept_", 0.0))), initial=0.0))
        single = to_numpy(getattr(last, "coef_", 0.0)).dtype == np.float32
        return score_rounding(scale + hidden, np.float32 if single else np.float64)

    def _raw_scores(self, X: Any) -> Any:
        if is_remote(X):
            scores = [scores_remote(model, X, known_positive(model, self.classes_)) for model in self.estimators_]
            return sum(scores[1:], scores[0]) / len(scores)
        scores = [scores_of(model, X, known_positive(model, self.classes_)) for model in self.estimators_]
        return np.mean(scores, axis=0)

    def decision_function(self, X: Any) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        scores = self._raw_scores(X)
        if is_remote(scores):
            return scores - min(self.threshold_, float(np.finfo(np.float64).max))
        return finite(scores - self.threshold_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row: positive where the score is strictly above the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        decisions = self.decision_function(X)
        if is_remote(decisions):
            return lazy_labels(decisions, self.classes_)
        return self.classes_[(decisions > 0).astype(np.intp)]

    def decide(self, X: Any) -> NDArray[np.bool_]:
        """Whether each row is positive at each tolerance, in the order of `tau`.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of bool of shape (n_samples, n_taus)
        """
        check_is_fitted(self)
        scores = self._raw_scores(X)[:, np.newaxis]
        return scores > (like(scores, self.thresholds_) if is_foreign_array(scores) else self.thresholds_)

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


def _refuse_pairwise(estimator: Any) -> None:
    """A matrix of pairs has a column for each row: models on some of the rows would need other columns later."""
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            f"{type(estimator).__name__} takes a matrix of k(x_i, x_j), whose columns would have to be cut too. "
            'Take KernelTauFPLClassifier(kernel="precomputed", threshold="np"), which does that; or fit the estimator '
            "first and give it with cv='prefit', and k of other rows with those that it was fitted on."
        )


def _without_weightless(
    X: Any, y: NDArray[Any], own: dict[str, Any], params: dict[str, Any]
) -> tuple[Any, NDArray[Any], dict[str, Any], dict[str, Any]]:
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
