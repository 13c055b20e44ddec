"""What a projection knows besides its result, and what the next one can start from."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

# A guess is looked for within this distance, relative to its size, even when the last answer did not move at all.
_LEAST_WIDTH = 1e-9

Guess = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a projection.

    With them, ``alpha = max(alpha0 - lam / weight, 0)`` and ``beta = min(max(beta0 - mu, 0), cap)``, unless the
    answer is zero: then the total and the cap are 0, and `lam` and `mu` say nothing.

    Attributes
    ----------
    lam : float
        Multiplier of the sum of alpha; 0 for the sets that have no alpha.
    mu : float
        Where beta starts; -inf when every entry of beta is at its cap.
    cap : float
        Upper bound on an entry of beta.
    total : float
        Common sum of alpha and beta.
    widths : tuple of three floats
        How far from here the next answer is looked for first when this one is its guess: around
        ``lam / weight``, ``mu`` and ``mu + cap``.
    """

    lam: float
    mu: float
    cap: float
    total: float
    widths: tuple[float, float, float]


def as_guess(guess: Thresholds | None, weight: float, scale: float) -> Guess | None:
    """Centres and half widths for the kernel, or None where the guess says nothing."""
    if guess is not None and not isinstance(guess, Thresholds):
        raise TypeError(f"guess must be the Thresholds of an earlier projection or None, got {guess!r}.")
    if guess is None or not guess.total > 0:
        return None
    numbers = (guess.lam / weight, guess.mu, guess.mu + guess.cap, *guess.widths)
    a, b, c, d, e, f = (scale * x for x in numbers)
    return (a, b, c, d, e, f) if all(map(isfinite, numbers)) and min(d, e, f) >= 0 else None


def next_widths(
    moved: tuple[float, float, float], centres: tuple[float, float, float], guess: Thresholds | None
) -> tuple[float, float, float]:
    """Twice as far as the thresholds moved this time, but not suddenly much less than before."""
    least = _LEAST_WIDTH * max(map(abs, centres))
    before = (0.0, 0.0, 0.0) if guess is None else guess.widths
    a, b, c = (max(2.0 * step, width / 4.0, least) for step, width in zip(moved, before, strict=True))
    return a, b, c
