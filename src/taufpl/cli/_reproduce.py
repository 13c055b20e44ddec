"""``taufpl reproduce``: the paper's experiments, run again."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path

from taufpl.cli._output import Move, print_json, progress_bar
from taufpl.experiments import EXPERIMENTS, Trial, reproduce


def reproduce_command(
    experiment: str | None,
    dataset: list[str] | None,
    method: list[str] | None,
    rounds: int | None,
    jobs: int,
    seed: int,
    quick: bool,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Run ``taufpl reproduce``."""
    names = [experiment] if experiment else list(EXPERIMENTS)
    target = folder or Path("results-quick" if quick else "results")
    written = {}
    for name in names:
        with progress_bar(name) as move:
            paths = reproduce(
                name,
                target,
                datasets=dataset or (),
                methods=method or (),
                rounds=rounds,
                n_jobs=jobs,
                seed=seed,
                quick=quick,
                report=partial(_move, move),
                # As it was given, without the folder of the program.
                command=shlex.join(["taufpl", *sys.argv[1:]]),
            )
        written[name] = [str(path) for path in paths]
    if as_json:
        print_json(written)
        return
    for name, files in written.items():
        print(f"{name}:")
        for file in files:
            print(f"  {file}")


def _move(move: Move, done: int, total: int, trial: Trial | None) -> None:
    move(done, total, "" if trial is None else f"{trial.dataset} {trial.method} {trial.round}")
