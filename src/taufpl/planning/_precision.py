"""A lower bound on precision, from counts on labelled rows and a stated base rate."""

from __future__ import annotations

import math

from taufpl._checks import check_delta, check_number
from taufpl.thresholding import USUAL_DELTA, fpr_upper_bound, share_lower_bound


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
