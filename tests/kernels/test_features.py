"""The transformer: its features against the kernel, its error against the truth, its place among scikit-learn's."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernel_cases import CASES, clustered, smooth
from taufpl import PivotedCholeskyFeatures
from taufpl.operators import thread_limit


@parametrize_with_checks(
    [
        PivotedCholeskyFeatures(),
        PivotedCholeskyFeatures(7, pivoting="greedy", n_candidates=10),
        PivotedCholeskyFeatures(kernel="chi2"),
        PivotedCholeskyFeatures(kernel="poly", gamma="scale", tol=1e-3),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_candidates", [None, 100])
@pytest.mark.parametrize("pivoting", ["greedy", "random"])
@pytest.mark.parametrize("name", CASES)
def test_the_error_of_all_rows_is_measured(name, pivoting, n_candidates):
    rows, kernel, parameters = CASES[name]
    X = rows()
    map_ = PivotedCholeskyFeatures(
        20, kernel=kernel, **parameters, pivoting=pivoting, n_candidates=n_candidates, random_state=0
    )
    F = map_.fit_transform(X)
    K = pairwise_kernels(X, metric=kernel, filter_params=True, gamma=map_.gamma_, degree=map_.degree, coef0=map_.coef0)
    left = K - F @ F.T
    trace = np.trace(K)
    assert map_.residual_trace_ == pytest.approx(np.trace(left), abs=1e-9 * trace)
    assert map_.relative_error_ == pytest.approx(np.trace(left) / trace, abs=1e-9)
    assert np.linalg.norm(left) <= map_.residual_trace_ + 1e-9 * trace
    residuals = map_.residuals(X)
    scale = K.diagonal().max()
    np.testing.assert_allclose(residuals, left.diagonal(), atol=1e-8 * scale)
    assert (left**2 <= np.outer(residuals, residuals) + 1e-9 * scale**2).all()
    np.testing.assert_array_equal(map_.landmarks_, X[map_.landmark_indices_])
    assert F.shape == (len(X), map_.n_components_)
    assert len(map_.error_path_) == map_.n_components_ <= 20


@pytest.mark.parametrize("n_candidates", [None, 50])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_fit_and_transform_agree_with_fit_transform(storage, n_candidates):
    X = np.abs(smooth(300, 4)) * (smooth(300, 4, seed=5) > 0)
    map_ = PivotedCholeskyFeatures(40, n_candidates=n_candidates, random_state=3)
    together = map_.fit_transform(storage(X))
    apart = clone(map_).fit(storage(X))
    np.testing.assert_allclose(apart.transform(storage(X)), together, atol=1e-8)
    np.testing.assert_array_equal(apart.landmark_indices_, map_.landmark_indices_)
    assert apart.residual_trace_ == pytest.approx(map_.residual_trace_, rel=1e-8)
    assert apart.relative_error_ == pytest.approx(map_.relative_error_, rel=1e-8)


def test_new_rows_get_the_nystroem_approximation_and_its_bound():
    X, new = smooth(300, 3), smooth(50, 3, seed=9) * 2
    map_ = PivotedCholeskyFeatures(30, random_state=0).fit(X)
    landmarks = map_.landmarks_
    rbf = dict(metric="rbf", gamma=map_.gamma_)
    to_landmarks = pairwise_kernels(new, landmarks, **rbf)
    expected = to_landmarks @ np.linalg.solve(pairwise_kernels(landmarks, **rbf), to_landmarks.T)
    F, residuals = map_.transform(new), map_.residuals(new)
    np.testing.assert_allclose(F @ F.T, expected, atol=1e-10)
    np.testing.assert_allclose(map_.triangle_ @ map_.triangle_.T, pairwise_kernels(landmarks, **rbf), atol=1e-12)
    left = pairwise_kernels(new, **rbf) - expected
    assert (left**2 <= np.outer(residuals, residuals) + 1e-10).all()
    assert residuals.max() > 0.1  # some of them are far away, and it shows


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**16),
    n_components=st.integers(1, 40),
    pivoting=st.sampled_from(["greedy", "random"]),
    n_candidates=st.sampled_from([None, 10, 60]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_the_bound_holds_whatever_is_asked_for(seed, n_components, pivoting, n_candidates, dtype):
    X = clustered(120, 2, seed).astype(dtype)
    map_ = PivotedCholeskyFeatures(n_components, pivoting=pivoting, n_candidates=n_candidates, random_state=seed)
    F = map_.fit_transform(X).astype(np.float64)
    K = pairwise_kernels(X.astype(np.float64), metric="rbf", gamma=map_.gamma_)
    rounding = 1e-9 if dtype == np.float64 else 1e-5
    residuals = map_.residuals(X)
    assert np.trace(K - F @ F.T) <= map_.residual_trace_ + rounding * len(X)
    assert (np.outer(residuals, residuals) + 4 * rounding >= (K - F @ F.T) ** 2).all()


@pytest.mark.parametrize(("d", "n_components"), [(2, 200), (30, 100)])
def test_single_precision_stays_near_double(d, n_components):
    X = smooth(2000, d) + 5.0
    double = PivotedCholeskyFeatures(n_components, n_candidates=500, random_state=0)
    single = clone(double)
    expected = double.fit_transform(X)
    found = single.fit_transform(X.astype(np.float32))
    assert found.dtype == np.float32
    # The median of rounded rows is not quite the same; what is compared are the products.
    assert np.abs(found @ found.T - expected @ expected.T).max() < 1e-4
    assert single.relative_error_ == pytest.approx(double.relative_error_, abs=1e-6)


def test_it_stops_at_the_tolerance():
    X = smooth(1000, 2)
    map_ = PivotedCholeskyFeatures(tol=1e-3, random_state=0).fit(X)
    assert map_.n_components_ < 100
    assert map_.error_path_[-1] <= 1e-3 < map_.error_path_[-2]
    assert map_.relative_error_ == pytest.approx(map_.error_path_[-1], rel=1e-6)


def test_candidates_are_few_and_the_error_is_not_theirs_alone():
    X = smooth(2000, 3)
    X[:20] += 50.0  # outliers that a few candidates miss
    map_ = PivotedCholeskyFeatures(100, n_candidates=100, gamma=1.0, random_state=0).fit(X)
    assert map_.relative_error_ > map_.error_path_[-1] + 1e-3


def test_random_landmarks_beat_those_of_equal_chances():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(2000, 3)) * 0.1, rng.normal(size=(100, 3)) * 3 + 5])
    ours, theirs = [], []
    for seed in range(5):
        map_ = PivotedCholeskyFeatures(40, gamma=0.5, random_state=seed).fit(X)
        F = Nystroem(n_components=40, gamma=0.5, random_state=seed).fit_transform(X)
        ours.append(map_.relative_error_)
        theirs.append(1.0 - (F**2).sum() / len(X))
    assert np.mean(ours) < 0.7 * np.mean(theirs)


def test_precomputed():
    X = smooth(200, 3)
    K = pairwise_kernels(X, metric="rbf", gamma=0.3)
    map_ = PivotedCholeskyFeatures(30, kernel="precomputed", random_state=0)
    F = map_.fit_transform(K)
    np.testing.assert_array_equal(map_.landmarks_, map_.landmark_indices_)
    np.testing.assert_allclose(map_.transform(K[:20]), F[:20], atol=1e-9)
    assert map_.residual_trace_ == pytest.approx(np.trace(K - F @ F.T))
    some = clone(map_).set_params(n_candidates=50).fit(K)
    F = some.transform(K)
    assert some.residual_trace_ == pytest.approx(np.trace(K - F @ F.T))
    with pytest.raises(ValueError, match="of new rows is not known"):
        map_.residuals(K)
    with pytest.raises(ValueError, match="must be the square matrix"):
        map_.fit(K[:50])


def test_in_a_pipeline():
    X = smooth(600, 2)
    y = (X**2).sum(axis=1) > 1.4  # a ring, of which a linear model knows nothing
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    ours = make_pipeline(StandardScaler(), PivotedCholeskyFeatures(50, random_state=0), LogisticRegression())
    assert cross_val_score(linear, X, y, cv=3).mean() < 0.7
    assert cross_val_score(ours, X, y, cv=3).mean() > 0.95
    assert ours.fit(X, y)[:-1].get_feature_names_out()[0] == "pivotedcholeskyfeatures0"
    in_folds = make_pipeline(PivotedCholeskyFeatures(50, kernel="precomputed", random_state=0), LogisticRegression())
    assert cross_val_score(in_folds, pairwise_kernels(X, metric="rbf", gamma=1.0), y, cv=3).mean() > 0.95


@pytest.mark.parametrize("n_candidates", [None, 1000])
def test_the_same_seed_and_any_number_of_threads_give_the_same_features(n_candidates):
    X = smooth(4000, 5)
    map_ = PivotedCholeskyFeatures(80, n_candidates=n_candidates, random_state=4)
    with thread_limit(1):
        alone = map_.fit_transform(X)
    with thread_limit(4):
        together = clone(map_).fit_transform(X)
    np.testing.assert_array_equal(alone, together)


def test_it_travels():
    X = smooth(100, 3)
    map_ = PivotedCholeskyFeatures(20, random_state=0).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(map_)).transform(X), map_.transform(X))


def test_it_travels_in_a_model_file(tmp_path):
    pytest.importorskip("skops")
    from taufpl import TauFPLClassifier
    from taufpl.persistence import load_model, save_model

    X = smooth(400, 2)
    y = ((X**2).sum(axis=1) > 2.0).astype(int)
    model = make_pipeline(
        PivotedCholeskyFeatures(20, random_state=0),
        TauFPLClassifier(0.2, reg=0.01, tau_scale=1, threshold="train"),
    ).fit(X, y)
    save_model(model, tmp_path / "model.taufpl")
    loaded = load_model(tmp_path / "model.taufpl").model
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"kernel": "gauss"}, "kernel"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": "mean"}, "gamma"),
        ({"tol": 1.0}, "tol"),
        ({"pivoting": "uniform"}, "pivoting"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"kernel": "poly", "degree": 2.5}, "degree must be a whole number"),
        ({"kernel": "chi2"}, "Negative values in data"),
        ({"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0}, "not positive semidefinite"),
        ({"kernel_params": {"gamma": 2.0}}, "kernel_params are arguments of a callable"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        PivotedCholeskyFeatures(**parameters).fit(smooth(50))


def test_rows_of_zeros_have_no_linear_features():
    with pytest.raises(ValueError, match="0 on every row"):
        PivotedCholeskyFeatures(kernel="linear").fit(np.zeros((10, 2)))


def test_new_rows_must_suit_the_kernel_too():
    X = np.abs(smooth(60))
    features = PivotedCholeskyFeatures(kernel="chi2", random_state=0).fit(X)
    with pytest.raises(ValueError, match=r'kernel="chi2" takes no sparse matrix; X.toarray\(\)'):
        features.transform(sparse.csr_array(X))
    with pytest.raises(ValueError, match='Negative values in data passed to kernel="chi2"'):
        features.transform(-X)
    assert not get_tags(PivotedCholeskyFeatures(kernel=RBF())).input_tags.sparse
    assert get_tags(PivotedCholeskyFeatures()).input_tags.sparse
