"""The agnostic twin gives the compiled kernel's answers, on arrays that are not NumPy's."""

import array_api_strict as strict
import numpy as np
import pytest

from projection_cases import FAMILIES, draw
from taufpl import projection
from taufpl.projection import agnostic


def size_of(*vectors):
    return max(float(np.abs(x[np.isfinite(x)]).max(initial=1e-300)) for x in vectors)


def assert_same(found, expected, scale):
    """Its sums are plain ones, taken over all entries: errors are relative to the largest of them."""
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-12 * scale + 1e-322)


@pytest.mark.parametrize("name", FAMILIES)
def test_simplex_agrees_with_the_kernel(name):
    for alpha0, beta0, k, weight in draw(name, 60, seed=7):
        expected = projection.project_topk_simplex(alpha0, beta0, k, weight=weight)
        found = agnostic.project_topk_simplex(strict.asarray(alpha0), strict.asarray(beta0), k, weight=weight)
        scale = size_of(alpha0, beta0) * max(weight, 1.0 / weight)
        assert_same(found[0], expected[0], scale)
        assert_same(found[1], expected[1], scale)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "subnormal"])
def test_cone_and_capped_simplex_agree_with_the_kernel(name):
    for _, beta0, k, _ in draw(name, 60, seed=8):
        x = strict.asarray(beta0)
        assert_same(agnostic.project_topk_cone(x, k), projection.project_topk_cone(beta0, k), size_of(beta0))
        cap = 0.7
        total = cap * min(k, np.isfinite(beta0).sum())
        if total > 0:
            expected = projection.project_capped_simplex(beta0, total, cap)
            assert_same(agnostic.project_capped_simplex(x, total, cap), expected, size_of(beta0, expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 30, 2500, 4999, 5000])
def test_long_vectors(dtype, k):
    rng = np.random.default_rng(k)
    alpha0, beta0 = rng.normal(size=3000).astype(dtype), rng.standard_cauchy(5000).astype(dtype)
    expected = projection.project_topk_simplex(alpha0, beta0, k, weight=3.0)
    found = agnostic.project_topk_simplex(strict.asarray(alpha0), strict.asarray(beta0), k, weight=3.0)
    for mine, theirs in zip(found, expected, strict=True):
        assert str(np.asarray(mine).dtype) == dtype
        np.testing.assert_allclose(
            np.asarray(mine), theirs, rtol=0, atol=np.finfo(dtype).eps * max(4 * theirs.max(), 400)
        )


def test_nothing_but_reductions_and_elementwise_work_touches_the_vectors():
    """A vector that lives on many machines cannot be sorted, indexed or turned into a list."""
    used = set()

    class Spy:
        def __getattr__(self, name):
            used.add(name)
            return getattr(strict, name)

    rng = np.random.default_rng(0)
    agnostic.project_topk_simplex(
        strict.asarray(rng.integers(0, 4, 50).astype(float)), strict.asarray(rng.normal(size=70)), 70, xp=Spy()
    )
    agnostic.project_topk_cone(strict.asarray([5.0, 5.0, 1.0, 1.0]), 2, xp=Spy())
    reductions = {"sum", "min", "max", "any"}
    elementwise = {"where", "astype", "isfinite", "isnan", "zeros_like", "full_like"}
    assert used <= reductions | elementwise | {"float64", "int64", "isdtype"}


def test_errors_say_what_is_wrong():
    x = strict.asarray([1.0, 2.0])
    with pytest.raises(TypeError, match="xp must be given"):
        agnostic.project_topk_cone([1.0, 2.0], 1)
    with pytest.raises(ValueError, match="beta must hold finite numbers or -inf"):
        agnostic.project_topk_cone(strict.asarray([1.0, strict.nan]), 1)
    with pytest.raises(ValueError, match="alpha must be one-dimensional and not empty"):
        agnostic.project_topk_simplex(strict.zeros((2, 2)), x, 1)
    with pytest.raises(TypeError, match="real floating-point"):
        agnostic.project_topk_cone(strict.asarray([1, 2]), 1)
    with pytest.raises(ValueError, match="k must be between 1 and"):
        agnostic.project_topk_cone(x, 3)
    with pytest.raises(ValueError, match="total must be at most cap times the number of finite entries"):
        agnostic.project_capped_simplex(strict.asarray([1.0, -strict.inf]), 2.0, 1.0)
