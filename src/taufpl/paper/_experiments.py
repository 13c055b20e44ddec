"""The experiments by name, and the one function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taufpl._checks import did_you_mean
from taufpl.exceptions import DatasetError
from taufpl.paper import _accuracy as accuracy, _timing as timing
from taufpl.paper._protocol import (
    ROUNDS_LARGE,
    ROUNDS_SMALL,
    SMALL_ROWS,
    Report,
    RoundsFile,
    Row,
    RunSettings,
    Trial,
    Work,
    read_dataset,
    run_trials,
    table_datasets,
    table_taus,
)

# Datasets, methods, rounds or None for the paper's number, whether to be quick.
MakeTrials = Callable[[Sequence[str], Sequence[str], int | None, bool], list[Trial]]

_QUICK_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Experiment:
    """One of the paper's tables or figures: `plan` makes its trials, `work` does one, `write` reports on all rows.

    Nothing may run beside an experiment that `is_timed`.
    """

    datasets: tuple[str, ...]
    quick_datasets: tuple[str, ...]
    methods: tuple[str, ...]
    columns: tuple[str, ...]
    plan: MakeTrials
    work: Work
    write: Callable[[Sequence[Row], Path, str], list[Path]]
    is_timed: bool = False


def _plan_rounds(table: str) -> MakeTrials:
    def plan(datasets: Sequence[str], methods: Sequence[str], rounds: int | None, quick: bool) -> list[Trial]:
        trials = []
        # The largest sets first: a long trial that starts last would leave cores idle.
        for dataset in sorted(datasets, key=lambda name: -read_dataset(name).y.size):
            is_large = read_dataset(dataset).y.size > SMALL_ROWS
            usual = ROUNDS_LARGE if is_large else ROUNDS_SMALL
            trials += [
                Trial(dataset, method, number, len(table_taus(table, dataset)))
                for number in range(rounds or (_QUICK_ROUNDS if quick else usual))
                for method in methods
                if not (is_large and len(methods) > 1 and method == accuracy.SLOW)
            ]
        return trials

    return plan


EXPERIMENTS = {
    "ranking": Experiment(
        accuracy.RANKING_SETS, ("heart",), accuracy.RANKING_METHODS, accuracy.RANKING_COLUMNS,
        _plan_rounds("ranking"), accuracy.run_ranking, accuracy.write_ranking,
    ),
    "classification": Experiment(
        tuple(table_datasets("classification")), ("heart", "breast-cancer"), accuracy.CLASSIFICATION_METHODS,
        accuracy.CLASSIFICATION_COLUMNS, _plan_rounds("classification"), accuracy.run_classification,
        accuracy.write_classification,
    ),
    "projection": Experiment(
        tuple(timing.PROJECTIONS), tuple(timing.PROJECTIONS), timing.PROJECTION_METHODS, timing.PROJECTION_COLUMNS,
        timing.plan_projections, timing.run_projection, timing.PROJECTION_REPORT.write, is_timed=True,
    ),
    "scaling": Experiment(
        ("w8a", "spambase", "real-sim"), ("spambase",), timing.SCALING_METHODS, timing.SCALING_COLUMNS,
        timing.plan_fits, timing.run_fit, timing.SCALING_REPORT.write, is_timed=True,
    ),
}  # fmt: skip


def reproduce(
    name: str,
    folder: str | Path = "results",
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    rounds: int | None = None,
    n_jobs: int = 1,
    seed: int = 0,
    quick: bool = False,
    report: Report | None = None,
    command: str | None = None,
) -> list[Path]:
    """Run one of the paper's experiments, or go on with it, and write its tables and pictures.

    Rounds are written as they finish: interrupted, the same call goes on where it was.

    Parameters
    ----------
    name : {"ranking", "classification", "projection", "scaling"}
    folder : path, default="results"
        Everything goes to a folder of the experiment's name in it.
    datasets, methods : sequence of str
        All there are by default; datasets that would have to be downloaded are then left out. One that is named here
        is downloaded if need be. SVM-pAUC-tight runs on more than 10,000 rows only if it is the one method named.
    rounds : int, default=None
        30 for up to 10,000 rows and 10 above, as in the paper.
    n_jobs : int, default=1
        Trials at the same time. Experiments that measure time do one at a time whatever it says.
    seed : int, default=0
    quick : bool, default=False
        The smallest sets, 2 rounds, thin grids.
    report : callable, default=None
        Told of progress: how many trials are done, how many there are, and which was finished last, or None.
    command : str, default=None
        The command that the tables name as their origin.

    Returns
    -------
    list of Path
        The files that were written.

    Examples
    --------
    >>> import tempfile
    >>> from taufpl.experiments import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = reproduce("ranking", folder, datasets=["heart"], methods=["tau-Rank"], rounds=1, quick=True)
    ...     "paper .541" in paths[0].read_text("utf-8")
    True
    """
    experiment = EXPERIMENTS[_known("experiment", name, EXPERIMENTS)]
    chosen_methods = [_known("method", each, experiment.methods) for each in methods] or experiment.methods
    chosen_sets = [_known("dataset", each, experiment.datasets) for each in datasets]
    present = _available(experiment, chosen_sets, quick)
    ranking = Path(folder).absolute() / "ranking" / "rounds.csv"
    settings = RunSettings(seed, quick, str(ranking) if name == "classification" and ranking.exists() else None)
    # A continued run must share the settings that decide the figures with the run before.
    store = RoundsFile(Path(folder) / name, experiment.columns, {"seed": seed, "coarse": quick})
    trials = experiment.plan(present, chosen_methods, rounds, quick)
    tell = report or (lambda done, total, trial: None)
    run_trials(experiment.work, trials, settings, store, 1 if experiment.is_timed else n_jobs, tell)
    how = command or f"taufpl.experiments.reproduce({name!r}, seed={seed})"
    return [*experiment.write(store.rows, store.path.parent, how), store.path]


def _available(experiment: Experiment, chosen: Sequence[str], quick: bool) -> list[str]:
    """The datasets to run on; of those that nobody named, the ones at hand."""
    if experiment.datasets == tuple(timing.PROJECTIONS):
        return list(chosen or experiment.datasets)
    present = []
    for name in chosen or (experiment.quick_datasets if quick else experiment.datasets):
        try:
            read_dataset(name, download=bool(chosen))
        except DatasetError:
            if chosen:
                raise
            continue
        present.append(name)
    return present


def _known(kind: str, name: str, names: Any) -> str:
    if name in names:
        return name
    raise ValueError(f"there is no {kind} {name!r}: choose from {', '.join(names)}.{did_you_mean(name, names)}")
