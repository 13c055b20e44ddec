"""What a model file may hold, and the audit of its text: no object is built before it, and no module imported."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from scipy import special
from sklearn.metrics import get_scorer, get_scorer_names

from taufpl import baselines, estimators, kernels, metrics, preprocessing, solvers, thresholding
from taufpl.exceptions import ModelFileError
from taufpl.persistence._file_records import BoosterRecord, TreeList, TreeRecord
from taufpl.persistence._state_checks import AUDITED

# By name alone: the module of a class may have been another one when a file was written.
_OWN = {
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
        estimators.strategies.Automatic,
        kernels.PivotedCholeskyFeatures,
        metrics.ToleranceScorer,
        preprocessing.ColumnPlan,
        preprocessing.DateEncoder,
        preprocessing.LevelEncoder,
        preprocessing.TableEncoder,
        solvers.Record,
        thresholding.CrossFit,
        thresholding.Evidence,
        thresholding.HeldOut,
        thresholding.NegativeSequence,
        thresholding.OutOfBootstrap,
        thresholding.Rounds,
        thresholding.SegmentThresholds,
        thresholding.ThresholdRecord,
        thresholding.TrainQuantile,
    )
}
_OWN_NAMES = frozenset(f"{module}.{name}" for name, module in _OWN.items())

_AUDITED = frozenset(f"{each.__module__}.{each.__name__}" for each in AUDITED)
_TREE = "sklearn.tree._tree.Tree"

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

_BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})

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
    "TreeNode": frozenset({_TREE}),
    "TupleNode": frozenset({"builtins.tuple"}),
}

# Handed to skops, which holds every node against them and against what it trusts itself: the second lock.
TRUSTED = sorted(_OWN_NAMES | _PARTS | _FUNCTIONS | _SPARSE | {_TREE, "functools.partial", "numpy.dtype"})


def _is_allowed(loader: str, name: str, extra: frozenset[str]) -> bool:
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


# Text of JSON grows when it becomes objects: it counts by this factor against the bound on memory.
_GROWTH = 16
_SCHEMA = "schema.json"
# The oldest way of writing that skops still reads and that has the meaning which is assumed here.
_OLDEST_PROTOCOL = 2
# Numbers from which NumPy seeds generators, where nobody asks for more.
_POOL = np.random.SeedSequence().pool_size


def read_schema(data: bytes, max_bytes: int) -> dict[str, Any]:
    """The description of the object that a file holds, once the sizes in the file have been found sane.

    A file that is of another kind, is damaged, or would need more memory than `max_bytes`, is a ModelFileError.
    """
    if len(data) > max_bytes:
        raise ModelFileError(f"it is longer than max_bytes={max_bytes:,}")
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            _check_members(archive, max_bytes)
            schema = json.loads(archive.read(_SCHEMA))
    except ModelFileError:
        raise
    except BadZipFile as error:
        raise ModelFileError("it is not a zip archive, or a damaged one") from error
    except KeyError as error:
        raise ModelFileError(f"it is a zip archive without {_SCHEMA}, which a model file has") from error
    except Exception as error:
        raise ModelFileError(f"its {_SCHEMA} or its arrays cannot be read ({type(error).__name__})") from error
    if not isinstance(schema, dict) or not isinstance(protocol := schema.get("protocol"), int):
        raise ModelFileError(f"its {_SCHEMA} does not describe an object")
    if isinstance(protocol, bool) or protocol < _OLDEST_PROTOCOL:
        raise ModelFileError(f"it is written in protocol {protocol!r} of skops, and no model file is")
    return schema


def _check_members(archive: ZipFile, max_bytes: int) -> None:
    """Hold sizes as the archive declares them, and lengths of arrays as their headers do, against the content.

    No member is read beyond its declared size. Sparse matrices are archives themselves.
    """
    total = 0
    for info in archive.infolist():
        if info.filename != _SCHEMA and not info.filename.endswith((".npy", ".npz")):
            raise ModelFileError(f"it holds {info.filename!r}, and model files hold arrays only")
        total += info.file_size * (_GROWTH if info.filename == _SCHEMA else 1)
    _check_total(total, max_bytes)
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            _check_array(archive.read(info))
        elif info.filename.endswith(".npz"):
            with ZipFile(io.BytesIO(archive.read(info))) as inner:
                total += sum(part.file_size for part in inner.infolist())
                _check_total(total, max_bytes)
                for part in inner.infolist():
                    _check_array(inner.read(part))


def _check_total(total: int, max_bytes: int) -> None:
    if total > max_bytes:
        raise ModelFileError(
            f"it declares content that would take {total:,} bytes, more than max_bytes={max_bytes:,}; raise that if "
            "you know where the file comes from"
        )


def _check_array(content: bytes) -> None:
    """An array is as long as its header says, so that it asks for no memory that the file does not fill."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize != len(content) - stream.tell():
        raise ModelFileError("an array in it is not as long as it says")


def refused_types(schema: dict[str, Any], extra: Iterable[str] = ()) -> list[str]:
    """Names of the types that a file must not hold, sorted; empty where the file may be loaded."""
    trusted = frozenset(extra)
    refused = set()
    for node in _nodes(schema):
        loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
        content: Any = node.get("content")
        if not isinstance(loader, str) or not _is_allowed(loader, name, trusted):
            is_method = loader == "MethodNode" and isinstance(content, dict)
            refused.add(f"{name}.{content.get('func')}" if is_method else name)
        elif loader == "RandomGeneratorNode" and (generator := _bit_generator(content)) not in _BIT_GENERATORS:
            refused.add(f"numpy.random.{generator}")
        elif loader == "RandomGeneratorNode" and (size := _pool_size(content)) != _POOL:
            refused.add(f"numpy.random.SeedSequence(pool_size={size})")
    return sorted(refused)


def _nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every description of an object, however deep; without recursion, which a file could exhaust."""
    stack: list[Any] = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if "__loader__" in item:
                yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _bit_generator(content: Any) -> str | None:
    try:
        return str(json.loads(content["bit_generator"]["content"]["bit_generator"]["content"]))
    except (KeyError, TypeError, ValueError):
        return None


def _pool_size(content: Any) -> Any:
    try:
        described = content["seed_seq"]["content"].get("pool_size")
        return _POOL if described is None else json.loads(described["content"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def as_read_here(data: bytes, schema: dict[str, Any]) -> bytes:
    """The file with classes of this library under the modules where they are now, and records in the place of trees.

    skops would make a tree of whatever arrays the file holds, and the compiled code of trees crash on some of them; a
    generator of random numbers would be seeded from a pool of any size, which takes its square of steps. `schema` is
    changed in place.
    """
    moved = False
    for node in _nodes(schema):
        module, name = node.get("__module__"), node.get("__class__")
        if node["__loader__"] == "TreeNode" and f"{module}.{name}" == _TREE:
            moved = True
            _make_tree_record(node)
        elif node["__loader__"] == "RandomGeneratorNode":
            moved = True
            # What is audited must be what is built: skops takes an earlier object of the same number in its place.
            for each in _nodes(node.get("content", {})):
                each.pop("__id__", None)
        elif isinstance(module, str) and module.startswith("taufpl.") and isinstance(name, str) and name in _OWN:
            moved = moved or module != _OWN[name]
            node["__module__"] = _OWN[name]
    if not moved:
        return data
    stream = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as archive, ZipFile(stream, "w") as copy:
        for info in archive.infolist():
            content = json.dumps(schema) if info.filename == _SCHEMA else archive.read(info)
            copy.writestr(info.filename, content)
    return stream.getvalue()


def _make_tree_record(node: dict[str, Any]) -> None:
    """Change the description of a tree into that of an object with its parts."""
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
    try:
        parts = {"args": node.pop("__reduce__")["args"], "state": node["content"]}
    except (KeyError, TypeError) as error:
        raise ModelFileError("a tree in it has no parts") from error
    node.update(__class__=TreeRecord.__name__, __module__=_OWN[TreeRecord.__name__], __loader__="ObjectNode")
    node["content"] = {
        **{"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": parts},
        "key_types": {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [text, text]},
    }
