"""How often limits by segment are broken, each and together, and what they find beside one threshold for all rows.

    python benchmarks/segments_guarantee.py [--quick] [--draws 2000]

Rows of each segment are Gaussian with a mean of their own, and the scorer is a logistic regression, so that the true
false-alarm rate and the true recall of a fitted screen are known in closed form. The segments have unequal sizes and
tolerances; two of them are too small for limits of their own and share one. Prints Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression

from recall_data import standard_error
from taufpl import NeymanPearsonClassifier
from taufpl.thresholding import HeldOut

DELTA, SEED, N_FEATURES = 0.05, 18, 5


class Segment(NamedTuple):
    """Negatives and positives of a draw, the tolerance, where negatives lie, and how far positives are from them."""

    n: int
    m: int
    tau: float
    center: float
    shift: float


SEGMENTS = {
    "EU": Segment(4_000, 300, 0.005, 0.0, 0.9),
    "US": Segment(1_500, 150, 0.01, 0.4, 1.0),
    "JP": Segment(700, 80, 0.02, -0.3, 1.1),
    "FO": Segment(200, 20, 0.02, 0.2, 1.0),
    "GL": Segment(150, 20, 0.02, 0.6, 1.0),
}
SMALL = ("FO", "GL")


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes and segments. Among the small segments labels are random too, as in a sample of their mixture."""
    labels = np.concatenate([np.repeat(name, each.n + each.m) for name, each in SEGMENTS.items()])
    y = np.concatenate([np.repeat([0, 1], [each.n, each.m]) for each in SEGMENTS.values()])
    for is_positive in (0, 1):
        rows = np.flatnonzero(np.isin(labels, SMALL) & (y == is_positive))
        shares = np.array([SEGMENTS[name][is_positive] for name in SMALL], dtype=float)
        labels[rows] = rng.choice(SMALL, size=rows.size, p=shares / shares.sum())
    means = np.array([SEGMENTS[name].center for name in labels]) + y * np.array(
        [SEGMENTS[name].shift for name in labels]
    )
    return rng.normal(size=(y.size, N_FEATURES)) + means[:, np.newaxis], y, labels


def rates(screen: NeymanPearsonClassifier) -> dict[str, tuple[float, float]]:
    """True false-alarm rate and recall of each segment."""
    model, found = screen.estimator_, {}
    width, total = float(np.linalg.norm(model.coef_)), float(model.coef_.sum())
    for name, each in SEGMENTS.items():
        threshold = screen.threshold_ if screen.segments_ is None else screen.segments_.by_segment[name]
        means = model.intercept_[0] + total * np.array([each.center, each.center + each.shift])
        found[name] = tuple(stats.norm.sf((threshold - means) / width).tolist())
    return found


def by_limit(found: dict[str, tuple[float, float]], members: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Rates of every limit: those of segments that share one are mixed as they are among the rows."""
    mixed = {}
    for limit in dict.fromkeys(members.values()):
        own = [name for name, its in members.items() if its == limit]
        weights = [[SEGMENTS[name].n for name in own], [SEGMENTS[name].m for name in own]]
        mixed[limit] = tuple(
            float(np.average([found[name][which] for name in own], weights=weights[which])) for which in (0, 1)
        )
    return mixed


def fit(rows: tuple[np.ndarray, ...], number: int, *, segments: bool) -> NeymanPearsonClassifier:
    strictest = min(each.tau for each in SEGMENTS.values())
    tau = {name: each.tau for name, each in SEGMENTS.items()} if segments else strictest
    screen = NeymanPearsonClassifier(
        LogisticRegression(), tau, delta=DELTA, threshold=HeldOut(measure_recall=False), random_state=number
    )
    X, y, labels = rows
    return screen.fit(X, y, segments=labels if segments else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="twenty draws")
    parser.add_argument("--draws", type=int, default=2_000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    several, single = [], []
    for number in range(20 if given.quick else given.draws):
        rows = draw(np.random.default_rng([SEED, number]))
        screen = fit(rows, number, segments=True)
        limits = screen.segments_
        several.append(by_limit(rates(screen), limits.members))
        single.append(by_limit(rates(fit(rows, number, segments=False)), limits.members))
    report(limits, several, single)


def report(limits: object, several: list[dict], single: list[dict]) -> None:
    """A row a limit, then one for all together."""
    columns = ("tau", "held out", "P(FPR > tau), exact", "measured", "mean FPR", "recall", "one threshold: recall")
    print(f"| limit | {' | '.join(columns)} | one threshold: FPR > tau |\n" + "|---" * (len(columns) + 2) + "|")
    kept, broken, broken_single = 1.0, np.zeros(len(several), dtype=bool), np.zeros(len(several), dtype=bool)
    for name, each in zip(limits.limits, limits.evidence, strict=True):
        exact = stats.beta.sf(each.tau, each.n_negative + 1 - each.rank, each.rank)
        fpr, recall = np.array([draw[name] for draw in several]).T
        other_fpr, other_recall = np.array([draw[name] for draw in single]).T
        kept, broken, broken_single = (
            kept * (1 - exact),
            broken | (fpr > each.tau),
            broken_single | (other_fpr > each.tau),
        )
        show(name, each.tau, each.n_negative, exact, fpr > each.tau, fpr, recall, other_recall, other_fpr > each.tau)
    weights = {
        name: sum(SEGMENTS[its].m for its in limits.members if limits.members[its] == name) for name in several[0]
    }
    whole = [
        np.array([np.average([draw[name][1] for name in weights], weights=list(weights.values())) for draw in draws])
        for draws in (several, single)
    ]
    n_held = sum(each.n_negative for each in limits.evidence)
    show("all together", None, n_held, 1 - kept, broken, None, whole[0], whole[1], broken_single)
    gain = whole[0] - whole[1]
    print(f"\nRecall gained over one threshold: {gain.mean():.3f} ± {standard_error(gain):.3f}; {len(several)} draws.")


def show(
    name: str, tau: float | None, n_held: int, exact: float, broken: np.ndarray, fpr: object, *rest: object
) -> None:
    recall, other_recall, other_broken = rest
    cells = [
        name,
        "" if tau is None else f"{tau:g}",
        f"{n_held:,}",
        f"{exact:.3f}",
        f"{broken.mean():.3f} ± {standard_error(broken.astype(float)):.3f}",
        "" if fpr is None else f"{np.mean(fpr):.4f}",
        f"{recall.mean():.3f}",
        f"{other_recall.mean():.3f}",
        f"{other_broken.mean():.3f}",
    ]
    print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
