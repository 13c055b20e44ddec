"""Kernel functions: their values against scikit-learn's, their scale against the definition, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import cdist, pdist
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.svm import SVC

from taufpl.kernels import make_kernel
from taufpl.operators import thread_limit

NAMES = ("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian", "chi2", "cosine")
DENSE_ONLY = {"chi2"}
PARAMETERS = {"gamma": 0.3, "degree": 4, "coef0": 0.5}


def rows(n=150, d=6, seed=0):
    """Rows that are not negative, some of zeros, some equal."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[3] = 0.0
    X[5] = X[4]
    return X


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_scikit_learn(name, storage, dtype):
    if name in DENSE_ONLY and storage in (sparse.csr_matrix, sparse.csr_array):
        pytest.skip("scikit-learn has this kernel for dense rows only")
    X, Y = rows(), rows(40, seed=1)
    expected = pairwise_kernels(X, Y, metric=name, filter_params=True, **PARAMETERS)
    kernel = make_kernel(name, **PARAMETERS, X=storage(X.astype(dtype)))
    values = kernel.between(storage(X.astype(dtype)), storage(Y.astype(dtype)))
    assert values.dtype == dtype
    rtol = 1e-12 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    of_itself = pairwise_kernels(X, metric=name, filter_params=True, **PARAMETERS).diagonal()
    np.testing.assert_allclose(kernel.diagonal(storage(X.astype(dtype))), of_itself, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian"])
def test_mixed_storage_and_types(name):
    X, Y = rows(), rows(40, seed=1).astype(np.float32)
    kernel = make_kernel(name, gamma=0.3, X=X)
    expected = kernel.between(X, Y.astype(np.float64))
    for left, right in ((sparse.csr_matrix(X), Y), (X, sparse.csr_matrix(Y)), (X, Y)):
        np.testing.assert_allclose(kernel.between(left, right), expected, rtol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 8, 9, 13])
def test_degrees(degree):
    X = rows()
    expected = pairwise_kernels(X, metric="poly", gamma=0.2, degree=degree, coef0=1.0)
    np.testing.assert_allclose(make_kernel("poly", 0.2, degree, X=X).between(X), expected, rtol=1e-12)


def test_distances_far_from_the_origin_keep_their_digits_in_single_precision():
    X = np.random.default_rng(0).normal(size=(200, 5))
    far = (X + 1000.0).astype(np.float32)
    expected = pairwise_kernels(far.astype(np.float64), metric="rbf", gamma=0.1)
    np.testing.assert_allclose(make_kernel("rbf", 0.1, X=far).between(far), expected, atol=2e-6)


def test_a_function_of_two_rows_is_called_as_scikit_learn_does():
    X = rows(20)
    kernel = make_kernel(overlap, kernel_params={"power": 2.0}, X=X)
    np.testing.assert_array_equal(kernel.between(X, X[:7]), pairwise_kernels(X, X[:7], metric=overlap, power=2.0))
    np.testing.assert_array_equal(kernel.diagonal(X), kernel.between(X).diagonal())


def overlap(x, y, power=1.0):
    return float(np.minimum(x, y).sum() ** power)


def test_kernels_of_gaussian_processes():
    X = rows(50)
    function = 2.0 * Matern(1.5, nu=2.5) + RBF(0.7)
    kernel = make_kernel(function, X=X)
    np.testing.assert_allclose(kernel.between(X, X[:9]), function(X, X[:9]))
    np.testing.assert_allclose(kernel.diagonal(X), np.full(50, 3.0))


def test_precomputed_values_are_taken_by_position():
    K = pairwise_kernels(rows(30), metric="rbf")
    kernel = make_kernel("precomputed", X=K)
    np.testing.assert_array_equal(kernel.between(K[:5], np.array([7, 2])), K[:5, [7, 2]])
    np.testing.assert_array_equal(kernel.between(K), K)
    # Rows, of whole numbers too, are no positions.
    for points in (np.ones((2, 30), int), np.ones((2, 30)), np.ones(2)):
        np.testing.assert_array_equal(kernel.between(K, points), K)
    np.testing.assert_array_equal(kernel.diagonal(K), K.diagonal())


@pytest.mark.parametrize("name", NAMES)
def test_sums_over_points(name):
    """None of them make zeros."""
    X = rows(3000)
    kernel = make_kernel(name, **PARAMETERS, X=X)
    points, weights = np.array([1, 3, 4, 70]), np.array([2.0, -1.0, 0.5, 3.0])
    expected = kernel.between(X, kernel.points(X, points)) @ weights
    np.testing.assert_allclose(kernel.expansion(X, kernel.points(X, points), weights), expected, rtol=1e-12, atol=1e-12)
    assert not kernel.expansion(X, X[:0], np.zeros(0)).any()
    assert kernel.has_gamma == (name not in ("linear", "cosine"))
    np.testing.assert_array_equal(kernel.restrict(X, points), X[points])


def test_rows_of_a_matrix_of_the_kernel():
    K = pairwise_kernels(rows(30), metric="rbf")
    kernel, some = make_kernel("precomputed", X=K), np.array([5, 2, 9])
    np.testing.assert_array_equal(kernel.restrict(K, some), K[np.ix_(some, some)])
    np.testing.assert_array_equal(kernel.between(K, kernel.points(K, some)), K[:, some])
    assert not kernel.has_gamma


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_gamma_by_the_data(storage):
    X = rows(90)
    stored = storage(X)
    assert make_kernel("rbf", "auto", X=stored).gamma == 1 / 6
    fitted = SVC(gamma="scale").fit(X, np.arange(90) % 2)
    assert make_kernel("poly", "scale", X=stored).gamma == pytest.approx(fitted._gamma, rel=1e-12)
    # 90 rows have 4,005 pairs, few enough for all of them to count.
    median = np.median(pdist(X, "sqeuclidean"))
    assert make_kernel("rbf", "median", X=stored).gamma == pytest.approx(1 / median, rel=1e-12)
    median = np.median(pdist(X, "cityblock"))
    assert make_kernel("laplacian", "median", X=stored).gamma == pytest.approx(1 / median, rel=1e-12)
    median = np.median((X**2).sum(axis=1))
    assert make_kernel("sigmoid", "median", X=stored).gamma == pytest.approx(1 / median, rel=1e-12)


def test_gamma_of_chi2_by_the_data():
    X = rows(60)
    gamma = make_kernel("chi2", "median", X=X).gamma
    values = -np.log(pairwise_kernels(X, metric="chi2", gamma=1.0)[np.triu_indices(60, 1)])
    assert gamma == pytest.approx(1 / np.median(values), rel=1e-9)


def test_the_median_of_a_sample_is_near_that_of_all_pairs():
    X = rows(1500)
    assert make_kernel("rbf", "median", X=X).gamma == pytest.approx(1 / np.median(pdist(X, "sqeuclidean")), rel=0.1)


def test_rows_that_are_equal():
    assert make_kernel("rbf", "median", X=np.ones((50, 3))).gamma == 1.0
    assert make_kernel("rbf", "scale", X=np.ones((50, 3))).gamma == 1.0
    assert make_kernel("rbf", "median", X=np.ones((1, 3))).gamma == 1.0
    mostly = np.ones((50, 3))
    mostly[0] = 3.0
    assert make_kernel("rbf", "median", X=mostly).gamma == pytest.approx(1 / 12)


@settings(deadline=None, max_examples=40)
@given(
    X=arrays(np.float64, (7, 3), elements=st.floats(-50, 50)),
    name=st.sampled_from(["linear", "rbf", "poly", "laplacian", "cosine"]),
    gamma=st.one_of(st.floats(1e-3, 3), st.sampled_from(["median", "scale", "auto"])),
)
def test_matrices_are_symmetric_and_semidefinite(X, name, gamma):
    if gamma == "scale" and X.var() < 1e-6:
        gamma = "auto"
    kernel = make_kernel(name, gamma, 2, 1.0, X=X)
    K = kernel.between(X)
    scale = max(1.0, np.abs(K).max())
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * scale)
    assert np.linalg.eigvalsh(K / scale).min() >= -1e-10
    np.testing.assert_allclose(kernel.diagonal(X), K.diagonal(), rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "cosine"])
def test_threads_do_not_change_a_bit(name):
    X = rows(3000)
    kernel = make_kernel(name, X=X)
    with thread_limit(1):
        alone = kernel.between(X, X[:300])
    with thread_limit(4):
        together = kernel.between(X, X[:300])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "gauss"}, "kernel must be one of linear, rbf"),
        ({"gamma": 0.0}, "gamma must be a positive number"),
        ({"gamma": -1}, "gamma must be a positive number"),
        ({"gamma": np.inf}, "gamma must be a positive number"),
        ({"gamma": True}, "gamma must be a positive number"),
        ({"gamma": "mean"}, "gamma must be a positive number"),
        ({"kernel": "poly", "degree": 0}, "degree must be a whole number, at least 1"),
        ({"kernel": "poly", "degree": 2.5}, "degree must be a whole number, at least 1"),
        ({"kernel": "poly", "coef0": np.nan}, "coef0 must be a finite number"),
        ({"kernel": "precomputed"}, "must be the square matrix"),
        ({"kernel": "chi2"}, 'Negative values in data passed to kernel="chi2"'),
        ({"kernel": "chi2", "X": sparse.csr_matrix(np.eye(3))}, "takes no sparse matrix"),
        ({"kernel": "rbf", "kernel_params": {"gamma": 1.0}}, "kernel_params are arguments of a callable"),
    ],
)
def test_bad_values(arguments, message):
    X = np.random.default_rng(0).normal(size=(10, 3))
    with pytest.raises(ValueError, match=message):
        make_kernel(**{"X": X, **arguments})


def test_a_kernel_that_is_no_kernel():
    with pytest.raises(TypeError, match="a name or a callable"):
        make_kernel(3, X=np.eye(2))


def test_rows_of_other_lengths():
    with pytest.raises(ValueError, match="as many features: got 3 and 2"):
        make_kernel("rbf", 1.0, X=np.eye(3)).between(np.eye(3), np.eye(2))


@pytest.mark.parametrize(
    ("dtype", "far", "error"),
    [(np.float64, far, 1e-12) for far in (1e2, 1e4, 1e8, 1e200)] + [(np.float32, far, 1e-4) for far in (1e2, 1e4, 1e8)],
)
@pytest.mark.parametrize("share", [0.01, 0.6])
def test_far_rows_keep_the_digits_of_all_distances(share, dtype, far, error):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    some = rng.random(300) < share
    X[some] = far * (1 + 1e-6 * rng.integers(3, size=(some.sum(), 3)))
    X = X.astype(dtype)
    with np.errstate(over="ignore"):
        exact = np.exp(-0.7 * cdist(X.astype(np.float64), X.astype(np.float64), "sqeuclidean"))
    values = make_kernel("rbf", gamma=0.7, X=X).between(X, X)
    np.testing.assert_allclose(values, exact, rtol=0, atol=error)


@pytest.mark.parametrize("kernel", ["chi2", RBF(), lambda x, y: float(x @ y)], ids=["chi2", "process", "callable"])
def test_kernels_that_need_the_zeros_say_so(kernel):
    with pytest.raises(ValueError, match=r"takes no sparse matrix; X.toarray\(\)"):
        make_kernel(kernel, X=sparse.csr_array(rows()))


@pytest.mark.parametrize("kernel", [rbf_kernel, lambda X, Y: X[:, :1] @ Y[:, :1].T, lambda x, y: x * y])
def test_functions_of_two_matrices_are_told_from_functions_of_two_rows(kernel):
    with pytest.raises(ValueError, match=r'gets two rows.*returns a number.*kernel="precomputed" with its matrix'):
        make_kernel(kernel, X=rows())
