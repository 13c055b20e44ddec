"""What is loaded, and when: help and `import taufpl` wait for no numerical library, and all names are there."""

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

import taufpl
from taufpl import _choices
from taufpl.cli._app import app
from taufpl.estimators import EFFORTS
from taufpl.estimators.strategies import STRATEGIES
from taufpl.experiments import EXPERIMENTS

HEAVY = {"joblib", "lightgbm", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "skops", "torch"}
TELL = f"\nimport sys\nprint(*{HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}, file=sys.stderr)"
COMMANDS = [command.name for command in app.registered_commands]


def stderr_of(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr


def loaded(script: str) -> list[str]:
    """Libraries that a script has loaded at its end, which it writes to stderr as its last line."""
    return stderr_of(script + TELL).splitlines()[-1].split()


LINES = [
    ["--help"],
    ["--version"],
    [],
    *([name, "--help"] for name in COMMANDS),
    ["fit", "data.csv", "-o", "model.skops", "--tau", "5"],
    ["fit", "data.csv", "-o", "model.skops", "--model", "lightgbm"],
    ["fit", "data.csv", "-o", "model.skops", "--reg", "3"],
    ["fit", "data.csv", "-o", "model.skops", "--alarms-per-day", "3"],
    ["export", "model.skops"],
    ["no-such-command"],
]


def test_help_and_errors_of_usage_load_no_numerical_library():
    assert (
        loaded(f"from taufpl.cli._app import run\nfor line in {LINES!r}:\n    assert run(line) in (0, 2), line") == []
    )


def test_importing_the_package_loads_no_numerical_library():
    assert loaded("import taufpl\nassert 'TauFPLClassifier' in dir(taufpl)") == []


# Each step and what it does without; those after it take more.
STEPS = [
    ("from taufpl.projection import project_topk_simplex", {"sklearn", "pandas", "matplotlib", "pyarrow"}),
    ("import taufpl\ntaufpl.ScreeningClassifier", {"matplotlib", "lightgbm", "torch", "skops"}),
    ("from taufpl.cli._app import run\nrun(['plan'])", {"matplotlib", "lightgbm", "torch"}),
]


def test_what_is_not_needed_is_not_loaded():
    said = stderr_of("".join(step + TELL + "\n" for step, _ in STEPS)).splitlines()
    for (step, needless), loaded_now in zip(STEPS, said, strict=True):
        assert not needless & set(loaded_now.split()), step


def test_all_names_are_there():
    namespace = {}
    exec("from taufpl import *", namespace)
    assert set(taufpl.__all__) <= namespace.keys()
    assert {*taufpl.__all__, "__version__", "metrics", "estimators"} <= set(dir(taufpl))
    assert taufpl.TauFPLRanker is import_module("taufpl.estimators").TauFPLRanker
    assert taufpl.__version__.count(".") >= 2
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = taufpl.nonsense


def test_every_package_is_found_in_the_one_above():
    for name in taufpl._PACKAGES:
        assert getattr(taufpl, name) is import_module(f"taufpl.{name}")


def test_a_pickle_needs_no_earlier_import():
    text = pickle.dumps(taufpl.TauFPLRanker(0.1)).hex()
    assert "sklearn" in loaded(f"import pickle\nassert pickle.loads(bytes.fromhex('{text}')).tau == 0.1")


def test_choices_are_those_of_the_library():
    assert list(_choices.THRESHOLDS) == list(STRATEGIES)
    assert list(_choices.EFFORTS) == list(EFFORTS)
    assert list(_choices.EXPERIMENTS) == list(EXPERIMENTS)
