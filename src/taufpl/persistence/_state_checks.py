"""What is checked of a model once it is loaded: compiled code would follow indices and lengths in it anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getattr_static
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.svm import SVC, NuSVC
from sklearn.utils import check_array

from taufpl._sklearn import Tree
from taufpl.estimators import KernelScorer
from taufpl.exceptions import ModelFileError
from taufpl.persistence._trees import check_children, check_features

# Numbers that a generator keeps: of the Mersenne Twister, and of Philox.
_TWISTER, _PHILOX = 624, 4
# What scikit-learn encodes the columns of boosted trees by.
_PARTS = {"encoder": OrdinalEncoder, "numerical": FunctionTransformer}
_MOST_JOBS = 1024
_MOST_HASHED = 2**31 - 1


def _is_fitted(part: Any, *names: str) -> bool:
    """Whether any of these attributes is there: an estimator with some of them alone is checked, and fails."""
    return any(hasattr(part, name) for name in names)


def _check_n_features(found: Any, expected: Any) -> None:
    if int(found) != int(expected):
        raise ModelFileError(f"a part of the model wants {int(found)} features where it would get {int(expected)}")


def _check_attributes(estimator: Any) -> None:
    """No attribute takes the place of a method or constant; numbers of features and of jobs are such numbers."""
    kind, attributes = type(estimator), vars(estimator)
    parameters = kind._get_param_names() if issubclass(kind, BaseEstimator) else ()
    for name in attributes.keys() - parameters:
        found = getattr_static(kind, name, None)
        if found is not None and (kind.__module__.startswith("sklearn.") or hasattr(found, "__get__")):
            raise ModelFileError(f"{kind.__name__}.{name} in it is not that of the library")
    if type(attributes.get("n_features_in_", 0)) is not int:
        raise ModelFileError("a number of features in it is no whole number")
    jobs: Any = attributes.get("n_jobs")
    if jobs is not None and not (isinstance(jobs, int | np.integer) and abs(int(jobs)) <= _MOST_JOBS):
        raise ModelFileError(f"n_jobs of {kind.__name__} in it is {jobs!r}, no number up to {_MOST_JOBS:,}")


def _check_tree(tree: Any) -> None:
    """Nodes lead to nodes and to features that are there, no deeper than the tree says."""
    if tree.node_count > tree.capacity:
        raise ModelFileError("a tree in it has fewer nodes than it says")
    left, right = tree.children_left, tree.children_right
    inner = np.flatnonzero(left != -1)
    if not len(left) or np.any((left == -1) != (right == -1)):
        raise ModelFileError("a tree in it has a node with a single child, or no node")
    _check_branches(left[inner], right[inner], inner, len(left))
    check_features(tree.feature[inner], tree.n_features)
    if tree.compute_node_depths().max() > tree.max_depth + 1:
        raise ModelFileError("a tree in it is deeper than it says")


def _check_branches(left: Any, right: Any, inner: Any, count: int) -> None:
    """Every node but the first is the child of one that comes before it, and of no other."""
    check_children(left, inner, count)
    check_children(right, inner, count)
    if not np.array_equal(np.sort(np.concatenate([left, right])), np.arange(1, count)):
        raise ModelFileError("a tree in it has a node with two parents, or with none")


def _check_tree_features(model: Any) -> None:
    """A tree wants as many features as the estimator around it gets."""
    if _is_fitted(model, "tree_"):
        _check_n_features(model.tree_.n_features, model.n_features_in_)


def _check_gradient_boosting(model: Any) -> None:
    """As of any ensemble of trees, each added to a sum of its own: of two classes, as of numbers, there is one."""
    if not _is_fitted(model, "estimators_"):
        return
    n_sums = getattr(model, "n_trees_per_iteration_", 1)
    if np.ndim(model.estimators_) != 2 or not np.shape(model.estimators_)[1] == n_sums == 1:
        raise ModelFileError("a boosted model in it has more or fewer trees side by side than sums")
    _check_ensemble(model)


def _check_start(model: Any) -> None:
    """The sums of gradient boosting begin with one number a row. What they begin with must have been checked before."""
    if _is_fitted(model, "estimators_") and model._raw_predict_init(
        np.zeros((1, model.n_features_in_), dtype=np.float32)
    ).shape != (1, 1):
        raise ModelFileError("a boosted model in it does not begin with one number a row")


def _check_ensemble(model: Any) -> None:
    """Trees of an ensemble are not asked again how many features they want; some get a part of the columns."""
    if not _is_fitted(model, "estimators_"):
        return
    if not isinstance(model.estimators_, list | np.ndarray):
        raise ModelFileError("the estimators of an ensemble in it are no list")
    trees = np.ravel(np.asarray(model.estimators_, dtype=object))
    columns = getattr(model, "estimators_features_", None)
    if columns is None or model._max_features == model.n_features_in_:
        counts = [model.n_features_in_] * len(trees)
    else:
        if not all(np.ndim(each) == 1 and np.asarray(each).dtype.kind in "iu" for each in columns):
            raise ModelFileError("the columns of a tree in it are no indices")
        counts = [len(each) for each in columns]
    for each, count in zip(trees, counts, strict=True):
        if hasattr(each, "tree_"):
            _check_n_features(each.tree_.n_features, count)


def _check_histogram_boosting(model: Any) -> None:
    """Nodes lead to nodes, features and sets of categories that are there, and each feature comes from its column."""
    if not _is_fitted(model, "_predictors"):
        return
    _check_n_features(len(model._bin_mapper.is_categorical_), model.n_features_in_)
    for predictor in (each for iteration in model._predictors for each in iteration):
        nodes, bitsets = predictor.nodes, predictor.raw_left_cat_bitsets
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        if not len(nodes) or bitsets.ndim != 2 or bitsets.shape[1] != 8:
            raise ModelFileError("a boosted tree in it has no node, or sets of categories of another size")
        left, right = (nodes[side][inner].astype(np.int64) for side in ("left", "right"))
        _check_branches(left, right, inner, len(nodes))
        check_features(nodes["feature_idx"][inner], model.n_features_in_)
        by_set = nodes[inner][nodes["is_categorical"][inner] != 0]
        has_sets = np.asarray(model._bin_mapper.is_categorical_, dtype=bool)[by_set["feature_idx"]]
        if np.any(by_set["bitset_idx"] >= len(bitsets)) or not np.all(has_sets):
            raise ModelFileError("a boosted tree in it asks for a set of categories that is not there")
    _check_preprocessor(model)


def _check_preprocessor(model: Any) -> None:
    """Categories and numbers that go into boosted trees come out of their encoder as many as there are features."""
    encoder = getattr(model, "_preprocessor", None)
    if encoder is None:
        return
    places = np.arange(model.n_features_in_)
    parts = {name: (part, places[columns].tolist()) for name, part, columns in encoder.transformers_ if name in _PARTS}
    given = [encoder._transformer_to_input_indices.get(name) for name in parts]
    sound = (
        [*parts] == [*_PARTS]
        and all(type(part) is kind for (part, _), kind in zip(parts.values(), _PARTS.values(), strict=True))
        and getattr(parts["numerical"][0].func, "func", None) is check_array
        and given == [columns for _, columns in parts.values()]
        and sorted(place for columns in given for place in columns) == places.tolist()
    )
    if not sound:
        raise ModelFileError("the encoder of a boosted model in it does not give each feature")


def _check_support(model: Any) -> None:
    """Support vectors, their coefficients, and the numbers of each class and pair of classes fit each other."""
    if not _is_fitted(model, "support_vectors_", "_dual_coef_", "_n_support"):
        return
    vectors, counts, duals = model.support_vectors_, np.asarray(model._n_support), model._dual_coef_
    classifies = isinstance(model, SVC | NuSVC)
    n_classes = len(model.classes_) if classifies else 2
    # A detector has vectors of one kind, and what stands in the second place of its counts means nothing.
    total = counts.sum() if classifies else counts[0]
    n_pairs = n_classes * (n_classes - 1) // 2
    # Older versions of scikit-learn know the parameter alone.
    sizes = (n_pairs,) if getattr(model, "_effective_probability", model.probability) else (0, n_pairs)
    sound = (
        counts.shape == (n_classes,)
        and bool(np.all(counts >= 0))
        and int(total) == vectors.shape[0] == duals.shape[1] == len(model.support_)
        and duals.shape[0] == n_classes - 1
        and np.size(model._intercept_) == n_pairs
        and all(np.size(part) in sizes for part in (model._probA, model._probB))
        and vectors.shape[1] == model.n_features_in_
        # Entries are counted through, in sparse matrices too, and places of rows are followed in such a kernel alone.
        and duals.size == duals.shape[0] * duals.shape[1]
        and isinstance(model.kernel, str)
        and model.kernel != "precomputed"
    )
    if not sound:
        raise ModelFileError("the support vectors in it do not fit their coefficients")


def _check_expansion(model: Any) -> None:
    """A kernel model has a row for each weight, or the place of a column where the kernel is precomputed."""
    if not _is_fitted(model, "support_vectors_", "dual_coef_"):
        return
    support, weights = model.support_vectors_, model.dual_coef_
    by_place = model.kernel == "precomputed"
    shape = (weights.shape[-1],) if by_place else (weights.shape[-1], model.n_features_in_)
    sound = weights.ndim == 2 and len(weights) == 1 and support.shape == shape
    if sound and by_place and support.size:
        sound = support.dtype.kind == "i" and 0 <= support.min() <= support.max() < model.n_features_in_
    if not sound:
        raise ModelFileError("the rows of a kernel model in it do not fit their weights")


def _check_neighbours(model: Any) -> None:
    """Rows that new ones are compared with are as many as told, have their columns, and one label each that is there.

    A metric that multiplies by a matrix has one of as many rows and columns.
    """
    if not _is_fitted(model, "_fit_X", "n_samples_fit_"):
        return
    rows = model._fit_X
    labels: Any = getattr(model, "_y", None)
    _check_n_features(rows.shape[1], model.n_features_in_)
    if not 0 < rows.shape[0] == getattr(model, "n_samples_fit_", rows.shape[0]):
        raise ModelFileError("the neighbours in it are fewer or more than it says")
    for settings in (getattr(model, name, None) or {} for name in ("metric_params", "effective_metric_params_")):
        if "VI" in settings and np.shape(settings["VI"]) != (model.n_features_in_,) * 2:
            raise ModelFileError("the matrix of a distance in it does not fit the columns")
    if hasattr(model, "classes_") and np.ndim(labels) == 1:
        # Several labels a row are followed by NumPy, which looks.
        inside = (labels >= 0) & (labels < len(model.classes_))
        if len(labels) != rows.shape[0] or not np.all(inside):
            raise ModelFileError("the labels of neighbours in it do not fit their rows")


def _check_covariance(model: Any) -> None:
    """The middle of a detector, and the matrices around it, are of as many columns as rows of data have."""
    if not _is_fitted(model, "location_", "covariance_", "precision_"):
        return
    count = model.n_features_in_
    matrices = [model.covariance_, model.precision_] if model.store_precision else [model.covariance_]
    if np.shape(model.location_) != (count,) or any(np.shape(each) != (count, count) for each in matrices):
        raise ModelFileError("the covariance in it does not fit the columns")


def _check_levels(encoder: Any) -> None:
    """Each level, or the group of rare ones that it belongs to, leads to a feature of its column.

    Numbers are looked up by halves, which finds a place behind the last one where they are not sorted.
    """
    if not _is_fitted(encoder, "categories_", "_n_features_outs"):
        return
    n_columns, levels, counts = encoder.n_features_in_, encoder.categories_, encoder._n_features_outs
    drops = [None] * n_columns if encoder._drop_idx_after_grouping is None else encoder._drop_idx_after_grouping
    groups = encoder._default_to_infrequent_mappings if encoder._infrequent_enabled else [None] * n_columns
    if not len(levels) == len(counts) == len(drops) == len(groups) == n_columns:
        raise ModelFileError("the levels in it do not fit their columns")
    for own, count, drop, group in zip(levels, counts, drops, groups, strict=True):
        n_places = count + (drop is not None)
        places = np.arange(len(own)) if group is None else np.asarray(group)
        ends = [*places, *([] if drop is None else [drop])]
        if np.asarray(own).dtype.kind not in "OUS" and not np.array_equal(np.sort(own), own, equal_nan=True):
            raise ModelFileError("the levels of a column in it are not sorted")
        if len(places) != len(own) or not all(
            isinstance(end, int | np.integer) and 0 <= end < n_places for end in ends
        ):
            raise ModelFileError("the levels in it do not fit their features")


def _check_words(model: Any) -> None:
    """Words lead to the features from the first to the last, and are at least one together."""
    low, high = model.ngram_range
    if not (isinstance(low, int) and isinstance(high, int) and 1 <= low <= high):
        raise ModelFileError("the words in it are taken less than one at a time")
    _check_names(model)


def _check_names(model: Any) -> None:
    """Names lead to the features from the first to the last."""
    if not _is_fitted(model, "vocabulary_"):
        return
    places = model.vocabulary_.values()
    if not all(isinstance(place, int | np.integer) for place in places) or {*places} != {*range(len(places))}:
        raise ModelFileError("the words in it do not fit their features")


def _check_hashing(model: Any) -> None:
    """Words are hashed into one feature or more, by a number of 32 bits."""
    count = model.n_features
    if not (isinstance(count, int | np.integer) and 1 <= count <= _MOST_HASHED):
        raise ModelFileError(f"words in it are hashed into {count!r} features")
    if hasattr(model, "ngram_range"):
        _check_words(model)


def _check_sparse(matrix: Any) -> None:
    """The places of a matrix lie within its shape, row by row or column by column."""
    if matrix.format not in ("csr", "csc"):
        raise ModelFileError(f"a sparse matrix in it is of the kind {matrix.format!r}")
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ModelFileError("a sparse matrix in it points outside itself") from error


def _check_generator(source: Any) -> None:
    """A generator takes its next number from the place that its state names, without looking."""
    is_new = isinstance(source, np.random.Generator)
    state: Any = source.bit_generator.state if is_new else source.get_state(legacy=False)
    place, buffer_place = state["state"].get("pos", 0), state.get("buffer_pos", 0)
    if not (0 <= place <= _TWISTER and 0 <= buffer_place <= _PHILOX):
        raise ModelFileError("a generator of random numbers in it points outside its state")


Check = Callable[[Any], None]

# Modules and classes by what is checked beyond what is checked of every object. With None, NumPy and SciPy compute with
# the arrays of the estimator, and look at every index and shape themselves. Compiled code of others does not: a class
# goes into this table once it is known what such code follows, with a case in tests/persistence/fuzz_cases.py.
_TABLE: tuple[tuple[Check | None, dict[str, str]], ...] = (
    (
        None,
        {
            "calibration": "CalibratedClassifierCV",
            "compose": "ColumnTransformer TransformedTargetRegressor",
            "decomposition": "IncrementalPCA KernelPCA PCA TruncatedSVD",
            "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
            "dummy": "DummyClassifier DummyRegressor",
            "ensemble": "StackingClassifier StackingRegressor VotingClassifier VotingRegressor",
            "feature_extraction.text": "TfidfTransformer",
            "feature_selection": "GenericUnivariateSelect RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe "
            "SelectKBest SelectPercentile SequentialFeatureSelector VarianceThreshold",
            "frozen": "FrozenEstimator",
            "impute": "MissingIndicator SimpleImputer",
            "isotonic": "IsotonicRegression",
            "kernel_approximation": "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler",
            "kernel_ridge": "KernelRidge",
            "linear_model": "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars LarsCV Lasso "
            "LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression LogisticRegression LogisticRegressionCV "
            "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV Perceptron QuantileRegressor Ridge RidgeCV "
            "RidgeClassifier RidgeClassifierCV SGDClassifier SGDOneClassSVM SGDRegressor TheilSenRegressor",
            "mixture": "GaussianMixture",
            "model_selection": "FixedThresholdClassifier GridSearchCV RandomizedSearchCV",
            "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
            "neighbors": "NearestCentroid",
            "neural_network": "MLPClassifier MLPRegressor",
            "pipeline": "FeatureUnion Pipeline",
            "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer LabelBinarizer "
            "LabelEncoder MaxAbsScaler MinMaxScaler Normalizer OrdinalEncoder PolynomialFeatures PowerTransformer "
            "QuantileTransformer RobustScaler StandardScaler TargetEncoder",
            "random_projection": "GaussianRandomProjection SparseRandomProjection",
            "svm": "LinearSVC LinearSVR",
        },
    ),
    (
        _check_tree_features,
        {"tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"},
    ),
    (
        _check_ensemble,
        {
            "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor ExtraTreesClassifier "
            "ExtraTreesRegressor IsolationForest RandomForestClassifier RandomForestRegressor RandomTreesEmbedding"
        },
    ),
    (_check_gradient_boosting, {"ensemble": "GradientBoostingClassifier GradientBoostingRegressor"}),
    (
        _check_histogram_boosting,
        {"ensemble": "HistGradientBoostingClassifier HistGradientBoostingRegressor"},
    ),
    (_check_support, {"svm": "NuSVC NuSVR OneClassSVM SVC SVR"}),
    (
        _check_neighbours,
        {
            "impute": "KNNImputer",
            "neighbors": "KNeighborsClassifier KNeighborsRegressor LocalOutlierFactor NearestNeighbors",
        },
    ),
    (_check_covariance, {"covariance": "EllipticEnvelope"}),
    (_check_levels, {"preprocessing": "OneHotEncoder"}),
    (_check_words, {"feature_extraction.text": "CountVectorizer TfidfVectorizer"}),
    (_check_names, {"feature_extraction": "DictVectorizer"}),
    (
        _check_hashing,
        {"feature_extraction": "FeatureHasher", "feature_extraction.text": "HashingVectorizer"},
    ),
)

AUDITED: dict[type, Check | None] = {
    getattr(module, name): check
    for check, modules in _TABLE
    for module, names in ((import_module(f"sklearn.{each}"), names) for each, names in modules.items())
    for name in names.split()
}
_BY_TYPE: dict[type, Check | None] = {
    **AUDITED,
    KernelScorer: _check_expansion,
    Tree: _check_tree,
    np.random.RandomState: _check_generator,
    np.random.Generator: _check_generator,
}
_GRADIENT_BOOSTING = (GradientBoostingClassifier, GradientBoostingRegressor)
_HOMES = ("sklearn.", "taufpl.", "lightgbm.", "xgboost.", "catboost.")


def check_state(model: Any) -> None:
    """Hold every index and length that compiled code would follow in a loaded model against what it points into.

    What is checked stands in the table above; an estimator that has not been fitted, such as one that is cloned, has
    little of it. Whatever does not fit is a ModelFileError.
    """
    boosted = []
    for part in _objects(model):
        if hasattr(part, "tocsr"):
            _check_sparse(part)
            continue
        if isinstance(part, BaseEstimator) or (
            type(part).__module__.startswith("sklearn.") and hasattr(part, "__dict__")
        ):
            _check_attributes(part)
        check = next((_BY_TYPE[kind] for kind in type(part).__mro__ if kind in _BY_TYPE), None)
        if check is not None:
            check(part)
        if isinstance(part, _GRADIENT_BOOSTING):
            boosted.append(part)
    # These predict on a row, once all that they hold has been checked.
    for part in boosted:
        if any(isinstance(each, _GRADIENT_BOOSTING) for each in _objects(getattr(part, "init_", None))):
            raise ModelFileError("a boosted model in it begins with another")
        _check_start(part)


def _objects(model: Any) -> Iterator[Any]:
    """Everything that hangs on a model, each once."""
    stack, seen = [model], {}
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        yield item
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set):
            stack.extend(item)
        elif isinstance(item, np.ndarray):
            stack.extend(item.ravel().tolist() if item.dtype == object else ())
        elif type(item).__module__.startswith(_HOMES):
            stack.extend(getattr(item, "__dict__", {}).values())
