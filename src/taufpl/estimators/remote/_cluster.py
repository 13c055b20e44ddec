"""Stacks on a Dask cluster: boosting learns where the rows are, and the mean of its standardised scores counts."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state

from taufpl._extras import install_command, require
from taufpl.estimators._libraries import LIGHTGBM, XGBOOST, is_a, learns_on_cluster
from taufpl.estimators._log_odds import log_odds
from taufpl.estimators._progress import tell
from taufpl.estimators._stack import EFFORTS, STACK, Candidate, StackMember, Standing, Task, find_candidates
from taufpl.estimators.remote import BlockTable, ModelScore, RemoteLearner, fit_where_rows_are, remote_learner
from taufpl.estimators.strategies import span_of

_CLUSTER_BOOSTERS = ("lightgbm", "xgboost")


def check_cluster(scorer: Any, X: Any) -> None:
    """Refuse candidates that do not learn on a cluster, before anything is read."""
    for candidate in cluster_candidates(scorer):
        model = candidate.make(0)
        learner = remote_learner(model, X)
        assert isinstance(learner, RemoteLearner)
        learner.check(model)


def cluster_candidates(scorer: Any) -> list[Candidate]:
    """The candidates of a stack, as they learn on a cluster; "auto" is what is installed of LightGBM and XGBoost."""
    wanted = scorer.candidates
    if isinstance(wanted, str) and wanted == "auto":
        wanted = [name for name in _CLUSTER_BOOSTERS if find_spec(name) is not None]
        if not wanted:
            raise ImportError(
                "ScreeningClassifier learns on a cluster by LightGBM and XGBoost, and neither is installed. Install "
                f"them, here and on the workers, with: {install_command('boost')}"
            )
    found = find_candidates(wanted, Task(EFFORTS[scorer.effort], scorer.tau, 1, is_sparse=False))
    return [Candidate(each.name, partial(_for_cluster, each)) for each in found]


def _for_cluster(candidate: Candidate, seed: int) -> Any:
    """The classifier of a candidate that learns on a cluster."""
    model = candidate.make(seed)
    if learns_on_cluster(model):
        return model
    # There `n_jobs` is the number of threads of a worker, as None says.
    params = {**model.get_params(), "n_jobs": None}
    if is_a(model, LIGHTGBM):
        return require("lightgbm", "boost", "for the candidate 'lightgbm'").DaskLGBMClassifier(**params)
    if is_a(model, XGBOOST):
        params.pop("objective")
        return require("xgboost.dask", "boost", "for the candidate 'xgboost'").DaskXGBClassifier(**params)
    raise TypeError(
        f"{candidate.name} cannot learn from Dask collections. On a cluster candidates must be 'lightgbm' or "
        "'xgboost', or estimators lightgbm.DaskLGBMClassifier and xgboost.dask.DaskXGBClassifier."
    )


def fit_on_cluster(scorer: Any, table: BlockTable) -> Any:
    """Fit a stack on remote rows: every candidate once, on all rows, each with the same weight.

    Its scores are standardised by the mean and the standard deviation of the negatives that it was fitted on. Boosting
    takes numbers and missing values as they are: columns are not encoded.
    """
    scorer.seed_ = int(check_random_state(scorer.random_state).randint(2**31 - 1))
    scorer.encoder_ = FunctionTransformer(accept_sparse=True)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(scorer, name):
            setattr(scorer.encoder_, name, getattr(scorer, name))
    candidates = cluster_candidates(scorer)
    scorer.members_, scorer.intercept_, scorer.standings_ = [], 0.0, []
    share = 1.0 / len(candidates)
    for place, candidate in enumerate(candidates):
        began = time.perf_counter()
        model = fit_where_rows_are(candidate.make(scorer.seed_), table)
        names = getattr(scorer, "feature_names_in_", None)
        center, scale = span_of(table.scored(ModelScore(partial(log_odds, model), names)).negative)
        scorer.members_.append(StackMember(candidate.name, [model], [center], [scale], share))
        seconds = time.perf_counter() - began
        scorer.standings_.append(Standing(candidate.name, weight=share, seconds=seconds))
        tell(place + 1, len(candidates), candidate.name)
    total = float(np.sum([each.seconds for each in scorer.standings_]))
    scorer.standings_.append(Standing(STACK, seconds=total))
    return scorer
