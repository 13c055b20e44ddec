"""Fits whose cost and answer must not change when the code below them does.

    python tests/house/golden_cases.py > tests/house/golden.json

writes down what the present code does. `test_golden.py` compares with it: passes and rounds within a half, the same
optimum up to the certified gaps, the same counts behind a threshold. Write it anew only where a change of these figures
is meant, and say in the commit what it brings.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taufpl import KernelTauFPLRanker, TauFPLClassifier, TauFPLRanker, TauFPLRankerCV
from taufpl.baselines import TopPush
from taufpl.datasets import load_spambase

Data = tuple[Any, np.ndarray]


@cache
def spambase() -> Data:
    return load_spambase(return_X_y=True)


def standardised() -> Data:
    X, y = spambase()
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@cache
def clouds(m: int = 300, n: int = 6_000, d: int = 40, dtype: type = np.float64) -> Data:
    """Two normal clouds, two standard deviations apart in one direction, in random order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([1, 0], [m, n]))
    X = rng.normal(size=(m + n, d)) + 2.0 * y[:, None] * (rng.normal(size=d) / np.sqrt(d))
    return X.astype(dtype), y


def tied() -> Data:
    """Features of three values: thousands of equal scores."""
    X, y = clouds(d=12)
    return np.clip(np.round(X), -1, 1), y


@cache
def words(n: int = 4_000, d: int = 6_000) -> Data:
    """Like text: 30 words a row, rows of norm 1, the highest noisy scores are positive. Solved without factoring."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, d + 1) ** 0.8
    places = rng.choice(d, size=(n, 30), p=frequency / frequency.sum())
    values = rng.exponential(size=places.shape) + 0.2
    X = sp.csr_array((values.ravel(), places.ravel(), np.arange(0, values.size + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    X = (sp.diags_array(1.0 / np.sqrt(X.power(2).sum(axis=1))) @ X).tocsr()
    scores = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    return X, (scores > np.quantile(scores, 0.8)).astype(int)


DATA: dict[str, Callable[[], Data]] = {
    "spambase": spambase,
    "spambase, standardised": standardised,
    "spambase, CSR": lambda: (sp.csr_array(spambase()[0]), spambase()[1]),
    "clouds": clouds,
    "clouds, float32": lambda: clouds(dtype=np.float32),
    "clouds, wide": lambda: clouds(40, 260, 900),
    "tied": tied,
    "words": words,
}


class Case(NamedTuple):
    """An estimator, the name of its data, and how many chunks they are divided into; 0 keeps them in memory."""

    estimator: Any
    data: str
    n_chunks: int = 0

    @property
    def name(self) -> str:
        """What the case is filed under."""
        place = f" in {self.n_chunks} chunks" if self.n_chunks else ""
        return f"{self.estimator!r} on {self.data}{place}".replace("\n", " ").replace("  ", "")


def cases() -> Iterator[Case]:
    """Every kind of ranking problem, in memory and in chunks, and every threshold."""
    for tau in (0.001, 0.01, 0.1):
        for reg in (1e-1, 1e-3, 1e-5):
            ranker = TauFPLRanker(tau, reg, tol=1e-6)
            yield from (Case(ranker, name) for name in ("spambase", "spambase, standardised", "clouds", "tied"))
            yield from (Case(ranker, name, 3) for name in ("spambase, standardised", "clouds", "tied"))
    for name in ("spambase, CSR", "clouds, float32", "clouds, wide", "words"):
        yield Case(TauFPLRanker(0.05, 1e-2, tol=1e-4), name)
    yield Case(TauFPLRanker(0.05, 1e-2, tol=1e-6), "clouds, float32", 4)
    yield Case(TauFPLRanker(0.1, 1e-3, solver="accelerated", tol=1e-3), "clouds")
    yield Case(TauFPLRanker(0.01, 1e-2, positive_share=0.5), "clouds")
    yield Case(KernelTauFPLRanker(0.05, n_components=60, random_state=0), "clouds")
    for n_chunks in (0, 3):
        yield Case(TopPush(), "clouds", n_chunks)
        yield Case(TauFPLRankerCV(0.05, 4, 3, tau_scale="cv"), "clouds", n_chunks)
        for threshold in ("np", "cross", "oob", "train"):
            settings = {"reg": 1e-2, "tau_scale": 2.0, "threshold": threshold, "random_state": 0}
            yield Case(TauFPLClassifier(0.05, **settings), "clouds", n_chunks)
        yield Case(TauFPLClassifier(0.05, threshold="np", regs=4, cv=3, random_state=0), "clouds", n_chunks)


def read(case: Case) -> Data:
    X, y = DATA[case.data]()
    if not case.n_chunks:
        return X, y
    import dask.array as da

    sizes = tuple(len(part) for part in np.array_split(y, case.n_chunks))
    return da.from_array(X, chunks=(sizes, X.shape[1])), da.from_array(y, chunks=(sizes,))


def measure(case: Case) -> dict[str, Any]:
    """Cost and answer of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = case.estimator.fit(*read(case))
    coef = getattr(model, "coef_", np.zeros((1, 0)))[0]
    found = {
        "passes": model.n_passes_,
        "rounds": model.history_[-1].n_rounds if model.history_ else 0,
        "gap": model.dual_gap_,
        "primal": model.primal_objective_,
        "converged": bool(model.converged_),
        "collapsed": bool(model.collapsed_),
        # Of very many features, some inner products tell the coefficients as well.
        "coef": coef if coef.size <= 100 else np.cos(np.outer(np.arange(1, 20), np.arange(coef.size))) @ coef,
    }
    if hasattr(model, "evidence_"):
        evidence = model.evidence_
        found |= {"threshold": model.threshold_, "guaranteed": evidence.guaranteed}
        found |= {"negatives": [evidence.n_false_positive, evidence.n_negative], "recall": evidence.tpr_estimate}
    if hasattr(model, "cv_results_"):
        found |= {"reg": model.reg_, "tau_scale": model.tau_scale_, "shares": model.cv_results_["mean_test_score"]}
    return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """Numbers for JSON, with nine digits; None where there is none."""
    if isinstance(value, np.ndarray | list):
        return [plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.9g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


if __name__ == "__main__":
    lines = [f"{json.dumps(case.name)}: {json.dumps(measure(case))}" for case in cases()]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")
