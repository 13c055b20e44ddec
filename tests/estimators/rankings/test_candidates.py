"""The candidates of the automatic choice: the same on every fold, usable at once, comparable and joinable."""

import numpy as np
import pytest
import scipy.sparse as sp

from recall_cases import TAU, partly_separable, pose
from taufpl.estimators import ArrayTable
from taufpl.estimators.rankings import (
    AutoFitter,
    NegativeMoments,
    all_names,
    as_good_as_best,
    average,
    constant_direction,
    find_candidates,
    telling_features,
)
from taufpl.operators import as_operator
from taufpl.thresholding import share_above


def all_candidates(X, y, tau):
    problem = pose(X, y)
    moments = NegativeMoments.of(problem)
    return find_candidates(X, problem, moments, tau), moments


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("tau", [TAU, 0.05, 0.5])
def test_every_fold_has_the_same_candidates(layout, tau):
    names = []
    for seed in range(2):
        X, y = partly_separable(seed, n=600, m=150)
        found, _ = all_candidates(layout(X), y, tau)
        names.append(list(found))
        for coef in found.values():
            assert coef.shape == (10,)
            assert np.isfinite(coef).all()
    assert names[0] == names[1] == all_names()
    assert len(set(names[0])) == len(names[0])
    assert {name[0].removeprefix("screened ") for name in names[0]} == {"logistic", "svm", "normal", "trimmed"}


def test_wanted_candidates_are_those_of_the_whole_list():
    X, y = partly_separable(n=600, m=150)
    found, moments = all_candidates(X, y, 0.05)
    for wanted in (
        {("svm", 10.0, 0.1)},
        {("trimmed", 2.0, 0.01), ("logistic", 100.0)},
        {("trimmed", 1.25, 0.01)},
        {("normal", 0.3)},
        {("screened logistic", 1.0), ("normal", 0.03)},
        {("screened trimmed", 1.25, 1.0), ("screened normal", 0.3)},
    ):
        some = find_candidates(X, pose(X, y), moments, 0.05, wanted)
        assert set(some) == wanted
        for name, coef in some.items():
            np.testing.assert_allclose(coef, found[name], rtol=1e-10)


def test_what_is_not_wanted_is_not_computed():
    X, y = partly_separable(n=600, m=150)

    def passes(*wanted):
        problem = pose(X, y)
        moments = NegativeMoments.of(problem)
        before = problem.operator.n_passes
        find_candidates(X, problem, moments, 0.05, wanted or None)
        return problem.operator.n_passes - before

    assert passes(("logistic", 1.0)) < passes(("logistic", 1.0), ("svm", 10.0, 0.1))
    assert passes(("normal", 0.03)) < passes(("normal", 0.03), ("normal", 0.3))
    assert (
        passes(("trimmed", 1.25, 1.0))
        < passes(("trimmed", 1.25, 0.01))
        == passes(("trimmed", 1.25, 1.0), ("trimmed", 1.25, 0.01))
    )
    assert passes(*all_names()) == passes()


def test_the_average_catches_what_logistic_regression_misses():
    X, y = partly_separable()
    found, moments = all_candidates(X, y, TAU)
    new, labels = partly_separable(100, n=50_000)

    def recall(coef):
        return share_above((new @ coef)[labels == 1], (new @ coef)[labels == 0], TAU)

    special = [coef for name, coef in found.items() if name[0] in ("normal", "trimmed")]
    plain = max(recall(coef) for name, coef in found.items() if name[0] == "logistic")
    assert recall(average(special, moments)) >= 3.0 * plain


def test_an_average_does_not_depend_on_lengths():
    X, y = partly_separable(n=500, m=100)
    moments = NegativeMoments.of(pose(X, y))
    one, two = np.random.default_rng(0).normal(size=(2, 10))
    np.testing.assert_allclose(average([one, two], moments), average([1e3 * one, 1e-3 * two], moments))
    negatives = X[y == 0]
    expected = one / (negatives @ one).std() + two / (negatives @ two).std()
    np.testing.assert_allclose(2.0 * average([one, two], moments), expected)


def test_candidates_within_one_standard_error_are_as_good_as_the_best():
    shares = np.array([0.44, 0.5, 0.46, 0.451, 0.1])
    np.testing.assert_array_equal(as_good_as_best(shares, 100), [1, 2, 3])
    np.testing.assert_array_equal(as_good_as_best(shares, 10_000), [1])
    np.testing.assert_array_equal(as_good_as_best(np.zeros(3), 10), [0, 1, 2])
    np.testing.assert_array_equal(as_good_as_best(np.array([1.0, 0.9, 1.0]), 10), [0, 2])


def with_noise(layout, n_noise=30):
    """Features of which the first four alone tell the classes apart, three by their means and one by its spread."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [200, 800])
    X = rng.normal(size=(y.size, 4 + n_noise))
    X[y == 1, :3] += 1.5
    X[y == 1, 3] *= 3.0
    return layout(X), y


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array])
def test_screened_candidates_see_only_features_that_tell_the_classes_apart(layout):
    X, y = with_noise(layout)
    found, moments = all_candidates(X, y, 0.02)
    columns = telling_features(pose(X, y), moments)
    np.testing.assert_array_equal(columns, [0, 1, 2])
    screened = {name: coef for name, coef in found.items() if name[0].startswith("screened ")}
    assert {name[0] for name in screened} == {f"screened {family}" for family in ("logistic", "normal", "trimmed")}
    # Alone with these features, the other candidates are the same.
    alone, _ = all_candidates(X[:, columns], y, 0.02)
    for (family, *settings), coef in screened.items():
        np.testing.assert_array_equal(np.flatnonzero(coef), columns)
        np.testing.assert_allclose(coef[columns], alone[family.removeprefix("screened "), *settings], rtol=1e-6)


def test_a_screen_lets_a_quarter_of_the_features_through_and_at_least_one():
    X, y = with_noise(np.asarray)
    # The fourth feature spreads so widely that its mean says less.
    shifted = X + np.outer(y, np.linspace(5.0, 1.0, X.shape[1]))
    np.testing.assert_array_equal(
        telling_features(pose(shifted, y), NegativeMoments.of(pose(shifted, y))), [0, 1, 2, 4, 5, 6, 7, 8]
    )
    noise = X[:, 4:7]
    assert telling_features(pose(noise, y), NegativeMoments.of(pose(noise, y))).size == 1
    constant = np.column_stack((np.ones(y.size), X[:, 0], np.zeros(y.size)))
    np.testing.assert_array_equal(telling_features(pose(constant, y), NegativeMoments.of(pose(constant, y))), [1])


def test_moments_of_some_features_are_parts_of_those_of_all():
    X, y = partly_separable(n=300, m=60)
    columns = np.array([1, 4, 7])
    parts, whole = NegativeMoments.of(pose(X[:, columns], y)), NegativeMoments.of(pose(X, y))
    diagonal = NegativeMoments(whole.mean, whole.negative_variances(), whole.variances)
    for some in (whole.of_features(columns), diagonal.of_features(columns)):
        np.testing.assert_allclose(some.mean, parts.mean)
        np.testing.assert_allclose(some.variances, parts.variances)
        np.testing.assert_allclose(some.negative_variances(), X[y == 0][:, columns].var(axis=0))
    np.testing.assert_allclose(whole.of_features(columns).covariance, parts.covariance)


def test_five_candidates_are_kept_at_most():
    shares = np.array([0.5, 0.52, 0.5, 0.49, 0.51, 0.5, 0.53])
    np.testing.assert_array_equal(as_good_as_best(shares, 10), [0, 1, 2, 4, 6])


def test_large_data_of_many_features_are_spared_the_support_vector_machines():
    """liblinear copies the rows; the solver of few features does not. X counts, of which these are some rows."""
    few, y = partly_separable(n=600, m=150)
    many = np.hstack([few, np.random.default_rng(0).normal(size=(y.size, 60))])

    def families(rows, n_values):
        X = np.zeros((n_values // rows.shape[1], rows.shape[1]))  # of which memory is taken where it is written to
        X[: y.size] = rows
        fitter = AutoFitter(0.05, 2)
        fitter.prepare(ArrayTable(X, np.flatnonzero(y == 1), np.flatnonzero(y == 0), operator=as_operator(X)))
        return {name.split("(")[0].removeprefix("screened ") for name in fitter.selection["candidate"]}

    assert families(many, 1_000_000) == {"logistic", "svm", "normal", "trimmed"}
    assert families(many, 100_000_000) == {"logistic", "normal", "trimmed"}
    assert families(few, 100_000_000) == {"logistic", "svm", "normal", "trimmed"}


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_no_candidate_hides_an_intercept_in_the_weights_of_levels(layout):
    """A constant that all levels of a column share moves no ranking of known levels, and every row with another one."""
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.02).astype(int)
    levels = np.eye(6)[rng.integers(0, 6, y.size)]
    X = np.hstack([rng.normal(size=(y.size, 3)) + 0.7 * y[:, np.newaxis], levels])
    found, moments = all_candidates(layout(X), y, TAU)
    for name, found_coef in found.items():
        coef = moments.standardised(found_coef)
        # In standard deviations of the scores of negatives; support vector machines would have 15 and 150.
        assert abs(np.mean(X[:, 3:] @ coef[3:])) < 0.1, name


def test_the_constant_direction_of_several_columns():
    rng = np.random.default_rng(0)
    parts = [np.eye(n)[rng.integers(0, n, 3000)] for n in (2, 6, 40)]
    X = sp.csr_array(np.hstack([rng.normal(size=(3000, 3)), *parts]))
    direction = constant_direction(X)
    scores = X @ direction
    np.testing.assert_allclose(scores, scores.mean(), rtol=1e-5)
    assert np.linalg.norm(direction) == pytest.approx(1)
    # The weights of each column, in the span of the rows and without the constant, sum to 0.
    coef = X.T @ rng.normal(size=3000)
    coef -= (coef @ direction) * direction
    for columns in np.split(np.arange(3, 51), (2, 8)):
        assert abs(coef[columns].sum()) < 1e-4 * np.abs(coef[columns]).sum()
    # Where some rows have none of the levels, there is no such direction.
    assert not constant_direction(X[:, :4]).any()


def test_the_constant_direction_of_more_levels_than_rows_can_refute():
    """Fewer rows than four times the features: levels are still found, beside numbers, and words are given up soon."""
    rng = np.random.default_rng(0)
    levels = sp.csr_array(np.eye(400)[rng.zipf(1.5, 1000) % 400])
    beside = sp.csr_array(sp.hstack([levels, sp.csr_array(rng.normal(size=(1000, 3)))]))
    scores = beside @ constant_direction(beside)
    assert scores.mean() > 0
    np.testing.assert_allclose(scores, scores.mean(), rtol=1e-4)
    words = sp.csr_array(rng.random((1000, 400)) * (rng.random((1000, 400)) < 0.02))
    assert not constant_direction(words).any()
