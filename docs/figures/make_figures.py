"""Draw the pictures of mathematics.md, choosing.md, kernels.md and howto/budgets.md: `make figures`.

Seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from taufpl import KernelTauFPLClassifier, NeymanPearsonClassifier, TauFPLRanker
from taufpl.datasets import load_spambase, make_scaling
from taufpl.planning import alarm_budget, plan_labels
from taufpl.plotting import DecisionRegionsDisplay, LabelPlanDisplay, ROCDisplay
from taufpl.projection import project_topk_simplex
from taufpl.thresholding import order_rank

HERE = Path(__file__).resolve().parent
NEGATIVE, POSITIVE, LINE, SOFT = "#0072b2", "#d55e00", "0.25", "0.65"

Array = NDArray[np.float64]

plt.rcParams.update(
    {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "savefig.facecolor": "white",
    }
)


def panels(columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    return plt.subplots(1, columns, figsize=size, layout="constrained", squeeze=True)


def save(figure: Any, name: str) -> None:
    # A palette keeps the files small; pictures of few colours lose nothing by it.
    figure.savefig(HERE / name, dpi=110, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close(figure)
    print(f"{name}: {(HERE / name).stat().st_size / 1024:.0f} KiB")


def objective() -> None:
    """What is pushed above what, and by which loss."""
    rng = np.random.default_rng(0)
    negative, positive = np.sort(rng.normal(size=2000)), rng.normal(2.4, 1.0, size=400)
    k = 101  # floor(.05 * 2000) + 1
    threshold, top = negative[-k], negative[-k:].mean()
    figure, (left, right) = panels(2, (9.2, 3.5))
    edges = np.linspace(-3.4, 5.6, 61)
    for scores, colour, name in ((negative, NEGATIVE, "negatives"), (positive, POSITIVE, "positives")):
        left.hist(scores, edges, weights=np.full(scores.size, 1 / scores.size), color=colour, alpha=0.35, label=name)
    left.hist(negative[-k:], edges, weights=np.full(k, 1 / negative.size), color=NEGATIVE, label="the k highest")
    left.axvline(threshold, color=LINE, linestyle="--", linewidth=1)
    left.axvline(top, color=LINE, linewidth=1.3)
    left.annotate("threshold", (threshold, 0.086), xytext=(-4, 0), textcoords="offset points", ha="right", fontsize=9)
    left.annotate("their mean, T_k", (top, 0.086), xytext=(4, 0), textcoords="offset points", fontsize=9)
    left.set(xlabel="Score x . w", ylabel="Share of the class", title="Positives are pushed above T_k", ylim=(0, 0.092))
    left.legend(loc="upper left", bbox_to_anchor=(0, 0.93), fontsize=8)
    u = np.linspace(-1.2, 2.2, 400)
    right.plot(u, np.maximum(0, 1 - u) ** 2, color=POSITIVE, linewidth=2, label="l(u) = max(0, 1 - u)²")
    right.step([-1.2, 0, 2.2], [1, 1, 0], color=LINE, linewidth=1.3, where="pre", label="missed or not")
    right.set(xlabel="u = score of a positive - T_k", ylabel="Loss", title="The loss of one positive", ylim=(0, 4.2))
    right.legend(loc="upper right", fontsize=9)
    save(figure, "objective.png")


def certificate() -> None:
    """Primal and dual value, and their gap, along a fit."""
    X, y = make_scaling(6000, 30, positive_share=0.1, separation=2.5, random_state=0)
    figure, (left, right) = panels(2, (9.2, 3.5))
    for solver, colour in (("newton", POSITIVE), ("accelerated", NEGATIVE)):
        ranker = TauFPLRanker(tau=0.1, reg=0.1, solver=solver, tol=1e-6).fit(X, y)
        passes = np.array([record.n_passes for record in ranker.history_])
        primal = np.minimum.accumulate([record.primal for record in ranker.history_])
        dual = np.maximum.accumulate([record.dual for record in ranker.history_])
        gap = np.maximum(primal - dual, 1e-16) / primal
        left.plot(passes, primal, color=colour, linewidth=1.8, label=f"{solver}: P(w)")
        left.plot(passes, dual, color=colour, linewidth=1.8, linestyle=":", label=f"{solver}: lower bound D")
        right.plot(passes, gap, color=colour, linewidth=1.8, label=solver)
    left.set(
        xscale="log", xlabel="Passes over the data", title="The optimum lies between the two lines", ylim=(0, 1.05)
    )
    left.set_ylabel("Objective")
    right.set(xscale="log", yscale="log", xlabel="Passes over the data", title="Their distance: the gap, relative")
    for ax in (left, right):
        ax.legend(loc="best", fontsize=8.5)
    save(figure, "certificate.png")


def projection() -> None:
    """What the projection does to alpha and to beta."""
    rng = np.random.default_rng(3)
    alpha0, beta0, k = np.sort(rng.normal(0.2, 0.8, 24))[::-1], np.sort(rng.normal(0.3, 1.0, 40))[::-1], 14
    alpha, beta = project_topk_simplex(alpha0, beta0, k)
    total = alpha.sum()
    shift = float((alpha0 - alpha)[alpha > 0].mean())
    free = (beta > 1e-12) & (beta < total / k - 1e-12)
    mu = float((beta0 - beta)[free].mean())
    figure, axes = panels(3, (10.6, 3.4))
    for ax, before, after, colour, name in (
        (axes[0], alpha0, alpha, POSITIVE, "alpha"),
        (axes[1], beta0, beta, NEGATIVE, "beta"),
    ):
        place = np.arange(before.size)
        ax.bar(place, before, color="0.86", width=0.9, label="given")
        ax.bar(place, after, color=colour, width=0.5, label="projected")
        ax.set(title=f"{name}, sorted", xticks=[])
        ax.set_ylim(-2.4, 2.9)
        ax.legend(loc="lower left", fontsize=8.5)
    axes[0].axhline(shift, color=LINE, linestyle="--", linewidth=1)
    axes[0].annotate("lambda", (23.5, shift), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=9)
    for height, name in ((mu, "mu"), (mu + total / k, "delta")):
        axes[1].axhline(height, color=LINE, linestyle="--", linewidth=1)
        axes[1].annotate(name, (39.5, height), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=9)
    axes[1].axhline(total / k, color=NEGATIVE, linewidth=1)
    axes[1].annotate("cap C/k", (39.5, total / k), xytext=(0, -12), textcoords="offset points", ha="right", fontsize=9)
    t = np.linspace(mu - 0.5, mu + total / k + 0.5, 300)
    level = np.maximum(beta0 - mu, 0).sum() + k * mu
    axes[2].plot(t, [np.maximum(beta0 - each, 0).sum() + k * each for each in t], color=NEGATIVE, linewidth=1.8)
    axes[2].plot([mu, mu + total / k], [level, level], color=LINE, marker="o", markersize=5, linewidth=1.2)
    axes[2].annotate("mu", (mu, level), xytext=(-6, -13), textcoords="offset points", ha="right", fontsize=9)
    axes[2].annotate("delta", (mu + total / k, level), xytext=(5, -13), textcoords="offset points", fontsize=9)
    axes[2].set(title="T(t) = sum [beta0 - t]+ + k t, and a level", xlabel="t")
    save(figure, "projection.png")


def support(points: Array, k: int) -> Array:
    """Corners of the averages of `points` with weights up to 1/k: in each direction, the mean of the k furthest."""
    angles = np.linspace(0, 2 * np.pi, 721)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    furthest = np.argpartition(-(points @ directions.T), k - 1, axis=0)[:k]
    return points[furthest].mean(axis=0)


def collapse() -> None:
    """The mean positive among the averages of negatives, or not."""
    rng = np.random.default_rng(0)
    negative, positive = rng.normal(size=(400, 2)), rng.normal(size=(60, 2)) * 0.9 + (1.25, 0.75)
    mean = positive.mean(axis=0)
    figure, axes = panels(2, (9.2, 4.2))
    for ax, tau in zip(axes, (0.01, 0.3), strict=True):
        k = int(tau * 400) + 1
        hull = support(negative, k)
        ax.scatter(*negative.T, s=9, color=NEGATIVE, alpha=0.35, linewidths=0, label="negatives")
        ax.scatter(*positive.T, s=9, color=POSITIVE, alpha=0.5, linewidths=0, label="positives")
        ax.fill(*hull.T, color=NEGATIVE, alpha=0.12)
        ax.plot(*hull.T, color=NEGATIVE, linewidth=1.3, label="averages, weights up to 1/k")
        ax.plot(*mean, "o", color=POSITIVE, markersize=9, markeredgecolor="white", label="mean positive")
        ax.set(xlim=(-3.4, 4.2), ylim=(-3.3, 3.3), aspect="equal", xticks=[], yticks=[])
        verdict = "inside: the optimum is w = 0" if is_inside(mean, negative, k) else "outside: a direction is found"
        ax.set_title(f"training share {tau:.0%}, k = {k}: {verdict}")
        ax.spines[:].set_visible(False)
    axes[0].legend(loc="lower left", fontsize=8.5, frameon=True, framealpha=0.9, edgecolor="none")
    save(figure, "hull.png")


def is_inside(point: Array, points: Array, k: int) -> bool:
    angles = np.linspace(0, 2 * np.pi, 721)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    top = np.sort(points @ directions.T, axis=0)[-k:].mean(axis=0)
    return bool(np.all(top >= directions @ point))


def order_statistics() -> None:
    """The true FPR of an order statistic, and what certainty costs."""
    figure, (left, right) = panels(2, (9.2, 3.5))
    n, tau = 1000, 0.05
    rank = order_rank(n, tau, 0.05)
    assert rank is not None
    rates = np.linspace(0.015, 0.085, 600)
    for r, colour, name in ((950, NEGATIVE, "plain quantile"), (rank, POSITIVE, "with the guarantee")):
        law = stats.beta(n - r + 1, r)
        left.plot(rates, law.pdf(rates), color=colour, linewidth=1.8, label=f"rank {r}, {name}: {law.sf(tau):.0%} over")
        left.fill_between(rates, law.pdf(rates), where=rates > tau, color=colour, alpha=0.3, linewidth=0)
    left.axvline(tau, color=LINE, linestyle="--", linewidth=1)
    left.set(xlabel="True FPR of the threshold", yticks=[], title="1,000 negatives, tolerance 5 %", ylim=(0, 92))
    left.spines["left"].set_visible(False)
    left.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    left.legend(loc="upper center", fontsize=8.5, frameon=True, framealpha=1, edgecolor="none")
    counts = np.unique(np.geomspace(50, 300_000, 500).astype(int))
    for tau, colour in ((0.05, "#009e73"), (0.01, POSITIVE), (0.001, NEGATIVE)):
        ranks = [order_rank(int(n), tau, 0.05) for n in counts]
        pairs = [(n, (n - r) / n / tau) for n, r in zip(counts, ranks, strict=True) if r is not None]
        right.plot(*np.array(pairs).T, color=colour, linewidth=1.6, label=f"tolerance {tau:.1%}".replace(".0", ""))
    right.axhline(1, color=LINE, linestyle="--", linewidth=1)
    right.set(xscale="log", xlabel="Held-out negatives", ylabel="Used share of the tolerance", ylim=(0, 1.05))
    right.set_title("What may lie above the threshold, delta 5 %")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    right.legend(loc="lower right", fontsize=8.5)
    save(figure, "order.png")


def regions() -> None:
    """What a kernel classifier decides on two moons."""
    X, y = make_moons((3000, 300), noise=0.2, random_state=0)
    screen = KernelTauFPLClassifier(tau=0.01, gamma="median", reg=1e-3, random_state=0).fit(X, y)
    figure, ax = panels(1, (8.0, 5.6))
    name = "Two moons, tolerance 1 %"
    DecisionRegionsDisplay.from_estimator(screen, X, y, taus=[0.001, 0.2], name=name, max_points=500, ax=ax)
    save(figure, "regions.png")


def operations() -> None:
    """What a plan for labels and NP-ROC look like, for a screen of docs/howto/budgets.md."""
    X, y = load_spambase(return_X_y=True, as_frame=True)
    is_first = ~X.duplicated()
    X, new_X, y, new_y = train_test_split(X[is_first], y[is_first], test_size=0.5, random_state=4)
    budget = alarm_budget(400, volume=20_000, base_rate=0.005)
    scorer = HistGradientBoostingClassifier(random_state=0)
    screen = NeymanPearsonClassifier(scorer, budget.tau, delta=budget.delta_threshold, random_state=0).fit(X, y)
    figure, axes = panels(1, (7.2, 4.8))
    ROCDisplay.from_estimator(screen, new_X, new_y, band="guarantee", name="boosting", ax=axes)
    save(figure, "np-roc.png")
    scores = screen.decision_function(new_X)
    figure, axes = panels(2, (9.6, 4.4))
    plan = plan_labels(0.01, negatives=1000, negative_scores=scores[new_y == 0], positive_scores=scores[new_y == 1])
    LabelPlanDisplay.from_plan(plan, ax=axes)
    save(figure, "plan.png")


if __name__ == "__main__":
    for draw in (objective, certificate, projection, collapse, order_statistics, regions, operations):
        draw()
