"""The minimum and maximum of a value, from public knowledge alone: the catalog's bounds carried through expressions.

    >>> from shoal.plan.types import INTEGER
    >>> age = Column("c1", INTEGER)
    >>> known = KnownBounds()
    >>> known.columns["c1"] = Known(Fraction(18), Fraction(120), from_catalog=True)
    >>> known.of(Call("multiply", (age, Literal(2, INTEGER)), INTEGER))
    Known(lower=Fraction(36, 1), upper=Fraction(240, 1), from_catalog=True, listed=False)

Privacy does not depend on the result: it becomes a clamp like any other bounds, and values outside are clamped.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.params import is_usable_bound
from shoal.plan.expressions import Call, Case, Cast, Column, Literal
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shoal.plan.expressions import Expression

    Range = tuple[Fraction, Fraction]

SECONDS_OF_A_DAY = 86_400
_NUMBERS = {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL}


@dataclass(frozen=True, slots=True)
class Known:
    """Bounds of a value; `from_catalog` if they involve a column of the catalog, not just constants.

    `listed` if the catalog lists every value of those columns: then nothing lies outside.
    """

    lower: Fraction
    upper: Fraction
    from_catalog: bool = False
    listed: bool = False


def of_column(bounds: Range | None, values: tuple[object, ...] | None) -> Known | None:
    """What the catalog says about a column: its bounds, else the ends of its list of values if these are numbers.

    >>> of_column(None, (0, 1))
    Known(lower=Fraction(0, 1), upper=Fraction(1, 1), from_catalog=True, listed=True)
    """
    if bounds is not None:
        return Known(*bounds, from_catalog=True)
    numbers = [as_fraction(v) for v in values or () if type(v) in {int, float} and math.isfinite(v)]  # type: ignore[arg-type]
    if not values or len(numbers) < len(values) or min(numbers) == max(numbers):
        return None
    return _usable(Known(min(numbers), max(numbers), from_catalog=True, listed=True))


def of_period(period: tuple[dt.date, dt.date] | None, kind: Kind) -> Known | None:
    """What the catalog's first and last day say about a column of times, as numbers: days since 1970, seconds of timestamps.

    >>> of_period((dt.date(1970, 1, 2), dt.date(1970, 1, 3)), Kind.DATE)
    Known(lower=Fraction(1, 1), upper=Fraction(2, 1), from_catalog=True, listed=False)
    """
    if period is None or kind not in {Kind.DATE, Kind.TIMESTAMP}:
        return None
    first, last = (Fraction((day - dt.date(1970, 1, 1)).days) for day in period)
    if kind is Kind.TIMESTAMP:
        first, last = first * SECONDS_OF_A_DAY, (last + 1) * SECONDS_OF_A_DAY
    return Known(first, last, from_catalog=True) if first < last else None


class KnownBounds:
    """The bounds of columns, by symbol, and of expressions over them; of times as `of_period` counts them."""

    def __init__(self) -> None:
        self.columns: dict[str, Known] = {}
        self._seen: dict[int, tuple[Expression, Known | None]] = {}

    def of(self, value: Expression) -> Known | None:
        """The smallest and the largest value of an expression; None if unknown."""
        if isinstance(value, Column):
            return self.columns.get(value.symbol)
        # A part shared by many expressions is visited once: fully expanded, it might not fit in memory.
        if id(value) not in self._seen:
            self._seen[id(value)] = value, self._found(value)
        return self._seen[id(value)][1]

    def _found(self, value: Expression) -> Known | None:
        match value:
            case Literal(value=bool() | None):
                return None
            case Literal(value=int() | float() | Decimal() as number) if math.isfinite(number):
                return _usable(Known(as_fraction(number), as_fraction(number)))
            case Case(branches=branches, otherwise=otherwise):
                return self._one_of([v for _, v in branches] + [otherwise])
            case Cast(value=inner, type=type_) if inner.type.kind in _NUMBERS and type_.kind in _NUMBERS:
                return self._combined(_same if type_.kind is Kind.DOUBLE else _whole, [inner])
            case Cast(value=inner, type=type_) if inner.type.kind is Kind.BOOLEAN and type_.kind is Kind.INTEGER:
                return Known(Fraction(0), Fraction(1))
            case Call(function="nullif", arguments=(first, *_)):
                return self.of(first)
            case Call(function="coalesce" | "greatest" | "least", arguments=arguments):
                return self._one_of(arguments)
            case Call(function=function, arguments=arguments) if function in _FUNCTIONS:
                return self._combined(_FUNCTIONS[function], arguments)
        return None

    def _one_of(self, values: Iterable[Expression]) -> Known | None:
        """Bounds of a value that is one of several, or NULL."""
        return self._combined(_hull, [v for v in values if not (isinstance(v, Literal) and v.value is None)])

    def _combined(self, function: Callable[..., Range | None], values: Iterable[Expression]) -> Known | None:
        """What a function makes of the bounds of its arguments."""
        parts = [self.of(value) for value in values]
        known = [part for part in parts if part is not None]
        found = function(*((k.lower, k.upper) for k in known)) if known and len(known) == len(parts) else None
        said = [k for k in known if k.from_catalog]
        listed = bool(said) and all(k.listed for k in said)
        return _usable(Known(*found, from_catalog=bool(said), listed=listed)) if found is not None else None


def _usable(known: Known) -> Known | None:
    """Bounds an analyst could have written; others are left for the private search."""
    return known if is_usable_bound(known.lower) and is_usable_bound(known.upper) else None


def _hull(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _same(found: Range) -> Range:
    return found


def _whole(found: Range) -> Range:
    """Leaves room for any rounding mode, to whole numbers or to digits after the point."""
    return Fraction(math.floor(found[0])), Fraction(math.ceil(found[1]))


def _rounded(found: Range, digits: Range = (Fraction(0), Fraction(0))) -> Range | None:
    """Rounding to digits before the point can move a number further."""
    return _whole(found) if digits[0] >= 0 else None


def _products(left: Range, right: Range) -> Range:
    products = [a * b for a in left for b in right]
    return min(products), max(products)


def _quotients(dividend: Range, divisor: Range) -> Range | None:
    """Division by 0 gives NULL; division by a number near 0 can give anything."""
    low, high = divisor
    return _products(dividend, (1 / high, 1 / low)) if low > 0 or high < 0 else None


def _size(found: Range) -> Range:
    low, high = abs(found[0]), abs(found[1])
    return (Fraction(0) if found[0] < 0 < found[1] else min(low, high)), max(low, high)


_FUNCTIONS: dict[str, Callable[..., Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _products,
    "divide": _quotients,
    "negate": lambda a: (-a[1], -a[0]),
    "abs": _size,
    "round": _rounded,
    "floor": _whole,
    "ceil": _whole,
    "unix_date": _same,
    "epoch": _same,
}
