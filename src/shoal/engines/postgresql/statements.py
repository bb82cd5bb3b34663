"""What is sent to the server: plain reads by qualified names, and the settings of a session."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from shoal.engines.postgresql.types import ORDERED, TEXTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.engines.postgresql.relations import Relation, StoredColumn
    from shoal.engines.reading import Conjunct, Constant

LOCK_SECONDS = 10

SETTINGS = (
    "SET client_min_messages = 'error'",
    "SET search_path = ''",
    "SET default_transaction_read_only = on",
    "SET row_security = on",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET IntervalStyle = 'postgres'",
    "SET client_encoding = 'UTF8'",
    "SET standard_conforming_strings = on",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
    f"SET lock_timeout = '{LOCK_SECONDS}s'",
    "SET application_name = 'shoal'",
)
"""Sent before anything else, whatever the role or the database has set: with an empty path no operator and no function of a
user's schema is found, and rules about rows narrow a table instead of failing the query.
"""


def limits(seconds: float) -> tuple[str, ...]:
    """How long statements of one query may run, and how long the server waits for us between them."""
    milliseconds = max(1, min(int(seconds * 1000), 2**31 - 1))
    return (
        f"SET statement_timeout = {milliseconds}",
        f"SET idle_in_transaction_session_timeout = {milliseconds}",
    )


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text constant."""
    return "'" + value.replace("'", "''") + "'"


def rows_statement(
    relation: Relation,
    columns: Sequence[StoredColumn],
    owner: str | None,
    conjuncts: Sequence[Conjunct],
    longest: int | None = None,
) -> str:
    """SELECT some columns of the rows that have an owner, narrowed where the relation can bear it.

    Strings of more than `longest` bytes stay on the server: a row of more than 1 GB cannot be sent, and its owner would be seen.
    """
    named = [(column.stored, quoted(column.name)) for column in columns]
    items = [f"{stored.handed_over(name, longest)} AS {name}" for stored, name in named]
    conditions = [] if owner is None else [f"{quoted(owner)} IS NOT NULL"]
    if relation.is_base:
        conditions += [written for c in conjuncts if (written := condition(c, relation.column(c.column))) is not None]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(items) or 'NULL AS nothing'} FROM {relation.source}{where}"


def condition(conjunct: Conjunct, column: StoredColumn) -> str | None:
    """A condition by operators of the system alone; None where the column's type does not allow it."""
    type_, name = column.stored.type, quoted(column.name)
    if conjunct.operator == "is not null":
        return f"{name} IS NOT NULL"
    if type_ in TEXTS:
        if conjunct.operator not in {"=", "in"} or not column.deterministic:
            return None
        left = f'CAST({name} AS pg_catalog.text) COLLATE pg_catalog."C"'
    elif type_ in ORDERED or (type_ == "bool" and conjunct.operator in {"=", "in"}):
        left = name
    else:
        return None
    values = [constant(value) for value in conjunct.values]
    if conjunct.operator == "in":
        return "(" + " OR ".join(f"{left} OPERATOR(pg_catalog.=) {value}" for value in values) + ")"
    if conjunct.operator == "between":
        return f"({left} OPERATOR(pg_catalog.>=) {values[0]} AND {left} OPERATOR(pg_catalog.<=) {values[1]})"
    return f"{left} OPERATOR(pg_catalog.{conjunct.operator}) {values[0]}"


def constant(value: Constant) -> str:
    """A typed constant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"CAST('{value}' AS pg_catalog.int8)"
    if isinstance(value, dt.date):
        return f"CAST('{value.isoformat()}' AS pg_catalog.date)"
    return f"CAST({text(value)} AS pg_catalog.text)"
