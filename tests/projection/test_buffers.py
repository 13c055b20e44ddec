"""Buffers of every kind: layouts, types, arrays to write to, threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from reference import sorted_simplex
from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex

EPS = float(np.finfo(float).eps)
SIZES = [(5, 7, 3), (3000, 20_000, 150)]


def strided(x):
    wide = np.full(3 * len(x), np.nan, x.dtype)
    wide[::3] = x
    return wide[::3]


def reversed_view(x):
    return x[::-1].copy()[::-1]


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def column(x):
    return np.asfortranarray(np.stack([x, x + 1, x + 2]).T).copy("C")[:, 0]


def unaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype)
    view[:] = x
    return view


def byte_swapped(x):
    return x.astype(x.dtype.newbyteorder())


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", [strided, reversed_view, read_only, column, unaligned, byte_swapped, list])
def test_layouts(layout, dtype, m, n, k):
    if layout is list and dtype is np.float32:
        dtype = np.float64
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=m).astype(dtype), rng.normal(size=n).astype(dtype)
    plain = project_topk_simplex(alpha0, beta0, k)
    inputs = layout(alpha0), layout(beta0)
    found = project_topk_simplex(*inputs, k)
    for x, y in zip(found, plain, strict=True):
        assert x.dtype == dtype
        np.testing.assert_allclose(x, y, rtol=0, atol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(inputs[0], alpha0)
    np.testing.assert_array_equal(inputs[1], beta0)
    np.testing.assert_allclose(
        project_topk_cone(layout(beta0), k), project_topk_cone(beta0, k), rtol=0, atol=8 * np.finfo(dtype).eps
    )
    np.testing.assert_allclose(
        project_capped_simplex(layout(beta0), 2.0, 1.0),
        project_capped_simplex(beta0, 2.0, 1.0),
        rtol=0,
        atol=8 * np.finfo(dtype).eps,
    )


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_inputs_are_left_alone(m, n, k):
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=m), rng.normal(size=n)
    before = alpha0.tobytes(), beta0.tobytes()
    *_, guess = project_topk_simplex(alpha0, beta0, k, return_thresholds=True)
    project_topk_simplex(alpha0, beta0, k, guess=guess, weight=0.3)
    project_topk_cone(beta0, k)
    project_capped_simplex(beta0, 1.0, 0.5)
    assert (alpha0.tobytes(), beta0.tobytes()) == before


def test_repeated_calls_give_the_same_bits():
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=3000), rng.normal(size=50_000)
    first, second = (project_topk_simplex(alpha0, beta0, 500) for _ in range(2))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("f4", "f4"), "f4"),
        (("f8", "f8"), "f8"),
        (("f4", "f8"), "f8"),
        (("f8", "f4"), "f8"),
        (("i4", "i8"), "f8"),
        (("i8", "f4"), "f8"),
    ],
)
def test_result_types(kinds, expected):
    alpha0, beta0 = np.array([3, 1, -2], kinds[0]), np.array([2, 1, 0, -1], kinds[1])
    alpha, beta = project_topk_simplex(alpha0, beta0, 2)
    assert alpha.dtype == beta.dtype == np.dtype(expected)
    wanted = sorted_simplex(alpha0, beta0, 2)
    np.testing.assert_allclose(alpha, wanted[0], rtol=4 * np.finfo(expected).eps)
    np.testing.assert_allclose(beta, wanted[1], rtol=4 * np.finfo(expected).eps)
    assert project_topk_cone(beta0, 2).dtype == (np.float32 if kinds[1] == "f4" else np.float64)


def test_integers_of_many_kinds_are_numbers_too():
    expected = project_topk_simplex([3.0, 1.0], [2.0, 0.0, 1.0], 2, weight=2.0)
    for k in (np.int32(2), np.uint8(2), np.int64(2)):
        for weight in (2, np.float32(2), np.int64(2)):
            found = project_topk_simplex((3, 1), [2, 0, 1], k, weight=weight)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(project_capped_simplex([3, 1], 1, 1), [1.0, 0.0])


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_out_receives_the_answer(m, n, k, dtype):
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=m).astype(dtype), rng.normal(size=n).astype(dtype)
    expected = project_topk_simplex(alpha0, beta0, k)
    out = np.full(m, np.nan, dtype), np.full(n, np.nan, dtype)
    found = project_topk_simplex(alpha0, beta0, k, out=out)
    assert found[0] is out[0]
    assert found[1] is out[1]
    np.testing.assert_array_equal(out[0], expected[0])
    np.testing.assert_array_equal(out[1], expected[1])

    for project in (
        lambda b, **o: project_topk_cone(b, k, **o),
        lambda b, **o: project_capped_simplex(b, 2, 1, **o),
    ):
        single, expected_single = np.full(n, np.nan, dtype), project(beta0)
        assert project(beta0, out=single) is single
        np.testing.assert_array_equal(single, expected_single)
        single = beta0.copy()
        assert project(single, out=single) is single
        np.testing.assert_array_equal(single, expected_single)

    alpha, beta = alpha0.copy(), beta0.copy()
    assert project_topk_simplex(alpha, beta, k, out=(alpha, beta))[0] is alpha
    np.testing.assert_array_equal(alpha, expected[0])
    np.testing.assert_array_equal(beta, expected[1])


def test_out_receives_zeros_too():
    out = np.full(2, np.nan), np.full(3, np.nan)
    project_topk_simplex([-1.0, -2.0], [0.0, -1.0, -2.0], 2, out=out)
    assert not out[0].any()
    assert not out[1].any()


@pytest.mark.parametrize(("size", "k"), [(9, 3), (20_000, 150)])
@pytest.mark.parametrize(
    "arrange",
    [
        lambda shared, size: (shared[size : 2 * size], np.empty(size)),
        lambda shared, size: (shared[size : 2 * size], shared[:size]),
        lambda shared, size: (shared[1 : size + 1], np.empty(size)),
        lambda shared, size: (np.empty(size), shared[size + 1 :]),
        lambda shared, size: (np.empty(size), shared[:size]),
        lambda shared, size: (shared[:size], shared[1 : size + 1]),
    ],
    ids=["alpha on beta", "crossed", "alpha shifted", "beta shifted", "beta on alpha", "out on out"],
)
def test_overlapping_buffers_are_refused_or_right(arrange, size, k):
    rng = np.random.default_rng(0)
    values = rng.normal(size=2 * size + 1)
    expected = project_topk_simplex(values[:size], values[size : 2 * size], k)
    shared = values.copy()
    out = arrange(shared, size)
    refused = ""
    try:
        project_topk_simplex(shared[:size], shared[size : 2 * size], k, out=out)
    except ValueError as error:
        refused = str(error)
    if refused:
        assert "share memory" in refused
        np.testing.assert_array_equal(shared, values)
    else:
        np.testing.assert_allclose(out[0], expected[0], rtol=0, atol=8 * EPS)
        np.testing.assert_allclose(out[1], expected[1], rtol=0, atol=8 * EPS)


@pytest.mark.parametrize("size", [9, 20_000])
def test_a_shifted_single_out_is_refused_or_right(size):
    rng = np.random.default_rng(0)
    for start in (0, 2):
        shared = rng.normal(size=size + 2)
        beta0 = shared[1 : size + 1]
        expected, out = project_topk_cone(beta0, 3), shared[start : size + start]
        before, refused = shared.copy(), ""
        try:
            project_topk_cone(beta0, 3, out=out)
        except ValueError as error:
            refused = str(error)
        if refused:
            assert "share memory" in refused
            np.testing.assert_array_equal(shared, before)
        else:
            np.testing.assert_allclose(out, expected, rtol=0, atol=8 * EPS)


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    problems = [(rng.normal(size=2000), rng.normal(size=20_000), int(rng.integers(1, 20_000))) for _ in range(24)]
    shared = [problems[0]] * 8  # the same arrays read from several threads at once
    alone = [project_topk_simplex(*problem) for problem in problems + shared]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda problem: project_topk_simplex(*problem), problems + shared))
    for one, other in zip(alone, together, strict=True):
        assert one[0].tobytes() == other[0].tobytes()
        assert one[1].tobytes() == other[1].tobytes()
