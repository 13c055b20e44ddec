"""The classification experiment: rates and NP-scores of whole classifiers, threshold included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from taufpl.baselines import CostSensitiveSVM
from taufpl.estimators import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.experiments import _paper
from taufpl.experiments._box_search import Params, rates
from taufpl.experiments._data import read
from taufpl.experiments._methods import CHOOSERS
from taufpl.experiments._tasks import Row, Settings, Task, as_text, joined, noted, split
from taufpl.thresholding import negatives_needed

Labels = NDArray[np.int64]
Alarms = NDArray[np.bool_]

# The paper's systems with the thresholds of the paper, our automatic ranking, and each scorer under the guarantee.
OWN = ("BS-SVM", "CS-LR", "CS-SVM", "CS-SVM-OOB", "tau-FPL", "2tau-FPL", "default")
GUARANTEED = ("BS-SVM np", "CS-LR np", "CS-SVM np", "tau-FPL np", "2tau-FPL np")
METHODS = OWN + GUARANTEED
OURS = ("tau-FPL", "2tau-FPL")
DELTA = 0.05
COLUMNS = ("dataset", "method", "round", "tau", "fpr", "tpr", "params", "n_fits", "search_seconds", "note")

# The scorer behind a classifier, by the name that it has in the ranking experiment.
_SCORERS = {"CS-SVM-OOB": "CS-SVM", "tau-FPL": "tau-Rank", "2tau-FPL": "2tau-Rank"}
_TAU_SCALES = {"tau-FPL": 1.0, "2tau-FPL": 2.0}


def taus(dataset: str) -> list[float]:
    """The tolerances of the paper's table."""
    return _paper.taus("classification", dataset)


def run(task: Task, settings: Settings) -> list[Row]:
    """One method on one split: one row a tolerance."""
    data = read(task.dataset)
    train, test = split(data, settings.seed_of(task.round))
    decide = _decide_own if task.method in OWN else _decide_guaranteed
    with noted() as notes:
        rows = decide(task, data.X[train], data.y[train], data.X[test], taus(task.dataset), settings)
    for tau, row in zip(taus(task.dataset), rows, strict=True):
        alarms = row.pop("alarms")
        fpr, tpr = (math.nan, math.nan) if alarms is None else rates(alarms, data.y[test])
        row |= {"dataset": task.dataset, "method": task.method, "round": task.round, "tau": tau, "fpr": fpr, "tpr": tpr}
        row["note"] = "; ".join(filter(None, (row.get("note", ""), joined(notes))))
    return rows


def _decide_own(task: Task, X: Any, y: Labels, new_X: Any, taus: list[float], settings: Settings) -> list[Row]:
    """With the threshold that the method comes with."""
    seed = settings.seed_of(task.round)
    if task.method == "default":
        models = (TauFPLClassifier(tau, threshold="cross", random_state=seed) for tau in taus)
        return [_row(model.fit(X, y).predict(new_X) == 1) for model in models]
    if task.method in _SCORERS:
        return _decide_out_of_bootstrap(task, X, y, new_X, taus, settings)
    choices = CHOOSERS[task.method](X, y, taus, "np", seed, settings.coarse)
    return [
        _row(
            choice.rule.scores(new_X) > choice.rule.threshold(tau), choice.params, choice.n_fits, choice.search_seconds
        )
        for tau, choice in zip(taus, choices, strict=True)
    ]


def _decide_out_of_bootstrap(
    task: Task, X: Any, y: Labels, new_X: Any, taus: list[float], settings: Settings
) -> list[Row]:
    """The scorer is chosen by what it ranks, as the paper does for its own; then comes the threshold."""
    seed, scorer = settings.seed_of(task.round), _SCORERS[task.method]
    known = settings.chosen(task.dataset, scorer, task.round, taus)
    searched = [(params, 0, 0.0) for params in known or ()]
    if not searched:
        choices = CHOOSERS[scorer](X, y, taus, "ranking", seed, settings.coarse)
        searched = [(choice.params, choice.n_fits, choice.search_seconds) for choice in choices]
    rows = []
    for tau, (params, n_fits, seconds) in zip(taus, searched, strict=True):
        model = _out_of_bootstrap(task.method, params, tau, seed)
        rows.append(_row(model.fit(X, y).predict(new_X) == 1, params, n_fits, seconds))
    return rows


def _out_of_bootstrap(method: str, params: Params, tau: float, seed: int) -> Any:
    if method in _TAU_SCALES:
        return TauFPLClassifier(
            tau,
            ranking="paper",
            tau_scale=_TAU_SCALES[method],
            threshold="oob",
            delta=None,
            random_state=seed,
            **params,
        )
    return NeymanPearsonClassifier(CostSensitiveSVM(**params), tau, threshold="oob", delta=None, random_state=seed)


def _decide_guaranteed(task: Task, X: Any, y: Labels, new_X: Any, taus: list[float], settings: Settings) -> list[Row]:
    """Half of the negatives see neither the search nor the fit, and choose the threshold."""
    seed, method = settings.seed_of(task.round), task.method.removesuffix(" np")
    rng = np.random.default_rng(seed)
    negatives = rng.permutation(np.flatnonzero(y == 0))
    held_out = np.sort(negatives[: negatives.size // 2])
    rest = np.setdiff1d(np.arange(y.size), held_out)
    enough = [tau for tau in taus if held_out.size >= negatives_needed(tau, DELTA)]
    choices = CHOOSERS[_SCORERS.get(method, method)](X[rest], y[rest], enough, "ranking", seed, settings.coarse)
    rows = [_row(None, note=f"{held_out.size} negatives are too few") for _ in taus]
    for tau, choice in zip(enough, choices, strict=True):
        scorer = FrozenEstimator(choice.rule.model)
        model = NeymanPearsonClassifier(scorer, tau, delta=DELTA).fit(X[held_out], y[held_out])
        alarms = model.predict(new_X) == 1
        rows[taus.index(tau)] = _row(alarms, choice.params, choice.n_fits, choice.search_seconds)
    return rows


def _row(
    alarms: Alarms | None, params: Params | None = None, n_fits: int = 0, seconds: float = 0.0, note: str = ""
) -> Row:
    return {
        "alarms": alarms,
        "params": as_text(params or {}),
        "n_fits": n_fits,
        "search_seconds": seconds,
        "note": note,
    }
