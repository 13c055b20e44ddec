"""The threshold of a model that was fitted on all rows, from the models of folds.

Let F(t) be how many of the n training negatives the model itself scores above t. It flatters: the model has seen them.
Models of K folds tell by how much. They score H(t) held-out negatives above t, and among the negatives that they were
fitted on a share that would be S(t) of n. The false positives of the model, in rows of n, are then about

    V(t) = F(t) + H(t) - S(t),   with H - S at least 0.

H alone would not do: on levels, counts or leaves of trees a tie has another value in every model, and flips as a whole
where the model itself is a hair above the folds. F follows the ties of the model, and the difference of H and S hardly
depends on where the ties of the folds lie. F alone would not do either.

What a linear model gains by having seen a row falls with the number of rows as 1/n, so that the model on all rows gains
only (K - 1)/K of what the models of folds gain, unless there are so many features that it knows its rows by heart
(S = 0). For linear models H - S is therefore multiplied by 1 - S / (K H).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from taufpl._checks import Scores
from taufpl.thresholding._evidence import Evidence
from taufpl.thresholding._order import USUAL_DELTA, order_rank
from taufpl.thresholding._rules import JointOrderStatistic, counts_above
from taufpl.thresholding._sample import Sample, ScoresLike, as_sample


@dataclass(frozen=True, slots=True)
class CrossFitRule:
    """Thresholds of a model fitted on all rows, that keep all tolerances with probability about 1 - delta.

    ::

        t = min { t : V(t') < n - r + 1 for all t' >= t }

    with the rank r of :class:`OrderStatistic` and the corrected count V of false positives (top of this file). On
    scores that no model has learned from, V is the count itself and t the order statistic. It is measured, not proven.

    Parameters
    ----------
    taus : sequence of float
        Tolerances strictly between 0 and 1.
    delta : float, default=0.05
        Probability with which one or more of the tolerances may be exceeded.
    n_folds : int or None, default=None
        How many models scored the held-out negatives, if they are linear; None takes their gain as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import CrossFitRule
    >>> scores = np.arange(1000.0)
    >>> (evidence,) = CrossFitRule((0.05,)).choose_all(scores, scores, np.repeat(scores, 4))
    >>> evidence.threshold, evidence.rank, evidence.guaranteed
    (961.0, 962, False)

    A model that has learned its negatives by heart says nothing by their scores:

    >>> (evidence,) = CrossFitRule((0.05,)).choose_all(np.zeros(1000), scores, np.zeros(4000))
    >>> evidence.threshold
    961.0
    """

    taus: Sequence[float]
    delta: float = USUAL_DELTA
    n_folds: int | None = None

    def choose_all(
        self, train_scores: ScoresLike, held_out_scores: ScoresLike, fold_train_scores: ScoresLike
    ) -> tuple[Evidence, ...]:
        """Choose one threshold a tolerance.

        Parameters
        ----------
        train_scores : array-like or Sample
            Scores of the negatives by the model that was fitted on all of them.
        held_out_scores : array-like or Sample
            Scores of the same negatives, each by the model of a fold that has not seen it, on the scale of the first.
        fold_train_scores : array-like or Sample
            Scores that the models of folds give to the negatives they were fitted on, together, on the same scale. Of
            these, and of `held_out_scores`, only those above `lowest` are looked at.

        Returns
        -------
        tuple of Evidence
            `n_false_positive` is V, rounded down.
        """
        train = as_sample("train_scores", train_scores)
        held_out = as_sample("held_out_scores", held_out_scores)
        fold_train = as_sample("fold_train_scores", fold_train_scores)
        # Ranks and bounds depend on the number of negatives alone.
        found = JointOrderStatistic(self.taus, self.delta, "largest").choose_all(train)
        candidates, estimates = self._estimates(self.lowest(train), train, held_out, fold_train)
        return tuple(_at_lowest_that_holds(each, candidates, estimates) for each in found)

    def lowest(self, train_scores: Sample) -> float:
        """A score that no threshold can lie under: more training negatives would lie above than may."""
        n = train_scores.size
        return train_scores.at_rank(order_rank(n, max(self.taus), self.delta) or n)

    def _estimates(self, lowest: float, *samples: Sample) -> tuple[Scores, Scores]:
        """Every threshold at which a count changes, ascending from the lowest, and V there."""
        above = [each.above(lowest) for each in samples]
        candidates = np.unique(np.concatenate(([lowest], *above)))
        own, held_out, fold = (counts_above(each, candidates) for each in above)
        fold *= samples[0].size / samples[2].size
        gain = np.maximum(held_out - fold, 0.0)
        if self.n_folds is not None:
            gain *= 1.0 - fold / (self.n_folds * np.maximum(held_out, 1.0))
        return candidates, own + gain


def _at_lowest_that_holds(evidence: Evidence, candidates: Scores, estimates: Scores) -> Evidence:
    """Evidence at the lowest threshold from which on upwards V stays within what the rank allows."""
    assert evidence.rank is not None
    n = evidence.n_negative
    too_many = np.flatnonzero(estimates >= n - evidence.rank + 1)
    place = int(too_many[-1]) + 1 if too_many.size else 0
    n_false = int(estimates[place])
    return replace(
        evidence,
        threshold=float(candidates[place]),
        n_false_positive=n_false,
        fpr_estimate=n_false / n,
        guaranteed=False,
    )
