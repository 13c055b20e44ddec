"""What moved the score of a row, beside typical negatives."""

from taufpl.inspection._contributions import contributions, typical_negatives
from taufpl.inspection._reasons import Reason, reasons
from taufpl.inspection._sources import unwrap_explainable as unwrap_explainable
from taufpl.inspection._typical import TYPICAL_NEGATIVES as TYPICAL_NEGATIVES, TypicalNegatives

__all__ = ["Reason", "TypicalNegatives", "contributions", "reasons", "typical_negatives"]
