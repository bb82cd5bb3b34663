"""Exact numbers: fractions, grids, and rounding whose direction is in the name.

Privacy depends on the numbers here, so floats enter only through `as_fraction` (by their shortest decimal form: the analyst
who writes 0.1 means one tenth) and leave only through functions that say which way they round.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction

Number = int | float | str | Decimal | Fraction


def as_fraction(value: Number) -> Fraction:
    """The exact rational a person means by this number; a float stands for its shortest decimal form.

    >>> as_fraction(0.1) * 10 == 1
    True
    """
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number here")  # noqa: TRY004 - callers catch one kind
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    try:
        decimal = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        raise ValueError("not a number") from None
    if not decimal.is_finite():
        raise ValueError("not a finite number")
    if decimal and abs(decimal.adjusted()) > 400:
        raise ValueError("the exponent is too large")
    return Fraction(decimal)


def floor_to_grid(value: Fraction, grid: Fraction) -> int:
    """The largest number of grid steps not above the value."""
    return math.floor(value / grid)


def ceil_to_grid(value: Fraction, grid: Fraction) -> int:
    """The smallest number of grid steps not below the value."""
    return math.ceil(value / grid)


def ceil_to_binary_digits(value: Fraction, digits: int) -> Fraction:
    """The smallest number of this many binary digits that is not below a positive value.

    >>> ceil_to_binary_digits(Fraction(1, 3), 2)
    Fraction(3, 8)
    """
    if not value:
        return value
    places = digits + value.denominator.bit_length() - value.numerator.bit_length()
    unit = Fraction(1, 2**places) if places >= 0 else Fraction(2**-places)
    return math.ceil(value / unit) * unit


def power_of_two_below(value: Fraction) -> Fraction:
    """The largest power of two that is not above a positive value."""
    if value <= 0:
        raise ValueError("only positive numbers have a power of two below them")
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    candidate = Fraction(2) ** exponent
    return candidate if candidate <= value else candidate / 2


def float_below(value: Fraction) -> float:
    """A float that is not above the value (and next to it)."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def float_above(value: Fraction) -> float:
    """A float that is not below the value (and next to it)."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
