"""The private aggregates of a release: each a frozen description, the same as the SQL aggregate of its name.

    >>> from shoal import aggregates as agg
    >>> agg.sum("euros", bounds=(0, 100)).calls("total")
    (('total', 'SUM("euros", contribution_bounds_per_group => (0, 100))'),)

Omitted bounds are found and paid for, as in SQL. `epsilon` is a separate share for one aggregate.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

PER_GROUP, PER_ROW, ROWS = "contribution_bounds_per_group", "contribution_bounds_per_row", "max_contributions_per_group"
Number = int | float | Decimal | Fraction
Bounds = tuple[Number, Number]

__all__ = [
    "Aggregate",
    "count",
    "count_distinct",
    "count_owners",
    "max",
    "mean",
    "median",
    "min",
    "quantiles",
    "stddev",
    "sum",
    "variance",
]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One or more columns of a release: the SQL function, what it is taken of, constants behind it, named arguments."""

    function: str
    argument: str
    constants: tuple[tuple[str, str], ...] = (("", ""),)
    """For each column: what its name ends with, and the constant that it has."""
    named: tuple[tuple[str, Any], ...] = ()
    bounds: Any = None
    bounds_named: str = PER_GROUP

    @property
    def candidates(self) -> list[Any]:
        """All bounds that were given, where they are several to choose from."""
        several = isinstance(self.bounds, list) and all(isinstance(each, (tuple, list)) for each in self.bounds)
        return list(self.bounds) if several else []

    def calls(self, name: str) -> tuple[tuple[str, str], ...]:
        """(name of the column, SQL) for every column."""
        given = [(self.bounds_named, pair(self.bounds))] if self.bounds is not None else []
        written = [f"{key} => {value}" for key, value in (*given, *self.named)]
        return tuple(
            (f"{name}{ending}", f"{self.function}({', '.join(filter(None, [self.argument, constant, *written]))})")
            for ending, constant in self.constants
        )


def count(x: str | None = None, upper: Number | None = None, *, epsilon: Number | None = None) -> Aggregate:
    """Records, or those in which `x` is not NULL; an owner adds at most `upper` to a group."""
    bounds = None if upper is None else (0, upper) if not isinstance(upper, (list, tuple)) else [(0, u) for u in upper]
    return Aggregate("COUNT", "*" if x is None else field(x), named=_named(epsilon=epsilon), bounds=bounds)


def count_owners(*, epsilon: Number | None = None) -> Aggregate:
    """Owners: each counts once in a group."""
    return Aggregate("COUNT", "*", named=_named(epsilon=epsilon), bounds=(0, 1))


def count_distinct(x: str, max_values: int | None = None, *, epsilon: Number | None = None) -> Aggregate:
    """Different values; an owner adds at most `max_values` of them to a group."""
    return Aggregate("COUNT", f"DISTINCT {field(x)}", named=_named(rows=max_values, epsilon=epsilon))


def sum(x: str, bounds: Bounds | None = None, *, epsilon: Number | None = None) -> Aggregate:  # noqa: A001 - what SQL calls it
    """The sum; what an owner adds to a group is clamped to `bounds`."""
    return Aggregate("SUM", field(x), named=_named(epsilon=epsilon), bounds=bounds)


def mean(
    x: str,
    bounds: Bounds | None = None,
    *,
    bounds_per_row: Bounds | None = None,
    max_rows: int | None = None,
    epsilon: Number | None = None,
) -> Aggregate:
    """The mean of owners' means, each clamped to `bounds`; or of rows, `max_rows` of an owner, clamped to `bounds_per_row`."""
    if bounds_per_row is not None or max_rows is not None:
        if bounds is not None:
            raise ShoalError(
                "E_USAGE",
                "A mean is one of owners' means (bounds) or one of rows (bounds_per_row, max_rows), not both.",
                hint="agg.mean('x', bounds=(0, 100)), or agg.mean('x', bounds_per_row=(0, 100), max_rows=3)",
            )
        return _of_rows("AVG_ROWS", x, bounds_per_row, max_rows, epsilon)
    return Aggregate("AVG", field(x), named=_named(epsilon=epsilon), bounds=bounds)


def variance(
    x: str, bounds: Bounds | None = None, max_rows: int | None = None, *, epsilon: Number | None = None
) -> Aggregate:
    """The sample variance of rows, each clamped to `bounds`; `max_rows` of an owner in a group."""
    return _of_rows("VAR_SAMP", x, bounds, max_rows, epsilon)


def stddev(
    x: str, bounds: Bounds | None = None, max_rows: int | None = None, *, epsilon: Number | None = None
) -> Aggregate:
    """The sample standard deviation of rows, each clamped to `bounds`; `max_rows` of an owner in a group."""
    return _of_rows("STDDEV_SAMP", x, bounds, max_rows, epsilon)


def median(
    x: str, bounds: Bounds | None = None, max_rows: int | None = None, *, epsilon: Number | None = None
) -> Aggregate:
    """The median of rows within `bounds`; `max_rows` of an owner in a group."""
    return _of_rows("MEDIAN", x, bounds, max_rows, epsilon)


def quantiles(
    x: str,
    fractions: Iterable[Number],
    bounds: Bounds | None = None,
    max_rows: int | None = None,
    *,
    epsilon: Number | None = None,
) -> Aggregate:
    """Quantiles, a column for each: q=agg.quantiles("x", [0.25, 0.5], …) makes q_0.25 and q_0.5. They share one release."""
    wanted = [fractions] if isinstance(fractions, (int, float)) else list(fractions)
    if not wanted:
        raise ShoalError(
            "E_USAGE", "quantiles needs at least one fraction.", hint="agg.quantiles('x', [0.25, 0.5, 0.75])"
        )
    made = _of_rows("PERCENTILE_CONT", x, bounds, max_rows, epsilon)
    constants = tuple((f"_{number(p, 'a fraction')}", number(p, "a fraction")) for p in wanted)
    return Aggregate(made.function, made.argument, constants, made.named, made.bounds, made.bounds_named)


def min(x: str, bounds: Bounds | None = None, *, epsilon: Number | None = None) -> Aggregate:  # noqa: A001 - what SQL calls it
    """About the smallest value within `bounds`."""
    return _of_rows("MIN", x, bounds, None, epsilon)


def max(x: str, bounds: Bounds | None = None, *, epsilon: Number | None = None) -> Aggregate:  # noqa: A001 - what SQL calls it
    """About the largest value within `bounds`."""
    return _of_rows("MAX", x, bounds, None, epsilon)


def _of_rows(function: str, x: str, bounds: Bounds | None, rows: int | None, epsilon: Number | None) -> Aggregate:
    named = _named(rows=rows, epsilon=epsilon)
    return Aggregate(function, field(x), named=named, bounds=bounds, bounds_named=PER_ROW)


def _named(*, rows: int | None = None, epsilon: Number | None = None) -> tuple[tuple[str, str], ...]:
    given = ((ROWS, rows, "max_rows"), ("epsilon", epsilon, "epsilon"))
    return tuple((key, number(value, name)) for key, value, name in given if value is not None)


# ---- as SQL writes it ------------------------------------------------------------------------------------------------


def field(name: Any) -> str:
    """A field's name, quoted: nothing in it can be read as SQL."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ShoalError(
            "E_USAGE", "An aggregate is taken of a field, by its name.", hint='agg.sum("euros", bounds=(0, 100))'
        )
    return '"' + name.replace('"', '""') + '"'


def number(value: Any, what: str, code: str = "E_OPTION_INVALID") -> str:
    """A number, exactly as it is; text and truth values are refused, never converted.

    >>> number(1e-6, "delta"), number(Fraction(1, 8), "epsilon"), number(Decimal("0.10"), "epsilon")
    ('0.000001', '0.125', '0.1')
    """
    exact = params.exact_number(value, option=what, code=code)
    denominator = exact.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1:
        raise ShoalError(code, f"{what} cannot be written as a decimal number.", hint="Round it.")
    places = 0
    while (exact * 10**places).denominator != 1:
        places += 1
    digits = str(abs(int(exact * 10**places))).rjust(places + 1, "0")
    whole = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{whole}" if exact < 0 else whole


def pair(bounds: Any) -> str:
    """Two bounds."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise ShoalError("E_BOUNDS_INVALID", "Bounds are a pair: (lower, upper).", hint="bounds=(0, 100)")
    lower, upper = (number(end, "a bound", "E_BOUNDS_INVALID") for end in bounds)
    return f"({lower}, {upper})"
