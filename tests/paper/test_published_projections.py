"""Every peer projection is optimal, and all agree with each other and with taufpl.projection."""

from functools import partial

import numpy as np
import pytest

from taufpl._kernels import _projection_peers
from taufpl.baselines.projection import bisection, ibis, ptkc, sort_based, sort_based_cone

EXACT = 1e-12
PAIRS = [
    pytest.param(ibis, EXACT, id="ibis"),
    pytest.param(lambda alpha, beta, k: ibis(alpha, beta, k, prune=True), EXACT, id="ibis-pruned"),
    pytest.param(bisection, 1e-9, id="bisection"),
    pytest.param(sort_based, EXACT, id="sort_based"),
]
CONES = [pytest.param(ptkc, id="ptkc"), pytest.param(sort_based_cone, id="sort_based_cone")]
KINDS = ["normal", "ties", "low", "spread", "one_value", "sparse", "heavy"]
SHAPES = [(1, 1), (1, 7), (9, 1), (5, 8), (40, 33), (300, 517)]
LARGE = [(4500, 10), (20, 4500), (3000, 4001)]  # taufpl.projection samples vectors of this size


def draw(kind, m, n, rng):
    if kind == "ties":
        return rng.integers(-3, 4, m).astype(float), rng.integers(-3, 4, n).astype(float)
    if kind == "low":  # often the zero case
        return rng.normal(size=m) - 2.0, rng.normal(size=n)
    if kind == "spread":  # few, large gaps: the k largest often share the total evenly
        return rng.normal(size=m), np.cumsum(rng.exponential(5.0, n)) - 2.0 * n
    if kind == "sparse":
        return rng.normal(size=m) * (rng.random(m) < 0.1), rng.normal(size=n) * (rng.random(n) < 0.1)
    if kind == "heavy":
        return rng.standard_cauchy(m), rng.standard_cauchy(n)
    if kind == "one_value":
        return np.full(m, 0.7), np.full(n, rng.normal())
    return rng.normal(size=m), rng.normal(size=n)


def cases(shapes=SHAPES, kinds=KINDS, repeats=3):
    rng = np.random.default_rng(0)
    for kind in kinds:
        for m, n in shapes:
            for k in sorted({1, min(2, n), (n + 1) // 2, max(n - 1, 1), n}):
                for _ in range(repeats):
                    yield *draw(kind, m, n, rng), k


def scale_of(*vectors):
    return max(np.abs(v).max() for v in vectors) or 1.0


def one_value(values, tol):
    """The value that all entries share, within tol."""
    assert np.ptp(values) <= tol
    return values.mean()


def assert_optimal(alpha0, beta0, k, alpha, beta, tol, weight=1.0):
    """The optimality conditions, with the thresholds read off the answer."""
    slack = tol * scale_of(alpha0, beta0)
    total, cap = alpha.sum(), alpha.sum() / k
    largest = np.sort(beta0)[::-1][:k].sum()
    assert alpha.min() >= 0.0
    assert beta.min() >= 0.0
    assert beta.max() <= cap + slack
    assert abs(total - beta.sum()) <= slack * (alpha.size + beta.size)
    if k * weight * alpha0.max() + largest <= 0.0:
        assert total == 0.0
        return
    lam = one_value(weight * (alpha0 - alpha)[alpha > 0.0], slack * weight)
    assert (weight * alpha0[alpha == 0.0] <= lam + slack * weight).all()
    capped, idle = beta >= cap - slack, beta <= slack
    free = ~capped & ~idle
    if free.any():
        mu = one_value((beta0 - beta)[free], slack)
    else:
        mu = beta0[idle].max() if idle.any() else beta0.min() - cap
    assert (beta0[idle] <= mu + 2 * slack).all()
    excess = beta0[capped] - mu - cap
    assert (excess >= -2 * slack).all()
    assert abs(k * (lam + mu) + excess.sum()) <= slack * weight * (k + beta.size) * 2


def assert_in_normal_cone(alpha0, beta0, k, alpha, beta, tol, weight=1.0):
    """Moreau: the residual lies in the polar cone and is orthogonal to the answer."""
    scale = scale_of(alpha0, beta0)
    a, b = weight * (alpha0 - alpha), beta0 - beta
    size = alpha.size + beta.size
    assert k * a.max() + np.sort(b)[::-1][:k].sum() <= tol * scale * weight * 2 * k
    assert abs(a @ alpha + b @ beta) <= tol * scale**2 * weight * size * max(size / k, 1.0)


@pytest.mark.parametrize(("project", "tol"), PAIRS)
def test_pair_is_optimal(project, tol):
    for alpha0, beta0, k in cases():
        answer = project(alpha0, beta0, k)
        assert_optimal(alpha0, beta0, k, *answer, tol)
        assert_in_normal_cone(alpha0, beta0, k, *answer, tol)


@pytest.mark.parametrize("weight", [1e-3, 0.5, 7.0, 1e3])
def test_weighted_pair_is_optimal(weight):
    for alpha0, beta0, k in cases(repeats=1):
        answer = sort_based(alpha0, beta0, k, weight=weight)
        assert_optimal(alpha0, beta0, k, *answer, EXACT, weight)
        assert_in_normal_cone(alpha0, beta0, k, *answer, EXACT, weight)


@pytest.mark.parametrize("project", CONES)
def test_cone_is_optimal(project):
    for _, beta0, k in cases():
        beta = project(beta0, k)
        residual, slack = beta0 - beta, EXACT * scale_of(beta0) * beta0.size
        assert beta.min() >= 0.0
        assert beta.max() <= beta.sum() / k + slack
        assert np.sort(residual)[::-1][:k].sum() <= slack
        assert abs(residual @ beta) <= slack * scale_of(beta0)


@pytest.mark.parametrize(("project", "tol"), PAIRS)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_pairs_agree(project, tol, scale):
    if project is bisection:
        project = partial(bisection, tol=1e-10 * scale)
    for alpha0, beta0, k in cases(shapes=[(40, 33), (2000, 3001)], repeats=1):
        alpha0, beta0 = scale * alpha0, scale * beta0
        answer = project(alpha0, beta0, k)
        for got, expected in zip(answer, sort_based(alpha0, beta0, k), strict=True):
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=tol * scale_of(alpha0, beta0))


def test_cones_agree():
    for _, beta0, k in cases(shapes=[(1, 400)]):
        tol = EXACT * scale_of(beta0)
        np.testing.assert_allclose(ptkc(beta0, k), sort_based_cone(beta0, k), rtol=0.0, atol=tol)


@pytest.mark.parametrize(("project", "tol"), PAIRS)
def test_pair_agrees_with_taufpl(project, tol):
    from taufpl.projection import project_topk_simplex

    for alpha0, beta0, k in cases(SHAPES + LARGE, repeats=1):
        answers = project(alpha0, beta0, k), project_topk_simplex(alpha0, beta0, k)
        atol = tol * scale_of(alpha0, beta0) * max(alpha0.size / k, 1.0)  # the cap moves m/k as far
        for got, expected in zip(*answers, strict=True):
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=atol)


@pytest.mark.parametrize("project", CONES)
def test_cone_agrees_with_taufpl(project):
    from taufpl.projection import project_topk_cone

    for _, beta0, k in cases([*SHAPES, (1, 1500)], repeats=1):
        expected = project_topk_cone(beta0, k)
        np.testing.assert_allclose(project(beta0, k), expected, rtol=0.0, atol=EXACT * scale_of(beta0))


def test_weight_agrees_with_taufpl():
    from taufpl.projection import project_topk_simplex

    for alpha0, beta0, k in cases(SHAPES + LARGE, repeats=1):
        answers = sort_based(alpha0, beta0, k, weight=3.0), project_topk_simplex(alpha0, beta0, k, weight=3.0)
        for got, expected in zip(*answers, strict=True):
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=EXACT * scale_of(alpha0, beta0))


@pytest.mark.parametrize(("project", "tol"), PAIRS)
def test_input_is_left_alone(project, tol):
    alpha0, beta0 = np.arange(8.0)[::2], np.linspace(-1.0, 1.0, 5)
    beta0.flags.writeable = False
    answer = project(alpha0, beta0, 2)
    assert_optimal(alpha0, beta0, 2, *answer, tol)
    assert_optimal(alpha0, beta0, 2, *project(alpha0.tolist(), beta0.astype(np.float32), 2), max(tol, 1e-7))
    np.testing.assert_array_equal(alpha0, [0.0, 2.0, 4.0, 6.0])


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_ibis_stops_early_within_tol(tol):
    for alpha0, beta0, k in cases(kinds=["normal"], repeats=1):
        alpha, _ = ibis(alpha0, beta0, k, tol=tol)
        np.testing.assert_allclose(alpha, sort_based(alpha0, beta0, k)[0], rtol=0.0, atol=tol)


@pytest.mark.parametrize("project", [ibis, bisection, sort_based])
def test_bad_input_is_refused(project):
    with pytest.raises(ValueError, match="k must be between 1 and the number of entries of beta, 2; got 3"):
        project([1.0], [1.0, 2.0], 3)
    with pytest.raises(ValueError, match="alpha must have at least one entry, got none"):
        project([], [1.0], 1)
    with pytest.raises(ValueError, match="beta must be one-dimensional, got an array of shape"):
        project([1.0], [[1.0]], 1)
    with pytest.raises(ValueError, match="beta must have finite entries"):
        project([1.0], [1.0, np.nan, 0.0], 2)


@pytest.mark.parametrize("project", CONES)
def test_bad_input_of_cone_is_refused(project):
    with pytest.raises(ValueError, match="k must be between 1 and the number of entries of beta, 2; got 0"):
        project([1.0, 2.0], 0)
    with pytest.raises(ValueError, match="beta must have finite entries"):
        project([np.inf, 2.0], 1)


def test_bad_weight_is_refused():
    with pytest.raises(ValueError, match="weight must be positive"):
        sort_based([1.0], [1.0], 1, weight=0.0)


@pytest.mark.parametrize("method", [ibis, bisection])
def test_out_is_checked_and_written(method):
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=500), rng.normal(size=500)
    expected = method(alpha0, beta0, 20)
    out = np.full(500, np.nan), np.full(500, np.nan)
    assert method(alpha0, beta0, 20, out=out)[0] is out[0]
    in_place = alpha0.copy(), beta0.copy()
    method(*in_place, 20, out=in_place)
    for mine, placed, wanted in zip(out, in_place, expected, strict=True):
        np.testing.assert_array_equal(mine, wanted)
        np.testing.assert_array_equal(placed, wanted)
    method(-np.ones(500), -np.ones(500), 20, out=out)
    assert not np.any(out)
    with pytest.raises(ValueError, match="out for alpha must have shape"):
        method(alpha0, beta0, 20, out=(np.empty(1), np.empty(1)))


def test_loops_one_entry_at_a_time_agree():
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=1003), rng.normal(size=901)
    expected = ibis(alpha0, beta0, 20)
    _projection_peers.use_vector_loops(False)
    try:
        found = ibis(alpha0, beta0, 20)
    finally:
        _projection_peers.use_vector_loops(True)
    for mine, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=1e-13)
