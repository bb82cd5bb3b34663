"""Types of Spark → types of queries. Instants are microseconds in UTC, whatever zone a session has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.engines.reading import Conjunct
    from shoal.plan.types import Type

FIRST_DAY, LAST_DAY = dt.date(1, 1, 1), dt.date(9999, 12, 31)
UNSUPPORTED = " (not supported)"
_DIGITS_OF_A_LONG = 18
"""Decimals of more digits are no bare numbers in Spark: one that is too long for its type is read as NULL."""
_NAMES = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "string": "VARCHAR",
}


def named(type_: Any) -> str:
    """A type of Spark in the words of the embedded engine."""
    text = str(type_.simpleString())
    if text.startswith("decimal("):
        return text.upper()
    if text.startswith(("string", "varchar(", "char(")):
        return "VARCHAR"
    return _NAMES.get(text, f"{text}{UNSUPPORTED}")


def is_collated(type_: Any) -> bool:
    """Whether different strings may be equal."""
    return getattr(type_, "collation", "UTF8_BINARY") != "UTF8_BINARY"


def is_read(name: str) -> bool:
    """Whether queries can speak of a type."""
    return not name.endswith(UNSUPPORTED)


def sound_text(functions: Any, column: str, longest: int | None = None) -> Any:
    """A column of strings; NULL for bytes that are not UTF-8, and for more than `longest` bytes.

    Spark keeps any bytes as a string. The engine of a task fails on them, so a condition that Spark narrows rows by would tell
    whether it holds for that row.
    """
    value = functions.col(column)
    read = functions.is_valid_utf8(value)
    return functions.when(read if longest is None else read & (functions.octet_length(value) <= longest), value)


def sound_number(functions: Any, column: str, stored: Any) -> Any:
    """A column of any other type; NULL for a decimal with more digits than its type, which Spark reads and cannot hand over."""
    value = functions.col(column)
    precision = getattr(stored, "precision", None)
    if not named(stored).startswith("DECIMAL") or precision is None or precision > _DIGITS_OF_A_LONG:
        return value
    largest = Decimal((0, (9,) * precision, -stored.scale))
    return functions.when(value.between(functions.lit(-largest), functions.lit(largest)), value)


def narrowing(functions: Any, stored: Any, column: str, conjunct: Conjunct) -> Any:
    """A condition that narrows rows once they are read; None where there is none that Spark is sure to read as queries do.

    It is written so that Spark hands it to no reader. A reader skips what cannot match, so a page that it cannot decode, or a time
    that it cannot convert, would fail only where the condition holds nearby.
    """
    if is_collated(stored) or named(stored) not in _NARROWED or conjunct.operator not in _COMPARISONS:
        return None
    found = _COMPARISONS[conjunct.operator](functions.col(column), list(conjunct.values))
    return functions.coalesce(found, functions.lit(False))


_NARROWED = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "BOOLEAN", "DATE", "VARCHAR"})
_COMPARISONS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "between": lambda column, values: column.between(*values),
    "in": lambda column, values: column.isin(values),
    "=": lambda column, values: column == values[0],
    "<": lambda column, values: column < values[0],
    "<=": lambda column, values: column <= values[0],
    ">": lambda column, values: column > values[0],
    ">=": lambda column, values: column >= values[0],
}
"""`is not null` is left to tasks: whatever it is written as, Spark finds a form for readers."""


def compared(functions: Any, stored: Any, column: str, type_: Type) -> Any:
    """A column in a form that Spark compares as queries do; None where that is not sure."""
    value, name = functions.col(column), named(stored)
    if type_.kind is Kind.INTEGER and name in {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}:
        return value.cast("bigint")
    if type_.kind is Kind.TEXT and stored.simpleString() == "string" and not is_collated(stored):
        return value
    if type_.kind is Kind.DATE and name == "DATE":
        return functions.when(value.between(FIRST_DAY, LAST_DAY), value)
    return value if type_.kind is Kind.BOOLEAN and name == "BOOLEAN" else None
