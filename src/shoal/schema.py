"""Types of the catalog's tables, read once when a session opens and frozen: no later row can change them."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.catalog import CARRIED_OWNER, Catalog, ColumnFacts, Table, fold
from shoal.engines.base import EngineFailure
from shoal.errors import ShoalError
from shoal.plan.public_facts import PublicFacts
from shoal.plan.types import TEXT, Kind, Type
from shoal.sql.functions import type_of
from shoal.sql.functions.coerce import parsed_temporal

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.engines.base import Engine

Schema = tuple[tuple[str, Type], ...]
COUNTED_ROWS = 5_000_000


def frozen_schemas(engine: Engine, catalog: Catalog) -> tuple[dict[str, Schema], PublicFacts]:
    """Columns and types of every table, and what is counted in public ones (it bounds how far a join can fan out)."""
    found = engine.tables()
    schemas: dict[str, Schema] = {}
    for key, table in catalog.tables.items():
        if table.view is not None:
            columns = engine.add_view(table.name, table.view, trusted=table.trusted_view)
        elif key in found:
            columns = found[key]
            if not table.trusted_view:
                engine.refuse_fragile_view(table.name)
        elif not found:
            schemas[key] = _from_facts(table)
            continue
        else:
            raise ShoalError(
                "E_CATALOG",
                f"The catalog names the table {table.name!r}, but the source does not have it.",
                hint=f"Tables of the source: {', '.join(sorted(found)[:20])}.",
            )
        _check_told_apart(table, [name for name, _ in columns])
        schemas[key] = tuple((name, _type(table, name, stored)) for name, stored in columns)
        _check_facts(table, schemas[key])
        if not table.carries_owner:
            _check_owner(table, schemas[key])
    if found:
        _check_references(engine, catalog, schemas)
    for key in _owners_first(catalog):
        schemas[key] = _with_owner(engine, catalog, catalog.tables[key], schemas, exists=key in engine.tables())
    public = [t.name for k, t in catalog.tables.items() if t.public and (k in found or t.view is not None)]
    try:
        return schemas, _counted(engine, {fold(name): schemas[fold(name)] for name in public})
    except EngineFailure:
        pass
    raise ShoalError(
        "E_SOURCE",
        "A public table or view cannot be read to its end.",
        hint="Read it outside of shoal to see why. It may contain a value that is not a number, or text that is not UTF-8.",
    )


def _counted(engine: Engine, public: dict[str, Schema]) -> PublicFacts:
    """Sizes of public tables; of their columns too unless there are too many rows to read while a session opens."""
    rows = engine.row_counts(list(public))
    repeats: dict[tuple[str, str], int] = {}
    texts: dict[tuple[str, str], int] = {}
    for table, schema in public.items():
        if rows[table] <= COUNTED_ROWS:
            repeats |= {(table, column): most for column, most in engine.repeats(table, schema).items()}
            texts |= {(table, column): most for column, most in engine.longest_texts(table, schema).items()}
    return PublicFacts(rows, repeats, texts)


def _type(table: Table, column: str, stored: str) -> Type:
    """The catalog's type where it gives one, else what the engine stores."""
    wanted = table.facts(column).type
    is_owner = table.owner is not None and fold(column) == fold(table.owner)
    found = _owner_type(table, stored) if is_owner else type_of(stored)
    if wanted is None:
        return found
    chosen = type_of(wanted.upper())
    if chosen.kind is Kind.UNSUPPORTED:
        raise ShoalError(
            "E_CATALOG", f"The catalog gives the column {column!r} of {table.name!r} a type that is not known."
        )
    if chosen.plain() == found.plain():
        return found
    if is_owner and (found.kind, chosen.kind) == (Kind.DOUBLE, Kind.INTEGER):
        return replace(chosen, storage=found.storage)  # read exactly: what is not whole belongs to nobody
    if is_owner and not _tells_apart(found, chosen):
        raise ShoalError(
            "E_CATALOG",
            f"The owner column of {table.name!r} is stored as {found}; as {chosen} different owners could become one.",
            hint=f"Leave out the type of {column!r}, or make it TEXT. One person is then one value, as stored.",
        )
    return chosen.plain()


def _owner_type(table: Table, stored: str) -> Type:
    """The type of an owner column: whole numbers beyond 64 bits are carried as strings, so that none is lost."""
    name = stored.strip().upper()
    if name in {"HUGEINT", "UHUGEINT"}:
        return replace(TEXT, storage=stored)
    if name in {"TIMESTAMP_NS", "TIMESTAMPTZ_NS"}:
        raise ShoalError(
            "E_CATALOG",
            f"The owner column of {table.name!r} holds nanoseconds, and queries know microseconds: owners would merge.",
            hint="Name another owner column, or give the table a view in which the owner is CAST(epoch_ns(…) AS VARCHAR).",
        )
    return type_of(stored)


def _tells_apart(stored: Type, chosen: Type) -> bool:
    """Whether different stored values stay different."""
    if chosen.kind is Kind.TEXT:
        return stored.kind in {Kind.INTEGER, Kind.BOOLEAN, Kind.DATE, Kind.DECIMAL}
    if chosen.kind is Kind.DECIMAL:
        return stored.kind is Kind.INTEGER or (
            stored.kind is Kind.DECIMAL
            and chosen.scale >= stored.scale
            and chosen.precision - chosen.scale >= stored.precision - stored.scale
        )
    return chosen.kind is Kind.TIMESTAMP and stored.kind is Kind.DATE


def _owners_first(catalog: Catalog) -> list[str]:
    """Tables whose owner the engine adds, each after the one that its owner comes from."""
    waiting = [key for key, table in catalog.tables.items() if table.carries_owner]
    ordered: list[str] = []
    while waiting:
        ready = [key for key in waiting if _target(catalog, key) not in waiting]
        ordered += ready
        waiting = [key for key in waiting if key not in ready]
    return ordered


def _target(catalog: Catalog, key: str) -> str | None:
    through = catalog.tables[key].through
    return None if through is None else fold(through.to)


def _with_owner(engine: Engine, catalog: Catalog, table: Table, schemas: dict[str, Schema], *, exists: bool) -> Schema:
    """The columns of a table and the one that the engine adds: the owner in another table, or the row's own name."""
    schema = schemas[fold(table.name)]
    if not exists:
        return schema
    if any(fold(name) == CARRIED_OWNER for name, _ in schema):
        raise ShoalError(
            "E_CATALOG", f"The table {table.name!r} has a column {CARRIED_OWNER!r}, a name that shoal uses."
        )
    if table.through is None:
        engine.name_rows(table.name, schema)
        return (*schema, (CARRIED_OWNER, TEXT))
    target = catalog.tables[fold(table.through.to)]
    there = schemas[fold(target.name)]
    here, key = _column(table, schema, table.through.column), _column(target, there, table.through.key)
    engine.carry_owner(table.name, here, target.name, key, str(target.owner))
    owner = next(type_ for name, type_ in there if fold(name) == fold(str(target.owner)))
    return (*schema, (CARRIED_OWNER, owner))


def _check_references(engine: Engine, catalog: Catalog, schemas: dict[str, Schema]) -> None:
    """What is referred to is a key: in every row another value, in the data as they are when a session opens."""
    for key, table in catalog.tables.items():
        for reference in (*table.references, *table.lookups):
            target = catalog.tables[fold(reference.to)]
            here = _column(table, schemas[key], reference.column)
            there = _column(target, schemas[fold(target.name)], reference.key)
            if here[1].plain() != there[1].plain():
                raise ShoalError(
                    "E_CATALOG",
                    f"{reference.column!r} of {table.name!r} is of type {here[1]}, and {reference.key!r} of {target.name!r} "
                    f"of type {there[1]}: they cannot be compared.",
                    hint="Give one of them the other's type in the catalog.",
                )
            if reference in table.references and engine.repeats(target.name, [there])[there[0]] > 1:
                raise ShoalError(
                    "E_CATALOG",
                    f"The table {table.name!r} refers to {reference.key!r} of {target.name!r}, not a key: a value repeats.",
                    hint="A row must lead to one owner. Refer to a column whose values are all different.",
                )


def _column(table: Table, schema: Schema, wanted: str) -> tuple[str, Type]:
    for name, type_ in schema:
        if fold(name) == fold(wanted) and type_.kind is not Kind.UNSUPPORTED:
            return name, type_
    raise ShoalError("E_CATALOG", f"The table {table.name!r} has no column {wanted!r} that a reference could use.")


def _check_facts(table: Table, schema: Schema) -> None:
    names = {fold(name): type_ for name, type_ in schema}
    for column, facts in table.columns.items():
        if column not in names:
            raise ShoalError(
                "E_CATALOG", f"The catalog describes a column {column!r} that {table.name!r} does not have."
            )
        if not all(_fits(value, names[column]) for value in facts.values or ()):
            raise ShoalError(
                "E_CATALOG",
                f"The catalog lists values of the column {column!r} of {table.name!r} that do not fit its type.",
                hint=f"The column is of type {names[column]}.",
            )


def _check_told_apart(table: Table, columns: list[str]) -> None:
    """A column that the catalog names is one column: of two owners by one name, either could be the one that is meant."""
    through = None if table.through is None else table.through.column
    named = {fold(name) for name in (table.owner, through, *table.columns) if name is not None}
    for name in sorted(named):
        if sum(fold(column) == name for column in columns) > 1:
            raise ShoalError(
                "E_CATALOG",
                f"The table {table.name!r} has several columns with the name {name!r} (names are case-insensitive).",
                hint="Give each another name, in a view with AS.",
            )


def _check_owner(table: Table, schema: Schema) -> None:
    if table.owner is None:
        return
    names = {fold(name): type_ for name, type_ in schema}
    owner = names.get(fold(table.owner))
    if owner is None:
        raise ShoalError(
            "E_CATALOG",
            f"The table {table.name!r} has no column {table.owner!r} to be its owner.",
            hint="Its columns: "
            + ", ".join([name for name, _ in schema][:20])
            + ("…" if len(schema) > 20 else "")
            + ".",
        )
    if owner.kind not in {Kind.INTEGER, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN, Kind.DECIMAL}:
        raise ShoalError(
            "E_CATALOG",
            f"The owner column of {table.name!r} is of type {owner}, which cannot tell owners apart.",
            hint="Owners are whole numbers, strings, decimals, dates, timestamps or booleans. For whole numbers stored as "
            f'reals, give the column a type: [tables.{table.name}.columns.{table.owner}] type = "BIGINT".',
        )


def _fits(value: Any, type_: Type) -> bool:
    """Whether a listed value can be a key of a column: dates and times may be written as text."""
    match type_.kind:
        case _ if value is None:
            return True
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.TEXT:
            return isinstance(value, str)
        case Kind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        case Kind.DOUBLE | Kind.DECIMAL:
            number = isinstance(value, (int, float, Decimal, Fraction)) and not isinstance(value, bool)
            return number and -math.inf < value < math.inf
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIME:
            if isinstance(value, str):
                return parsed_temporal(value, type_.kind) is not None
            if type_.kind is Kind.DATE and isinstance(value, dt.datetime):
                return False
            return isinstance(value, dt.time if type_.kind is Kind.TIME else dt.date)
    return False


def _from_facts(table: Table) -> Schema:
    """Without data, types are guessed from what the catalog says: enough to explain a query."""
    columns: dict[str, Type] = {}
    if table.owner is not None:
        columns[table.owner] = type_of("BIGINT")
    for name, facts in table.columns.items():
        if table.owner is not None and name == fold(table.owner):
            continue
        columns[name] = type_of(
            facts.type.upper()
            if facts.type
            else "DATE"
            if facts.period
            else _guess(facts.values, bounded=facts.bounds is not None)
        )
    return tuple(columns.items())


def _guess(values: tuple[Any, ...] | None, *, bounded: bool) -> str:
    first = next((v for v in values or () if v is not None), None)
    if isinstance(first, bool):
        return "BOOLEAN"
    if isinstance(first, dt.date):
        return "DATE"
    if isinstance(first, int):
        return "BIGINT"
    return "DOUBLE" if bounded or isinstance(first, float) else "VARCHAR"


# ---- what the catalog says of itself -----------------------------------------------------------------------------


def described(catalog: Catalog, schemas: dict[str, Schema]) -> dict[str, dict[str, Any]]:
    """Every table: columns with their types, owner, bounds and domains."""
    found: dict[str, dict[str, Any]] = {}
    for table in catalog.tables.values():
        columns = {}
        for name, type_ in schemas[fold(table.name)]:
            if table.carries_owner and name == CARRIED_OWNER:
                continue
            facts = table.facts(name)
            columns[name] = {
                "type": str(type_),
                "bounds": _ends(facts),
                "values": list(facts.values) if facts.values is not None else None,
            }
        found[table.name] = {"public": table.public, "owner": table.owner_in_words, "columns": columns}
    return found


def _ends(facts: ColumnFacts) -> list[float] | list[str] | None:
    if facts.period is not None:
        return [str(day) for day in facts.period]
    return [float(bound) for bound in facts.bounds] if facts.bounds else None


def rows_about(known: dict[str, dict[str, Any]], word: str, name: str | None) -> pa.Table:
    """What SHOW TABLES and DESCRIBE name answer, from the tables that a session lists, here or at a service."""
    import pyarrow as pa

    if word == "SHOW":
        owners = ["(public)" if table["public"] else table["owner"] for table in known.values()]
        columns = [", ".join(table["columns"]) for table in known.values()]
        return pa.table({"table": list(known), "owner": owners, "columns": columns})
    table = next((each for each in known if fold(each) == fold(name or "")), None)
    if table is None:
        raise ShoalError(
            "E_UNKNOWN_TABLE",
            "There is no such table in the catalog.",
            hint=f"Tables: {', '.join(sorted(known)[:30])}.",
        )
    facts = known[table]["columns"].values()
    listed = [", ".join(map(str, fact["values"][:20])) if fact["values"] is not None else None for fact in facts]
    return pa.table(
        {
            "column": list(known[table]["columns"]),
            "type": [fact["type"] for fact in facts],
            "bounds": pa.array([str(fact["bounds"]) if fact["bounds"] else None for fact in facts], pa.string()),
            "values": pa.array(listed, pa.string()),
        }
    )
