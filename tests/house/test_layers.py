"""Hold the order of the layers: a module imports its own layer or those below, never one above."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "taufpl"

# From the bottom up. Anything not named here stands beside the layers: free to import them, imported by none.
UTILITIES = (
    "_checks",
    "_choices",
    "_extras",
    "_files",
    "_records",
    "_row_hashes",
    "_sklearn",
    "_types",
    "_version",
    "_warnings",
    "exceptions",
)
LAYERS = (
    "_kernels",
    "operators",
    "kernels",
    "projection",
    "problem",
    "solvers",
    "thresholding",
    "preprocessing",
    "estimators",
)
BESIDE = len(LAYERS) + 1

# The packages through which users reach the paper; nothing else imports it.
DOORS = ("baselines", "datasets", "experiments")

STORAGE_PACKAGES = {"cupy", "dask", "distributed", "torch"}
STORAGE_NAMES = re.compile(r"issparse|isspmatrix\w*|is_dask_collection")

# Private modules that all packages share.
SHARED = {*UTILITIES, "_kernels"}

CYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[\w.]+)[ \t]+c?import[ \t]+(?P<names>\([^)]*\)|[^\n#;]+)"
    r"|c?import[ \t]+(?P<modules>[^\n#;]+))",
    re.MULTILINE,
)


def rank(module: str) -> int:
    """Height of a module's layer; 0 is the bottom."""
    name = part(module)
    if name in UTILITIES:
        return 0
    return LAYERS.index(name) + 1 if name in LAYERS else BESIDE


def absolute(base: str, level: int, package: str) -> str:
    """Full name of what `from <level dots><base> import` refers to, seen from a package."""
    if not level:
        return base
    parents = package.split(".")
    return ".".join(parents[: len(parents) - level + 1] + ([base] if base else []))


def from_import(base: str, names: list[str]) -> Iterator[str]:
    """`from taufpl import projection` means the layer, so that only there the name itself counts."""
    if base == "taufpl":
        yield from (f"taufpl.{name}" for name in names)
    else:
        yield base


def private_imports(text: str, module: str, package: str) -> Iterator[str]:
    """Private modules of other packages that a Python module imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node.module or "", node.level, package)
            names = [base] if is_private(base) else [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if is_private(name) and part(name) not in {part(module), *SHARED})


def is_private(module: str) -> bool:
    return module.startswith("taufpl.") and re.search(r"\._[a-z]", module) is not None


def part(module: str) -> str:
    """The package or module directly under ours that a module belongs to."""
    return module.removeprefix("taufpl").lstrip(".").split(".")[0]


def python_imports(text: str, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node.module or "", node.level, package)
            yield from from_import(base, [alias.name for alias in node.names])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            # An optional package arrives as a string, through import_module or our own helper.
            name = node.args[0].value
            if isinstance(name, str) and name.split(".")[0] in STORAGE_PACKAGES:
                yield name


def cython_imports(text: str, package: str) -> Iterator[str]:
    for match in CYTHON_IMPORT.finditer(text):
        if match["base"] is None:
            yield from (part.split()[0] for part in match["modules"].split(",") if part.strip())
        else:
            base = match["base"].lstrip(".")
            level = len(match["base"]) - len(base)
            names = [part.split()[0] for part in match["names"].strip("()").split(",") if part.strip()]
            yield from from_import(absolute(base, level, package), names)


def paper_names(text: str, imports: set[str]) -> set[str]:
    """Modules of the paper that a Python module imports, or names as strings, to load them on demand."""
    constants = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    return {name for name in imports | constants if isinstance(name, str) and re.match(r"taufpl\.paper\b", name)}


def storage_names(text: str) -> set[str]:
    """Names used in code, not in prose, that ask how the data are stored."""
    nodes = list(ast.walk(ast.parse(text)))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.name for node in nodes if isinstance(node, ast.alias)}
    return {name for name in used if STORAGE_NAMES.fullmatch(name)}


def violations(path: str, text: str) -> list[str]:
    """What a source file, named by its path under the package, does against the rules."""
    file = Path(path)
    package = ".".join(("taufpl", *file.parent.parts))
    module = package if file.stem == "__init__" else f"{package}.{file.stem}"
    cython = file.suffix in {".pyx", ".pxd", ".pxi"}
    imports = set((cython_imports if cython else python_imports)(text, package))

    found = [
        f"{module} imports {name}, which is above it"
        for name in imports
        if name.split(".")[0] == "taufpl" and rank(name) > rank(module)
    ]
    if not cython:
        found += [f"{module} imports {name}, a private module" for name in private_imports(text, module, package)]
    if rank(module) == BESIDE and part(module) not in {*DOORS, "paper"} and not cython:
        found += [f"{module} reaches {name}, which only its doors may" for name in paper_names(text, imports)]
    if rank(module) != rank("taufpl.operators"):
        reached = {name for name in imports if name.split(".")[0] in STORAGE_PACKAGES}
        reached |= set() if cython else storage_names(text)
        found += [f"{module} uses {name}, which belongs in operators" for name in reached]
    return sorted(found)


def test_layers_of_the_package():
    files = [path for path in SOURCE.rglob("*") if path.suffix in {".py", ".pyi", ".pyx", ".pxd", ".pxi"}]
    assert files, f"no sources under {SOURCE}"
    found = [
        line
        for path in files
        for line in violations(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("projection/_topk.py", "from taufpl.solvers import newton"),
        ("projection/_topk.py", "from taufpl import problem"),
        ("projection/_topk.py", "from ..problem import Problem"),
        ("projection/__init__.py", "from .. import problem"),
        ("problem.py", "from .solvers.newton import solve"),
        ("solvers/newton.py", "def solve():\n    import taufpl.estimators as upward"),
        ("solvers/newton.py", "from taufpl import TauFPLRanker"),
        ("thresholding.py", "from taufpl.metrics import np_score"),
        ("estimators/_ranker.py", "from ..plotting import Display"),
        ("estimators/_classifier.py", "from taufpl.inspection import reasons"),
        ("preprocessing/_plan.py", "from taufpl.estimators import LinearScorer"),
        ("_extras.py", "from taufpl import _kernels"),
        ("_kernels/topk.pyx", "from taufpl.projection cimport scan"),
        ("_kernels/topk.pyx", "from .. cimport (\n    operators,\n)"),
        ("_kernels/topk.pxd", "cimport numpy, taufpl.problem as p"),
        ("projection/_agnostic.py", "import torch"),
        ("projection/_agnostic.py", "def f():\n    from torch.linalg import norm"),
        ("estimators/_ranker.py", "import importlib\nimportlib.import_module('dask.array')"),
        ("solvers/newton.py", "from scipy.sparse import issparse as is_csr"),
        ("metrics.py", "import scipy.sparse as sp\nsp.issparse(1)"),
        ("kernels/_features.py", "from taufpl.operators._values import FixedRows"),
        ("kernels/_features.py", "from ..operators import _values"),
        ("kernels/_features.py", "def f():\n    import taufpl.operators.remote._blocks"),
        ("projection/remote/_distributed.py", "from taufpl.operators.remote._blocks import Block"),
        ("estimators/_ranker.py", "from taufpl.paper import TopPush"),
        ("persistence/_steps.py", "from taufpl import paper"),
        ("cli/_reproduce.py", "def f():\n    from taufpl.paper import reproduce"),
        ("metrics.py", "__getattr__ = on_demand(__name__, {'taufpl.paper': ['RankSVM']})"),
        ("baselines/__init__.py", "from taufpl.paper._ranking_baselines import TopPush"),
        ("paper/_systems.py", "from taufpl.estimators._ranker import TauFPLRanker"),
    ],
)
def test_a_violation_is_reported(path, text):
    assert len(violations(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("__init__.py", "from taufpl.estimators import TauFPLRanker\nfrom . import metrics"),
        ("estimators/_ranker.py", "from ._base import Base\nfrom ..solvers import newton"),
        ("estimators/_ranker.py", "from taufpl import _extras, problem"),
        ("solvers/newton.py", "'''Knows no torch and no issparse.'''\nimport numpy as np"),
        ("operators/remote/_dask_blocks.py", "import dask.array as da\nfrom scipy.sparse import issparse"),
        ("metrics.py", "from taufpl.thresholding import order_statistic"),
        ("report/_page.py", "from taufpl import TauFPLClassifier, metrics"),
        ("persistence/_steps.py", "from taufpl.preprocessing import LevelEncoder"),
        ("inspection/_contributions.py", "from taufpl.persistence import unwrap"),
        ("kernels/_features.py", "from taufpl._extras import require\nfrom taufpl._kernels._dense import dot"),
        ("projection/remote/_distributed.py", "from taufpl.projection._project import Thresholds"),
        ("persistence/_steps.py", "from taufpl.baselines import TopPush"),
        ("baselines/projection.py", "from taufpl.paper import ibis"),
        ("paper/_systems.py", "from taufpl.paper._partial_auc import range_count\nfrom taufpl import TauFPLRanker"),
        ("_kernels/topk.pyx", "from libc.math cimport fabs\nfrom ._scan cimport scan\ncimport cython"),
    ],
)
def test_a_lawful_import_passes(path, text):
    assert violations(path, text) == []


def test_a_fit_in_memory_loads_nothing_remote_and_nothing_of_the_paper():
    script = """
import sys
import numpy as np
from taufpl import TauFPLClassifier
rng = np.random.default_rng(0)
y = rng.random(300) < 0.3
TauFPLClassifier(0.1, threshold="np").fit(rng.standard_normal((300, 3)) + y[:, None], y)
print(*(name for name in sys.modules if {"remote", "paper", "cupy", "dask", "torch"} & set(name.split("."))))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("operators", "is_elsewhere", "is_remote"),
        ("solvers", "BlockNewton", "Newton"),
        ("solvers", "BlockResult", "Result"),
    ],
)
def test_earlier_names_warn_and_work(module, name, now):
    package = importlib.import_module(f"taufpl.{module}")
    with pytest.warns(DeprecationWarning, match=f"{name} is {now} now"):
        assert getattr(package, name) is getattr(package, now)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense
