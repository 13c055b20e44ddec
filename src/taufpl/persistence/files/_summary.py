"""A summary of a fitted model in plain values: what it was trained for, and what is known of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from taufpl._records import plain
from taufpl.estimators import ScorerClassifier, ScoreScreen
from taufpl.persistence._unwrap import UnwrappedModel, unwrap
from taufpl.persistence.rows import fingerprint

# What a fit may leave behind, as attributes with an underscore after these names.
_FITTED = (
    "reg", "tau_scale", "gamma", "dual_gap", "kernel_gap", "relative_error", "converged", "collapsed",
    "fpr_estimate", "fpr_upper_bound",
)  # fmt: skip
# Fields of Evidence that the summary shows, with "recall" for "tpr".
_EVIDENCE = (
    "tau", "threshold", "tpr_estimate", "tpr_interval", "caveats", "n_negative", "n_false_positive", "guaranteed",
    "rank",
)  # fmt: skip


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
        `fpr_estimate`, `fpr_upper_bound`, `recall_estimate`, `evidence` (one entry a tolerance), `threshold_history`
        (one entry a threshold that was chosen), `negative_label`, `positive_label`, `n_features`, `feature_names`, and
        for rankings `reg`, `tau_scale`, `dual_gap`, `converged` and `collapsed`, and of kernels `gamma`, `kernel_gap`
        and `relative_error`, as far as the model has them. With X and y `n_rows`, `n_negative`, `n_positive` and
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
    unwrapped = unwrap(model)
    summary = {**_settings(unwrapped), **_results(unwrapped.head)}
    if X is not None and y is not None:
        labels = np.asarray(y)
        summary["n_rows"] = len(labels)
        summary["n_negative"], summary["n_positive"] = (np.sum(labels == each) for each in unwrapped.classes)
        summary["fingerprint"] = fingerprint(X, y)
    return plain(summary)


def _settings(model: UnwrappedModel) -> dict[str, Any]:
    head = model.head
    settings = {
        "model": type(head).__name__,
        "preprocessing": [step if isinstance(step, str) else type(step).__name__ for step in model.steps],
        "tau": getattr(head, "tau", None),
        "delta": getattr(head, "delta", None),
        # A ranker has no strategy of its own: its threshold is that of the training rows.
        "threshold_strategy": getattr(head, "strategy_", getattr(head, "threshold", "train")),
        "threshold": getattr(head, "threshold_", model.threshold),
        "negative_label": model.classes[0],
        "positive_label": model.classes[1],
        "n_features": None if model.known_names is None else len(model.known_names),
        "feature_names": model.known_names if model.named else None,
    }
    if isinstance(head, ScorerClassifier) and not isinstance(head, ScoreScreen):
        settings["scorer"] = type(model.scorers[0].final).__name__
        settings["n_scorers"] = len(model.scorers)
    return settings


def _results(head: Any) -> dict[str, Any]:
    results = {name: getattr(head, f"{name}_") for name in _FITTED if hasattr(head, f"{name}_")}
    evidence = getattr(head, "evidence_", None)
    if evidence is None:
        return results
    several = evidence if isinstance(evidence, tuple) else (evidence,)
    results["recall_estimate"] = min(several, key=lambda each: each.tau).tpr_estimate
    results["evidence"] = [
        {name.replace("tpr", "recall"): getattr(each, name) for name in _EVIDENCE} for each in several
    ]
    results["threshold_history"] = [asdict(each) for each in getattr(head, "threshold_history_", ())]
    return results
