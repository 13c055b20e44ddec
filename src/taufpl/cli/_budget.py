"""Options of ``taufpl fit`` that say how many alarms a day may have, in the place of a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from taufpl._records import read_record
from taufpl._types import Array
from taufpl.cli._output import confidence, percent, print_rows
from taufpl.cli._pipelines import FitOptions
from taufpl.estimators.strategies import most_held_out
from taufpl.planning import AlarmBudget, alarm_budget
from taufpl.thresholding import Evidence

# The key under which documents, and the header of a model file, keep the budget.
BUDGET = "budget"
# Other budgets of the table, as multiples of the one that is asked for.
_OTHERS = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A budget of alarms as it was asked for, before the labels are read."""

    alarms_per_day: int
    volume: int
    base_rate: float | None

    def settle(self, options: FitOptions, y: Array, positive: Any) -> tuple[FitOptions, list[AlarmBudget]]:
        """Options with the tolerance that the budget allows and its share of delta; then the budget, and others.

        The others are half of it and its double, as far as they can be promised.
        """
        try:
            found = [self._budget(self.alarms_per_day, options, y, positive)]
        except ValueError as error:
            hint = " The labels in DATA bound the base rate; --base-rate states that of the traffic."
            raise ValueError(f"{error}{hint if self.base_rate is None else ''}") from error
        for times in _OTHERS:
            with suppress(ValueError):
                found.append(self._budget(round(times * self.alarms_per_day), options, y, positive))
        return replace(options, tau=found[0].tau, delta=found[0].delta_threshold, threshold="np"), found

    def _budget(self, alarms: int, options: FitOptions, y: Array, positive: Any) -> AlarmBudget:
        n_positive = int((y == positive).sum())
        n_negative = len(y) - n_positive
        n_choosing = max(0, most_held_out(n_negative, options.holdout)) if options.score is None else n_negative
        return alarm_budget(
            alarms,
            self.volume,
            self.base_rate,
            positives=(n_positive, len(y)) if self.base_rate is None else None,
            n_negative=n_choosing,
            delta=options.delta,
            looks=options.looks,
        )


def budget_record(budgets: Sequence[AlarmBudget], evidence: Sequence[Evidence]) -> dict[str, Any]:
    """The budget of a fit, and the recall of others beside it, for its document; nothing without a budget."""
    if not budgets:
        return {}
    budget = budgets[0]
    ascending = sorted(zip(budgets, evidence, strict=False), key=lambda pair: pair[0].tau)
    table = [
        {
            "alarms_per_day": each.alarms_per_day,
            "tau": each.tau,
            "recall": found.tpr_estimate,
            "recall_interval": found.tpr_interval,
        }
        for each, found in ascending
    ]
    named = {**asdict(budget), "delta": budget.delta, "expected_alarms": budget.expected_alarms}
    return {BUDGET: {**named, "recalls": table}}


def budget_promise(budget: AlarmBudget, guaranteed: bool) -> tuple[str, str]:
    """A budget as a fact about a model, whose tolerance is proven or not."""
    promise = (
        f"with {confidence(budget.delta)}, at most {budget.alarms_per_day:,} alarms on a day of {budget.volume:,} "
        f"rows; in the mean at most {budget.expected_alarms:,.0f}"
    )
    unproven = "" if guaranteed else "not promised, since the tolerance is not proven; aimed at: "
    return BUDGET, unproven + promise


def budget_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What is promised about the alarms of a day."""
    budget = document.get(BUDGET)
    if budget is None:
        return []
    shares = f"threshold {budget['delta_threshold']:.4g}, day {budget['delta_day']:.4g}"
    source = "as given"
    if budget["delta_base_rate"]:
        shares += f", base rate {budget['delta_base_rate']:.4g}"
        source = (
            f"from {document['n_positive']:,} positives of {document['n_rows']:,} rows; give --base-rate where the "
            "traffic has fewer"
        )
    return [
        budget_promise(read_record(AlarmBudget, budget, BUDGET), document["guaranteed"]),
        ("base rate", f"at most {percent(budget['base_rate'])}, {source}"),
        ("delta", f"{budget['delta']:.4g}, shared: {shares}"),
    ]


def print_budgets(document: dict[str, Any]) -> None:
    """The recall under other budgets, each by itself, where it was measured."""
    rows = [row for row in document.get(BUDGET, {}).get("recalls", []) if row["recall_interval"]]
    if len(rows) < 2:
        return
    print_rows(
        "What other budgets would find",
        ["alarms a day", "tolerance", "recall", f"interval, {confidence(document['delta'])}"],
        [
            [f"{row['alarms_per_day']:,}", percent(row["tau"]), percent(row["recall"]),
             " to ".join(percent(end) for end in row["recall_interval"])]
            for row in rows
        ],
        numeric=(0, 1, 2),
    )  # fmt: skip
