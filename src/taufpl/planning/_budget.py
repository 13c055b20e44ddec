"""The tolerance that keeps the alarms of a day within a budget.

A day has V independent rows. A row is positive with probability at most b, and a negative one is flagged with
probability at most tau. How many positives are flagged is not known; it is at most all of them. So the alarms A of a
day, flagged negatives and flagged positives, exceed a budget B no more often than a binomial does::

    P(A > B) <= P(Binomial(V, b + (1 - b) tau) > B)

which rises with V, b and tau: on days with fewer rows, or fewer positives, it holds too.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from taufpl._checks import check_count, check_delta, check_tau
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
        return self.volume * _flagged(self.base_rate, self.tau)


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
        fewest = bisect_left(range(volume), True, lo=alarms_per_day, key=possible)
        tau = tolerance(alarms_per_day)
        needed = _needed(tau, share, looks) if tau > 0.0 else 0
        raise ValueError(_refusal(alarms_per_day, volume, bound, tau, share, (needed, n_negative), fewest))
    used_on_labels = 0.0 if positives is None else share
    return AlarmBudget(alarms_per_day, volume, bound, tolerance(alarms_per_day), share, used_on_labels, share)


def _flagged(base_rate: float, tau: float) -> float:
    """The largest share of rows that raise an alarm."""
    return base_rate + (1.0 - base_rate) * tau


def _needed(tau: float, delta: float, looks: int | str) -> int:
    """Negatives that the first of several thresholds takes."""
    rule = SequenceStatistic if looks == ANY else JointOrderStatistic
    return rule((tau,), share_of_delta(looks, delta, ())).n_needed


def _refusal(
    alarms: int, volume: int, base_rate: float, tau: float, delta: float, negatives: tuple[int, int | None], fewest: int
) -> str:
    """Why a budget cannot be met, and which one could be; negatives are those that it takes, and those at hand."""
    needed, n_negative = negatives
    if tau <= 0.0:
        reason = (
            f"up to {100.0 * base_rate:.3g} % of {volume:,} rows are positive, and if all of them raise an alarm, a "
            f"day has more than {alarms:,} with probability above {delta:.3g}"
        )
    else:
        reason = (
            f"it takes a tolerance of {100.0 * tau:.3g} %, and a proof of that at delta {delta:.3g} takes "
            f"{needed:,} negatives that choose the threshold; {n_negative:,} may do so"
        )
    could = f"is {fewest:,} alarms a day" if fewest < volume else "would be all rows"
    return f"{alarms:,} alarms a day cannot be promised: {reason}. The smallest budget that could be met {could}."
