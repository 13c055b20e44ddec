"""What the paper's figures are made of: its solver, stopped by its own rule, on features in several forms.

    TAUFPL_DATA=folder python benchmarks/paper_solver.py [--dataset w8a] [--form source] [--splits 5]
                                                         [--taus .0005 .001 .1] [--regs .1 .01 .001]

Algorithm 1 of the paper (accelerated projected gradient on the dual) is stopped where the dual value changes by less
than eps times itself in a step, and its w is taken as it is. Beside it stands the optimum to a gap of 1e-4; TopPush is
the case k = 1. For all: the share of test positives above the tau quantile of the test negatives, and in brackets,
where it differs, the same with positives that tie with the quantile counted by the share of tied negatives that may
still be above it. Mean over splits; the best reg of the grid on the test part, so that only solver, k and form differ.
Prints Markdown.

Forms of the features, made of all rows before they are split: as at their source; every column scaled to [0, 1];
columns divided by their standard deviation, then rows by their norm.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from taufpl.operators import as_operator
from taufpl.paper._protocol import LabelledData, RunSettings, in_unit_rows, printed_figure, read_dataset
from taufpl.paper._systems import DecisionRule, KnownLinearScore, early_ends, ranking_score, share_with_ties
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Newton

ENDS = (1e-3, 1e-4)
MAX_STEPS = 4000
# Multiples of tau to train at; 0: the largest negative alone.
METHODS = {"TopPush": 0.0, "tau-Rank": 1.0, "2tau-Rank": 2.0}


def _to_interval(X: Any) -> Any:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / (high - low)


FORMS: dict[str, Callable[[Any], Any]] = {"source": lambda X: X, "interval": _to_interval, "unit": in_unit_rows}


def one_split(data: LabelledData, number: int, tau: float, scale: float, regs: list[float]) -> np.ndarray:
    """Shares by rule (the ends, then the optimum), reg and way of counting ties."""
    train, test = data.split(RunSettings().seed_of(number))
    operator, y = as_operator(train.X), train.y
    norm, negative = operator.spectral_norm(), np.flatnonzero(y == 0)
    k = top_count(scale * tau, negative.size) if scale else 1
    every = []
    for reg in regs:
        problem = RankingProblem(operator, np.flatnonzero(y == 1), negative, k, reg)
        coefs = [*early_ends(problem, ENDS, norm, MAX_STEPS), Newton(tol=1e-4).solve(problem).coef]
        rules = [DecisionRule(KnownLinearScore(coef)) for coef in coefs]
        every.append([(ranking_score(rule, *test, [tau])[0], share_with_ties(rule, *test, tau)) for rule in rules])
    return np.array(every).transpose(1, 0, 2)


def _cell(strict: float, with_ties: float) -> str:
    return f"{strict:.3f}" if with_ties - strict < 0.0015 else f"{strict:.3f} ({with_ties:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--dataset", default="w8a")
    parser.add_argument("--form", choices=FORMS, default="source")
    parser.add_argument("--taus", type=float, nargs="+", default=[0.0005, 0.001, 0.1])
    parser.add_argument("--regs", type=float, nargs="+", default=[1e-1, 1e-2, 1e-3])
    arguments = parser.parse_args()
    source = read_dataset(arguments.dataset)
    if arguments.form != "source" and not isinstance(source.X, np.ndarray):
        parser.error(f"{arguments.dataset} is sparse; only dense data have other forms than that at their source.")
    data = LabelledData(FORMS[arguments.form](source.X), source.y)
    print(f"{arguments.dataset}, form: {arguments.form}, {arguments.splits} splits\n")
    print(f"| tau | method | {' | '.join(f'stopped at {end:g}' for end in ENDS)} | optimum | paper |")
    print("|---" * (len(ENDS) + 4) + "|")
    for tau in arguments.taus:
        for method, scale in METHODS.items():
            splits = [one_split(data, number, tau, scale, arguments.regs) for number in range(arguments.splits)]
            mean = np.mean(splits, axis=0)
            best = mean[np.arange(len(mean)), mean[:, :, 0].argmax(axis=1)]
            cells = " | ".join(_cell(*pair) for pair in best)
            printed = printed_figure("ranking", arguments.dataset, tau, method)
            print(f"| {100 * tau:g} % | {method} | {cells} | {printed} |", flush=True)


if __name__ == "__main__":
    main()
