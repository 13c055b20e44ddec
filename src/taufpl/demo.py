"""``python -m taufpl.demo``: the projection at work, as a table and a picture."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl.baselines.projection import sort_based
from taufpl.projection import project_topk_simplex

Vector = NDArray[np.float64]


def main(folder: str = "demo") -> None:
    """Project two vectors of 200,000 entries for several k; print what comes out and draw it."""
    rng = np.random.default_rng(0)
    alpha0, beta0 = rng.normal(size=200_000), rng.normal(size=200_000)
    print("Projection of two normal vectors of 200,000 entries on the top-k simplex:")
    print("alpha, beta >= 0, sum alpha = sum beta, no entry of beta above (sum alpha) / k.\n")
    print(
        f"{'k':>8} {'sum':>12} {'largest beta':>13} {'at the cap':>11} {'ms':>7} {'sorting, ms':>12} {'difference':>11}"
    )
    for k in (1, 10, 1_000, 20_000, 100_000, 200_000):
        print(_row(alpha0, beta0, k))
    picture = _draw(Path(folder))
    print(f"\nPicture of a small example: {picture}")


def _row(alpha0: Vector, beta0: Vector, k: int) -> str:
    (alpha, beta), seconds = _time(project_topk_simplex, alpha0, beta0, k)
    by_sorting, slow = _time(sort_based, alpha0, beta0, k)
    total, cap = alpha.sum(), alpha.sum() / k
    capped = int((beta >= cap * (1 - 1e-12)).sum())
    apart = max(np.abs(alpha - by_sorting[0]).max(), np.abs(beta - by_sorting[1]).max())
    return f"{k:8d} {total:12.3f} {beta.max():13.6f} {capped:11d} {1e3 * seconds:7.2f} {1e3 * slow:12.1f} {apart:11.1e}"


def _time(project: Any, *arguments: Any) -> tuple[Any, float]:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        answer = project(*arguments)
        times.append(time.perf_counter() - start)
    return answer, min(times)


def _draw(folder: Path) -> Path:
    """A small beta before and after, with its two thresholds."""
    require("matplotlib", "plot", "to draw the demo")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(3)
    alpha0, beta0, k = rng.normal(size=12), np.sort(rng.normal(size=40))[::-1], 20
    _, beta, found = project_topk_simplex(alpha0, beta0, k, return_thresholds=True)
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    axes.bar(np.arange(beta.size) - 0.2, beta0, width=0.4, color="#b8c4d6", label="before")
    axes.bar(np.arange(beta.size) + 0.2, beta, width=0.4, color="#1f5fa8", label="after")
    for height, name in ((found.mu, "mu"), (found.mu + found.cap, "mu + C/k"), (found.cap, "cap C/k")):
        style = ":" if name.startswith("mu") else "--"
        axes.axhline(height, color="#a83232", linestyle=style, linewidth=1)
        axes.text(beta.size - 0.5, height + 0.03, name, ha="right", color="#a83232", fontsize=9)
    axes.set(xlabel="entry of beta, sorted", ylabel="value", title=f"Top-{k} simplex: shifted by mu, cut at C/k")
    axes.legend(frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "projection.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:2])
