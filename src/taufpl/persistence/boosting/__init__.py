"""Models of LightGBM, XGBoost and CatBoost: their trees in the libraries' own text formats, checked."""

from taufpl.persistence.boosting._record import BoosterRecord, booster_trees, class_of, is_booster
from taufpl.persistence.boosting._text import BoosterText

__all__ = [
    "BoosterRecord",
    "BoosterText",
    "booster_trees",
    "class_of",
    "is_booster",
]
