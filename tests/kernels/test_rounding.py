"""The margin against rounding of kernel scores: its formula pair by pair, and errors of scores against exact sums."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from taufpl.kernels import make_kernel, score_sizes

SUPPORT = np.array([0, 2, 3, 7, 9])
WEIGHTS = np.array([1.5, -0.25, 2.0, -3.0, 0.125])
PARAMETERS = {"gamma": 0.3, "degree": 3, "coef0": -0.5}


def rows(n=12, d=3):
    """Rows away from the origin, in whole 64ths, so that their products are exact."""
    return np.round(64 * np.random.default_rng(0).normal(2.0, 1.0, size=(n, d))) / 64


def unit_of_pair(name, x, y, middle):
    """By how many eps k(x, y) rounds; |x| |y| in powers is bounded by the product of both with themselves."""
    gamma, degree, coef0 = PARAMETERS.values()
    x2, y2 = x @ x, y @ y
    match name:
        case "linear":
            return np.sqrt(x2 * y2)
        case "poly":
            return (degree + 1) * np.sqrt((gamma * x2 + abs(coef0)) * (gamma * y2 + abs(coef0))) ** degree
        case "sigmoid":
            return 1 + np.sqrt((gamma * x2 + abs(coef0)) * (gamma * y2 + abs(coef0)))
        case "rbf":
            return 2 + 2 * gamma * (((x - middle) ** 2).sum() + ((y - middle) ** 2).sum())
    return 1.0  # sqrt(k(x, x) k(y, y)) of what is a function of the distance, and of the cosine


def sizes_by_pairs(name, X, middle):
    return [sum(abs(c) * unit_of_pair(name, x, X[j], middle) for c, j in zip(WEIGHTS, SUPPORT, strict=True)) for x in X]


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ["linear", "poly", "polynomial", "sigmoid", "rbf", "laplacian", "cosine"])
def test_the_margin_is_the_sum_over_pairs(name, storage):
    X = rows()
    # About which distances are computed: rows of zeros would not stay sparse.
    middle = np.median(X[SUPPORT], axis=0) if storage is np.asarray else np.zeros(3)
    kernel = make_kernel(name, **PARAMETERS, X=storage(X))
    expected = sizes_by_pairs("poly" if name == "polynomial" else name, X, middle)
    np.testing.assert_allclose(score_sizes(kernel, storage(X), SUPPORT, WEIGHTS), expected, rtol=1e-12)


def test_the_margin_of_a_matrix_of_the_kernel():
    """sqrt(k(x, x) k(y, y)), here of k(x, y) = (x . y)^2."""
    X = rows()
    K, squares = np.square(X @ X.T), (X**2).sum(axis=1)
    expected = np.abs(WEIGHTS) @ squares[SUPPORT] * squares
    np.testing.assert_allclose(score_sizes(make_kernel("precomputed", X=K), K, SUPPORT, WEIGHTS), expected, rtol=1e-12)


def test_no_row_with_a_weight_leaves_no_margin():
    X, none = rows(), np.empty(0, np.intp)
    for name in ("linear", "rbf"):
        assert score_sizes(make_kernel(name, X=X), X, none, np.empty(0)).tolist() == [0.0] * len(X)


def test_far_dense_rows_add_nothing_to_a_steep_kernel():
    """Beyond gamma |x - s|^2 = 400 the kernel is next to 0, and so is its rounding: only 2 a unit of weight is left."""
    X = rows()
    kernel = make_kernel("rbf", gamma=0.3, X=X)
    middle = np.median(X[SUPPORT], axis=0)
    X[[1, 4]] = middle
    X[[1, 4], 0] += np.sqrt(np.array([390, 410]) / 0.3)
    X[5] = 1e200
    near = 0.6 * (np.abs(WEIGHTS) @ ((X[SUPPORT] - middle) ** 2).sum(axis=1))
    sizes = score_sizes(kernel, X, SUPPORT, WEIGHTS)
    weight = np.abs(WEIGHTS).sum()
    np.testing.assert_allclose(sizes[[1, 4, 5]], near + 2 * weight * np.array([391, 1, 1]), rtol=1e-12)


def exact_score(name, x, X):
    """sum_i c_i k(x_i, x), in fractions, and from there with 40 digits."""
    gamma, degree, coef0 = (Fraction(value) for value in PARAMETERS.values())
    score = Fraction(0)
    for c, j in zip(WEIGHTS, SUPPORT, strict=True):
        pairs = [(Fraction(a), Fraction(b)) for a, b in zip(x.tolist(), X[j].tolist(), strict=True)]
        inner, distance = sum(a * b for a, b in pairs), sum((a - b) ** 2 for a, b in pairs)
        match name:
            case "linear":
                value = inner
            case "poly":
                value = (gamma * inner + coef0) ** int(degree)
            case "rbf":
                exponent = gamma * distance
                value = Fraction((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())
        score += Fraction(c) * value
    return score


@pytest.mark.parametrize("far", [0.0, 1e3])
@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
def test_scores_are_within_the_margin_of_exact_ones(name, far):
    """One by one and in a batch. A sum of d + 5 terms rounds by at most that many halves of eps: 8 eps are enough."""
    X = rows() + far
    kernel = make_kernel(name, **PARAMETERS, X=X)
    margins = 8 * np.finfo(float).eps * score_sizes(kernel, X, SUPPORT, WEIGHTS)
    batch = kernel.expansion(X, X[SUPPORT], WEIGHTS)
    alone = [kernel.expansion(X[i : i + 1], X[SUPPORT], WEIGHTS)[0] for i in range(len(X))]
    with localcontext(prec=40):
        exact = [exact_score(name, x, X) for x in X]
    for scores in (batch, alone):
        errors = [abs(float(Fraction(score) - true)) for score, true in zip(scores, exact, strict=True)]
        assert (np.array(errors) <= margins).all()
