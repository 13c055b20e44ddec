"""Thresholds: scores in, a threshold and its evidence out. Positive is what scores strictly more."""

from taufpl.thresholding._block_sample import BlockSample
from taufpl.thresholding._cross import CrossFitRule
from taufpl.thresholding._evidence import Evidence, Rounds
from taufpl.thresholding._order import USUAL_DELTA, fpr_upper_bound, negatives_needed, order_rank
from taufpl.thresholding._quantile import share_above, top_threshold
from taufpl.thresholding._rules import (
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    ThresholdRule,
    TrainQuantile,
)
from taufpl.thresholding._sample import ArraySample, Sample, TopSample
from taufpl.thresholding._simultaneous import simultaneous_ranks
from taufpl.thresholding._splits import stratified_rounds
from taufpl.thresholding._verdict import negatives_to_settle, share_interval, share_lower_bound, tolerance_verdict

__all__ = [
    "USUAL_DELTA",
    "ArraySample",
    "BlockSample",
    "CrossFitRule",
    "Evidence",
    "JointOrderStatistic",
    "NPScoreRule",
    "OrderStatistic",
    "Rounds",
    "Sample",
    "ThresholdRule",
    "TopSample",
    "TrainQuantile",
    "fpr_upper_bound",
    "negatives_needed",
    "negatives_to_settle",
    "order_rank",
    "share_above",
    "share_interval",
    "share_lower_bound",
    "simultaneous_ranks",
    "stratified_rounds",
    "tolerance_verdict",
    "top_threshold",
]
