"""The paper's algorithm, ended early, against a transcription with exact projections, and against the optimum."""

import math

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from reference import exact_simplex
from taufpl import TauFPLRanker
from taufpl.operators import as_operator
from taufpl.paper._systems import CHOOSERS, early_ends
from taufpl.problem import RankingProblem


def small_problem(reg, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 3)), np.repeat([1, 0], [5, 7])
    X[:5] += 0.7
    return X, y, RankingProblem(as_operator(X), np.arange(5), np.arange(5, 12), k, reg)


def transcribed(X, y, k, reg, norm, steps):
    """Values of the dual and points w after each step, by the book."""
    positive, negative = X[y == 1], X[y == 0]
    m = len(positive)
    step = 1 / (norm**2 / (m * reg) + 0.5)
    alpha, beta = np.zeros(m), np.zeros(len(negative))
    ahead, momentum, told = (alpha, beta), 1.0, []
    for _ in range(steps):
        w = (positive.T @ ahead[0] - negative.T @ ahead[1]) / (m * reg)
        target = ahead[0] - step * (positive @ w + ahead[0] / 2 - 1), ahead[1] + step * (negative @ w)
        exact = exact_simplex(*target, k)
        new = tuple(np.array([float(x) for x in part]) for part in (exact.alpha, exact.beta))
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        carry = (momentum - 1) / following
        ahead = new[0] + carry * (new[0] - alpha), new[1] + carry * (new[1] - beta)
        (alpha, beta), momentum = new, following
        w = (positive.T @ alpha - negative.T @ beta) / (m * reg)
        told.append((m * reg / 2 * (w @ w) + np.sum(alpha**2 / 4 - alpha), w))
    return told


@pytest.mark.parametrize("reg", [1.0, 0.05])
def test_ends_where_the_dual_value_hardly_moves(reg):
    X, y, problem = small_problem(reg)
    norm, ends = np.linalg.norm(X, 2), (0.3, 1e-2, 1e-3)
    told = transcribed(X, y, 2, reg, norm, 150)
    found = early_ends(problem, ends, norm)
    for end, coef in zip(ends, found, strict=True):
        first = next(i for i in range(1, 150) if abs(told[i][0] - told[i - 1][0]) <= end * abs(told[i][0]))
        assert np.allclose(coef, told[first][1], rtol=1e-9)
    assert np.allclose(early_ends(problem, [1e-300], norm, max_iter=7)[0], told[6][1], rtol=1e-9)


def test_reaches_the_optimum_where_it_is_let():
    X, y, problem = small_problem(0.1)
    [coef] = early_ends(problem, [0.0], np.linalg.norm(X, 2), max_iter=20_000)
    exact = TauFPLRanker(1.5 / 7, 0.1, tol=1e-10).fit(X, y)
    assert np.allclose(coef, exact.coef_[0], atol=1e-6)


def share_on_folds(X, y, tau, reg, end, seed):
    """Mean share at the top over the held-out folds, with nothing of the chooser's code."""
    shares = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        operator = as_operator(X[train])
        positive, negative = np.flatnonzero(y[train] == 1), np.flatnonzero(y[train] == 0)
        problem = RankingProblem(operator, positive, negative, math.floor(tau * negative.size) + 1, reg)
        [coef] = early_ends(problem, [end], operator.spectral_norm())
        scores = X[test] @ coef
        negatives = np.sort(scores[y[test] == 0])[::-1]
        shares.append(np.mean(scores[y[test] == 1] > negatives[math.floor(tau * negatives.size)]))
    return np.mean(shares)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "is_early"), [(3, False), (2, True)])
def test_the_end_is_chosen_on_the_folds(seed, is_early):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(300, 4)), np.repeat([1, 0], [100, 200])
    X[:100, 0] += 3.0
    [choice] = CHOOSERS["tau-Rank-early"](X, y, [0.1], "ranking", 0, True)
    [exact] = CHOOSERS["tau-Rank"](X, y, [0.1], "ranking", 0, True)
    of_optimum = exact.rule.model.cv_results_["mean_test_score"].max()
    early = {(reg, end): share_on_folds(X, y, 0.1, reg, end, 0) for reg in (10.0, 0.1, 0.001) for end in (1e-3, 1e-4)}
    assert (max(early.values()) > of_optimum) == is_early, "choose other data, so that both cases are tested"
    if is_early:
        best = choice.params["reg"], choice.params["end"]
        assert early[best] == max(early.values())
        operator = as_operator(X)
        problem = RankingProblem(operator, np.arange(100), np.arange(100, 300), 21, best[0])
        assert np.allclose(choice.rule.scores(X), X @ early_ends(problem, best[1:], operator.spectral_norm())[0])
    else:
        assert choice.params == {**exact.params, "end": 0.0}
        assert np.array_equal(choice.rule.scores(X), exact.rule.scores(X))
