"""Passes, gaps, coefficients and thresholds stay what they were (`golden_cases.py`).

The way to an optimum hangs on the last digits of sums, and so on the processor: the same fit took up to 1.45 times the
passes with NumPy's loops for older processors, and 1.0 times with five kernels of OpenBLAS.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from golden_cases import cases, measure
from taufpl import KernelTauFPLRanker, TauFPLRanker

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
CASES = {case.name: case for case in cases()}


def test_every_case_is_written_down():
    assert list(CASES) == list(GOLDEN)


def is_slow(case):
    """The quick run has the ends of the grid of taus and regs, and searches of rows in memory."""
    model = case.estimator
    if isinstance(model, TauFPLRanker):
        return model.solver == "accelerated" or (model.tol == 1e-6 and (model.tau == 0.01 or model.reg == 1e-3))
    return case.n_chunks > 0 and getattr(model, "reg", "cv") == "cv"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * is_slow(case)) for name, case in CASES.items()]
)
def test_as_before(name):
    case, before = CASES[name], GOLDEN[name]
    now = measure(case)
    for cost in ("passes", "rounds"):
        assert (now[cost] or 0) <= 1.5 * (before[cost] or 0) + 2.0, cost
    for fact in ("converged", "collapsed", "guaranteed", "reg", "tau_scale"):
        assert now.get(fact) == before.get(fact), fact
    if before["gap"] is not None:
        assert now["gap"] <= max(case.estimator.tol, before["gap"])
        assert now["primal"] == pytest.approx(before["primal"], rel=now["gap"] + before["gap"] + latitude(case))
    if latitude(case) < 0.01:  # else solutions as good may lie apart
        assert np.linalg.norm(np.subtract(now["coef"], before["coef"])) <= distance(case, now, before)
    for figure in ("threshold", "recall", "shares", "negatives"):
        if before.get(figure) is not None:
            assert now[figure] == pytest.approx(before[figure], rel=0.02, abs=0.005), figure


def latitude(case):
    """Positives that are given up, and landmarks near a first threshold, hang on the last digits: 2.3 % was seen."""
    chosen = getattr(case.estimator, "positive_share", 1.0) != 1.0 or isinstance(case.estimator, KernelTauFPLRanker)
    return 0.03 if chosen else 1e-9


def distance(case, now, before):
    """How far apart certified solutions may be: P(w) - P* >= reg/2 |w - w*|^2 for both; else 1 %."""
    size = float(np.linalg.norm(before["coef"]))
    reg = now.get("reg") or getattr(case.estimator, "reg", None)
    if before["gap"] is None or reg is None:
        return 0.01 * size
    radius = math.sqrt(2.0 * before["primal"] / reg) * (math.sqrt(before["gap"]) + math.sqrt(max(now["gap"], 0.0)))
    return radius * (5.0 if case.data == "words" else 1.0) + 1e-9 * size
