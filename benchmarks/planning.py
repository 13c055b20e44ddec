"""How often days keep to a budget of alarms, and how near the recall of a plan for labels comes to the truth.

    python benchmarks/planning.py [--draws 20000]

Rates are known: scores are continuous, so that the false-positive rate of an order statistic is a Beta variable, and
the recall of normal scores a formula. Nothing is timed. Prints Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache

import numpy as np
from scipy import stats

from taufpl.planning import AlarmBudget, alarm_budget, plan_labels
from taufpl.thresholding import order_rank

SEED = 18
# Rows a day, budget, base rate, negatives that choose the threshold, delta, labels that bound the base rate or 0.
DAYS = (
    (50_000, 400, 0.001, 5000, 0.05, 0),
    (50_000, 400, 0.001, 5000, 0.05, 20_000),
    (5000, 150, 0.01, 900, 0.2, 0),
    (5000, 150, 0.01, 900, 0.2, 4000),
)
# Negatives and positives at hand, negatives that will choose, tolerance, distance of the classes.
PLANS = (
    (2000, 200, 1000, 0.01, 2.0),
    (2000, 50, 20_000, 0.01, 1.5),
    (3000, 1000, 3000, 0.001, 2.5),
    (500, 200, 3000, 0.001, 2.5),
    (300, 100, 300, 0.01, 2.0),
)
PLAN_DELTA = 0.1


@cache
def settled(volume: int, alarms: int, base_rate: float, n: int, delta: float, labels: tuple[int, int]) -> AlarmBudget:
    """The budget that labels, positive and in all, allow; without labels, that of the base rate as stated."""
    if labels[1]:
        return alarm_budget(alarms, volume, positives=labels, n_negative=n, delta=delta)
    return alarm_budget(alarms, volume, base_rate, n_negative=n, delta=delta)


def budget_table(rng: np.random.Generator, n_draws: int) -> Iterator[str]:
    """A draw is a threshold, labels where they bound the base rate, and a day."""
    head = (
        "rows a day, budget, base rate, labels, delta, recall, screens with worse days, allowed, days above the budget"
    )
    yield f"| {head.replace(',', ' |')} |"
    yield "|---" * 9 + "|"
    for volume, alarms, base_rate, n, delta, n_labels in DAYS:
        for recall in (1.0, 0.6):
            n_worse = n_above = 0
            for _ in range(n_draws):
                labels = int(rng.binomial(n_labels, base_rate)), n_labels
                budget = settled(volume, alarms, base_rate, n, delta, labels)
                rank = order_rank(n, budget.tau, budget.delta_threshold)
                fpr = rng.beta(n - rank + 1, rank)
                n_positive = rng.binomial(volume, base_rate)
                found = rng.binomial(volume - n_positive, fpr) + rng.binomial(n_positive, recall)
                n_above += found > alarms
                share = base_rate * recall + (1 - base_rate) * fpr
                n_worse += stats.binom.sf(alarms, volume, share) > budget.delta_day
            yield (
                f"| {volume:,} | {alarms} | {base_rate:g} | {n_labels or 'stated'} | {delta:g} | {recall:g} "
                f"| {n_worse / n_draws:.4f} | {delta - budget.delta_day:.4f} | {n_above / n_draws:.4f} |"
            )


def plan_table(rng: np.random.Generator, n_draws: int) -> Iterator[str]:
    """A draw is the rows at hand; the truth is the mean recall over thresholds that fresh negatives choose."""
    yield "| at hand | choose | tolerance | true mean recall | planned, mean | deviation | intervals that hold it, .9 |"
    yield "|---" * 7 + "|"
    for n, m, n_fresh, tau, shift in PLANS:
        above = n_fresh - order_rank(n_fresh, tau, PLAN_DELTA)
        fpr = stats.beta.ppf((np.arange(4000) + 0.5) / 4000, above + 1, n_fresh - above)
        truth = stats.norm.sf(stats.norm.isf(fpr) - shift).mean()
        planned, n_held = [], 0
        for _ in range(n_draws):
            scores = {"negative_scores": rng.normal(size=n), "positive_scores": rng.normal(shift, size=m)}
            each = plan_labels(tau, PLAN_DELTA, n_fresh, **scores).all_choose[0]
            low, high = each.recall_interval
            planned.append(each.recall)
            n_held += low <= truth <= high
        yield (
            f"| {n:,} + {m:,} | {n_fresh:,} | {tau:g} | {truth:.4f} | {np.mean(planned):.4f} | {np.std(planned):.4f} "
            f"| {n_held / n_draws:.3f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20_000)
    n_draws = parser.parse_args().draws
    rng = np.random.default_rng(SEED)
    for table in (budget_table(rng, n_draws), plan_table(rng, max(1, n_draws // 100))):
        print(*table, sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
