"""How often a tolerance of 1 % is broken by the thresholds that people set by hand, and by this library: the picture
of the README.

    python benchmarks/promise.py [--draws 400] [-o docs/figures/promise.png]

Each draw is a screening job: 4,000 negatives and 800 positives whose boundary is curved, and gradient boosting as it
comes. Three thresholds: the 99 % quantile of the negatives that were learned from, the 99 % quantile of negatives that
were held out, and that of `NeymanPearsonClassifier`, which holds out the same number. What each does to new negatives
is counted on 100,000 of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from taufpl import NeymanPearsonClassifier
from taufpl.thresholding import HeldOut

TAU, DELTA = 0.01, 0.05
WAYS = (
    "99 % quantile of\ntraining negatives",
    "99 % quantile of\nheld-out negatives",
    "taufpl",
)


def rows(rng: np.random.Generator, n_negative: int, n_positive: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal negatives; positives lie around a ring in two of four features."""
    y = np.repeat([0, 1], [n_negative, n_positive])
    X = rng.normal(size=(y.size, 4))
    angle = rng.uniform(0, 2 * np.pi, n_positive)
    X[n_negative:, :2] = 2.8 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.6 * X[n_negative:, :2]
    return X, y


def draw(seed: int) -> list[tuple[float, float]]:
    """False-alarm rate on new negatives, and recall on new positives, of each way."""
    rng = np.random.default_rng(seed)
    X, y = rows(rng, 4_000, 800)
    new_X, new_y = rows(rng, 100_000, 5_000)
    boosting = HistGradientBoostingClassifier(max_iter=60, random_state=0)

    def rates(alarms: np.ndarray) -> tuple[float, float]:
        return float(alarms[new_y == 0].mean()), float(alarms[new_y == 1].mean())

    def score(model: Any, part: np.ndarray) -> np.ndarray:
        scores: np.ndarray = model.decision_function(part)
        return scores

    learned = boosting.fit(X, y)
    at_training = rates(score(learned, new_X) > np.quantile(score(learned, X[y == 0]), 1 - TAU))
    part = boosting.fit(X[2_000:], y[2_000:])
    at_held_out = rates(score(part, new_X) > np.quantile(score(part, X[:2_000]), 1 - TAU))
    screen = NeymanPearsonClassifier(
        boosting, tau=TAU, delta=DELTA, threshold=HeldOut(measure_recall=False), random_state=seed
    ).fit(X, y)
    assert screen.evidence_.guaranteed
    return [at_training, at_held_out, rates(screen.predict(new_X) == 1)]


def picture(rates: np.ndarray, recalls: np.ndarray, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    jitter = np.random.default_rng(0).uniform(-0.28, 0.28, size=len(rates))
    for place, way in enumerate(WAYS):
        broken = rates[:, place] > TAU
        for mask, colour in ((~broken, "#0072b2"), (broken, "#d55e00")):
            axes.plot(100 * rates[mask, place], -place + jitter[mask], "o", color=colour, markersize=3, alpha=0.45)
        axes.annotate(
            f"{100 * broken.mean():.0f} % break it\nrecall {100 * recalls[:, place].mean():.0f} %",
            (1.01, -place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=12,
            fontweight="bold" if way == "taufpl" else None,
        )
    axes.axvline(100 * TAU, color="0.25", linewidth=1.2)
    axes.annotate("tolerance: 1 %", (100 * TAU, 0.45), xytext=(4, 0), textcoords="offset points", fontsize=11)
    axes.set_yticks([-place for place in range(len(WAYS))], WAYS, fontsize=12)
    axes.set(ylim=(-len(WAYS) + 0.55, 0.62), xlim=(0, None))
    axes.set_xlabel("False alarms among new negatives, %", fontsize=12)
    title = f"{len(rates)} screens per method, one dot each: which keep the tolerance on new data?"
    figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize=12.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=11)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=130, metadata={"Software": None}, pil_kwargs={"optimize": True})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/figures/promise.png"))
    arguments = parser.parse_args()
    found = np.array([draw(seed) for seed in range(arguments.draws)])
    rates, recalls = found[..., 0], found[..., 1]
    print("| threshold | broken | mean false-alarm rate | mean recall |\n|---|---|---|---|")
    for place, way in enumerate(WAYS):
        share = (rates[:, place] > TAU).mean()
        error = np.sqrt(share * (1 - share) / len(rates))
        name = " ".join(way.split())
        print(f"| {name} | {share:.3f} ± {error:.3f} | {rates[:, place].mean():.4f} | {recalls[:, place].mean():.3f} |")
    picture(rates, recalls, arguments.output)


if __name__ == "__main__":
    main()
