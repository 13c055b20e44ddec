"""What moved the score of a row, beside typical negatives."""

from taufpl.inspection._contributions import contributions, typical_negatives
from taufpl.inspection._feature_names import feature_names as feature_names
from taufpl.inspection._reasons import Reason, reasons, reasons_either_way as reasons_either_way
from taufpl.inspection._recall_lost import recall_lost as recall_lost
from taufpl.inspection._sources import unwrap_explainable as unwrap_explainable
from taufpl.inspection._typical import TYPICAL_NEGATIVES as TYPICAL_NEGATIVES, TypicalNegatives

__all__ = ["Reason", "TypicalNegatives", "contributions", "reasons", "typical_negatives"]
