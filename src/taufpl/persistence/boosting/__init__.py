"""Models of LightGBM, XGBoost and CatBoost: their trees in the libraries' own text formats, checked."""

from taufpl.persistence.boosting._exchange import with_boosters, with_records
from taufpl.persistence.boosting._record import BoosterRecord, booster_trees, is_booster
from taufpl.persistence.boosting._text import BoosterText

__all__ = [
    "BoosterRecord",
    "BoosterText",
    "booster_trees",
    "is_booster",
    "with_boosters",
    "with_records",
]
