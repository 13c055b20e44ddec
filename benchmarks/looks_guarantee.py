"""How often a threshold that is chosen again and again ever breaks the tolerance, and what each way of it costs.

    python benchmarks/looks_guarantee.py [--quick] [--draws 400]

A screen on scores is fitted on 1,000 negatives and recalibrated 49 times on 1,000 fresh ones each: 50 looks. The
distribution of the scores is known, and stays as it is, so that the true false-alarm rate of every threshold is known.
The discrete scores have a level with a rate just above the tolerance. A draw is broken where any of its 50
thresholds has a rate above the tolerance. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from recall_data import standard_error
from taufpl import ScoreScreen
from taufpl.thresholding import OrderStatistic, order_rank

Floats = NDArray[np.float64]

TAU, DELTA = 0.01, 0.05
N_LOOKS, N_EACH = 50, 1_000
SHOWN = (1, 2, 5, 10, 20, 50)
SEED = 18
# Levels 0, 1, 2, ... of an exponential variable, in steps such that P(level > 4) is 1.02 %.
STEP = -math.log(1.02 * TAU) / 5


@dataclass(frozen=True)
class Kind:
    """A distribution of negatives' scores, and its true false-alarm rate."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    fpr: Callable[[Floats], Floats]


KINDS = (
    Kind("continuous", lambda rng, n: rng.normal(size=n), stats.norm.sf),
    Kind(
        "discrete",
        lambda rng, n: np.floor(rng.exponential(size=n) / STEP),
        lambda t: np.exp(-STEP * (np.floor(t) + 1)),
    ),
)


def screened(looks: int | str) -> Callable[[list[Floats]], list[float]]:
    """Thresholds of a screen that is fitted once and recalibrated at every further look."""

    def thresholds(batches: list[Floats]) -> list[float]:
        first, *others = batches
        screen = ScoreScreen(tau=TAU, delta=DELTA, looks=looks, pos_label=1).fit(first, np.zeros(first.size, dtype=int))
        found = [screen.threshold_]
        for batch in others:
            found.append(screen.recalibrate(batch).threshold_)
        return found

    return thresholds


def plain(batches: list[Floats]) -> list[float]:
    """The order statistic for a single look, on all negatives so far, at every look."""
    scores = np.concatenate(batches)
    ends = np.cumsum([batch.size for batch in batches])
    return [OrderStatistic(TAU, DELTA).choose(scores[:end]).threshold for end in ends]


METHODS: dict[str, Callable[[list[Floats]], list[float]]] = {
    'looks="any": all negatives so far': screened("any"),
    "looks=50: fresh negatives, delta/50 each": screened(N_LOOKS),
    "looks=1: fresh negatives, delta each time": screened(1),
    "order statistic of all negatives so far": plain,
}


def measure(kind: Kind, n_draws: int) -> dict[str, Floats]:
    """The true rate of every threshold: one row a draw, one column a look, by method."""
    rates: dict[str, list[Floats]] = {name: [] for name in METHODS}
    for number in range(n_draws):
        rng = np.random.default_rng([SEED, number])
        batches = [kind.draw(rng, N_EACH) for _ in range(N_LOOKS)]
        for name, method in METHODS.items():
            rates[name].append(kind.fpr(np.array(method(batches))))
    return {name: np.array(found) for name, found in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten draws")
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    shown = [f"look {look}" for look in SHOWN]
    print(f"| scores, thresholds | ever broken | {' | '.join(shown)} |\n" + "|---" * (len(SHOWN) + 2) + "|")
    for kind in KINDS:
        for name, rates in measure(kind, 10 if given.quick else given.draws).items():
            broken = (rates > TAU * (1 + 1e-12)).any(axis=1).astype(float)
            used = [f"{rates[:, look - 1].mean() / TAU:.2f}" for look in SHOWN]
            cells = [f"{kind.name}, {name}", f"{broken.mean():.3f} ± {standard_error(broken):.3f}", *used]
            print(f"| {' | '.join(cells)} |", flush=True)
    single = [N_EACH * look + 1 - order_rank(N_EACH * look, TAU, DELTA) for look in SHOWN]
    used = [f"{above / (N_EACH * look + 1) / TAU:.2f}" for above, look in zip(single, SHOWN, strict=True)]
    print(f"| continuous, a single look at all negatives so far: exact mean | 0.05 at most | {' | '.join(used)} |")


if __name__ == "__main__":
    main()
