"""Numbers as people read them."""

from __future__ import annotations

import math


def counted(number: float) -> str:
    """A whole number with commas."""
    return f"{number:,.0f}"


def percent(share: float) -> str:
    """A share in percent, never rounded to nothing or to everything.

    >>> percent(0.25), percent(0.00001), percent(0.99999), percent(0)
    ('25%', '<0.1%', '>99.9%', '0%')
    """
    if share <= 0:
        return "0%"
    if share >= 1:
        return "100%"
    if share < 0.001:
        return "<0.1%"
    if share > 0.999:
        return ">99.9%"
    return f"{100 * share:.1f}%" if share < 0.1 or share > 0.9 else f"{100 * share:.0f}%"


def number(value: float | None) -> str:
    """A measure with three decimals, or what is shown for none."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def of_owners(count: int, total: int, unit: str) -> str:
    """`12 of 30,162 owners (<0.1%)`."""
    return f"{counted(count)} of {counted(total)} {unit} ({percent(count / max(total, 1))})"
