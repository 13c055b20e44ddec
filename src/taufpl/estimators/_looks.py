"""Looks: how the thresholds over the life of a classifier share delta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from taufpl._sklearn import Interval, StrOptions
from taufpl.estimators.strategies import Plan
from taufpl.thresholding import ANY, ThresholdRecord

LOOKS_CONSTRAINT: list[Any] = [Interval(Integral, 1, None, closed="left"), StrOptions({ANY})]


def share_of_delta(looks: int | str, delta: float, history: Sequence[ThresholdRecord]) -> float:
    """The delta of the next threshold, or of the next sequence of thresholds, after those that were chosen before.

    - 1: all of it, every time.
    - n: one n-th for each threshold. A little more, 1 - (1 - delta)^(1/n), would do where no negative chooses twice,
      which nobody can tell; for n = 50 and delta = 0.05 that is 0.001026 beside 0.001.
    - "any": half of what is left, so that there is always something left for a new sequence.
    """
    if looks == 1:
        return delta
    spent = [each.delta_spent for each in history if each.delta_spent > 0]
    left = delta - sum(spent)
    if looks == ANY:
        share = left / 2.0
    else:
        n_left = int(looks) - len(spent)
        share = left / n_left if n_left > 0 else 0.0
    if share <= 0.0:
        raise ValueError(
            f"delta={delta:g} is spent: with looks={looks!r}, {len(spent)} thresholds have been chosen, which hold "
            "together. Fit a new model, with looks='any' where the number of thresholds is not known beforehand."
        )
    return share


def with_looks(plan: Plan, looks: int | str, history: Sequence[ThresholdRecord]) -> Plan:
    """A plan with the share of delta that the next threshold has, or the next sequence of negatives."""
    if looks == 1:
        return plan
    share = share_of_delta(looks, plan.bound_delta, history)
    return replace(plan, delta=share, sequences=() if looks == ANY else None)


def check_restart(looks: int | str, restart: bool) -> None:
    """Refuse to restart what is no sequence."""
    if restart and looks != ANY:
        raise ValueError(
            f"restart=True begins a new sequence of negatives, for looks='any'; got looks={looks!r}, where every "
            "threshold rests on new negatives alone."
        )
