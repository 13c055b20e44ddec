"""Partial Cholesky factors: against a textbook version, against probabilities by hand, and their error."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.stats import chisquare
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from kernel_cases import CASES, case, plain_cholesky, smooth
from taufpl.kernels import make_kernel
from taufpl.kernels._cholesky import narrowed, partial_cholesky
from taufpl.operators._threads import thread_limit


def factored(kernel, X, n_components=10_000, tol=0.0, pivoting="random", seed=0, rows=None):
    return partial_cholesky(kernel, X, n_components, tol, pivoting, np.random.default_rng(seed), rows)


def check_error(K, found):
    """What is left is what the factor says it is, and bounds every entry."""
    left = K - found.factor @ found.factor.T
    scale = K.diagonal().max()
    np.testing.assert_allclose(found.residual, left.diagonal(), rtol=0, atol=1e-10 * scale)
    assert found.path[-1] == pytest.approx(np.trace(left) / np.trace(K), rel=1e-6, abs=1e-12)
    bound = np.sqrt(np.maximum(found.residual, 0.0))
    assert (np.abs(left) <= np.outer(bound, bound) + 1e-9 * scale).all()


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
@pytest.mark.parametrize("n_components", [1, 7, 70])
@pytest.mark.parametrize("name", CASES)
def test_the_error_is_known(name, n_components, pivoting):
    rows, function, parameters = CASES[name]
    kernel, X, K = case(rows, function, **parameters)
    found = factored(kernel, X, n_components, pivoting=pivoting)
    assert len(found.pivots) == len(set(found.pivots)) == len(found.path) == found.factor.shape[1] <= n_components
    check_error(K, found)


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
@pytest.mark.parametrize("name", CASES)
def test_a_full_factor_gives_the_matrix_back(name, pivoting):
    rows, function, parameters = CASES[name]
    kernel, X, K = case(rows, function, **parameters)
    found = factored(kernel, X, pivoting=pivoting)
    np.testing.assert_allclose(found.factor @ found.factor.T, K, rtol=0, atol=1e-8 * K.diagonal().max())
    assert found.path[-1] < 1e-9


@pytest.mark.parametrize("tol", [0.0, 1e-2])
@pytest.mark.parametrize("name", CASES)
def test_greedy_pivots_are_those_of_the_textbook(name, tol):
    rows, function, parameters = CASES[name]
    kernel, X, K = case(rows, function, **parameters)
    found = factored(kernel, X, 60, tol, "greedy")
    factor, left = plain_cholesky(K, kernel.diagonal(X), found.pivots)
    np.testing.assert_allclose(found.factor, factor, rtol=0, atol=1e-6 * np.sqrt(K.diagonal().max()))
    # Rows may tie up to rounding, and then the processor decides: a pivot is a largest entry, not the textbook's one.
    rounding = 1e-10 * K.diagonal().max()
    for pivot, diagonal in zip(found.pivots, left, strict=False):
        assert diagonal[pivot] >= diagonal.max() - rounding
        assert diagonal.sum() > tol * left[0].sum()
    assert len(found.pivots) == 60 or left[-1].sum() <= tol * left[0].sum() or left[-1].max() <= rounding


@pytest.mark.slow
def test_the_first_two_random_pivots_have_their_probabilities():
    X = np.array([[0.0], [0.1], [1.0], [2.5], [2.6]])
    K = np.exp(-(X**2)) * np.exp(-0.5 * (X - X.T) ** 2) * np.exp(-(X.T**2))  # diagonals that differ
    kernel = make_kernel("precomputed", X=K)
    expected = np.zeros((5, 5))
    for first in range(5):
        left = K.diagonal() - K[:, first] ** 2 / K[first, first]
        left[first] = 0.0
        expected[first] = K[first, first] / np.trace(K) * left / left.sum()
    n_trials = 6000
    counts = np.zeros((5, 5))
    rng = np.random.default_rng(0)
    for _ in range(n_trials):
        first, second = partial_cholesky(kernel, K, 2, 0.0, "random", rng).pivots
        counts[first, second] += 1
    enough = expected * n_trials >= 5
    observed = np.append(counts[enough], counts[~enough].sum())
    hoped = np.append(expected[enough], expected[~enough].sum()) * n_trials
    assert chisquare(observed, hoped).pvalue > 1e-3
    # The test can tell: pivots without rejection are far off.
    independent = np.outer(K.diagonal(), K.diagonal()) / np.trace(K) ** 2
    assert chisquare(counts.ravel(), independent.ravel() * n_trials).pvalue < 1e-6


def test_random_pivots_far_into_a_factor_follow_what_is_left():
    # The mean over many draws of the error after r pivots, against draws one at a time without blocks.
    kernel, X, K = case(lambda: smooth(60, 2), "rbf")
    rng = np.random.default_rng(0)
    blocked = [partial_cholesky(kernel, X, 12, 0.0, "random", rng).path[-1] for _ in range(400)]
    single = [one_at_a_time(K, 12, rng) for _ in range(400)]
    spread = np.hypot(np.std(blocked), np.std(single)) / np.sqrt(400)
    assert abs(np.mean(blocked) - np.mean(single)) < 4 * spread


def one_at_a_time(K, n_components, rng):
    left = K.copy()
    for _ in range(n_components):
        weights = np.maximum(left.diagonal(), 0.0)
        pivot = rng.choice(len(K), p=weights / weights.sum())
        left -= np.outer(left[:, pivot], left[pivot]) / left[pivot, pivot]
    return np.trace(left) / np.trace(K)


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-5])
def test_it_stops_at_the_first_pivot_within_the_tolerance(pivoting, tol):
    kernel, X, K = case(smooth, "rbf")
    found = factored(kernel, X, tol=tol, pivoting=pivoting)
    assert found.path[-1] <= tol < found.path[-2]
    check_error(K, found)


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
def test_the_triangle_belongs_to_the_landmarks(pivoting):
    kernel, X, K = case(smooth, "rbf")
    found = factored(kernel, X, 50, pivoting=pivoting)
    at_pivots = K[np.ix_(found.pivots, found.pivots)]
    np.testing.assert_allclose(found.triangle @ found.triangle.T, at_pivots, atol=1e-12)
    nystroem = K[:, found.pivots] @ np.linalg.solve(at_pivots, K[found.pivots])
    np.testing.assert_allclose(found.factor @ found.factor.T, nystroem, atol=1e-9)


def test_some_of_the_rows():
    kernel, X, K = case(smooth, "rbf")
    rows = np.arange(0, 400, 3)
    part = factored(kernel, X, 30, pivoting="greedy", rows=rows)
    alone = factored(kernel, X[rows], 30, pivoting="greedy")
    np.testing.assert_array_equal(part.pivots, alone.pivots)
    np.fill_diagonal(K, 1.0)  # as the kernel has it: by rounding, greedy pivots would differ
    given = factored(make_kernel("precomputed", X=K), K, 30, pivoting="greedy", rows=rows)
    np.testing.assert_array_equal(given.pivots, part.pivots)
    np.testing.assert_allclose(given.factor, part.factor, atol=1e-10)


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
def test_threads_do_not_change_a_bit(pivoting):
    kernel, X, _ = case(lambda: smooth(5000, 8), "rbf")
    with thread_limit(1):
        alone = factored(kernel, X, 100, pivoting=pivoting)
    with thread_limit(4):
        together = factored(kernel, X, 100, pivoting=pivoting)
    np.testing.assert_array_equal(alone.pivots, together.pivots)
    np.testing.assert_array_equal(alone.factor, together.factor)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    X=arrays(np.float64, st.tuples(st.integers(1, 90), st.just(2)), elements=st.integers(-4, 4).map(float)),
    name=st.sampled_from(["rbf", "laplacian", "poly", "linear", "cosine"]),
    pivoting=st.sampled_from(["greedy", "random"]),
    n_components=st.integers(1, 90),
)
def test_rows_on_a_grid_with_many_equals(X, name, pivoting, n_components):
    kernel = make_kernel(name, X=X)
    if kernel.diagonal(X).sum() == 0:
        with pytest.raises(ValueError, match="0 on every row"):
            factored(kernel, X, n_components, pivoting=pivoting)
        return
    K = kernel.between(X)
    found = factored(kernel, X, n_components, pivoting=pivoting)
    check_error(K, found)
    assert (np.diff(found.path) <= 1e-12).all()
    assert len(found.pivots) == n_components or found.path[-1] < 1e-9


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
@pytest.mark.parametrize(
    "K",
    [
        [[1.0, 2.0], [2.0, 1.0]],
        [[-1.0, 0.0], [0.0, 1.0]],
        [[1.0, np.nan], [np.nan, 1.0]],
        [[np.nan, 0.0], [0.0, 1.0]],
        np.eye(4) - 0.5,
    ],
)
def test_matrices_that_are_not_semidefinite(K, pivoting):
    K = np.array(K)
    with pytest.raises(ValueError, match=r"not positive semidefinite|symmetric"):
        factored(make_kernel("precomputed", X=K), K, pivoting=pivoting)


@pytest.mark.parametrize("pivoting", ["greedy", "random"])
def test_kernels_that_are_not_semidefinite(pivoting):
    X = smooth(200, 5)
    with pytest.raises(ValueError, match=r"\(sigmoid\) is not positive semidefinite.*Take another kernel"):
        factored(make_kernel("sigmoid", 1.0, coef0=-1.0, X=X), X, pivoting=pivoting)
    with pytest.raises(ValueError, match=r"\(a callable\) is not positive semidefinite"):
        factored(make_kernel(lambda x, y: 1.0 + np.abs(x - y).sum(), X=X[:40]), X[:40], pivoting=pivoting)


def test_matrices_that_are_not_symmetric():
    K = np.eye(5)
    K[1, 3] = 0.5
    with pytest.raises(ValueError, match="must be symmetric"):
        factored(make_kernel("precomputed", X=K), K)


def test_noise_on_the_diagonal():
    X = smooth(30)
    with pytest.raises(ValueError, match="noise on its diagonal"):
        factored(make_kernel(RBF(1.0) + WhiteKernel(0.1), X=X), X)


def test_precomputed_values_in_single_precision():
    _, _, K = case(smooth, "rbf")
    single = K.astype(np.float32)
    found = factored(make_kernel("precomputed", X=single), single)
    assert np.abs(found.factor @ found.factor.T - K).max() < 1e-3


def test_columns_move_together_in_place():
    matrix = np.arange(1000.0).reshape(200, 5)
    expected = matrix[:, :3].copy()
    moved = narrowed(matrix, 3)
    np.testing.assert_array_equal(moved, expected)
    assert moved.flags.c_contiguous
    assert np.shares_memory(moved, matrix)


def test_values_many_decades_apart_are_named_as_the_reason():
    X = sparse.csr_array(np.vstack([smooth(50), np.full((1, 3), 1e200)]))
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="scale or clip the features"):
        factored(make_kernel("rbf", gamma=1.0, X=X), X)


@pytest.mark.parametrize("name", ["linear", "poly"])
def test_values_beyond_all_numbers_are_refused(name):
    X = np.array([[1e200], [1.0], [2.0]])
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"k\(x, x\) sums to inf over all rows"):
        factored(make_kernel(name, gamma=1.0, X=X), X)
