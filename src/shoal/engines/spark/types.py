"""Types of Spark → types of queries. Instants are microseconds in UTC, whatever zone a session has."""

from __future__ import annotations

from typing import Any

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
    """Whether different texts may be equal."""
    return getattr(type_, "collation", "UTF8_BINARY") != "UTF8_BINARY"


def is_read(name: str) -> bool:
    """Whether queries can speak of a type."""
    return not name.endswith(UNSUPPORTED)
