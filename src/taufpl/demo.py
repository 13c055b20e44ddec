"""``python -m taufpl.demo``: the same screening job under three thresholds, as a table and a picture."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from taufpl._extras import require
from taufpl.datasets import make_screening
from taufpl.estimators import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.plotting import ROCDisplay, ScoreDisplay

Array = NDArray[Any]

TAU = 0.01
_NAMES = {
    "plain": "logistic regression, balanced classes",
    "guarded": "the same under NeymanPearsonClassifier",
    "ours": "TauFPLClassifier",
}


def main(folder: str = "demo") -> None:
    """Fit three classifiers on generated data at a tolerance of 1 %, and hold them to it on new data."""
    rng = np.random.default_rng(0)
    X, y = make_screening(20_000, 1_000, random_state=rng)
    new_X, new_y = make_screening(200_000, 20_000, random_state=rng)
    print(f"20,000 negatives, 1,000 positives, 20 features. Tolerated false-positive rate: {TAU:.1%}.")
    print("Rates on 200,000 new negatives and 20,000 new positives:\n")
    print(f"{'':42} {'FPR':>7} {'recall':>7} {'seconds':>8}  at or under the tolerance?")
    models = {
        "plain": LogisticRegression(class_weight="balanced"),
        "guarded": NeymanPearsonClassifier(
            LogisticRegression(class_weight="balanced"), TAU, threshold="cross", random_state=0
        ),
        "ours": TauFPLClassifier(TAU, random_state=0),
    }
    for key, model in models.items():
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        alarms = model.predict(new_X) == 1
        fpr, recall = alarms[new_y == 0].mean(), alarms[new_y == 1].mean()
        print(f"{_NAMES[key]:42} {fpr:7.2%} {recall:7.1%} {seconds:8.2f}  {'yes' if fpr <= TAU else 'NO'}")
    ours = models["ours"]
    kept = [
        name for name, is_kept in zip(ours.selection_["candidate"], ours.selection_["kept"], strict=True) if is_kept
    ]
    print(
        f"\nWhat TauFPLClassifier said before it saw the new data: FPR at most {ours.fpr_upper_bound_:.2%} with 95 % "
        f"confidence,\nfrom {ours.evidence_.n_negative:,} negatives; recall about {ours.evidence_.tpr_estimate:.0%}. "
        f"It averages: {', '.join(kept)}."
    )
    print(f"\nPicture: {_draw(models, new_X[::10], new_y[::10], Path(folder))}")


def _draw(models: dict[str, Any], X: Array, y: Array, folder: Path) -> Path:
    require("matplotlib", "plot", "to draw the demo")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 5.5), layout="constrained")
    for key in ("plain", "ours"):
        ROCDisplay.from_estimator(models[key], X, y, tau=TAU, name=type(models[key]).__name__, ax=axes[0])
    ScoreDisplay.from_estimator(models["ours"], X, y, ax=axes[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "screening.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:2])
