"""Line search on the slope of a convex function."""

from __future__ import annotations

import math
from collections.abc import Callable

# Never closer to an end of the bracket than this share of it.
_MARGIN = 0.05


def line_search(
    slope: Callable[[float], float | None], slope_at_zero: float, *, tol: float = 0.3, max_eval: int = 14
) -> float:
    """Find t > 0 with ``|phi'(t)| <= tol |phi'(0)|`` for a convex phi with phi'(0) < 0.

    phi' grows, so that false position, with the Illinois rule, keeps a bracket, starting from t = 1 and going beyond
    while phi still falls. Slopes are used instead of values because near the optimum the values agree to rounding.

    Parameters
    ----------
    slope : callable
        phi'(t), or None where t lies too far out for phi to be defined.
    slope_at_zero : float
        phi'(0), negative.
    tol, max_eval
        When to stop.

    Returns
    -------
    float
        The step. When the evaluations run out, the farthest at which phi was seen to fall; 0 if there is none.

    Examples
    --------
    >>> line_search(lambda t: 2.0 * (t - 3.0), -6.0)
    3.0
    """
    low, slope_low = 0.0, slope_at_zero
    high, slope_high = math.inf, math.nan
    enough = tol * abs(slope_at_zero)
    t, side = 1.0, 0
    for _ in range(max_eval):
        value = slope(t)
        if value is not None and abs(value) <= enough:
            return t
        # The Illinois rule: an end that stays put while the other moves twice counts half.
        if value is not None and value < 0:
            slope_high *= 0.5 if side < 0 else 1.0
            low, slope_low, side = t, value, -1
        else:
            slope_low *= 0.5 if side > 0 else 1.0
            high, slope_high, side = t, math.nan if value is None else value, 1
        if high == math.inf:
            t *= 3.0
            continue
        fraction = 0.5 if math.isnan(slope_high) else slope_low / (slope_low - slope_high)
        t = low + (high - low) * min(max(fraction, _MARGIN), 1.0 - _MARGIN)
    return low
