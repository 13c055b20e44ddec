"""Options of ``taufpl fit`` that contradict each other, refused before anything is loaded or read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taufpl._choices import OTHERS
from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import SegmentTolerance


def refuse_beside_score(
    model: str, threshold: str, effort: Any, reg: Any, holdout: Any, drop: Any, time: str | None
) -> None:
    """Refuse options of ``fit`` that mean nothing where there is nothing to fit but the threshold."""
    unfitted, all_choose = "the scores are there, and no model is fitted", "all negatives choose the threshold"
    given = {
        f"--model {model}": (model != "auto", unfitted),
        "--effort": (effort is not None, unfitted),
        "--reg": (reg != "cv", unfitted),
        "--holdout": (holdout is not None, all_choose),
        f"--threshold {threshold}": (threshold not in ("auto", "np"), "the threshold is that with the guarantee, np"),
        "--drop": (bool(drop), "all other columns are left out anyway"),
        "--time": (time is not None, f"{all_choose}; give a file of the latest rows instead"),
    }
    for option, (is_given, why) in given.items():
        if is_given:
            raise CommandLineError(f"{option} means nothing with --score: {why}.")


def refuse_tolerances(segment: str | None, tau_for: Sequence[SegmentTolerance]) -> None:
    """Refuse ``--tau-for`` without segments, for all others, and twice for one segment."""
    if tau_for and segment is None:
        raise CommandLineError("--tau-for is for --segment COLUMN, which says of which segment a row is.")
    found = set[str]()
    for name, _ in tau_for:
        if name == OTHERS:
            raise CommandLineError(f"--tau-for {OTHERS}: --tau is the tolerance of all segments without their own.")
        if name in found:
            raise CommandLineError(f"--tau-for {name} is given twice.")
        found.add(name)


def refuse_beside_segment(model: str, threshold: str, budget: float | None) -> None:
    """Refuse options of ``fit`` that have no meaning with a threshold for each segment."""
    if threshold not in ("auto", "np"):
        raise CommandLineError(f"--segment is for --threshold auto or np; {threshold} has one threshold for all rows.")
    if model == "kernel":
        raise CommandLineError("--segment is not for --model kernel, which has one threshold for all rows.")
    if budget is not None:
        raise CommandLineError("--alarms-per-day is for one threshold; with --segment give --tau and --tau-for.")


def refuse_beside_budget(
    alarms_per_day: int | None,
    volume: int | None,
    base_rate: float | None,
    tau: float | None,
    threshold: str,
    group: str | None,
) -> None:
    """Refuse half a budget of alarms, and options that contradict one."""
    if alarms_per_day is None:
        if volume is not None or base_rate is not None:
            raise CommandLineError("--volume and --base-rate belong to --alarms-per-day, which is not given.")
        return
    if tau is not None:
        raise CommandLineError("--tau and --alarms-per-day exclude each other: the budget finds the tolerance.")
    if volume is None:
        raise CommandLineError("--alarms-per-day needs --volume, the number of rows a day.")
    if alarms_per_day >= volume:
        raise CommandLineError(
            f"--alarms-per-day {alarms_per_day} must be less than --volume {volume}: no day has more alarms than rows."
        )
    if threshold not in ("auto", "np"):
        raise CommandLineError(f"--alarms-per-day is a promise, which --threshold {threshold} cannot prove.")
    if group is not None:
        raise CommandLineError(
            "--alarms-per-day counts rows, and with --group the guarantee is about one row of each group."
        )
