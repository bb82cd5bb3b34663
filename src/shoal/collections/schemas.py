"""What a function says it makes: names, and types as in CAST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.sql.functions import type_named

if TYPE_CHECKING:
    from shoal.plan.types import Type

MOST_FIELDS = 1000


def schema_of(written: Any) -> tuple[tuple[str, Type], ...]:
    """A checked schema; E_USAGE says which part of it is wrong.

    >>> [(name, str(type_)) for name, type_ in schema_of({"day": "date", "euros": "DECIMAL(10, 2)"})]
    [('day', 'date'), ('euros', 'decimal(10, 2)')]
    """
    hint = 'schema={"day": "date", "site": "text", "euros": "double"}'
    if not isinstance(written, Mapping) or not 0 < len(written) <= MOST_FIELDS:
        raise ShoalError("E_USAGE", "The schema says what a function makes: a dict of names and types.", hint=hint)
    names = [_name(name) for name in written]
    if len(set(map(fold, names))) < len(names):
        raise ShoalError("E_USAGE", "Two fields of the schema have the same name (names are case-insensitive).")
    return tuple((name, _type(name, written[name])) for name in names)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or "\0" in name or name.startswith("__"):
        raise ShoalError("E_USAGE", "A field of the schema has a name that no record can have.")
    return name


def _type(name: str, written: Any) -> Type:
    found = type_named(written) if isinstance(written, str) else None
    if found is None:
        raise ShoalError(
            "E_USAGE",
            f"The schema gives the field {name!r} a type that is not known.",
            hint="Types are written as in CAST: boolean, integer, double, decimal(10, 2), text, date, timestamp, time.",
        )
    return found.plain()
