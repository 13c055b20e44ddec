"""Estimators: validate, build the problem, solve it, set the threshold."""

from taufpl.estimators._path import TauPath, tau_path
from taufpl.estimators._ranker import TauFPLRanker
from taufpl.estimators._ranker_cv import TauFPLRankerCV

__all__ = ["TauFPLRanker", "TauFPLRankerCV", "TauPath", "tau_path"]
