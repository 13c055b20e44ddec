"""The settings that all ways to divide the data between model and threshold share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taufpl.thresholding import USUAL_DELTA


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings that strategies share.

    Attributes
    ----------
    taus : tuple of float
    delta : float or None
    n_rounds, train_share, rule, combine
        Of out-of-bootstrap thresholding: how many rounds, which share of the rows trains, how a round picks its
        threshold ("np_score" or "quantile"), and what becomes of the rounds ("mean" or "refit").
    holdout : float or "auto"
        Share of the negatives that `np` holds out; "auto" is about one half (`held_out_size`).
    measure_recall : bool
        Whether `np` estimates its recall by more fits.
    n_folds : int
        Of `cross`, of the check of `train`, and of the recall of `np`.
    insufficient : {"raise", "infinite"}
        What `np` does with too few negatives.
    seed : int
    n_jobs : int or None
    """

    taus: tuple[float, ...]
    delta: float | None = USUAL_DELTA
    n_rounds: int = 10
    train_share: float = 2 / 3
    rule: str = "np_score"
    combine: str = "mean"
    holdout: float | str = "auto"
    measure_recall: bool = True
    n_folds: int = 5
    insufficient: Any = "raise"
    seed: int = 0
    n_jobs: int | None = None

    @property
    def bound_delta(self) -> float:
        """Level of the upper bounds that are reported."""
        return USUAL_DELTA if self.delta is None else self.delta
