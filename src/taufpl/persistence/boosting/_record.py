"""Boosters in model files: an estimator as a record of its settings and the text of its trees, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl.estimators import BOOSTERS, library_of
from taufpl.exceptions import ModelFileError
from taufpl.persistence.boosting import _catboost, _lightgbm, _xgboost
from taufpl.persistence.boosting._settings import check_state
from taufpl.persistence.boosting._text import BoosterText

_FORMATS: dict[str, Any] = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}
_CLASSES = {".".join(name): name[1] for name in BOOSTERS}
# Attributes that the trees bring with them, or that are nothing but a log of the training.
_WITH_TREES = ("_Booster", "_object", "_class_map", "_best_score", "_evals_result", "evals_result_")
_IMPORTANCES = "_prediction_values_change"  # of CatBoost, computed after a fit
# The text of trees grows by this factor at most when it is checked.
_GROWTH = 16


def class_of(model: Any) -> str:
    """The full name of an object's class."""
    return f"{type(model).__module__}.{type(model).__name__}"


class BoosterRecord:
    """An estimator of another library, as it stands in a model file.

    Parameters
    ----------
    kind : str
        Full name of its class.
    state : dict
        Its attributes but for the trees.
    text : ndarray of uint8 or None
        The trees in the text format of the library; None for an estimator that is not fitted.
    has_raw_scores : bool
        Whether it has a decision function, which LightGBM got late: a threshold for that is none for probabilities.
    """

    def __init__(self, kind: str, state: dict[str, Any], text: NDArray[np.uint8] | None, has_raw_scores: bool) -> None:
        self.kind = kind
        self.state = state
        self.text = text
        self.has_raw_scores = has_raw_scores

    @classmethod
    def of(cls, model: Any) -> BoosterRecord:
        """The record of an estimator."""
        library = library_of(model)
        if library == "catboost":
            state, is_fitted = {"_init_params": model.get_params()}, model.is_fitted()
            if (importances := getattr(model, _IMPORTANCES, None)) is not None:
                state[_IMPORTANCES] = np.asarray(importances, dtype=np.float64)
        else:
            state = {name: value for name, value in vars(model).items() if name not in _WITH_TREES}
            is_fitted = model.__sklearn_is_fitted__()
        check_state(type(model), state)
        text = _read(library, _FORMATS[library].write(model)).text.encode() if is_fitted else None
        array = None if text is None else np.frombuffer(text, np.uint8)
        return cls(class_of(model), state, array, hasattr(model, "decision_function"))

    def restore(self, max_bytes: int) -> Any:
        """The estimator, once its settings and its text have been checked."""
        if self.kind not in _CLASSES or not isinstance(self.state, dict):
            raise ModelFileError("it holds a model of an unknown library")
        library = self.kind.partition(".")[0]
        try:
            module = require(library, "boost", "to load this model")
        except ImportError as error:
            raise ModelFileError(str(error)) from error
        model = getattr(module, _CLASSES[self.kind])()
        if hasattr(model, "decision_function") != self.has_raw_scores:
            raise ModelFileError(
                f"its threshold is for other scores than those that {library} {module.__version__} gives; use the "
                "version that it was written with"
            )
        check_state(type(model), self.state)
        vars(model).update(self.state)
        if self.text is not None:
            text = np.asarray(self.text, dtype=np.uint8).tobytes()
            if len(text) * _GROWTH > max_bytes:
                raise ModelFileError(f"its trees would take more memory than max_bytes={max_bytes:,}")
            _FORMATS[library].attach(model, _read(library, text.decode()), module)
        return model


def is_booster(model: Any) -> bool:
    """Whether an object is an estimator of LightGBM, XGBoost or CatBoost that a record can hold."""
    return class_of(model) in _CLASSES


def booster_trees(model: Any) -> BoosterText:
    """The trees of a fitted estimator as far as its predictions use them, and the score before the first."""
    library = library_of(model)
    return _FORMATS[library].as_predicted(model, _read(library, _FORMATS[library].write(model)))


def _read(library: str, text: str) -> BoosterText:
    try:
        return _FORMATS[library].read(text)
    except ModelFileError:
        raise
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"a model of {library} in it cannot be read ({type(error).__name__}: {error})") from error
