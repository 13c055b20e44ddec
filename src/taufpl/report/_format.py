"""Numbers as text for the page. `templates/script.js` writes rates and amounts by the same rules."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

NONE = "–"
# A number and its sign stay on one line.
_PERCENT = "\u00a0%"


def rate(share: float | None) -> str:
    """A share in percent: three digits, more where that would round it to 100 %.

    Examples
    --------
    >>> [rate(share).replace("\u00a0", " ") for share in (0.01, 0.12345, 0.99235, 0.99996, 0.0, 1.0, None)]
    ['1 %', '12.3 %', '99.2 %', '99.996 %', '0 %', '100 %', '–']
    """
    if share is None:
        return NONE
    percent = 100.0 * share
    rest = 100.0 - percent
    scale, digits = 10.0, 1
    # No logarithms: the script must come to the same number of digits, to the last bit.
    while digits < 9 and (0.0 < percent < scale or 0.0 < rest < 0.005 * scale):
        scale, digits = scale / 10.0, digits + 1
    return f"{_trimmed(percent, digits)}{_PERCENT}"


def amount(value: float | None) -> str:
    """A number of cases, which need not be whole.

    Examples
    --------
    >>> amount(12345.6), amount(10.0), amount(9.87), amount(0.0456), amount(0.0)
    ('12,346', '10', '9.9', '0.046', '0')
    """
    if value is None:
        return NONE
    if value == 0.0 or value >= 10.0:
        return f"{int(_rounded(value, 0)):,}"
    scale, digits = 1.0, 1
    while digits < 9 and value < scale:
        scale, digits = scale / 10.0, digits + 1
    return _trimmed(value, digits)


def total(*parts: float | None) -> str:
    """The sum of numbers of cases, as they are shown: rounded, and yet their sum.

    Examples
    --------
    >>> amount(48.6), amount(342.6), amount(48.6 + 342.6), total(48.6, 342.6)
    ('49', '343', '391', '392')
    """
    known = [amount(part).replace(",", "") for part in parts if part is not None]
    return amount(sum(map(float, known))) if len(known) == len(parts) else NONE


def count(value: int) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def score(value: float | None, digits: int = 4) -> str:
    """A score or a threshold, to a number of digits.

    Examples
    --------
    >>> score(1.23456), score(-0.5), score(float("inf"))
    ('1.235', '−0.5', '∞')
    """
    if value is None or math.isnan(value):
        return NONE
    size = "∞" if math.isinf(value) else f"{abs(value):.{digits}g}"
    return f"−{size}" if value < 0 else size


def signed(value: float | None, digits: int = 3) -> str:
    """A difference of scores, with its sign."""
    return score(value, digits) if value is None or value <= 0 else f"+{score(value, digits)}"


def share_of(part: int, total: int) -> str:
    """A count, and which share of all it is."""
    return f"{count(part)} ({rate(part / total)})" if total else count(part)


def one_in(share: float) -> str:
    """A share as "1 in 100", where that is short; else in percent.

    Examples
    --------
    >>> one_in(0.01), one_in(0.025), one_in(0.03), one_in(0.0015), one_in(0.1)
    ('1 in 100', '1 in 40', '3 in 100', '15 in 10,000', '1 in 10')
    """
    inverse = 1.0 / share
    if math.isfinite(inverse) and abs(inverse - round(inverse)) < 1e-9 * inverse:
        return f"1 in {round(inverse):,}"
    for power in range(2, 9):
        part = share * 10.0**power
        if 0.5 < part < 100.0 and abs(part - round(part)) < 1e-9 * part:
            return f"{round(part):,} in {10**power:,}"
    return rate(share)


def place(share: float) -> str:
    """A place on the page, as a share of the width or the height."""
    return f"{100.0 * share:.2f}%"


def typed(value: float | None, digits: int = 15) -> str:
    """A number as it is typed into a field of a form."""
    return "" if value is None else f"{value:.{digits}g}"


def shortened(value: object, most: int = 60) -> str:
    """A text of modest length, in one line."""
    line = " ".join(str(value).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _rounded(value: float, digits: int) -> Decimal:
    """Halves go up, as in JavaScript's toFixed."""
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _trimmed(value: float, digits: int) -> str:
    return f"{_rounded(value, digits):f}".rstrip("0").rstrip(".")


# What the templates call: they format no number themselves.
FUNCTIONS = (rate, amount, total, count, counted, score, signed, share_of, one_in, place, typed, shortened)
