"""Small fitted models that hold every audited class: the files that the fuzzer changes."""

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import linear_model
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA, IncrementalPCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import (
    RFE,
    RFECV,
    GenericUnivariateSelect,
    SelectFdr,
    SelectFpr,
    SelectFromModel,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
)
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    LocalOutlierFactor,
    NearestCentroid,
    NearestNeighbors,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from boosting_cases import catboost, lightgbm, xgboost
from taufpl import (
    KernelTauFPLClassifier,
    KernelTauFPLRanker,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
)
from taufpl.baselines import TopPush
from taufpl.kernels import PivotedCholeskyFeatures

rng = np.random.default_rng(0)
Y = rng.permutation(np.repeat([0, 1], [60, 20]))
ROWS = rng.normal(size=(80, 4)) + 2.0 * Y[:, np.newaxis]
POSITIVE = np.abs(ROWS)
COUNTS = rng.integers(0, 4, size=(80, 4)) + Y[:, np.newaxis]
SPARSE = sparse.csr_matrix(np.where(ROWS > 1, ROWS, 0))
LEVELS = np.column_stack([COUNTS[:, :2], ROWS[:, :2]])
GAPS = np.where(rng.random(ROWS.shape) < 0.1, np.nan, ROWS)
TEXTS = np.array([" ".join(rng.choice(["a1", "b2", "c3", "d4", "e5"], 4)) + (" fraud" if each else "") for each in Y])
RECORDS = [{"a": float(row[0]), f"b{count}": 1.0} for row, count in zip(ROWS, COUNTS[:, 0], strict=True)]
FRAME = pd.DataFrame({"x": ROWS[:, 0], "y": GAPS[:, 1], "kind": COUNTS[:, 0].astype(str)})


CLASSIFIERS = [
    linear_model.LogisticRegression(),
    linear_model.LogisticRegressionCV(Cs=[1.0], cv=2, l1_ratios=(0.0,), scoring="roc_auc", use_legacy_attributes=True),
    linear_model.RidgeClassifier(),
    linear_model.RidgeClassifierCV(),
    linear_model.SGDClassifier(random_state=0),
    linear_model.SGDClassifier(random_state=0).fit(ROWS, Y).sparsify(),
    linear_model.Perceptron(random_state=0),
    linear_model.SGDOneClassSVM(random_state=0),
    LinearSVC(),
    SVC(),
    SVC(kernel="poly", degree=2, coef0=1.0),
    NuSVC(nu=0.3),
    OneClassSVM(),
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.1),
    GaussianNB(),
    BernoulliNB(),
    DecisionTreeClassifier(max_depth=3),
    ExtraTreeClassifier(max_depth=3, random_state=0),
    RandomForestClassifier(3, max_depth=3, random_state=0),
    ExtraTreesClassifier(3, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=3),
    GradientBoostingClassifier(n_estimators=2, init="zero"),
    HistGradientBoostingClassifier(max_iter=3, max_features=0.5, min_samples_leaf=5, random_state=0),
    AdaBoostClassifier(n_estimators=2),
    BaggingClassifier(n_estimators=2, max_features=3, random_state=0),
    IsolationForest(n_estimators=3, random_state=0),
    IsolationForest(n_estimators=3, max_features=2, random_state=0),
    EllipticEnvelope(support_fraction=0.9, random_state=0),
    LocalOutlierFactor(5, algorithm="brute", novelty=True),
    LocalOutlierFactor(5, algorithm="brute", novelty=True, metric="manhattan"),
    KNeighborsClassifier(algorithm="brute"),
    KNeighborsClassifier(algorithm="brute", metric="manhattan", weights="distance"),
    KNeighborsClassifier(algorithm="brute", metric="minkowski", p=3),
    KNeighborsClassifier(algorithm="brute", metric="mahalanobis", metric_params={"VI": np.eye(4)}),
    KNeighborsClassifier(algorithm="brute", metric="seuclidean", metric_params={"V": np.ones(4)}),
    NearestCentroid(),
    MLPClassifier((3,), max_iter=2, random_state=0),
    DummyClassifier(strategy="stratified", random_state=0),
    CalibratedClassifierCV(GaussianNB(), cv=2),
    CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=2),
    CalibratedClassifierCV(GaussianNB(), method="temperature", cv=2),
    FrozenEstimator(LogisticRegression().fit(ROWS, Y)),
    StackingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier(max_depth=2))], cv=2),
    VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft"),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    RandomizedSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0),
    FixedThresholdClassifier(LogisticRegression()),
    RFE(LogisticRegression(), n_features_to_select=2),
    RFECV(LogisticRegression(), cv=2),
    Pipeline([("a", StandardScaler()), ("b", LogisticRegression())]),
]
REGRESSORS = [
    linear_model.ARDRegression(),
    linear_model.BayesianRidge(),
    linear_model.ElasticNet(alpha=0.01),
    linear_model.ElasticNetCV(cv=2, alphas=3),
    linear_model.HuberRegressor(),
    linear_model.Lars(),
    linear_model.LarsCV(cv=2),
    linear_model.Lasso(alpha=0.01),
    linear_model.LassoCV(cv=2, alphas=3),
    linear_model.LassoLars(alpha=0.01),
    linear_model.LassoLarsCV(cv=2),
    linear_model.LassoLarsIC(),
    linear_model.LinearRegression(),
    linear_model.OrthogonalMatchingPursuit(n_nonzero_coefs=2),
    linear_model.OrthogonalMatchingPursuitCV(cv=2, max_iter=3),
    linear_model.QuantileRegressor(alpha=0.01),
    linear_model.Ridge(),
    linear_model.RidgeCV(),
    linear_model.SGDRegressor(random_state=0),
    linear_model.TheilSenRegressor(random_state=0, max_subpopulation=20),
    LinearSVR(),
    SVR(),
    NuSVR(),
    KernelRidge(kernel="rbf"),
    DecisionTreeRegressor(max_depth=3),
    ExtraTreeRegressor(max_depth=3, random_state=0),
    RandomForestRegressor(3, max_depth=3, random_state=0),
    ExtraTreesRegressor(3, max_depth=3, random_state=0),
    GradientBoostingRegressor(n_estimators=3),
    HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=5),
    AdaBoostRegressor(n_estimators=2, random_state=0),
    BaggingRegressor(n_estimators=2, random_state=0),
    KNeighborsRegressor(algorithm="brute"),
    MLPRegressor(hidden_layer_sizes=(3,), max_iter=2, random_state=0),
    DummyRegressor(),
    StackingRegressor([("a", linear_model.Ridge()), ("b", DecisionTreeRegressor(max_depth=2))], cv=2),
    VotingRegressor([("a", linear_model.Ridge()), ("b", linear_model.LinearRegression())]),
    TransformedTargetRegressor(linear_model.Ridge(), func=np.log1p, inverse_func=np.expm1, check_inverse=False),
]
TRANSFORMERS = [
    StandardScaler(),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer(),
    Binarizer(),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=10),
    PolynomialFeatures(),
    KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
    KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    TargetEncoder(cv=2, random_state=0),
    FunctionTransformer(np.abs),
    SimpleImputer(),
    KNNImputer(n_neighbors=2),
    PCA(2),
    IncrementalPCA(2),
    KernelPCA(2, kernel="rbf"),
    TruncatedSVD(2),
    GaussianRandomProjection(2, random_state=0),
    SparseRandomProjection(2, random_state=0),
    Nystroem(n_components=5, random_state=0),
    Nystroem(kernel="laplacian", n_components=5, random_state=0),
    RBFSampler(n_components=5, random_state=0),
    PolynomialCountSketch(n_components=5, random_state=0),
    RandomTreesEmbedding(2, max_depth=2, random_state=0),
    LinearDiscriminantAnalysis(),
    SelectKBest(k=2),
    SelectPercentile(),
    SelectFdr(),
    SelectFpr(),
    SelectFwe(),
    GenericUnivariateSelect(),
    SelectFromModel(linear_model.Lasso(alpha=0.01)),
    SequentialFeatureSelector(GaussianNB(), n_features_to_select=1, cv=2),
    VarianceThreshold(),
    ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2])], remainder="passthrough"),
    FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]),
    PivotedCholeskyFeatures(n_components=5, random_state=0),
]
# With rows of a kind of their own.
OTHERS = [
    *((kind, POSITIVE) for kind in (AdditiveChi2Sampler(), SkewedChi2Sampler(n_components=5), Nystroem(kernel="chi2"))),
    *((kind, COUNTS) for kind in (OneHotEncoder(), OneHotEncoder(drop="first"), OrdinalEncoder())),
    (OneHotEncoder(min_frequency=15, handle_unknown="infrequent_if_exist"), COUNTS),
    (MissingIndicator(features="all"), GAPS),
    (SimpleImputer(add_indicator=True), GAPS),
    *((kind, TEXTS) for kind in (CountVectorizer(), TfidfVectorizer(), HashingVectorizer(n_features=16))),
    (make_pipeline(CountVectorizer(), TfidfTransformer(), TruncatedSVD(2)), TEXTS),
    *((kind, SPARSE) for kind in (MaxAbsScaler(), StandardScaler(with_mean=False), PolynomialFeatures())),
    (SelectKBest(k=2), SPARSE),
]
SMALL = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, min_samples_leaf=5)
OTHER_CLASSIFIERS = [
    *((make(n_estimators=3), ROWS) for make in (lightgbm, xgboost)),
    (catboost(), ROWS),
    *((kind, COUNTS) for kind in (CategoricalNB(min_categories=6), ComplementNB(), MultinomialNB())),
    *((kind, SPARSE) for kind in (SVC(), OneClassSVM(), LogisticRegression())),
    (KNeighborsClassifier(algorithm="brute"), SPARSE),
    (LocalOutlierFactor(5, algorithm="brute", novelty=True), SPARSE),
    (RandomForestClassifier(2, max_depth=2, random_state=0), SPARSE),
    (
        HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, min_samples_leaf=5, categorical_features=[0]),
        LEVELS,
    ),
]
OWN = [
    (TauFPLClassifier(0.3, delta=0.3, reg=0.1, tau_scale=1.0, random_state=0), ROWS),
    (TauFPLClassifier(0.3, delta=0.3, reg=0.1, tau_scale=1.0, threshold="cross", random_state=0), ROWS),
    (TauFPLRanker(0.3), ROWS),
    (TauFPLRanker(0.3), SPARSE),
    (TauFPLRankerCV(0.3, [0.1, 0.01], cv=2, max_extensions=0), ROWS),
    (KernelTauFPLClassifier(0.3, delta=0.3, gamma=0.5, reg=0.1, random_state=0), ROWS),
    (KernelTauFPLRanker(0.3, n_components=10, random_state=0), SPARSE),
    (KernelTauFPLRanker(0.3, kernel="precomputed"), ROWS @ ROWS.T),
    (TopPush(), ROWS),
    (ScoreScreen(tau=0.3, delta=0.3), ROWS[:, 0]),
    (ScreeningClassifier(0.3, delta=0.3, candidates=[SMALL, LogisticRegression()], random_state=0), FRAME),
    (
        NeymanPearsonClassifier(
            LogisticRegression(), 0.3, delta=0.3, segments="kind", insufficient="infinite", random_state=0
        ),
        FRAME[["x", "kind"]],
    ),
]

# What scores nothing alone, with rows of its own kind.
PARTS = [
    *((each, POSITIVE) for each in REGRESSORS),
    (IsotonicRegression(), ROWS[:, :1]),
    (GaussianMixture(2, random_state=0), ROWS),
    (NearestNeighbors(n_neighbors=3, algorithm="brute"), ROWS),
    (DictVectorizer(), RECORDS),
    (FeatureHasher(8), RECORDS),
]


def screen(estimator, X):
    """A screen around a scorer, by few rows."""
    return NeymanPearsonClassifier(estimator, 0.3, delta=0.3, random_state=0).fit(X, Y)


def step(transformer, X):
    """The same with a step before a linear scorer."""
    return screen(make_pipeline(transformer, LogisticRegression()), X)


def held(part, X):
    """A ranker on which an estimator hangs, which is asked in the place of the ranker."""
    return TauFPLRanker(0.3).fit(ROWS, Y).set_params(callback=part.fit(X, Y))


def models():
    """Fitted models by name, with rows for them."""
    groups = (
        (screen, [(each, ROWS) for each in CLASSIFIERS] + OTHER_CLASSIFIERS),
        (step, [(each, ROWS) for each in TRANSFORMERS] + OTHERS),
        (held, PARTS),
        (lambda model, X: model.fit(X, Y), OWN),
    )
    made = [(type(each).__name__, way(each, rows), rows) for way, cases in groups for each, rows in cases]
    return {f"{place}-{name}": (model, rows) for place, (name, model, rows) in enumerate(made)}
