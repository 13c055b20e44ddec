"""The types that a model file may hold."""

from __future__ import annotations

import numpy as np
from scipy import special
from sklearn.metrics import get_scorer, get_scorer_names

from taufpl import baselines, estimators, kernels, metrics, preprocessing, solvers, thresholding
from taufpl.persistence.boosting import BoosterRecord
from taufpl.persistence.files._audited import AUDITED
from taufpl.persistence.files._tree_list import TreeList, TreeRecord

# By name alone: the module of a class may have been another one when a file was written.
OWN = {
    each.__name__: each.__module__
    for each in (
        BoosterRecord,
        TreeList,
        TreeRecord,
        baselines.TopPush,
        estimators.KernelTauFPLClassifier,
        estimators.KernelTauFPLRanker,
        estimators.NeymanPearsonClassifier,
        estimators.ScoreScreen,
        estimators.ScreeningClassifier,
        estimators.StackMember,
        estimators.StackedScorer,
        estimators.Standing,
        estimators.TauFPLClassifier,
        estimators.TauFPLRanker,
        estimators.TauFPLRankerCV,
        kernels.PivotedCholeskyFeatures,
        metrics.ToleranceScorer,
        preprocessing.ColumnPlan,
        preprocessing.DateEncoder,
        preprocessing.LevelEncoder,
        preprocessing.TableEncoder,
        solvers.Record,
        thresholding.Evidence,
        thresholding.NegativeSequence,
        thresholding.Rounds,
        thresholding.SegmentThresholds,
        thresholding.ThresholdRecord,
    )
}
_OWN_NAMES = frozenset(f"{module}.{name}" for name, module in OWN.items())

_AUDITED = frozenset(f"{each.__module__}.{each.__name__}" for each in AUDITED)
TREE = "sklearn.tree._tree.Tree"

# What fitted estimators of scikit-learn hold that are no estimators themselves. The indices of trees, which compiled
# code would follow anywhere, are checked once they are loaded.
_PARTS = frozenset(
    f"sklearn.{module}.{name}"
    for module, names in {
        "_loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink",
        "_loss.loss": "ExponentialLoss HalfBinomialLoss HalfSquaredError",
        "calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
        "compose._column_transformer": "_RemainderColsList",
        "ensemble._hist_gradient_boosting.binning": "_BinMapper",
        "ensemble._hist_gradient_boosting.predictor": "TreePredictor",
        "metrics._scorer": "_PassthroughScorer _Scorer",
        "model_selection._split": "GroupKFold KFold RepeatedKFold RepeatedStratifiedKFold ShuffleSplit "
        "StratifiedGroupKFold StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit",
        "neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
        "utils._bunch": "Bunch",
        "utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
    }.items()
    for name in names.split()
)

# Functions that fitted estimators hold by default. They compute, and do nothing else.
_FUNCTIONS = frozenset(
    {
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.utils.validation.check_array",
        "taufpl.metrics.np_score",
        "taufpl.metrics.tpr_at_fpr",
    }
) | {f"{each.__module__}.{each.__name__}" for each in (get_scorer(name)._score_func for name in get_scorer_names())}

# The first goes by its last name only in older versions of scikit-learn.
_LOSSES = ("sklearn._loss._loss.Cy", "_loss.Cy", "sklearn.linear_model._sgd_fast.")
_SPARSE = frozenset(f"scipy.sparse._{kind}.{kind}_{name}" for kind in ("csr", "csc") for name in ("matrix", "array"))
_BUILTIN_TYPES = frozenset(f"builtins.{name}" for name in ("NoneType", "bool", "float", "int", "str"))
# Numbers, texts and dates. Bytes are none of these: numpy.bytes_(n) takes n bytes of memory, whatever n a file says.
_SCALARS = (np.bool_, np.number, np.str_, np.datetime64, np.timedelta64)

BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})

# What skops calls the ways to make an object, and the types that each may make. Ways that call a method or an operator
# that the file names, or a constructor with arguments of the file's choice, are not among them.
_BY_LOADER = {
    "DTypeNode": frozenset({"numpy.dtype"}),
    "DefaultDictNode": frozenset({"collections.defaultdict"}),
    "DictNode": frozenset({"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"}),
    "JsonNode": frozenset({"builtins.str"}),
    "ListNode": frozenset({"builtins.list"}),
    "MaskedArrayNode": frozenset({"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}),
    "PartialNode": frozenset({"functools.partial"}),
    "RandomGeneratorNode": frozenset({"numpy.random._generator.Generator"}),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "SetNode": frozenset({"builtins.set"}),
    "SliceNode": frozenset({"builtins.slice"}),
    "SparseMatrixNode": _SPARSE,
    "TreeNode": frozenset({TREE}),
    "TupleNode": frozenset({"builtins.tuple"}),
}

# Handed to skops, which holds every node against them and against what it trusts itself: the second lock.
TRUSTED = sorted(_OWN_NAMES | _PARTS | _FUNCTIONS | _SPARSE | {TREE, "functools.partial", "numpy.dtype"})


def is_allowed(loader: str, name: str, extra: frozenset[str]) -> bool:
    """Whether a file may hold an object of this type, or this function, that skops would make in this way.

    `extra` are names that the user trusts beside those that are allowed anyway.
    """
    if loader in _BY_LOADER:
        return name in _BY_LOADER[loader]
    if loader == "ObjectNode":
        return name in _OWN_NAMES or name in _PARTS or name in _AUDITED or name in extra
    if loader == "NdArrayNode":
        return name == "numpy.ndarray" or _is_scalar_type(name)
    if loader == "TypeNode":
        return name in _BUILTIN_TYPES or _is_scalar_type(name) or name in extra
    if loader == "FunctionNode":
        return name in _FUNCTIONS or _is_ufunc(name) or name in extra
    return loader == "LossNode" and name.startswith(_LOSSES)


def _is_scalar_type(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    found = getattr(np, attribute, None) if module == "numpy" else None
    return isinstance(found, type) and issubclass(found, _SCALARS)


def _is_ufunc(name: str) -> bool:
    """Whether a name is that of an elementwise function of NumPy or SciPy, in any of the modules that hold them."""
    module, _, attribute = name.rpartition(".")
    if module == "numpy" or f"{module}.".startswith("numpy._core."):
        return isinstance(getattr(np, attribute, None), np.ufunc)
    return f"{module}.".startswith("scipy.special.") and isinstance(getattr(special, attribute, None), np.ufunc)
