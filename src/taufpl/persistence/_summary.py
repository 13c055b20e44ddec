"""What a model was trained for and what is known of it, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from taufpl.estimators import NeymanPearsonClassifier
from taufpl.persistence._fingerprint import fingerprint
from taufpl.persistence._unwrap import Anatomy, take_apart

# What a fit may leave behind, by the name under which the summary shows it.
_FITTED = {
    "reg": "reg_",
    "tau_scale": "tau_scale_",
    "gamma": "gamma_",
    "dual_gap": "dual_gap_",
    "kernel_gap": "kernel_gap_",
    "relative_error": "relative_error_",
    "converged": "converged_",
    "collapsed": "collapsed_",
    "fpr_estimate": "fpr_estimate_",
    "fpr_upper_bound": "fpr_upper_bound_",
}
_EVIDENCE = ("n_negative", "n_false_positive", "guaranteed", "rank")


def training_summary(model: Any, X: Any = None, y: Any = None) -> dict[str, Any]:
    """Tolerance, threshold, evidence, labels and names of a fitted model, as plain values.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one.
    X, y : default=None
        The data that it was fitted on: with them come the rows of each class and the `fingerprint`.

    Returns
    -------
    dict
        `model`, `preprocessing` and `scorer` (names of classes), `tau`, `delta`, `threshold_strategy`, `threshold`,
        `fpr_estimate`, `fpr_upper_bound`, `recall_estimate`, `evidence` (one entry a tolerance), `negative_label`,
        `positive_label`, `n_features`, `feature_names`, and for rankings `reg`, `tau_scale`, `dual_gap`, `converged`
        and `collapsed`, and of kernels `gamma`, `kernel_gap` and `relative_error`, as far as the model has them. With X
        and y `n_rows`, `n_negative`, `n_positive` and
        `fingerprint`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.persistence import training_summary
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["fine", "fraud"], [2000, 200])
    >>> X = rng.normal(size=(2200, 3)) + (y == "fraud")[:, np.newaxis]
    >>> summary = training_summary(TauFPLClassifier(tau=0.05, pos_label="fraud", random_state=0).fit(X, y), X, y)
    >>> summary["tau"], summary["threshold_strategy"], summary["positive_label"], summary["n_negative"]
    (0.05, 'np', 'fraud', 2000)
    """
    anatomy = take_apart(model)
    summary = {**_settings(anatomy), **_results(anatomy.head), **_columns(anatomy)}
    if X is None or y is None:
        return plain(summary)
    labels = np.asarray(y)
    rows = {
        "n_rows": len(labels),
        "n_negative": np.sum(labels == anatomy.classes[0]),
        "n_positive": np.sum(labels == anatomy.classes[1]),
        "fingerprint": fingerprint(X, y),
    }
    return plain({**summary, **rows})


def _settings(anatomy: Anatomy) -> dict[str, Any]:
    head = anatomy.head
    settings = {
        "model": type(head).__name__,
        "preprocessing": [step if isinstance(step, str) else type(step).__name__ for step in anatomy.steps],
        "tau": getattr(head, "tau", None),
        "delta": getattr(head, "delta", None),
        # A ranker has no strategy of its own: its threshold is that of the training rows.
        "threshold_strategy": getattr(head, "strategy_", getattr(head, "threshold", "train")),
        "threshold": anatomy.threshold,
    }
    if isinstance(head, NeymanPearsonClassifier):
        settings["scorer"] = type(anatomy.scorers[0].final).__name__
        settings["n_scorers"] = len(anatomy.scorers)
    return settings


def _results(head: Any) -> dict[str, Any]:
    results = {name: getattr(head, attribute) for name, attribute in _FITTED.items() if hasattr(head, attribute)}
    evidence = getattr(head, "evidence_", None)
    if evidence is None:
        return results
    several = evidence if isinstance(evidence, tuple) else (evidence,)
    results["recall_estimate"] = several[int(np.argmin([each.tau for each in several]))].tpr_estimate
    results["evidence"] = [
        {"tau": each.tau, "threshold": each.threshold, "recall_estimate": each.tpr_estimate}
        | {"recall_interval": each.tpr_interval, "caveats": each.caveats}
        | {name: getattr(each, name) for name in _EVIDENCE}
        for each in several
    ]
    return results


def _columns(anatomy: Anatomy) -> dict[str, Any]:
    return {
        "negative_label": anatomy.classes[0],
        "positive_label": anatomy.classes[1],
        "n_features": None if anatomy.known_names is None else len(anatomy.known_names),
        "feature_names": anatomy.known_names if anatomy.named else None,
    }


def plain(value: Any) -> Any:
    """The same in dicts, lists, strings and numbers of Python, which JSON can hold.

    Raises
    ------
    TypeError
        Something else is in it.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"plain values can be written down: numbers, strings, lists, dicts; got {type(value).__name__}.")
