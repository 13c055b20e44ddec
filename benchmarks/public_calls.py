"""Time of the calls that users make, before and after, beside what they would call instead, in turns in one run.

    python benchmarks/public_calls.py OLD/src NEW/src [--turns 3] [--only text]

Both folders hold the package `taufpl` with its compiled modules. Every call is the public one, with all that is around
the solver: checks, folds, thresholds. The peer of a call learns from the same rows in the process of the new version.
Recall is that on unseen rows, above the threshold that lets tau of their negatives through. Calls on a GPU:
`gpu.py`; the command: `command_line.py`. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from turns import Fit, Version, serve

TEXT = "TAUFPL_TEXT_ROWS"  # names the file of the text set in the environment: an old version cannot make it


@dataclass
class Data:
    X: Any
    y: np.ndarray
    unseen_rows: Any
    unseen_labels: np.ndarray

    @classmethod
    def parted(cls, X: Any, y: np.ndarray, n_train: int) -> Data:
        return cls(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


@dataclass
class Call:
    """What a user calls, on which rows, beside which peer (a name of `PEERS`, or n_jobs=1), and what is asked."""

    data: Callable[[], Data]
    estimator: str
    settings: dict[str, Any]
    peer: str | None
    asked: str


def text(*, beside: bool = False) -> Data:
    """11,069 documents to learn from and 40,000 unseen ones; `beside`: with two columns of scores."""
    with np.load(os.environ[TEXT]) as file:
        X = sp.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
        y = file["y"]
    if beside:
        rng = np.random.default_rng(1)
        scores = rng.normal(size=(y.size, 2)) + y[:, None] * [1.0, 2.0]
        X = sp.csr_matrix(sp.hstack([X, sp.csr_matrix(scores)]))
    return Data.parted(X, y, 11_069)


def spambase() -> Data:
    from taufpl.datasets import load_spambase

    X, y = load_spambase(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[order], y[order]
    return Data(X, y, X, y)


def screening(n: int) -> Data:
    """Rows with 39 features, one in twenty positive."""
    from taufpl.datasets import make_screening

    X, y = make_screening(19 * n // 20 * 2, n // 20 * 2, n_features=39, random_state=0)
    order = np.random.default_rng(0).permutation(y.size)
    return Data.parted(X[order], y[order], n)


def few_features() -> Data:
    """As many rows, features and positives as mammography has, and more of them unseen."""
    from taufpl.datasets import make_scaling

    return Data.parted(*make_scaling(60_000, 6, positive_share=0.023, random_state=0), n_train=11_183)


def curved() -> Data:
    """Positives, one in twenty, lie on a ring in two of six features."""
    rng = np.random.default_rng(0)
    y = (rng.random(45_000) < 0.05).astype(int)
    X = rng.normal(size=(y.size, 6))
    angle = rng.uniform(0, 2 * np.pi, y.size)
    ring = 3.2 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.25 * rng.normal(size=(y.size, 2))
    X[y == 1, :2] = ring[y == 1]
    return Data.parted(X, y, 5_000)


def peers() -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.svm import LinearSVC

    def lightgbm() -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(verbose=-1)

    return {
        "LinearSVC": LinearSVC,
        "LogisticRegressionCV": lambda: LogisticRegressionCV(
            Cs=10, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="neg_log_loss", max_iter=1000
        ),
        "LightGBM": lightgbm,
    }


CALLS = {
    "TauFPLRanker(reg=1e-3), text": Call(text, "TauFPLRanker", {"tau": 0.01, "reg": 1e-3}, "LinearSVC", "5 x"),
    'TauFPLClassifier(threshold="np"), text': Call(
        text, "TauFPLClassifier", {"threshold": "np", "random_state": 0}, "LogisticRegressionCV", "8 x"
    ),
    "TauFPLRankerCV(tau=.001), text and scores": Call(
        lambda: text(beside=True), "TauFPLRankerCV", {"tau": 0.001, "tau_scale": 1.0}, None, "9 times faster"
    ),
    "KernelTauFPLClassifier(), 5,000 x 6": Call(
        curved, "KernelTauFPLClassifier", {"random_state": 0}, "LightGBM", "7 times faster"
    ),
    "TauFPLRanker(reg=1e-3), spambase": Call(spambase, "TauFPLRanker", {"reg": 1e-3}, "LinearSVC", "2 x"),
    'TauFPLClassifier(threshold="cross"), 100,000 x 39': Call(
        lambda: screening(100_000),
        "TauFPLClassifier",
        {"threshold": "cross", "random_state": 0},
        "LogisticRegressionCV",
        "1.5 x",
    ),
    "the same with n_jobs=2": Call(
        lambda: screening(100_000),
        "TauFPLClassifier",
        {"threshold": "cross", "random_state": 0, "n_jobs": 2},
        "n_jobs=1",
        "1 / 1.6 x",
    ),
    "TauFPLClassifier(n_jobs=2), 11,183 x 6": Call(
        few_features, "TauFPLClassifier", {"random_state": 0, "n_jobs": 2}, "n_jobs=1", "1 x"
    ),
}


def cases() -> dict[str, Callable[[], Fit]]:
    """The calls, and their peers under the names of the calls with a mark."""
    import taufpl

    def fit_of(call: Call, make: Callable[[], Any]) -> Callable[[], Fit]:
        def ready() -> Fit:
            data = call.data()
            return lambda: (make().fit(data.X, data.y), data)

        return ready

    found = {}
    for name, call in CALLS.items():
        estimator = getattr(taufpl, call.estimator)
        found[name] = fit_of(call, lambda make=estimator, call=call: make(**call.settings))
        if call.peer == "n_jobs=1":
            alone = call.settings | {"n_jobs": 1}
            found[name + " | peer"] = fit_of(call, lambda make=estimator, alone=alone: make(**alone))
        elif call.peer:
            found[name + " | peer"] = fit_of(call, peers()[call.peer])
    return found


def tell(result: tuple[Any, Data]) -> dict[str, float]:
    """Gap and passes where the model has them, and the share of unseen positives found at tau of the negatives."""
    from taufpl.metrics import tpr_at_fpr

    model, data = result
    told = {name: getattr(model, name) for name in ("dual_gap_", "n_passes_") if hasattr(model, name)}
    if hasattr(model, "decision_function"):
        scores = model.decision_function(data.unseen_rows)
    else:
        scores = model.predict_proba(data.unseen_rows)[:, 1]
    return told | {"recall": float(tpr_at_fpr(data.unseen_labels, scores, getattr(model, "tau", 0.01)))}


def compare(old: Version, new: Version, turns: int, only: str) -> None:
    print("| call | before, s | after, s | after / before | peer, s | after / peer | asked | gap | passes | recall |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, call in CALLS.items():
        if only not in name:
            continue
        runs = []
        for _ in range(turns):
            fits = [old.fit(name), new.fit(name)]
            runs.append([*fits, new.fit(name + " | peer") if call.peer else (np.nan, {})])
        before, after, peer = (median(run[place][0] for run in runs) for place in range(3))
        ratios = [median(run[1][0] / run[place][0] for run in runs) for place in (0, 2)]
        told = [run[1] for run in runs[-1][:2]]
        changes = [" → ".join(f"{each[key]:.3g}" for each in told if key in each) for key in ("dual_gap_", "n_passes_")]
        recall = " → ".join(f"{each['recall']:.4f}" for each in told)
        beside = f"{peer:.3f} ({call.peer}) | {ratios[1]:.2f}" if call.peer else " | "
        print(
            f"| {name} | {before:.3f} | {after:.3f} | {ratios[0]:.2f} | {beside} | {call.asked} "
            f"| {' | '.join(changes)} | {recall} |",
            flush=True,
        )


def write_text(path: str) -> None:
    from taufpl.datasets import make_text

    X, y = make_text(51_069, 8_315, topic_share=0.5, random_state=0)
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)


def main() -> None:
    if sys.argv[1:] == ["--serve"]:
        serve(cases(), tell)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the names of the calls")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[TEXT] = os.path.join(folder, "text.npz")
        write_text(os.environ[TEXT])
        versions = [Version(__file__, source) for source in (arguments.old, arguments.new)]
        compare(*versions, arguments.turns, arguments.only)
        for version in versions:
            version.end()


if __name__ == "__main__":
    main()
