"""The scorers that a stack is made of: those of each effort, and those that users name or bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from sklearn.base import clone, is_outlier_detector
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from taufpl._extras import require
from taufpl.estimators._classifier import TauFPLClassifier
from taufpl.estimators.screening._leaderboard import STACK


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into a stack.

    Trees are those of a forest over all folds and repeats; rounds and learning rate are those of each boosting. "auto"
    takes at most `n_boosters` of LightGBM and its like where they are installed, and a boosting with larger trees
    beside them where `deep` says so, in tables of at most 100 features.
    """

    n_folds: int
    n_repeats: int  # divisions into folds
    n_trees: int
    n_rounds: int
    learning_rate: float
    n_boosters: int
    deep: bool

    @property
    def n_models(self) -> int:
        """Models of a candidate."""
        return self.n_folds * self.n_repeats


# Wider tables do without the boosting with larger trees, whose cost grows with the features.
_DEEP_FEATURES = 100

EFFORTS = {
    "fast": Effort(3, 1, n_trees=150, n_rounds=125, learning_rate=0.08, n_boosters=1, deep=False),
    "normal": Effort(5, 1, n_trees=300, n_rounds=250, learning_rate=0.04, n_boosters=1, deep=True),
    "best": Effort(5, 2, n_trees=600, n_rounds=250, learning_rate=0.04, n_boosters=2, deep=True),
}


@dataclass(frozen=True, slots=True)
class Task:
    """What scorers are made for."""

    effort: Effort
    tau: float
    n_features: int
    is_sparse: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scorer by its name, and how to make one with a seed."""

    name: str
    make: Callable[[int], Any]


def _boosting(task: Task, seed: int) -> Any:
    return HistGradientBoostingClassifier(
        learning_rate=task.effort.learning_rate,
        max_iter=task.effort.n_rounds,
        max_leaf_nodes=15,
        max_features=0.6,
        early_stopping=False,
        random_state=seed,
    )


def _deep_boosting(task: Task, seed: int) -> Any:
    """Larger trees on fewer features: other mistakes than those of many small trees."""
    return _boosting(task, seed).set_params(
        learning_rate=2 * task.effort.learning_rate, max_leaf_nodes=31, max_features=0.3, min_samples_leaf=10
    )


def _forest(kind: Any, task: Task, seed: int) -> Any:
    return kind(task.effort.n_trees // task.effort.n_models, random_state=seed)


def _linear(task: Task, seed: int) -> Any:
    return TauFPLClassifier(task.tau, threshold="train", random_state=seed)


def _lightgbm(task: Task, seed: int) -> Any:
    return require("lightgbm", "boost", "for the candidate 'lightgbm'").LGBMClassifier(
        learning_rate=task.effort.learning_rate,
        n_estimators=task.effort.n_rounds,
        num_leaves=15,
        colsample_bytree=0.6,
        subsample=0.8,
        subsample_freq=1,
        n_jobs=1,
        random_state=seed,
        verbose=-1,
    )


def _xgboost(task: Task, seed: int) -> Any:
    return require("xgboost", "boost", "for the candidate 'xgboost'").XGBClassifier(
        learning_rate=1.5 * task.effort.learning_rate,
        n_estimators=task.effort.n_rounds,
        max_depth=5,
        colsample_bylevel=0.6,
        subsample=0.8,
        n_jobs=1,
        random_state=seed,
    )


def _catboost(task: Task, seed: int) -> Any:
    return require("catboost", "boost", "for the candidate 'catboost'").CatBoostClassifier(
        learning_rate=2 * task.effort.learning_rate,
        iterations=task.effort.n_rounds,
        depth=5,
        thread_count=1,
        random_seed=seed,
        allow_writing_files=False,
        verbose=False,
    )


_KNOWN: dict[str, Callable[[Task, int], Any]] = {
    "boosting": _boosting,
    "deep boosting": _deep_boosting,
    "forest": partial(_forest, RandomForestClassifier),
    "extra trees": partial(_forest, ExtraTreesClassifier),
    "linear": _linear,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
}
# In the order in which they are taken: XGBoost added nothing to a stack that has the other two.
_BOOSTERS = ("lightgbm", "catboost", "xgboost")


def find_candidates(wanted: Any, task: Task) -> list[Candidate]:
    """The scorers that `candidates=` stands for; on sparse rows "auto" is the linear ranking alone."""
    if isinstance(wanted, str) and wanted == "auto":
        wanted = ["linear"] if task.is_sparse else [*_boosters(task), "forest", "extra trees"]
    if not wanted:
        raise ValueError("candidates must be 'auto' or a list of names and estimators; got an empty one.")
    found = [_candidate(each, task) for each in wanted]
    names = [each.name for each in found]
    return [
        Candidate(f"{each.name} {names[:place].count(each.name) + 1}", each.make)
        if each.name in names[:place]
        else each
        for place, each in enumerate(found)
    ]


def _boosters(task: Task) -> list[str]:
    installed = [name for name in _BOOSTERS if find_spec(name) is not None]
    deep = ["deep boosting"] if task.effort.deep and task.n_features <= _DEEP_FEATURES else []
    return [*(installed[: task.effort.n_boosters] or ["boosting"]), *deep]


def _candidate(given: Any, task: Task) -> Candidate:
    if isinstance(given, str):
        if given not in _KNOWN:
            raise ValueError(f"candidates must be names among {', '.join(_KNOWN)}, or estimators; got {given!r}.")
        return Candidate(given, partial(_KNOWN[given], task))
    if isinstance(given, tuple) and given and given[0] == STACK:
        raise ValueError(f"a candidate cannot be called {STACK!r}, which is all of them together.")
    name, estimator = given if isinstance(given, tuple) and len(given) == 2 else (type(given).__name__, given)
    _check_classifier(estimator)
    return Candidate(str(name), partial(_clone_with_seed, estimator))


def _check_classifier(estimator: Any) -> None:
    """Refuse what cannot be fitted without each fold, or gives no scores."""
    scores = any(hasattr(estimator, name) for name in ("decision_function", "predict_proba"))
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not scores or is_outlier_detector(estimator):
        raise TypeError(
            "candidates must be names or classifiers with decision_function or predict_proba, such as "
            f"LogisticRegression(), or pairs of a name and a classifier; got {estimator!r}."
        )
    if any(isinstance(each, FrozenEstimator) for each in (estimator, *estimator.get_params().values())):
        raise ValueError(
            "candidates are fitted without each fold, and a frozen part may have seen the rows that choose the "
            "threshold. Give it to NeymanPearsonClassifier, with rows that it has not seen."
        )


def _clone_with_seed(estimator: Any, seed: int) -> Any:
    """A clone; seeds that the user has set stay."""
    model = clone(estimator)
    params = model.get_params().items()
    unset = {name: seed for name, value in params if name.split("__")[-1] == "random_state" and value is None}
    return model.set_params(**unset)
