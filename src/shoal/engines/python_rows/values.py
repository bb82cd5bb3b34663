"""Columns of Arrow as Python values, and back: what a function gives must fit the declared type, or is NULL.

Runs in worker processes: imports little.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Value = int | float | str | bool | dt.date | dt.datetime | dt.time | Decimal | None

_WIDE = Context(prec=80)
_FIRST_INTEGER, _LAST_INTEGER = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type that records speak: one of the kinds of a plan, with the digits of a decimal."""

    kind: str
    precision: int = 0
    scale: int = 0

    @property
    def arrow(self) -> pa.DataType:
        """How a column of it is kept."""
        if self.kind == "decimal":
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.kind]


_ARROW = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "time": pa.time64("us"),
}


def values_of(column: pa.Array) -> list[Any]:
    """The values of a column as Python has them; None for NULL.

    >>> values_of(pa.array([1, None])), values_of(pa.array([dt.date(2024, 2, 29)]))
    ([1, None], [datetime.date(2024, 2, 29)])
    """
    type_ = column.type
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        filled = column.fill_null(False if pa.types.is_boolean(type_) else 0) if column.null_count else column
        values: list[Any] = filled.to_numpy(zero_copy_only=False).tolist()
        for position in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else ():
            values[position] = None
        return values
    if pa.types.is_date32(type_) or (pa.types.is_timestamp(type_) and type_.unit == "us"):
        instants = column.to_numpy(zero_copy_only=False)
        return list(instants.astype("M8[D]" if pa.types.is_date32(type_) else "M8[us]").tolist())
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return list(column.to_numpy(zero_copy_only=False))
    return list(column.to_pylist())


def column_of(
    values: Sequence[Any], type_: ValueType, turn: Callable[[int], object] = lambda position: position
) -> pa.Array:
    """Values that a function gave, as a column of the declared type; what does not fit is NULL.

    Where not all of them are of Python's own types, `turn` is called with the place of each before code of its class may run.

    >>> column_of([1, 2.5, "3", True, 2**63, None], ValueType("integer")).to_pylist()
    [1, None, None, None, None, None]
    """
    plain = _PLAIN.get(type_.kind)
    types = set(map(type, values)) if plain is not None else set[type]()
    if plain is not None and types <= plain:
        try:
            number = _NUMBERS.get(type_.kind) if type(None) not in types else None
            there = values if number is None else np.fromiter(values, number, len(values))
            return pa.array(there, type_.arrow, from_pandas=type_.kind == "double")
        except MemoryError:  # Arrow's is one of its own exceptions too
            raise
        except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
            pass
    fit = fitting(type_)
    fitted = []
    for position, value in enumerate(values):
        turn(position)
        fitted.append(_taken(fit(value), type_))
    return pa.array(fitted, type_.arrow)


def _taken(value: Any, type_: ValueType) -> Any:
    """The value if Arrow takes it: one that it refuses must not end the process, which would tell."""
    try:
        pa.scalar(value, type_.arrow)
    except MemoryError:  # whether there is enough depends on what others have left
        raise
    except Exception:  # noqa: BLE001 - whatever it is that Arrow cannot take
        return None
    return value


_PLAIN: dict[str, set[type]] = {
    "boolean": {bool, type(None)},
    "integer": {int, type(None)},
    "double": {float, type(None)},
    "text": {str, type(None)},
    "date": {dt.date, type(None)},
}
"""Types whose values Arrow takes as they are, or refuses; a NaN is missing."""
_NUMBERS = {"integer": np.int64, "double": np.float64}
"""Of these NumPy makes a column faster than Arrow, where none is missing."""


def fitting(type_: ValueType) -> Callable[[Any], Value]:
    """The value of the declared type that something is, or None; never an exception, whatever it is, but for want of memory.

    What comes out is of Python's own types: no code of the value's class runs any more.
    """
    exact = _FITS[type_.kind]

    def fit(value: Any) -> Value:
        try:
            plain = value.item() if isinstance(value, np.generic) else value
            return exact(plain, type_)
        except MemoryError:  # whether there is enough depends on what others have left
            raise
        except BaseException:  # noqa: BLE001 - a class may raise what it likes, and that says nothing
            return None

    return fit


def _boolean(value: Any, _: ValueType) -> Value:
    return value if isinstance(value, bool) else None


def _integer(value: Any, _: ValueType) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    number = int.__index__(value)
    return number if _FIRST_INTEGER <= number <= _LAST_INTEGER else None


def _double(value: Any, _: ValueType) -> Value:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _decimal(value: Any, type_: ValueType) -> Value:
    """Rounded to the places of the type, halves away from zero, as a cast does."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not math.isfinite(value):
        return None
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, _WIDE)
    return rounded if len(rounded.as_tuple().digits) <= type_.precision else None


def _text(value: Any, _: ValueType) -> Value:
    if not isinstance(value, str):
        return None
    text = str.__str__(value)
    text.encode()  # half a pair of surrogates is not text
    return text


def _date(value: Any, _: ValueType) -> Value:
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        return None
    return value if type(value) is dt.date else dt.date(value.year, value.month, value.day)


def _timestamp(value: Any, _: ValueType) -> Value:
    """Instants with a zone in UTC, as stored ones are."""
    if not isinstance(value, dt.datetime):
        return None
    plain = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    if type(plain) is dt.datetime:
        return plain
    return dt.datetime(  # noqa: DTZ001 - instants are kept without a zone
        *(plain.year, plain.month, plain.day, plain.hour, plain.minute, plain.second, plain.microsecond)
    )


def _time(value: Any, _: ValueType) -> Value:
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        return None
    return value if type(value) is dt.time else dt.time(value.hour, value.minute, value.second, value.microsecond)


_FITS: dict[str, Callable[[Any, ValueType], Value]] = {
    "boolean": _boolean,
    "integer": _integer,
    "double": _double,
    "decimal": _decimal,
    "text": _text,
    "date": _date,
    "timestamp": _timestamp,
    "time": _time,
}
