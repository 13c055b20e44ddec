"""Every instruction set does the same additions in the same order."""

import numpy as np
import pytest

from projection_cases import FAMILIES, draw
from taufpl._kernels import _projection as kernels
from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex


@pytest.fixture
def switch():
    before = kernels.instruction_set()
    yield kernels.use_instruction_set
    kernels.use_instruction_set(before)


def answers(dtype):
    for name in FAMILIES:
        for alpha0, beta0, k, weight in draw(name, 10, seed=5):
            yield from project_topk_simplex(alpha0.astype(dtype), beta0.astype(dtype), k, weight=weight)
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=20_001).astype(dtype), rng.standard_cauchy(30_003).astype(dtype)
    for k in (1, 17, 5000, 30_003):
        yield from project_topk_simplex(alpha0, beta0, k)
        yield project_topk_cone(beta0, k)
        yield project_capped_simplex(beta0, 0.5 * k, 0.75)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_results_are_bit_identical(name, dtype, switch):
    assert switch("portable")
    expected = list(answers(dtype))
    if not switch(name):
        pytest.skip(f"this machine has no {name}")
    assert kernels.instruction_set() == name
    for found, wanted in zip(answers(dtype), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_unknown_names_change_nothing(switch):
    before = kernels.instruction_set()
    assert not switch("abacus")
    assert kernels.instruction_set() == before
