"""Thresholds from negatives that grow: order statistics that keep the tolerance at every look together.

Let q be the (1 - tau) quantile of the negatives' scores. FPR(t) > tau exactly where t < q, so that the threshold which
leaves k of n scores above it exceeds tau only if M_n <= k, with M_n the number of the first n scores that are at least
q. Each is with probability tau or, by ties, more. For a rate p < tau the likelihood ratio against tau is a
supermartingale that starts at 1, and so is its mean over rates with the density 1 / (2 sqrt(p tau))::

    W_n(m) = integral over p < tau of   (p / tau)^m ((1 - p) / (1 - tau))^(n - m)  dp / (2 sqrt(p tau))
           = B(m + 1/2, n - m + 1) I_tau(m + 1/2, n - m + 1) / (2 sqrt(tau) tau^m (1 - tau)^(n - m))

By Ville's inequality W_n(M_n) >= 1/delta for any n at all has probability at most delta. W_n decreases in m: with k_n
the largest k whose W_n(k) is at least 1/delta, M_n <= k_n for any n has probability at most delta.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special

from taufpl._checks import Scores, check_count, check_delta, check_tau
from taufpl._choices import ANY as ANY
from taufpl._records import set_named_state, with_named_state
from taufpl._row_hashes import telling_hash
from taufpl.thresholding._evidence import Evidence
from taufpl.thresholding._order import USUAL_DELTA
from taufpl.thresholding._rules import Insufficient, OrderStatistic, choose_from_too_few, evidence_at_rank
from taufpl.thresholding._sample import Sample, ScoresLike, TopSample, as_sample

_EPS = float(np.finfo(np.float64).eps)
# Roundings of the terms of a logarithm that count against the threshold.
_ROUNDINGS = 16.0
# A sequence keeps twice the negatives that the loosest tolerance could leave above a threshold, and these beside.
_KEPT_SHARE, _KEPT_LEAST, _KEPT_MOST = 2.0, 1_000, 100_000
_MOST_NEGATIVES = 2**53
# This many negatives, and this share of them, have scores of negatives before them: where hardly any scores are tied,
# as the third number says, these are the same negatives.
_FEW, _MOST_KNOWN, _LEAST_DISTINCT = 10, 0.9, 0.99
_DIGITS = 8


def sequence_rank(n: int, tau: float, delta: float) -> int | None:
    """Smallest rank whose order statistic keeps FPR at or under tau at every look together, with probability 1 - delta.

    ::

        r = n - max { k : W_n(k) >= 1 / delta }

    Unlike :func:`order_rank`, which holds for one n chosen beforehand, it holds for all n at once: however often
    negatives are added and the threshold is chosen anew, and whatever the times of these looks depend on.

    Parameters
    ----------
    n : int
        How many negatives there are so far.
    tau, delta : float
        Tolerance, and the probability with which it may ever be exceeded; strictly between 0 and 1.

    Returns
    -------
    int or None
        Rank in ascending order, from 1 to n: the threshold is the r-th smallest score. None if n is less than
        :func:`sequence_negatives_needed`.

    Examples
    --------
    >>> from taufpl.thresholding import order_rank, sequence_rank
    >>> sequence_rank(10_000, tau=0.01, delta=0.05), order_rank(10_000, tau=0.01, delta=0.05)
    (9930, 9917)
    """
    n, tau, delta = check_count("n", n), check_tau(tau), check_delta(delta)
    # W is at most 1 where M is a share tau of n.
    above = bisect_left(range(math.floor(n * tau) + 1), True, key=lambda k: not _rejects(k, n, tau, delta)) - 1
    return None if above < 0 else n - above


def sequence_negatives_needed(tau: float, delta: float = USUAL_DELTA) -> int:
    """Smallest number of negatives from which a threshold that holds at every look can be had.

    Examples
    --------
    >>> from taufpl.thresholding import negatives_needed, sequence_negatives_needed
    >>> [sequence_negatives_needed(tau) for tau in (0.05, 0.01, 0.001)]
    [74, 377, 3787]
    >>> [negatives_needed(tau) for tau in (0.05, 0.01, 0.001)]
    [59, 299, 2995]
    """
    tau, delta = check_tau(tau), check_delta(delta)
    most = 1
    while not _rejects(0, most, tau, delta):
        most *= 2
    return bisect_left(range(most), True, lo=most // 2, key=lambda n: _rejects(0, n, tau, delta))


def _rejects(k: int, n: int, tau: float, delta: float) -> bool:
    """True if W_n(k) is at least 1/delta beyond doubt."""
    rest = special.betainc(k + 0.5, n - k + 1.0, tau)
    if rest == 0.0:
        return False
    terms = (
        float(special.betaln(k + 0.5, n - k + 1.0)),
        math.log(rest),
        -math.log(2.0) - 0.5 * math.log(tau),
        -k * math.log(tau),
        -(n - k) * math.log1p(-tau),
    )
    slack = _ROUNDINGS * _EPS * sum(map(abs, terms))
    return math.fsum(terms) - slack >= -math.log(delta)


@dataclass(frozen=True, slots=True)
class SequenceStatistic:
    """The thresholds of one or several tolerances that hold at every look, while the negatives grow.

    ::

        t = s_(r),   r = sequence_rank(n, tau, delta / number of tolerances),   s_(1) <= ... <= s_(n)

    Parameters
    ----------
    taus : sequence of float
        Tolerances strictly between 0 and 1.
    delta : float, default=0.05
        Probability with which one or more of them may ever be exceeded.
    insufficient : {"raise", "infinite", "largest"}, default="raise"
        As in :class:`OrderStatistic`, with fewer negatives than :func:`sequence_negatives_needed`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import SequenceStatistic
    >>> scores, rule = np.random.default_rng(0).normal(size=10_000), SequenceStatistic((0.05,))
    >>> [rule.choose_all(scores[:n])[0].n_false_positive for n in (100, 1000, 10_000)]
    [0, 30, 426]
    """

    taus: Sequence[float]
    delta: float = USUAL_DELTA
    insufficient: Insufficient = "raise"

    def choose_all(self, negative_scores: ScoresLike) -> tuple[Evidence, ...]:
        """Choose one threshold a tolerance from all negatives so far."""
        scores, n_taus = as_sample("negative_scores", negative_scores), len(self.taus)
        found = []
        for tau, rank in zip(self.taus, self.ranks(scores.size), strict=True):
            if rank is None:
                rule = OrderStatistic(tau, self.delta, self.insufficient)
                needed = sequence_negatives_needed(tau, self.delta / n_taus)
                evidence = choose_from_too_few(scores, rule, needed, n_taus)
            else:
                evidence = evidence_at_rank(scores, rank, tau, self.delta, guaranteed=True)
                # The martingale is about one rate: no bound below tau would hold at every look.
                evidence = replace(evidence, fpr_upper_bound=tau)
            found.append(replace(evidence, looks=ANY))
        return tuple(found)

    def ranks(self, n: int) -> tuple[int | None, ...]:
        """Ranks of the thresholds among the n negatives so far, one a tolerance; None where n is too small."""
        return tuple(sequence_rank(n, tau, self.delta / len(self.taus)) for tau in self.taus)

    @property
    def n_needed(self) -> int:
        """Negatives from which there is a threshold for every tolerance."""
        return sequence_negatives_needed(min(self.taus), self.delta / len(self.taus))


@with_named_state
@dataclass(frozen=True, slots=True, eq=False)
class NegativeSequence:
    """Negatives that grow, as thresholds that hold at every look need them: their number, and the highest scores.

    Parameters
    ----------
    delta : float
        Probability with which any of the thresholds may fail.
    n_negative : int, default=0
        How many negatives there are so far.
    scores : ndarray
        The highest scores, ascending, all above the floor: twice as many as the loosest tolerance could leave above a
        threshold, but at least 1,000 and at most 100,000.
    floor : float, default=-inf
        At least as high as every other score. Where a rank falls below the kept scores, the floor is the threshold:
        higher than the order statistic, and so more careful.
    caveats : tuple of str, default=()
        Why thresholds of this sequence are not guaranteed: copies among the negatives, say.
    added : tuple of str, default=()
        A hash of the scores of every addition: the very scores are not added twice, where few are tied.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import NegativeSequence
    >>> rng, sequence = np.random.default_rng(0), NegativeSequence(delta=0.05)
    >>> for _ in range(3):
    ...     sequence = sequence.add(rng.normal(size=5000), taus=(0.01,))
    ...     (evidence,) = sequence.choose_all((0.01,))
    ...     print(evidence.n_negative, round(evidence.threshold, 2), evidence.n_false_positive)
    5000 2.49 29
    10000 2.41 70
    15000 2.41 112
    """

    delta: float
    n_negative: int = 0
    scores: Scores = field(default_factory=lambda: np.empty(0))
    floor: float = -math.inf
    caveats: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_delta(self.delta)
        scores, n = self.scores, check_count("n_negative", self.n_negative)
        if not isinstance(scores, np.ndarray) or scores.dtype != np.float64 or scores.ndim != 1:
            raise ValueError("scores of a sequence of negatives must be a vector of doubles.")
        if scores.size > min(n, _KEPT_MOST) or n >= _MOST_NEGATIVES:
            raise ValueError("a sequence of negatives must hold at most as many scores as negatives.")
        if np.isnan(self.floor) or not np.all(scores[1:] >= scores[:-1]):
            raise ValueError("a sequence of negatives must hold ascending scores, and a floor.")
        if scores.size and not scores[0] > self.floor:
            raise ValueError("scores of a sequence of negatives must lie above its floor.")

    def _set_state(self, state: dict[str, object]) -> None:
        set_named_state(self, state)
        self.__post_init__()

    def add(
        self, negative_scores: ScoresLike, taus: Sequence[float], caveats: tuple[str, ...] = ()
    ) -> NegativeSequence:
        """The sequence with further negatives; a ValueError where these have been added before."""
        new = as_sample("negative_scores", negative_scores)
        n = self.n_negative + new.size
        most = min(_KEPT_MOST, max(_KEPT_LEAST, math.ceil(_KEPT_SHARE * max(taus) * n)))
        floor = self.floor if new.size <= most else max(self.floor, new.at_rank(new.size - most))
        highest = new.above(floor)
        _refuse_known(highest, self.scores)
        added = self._added_with(new)
        scores = np.sort(np.concatenate((self.scores[self.scores > floor], highest)))
        if scores.size > most:
            floor = float(scores[-most - 1])
            scores = scores[scores > floor]
        return NegativeSequence(self.delta, n, scores, floor, tuple(dict.fromkeys(self.caveats + caveats)), added)

    def _added_with(self, new: Sample) -> tuple[str, ...]:
        """Hashes of what was added, and of these; a ValueError where these were added before, in whatever order."""
        highest = new.above(new.at_rank(new.size - _KEPT_LEAST) if new.size > _KEPT_LEAST else -math.inf)
        # Of many tied scores others may well be the same.
        told = telling_hash(highest[:, np.newaxis])
        if told is None:
            return self.added
        told = f"{new.size} {told}"
        if told in self.added:
            raise ValueError(
                f"these {new.size:,} negatives have the very scores of negatives that were added before. A negative "
                "counts once: give new ones."
            )
        return (*self.added, told)

    def choose_all(self, taus: Sequence[float], insufficient: Insufficient = "raise") -> tuple[Evidence, ...]:
        """Choose one threshold a tolerance from all negatives so far."""
        sample = TopSample(self.scores, self.n_negative, self.floor)
        found = SequenceStatistic(taus, self.delta, insufficient).choose_all(sample)
        return tuple(each.without_guarantee(*self.caveats) if self.caveats else each for each in found)


def _refuse_known(new: Scores, known: Scores) -> None:
    """Refuse scores that are known already, where that cannot be chance."""
    if new.size < _FEW or known.size < _FEW or not known[0] < known[-1] < math.inf:
        return
    # Scores that are summed in another order differ in their last digits.
    new, known = (np.round((each - known[0]) / (known[-1] - known[0]), _DIGITS) for each in (new, known))
    n_known = int(np.count_nonzero(np.isin(new, known)))
    if n_known >= _MOST_KNOWN * new.size and np.unique(known).size >= _LEAST_DISTINCT * known.size:
        raise ValueError(
            f"{n_known:,} of the {new.size:,} highest of these negatives have the very scores of negatives that were "
            "added before. A negative counts once: give new ones."
        )
