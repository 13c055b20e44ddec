"""Alarms of a day: the tolerance that keeps them within a budget, and a lower bound on the share that is right.

A day has V independent rows. A row is positive with probability at most b, and a negative one is flagged with
probability at most tau. How many positives are flagged is not known; it is at most all of them. So the alarms A of a
day, flagged negatives and flagged positives, exceed a budget B no more often than a binomial does::

    P(A > B) <= P(Binomial(V, b + (1 - b) tau) > B)

which rises with V, b and tau: on days with fewer rows, or fewer positives, it holds too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from taufpl._checks import check_count, check_delta, check_number, check_tau
from taufpl.estimators import share_of_delta
from taufpl.thresholding import (
    ANY,
    USUAL_DELTA,
    JointOrderStatistic,
    SequenceStatistic,
    fpr_upper_bound,
    share_lower_bound,
)

# The quantile of a Beta distribution is good to about this share of itself: the tolerance is lowered by it.
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class AlarmBudget:
    """A tolerance that keeps the alarms of a day within a budget, and how delta is shared.

    Attributes
    ----------
    alarms_per_day, volume : int
        The budget, and the largest number of rows a day.
    base_rate : float
        Upper bound on the share of positives: as stated, or from labels.
    tau : float
        The tolerance on the false-positive rate.
    delta_threshold : float
        Probability with which the screen may have FPR above tau: the `delta` to fit it with.
    delta_base_rate : float
        Probability with which the base rate may be above its bound; 0 where it was stated.
    delta_day : float
        Probability with which the alarms of one day may exceed the budget, though FPR and base rate are as bounded.
    """

    alarms_per_day: int
    volume: int
    base_rate: float
    tau: float
    delta_threshold: float
    delta_base_rate: float
    delta_day: float

    @property
    def delta(self) -> float:
        """Probability with which the alarms of a day may exceed the budget, for whatever reason."""
        return self.delta_threshold + self.delta_base_rate + self.delta_day

    @property
    def expected_alarms(self) -> float:
        """The most alarms a day in the mean: FPR and base rate at their bounds, and every positive flagged."""
        return self.volume * (self.base_rate + (1.0 - self.base_rate) * self.tau)


def alarm_budget(
    alarms_per_day: int,
    volume: int,
    base_rate: float | None = None,
    *,
    positives: tuple[int, int] | None = None,
    n_negative: int | None = None,
    delta: float = USUAL_DELTA,
    looks: int | str = 1,
) -> AlarmBudget:
    """Find the largest tolerance that keeps the alarms of a day within a budget, with probability 1 - delta.

    ::

        tau = max { tau : P(Binomial(V, b + (1 - b) tau) > B) <= delta_day }

    delta is shared equally between what may go wrong: the threshold (FPR above tau), the day, and the bound on the base
    rate where it comes from labels. With probability 1 - delta_threshold - delta_base_rate, over the draw of the
    negatives that choose the threshold and of the labels, the screen is one whose alarms exceed the budget on any one
    day with probability at most delta_day. Over all three draws, they exceed it with probability at most delta.

    Parameters
    ----------
    alarms_per_day : int
        The budget: all alarms, false and true, on a day.
    volume : int
        Rows a day, at most.
    base_rate : float, default=None
        Share of positives among the rows, or a number that it is known not to exceed.
    positives : tuple of two ints, default=None
        In the place of `base_rate`: how many of how many labelled rows, a random sample of the traffic, are positive.
    n_negative : int, default=None
        How many negatives may choose the threshold. A tolerance that so few cannot prove is refused.
    delta : float, default=0.05
        Probability with which a day may have more alarms.
    looks : int or "any", default=1
        As the screen has it: how many thresholds over its life share `delta_threshold`, so that the promise holds for
        all of them together. More looks need more negatives.

    Returns
    -------
    AlarmBudget
        With `tau` and `delta_threshold`, for a screen.

    Raises
    ------
    ValueError
        Where no tolerance will do: the message says the smallest budget that could be met.

    Examples
    --------
    >>> from taufpl.planning import alarm_budget
    >>> budget = alarm_budget(400, volume=50_000, base_rate=0.001)
    >>> round(budget.tau, 5), budget.delta_threshold, round(budget.expected_alarms)
    (0.00626, 0.025, 363)
    >>> alarm_budget(60, volume=50_000, base_rate=0.001)
    Traceback (most recent call last):
    ...
    ValueError: 60 alarms a day cannot be promised: ... The smallest budget that could be met is 64 alarms a day.
    """
    volume, delta = check_count("volume", volume, 1), check_delta(delta)
    alarms_per_day = check_count("alarms_per_day", alarms_per_day, 1)
    if (base_rate is None) == (positives is None):
        raise ValueError("Give either base_rate, a share, or positives, how many of how many labelled rows.")
    if alarms_per_day >= volume:
        raise ValueError(
            f"alarms_per_day must be less than volume, {volume:,}; got {alarms_per_day:,}, which no day can exceed."
        )
    share = delta / (2.0 if positives is None else 3.0)
    bound = check_tau(base_rate, "base_rate", zero=True) if positives is None else fpr_upper_bound(*positives, share)

    def tolerance(alarms: int) -> float:
        """The tolerance for a budget; not above 0 where positives alone may exceed it."""
        most = share_lower_bound(alarms + 1, volume, share)
        return (most - bound) / (1.0 - bound) * (1.0 - _ROUNDING) if bound < 1.0 else -1.0

    def possible(alarms: int) -> bool:
        tau = tolerance(alarms)
        return tau > 0.0 and (n_negative is None or _needed(tau, share, looks) <= n_negative)

    if not possible(alarms_per_day):
        tau, fewest = tolerance(alarms_per_day), bisect_left(range(volume), True, lo=alarms_per_day, key=possible)
        if tau <= 0.0:
            reason = (
                f"up to {100.0 * bound:.3g} % of {volume:,} rows are positive, and if all of them raise an alarm, a "
                f"day has more than {alarms_per_day:,} with probability above {share:.3g}"
            )
        else:
            reason = (
                f"it takes a tolerance of {100.0 * tau:.3g} %, and a proof of that at delta {share:.3g} takes "
                f"{_needed(tau, share, looks):,} negatives that choose the threshold; {n_negative:,} may do so"
            )
        could = f"is {fewest:,} alarms a day" if fewest < volume else "would be all rows"
        raise ValueError(
            f"{alarms_per_day:,} alarms a day cannot be promised: {reason}. "
            f"The smallest budget that could be met {could}."
        )
    used_on_labels = 0.0 if positives is None else share
    return AlarmBudget(alarms_per_day, volume, bound, tolerance(alarms_per_day), share, used_on_labels, share)


def _needed(tau: float, delta: float, looks: int | str) -> int:
    """Negatives that the first of several thresholds takes."""
    rule = SequenceStatistic if looks == ANY else JointOrderStatistic
    return rule((tau,), share_of_delta(looks, delta, ())).n_needed


def precision_lower_bound(
    n_false_positive: int,
    n_negative: int,
    n_true_positive: int,
    n_positive: int,
    base_rate: float | tuple[float, float],
    delta: float = USUAL_DELTA,
) -> float:
    """Lower confidence bound on precision, the share of alarms that are right, for every base rate of a range.

    ::

        b r / (b r + (1 - b) f)     b the lowest base rate, r a lower bound on recall, f an upper bound on FPR

    Precision rises with the base rate and with recall, and falls with FPR. The two counts are independent, so that
    both bounds (Clopper-Pearson), each at confidence sqrt(1 - delta), hold together with probability 1 - delta.

    Parameters
    ----------
    n_false_positive, n_negative : int
        Alarms among negatives that the screen has not seen, and how many such negatives there are.
    n_true_positive, n_positive : int
        The same for positives.
    base_rate : float or tuple of two floats
        Share of positives in the traffic, or its lowest and highest value; strictly between 0 and 1.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    float
        0 where no positive was found: nothing is proven then.

    See Also
    --------
    precision_at : The share itself, from known rates.

    Examples
    --------
    Of 20,000 negatives 150 are flagged, of 400 positives 300; between 1 and 3 in 1,000 cases are positive.

    >>> from taufpl.planning import precision_at, precision_lower_bound
    >>> round(precision_lower_bound(150, 20_000, 300, 400, base_rate=(0.001, 0.003)), 4)
    0.0743
    >>> round(precision_at(0.001, recall=300 / 400, fpr=150 / 20_000), 4)
    0.091
    """
    low, _ = check_base_rate(base_rate)
    each = 1.0 - math.sqrt(1.0 - check_delta(delta))
    recall = share_lower_bound(n_true_positive, n_positive, each)
    return precision_at(low, recall, fpr_upper_bound(n_false_positive, n_negative, each))


def precision_at(base_rate: float, recall: float, fpr: float) -> float:
    """Share of alarms that are right, at a base rate, a recall and a false-positive rate; 0 without any alarm.

    ::

        b recall / (b recall + (1 - b) fpr)

    Examples
    --------
    One case in a thousand is positive, and 1 % of the others raise an alarm:

    >>> from taufpl.planning import precision_at
    >>> round(precision_at(0.001, recall=0.6, fpr=0.01), 3)
    0.057
    """
    right, wrong = base_rate * recall, (1.0 - base_rate) * fpr
    return right / (right + wrong) if right > 0.0 else 0.0


def check_base_rate(base_rate: float | tuple[float, float]) -> tuple[float, float]:
    """Lowest and highest share of positives, from a number or a pair."""
    ends = base_rate if isinstance(base_rate, (tuple, list)) else (base_rate, base_rate)
    if len(ends) != 2:
        raise ValueError(f"base_rate must be a share, or the lowest and the highest one; got {base_rate!r}.")
    low, high = (check_number("base_rate", end) for end in ends)
    if not 0.0 < low <= high < 1.0:
        raise ValueError(
            f"base_rate must be strictly between 0 and 1, the lowest share first; got {base_rate!r}. "
            "Write 0.01 for 1 %."
        )
    return low, high
