"""Classifiers of other libraries, known by the names of their classes: none of the libraries is imported for that."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator

LIGHTGBM = ("lightgbm.sklearn", "LGBMClassifier")
XGBOOST = ("xgboost.sklearn", "XGBClassifier")
BOOSTERS = (LIGHTGBM, XGBOOST, ("xgboost.sklearn", "XGBRFClassifier"), ("catboost.core", "CatBoostClassifier"))
DASK_XGBOOST = ("xgboost.dask", "DaskXGBClassifier")
DASK_LIGHTGBM = ("lightgbm.dask", "DaskLGBMClassifier")


def is_a(model: Any, *names: tuple[str, str]) -> bool:
    """Whether the class of a model, or one that it is derived from, has one of these names in its module."""
    return any((kind.__module__, kind.__name__) in names for kind in type(model).__mro__)


def library_of(model: Any) -> str:
    """The package whose `predict` a model has: a class derived from one of a library may have its own."""
    return getattr(getattr(type(model), "predict", None), "__module__", "").partition(".")[0]


def learns_on_cluster(model: Any) -> bool:
    """Whether a classifier takes Dask collections alone."""
    return is_a(model, DASK_XGBOOST, DASK_LIGHTGBM)


def refuse_memory(model: Any) -> None:
    """Refuse rows in memory for a classifier that takes Dask collections alone."""
    if learns_on_cluster(model):
        name = type(model).__name__
        raise TypeError(
            f"{name} takes Dask arrays and dataframes, and X is in memory. Take {name.removeprefix('Dask')} for it; or "
            "make a Dask collection of X, with dask.array.from_array, say."
        )


def local_model(model: Any) -> Any:
    """The classifier for rows in memory in place of one for clusters, fitted or not; any other as it is."""
    if isinstance(model, FrozenEstimator):
        inner = local_model(model.estimator)
        return model if inner is model.estimator else FrozenEstimator(inner)
    if not learns_on_cluster(model):
        return model
    from taufpl.estimators.remote import to_local

    return to_local(model)
