"""Scripts of benchmarks: all find what they are made of, and that of devices runs whole on few rows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

LOAD = """
import runpy, sys
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="loaded")
    except ModuleNotFoundError as error:
        assert error.name and error.name.partition(".")[0] not in ("taufpl", "turns", "recall_data"), (path, error)
"""


@pytest.mark.slow
def test_all_scripts_find_what_they_are_made_of():
    scripts = sorted(map(str, FOLDER.glob("*.py")))
    assert len(scripts) > 20
    call = [sys.executable, "-W", "error::DeprecationWarning:taufpl", "-c", LOAD, *scripts]
    done = subprocess.run(
        call, cwd=FOLDER, env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(FOLDER)}, check=False
    )
    assert done.returncode == 0


@pytest.mark.slow
def test_the_script_of_devices_runs_on_few_rows(tmp_path):
    pytest.importorskip("torch")
    sizes = {"rows": 3000, "features": 4, "repeats": 1, "rival-rows": 1000}
    call = [sys.executable, FOLDER / "gpu.py", *(text for name, n in sizes.items() for text in (f"--{name}", str(n)))]
    done = subprocess.run(list(map(str, call)), cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    tables = [line for line in done.stdout.splitlines() if "each launch waiting" in line]
    assert len(tables) == 3
    assert "| problem.remote |" in done.stdout
    assert "logistic regression, torch L-BFGS" in done.stdout
