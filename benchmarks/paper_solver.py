"""Where the paper's figures are higher than an exact optimum's: its solver, stopped by its own rule.

    TAUFPL_DATA=folder python benchmarks/paper_solver.py [--splits 5] [--dataset w8a] [--taus .0005 .001 .1]

Algorithm 1 of the paper (accelerated projected gradient on the dual) is stopped where the dual value changes by less
than eps times itself in a step, and its w is taken as it is. Beside it stands the optimum to a gap of 1e-4. For both:
the share of test positives above the tau quantile of the test negatives, and in brackets the same with positives that
tie with the quantile counted by the share of tied negatives that may still be above it. Mean over splits; the best reg
of the grid on the test part, for both, so that only the solver differs. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from taufpl import TauFPLRanker
from taufpl.experiments._data import Data, read
from taufpl.experiments._tasks import Settings, split
from taufpl.problem import top_count
from taufpl.projection import project_topk_simplex

REGS = (1e-1, 1e-2, 1e-3)
STOPS = (1e-3, 1e-4)
MAX_STEPS = 4000


def shares(scores: np.ndarray, y: np.ndarray, tau: float) -> np.ndarray:
    """Share of positives above the quantile: strictly, and with ties broken at random."""
    positives, negatives = scores[y == 1], scores[y == 0]
    allowed = math.floor(tau * negatives.size)
    level = np.sort(negatives)[::-1][allowed]
    strict = np.mean(positives > level)
    room = (allowed - np.sum(negatives > level)) / np.sum(negatives == level)
    return np.array([strict, strict + room * np.mean(positives == level)])


def stopped_early(X, y: np.ndarray, tau: float, reg: float) -> list[np.ndarray]:
    """w where each stopping rule is met for the first time, or after the last step."""
    positive, negative = X[y == 1], X[y == 0]
    m, k = positive.shape[0], top_count(tau, negative.shape[0])
    step = 1.0 / (largest_eigenvalue(X) / (m * reg) + 0.5)
    alpha, beta = np.zeros(m), np.zeros(negative.shape[0])
    ahead_alpha, ahead_beta, momentum, last = alpha, beta, 1.0, 0.0
    found: dict[float, np.ndarray] = {}
    for _ in range(MAX_STEPS):
        w = (positive.T @ ahead_alpha - negative.T @ ahead_beta) / (m * reg)
        gradient = positive @ w + ahead_alpha / 2 - 1, -(negative @ w)
        new_alpha, new_beta = project_topk_simplex(ahead_alpha - step * gradient[0], ahead_beta - step * gradient[1], k)
        faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        carry = (momentum - 1) / faster
        ahead_alpha, ahead_beta = new_alpha + carry * (new_alpha - alpha), new_beta + carry * (new_beta - beta)
        alpha, beta, momentum = new_alpha, new_beta, faster
        w = (positive.T @ alpha - negative.T @ beta) / (m * reg)
        value = 0.5 * m * reg * (w @ w) + np.sum(alpha**2 / 4 - alpha)
        for eps in STOPS:
            if eps not in found and last and abs(value - last) <= eps * abs(value):
                found[eps] = w
        if len(found) == len(STOPS):
            break
        last = value
    return [found.get(eps, w) for eps in STOPS]


def largest_eigenvalue(X) -> float:
    vector = np.random.default_rng(0).normal(size=X.shape[1])
    for _ in range(50):
        vector = X.T @ (X @ (vector / np.linalg.norm(vector)))
    return 1.01 * float(np.linalg.norm(vector))


def one_split(data: Data, number: int, tau: float) -> np.ndarray:
    """Shares by rule (the stops, then the optimum), reg and way of counting ties."""
    train, test = split(data, Settings().seed_of(number))
    X, y = data.X[train], data.y[train]
    every = []
    for reg in REGS:
        exact = TauFPLRanker(tau, reg).fit(X, y).coef_[0]
        every.append([shares(data.X[test] @ w, data.y[test], tau) for w in (*stopped_early(X, y, tau, reg), exact)])
    return np.array(every).transpose(1, 0, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--dataset", default="w8a")
    parser.add_argument("--taus", type=float, nargs="+", default=[0.0005, 0.001, 0.1])
    arguments = parser.parse_args()
    data = read(arguments.dataset)
    print(f"{arguments.dataset}, {arguments.splits} splits\n")
    print(f"| tau | {' | '.join(f'stopped at {eps:g}' for eps in STOPS)} | optimum |")
    print("|---" * (len(STOPS) + 2) + "|")
    for tau in arguments.taus:
        mean = np.mean([one_split(data, number, tau) for number in range(arguments.splits)], axis=0)
        best = mean[np.arange(len(mean)), mean[:, :, 0].argmax(axis=1)]
        print(
            f"| {100 * tau:g} % | " + " | ".join(f"{strict:.3f} ({ties:.3f})" for strict, ties in best) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
