"""Thresholds: scores in, a threshold and its evidence out. Positive is what scores strictly more."""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand
from taufpl.thresholding._cross import CrossFitRule
from taufpl.thresholding._evidence import (
    FIT as FIT,
    RECALIBRATE as RECALIBRATE,
    RESTART as RESTART,
    Evidence,
    Rounds,
    ThresholdRecord,
)
from taufpl.thresholding._level_rates import (
    MOST_LEVELS as MOST_LEVELS,
    JudgedLevels as JudgedLevels,
    LevelRates,
    level_counts as level_counts,
    rates_of_levels as rates_of_levels,
    rates_of_limits as rates_of_limits,
)
from taufpl.thresholding._levels import (
    MISSING_LEVEL as MISSING_LEVEL,
    canonical as canonical,
    level_codes as level_codes,
    level_text as level_text,
    level_texts as level_texts,
    shared_delta,
)
from taufpl.thresholding._order import USUAL_DELTA, fpr_upper_bound, negatives_needed, order_rank, simultaneous_ranks
from taufpl.thresholding._rules import (
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    PlainQuantile as PlainQuantile,
    ThresholdRule,
    no_alarms as no_alarms,
)
from taufpl.thresholding._sample import (
    ArraySample,
    Sample,
    ScoresLike as ScoresLike,
    TopSample,
    as_sample as as_sample,
    share_above,
    stratified_rounds,
    top_threshold,
)
from taufpl.thresholding._segments import (
    OTHERS as OTHERS,
    SegmentDivision as SegmentDivision,
    SegmentOrderStatistics,
    SegmentThresholds,
    named_tolerances as named_tolerances,
    segment_tolerances as segment_tolerances,
    shown_names as shown_names,
    split_by_code as split_by_code,
    tolerance_of as tolerance_of,
)
from taufpl.thresholding._sequence import (
    ANY as ANY,
    NegativeSequence,
    SequenceStatistic,
    sequence_negatives_needed,
    sequence_rank,
)
from taufpl.thresholding._verdict import (
    BROKEN as BROKEN,
    KEPT as KEPT,
    OPEN as OPEN,
    negatives_to_settle,
    share_interval,
    share_lower_bound,
    tolerance_verdict,
)

if TYPE_CHECKING:
    from taufpl.thresholding.remote import BlockSample

__all__ = [
    "USUAL_DELTA",
    "ArraySample",
    "BlockSample",
    "CrossFit",
    "CrossFitRule",
    "Evidence",
    "HeldOut",
    "JointOrderStatistic",
    "LevelRates",
    "NPScoreRule",
    "NegativeSequence",
    "OrderStatistic",
    "OutOfBootstrap",
    "Rounds",
    "Sample",
    "SegmentOrderStatistics",
    "SegmentThresholds",
    "SequenceStatistic",
    "ThresholdRecord",
    "ThresholdRule",
    "TopSample",
    "TrainQuantile",
    "fpr_upper_bound",
    "negatives_needed",
    "negatives_to_settle",
    "order_rank",
    "sequence_negatives_needed",
    "sequence_rank",
    "share_above",
    "share_interval",
    "share_lower_bound",
    "shared_delta",
    "simultaneous_ranks",
    "stratified_rounds",
    "tolerance_verdict",
    "top_threshold",
]

# Strategies divide tables and fit models: a layer above this one has them, and is loaded when one is asked for.
__getattr__ = on_demand(
    __name__,
    {
        "taufpl.thresholding.remote": ["BlockSample"],
        "taufpl.estimators.strategies": ["CrossFit", "HeldOut", "OutOfBootstrap", "TrainQuantile"],
    },
)
