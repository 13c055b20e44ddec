"""The scorers that a stack is made of: those of each effort, and those that users name or bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from taufpl._extras import require
from taufpl.estimators._classifier import TauFPLClassifier


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into a stack.

    Trees are those of a forest over all folds and repeats; rounds and learning rate are those of each boosting. "auto"
    takes at most `n_boosters` of LightGBM and its like where they are installed, and a boosting with larger trees
    beside them where `deep` says so.
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


EFFORTS = {
    "fast": Effort(3, 1, n_trees=150, n_rounds=125, learning_rate=0.08, n_boosters=1, deep=False),
    "normal": Effort(5, 1, n_trees=300, n_rounds=250, learning_rate=0.04, n_boosters=1, deep=True),
    "best": Effort(5, 2, n_trees=600, n_rounds=250, learning_rate=0.04, n_boosters=2, deep=True),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scorer by its name, and how to make one with a seed."""

    name: str
    make: Callable[[int], Any]


def _boosting(effort: Effort, tau: float, seed: int) -> Any:
    return HistGradientBoostingClassifier(
        learning_rate=effort.learning_rate,
        max_iter=effort.n_rounds,
        max_leaf_nodes=15,
        max_features=0.6,
        early_stopping=False,
        random_state=seed,
    )


def _deep_boosting(effort: Effort, tau: float, seed: int) -> Any:
    """Larger trees on fewer features: other mistakes than those of many small trees."""
    return _boosting(effort, tau, seed).set_params(
        learning_rate=2 * effort.learning_rate, max_leaf_nodes=31, max_features=0.3, min_samples_leaf=10
    )


def _forest(kind: Any, effort: Effort, tau: float, seed: int) -> Any:
    return kind(effort.n_trees // effort.n_models, random_state=seed)


def _linear(effort: Effort, tau: float, seed: int) -> Any:
    return TauFPLClassifier(tau, threshold="train", random_state=seed)


def _lightgbm(effort: Effort, tau: float, seed: int) -> Any:
    return require("lightgbm", "boost", "for the candidate 'lightgbm'").LGBMClassifier(
        learning_rate=effort.learning_rate,
        n_estimators=effort.n_rounds,
        num_leaves=15,
        colsample_bytree=0.6,
        subsample=0.8,
        subsample_freq=1,
        n_jobs=1,
        random_state=seed,
        verbose=-1,
    )


def _xgboost(effort: Effort, tau: float, seed: int) -> Any:
    return require("xgboost", "boost", "for the candidate 'xgboost'").XGBClassifier(
        learning_rate=1.5 * effort.learning_rate,
        n_estimators=effort.n_rounds,
        max_depth=5,
        colsample_bylevel=0.6,
        subsample=0.8,
        n_jobs=1,
        random_state=seed,
    )


def _catboost(effort: Effort, tau: float, seed: int) -> Any:
    return require("catboost", "boost", "for the candidate 'catboost'").CatBoostClassifier(
        learning_rate=2 * effort.learning_rate,
        iterations=effort.n_rounds,
        depth=5,
        thread_count=1,
        random_seed=seed,
        allow_writing_files=False,
        verbose=False,
    )


_KNOWN: dict[str, Callable[[Effort, float, int], Any]] = {
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


def find_candidates(wanted: Any, effort: Effort, tau: float, *, is_sparse: bool) -> list[Candidate]:
    """The scorers that `candidates=` stands for; on sparse rows "auto" is the linear ranking alone."""
    if isinstance(wanted, str) and wanted == "auto":
        wanted = ["linear"] if is_sparse else [*_boosters(effort), "forest", "extra trees"]
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or not wanted:
        raise ValueError(f"candidates must be 'auto' or a list of names and estimators; got {wanted!r}.")
    found = [_candidate(each, effort, tau) for each in wanted]
    names = [each.name for each in found]
    return [
        Candidate(f"{each.name} {names[:place].count(each.name) + 1}", each.make)
        if each.name in names[:place]
        else each
        for place, each in enumerate(found)
    ]


def _boosters(effort: Effort) -> list[str]:
    installed = [name for name in _BOOSTERS if find_spec(name) is not None]
    return [*(installed[: effort.n_boosters] or ["boosting"]), *(["deep boosting"] if effort.deep else [])]


def _candidate(given: Any, effort: Effort, tau: float) -> Candidate:
    if isinstance(given, str):
        if given not in _KNOWN:
            raise ValueError(f"candidates must be names among {', '.join(_KNOWN)}, or estimators; got {given!r}.")
        return Candidate(given, partial(_KNOWN[given], effort, tau))
    name, estimator = given if isinstance(given, tuple) else (type(given).__name__, given)
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(
            f"candidates must be names or estimators, such as LogisticRegression(); got {estimator!r}, which has no "
            "fit."
        )
    return Candidate(str(name), partial(_clone_with_seed, estimator))


def _clone_with_seed(estimator: Any, seed: int) -> Any:
    """A clone; a seed that the user has set stays."""
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False) and model.get_params(deep=False)["random_state"] is None:
        model.set_params(random_state=seed)
    return model
