"""Every instruction set does the same additions in the same order: results are the same to the last bit."""

import os
import subprocess
import sys

import numpy as np
import pytest

from projection_cases import FAMILIES, draw
from taufpl._kernels import _dense, _projection, _projection_peers
from taufpl.baselines.projection import bisection, ibis, ptkc
from taufpl.operators import as_operator
from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex

MODULES = {"projections": _projection, "products": _dense, "peers": _projection_peers}


@pytest.fixture
def switch():
    before = {module: module.instruction_set() for module in MODULES.values()}
    yield lambda module, name: module.use_instruction_set(name)
    for module, name in before.items():
        module.use_instruction_set(name)


def projections(dtype):
    for name in FAMILIES:
        for alpha0, beta0, k, weight in draw(name, 10, seed=5):
            yield from project_topk_simplex(alpha0.astype(dtype), beta0.astype(dtype), k, weight=weight)
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=20_001).astype(dtype), rng.standard_cauchy(30_003).astype(dtype)
    for k in (1, 17, 5000, 30_003):
        yield from project_topk_simplex(alpha0, beta0, k)
        yield project_topk_cone(beta0, k)
        yield project_capped_simplex(beta0, 0.5 * k, 0.75)


def products(dtype):
    """Dot products, sums of rows and moments, of all rows and of some; widths that do and do not fill a vector."""
    rng = np.random.default_rng(0)
    for n, d in [(1, 1), (37, 7), (200, 8), (1001, 61), (50, 2051)]:
        operator = as_operator(rng.standard_cauchy(size=(n, d)).astype(dtype))
        w, v = rng.normal(size=d), rng.normal(size=n) * (rng.random(n) < 0.7)
        some = np.sort(rng.choice(n, size=(n + 1) // 2, replace=False))
        yield operator.matvec(w)
        yield operator.rmatvec(v)
        yield operator.matvec_rows(w, some)
        yield operator.rmatvec_rows(v[some], some)
        if d <= 61:
            yield operator.gram_rows(some, np.abs(v[some]))


def peers(dtype):
    rng = np.random.default_rng(0)
    alpha0, beta0 = (rng.normal(size=n).astype(dtype).astype(float) for n in (2001, 4003))
    for k in (1, 40, 4003):
        for prune in (False, True):
            yield from ibis(alpha0, beta0, k, prune=prune)
        yield from bisection(alpha0, beta0, k)
        yield ptkc(beta0, k)


ANSWERS = {"projections": projections, "products": products, "peers": peers}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["avx2", "avx512"])
@pytest.mark.parametrize("loops", MODULES)
def test_results_are_the_same_to_the_last_bit(loops, name, dtype, switch):
    module = MODULES[loops]
    if name not in module.instruction_sets():
        pytest.skip(f"this machine has no {name}")
    switch(module, "plain")
    assert module.instruction_set() == "plain"
    expected = list(ANSWERS[loops](dtype))
    switch(module, name)
    assert module.instruction_set() == name
    for found, wanted in zip(ANSWERS[loops](dtype), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


TELL = "from taufpl._kernels import _dense, _projection; print(_dense.instruction_set(), _projection.instruction_set())"


def told(name):
    environment = os.environ | {"TAUFPL_SIMD": name}
    return subprocess.run([sys.executable, "-c", TELL], env=environment, capture_output=True, text=True, check=False)


def test_the_environment_chooses():
    names = _dense.instruction_sets()
    assert names[0] == "plain"
    for name in names:
        assert told(name).stdout.split() == [name, name]
    assert told("").stdout.split() == [names[-1]] * 2  # the fastest
    refused = told("abacus")
    assert refused.returncode == 1
    assert f"TAUFPL_SIMD must be one of {', '.join(names)} on this machine; got 'abacus'" in refused.stderr
