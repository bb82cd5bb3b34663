"""Types of Spark → types of queries. Instants are microseconds in UTC, whatever zone a session has."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from shoal.plan.types import Kind

if TYPE_CHECKING:
    from shoal.plan.types import Type

FIRST_DAY, LAST_DAY = dt.date(1, 1, 1), dt.date(9999, 12, 31)
UNSUPPORTED = " (not supported)"
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
