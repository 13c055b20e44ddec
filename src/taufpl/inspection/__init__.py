"""What moved the score of a row, beside typical negatives."""

from taufpl.inspection._contributions import (
    Reason,
    contributions,
    reasons,
    reasons_either_way as reasons_either_way,
    recall_lost as recall_lost,
    typical_negatives,
    unwrap_explainable as unwrap_explainable,
)
from taufpl.inspection._typical import TYPICAL_NEGATIVES as TYPICAL_NEGATIVES, TypicalNegatives

__all__ = ["Reason", "TypicalNegatives", "contributions", "reasons", "typical_negatives"]
