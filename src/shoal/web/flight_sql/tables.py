"""What Flight SQL reports about data sets: catalogs, schemas, tables, table types, the server itself."""

from __future__ import annotations

import re
from importlib.metadata import version
from itertools import accumulate
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.plan.types import Kind, Type
from shoal.release.stored_rows import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.service.people import Caller
    from shoal.service.service import Service
    from shoal.web.flight_sql.messages import Message

SCHEMA = "main"
TYPE = "TABLE"
LONGEST_PATTERN = 200
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


def _text(name: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable=nullable)


CATALOGS = pa.schema([_text("catalog_name")])
SCHEMAS = pa.schema([_text("catalog_name", nullable=True), _text("db_schema_name")])
TABLES = pa.schema(
    [
        _text("catalog_name", nullable=True),
        _text("db_schema_name", nullable=True),
        _text("table_name"),
        _text("table_type"),
    ]
)
WITH_COLUMNS = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
TYPES = pa.schema([_text("table_type")])


def described(service: Service, caller: Caller, dataset: str, asked: Message) -> pa.Table:
    """The table that a command requests."""
    commands: dict[str, Callable[[], pa.Table]] = {
        "CommandGetCatalogs": lambda: _catalogs(service, caller),
        "CommandGetDbSchemas": lambda: _schemas(service, caller, asked.said),
        "CommandGetTables": lambda: _tables(service, caller, dataset, asked.said),
        "CommandGetTableTypes": lambda: pa.table({"table_type": [TYPE]}, TYPES),
        "CommandGetSqlInfo": lambda: _about(asked.said.get("info", [])),
    }
    return commands[asked.name]()


def _names(service: Service, caller: Caller, said: dict[str, Any]) -> list[str]:
    return [name for name in service.me(caller)["datasets"] if said.get("catalog") in {None, "", name}]


def _catalogs(service: Service, caller: Caller) -> pa.Table:
    return pa.table({"catalog_name": _names(service, caller, {})}, CATALOGS)


def _schemas(service: Service, caller: Caller, said: dict[str, Any]) -> pa.Table:
    names = _names(service, caller, said) if _fits(SCHEMA, said.get("schemas")) else []
    return pa.table({"catalog_name": names, "db_schema_name": [SCHEMA] * len(names)}, SCHEMAS)


def _tables(service: Service, caller: Caller, dataset: str, said: dict[str, Any]) -> pa.Table:
    if not _fits(SCHEMA, said.get("schemas")) or (said.get("types") and TYPE not in said["types"]):
        names = []
    else:
        names = [name for name in _names(service, caller, said) if said.get("catalog") or dataset in {"", name}]
    rows = [
        (name, SCHEMA, table, TYPE, _columns(facts["columns"]))
        for name in names
        for table, facts in service.describe(caller, name)["tables"].items()
        if _fits(table, said.get("tables"))
    ]
    schema = WITH_COLUMNS if said.get("include_schema") else TABLES
    columns = zip(*rows, strict=True) if rows else [()] * 5
    return pa.table([pa.array(list(values), f.type) for values, f in zip(columns, schema, strict=False)], schema=schema)


def _columns(columns: dict[str, Any]) -> bytes:
    fields = [pa.field(name, _type_named(facts["type"])) for name, facts in columns.items()]
    return bytes(pa.schema(fields).serialize())


def _type_named(name: str) -> pa.DataType:
    """The type that a column would have in an answer; string if it can be in none."""
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return arrow_type(Type(Kind.DECIMAL, int(decimal[1]), int(decimal[2])))
    kind = Kind(name)
    return pa.string() if kind in {Kind.UNSUPPORTED, Kind.INTERVAL} else arrow_type(Type(kind))


def _fits(name: str, pattern: str | None) -> bool:
    """LIKE: % is any string, _ one character. In time of name × pattern: a backtracking expression could take forever."""
    if not pattern or len(pattern) > LONGEST_PATTERN:
        return not pattern
    reached = [True, *[False] * len(name)]
    for sign in pattern:
        if sign == "%":
            reached = list(accumulate(reached, or_))
        else:
            reached = [False, *(before and sign in {"_", c} for before, c in zip(reached, name, strict=False))]
    return reached[-1]


def _about(numbers: list[int]) -> pa.Table:
    """Name, version, version of Arrow, and that nothing can be written."""
    known: dict[int, str | bool] = {0: "shoal", 1: version("shoal"), 2: pa.__version__, 3: True}
    wanted = [number for number in known if not numbers or number in numbers]
    texts = [str(known[n]) for n in wanted if isinstance(known[n], str)]
    flags = [known[n] for n in wanted if isinstance(known[n], bool)]
    kinds = [0 if isinstance(known[n], str) else 1 for n in wanted]
    places = [kinds[:i].count(kind) for i, kind in enumerate(kinds)]
    children = [
        pa.array(texts, pa.string()),
        pa.array(flags, pa.bool_()),
        pa.array([], pa.int64()),
        pa.array([], pa.int32()),
        pa.array([], pa.list_(pa.string())),
        pa.array([], pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
    names = ["string_value", "bool_value", "bigint_value", "int32_bitmask", "string_list", "int32_to_int32_list_map"]
    union = pa.UnionArray.from_dense(pa.array(kinds, pa.int8()), pa.array(places, pa.int32()), children, names)
    schema = pa.schema(
        [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", union.type, nullable=False)]
    )
    return pa.table([pa.array(wanted, pa.uint32()), union], schema=schema)
