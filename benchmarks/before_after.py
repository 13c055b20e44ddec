"""Time of fits by two versions of the sources, in turns in one run: the median of the ratios, new over old.

    python benchmarks/before_after.py OLD/src NEW/src [--turns 7] [--only dask]

Both folders hold the package `taufpl` with its compiled modules. Each version has a process of its own, and both fit
the same rows one after the other, so that what else runs on the machine meets them alike. Cases that need a library or
a device that is not there are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from turns import Fit, Version, serve


def rows(m: int, n: int, d: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Two normal clouds, two standard deviations apart in one direction, in random order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([1, 0], [m, n]))
    X = rng.normal(size=(m + n, d)) + 2.0 * y[:, None] * (rng.normal(size=d) / np.sqrt(d))
    return X.astype(dtype), y


def cases() -> dict[str, Callable[[], Fit]]:
    """By name: a function that makes the data and returns the fit."""
    from taufpl import KernelTauFPLClassifier, NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker, TauFPLRankerCV
    from taufpl.datasets import load_spambase

    def spambase() -> Fit:
        X, y = load_spambase(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return lambda: TauFPLRanker(0.01, 1e-3).fit(X, y)

    def ranker(d: int) -> Fit:
        X, y = rows(1_000, 40_000, d)
        return lambda: TauFPLRanker(0.01, 1e-3, tau_scale=8.0).fit(X, y)

    def sparse() -> Fit:
        X, y = rows(500, 3_000, 6_000, np.float32)
        X = sp.csr_array(np.where(np.abs(X) > 2.2, X, 0))
        return lambda: TauFPLRanker(0.05, 1e-2).fit(X, y)

    def fitted(estimator: Any, m: int = 300, n: int = 4_000, d: int = 20) -> Callable[[], Fit]:
        def make() -> Fit:
            X, y = rows(m, n, d)
            return lambda: estimator.fit(X, y)

        return make

    def chunks(estimator: Any) -> Fit:
        import dask.array as da

        X, y = rows(2_000, 100_000, 30)
        remote = da.from_array(X, chunks=(25_500, 30)), da.from_array(y, chunks=25_500)
        return lambda: estimator.fit(*remote)

    def cluster() -> Fit:
        import dask.array as da
        from distributed import Client, LocalCluster

        client = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
        X, y = rows(2_000, 100_000, 30)
        remote = client.persist([da.from_array(X, chunks=(25_500, 30)), da.from_array(y, chunks=25_500)])
        return lambda: TauFPLRanker(0.05, 1e-3).fit(*remote)

    def tensor(device: str, n: int, estimator: Any) -> Fit:
        import torch

        X, y = rows(n // 20, n, 50, np.float32)
        remote = torch.from_numpy(X).to(device), torch.from_numpy(y).to(device)
        return lambda: estimator.fit(*remote)

    import sklearn.linear_model

    logistic = sklearn.linear_model.LogisticRegression()
    paper: dict[str, Any] = {"reg": 1e-3, "tau_scale": 2.0, "threshold": "np", "random_state": 0}
    found: dict[str, Callable[[], Fit]] = {
        "memory: ranker, spambase": spambase,
        "memory: ranker, 41,000 x 50": lambda: ranker(50),
        "memory: ranker, sparse, 6,000 features": sparse,
        "memory: ranker with search": fitted(TauFPLRankerCV(0.05, 5, 3, tau_scale=1.0)),
        "memory: classifier as it comes": fitted(TauFPLClassifier(0.05, random_state=0)),
        "memory: classifier, cross": fitted(TauFPLClassifier(0.05, threshold="cross", random_state=0)),
        "memory: classifier, paper, np": fitted(TauFPLClassifier(0.05, **paper)),
        "memory: logistic regression, np": fitted(NeymanPearsonClassifier(logistic, 0.05, random_state=0)),
        "memory: kernel classifier": fitted(
            KernelTauFPLClassifier(0.05, gamma="median", reg=1e-2, n_components=100, threshold="np", random_state=0)
        ),
    }
    if importlib.util.find_spec("dask"):
        found["dask: ranker, this process"] = lambda: chunks(TauFPLRanker(0.05, 1e-3))
        found["dask: classifier, this process"] = lambda: chunks(TauFPLClassifier(0.05, **paper))
        found["dask: ranker, two workers"] = cluster
    if importlib.util.find_spec("torch"):
        import torch

        found["tensor: ranker, processor"] = lambda: tensor("cpu", 100_000, TauFPLRanker(0.05, 1e-3))
        if torch.cuda.is_available():
            found["tensor: ranker, GPU"] = lambda: tensor("cuda", 2_000_000, TauFPLRanker(0.05, 1e-3))
            found["tensor: classifier, GPU"] = lambda: tensor("cuda", 2_000_000, TauFPLClassifier(0.05, **paper))
    return found


def compare(old: Version, new: Version, turns: int, only: str) -> None:
    print("| fit | before, s | after, s | after / before, median |\n|---|---|---|---|")
    for name in old.names:
        if only not in name:
            continue
        seconds = np.array([[version.fit(name)[0] for version in (old, new)] for _ in range(turns)])
        before, after = np.median(seconds, axis=0)
        ratio = np.median(seconds[:, 1] / seconds[:, 0])
        print(f"| {name} | {before:.3f} | {after:.3f} | {ratio:.2f} |", flush=True)


def main() -> None:
    if sys.argv[1:] == ["--serve"]:
        serve(cases())
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    arguments = parser.parse_args()
    versions = [Version(__file__, source) for source in (arguments.old, arguments.new)]
    compare(*versions, arguments.turns, arguments.only)
    for version in versions:
        version.end()


if __name__ == "__main__":
    main()
