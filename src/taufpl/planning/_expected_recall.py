"""Recall to expect of a threshold that fresh negatives choose, from scores of labelled rows at hand.

The threshold that leaves a - 1 of n fresh negatives above it has a false-positive rate F ~ Beta(a, n + 1 - a) where
scores are continuous. Of the N negatives at hand, J ~ Binomial(N, F) lie above it. With these sorted downward, x_1 >=
x_2 >= ..., the threshold lies between x_(J+1) and x_J, and the positives that it finds between those above x_J and
those above x_(J+1). The expected recall is the mean over J, which is beta-binomial, of the middle of the two shares.

Its interval knows what both samples leave open. Given F at several quantiles of its distribution, the counts J at all
of them together are cumulative sums of a multinomial draw; given that k of M positives lie above a threshold, the true
recall lies between the k-th and the (k + 1)-th of M sorted uniform variables, whose gaps are those of Gamma variables.
So a draw of the mean recall is bounded from both sides, and the interval reaches from a low quantile of the lower
bounds to a high quantile of the upper ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from taufpl._checks import Scores, check_scores
from taufpl._types import Vector

Counts = NDArray[np.int64]

# Quantiles of F at which its distribution is represented, and draws for the interval.
_N_QUANTILES, _N_DRAWS = 64, 1000


@dataclass(frozen=True, slots=True)
class RecallForecast:
    """Scores of rows that a scorer has not seen, seen as counts.

    `caught[j]` positives lie above the j-th largest of the `n` negatives; none above the 0th, all above the last but
    one more.
    """

    caught: Counts
    n: int
    m: int

    @classmethod
    def from_scores(cls, negative_scores: Scores, positive_scores: Scores) -> RecallForecast:
        """Count the positives above every negative."""
        negative = np.sort(check_scores("negative_scores", negative_scores))[::-1]
        positive = np.sort(check_scores("positive_scores", positive_scores))
        above = positive.size - np.searchsorted(positive, negative, side="right")
        return cls(np.concatenate(([0], above, [positive.size])), negative.size, positive.size)

    def expect(self, n_fresh: int, n_above: int) -> float:
        """Mean recall of the threshold that leaves `n_above` of `n_fresh` negatives above it."""
        a, b = n_above + 1, n_fresh - n_above
        # All but a negligible share of the distributions of F, and of J given F.
        means = self.n * special.betaincinv(float(a), float(b), (1e-12, 1.0 - 1e-12))
        reach = 8.0 * np.sqrt(means) + 30.0
        places = np.arange(max(0, int(means[0] - reach[0])), min(self.n, int(means[1] + reach[1])) + 1)
        weights = stats.betabinom.pmf(places, self.n, a, b)
        middle = (self.caught[places] + self.caught[places + 1]) / 2.0
        return float(weights @ middle / weights.sum() / self.m)

    def interval(self, n_fresh: int, n_above: int, delta: float, seed: int = 0) -> tuple[float, float]:
        """Interval for that mean at confidence 1 - delta; approximate."""
        rng = np.random.default_rng(seed)
        quantiles = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
        rates = special.betaincinv(n_above + 1.0, float(n_fresh - n_above), quantiles)
        slices = np.diff(rates, prepend=0.0, append=1.0)
        places = np.cumsum(rng.multinomial(self.n, slices, size=_N_DRAWS)[:, :-1], axis=1)
        low = self._mean_recall(rng, self.caught[places])
        high = self._mean_recall(rng, self.caught[places + 1] + 1)
        return float(np.quantile(low, delta / 2.0)), float(np.quantile(high, 1.0 - delta / 2.0))

    def _mean_recall(self, rng: np.random.Generator, ranks: Counts) -> Vector:
        """Mean over a draw of the uniform variables with these ranks among m; the 0th is 0, the last but one more 1."""
        gaps = rng.standard_gamma(np.diff(ranks, prepend=0, append=self.m + 1, axis=1))
        total = gaps.sum(axis=1, keepdims=True)
        return np.asarray((np.cumsum(gaps[:, :-1], axis=1) / total).mean(axis=1))
