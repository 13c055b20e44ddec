"""Small classifiers of LightGBM, XGBoost and CatBoost, in one thread, for the tests of persistence."""

from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

N_TREES = 12


def lightgbm(**settings):
    return LGBMClassifier(**{"n_estimators": N_TREES, "n_jobs": 1, "verbose": -1, **settings})


def xgboost(kind=XGBClassifier, **settings):
    return kind(**{"n_estimators": N_TREES, "n_jobs": 1, **settings})


def catboost(**settings):
    fixed = {"n_estimators": N_TREES, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    return CatBoostClassifier(**fixed, **settings)
