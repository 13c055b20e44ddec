"""The estimators of scikit-learn whose loaded state has been audited, and what is checked of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from taufpl._sklearn import Tree
from taufpl.estimators import KernelScorer
from taufpl.exceptions import ModelFileError
from taufpl.persistence.files import _index_checks as checks

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
        checks.check_tree_features,
        {"tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"},
    ),
    (
        checks.check_ensemble,
        {
            "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor ExtraTreesClassifier "
            "ExtraTreesRegressor IsolationForest RandomForestClassifier RandomForestRegressor RandomTreesEmbedding"
        },
    ),
    (checks.check_gradient_boosting, {"ensemble": "GradientBoostingClassifier GradientBoostingRegressor"}),
    (
        checks.check_histogram_boosting,
        {"ensemble": "HistGradientBoostingClassifier HistGradientBoostingRegressor"},
    ),
    (checks.check_support, {"svm": "NuSVC NuSVR OneClassSVM SVC SVR"}),
    (
        checks.check_neighbours,
        {
            "impute": "KNNImputer",
            "neighbors": "KNeighborsClassifier KNeighborsRegressor LocalOutlierFactor NearestNeighbors",
        },
    ),
    (checks.check_covariance, {"covariance": "EllipticEnvelope"}),
    (checks.check_levels, {"preprocessing": "OneHotEncoder"}),
    (checks.check_words, {"feature_extraction.text": "CountVectorizer TfidfVectorizer"}),
    (checks.check_names, {"feature_extraction": "DictVectorizer"}),
    (
        checks.check_hashing,
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
    KernelScorer: checks.check_expansion,
    Tree: checks.check_tree,
    np.random.RandomState: checks.check_generator,
    np.random.Generator: checks.check_generator,
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
            checks.check_sparse(part)
            continue
        if isinstance(part, BaseEstimator) or (
            type(part).__module__.startswith("sklearn.") and hasattr(part, "__dict__")
        ):
            checks.check_attributes(part)
        check = next((_BY_TYPE[kind] for kind in type(part).__mro__ if kind in _BY_TYPE), None)
        if check is not None:
            check(part)
        if isinstance(part, _GRADIENT_BOOSTING):
            boosted.append(part)
    # These predict on a row, once all that they hold has been checked.
    for part in boosted:
        if any(isinstance(each, _GRADIENT_BOOSTING) for each in _objects(getattr(part, "init_", None))):
            raise ModelFileError("a boosted model in it begins with another")
        checks.check_start(part)


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
