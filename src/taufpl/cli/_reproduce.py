"""``taufpl reproduce``: the paper's experiments, run again."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taufpl._choices import EXPERIMENTS
from taufpl.cli._output import Move, print_json, progress_bar

if TYPE_CHECKING:
    from taufpl.experiments import Trial


def reproduce(
    experiment: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}; all of them by default.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Run on this dataset; may be given several times. [default: all at hand]")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Run this method; may be given several times. [default: all]")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="[default: 30 for up to 10,000 rows, 10 above, as in the paper]")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trials at the same time; -1 for all cores.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="The smallest sets, 2 rounds, thin grids.")] = False,
    folder: Annotated[Path | None, typer.Option("-o", "--folder", help="[default: results, or results-quick]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Run the paper's experiments again and write tables, pictures and raw rounds.

    Interrupted, the same command goes on where it was.
    """
    from taufpl import experiments

    names = [experiment] if experiment else list(EXPERIMENTS)
    target = folder or Path("results-quick" if quick else "results")
    written = {}
    for name in names:
        with progress_bar(name) as move:
            paths = experiments.reproduce(
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
