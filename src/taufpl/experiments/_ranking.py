"""The ranking experiment: the share of test positives above the tau quantile of the test negatives."""

from __future__ import annotations

from taufpl.experiments import _paper
from taufpl.experiments._box_search import ranking_score, share_with_ties
from taufpl.experiments._data import read
from taufpl.experiments._methods import CHOOSERS
from taufpl.experiments._tasks import Row, Settings, Task, as_text, joined, noted, split

DATASETS = ("heart", "spambase", "spambase-unit", "real-sim", "w8a")
# The paper's systems, then others; ours come last.
RIVALS = ("CS-SVM", "TopPush", "SVM-pAUC-tight", "RankSVM")
# With the end of the solver chosen on the folds, beside the exact ones; named after the figures of the paper.
EARLY = {"tau-Rank-early": "tau-Rank", "2tau-Rank-early": "2tau-Rank"}
OURS = ("tau-Rank", "2tau-Rank", *EARLY, "automatic")
METHODS = RIVALS + OURS
# Left out unless it is asked for: its search at six tolerances takes hours on tens of thousands of rows.
SLOW = "SVM-pAUC-tight"
COLUMNS = (
    "dataset", "method", "round", "tau", "share", "share_with_ties", "params", "n_params", "n_fits", "search_seconds",
    "fit_seconds", "shared_search", "note",
)  # fmt: skip


def taus(dataset: str) -> list[float]:
    """The tolerances of the paper's table."""
    return _paper.taus("ranking", dataset)


def run(task: Task, settings: Settings) -> list[Row]:
    """One method on one split: search, fit, and one row a tolerance."""
    data = read(task.dataset)
    seed = settings.seed_of(task.round)
    train, test = split(data, seed)
    with noted() as notes:
        X, y = data.X[train], data.y[train]
        choices = CHOOSERS[task.method](X, y, taus(task.dataset), "ranking", seed, settings.coarse)
    rows = []
    for tau, choice in zip(taus(task.dataset), choices, strict=True):
        [share] = ranking_score(choice.rule, data.X[test], data.y[test], [tau])
        rows.append(
            {
                "dataset": task.dataset,
                "method": task.method,
                "round": task.round,
                "tau": tau,
                "share": float(share),
                "share_with_ties": share_with_ties(choice.rule, data.X[test], data.y[test], tau),
                "params": as_text(choice.params),
                "n_params": choice.n_params,
                "n_fits": choice.n_fits,
                "search_seconds": choice.search_seconds,
                "fit_seconds": choice.fit_seconds,
                "shared_search": int(choice.shared),
                "note": joined(notes),
            }
        )
    return rows
