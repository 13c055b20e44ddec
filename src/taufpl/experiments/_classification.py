"""The classification experiment: rates and NP-scores of whole classifiers, threshold included."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from taufpl._types import Mask
from taufpl.baselines import CostSensitiveSVM
from taufpl.estimators import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.experiments import _paper
from taufpl.experiments._box_search import Params, np_score, rates
from taufpl.experiments._methods import CHOOSERS
from taufpl.experiments._paper import LabelledData
from taufpl.experiments._summary import CellKey, Mean, by_cell, cell_table, mean, rate, share, write_table
from taufpl.experiments._trials import Row, RunSettings, Trial, joined, noted
from taufpl.thresholding import negatives_needed

# The paper's systems with the thresholds of the paper, our automatic ranking, and each scorer under the guarantee.
OWN = ("BS-SVM", "CS-LR", "CS-SVM", "CS-SVM-OOB", "tau-FPL", "2tau-FPL", "default")
GUARANTEED = ("BS-SVM np", "CS-LR np", "CS-SVM np", "tau-FPL np", "2tau-FPL np")
METHODS = OWN + GUARANTEED
OURS = ("tau-FPL", "2tau-FPL")
DELTA = 0.05
COLUMNS = ("tau", "fpr", "tpr", "params", "n_fits", "search_seconds", "note")

# The scorer behind a classifier, by the name that it has in the ranking experiment.
_SCORERS = {"CS-SVM-OOB": "CS-SVM", "tau-FPL": "tau-Rank", "2tau-FPL": "2tau-Rank"}
_TAU_SCALES = {"tau-FPL": 1.0, "2tau-FPL": 2.0}

taus = partial(_paper.taus, "classification")


class Decisions(NamedTuple):
    """The rows that a classifier calls positive, None where it refuses its guarantee, and the cost of its search."""

    alarms: Mask | None
    params: Params = {}  # noqa: RUF012
    n_fits: int = 0
    search_seconds: float = 0.0
    note: str = ""


def run(trial: Trial, settings: RunSettings) -> list[Row]:
    """Fit one method on one split, and leave one row a tolerance."""
    train, test = _paper.read(trial.dataset).split(settings.seed_of(trial.round))
    decide = _decide_own if trial.method in OWN else _decide_guaranteed
    with noted() as notes:
        every = decide(trial, train, test.X, taus(trial.dataset), settings)
    rows = []
    for tau, decisions in zip(taus(trial.dataset), every, strict=True):
        alarms, note = decisions.alarms, "; ".join(filter(None, (decisions.note, joined(notes))))
        fpr, tpr = (math.nan, math.nan) if alarms is None else rates(alarms, test.y)
        row = (tau, fpr, tpr, json.dumps(decisions.params), decisions.n_fits, decisions.search_seconds, note)
        rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


def _decide_own(
    trial: Trial, train: LabelledData, new_X: Any, taus: list[float], settings: RunSettings
) -> list[Decisions]:
    """Decisions with the threshold that the method comes with."""
    seed = settings.seed_of(trial.round)
    if trial.method == "default":
        models = (TauFPLClassifier(tau, threshold="cross", random_state=seed) for tau in taus)
        return [Decisions(model.fit(*train).predict(new_X) == 1) for model in models]
    if trial.method in _SCORERS:
        return _decide_out_of_bootstrap(trial, train, new_X, taus, settings)
    choices = CHOOSERS[trial.method](*train, taus, "np", seed, settings.coarse)
    return [
        Decisions(choice.rule.scores(new_X) > choice.rule.threshold(tau), *choice.search)
        for tau, choice in zip(taus, choices, strict=True)
    ]


def _decide_out_of_bootstrap(
    trial: Trial, train: LabelledData, new_X: Any, taus: list[float], settings: RunSettings
) -> list[Decisions]:
    """Decisions of a scorer that is chosen by its ranking, as the paper chooses its own, and then gets a threshold."""
    seed, scorer = settings.seed_of(trial.round), _SCORERS[trial.method]
    known = settings.chosen(trial.dataset, scorer, trial.round, taus)
    if known:
        searches: list[tuple[Params, int, float]] = [(params, 0, 0.0) for params in known]
    else:
        choices = CHOOSERS[scorer](*train, taus, "ranking", seed, settings.coarse)
        searches = [choice.search for choice in choices]
    models = (_out_of_bootstrap(trial.method, search[0], tau, seed) for tau, search in zip(taus, searches, strict=True))
    return [
        Decisions(model.fit(*train).predict(new_X) == 1, *search)
        for model, search in zip(models, searches, strict=True)
    ]


def _out_of_bootstrap(method: str, params: Params, tau: float, seed: int) -> Any:
    threshold: Params = {"threshold": "oob", "delta": None, "random_state": seed}
    if method in _TAU_SCALES:
        return TauFPLClassifier(tau, ranking="paper", tau_scale=_TAU_SCALES[method], **threshold, **params)
    return NeymanPearsonClassifier(CostSensitiveSVM(**params), tau, **threshold)


def _decide_guaranteed(
    trial: Trial, train: LabelledData, new_X: Any, taus: list[float], settings: RunSettings
) -> list[Decisions]:
    """Decisions under a threshold that half of the negatives choose, which see neither the search nor the fit."""
    seed, method = settings.seed_of(trial.round), trial.method.removesuffix(" np")
    X, y = train
    negatives = np.random.default_rng(seed).permutation(np.flatnonzero(y == 0))
    held_out = np.sort(negatives[: negatives.size // 2])
    rest = np.setdiff1d(np.arange(y.size), held_out)
    enough = [tau for tau in taus if held_out.size >= negatives_needed(tau, DELTA)]
    choices = CHOOSERS[_SCORERS.get(method, method)](X[rest], y[rest], enough, "ranking", seed, settings.coarse)
    every = [Decisions(None, note=f"{held_out.size} negatives are too few") for _ in taus]
    for tau, choice in zip(enough, choices, strict=True):
        scorer = FrozenEstimator(choice.rule.model)
        model = NeymanPearsonClassifier(scorer, tau, delta=DELTA).fit(X[held_out], y[held_out])
        every[taus.index(tau)] = Decisions(model.predict(new_X) == 1, *choice.search)
    return every


class ClassifierCell(NamedTuple):
    """Rates of a classifier over rounds.

    `mean_score` is the mean of the rounds' NP-scores, `score` the NP-score of the mean rates, which is what the paper's
    table shows, and `violations` the share of rounds in which the rate on the test part was above tau.
    """

    fpr: Mean
    tpr: Mean
    mean_score: Mean
    score: float
    violations: float


Cells = dict[CellKey, ClassifierCell | None]


def classifier_cells(rows: Iterable[Row]) -> Cells:
    """The rates of each cell; None where there were too few negatives for the guarantee."""
    cells: Cells = {}
    for key, own in by_cell(rows).items():
        tau = key[1]
        both = [(float(row["fpr"]), float(row["tpr"])) for row in own if not math.isnan(float(row["fpr"]))]
        if not both:
            cells[key] = None
            continue
        fpr, tpr = (mean(part) for part in zip(*both, strict=True))
        scores = mean(np_score(*pair, tau) for pair in both)
        violations = sum(pair[0] > tau for pair in both) / len(both)
        cells[key] = ClassifierCell(fpr, tpr, scores, np_score(fpr.value, tpr.value, tau), violations)
    return cells


def write(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and the pictures."""
    from taufpl.experiments._plots import draw_classification

    cells = classifier_cells(rows)
    path = write_table(
        folder,
        "# Classification: rates on the test part and NP-scores",
        f"    {command}",
        "(mean FPR, mean TPR), NP-score of the mean rates, which is what the paper's table shows, and in brackets "
        "the mean of the rounds' NP-scores ± its standard error; under it what the paper prints. Less is better. "
        "`default` is the automatic ranking of `TauFPLClassifier` with threshold `cross`: it uses all negatives.",
        score_table(cells),
        "## What it comes to",
        summary(cells),
        "## Share of rounds with a test FPR above tau, with each method's own threshold",
        violation_table(cells, OWN),
        f'## The same scorers under `threshold="np"` (delta {DELTA:g}): share of rounds above tau, and mean TPR',
        "Half of the training negatives choose the threshold and see neither the search nor the fit. The rate on "
        "a test part scatters around the true one, so that it may exceed tau in more rounds than the true rate "
        'does. "few": too few negatives for the guarantee, which is then refused.',
        violation_table(cells, GUARANTEED, with_recall=True),
    )
    return [path, *draw_classification(cells, folder)]


def score_table(cells: Cells) -> str:
    """The mean rates and NP-scores, with the paper's figures under them."""
    return cell_table("classification", _paper.datasets("classification"), OWN, cells, partial(_cell, cells))


def _cell(cells: Cells, dataset: str, tau: float, method: str) -> str:
    cell, text = cells.get((dataset, tau, method)), "–"
    if cell is not None:
        text = (
            f"({rate(cell.fpr.value)}, {share(cell.tpr.value)}), **{share(cell.score)}** "
            f"[{share(cell.mean_score.value)} ± {share(cell.mean_score.error)}]"
        )
    printed = _paper.figure("classification", dataset, tau, method)
    if printed is not None:
        text += f"<br>paper ({rate(printed[0])}, {share(printed[1])}), {share(printed[2])}"
    return text


def summary(cells: Cells) -> str:
    """The numbers of cells that reach the paper."""
    scores = {key: cell.score for key, cell in cells.items() if cell is not None and key[2] in OWN}
    places = sorted({key[:2] for key in scores if key[2] in OURS})

    def best(place: tuple[str, float], methods: Sequence[str]) -> float:
        return min((scores[*place, method] for method in methods if (*place, method) in scores), default=math.inf)

    lines = []
    for name, methods in [*((method, (method,)) for method in OURS), ("The better of tau-FPL and 2tau-FPL", OURS)]:
        compared = [place for place in places if best(place, methods) < math.inf]
        papers = [min(_paper.figure("classification", *place, method)[2] for method in methods) for place in compared]
        reached = sum(best(place, methods) <= paper for place, paper in zip(compared, papers, strict=True))
        lines.append(
            f"- {name}: NP-score of the mean rates at or under the paper's in {reached} of {len(compared)} cells."
        )
    for name, methods in (("tau-FPL or 2tau-FPL", OURS), ("default", ("default",))):
        lowest = sum(best(place, methods) <= best(place, OWN) for place in places)
        lines.append(
            f"- {name}: the lowest NP-score of all systems run, or level with it, in {lowest} of {len(places)} cells."
        )
    return "\n".join(lines)


def violation_table(cells: Cells, methods: Sequence[str], *, with_recall: bool = False) -> str:
    """The share of rounds in which each classifier was above the tolerance on the test part."""

    def text(*key: Any) -> str:
        cell = cells.get(key)
        if cell is None:
            return "few" if key in cells else "–"
        return f"{cell.violations:.2f}" + (f", {share(cell.tpr.value)}" if with_recall else "")

    present = {dataset for dataset, _, _ in cells}
    datasets = [name for name in _paper.datasets("classification") if name in present]
    return cell_table("classification", datasets, methods, cells, text)
