"""Classifiers of other libraries that learn where the rows are: on the workers of a cluster, or on a device.

A classifier is known by the name of its class, so that no library is imported that is not in use. What is kept of a fit
is the classifier of the same library for rows in memory: it needs no cluster, and scores remote rows block by block.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state

from taufpl._extras import install_command, require
from taufpl.estimators._predictions import (
    DASK_LIGHTGBM,
    DASK_XGBOOST,
    LIGHTGBM,
    XGBOOST,
    is_a,
    learns_on_cluster,
    log_odds,
)
from taufpl.estimators._progress import tell
from taufpl.estimators._stack import EFFORTS, STACK, Candidate, StackMember, Standing, Task, find_candidates
from taufpl.estimators.strategies import span_of
from taufpl.operators import is_collection
from taufpl.operators.remote import (
    Block,
    DaskBlocks,
    State,
    as_collections,
    current_client,
    device_rows,
    named_rows,
    on_cuda,
    watched,
)

# Values of rows that are scored at a time: 128 MiB in double precision.
_CHUNK_VALUES = 1 << 24


class RemoteLearner(ABC):
    """A kind of classifier that is fitted on the rows of a table where they are."""

    @abstractmethod
    def takes(self, X: Any) -> bool:
        """Whether the classifier learns from these rows where they are."""

    @abstractmethod
    def check(self, model: Any) -> None:
        """Refuse to begin where the classifier cannot learn."""

    @abstractmethod
    def fit(self, model: Any, table: Any) -> Any:
        """A classifier for rows in memory, from a fit on labels 0 and 1 of the rows of a BlockTable."""

    def local(self, model: Any) -> Any:
        """The same classifier, fitted or not, for rows in memory."""
        return model


class _ClusterLearner(RemoteLearner):
    """Learns on the workers that hold the blocks."""

    # How the keys of the tasks begin in which it learns, one on each worker, and those of the results it waits for.
    tasks: ClassVar[str]
    awaited: ClassVar[str]
    # Whether every worker must have rows of both classes.
    needs_both_classes: ClassVar[bool] = False

    def takes(self, X: Any) -> bool:
        return is_collection(X)

    def check(self, model: Any) -> None:
        if current_client() is None:
            raise ValueError(
                f"{type(model).__name__} learns on the workers of a cluster, and there is no current client of one. "
                "Make one before the fit: distributed.Client() for processes on this machine, or "
                "distributed.Client('scheduler:8786'); one that exists is made current by client.as_current()."
            )

    def fit(self, model: Any, table: Any) -> Any:
        assert isinstance(table.blocks, DaskBlocks)
        names = getattr(table.estimator, "feature_names_in_", None)
        n_added = [self.needs_both_classes and 0 in counts and any(counts) for counts in table.counts]
        sizes = [sum(counts) + added for counts, added in zip(table.counts, n_added, strict=True)]
        client, task = table.blocks.client, LearnerRows(names, self.needs_both_classes)
        with as_collections(table.blocks, task, sizes, names) as (X, y, weights), client.as_current():
            weighted = {"sample_weight": weights} if any(n_added) else {}
            with watched(client, type(model).__name__, self.tasks, self.awaited), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored", UserWarning)
                model.fit(X, y, **weighted)
        return self.local(model)


class _DaskXGBoost(_ClusterLearner):
    tasks, awaited = "fn-", "finalize-"

    def local(self, model: Any) -> Any:
        kind = require("xgboost", "boost", "for DaskXGBClassifier").XGBClassifier
        known = kind().get_params()
        local = kind(**{name: value for name, value in model.get_params().items() if name in known})
        if model.__sklearn_is_fitted__():
            local.load_model(model.get_booster().save_raw("ubj"))
        return local


class _DaskLightGBM(_ClusterLearner):
    tasks = awaited = "_train_part-"
    # Each worker finds out by itself what labels there are, and takes the first for 0.
    needs_both_classes = True

    def local(self, model: Any) -> Any:
        return model.to_local()


class _XGBoostOnDevice(RemoteLearner):
    def takes(self, X: Any) -> bool:
        return on_cuda(X)

    def check(self, model: Any) -> None:
        """Nothing can be amiss."""

    def fit(self, model: Any, table: Any) -> Any:
        ((X, y, _),) = table.blocks.gather(LearnerRows())
        return model.fit(device_rows(X), y)


_LEARNERS = {DASK_XGBOOST: _DaskXGBoost(), DASK_LIGHTGBM: _DaskLightGBM(), XGBOOST: _XGBoostOnDevice()}


def remote_learner(model: Any, X: Any) -> RemoteLearner | None:
    """How a classifier of another library learns from X where it is, if it does."""
    learner = _learner(model)
    return learner if learner is not None and learner.takes(X) else None


def fit_where_rows_are(model: Any, table: Any) -> Any:
    """Fit a classifier of another library, on labels 0 and 1 of the rows of a BlockTable."""
    learner = _learner(model)
    assert learner is not None
    return learner.fit(model, table)


def to_local(model: Any) -> Any:
    """A classifier that learns, or was fitted, on a cluster, for rows in memory."""
    learner = _learner(model)
    return model if learner is None else learner.local(model)


def _learner(model: Any) -> RemoteLearner | None:
    return next((learner for name, learner in _LEARNERS.items() if is_a(model, name)), None)


@dataclass(frozen=True)
class LearnerRows:
    """The rows of a block that take part; for each 1 where it is positive, else 0; and its weight, 1.

    With `names` the rows are a dataframe. With `both_classes`, where rows of one class are missing, a copy of the first
    row stands in for them, which has weight 0.
    """

    names: Any | None = None
    both_classes: bool = False

    def __call__(self, block: Block, state: State) -> tuple[Any, Any, Any]:
        xp, positive = block.xp, state["is_positive"]
        chosen = positive | state["is_negative"]
        rows = xp.nonzero(chosen)[0]
        # On the host: XGBoost wants labels there.
        y = np.asarray(block.to_host(xp.take(positive, rows, axis=0))[0]).astype(np.int64)
        weights = np.ones(y.size)
        if self.both_classes and y.size and y.min() == y.max():
            rows, y, weights = xp.concat((rows, rows[:1])), np.append(y, 1 - y[0]), np.append(weights, 0.0)
        whole = rows.shape[0] == block.shape[0] and weights.all()
        return named_rows(block.rows.take(None if whole else rows), self.names), y, weights


@dataclass(frozen=True)
class ModelScore:
    """The score of a fitted model that takes rows in memory; with `names` they are dataframes."""

    function: Callable[[Any], Any]
    names: Any | None

    def __call__(self, block: Block, rows: Any | None) -> Any:
        """Scores of some rows of a block, or of all, in double precision."""
        rows = block.asarray(np.arange(block.shape[0])) if rows is None else rows
        step = max(1, _CHUNK_VALUES // block.shape[1])
        taken = (block.rows.take(rows[start : start + step]) for start in range(0, rows.shape[0], step))
        parts = [self.function(named_rows(part, self.names)) for part in taken]
        return block.xp.concat(parts) if parts else block.asarray(np.zeros(0))


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


def fit_on_cluster(scorer: Any, table: Any) -> Any:
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
