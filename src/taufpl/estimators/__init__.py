"""Estimators: validate, build the problem, solve it, set the threshold."""

from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._classifier import TauFPLClassifier
from taufpl.estimators._linear import (
    REG_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    LinearScorer,
    SolverChoice,
    solve_ranking,
    train_threshold,
    warn_not_converged,
)
from taufpl.estimators._neyman_pearson import NeymanPearsonClassifier, ScorerClassifier, known_positive
from taufpl.estimators._predictions import (
    BOOSTERS,
    LEAST_SHARE,
    last_step,
    library_of,
    local_model,
    scores_of,
    steps_and_last,
    transformed,
    wrapped_head,
)
from taufpl.estimators._progress import Watcher, steps_within, watching
from taufpl.estimators._ranker import TauFPLRanker, TauFPLRankerCV, TauPath, tau_path
from taufpl.estimators._reading import TwoClasses, in_memory, labels_of_rows, split_labels
from taufpl.estimators._score_screen import ScoreScreen
from taufpl.estimators._screening import ScreeningClassifier
from taufpl.estimators._search import reg_grid
from taufpl.estimators._stack import EFFORTS, StackedScorer, StackMember, Standing, ranked
from taufpl.estimators._table import score_rounding
from taufpl.estimators._thresholded import ThresholdedMixin, next_threshold, share_of_delta
from taufpl.estimators.kernel import KernelScorer, KernelTauFPLClassifier, KernelTauFPLRanker
from taufpl.estimators.rankings import AutoFitter

__all__ = [
    "BOOSTERS",
    "EFFORTS",
    "LEAST_SHARE",
    "REG_CONSTRAINT",
    "SOLVER_CONSTRAINTS",
    "TAU_CONSTRAINT",
    "ArrayTable",
    "AutoFitter",
    "KernelScorer",
    "KernelTauFPLClassifier",
    "KernelTauFPLRanker",
    "LinearScorer",
    "NeymanPearsonClassifier",
    "ScoreScreen",
    "ScorerClassifier",
    "ScreeningClassifier",
    "SolverChoice",
    "StackMember",
    "StackedScorer",
    "Standing",
    "TauFPLClassifier",
    "TauFPLRanker",
    "TauFPLRankerCV",
    "TauPath",
    "ThresholdedMixin",
    "TwoClasses",
    "Watcher",
    "in_memory",
    "known_positive",
    "labels_of_rows",
    "last_step",
    "library_of",
    "local_model",
    "next_threshold",
    "ranked",
    "reg_grid",
    "score_rounding",
    "scores_of",
    "share_of_delta",
    "solve_ranking",
    "split_labels",
    "steps_and_last",
    "steps_within",
    "tau_path",
    "train_threshold",
    "transformed",
    "warn_not_converged",
    "watching",
    "wrapped_head",
]
