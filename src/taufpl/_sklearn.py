"""Names of scikit-learn that are not public there: the one module to mend when a release of it moves them."""

from sklearn.base import _fit_context as fit_context
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.metrics._scorer import _Scorer as Scorer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.tree._tree import Tree
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_params
from sklearn.utils.metadata_routing import _routing_enabled as routing_enabled
from sklearn.utils.validation import (
    _check_feature_names as check_feature_names,
    _check_feature_names_in as check_feature_names_in,
    _check_method_params as check_method_params,
    _check_n_features as check_n_features,
    _check_sample_weight as check_sample_weight,
    _check_y as check_y,
    _is_fitted as is_fitted,
    _num_samples as num_samples,
)

__all__ = [
    "BaseSearchCV",
    "HasMethods",
    "Interval",
    "Scorer",
    "StrOptions",
    "Tree",
    "TreePredictor",
    "check_feature_names",
    "check_feature_names_in",
    "check_method_params",
    "check_n_features",
    "check_sample_weight",
    "check_y",
    "fit_context",
    "is_fitted",
    "num_samples",
    "routing_enabled",
    "safe_indexing",
    "validate_params",
]
