"""The projections against exact rational arithmetic, on small and awkward problems."""

from fractions import Fraction
from math import fsum

import numpy as np
import pytest

from projection_cases import FAMILIES, draw
from reference import assert_feasible, exact_capped, exact_cone, exact_simplex, tolerances
from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex

PER_FAMILY = 320  # 18 families: 5,760 problems
UNITS = 8  # roundings allowed, each as large as `tolerances` says
TINY = float(np.finfo(float).smallest_subnormal)


def check_simplex(alpha0, beta0, k, weight, dtype=np.float64):
    alpha0, beta0 = alpha0.astype(dtype), beta0.astype(dtype)
    exact = exact_simplex(alpha0, beta0, k, weight)
    expected = exact.arrays
    alpha, beta = project_topk_simplex(alpha0, beta0, k, weight=weight)
    problem = f"alpha={alpha0.tolist()!r}, beta={beta0.tolist()!r}, k={k}, weight={weight!r}, {np.dtype(dtype)}"
    assert_feasible(alpha, beta, k, dtype, problem)
    units = tolerances(alpha0, beta0, k, weight, *expected, dtype)
    np.testing.assert_allclose(alpha, expected[0], rtol=0, atol=UNITS * units[0], err_msg=problem)
    np.testing.assert_allclose(beta, expected[1], rtol=0, atol=UNITS * units[1], err_msg=problem)


@pytest.mark.parametrize("name", FAMILIES)
def test_simplex_is_exact(name):
    for problem in draw(name, PER_FAMILY):
        check_simplex(*problem)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "subnormal"])
def test_simplex_is_exact_in_single_precision(name):
    for problem in draw(name, 60, seed=1):
        check_simplex(*problem, dtype=np.float32)


@pytest.mark.parametrize("name", FAMILIES)
def test_cone_is_exact(name):
    for _, beta0, k, _ in draw(name, 100, seed=2):
        exact = exact_cone(beta0, k)
        expected = exact.arrays[1]
        beta = project_topk_cone(beta0, k)
        unit = tolerances([0.0], beta0, k, 1.0, [0.0], expected)[1]
        problem = f"beta={beta0.tolist()!r}, k={k}"
        np.testing.assert_allclose(beta, expected, rtol=0, atol=UNITS * unit, err_msg=problem)
        assert (beta >= 0).all()
        assert beta.max() <= fsum(beta) / k * (1 + 16 * np.finfo(float).eps) + len(beta) * TINY


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "subnormal"])
@pytest.mark.parametrize("fill", [0.0, 0.3, 0.5, 1.0], ids="fill {}".format)
def test_capped_simplex_is_exact(name, fill):
    rng = np.random.default_rng([3, *name.encode()])
    for _, beta0, k, _ in draw(name, 30, seed=3):
        finite = int(np.isfinite(beta0).sum())
        if not finite:
            continue
        cap = float(2.0 ** rng.integers(-6, 7))
        # k caps, all the room there is, next to nothing, or any share of the room
        total = {0.0: min(k, finite) * cap, 1.0: finite * cap, 0.3: 2.0**-20 * cap}.get(
            fill, float(rng.uniform(0.01, finite)) * cap
        )
        expected = exact_capped(beta0, total, cap).arrays[1]
        beta = project_capped_simplex(beta0, total, cap)
        problem = f"beta={beta0.tolist()!r}, total={total!r}, cap={cap!r}"
        unit = tolerances([0.0], beta0, 1, 1.0, [0.0], expected)[1] + np.finfo(float).eps * cap
        np.testing.assert_allclose(beta, expected, rtol=0, atol=UNITS * unit, err_msg=problem)
        assert (beta >= 0).all(), problem
        assert beta.max() <= cap, problem
        assert abs(fsum(beta) - total) <= 16 * np.finfo(float).eps * total, problem


@pytest.mark.parametrize("name", ["zero_boundary", "small_integers", "gap_exactly_used_up"])
def test_zero_is_exactly_zero_where_the_sums_are_exact(name):
    for alpha0, beta0, k, _ in draw(name, 200, seed=4):
        exact = exact_simplex(alpha0, beta0, k)
        alpha, beta = project_topk_simplex(alpha0, beta0, k)
        assert alpha.any() == beta.any() == (exact.total != 0)


@pytest.mark.parametrize(
    ("alpha0", "beta0", "k"),
    [
        ([-np.inf, -np.inf], [1.0, 2.0], 1),
        ([1.0, 2.0], [1.0, -np.inf, 5.0], 3),
        ([1.0], [-np.inf], 1),
        ([-np.inf], [-np.inf], 1),
    ],
)
def test_too_few_finite_entries_leave_zero(alpha0, beta0, k):
    alpha, beta = project_topk_simplex(alpha0, beta0, k)
    assert not alpha.any()
    assert not beta.any()
    if np.isfinite(beta0).sum() < k:
        assert not project_topk_cone(beta0, k).any()


@pytest.mark.parametrize("name", FAMILIES)
def test_thresholds_describe_the_answer(name):
    for alpha0, beta0, k, weight in draw(name, 60, seed=5):
        alpha, beta, thresholds = project_topk_simplex(alpha0, beta0, k, weight=weight, return_thresholds=True)
        exact = exact_simplex(alpha0, beta0, k, weight)
        problem = f"alpha={alpha0.tolist()!r}, beta={beta0.tolist()!r}, k={k}, weight={weight!r}"
        slack = 16 * np.finfo(float).eps * fsum(alpha) + (len(alpha) + len(beta)) * TINY
        assert abs(thresholds.total - fsum(alpha)) <= slack, problem
        assert abs(thresholds.cap - thresholds.total / k) <= slack, problem
        if exact.total == 0 or not alpha.any():
            continue  # zero, or zero but for a rounding of the input
        units = tolerances(alpha0, beta0, k, weight, *exact.arrays)
        shift = float(exact.lam / Fraction(weight))
        assert abs(thresholds.lam / weight - shift) <= UNITS * units[0], problem
        if exact.mu is not None:
            assert abs(thresholds.mu - float(exact.mu)) <= UNITS * units[1], problem


@pytest.mark.parametrize("scale", [1e300, 2.0**-1000, 1e-300, 1e-310])
def test_extreme_scales(scale):
    rng = np.random.default_rng(0)
    for size in (1, 3, 8):
        for _ in range(30):
            alpha0, beta0 = scale * rng.normal(size=size), scale * rng.normal(size=size + 1)
            check_simplex(alpha0, beta0, int(rng.integers(1, size + 2)), float(rng.choice([1.0, 0.25, 4.0])))


@pytest.mark.parametrize("offset", [1e9, -1e9, 2.0**40, 1e15])
@pytest.mark.parametrize("weight", [1.0, 0.5, 8.0])
def test_small_answers_from_large_entries_lose_nothing(offset, weight):
    # Differences of entries are exact here, and so is the balance of the two offsets: nothing forces an error
    # larger than a rounding of the answer itself.
    rng = np.random.default_rng(0)
    for _ in range(100):
        m, n = rng.integers(1, 9, 2)
        k = int(rng.integers(1, n + 1))
        alpha0 = offset / weight + rng.integers(-16, 17, m) / 8
        beta0 = -offset + rng.integers(-16, 17, n) / 8
        exact = exact_simplex(alpha0, beta0, k, weight)
        alpha, beta = project_topk_simplex(alpha0, beta0, k, weight=weight)
        problem = f"alpha={alpha0.tolist()!r}, beta={beta0.tolist()!r}, k={k}, weight={weight!r}"
        for found, expected in zip((alpha, beta), exact.arrays, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=problem)
