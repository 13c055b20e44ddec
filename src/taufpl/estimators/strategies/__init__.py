"""Where a model and its threshold come from: one table, four ways to divide it.

A strategy is written once, for rows wherever they are: it sees a `Table`, and a :class:`Fitter`, which fits models on
tables and scores others. It returns one or more models, whose mean score counts, and a threshold on that mean for each
tolerance. The evidence for it rests on negatives that the model that scored them had not seen.

To add a strategy, write its class in `_ways.py`, enter it in `STRATEGIES` there, and name it in `_choices.THRESHOLDS`:
the parameter `threshold` of all classifiers, fitted scorers and the command take it from there.
"""

from taufpl.estimators.strategies._base import Fitter, LinearFitter, Outcome, Plan, Strategy, span_of
from taufpl.estimators.strategies._limits import Limits, at_other_tolerances, limits_of
from taufpl.estimators.strategies._ways import (
    STRATEGIES,
    Automatic,
    CrossFit,
    HeldOut,
    OutOfBootstrap,
    TrainQuantile,
    check_segment_strategy,
    held_out_size,
    most_held_out,
    snapped,
    strategy_of,
    takes_earlier_parameters,
    without_earlier_parameters,
)

__all__ = [
    "STRATEGIES",
    "Automatic",
    "CrossFit",
    "Fitter",
    "HeldOut",
    "Limits",
    "LinearFitter",
    "OutOfBootstrap",
    "Outcome",
    "Plan",
    "Strategy",
    "TrainQuantile",
    "at_other_tolerances",
    "check_segment_strategy",
    "held_out_size",
    "limits_of",
    "most_held_out",
    "snapped",
    "span_of",
    "strategy_of",
    "takes_earlier_parameters",
    "without_earlier_parameters",
]
