"""Scripts of benchmarks: all find what they are made of, and each runs at its smallest size and prints figures."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import taufpl

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SOURCES = shlex.quote(str(Path(taufpl.__file__).parents[1]))

LOAD = """
import runpy, sys
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="loaded")
    except ModuleNotFoundError as error:
        assert error.name and error.name.partition(".")[0] not in ("taufpl", "turns", "recall_data"), (path, error)
"""
# Parts of other scripts, and one that runs where autogluon.tabular is, in an environment of its own.
ONLY_LOADED = {"autogluon_scores.py", "recall_data.py", "screening_tables.py", "turns.py"}
# Every other script at its smallest size, a part of its last line or of the last row of its table, and what it needs.
RUNS = [
    (f"before_after.py {SOURCES} {SOURCES} --turns 1 --only logistic", "| memory: logistic regression, np |"),
    (f"public_calls.py {SOURCES} {SOURCES} --turns 1 --only spambase", "| TauFPLRanker(reg=1e-3), spambase |"),
    ("command_line.py start --repeats 1", "from taufpl import TauFPLClassifier", "resource"),
    ("command_line.py fit --rows 2000 --columns 5", "peak memory: ", "resource"),
    ("command_line.py predict --rows 2000 --columns 5 --repeats 1", "evaluate --jobs 2", "resource"),
    ("discrete.py --draws 2 --designs 9", "Highest:"),
    ("estimators.py --quick --parts fit path --folder .", "| w8a | 0.1 | 1 to 0.0001 |"),
    ("everyday.py --draws 2", "| gain |"),
    ("gpu.py --rows 3000 --features 4 --repeats 1 --rival-rows 1000", "logistic regression, torch L-BFGS", "torch"),
    ("guarantee.py --quick --draws 2 --folder .", "| train, for contrast |"),
    ("kernel_features.py --quick", "| 1 % alone, 5 columns | RBFSampler |"),
    ("kernels.py --parts large", "gap to the exact kernel"),
    ("looks_guarantee.py --quick", "a single look"),
    ("monitoring.py --runs 2", "By segment: delay"),
    ("operators.py --quick", "dense 700 x 57: Gram"),
    ("paper_solver.py --dataset spambase --splits 1 --taus .1 --regs .1", "| 2tau-Rank |"),
    ("planning.py --draws 100", "| 300 + 100 | 300 | 0.01 |"),
    ("projection.py --quick --folder .", "| 10,000 | n/2 | N(-1, 1) |"),
    ("promise.py --draws 2 --output promise.png", "| taufpl |"),
    ("recall.py --quick --sets Gaussians --splits 2 --folder .", "| Gaussians |"),
    ("scale.py traffic --rows 2000 --workers 1", "| 1 | 2,000 |", "distributed"),
    ("scale.py memory --rows 2000", "| 2,000 | 0.0 GB |", "distributed"),
    ("scale.py overhead --rows 2000 --columns 5", "| their rows and labels |", "distributed"),
    ("scale.py recall --sets Gaussians --splits 1", "| mean |", "distributed"),
    ("screening.py --quick --methods boosting fast 'np: boosting' --cache . --folder .", "| breast cancer |"),
    ("screening_guarantee.py --quick --cache .", "| 700 + 150, 0.05, fast |"),
    ("segments_guarantee.py --draws 2", "Recall gained"),
    ("solvers.py --quick --sets dense --folder .", "Median over all cells"),
]


def test_all_scripts_find_what_they_are_made_of():
    scripts = sorted(map(str, FOLDER.glob("*.py")))
    assert {Path(each).name for each in scripts} == {each.split()[0] for each, *_ in RUNS} | ONLY_LOADED
    call = [sys.executable, "-W", "error::DeprecationWarning:taufpl", "-c", LOAD, *scripts]
    done = subprocess.run(
        call, cwd=FOLDER, env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(FOLDER)}, check=False
    )
    assert done.returncode == 0


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A folder with few rows under the names of sets that are not part of the project."""
    folder, rng = tmp_path_factory.mktemp("sets"), np.random.default_rng(0)
    for name, n_rows, n_columns, share in (("spambase", 600, 57, 0.5), ("w8a", 2000, 300, 0.04)):
        y = np.where(rng.random(n_rows) < 0.1, 1, -1)
        values = rng.exponential(size=(n_rows, n_columns)) + 0.3 * (y[:, None] > 0)
        X = sparse.csr_matrix(np.where(rng.random(values.shape) < share, values, 0.0))
        np.savez(
            folder / f"{name}.npz", format=b"csr", y=y, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape
        )
    return folder


@pytest.mark.parametrize(
    ("command", "text", "needed"), [(*each, "numpy")[:3] for each in RUNS], ids=[each[0].split()[0] for each in RUNS]
)
def test_a_script_runs_at_its_smallest_size(command, text, needed, sets, tmp_path):
    pytest.importorskip(needed)
    script, *words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, FOLDER / script, *words],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "TAUFPL_DATA": str(sets)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert text in done.stdout
    assert re.search(r"\d", done.stdout)
    assert not re.search(r"\b(nan|inf)\b", done.stdout, re.IGNORECASE), done.stdout
