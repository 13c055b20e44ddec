"""Where a model and its threshold come from: one table, four ways to divide it.

A strategy is written once, for rows wherever they are: it sees a `Table`, and a :class:`Fitter`, which fits models on
tables and scores others. It returns one or more models, whose mean score counts, and a threshold on that mean for each
tolerance. The evidence for it rests on negatives that the model that scored them had not seen.

To add a strategy, write it in `_ways.py`, which enters it in `STRATEGIES`, and name it in `_choices.THRESHOLDS`: the
parameter `threshold` of all classifiers, fitted scorers and the command take it from there.
"""

from taufpl.estimators.strategies._base import (
    STRATEGIES,
    Fitter,
    LinearFitter,
    Outcome,
    Plan,
    Strategy,
    check_segment_strategy,
    choose_strategy,
    most_held_out,
    span_of,
)
from taufpl.estimators.strategies._limits import Limits, at_other_tolerances, limits_of
from taufpl.estimators.strategies._ways import held_out_size, hold_out_rows, snapped

__all__ = [
    "STRATEGIES",
    "Fitter",
    "Limits",
    "LinearFitter",
    "Outcome",
    "Plan",
    "Strategy",
    "at_other_tolerances",
    "check_segment_strategy",
    "choose_strategy",
    "held_out_size",
    "hold_out_rows",
    "limits_of",
    "most_held_out",
    "snapped",
    "span_of",
]
