"""The ranking in the space of a kernel: against the linear solver, a quadratic program, its exact mode, and Bayes."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from density_cases import CASES, bayes_recall, draw, one_in_the_quick_run
from taufpl import KernelTauFPLRanker, TauFPLRanker
from taufpl.estimators.kernel._solve import Approximation, left_out, make_rows
from taufpl.exceptions import RankingCollapseWarning
from taufpl.kernels import make_kernel, score_sizes
from taufpl.metrics import tpr_at_fpr
from taufpl.operators import KnownGramOperator
from taufpl.problem import top_count

MOONS, LABELS = draw(CASES["moons"], 300, 120, seed=3)
NEW = draw(CASES["moons"], 200, 100, seed=4)[0]
CUBE = np.random.default_rng(5).normal(size=(400, 10)) + np.repeat([0, 1], [300, 100])[:, np.newaxis] * 0.7
CUBE_LABELS = np.repeat([0, 1], [300, 100])


def objective(scores, y, k, reg, squared_norm):
    """P, by its definition."""
    top = np.sort(scores[y == 0])[-k:].mean()
    return np.mean(np.maximum(1 - (scores[y == 1] - top), 0) ** 2) + reg / 2 * squared_norm


def quadratic_program(K, y, k, reg):
    """Minimum of P over all functions of the kernel's space, by its primal and a general solver: value and scores."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))
    w = cp.Variable(len(K))
    scores = root @ w
    top = cp.sum_largest(scores[np.flatnonzero(y == 0)], k) / k
    losses = cp.square(cp.pos(1 - (scores[np.flatnonzero(y == 1)] - top)))
    problem = cp.Problem(cp.Minimize(cp.sum(losses) / np.sum(y == 1) + reg / 2 * cp.sum_squares(w)))
    return problem.solve(solver=cp.CLARABEL), scores.value


def test_a_linear_kernel_is_the_linear_ranker():
    settings = {"tau": 0.05, "reg": 0.02, "tol": 1e-11}
    kernel = KernelTauFPLRanker(kernel="linear", approximation="exact", **settings).fit(CUBE, CUBE_LABELS)
    linear = TauFPLRanker(**settings).fit(CUBE, CUBE_LABELS)
    np.testing.assert_allclose(kernel.dual_coef_ @ kernel.support_vectors_, linear.coef_, atol=1e-6)
    new = np.random.default_rng(0).normal(size=(50, 10))
    np.testing.assert_allclose(kernel.decision_function(new), linear.decision_function(new), atol=1e-6)


@pytest.mark.parametrize(
    ("X", "y", "gamma"),
    [pytest.param(MOONS, LABELS, 2.0, marks=pytest.mark.slow), (CUBE, CUBE_LABELS, 0.1)],
    ids=["moons", "cube"],
)
def test_an_independent_solver_agrees(X, y, gamma):
    tau, reg = 0.03, 0.01
    k = top_count(tau, 300)
    assert k == 10
    value, scores = quadratic_program(rbf_kernel(X, gamma=gamma), y, k, reg)
    ranker = KernelTauFPLRanker(tau, reg, gamma=gamma, approximation="exact", tol=1e-9).fit(X, y)
    assert ranker.primal_objective_ == pytest.approx(value, rel=1e-6)
    own = ranker.decision_function(X) - ranker.intercept_[0]
    np.testing.assert_allclose(own, scores, atol=2e-3 * np.abs(scores).max())


@pytest.mark.parametrize(("X", "y", "gamma"), [(MOONS, LABELS, 2.0), (CUBE, CUBE_LABELS, 0.1)], ids=["moons", "cube"])
@pytest.mark.parametrize("approximation", ["exact", "low-rank"])
def test_what_is_reported_is_true_of_the_score(X, y, gamma, approximation):
    """P of the exact kernel, computed from the weights alone; and the expansion is what scores new rows."""
    tau, reg = 0.03, 0.01
    ranker = KernelTauFPLRanker(
        tau, reg, gamma=gamma, approximation=approximation, n_components=40, tol=1e-5, random_state=0
    ).fit(X, y)
    c, rows = ranker.dual_coef_[0], ranker.support_vectors_
    np.testing.assert_array_equal(rows, X[ranker.support_])
    scores = rbf_kernel(X, rows, gamma=gamma) @ c
    squared_norm = c @ rbf_kernel(rows, gamma=gamma) @ c
    assert ranker.primal_objective_ == pytest.approx(objective(scores, y, 10, reg, squared_norm), rel=1e-7)
    np.testing.assert_allclose(
        ranker.decision_function(NEW if X is MOONS else X[:50]),
        rbf_kernel(NEW if X is MOONS else X[:50], rows, gamma=gamma) @ c + ranker.intercept_[0],
        atol=1e-9,
    )
    assert ranker.dual_gap_ <= 1e-5
    assert ranker.predict(X)[y == 0].sum() <= 0.03 * 300
    assert ranker.predict(X)[y == 0].sum() >= 0.03 * 300 - 1


def test_full_rank_is_exact():
    """Two ways to the same optimum, within their gaps: P is strongly convex, so that scores agree too."""
    exact = KernelTauFPLRanker(0.03, 0.01, approximation="exact", tol=1e-10).fit(CUBE, CUBE_LABELS)
    full = KernelTauFPLRanker(
        0.03, 0.01, approximation="low-rank", n_components=400, landmark_tol=0.0, tol=1e-10, random_state=0
    ).fit(CUBE, CUBE_LABELS)
    assert exact.exact_
    assert full.n_components_ == 400
    assert full.primal_objective_ == pytest.approx(exact.primal_objective_, rel=1e-8)
    np.testing.assert_allclose(full.decision_function(CUBE), exact.decision_function(CUBE), atol=1e-4)


@cache
def exact_ranker(reg):
    return KernelTauFPLRanker(0.03, reg, approximation="exact", tol=1e-8).fit(CUBE, CUBE_LABELS)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.RankingCollapseWarning")
@pytest.mark.parametrize(
    "n_components", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (5, 20, 80)), 250]
)
@pytest.mark.parametrize("reg", [0.1, 1e-3])
@pytest.mark.parametrize("refine", [False, True])
def test_the_exact_optimum_lies_between_the_certified_values(n_components, reg, refine):
    exact = exact_ranker(reg)
    ranker = KernelTauFPLRanker(0.03, reg, n_components=n_components, refine=refine, random_state=1)
    ranker.fit(CUBE, CUBE_LABELS)
    assert ranker.n_components_ == n_components
    lowest, highest = exact.dual_objective_, exact.primal_objective_
    assert ranker.kernel_dual_objective_ <= highest
    assert ranker.primal_objective_ >= lowest
    assert 0 < ranker.relative_error_ < 1
    assert ranker.kernel_gap_ >= ranker.dual_gap_ - 1e-12
    assert 1 - lowest / ranker.primal_objective_ <= ranker.kernel_gap_ <= 1


def test_landmarks_with_a_dual_weight_are_better_ones():
    """P is that of the exact kernel in either case, so that the second choice of landmarks can only lower it."""
    plain, refined = (
        KernelTauFPLRanker(0.03, 0.1, n_components=150, refine=refine, random_state=0).fit(CUBE, CUBE_LABELS)
        for refine in (False, True)
    )
    assert refined.primal_objective_ < plain.primal_objective_
    assert refined.kernel_gap_ < 0.5 * plain.kernel_gap_
    assert plain.kernel_gap_ > 1e-3


def test_rare_positives_get_landmarks_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 8)), np.repeat([0, 1], [2950, 50])
    X[y == 1, 0] += 1.5
    ranker = KernelTauFPLRanker(0.05, 0.1, n_components=100, refine=False, random_state=0).fit(X, y)
    assert 20 <= np.sum(y[ranker.support_]) <= 50


def test_the_certificate_tightens_with_the_rank():
    gaps = [
        KernelTauFPLRanker(0.03, 0.01, n_components=r, random_state=0).fit(CUBE, CUBE_LABELS).kernel_gap_
        for r in (10, 40, 160, 400)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] <= 1e-4
    assert gaps[0] > 0.5


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_groups_of_any_size_bound_what_is_left_out(monkeypatch, size):
    """a' E a from the full matrices; one group makes it exact, and smaller ones never less."""
    monkeypatch.setattr("taufpl.estimators.kernel._solve._LARGEST_GROUP", size)
    kernel = make_kernel("rbf", 0.1, X=CUBE)
    classes = (np.flatnonzero(CUBE_LABELS), np.flatnonzero(CUBE_LABELS == 0))
    how, rng = Approximation("low-rank", 30), np.random.default_rng(0)
    rows = make_rows(kernel, CUBE, how, rng, how.candidates(classes, rng))
    weights = np.random.default_rng(1).normal(size=400)
    true = weights @ (rbf_kernel(CUBE, gamma=0.1) - rows.operator.row_gram(np.arange(400))) @ weights
    bound = left_out(rows, np.arange(400), weights)
    assert bound >= true - 1e-9
    if size >= 400:
        assert bound == pytest.approx(true)
    if size == 1:
        assert bound == pytest.approx((np.abs(weights) @ np.sqrt(rows.residual)) ** 2)


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.RankingCollapseWarning")
@pytest.mark.parametrize("name", one_in_the_quick_run("circles"))
def test_recall_comes_near_that_of_the_likelihood_ratio(name):
    case = CASES[name]
    X, y = draw(case, 3000, 1500, seed=0)
    new, truth = draw(case, 40_000, 10_000, seed=1)
    gamma = 4 * make_kernel("rbf", "median", X=X).gamma
    ranker = KernelTauFPLRanker(0.01, 1e-3, gamma=gamma, tau_scale=2, n_components=200, random_state=0).fit(X, y)
    best = bayes_recall(case, 0.01, new, truth)
    assert 0.85 < best < 0.98
    assert tpr_at_fpr(truth, ranker.decision_function(new), 0.01) >= best - 0.02
    linear = TauFPLRanker(0.01, 1e-3, tau_scale=20).fit(X, y)
    assert tpr_at_fpr(truth, linear.decision_function(new), 0.01) < best - 0.2


def test_a_known_gram_matrix_changes_nothing():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 12))
    known = KnownGramOperator(rows, rows @ rows.T)
    some = np.array([3, 29, 3, 0])
    part = known.take_rows(some).take_rows([1, 3])
    np.testing.assert_allclose(known.row_gram(some, [5]), rows[some] @ rows[[5]].T)
    np.testing.assert_allclose(part.row_gram([0, 1]), rows[[29, 0]] @ rows[[29, 0]].T)
    np.testing.assert_allclose(part.matvec(np.ones(12)), rows[[29, 0]].sum(axis=1))


@pytest.mark.parametrize("approximation", ["exact", "low-rank"])
def test_a_precomputed_kernel_is_the_same_model(approximation):
    settings = {"tau": 0.03, "reg": 0.01, "approximation": approximation, "n_components": 60, "random_state": 0}
    K = rbf_kernel(MOONS, gamma=2.0)
    by_rows = KernelTauFPLRanker(gamma=2.0, **settings).fit(MOONS, LABELS)
    by_kernel = KernelTauFPLRanker(kernel="precomputed", **settings).fit(K, LABELS)
    expected = by_rows.decision_function(NEW)
    np.testing.assert_allclose(by_kernel.decision_function(rbf_kernel(NEW, MOONS, gamma=2.0)), expected, atol=1e-2)
    assert by_kernel.primal_objective_ == pytest.approx(by_rows.primal_objective_, rel=1e-3)


def test_folds_cut_a_precomputed_kernel_both_ways():
    settings = {"tau": 0.03, "reg": 0.01, "approximation": "exact", "tol": 1e-8}
    by_rows, by_kernel = (
        cross_val_predict(ranker, data, LABELS, cv=KFold(3), method="decision_function")
        for ranker, data in (
            (KernelTauFPLRanker(gamma=2.0, **settings), MOONS),
            (KernelTauFPLRanker(kernel="precomputed", **settings), rbf_kernel(MOONS, gamma=2.0)),
        )
    )
    np.testing.assert_allclose(by_kernel, by_rows, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ("poly", {"degree": 2, "gamma": "scale"}),
        ("laplacian", {}),
        ("cosine", {}),
        (RBF(0.5), {}),
        (lambda a, b, width: float(np.exp(-((a - b) @ (a - b)) / width)), {"kernel_params": {"width": 0.5}}),
    ],
    ids=["poly", "laplacian", "cosine", "process", "callable"],
)
def test_other_kernels(kernel, settings):
    X, y = MOONS[:150], LABELS[:150]
    ranker = KernelTauFPLRanker(0.05, 0.01, kernel=kernel, tau_scale=4, **settings).fit(X, y)
    assert ranker.converged_
    assert ranker.kernel_gap_ == pytest.approx(ranker.dual_gap_, abs=1e-6)


def test_sparse_rows_are_dense_rows():
    dense = KernelTauFPLRanker(0.03, n_components=50, random_state=0).fit(CUBE, CUBE_LABELS)
    thin = KernelTauFPLRanker(0.03, n_components=50, random_state=0).fit(sparse.csr_array(CUBE), CUBE_LABELS)
    np.testing.assert_allclose(thin.decision_function(sparse.csr_array(CUBE)), dense.decision_function(CUBE), atol=1e-5)


def test_a_landmark_among_many_rows_is_drawn_from_candidates():
    X, y = draw(CASES["moons"], 900, 300, seed=0)
    ranker = KernelTauFPLRanker(0.03, n_components=30, n_candidates=100, random_state=0).fit(X, y)
    assert ranker.n_components_ == 30
    features = make_kernel("rbf", ranker.gamma_, X=X)
    landmarks = X[ranker.support_]
    K = features.between(X, landmarks)
    left = 1 - np.einsum("ij,ji->i", K, np.linalg.solve(features.between(landmarks), K.T))
    assert ranker.residual_trace_ == pytest.approx(left.sum(), rel=1e-4)
    assert ranker.relative_error_ == pytest.approx(left.mean(), rel=1e-4)


def test_a_collapse_is_said_and_predicts_nobody():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.repeat([0, 1], [500, 100])
    with pytest.warns(RankingCollapseWarning, match="space of the kernel"):
        ranker = KernelTauFPLRanker(0.01, kernel="linear", random_state=0).fit(X, y)
    assert ranker.collapsed_
    assert ranker.exact_
    assert ranker.support_.size == 0
    assert not ranker.predict(X).any()


@pytest.mark.parametrize("features", [Nystroem(gamma=2.0, n_components=80), RBFSampler(gamma=2.0, n_components=300)])
def test_pipelines_of_scikit_learn_features(features):
    model = make_pipeline(features.set_params(random_state=0), TauFPLRanker(0.03, 1e-3)).fit(MOONS, LABELS)
    assert tpr_at_fpr(LABELS, model.decision_function(MOONS), 0.03) > 0.9


@pytest.mark.parametrize(
    ("settings", "X", "text"),
    [
        ({"kernel": "rbff"}, CUBE, "'kernel' parameter"),
        ({"gamma": -1.0}, CUBE, "'gamma' parameter"),
        ({"approximation": "nystroem"}, CUBE, "'approximation' parameter"),
        ({"n_components": 0}, CUBE, "'n_components' parameter"),
        ({"kernel": "precomputed"}, CUBE, "square matrix"),
        ({"kernel": "chi2"}, CUBE, "Negative values"),
        ({"kernel": "sigmoid", "gamma": 1.0, "coef0": -2.0}, CUBE, "not positive semidefinite"),
        ({}, np.where(CUBE > 2, np.nan, CUBE), "NaN"),
    ],
)
def test_what_does_not_fit_is_refused(settings, X, text):
    with pytest.raises(ValueError, match=text):
        KernelTauFPLRanker(**settings).fit(X, CUBE_LABELS)


def test_a_small_reg_is_reached_along_larger_ones():
    """As many features as rows, and classes that can be told apart: from w = 0 the solver stalls far from there."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(700, 20)), np.repeat([1, 0], [200, 500])
    X[:200] += 0.5
    ranker = KernelTauFPLRanker(0.01, 1e-6, gamma=0.025, approximation="exact").fit(X, y)
    assert ranker.converged_
    assert ranker.kernel_gap_ <= 1.1e-4


@pytest.mark.parametrize("far", [1e4, 3e4, 1e8])
def test_one_far_row_does_not_harm_the_others(far):
    X, y = np.vstack([MOONS, np.full((1, 2), far)]), np.append(LABELS, 0)
    alone, beside = (KernelTauFPLRanker(0.05, gamma=1.0).fit(*data) for data in ((MOONS, LABELS), (X, y)))
    assert beside.kernel_gap_ < 1e-4
    assert beside.primal_objective_ == pytest.approx(alone.primal_objective_, rel=0.05)


def test_rows_with_heavy_tails_are_ranked():
    X = np.exp(6 * np.random.default_rng(1).normal(size=(300, 3)))
    assert KernelTauFPLRanker(0.05).fit(X, (X[:, 0] < 1).astype(int)).kernel_gap_ < 1e-3


# Not every one of these is solved; the tolerance holds all the same. In the second case all
# rows are as far from the middle as rows may be whose distances come from products.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("kernel", "shift", "noise"),
    [
        ({"gamma": 2.0}, 1000.0, 1.0),
        ({"gamma": 2.0}, 9.5, 0.1),
        pytest.param({"kernel": "poly", "gamma": 1.0, "degree": 8}, 3.0, 1.0, marks=pytest.mark.slow),
        ({"kernel": "poly", "gamma": 1.0, "degree": 8, "coef0": 0.0}, -1.0, 1.0),
    ],
)
def test_rows_scored_one_at_a_time_stay_within_the_tolerance(kernel, shift, noise):
    for seed in range(6):
        base = noise * np.random.default_rng(seed).normal(size=(60, 2))
        base[30:] += shift
        X, y = np.repeat(base, 10, axis=0), (np.arange(600) // 10 % 5 == 0).astype(int)
        model = KernelTauFPLRanker(0.2, reg=1e-3, **kernel).fit(X, y)
        negative = X[y == 0]
        alone = np.array([model.decision_function(row[np.newaxis])[0] for row in negative[::10]])
        assert 10 * np.sum(alone > 0) <= 96
        moved = np.abs(alone - model.decision_function(negative)[::10])
        fitted = make_kernel(**{"kernel": "rbf", **kernel}, X=X)
        size = score_sizes(fitted, X, model.support_, model.dual_coef_[0]).max()
        assert moved.max() <= 2 * np.finfo(float).eps * size


def test_a_collapse_of_the_features_is_not_one_of_the_kernel():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = (np.hypot(X[:, 0], X[:, 1]) < 0.8).astype(int)
    assert not KernelTauFPLRanker(0.01).fit(X, y).collapsed_
    with pytest.warns(RankingCollapseWarning, match="its 5 features; the kernel itself may do better"):
        few = KernelTauFPLRanker(0.01, n_components=5, random_state=0).fit(X, y)
    assert few.collapsed_
    assert few.kernel_gap_ > 0.5


def test_exact_is_not_claimed_where_rounding_hides_what_is_left_out():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = (np.hypot(X[:, 0], X[:, 1]) < 0.8).astype(int)
    with pytest.warns(RankingCollapseWarning, match="scale the features"):
        model = KernelTauFPLRanker(0.05, kernel="poly", gamma=1.0).fit(X * 1000 + 500, y)
    assert model.kernel_gap_ > 0.5
    assert not model.exact_
    assert 0 < model.relative_error_ < 1e-6


def test_new_rows_must_suit_the_kernel_too():
    X = np.abs(MOONS)
    ranker = KernelTauFPLRanker(0.05, kernel="chi2").fit(X, LABELS)
    with pytest.raises(ValueError, match=r'kernel="chi2" takes no sparse matrix; X.toarray\(\)'):
        ranker.decision_function(sparse.csr_array(X))
    with pytest.raises(ValueError, match='Negative values in data passed to kernel="chi2"'):
        ranker.predict(-X)


def test_sparse_rows_are_refused_by_kernels_that_cannot_take_them():
    ranker = KernelTauFPLRanker(0.05, kernel=RBF())
    assert not get_tags(ranker).input_tags.sparse
    with pytest.raises(ValueError, match=r"takes no sparse matrix; X.toarray\(\)"):
        ranker.fit(sparse.csr_array(MOONS), LABELS)
    with pytest.raises(ValueError, match=r"takes no sparse matrix; X.toarray\(\)"):
        ranker.fit(MOONS, LABELS).predict(sparse.csr_array(MOONS))
