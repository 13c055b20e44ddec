"""The types that a model file may hold."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special
from sklearn.utils import all_estimators

from taufpl.baselines import TopPush
from taufpl.estimators import (
    KernelTauFPLClassifier,
    KernelTauFPLRanker,
    NeymanPearsonClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
)
from taufpl.kernels import PivotedCholeskyFeatures
from taufpl.preprocessing import LevelEncoder
from taufpl.solvers import Record
from taufpl.thresholding import Evidence, Rounds

OWN = frozenset(
    f"{each.__module__}.{each.__name__}"
    for each in (
        Evidence,
        KernelTauFPLClassifier,
        KernelTauFPLRanker,
        LevelEncoder,
        NeymanPearsonClassifier,
        PivotedCholeskyFeatures,
        Record,
        Rounds,
        TauFPLClassifier,
        TauFPLRanker,
        TauFPLRankerCV,
        TopPush,
    )
)

TREE = "sklearn.tree._tree.Tree"
_GRADIENT_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"

# What fitted estimators of scikit-learn hold that are no estimators themselves. Those whose compiled code would follow
# any index that a file names are checked once they are loaded (_soundness).
PARTS = frozenset(
    {
        "sklearn._loss.link.HalfLogitLink",
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogLink",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.loss.ExponentialLoss",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfSquaredError",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer._RemainderColsList",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        _GRADIENT_TREE,
        "sklearn.metrics._scorer._PassthroughScorer",
        *(
            f"sklearn.model_selection._split.{name}"
            for name in (
                "GroupKFold",
                "KFold",
                "RepeatedKFold",
                "RepeatedStratifiedKFold",
                "ShuffleSplit",
                "StratifiedGroupKFold",
                "StratifiedKFold",
                "StratifiedShuffleSplit",
                "TimeSeriesSplit",
            )
        ),
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
    }
)

# Functions that fitted estimators hold by default. They compute, and do nothing else.
FUNCTIONS = frozenset(
    {
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.utils.validation.check_array",
    }
)

# The first goes by its last name only in older versions of scikit-learn.
_LOSSES = ("sklearn._loss._loss.Cy", "_loss.Cy", "sklearn.linear_model._sgd_fast.")
_SPARSE = frozenset(f"scipy.sparse._{kind}.{kind}_{name}" for kind in ("csr", "csc") for name in ("matrix", "array"))
_BUILTIN_TYPES = frozenset(f"builtins.{name}" for name in ("NoneType", "bool", "float", "int", "str"))
_BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})

# What skops calls the ways to make an object, and the types that each may make. Ways that call a method or an operator
# that the file names, or a constructor with arguments of the file's choice, are not among them.
_FIXED = {
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
    "TreeNode": frozenset({TREE}),
    "TupleNode": frozenset({"builtins.tuple"}),
}

# Handed to skops, which holds every node against them and against what it trusts itself: the second lock.
TRUSTED = sorted(OWN | PARTS | FUNCTIONS | _SPARSE | {TREE, "functools.partial", "numpy.dtype"})


def is_known(loader: str, name: str, extra: frozenset[str]) -> bool:
    """Whether a file may hold such an object.

    Parameters
    ----------
    loader : str
        The way to make it.
    name : str
        Its type, or the function that it is.
    extra : frozenset of str
        Types that the user trusts beside the known ones.
    """
    if loader in _FIXED:
        return name in _FIXED[loader]
    if loader == "ObjectNode":
        return name in OWN or name in PARTS or name in _estimators() or name in extra
    if loader == "NdArrayNode":
        return name == "numpy.ndarray" or _is_scalar_type(name)
    if loader == "TypeNode":
        return name in _BUILTIN_TYPES or _is_scalar_type(name) or name in extra
    if loader == "FunctionNode":
        return name in FUNCTIONS or _is_ufunc(name) or name in extra
    if loader == "LossNode":
        return name.startswith(_LOSSES)
    return loader == "SparseMatrixNode" and name in _SPARSE


def is_bit_generator(name: object) -> bool:
    """Whether a random generator may be built on it."""
    return name in _BIT_GENERATORS


@cache
def _estimators() -> frozenset[str]:
    """Every public estimator of scikit-learn."""
    names = (f"{each.__module__}.{each.__name__}" for _, each in all_estimators())
    return frozenset(name for name in names if name.startswith("sklearn."))


def _is_scalar_type(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    found = getattr(np, attribute, None) if module == "numpy" else None
    return isinstance(found, type) and issubclass(found, np.generic) and not issubclass(found, np.object_ | np.void)


def _is_ufunc(name: str) -> bool:
    """Whether it is one of NumPy's or SciPy's, under any of the modules that they are found in."""
    module, _, attribute = name.rpartition(".")
    for home, place in ((np, "numpy."), (np, "numpy._core."), (special, "scipy.special.")):
        if f"{module}." == place or (place != "numpy." and module.startswith(place)):
            return isinstance(getattr(home, attribute, None), np.ufunc)
    return False
