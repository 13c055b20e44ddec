"""Where a model and its threshold come from: one table, four ways to divide it.

A strategy is written once, for rows wherever they are: it sees a `Table`, and a :class:`Fitter`, which fits models on
tables and scores others. It returns one or more models, whose mean score counts, and a threshold on that mean for each
tolerance. The evidence for it rests on negatives that the model that scored them had not seen.

To add a strategy, write it in a file of its own and enter it in `STRATEGIES`: the parameter `threshold` of all
classifiers, fitted scorers and the command line take it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taufpl.estimators._labels import warn_user
from taufpl.estimators._table import Scores, Table
from taufpl.estimators.strategies._base import Fitter, Outcome, Plan, largest
from taufpl.estimators.strategies._cross_fit import cross_fit
from taufpl.estimators.strategies._hold_out import enough_for_proof, held_out_count, hold_out, needed_by
from taufpl.estimators.strategies._out_of_bootstrap import out_of_bootstrap, round_rule
from taufpl.estimators.strategies._train_quantile import train_quantile
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import Evidence, JointOrderStatistic, ThresholdRule, TrainQuantile

__all__ = ["STRATEGIES", "Fitter", "Outcome", "Plan", "Strategy", "choose_strategy", "held_out_count", "largest"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to choose the threshold.

    Attributes
    ----------
    run : callable
        Divides a table, fits, and chooses.
    summary : str
        What it does, for help texts.
    promises : callable
        Whether it keeps the tolerance with probability 1 - delta, proven or about, by the settings of a plan. Exact
        copies among the rows then void the promise.
    holds_out : bool
        Whether fits learn from a part of the rows only, which can be the earlier ones.
    rule : callable
        What a plan chooses the threshold of a fitted scorer by, if it promises nothing: a rule for a tolerance.
    """

    run: Callable[[Fitter, Table, Plan], Outcome]
    summary: str
    promises: Callable[[Plan], bool] = lambda plan: True
    holds_out: bool = False
    rule: Callable[[Plan], Callable[[float], ThresholdRule]] = lambda plan: TrainQuantile

    def calibrate(self, scores: Scores, plan: Plan) -> tuple[Evidence, ...]:
        """Thresholds of a fitted scorer, from scores of rows that it has not seen."""
        if self.promises(plan):
            return JointOrderStatistic(plan.taus, plan.bound_delta, plan.insufficient).choose_all(scores.negative)
        positive = scores.positive if scores.positive.size else None
        return tuple(self.rule(plan)(tau).choose(scores.negative, positive) for tau in plan.taus)


STRATEGIES = {
    "np": Strategy(hold_out, "held-out negatives choose, with a guarantee", holds_out=True),
    "cross": Strategy(cross_fit, "all rows, corrected by folds; measured, not proven"),
    "oob": Strategy(
        out_of_bootstrap,
        "the paper's mean over random rounds",
        promises=lambda plan: plan.delta is not None,
        rule=round_rule,
    ),
    "train": Strategy(
        train_quantile, "the quantile of the training negatives, optimistic", promises=lambda plan: False
    ),
}


def choose_strategy(threshold: str, table: Table, plan: Plan) -> str:
    """The strategy that "auto" stands for: "np" with enough negatives for a proof, else "cross", with a warning."""
    n_units, ordered = table.n_negative_units, table.is_ordered
    if threshold != "auto":
        if ordered and not STRATEGIES[threshold].holds_out:
            raise ValueError(
                f"order is for threshold='np', or 'auto' with enough negatives; got threshold={threshold!r}, whose "
                "folds mix earlier and later rows."
            )
        return threshold
    needed, enough = needed_by(plan), enough_for_proof(plan)
    if n_units >= max(2, enough) or plan.insufficient == "infinite":
        return "np"
    warn_user(
        f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs {needed:,} negatives held out for a proof, at "
        f"least {enough:,} in all; there are {n_units:,}. The threshold was chosen by 'cross', which is measured, not "
        f"proven{', and which does not respect the order of the rows' if ordered else ''}. Collect more negatives, "
        f"raise tau or delta, or set threshold='cross'{' and leave order out' if ordered else ''} to accept this.",
        TooFewNegativesWarning,
    )
    return "cross"
