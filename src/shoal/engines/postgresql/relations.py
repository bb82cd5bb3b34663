"""What a server has: tables with their columns, who may read and write them, and how views and row rules are defined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.catalog import fold
from shoal.engines.postgresql.statements import quoted
from shoal.engines.postgresql.types import Stored
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.catalog import Catalog, Table
    from shoal.engines.postgresql.server import Connection

OLDEST = 130000

_SERVER = """
SELECT CAST(pg_catalog.current_setting('server_version_num') AS pg_catalog.int4) AS version,
  pg_catalog.current_setting('server_encoding') AS encoding, CAST(CURRENT_USER AS pg_catalog.text) AS role,
  (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = CURRENT_USER) AS super
"""

_RELATIONS = """
WITH RECURSIVE below(whole, part) AS (
  SELECT i.inhparent, i.inhrelid FROM pg_catalog.pg_inherits i
  UNION
  SELECT b.whole, i.inhrelid FROM below b JOIN pg_catalog.pg_inherits i ON i.inhparent = b.part
)
SELECT CAST(n.nspname AS pg_catalog.text) AS schema, CAST(c.relname AS pg_catalog.text) AS name,
  CASE WHEN EXISTS (SELECT FROM below b JOIN pg_catalog.pg_class p ON p.oid = b.part
                    WHERE b.whole = c.oid AND p.relkind = 'f') THEN 'f'
    ELSE CAST(c.relkind AS pg_catalog.text) END AS kind, pg_catalog.row_security_active(c.oid) AS secured,
  (SELECT pg_catalog.string_agg(COALESCE(pg_catalog.pg_get_expr(p.polqual, p.polrelid), ''), ' AND ' ORDER BY p.oid)
   FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid) AS rules,
  CASE WHEN c.relkind = 'v' THEN pg_catalog.pg_get_viewdef(c.oid) END AS definition,
  pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT') AS readable,
  pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    OR pg_catalog.has_any_column_privilege(c.oid, 'INSERT, UPDATE') AS writable
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
ORDER BY 1, 2
"""

_COLUMNS = """
WITH RECURSIVE base(oid, target, modifier) AS (
  SELECT t.oid, t.oid, -1 FROM pg_catalog.pg_type t WHERE t.typtype <> 'd'
  UNION ALL
  SELECT d.oid, b.target, CASE WHEN d.typtypmod <> -1 THEN d.typtypmod ELSE b.modifier END
  FROM pg_catalog.pg_type d JOIN base b ON d.typbasetype = b.oid AND d.typtype = 'd'
)
SELECT CAST(n.nspname AS pg_catalog.text) AS schema, CAST(c.relname AS pg_catalog.text) AS relation,
  CAST(a.attname AS pg_catalog.text) AS name, CAST(t.typname AS pg_catalog.text) AS type,
  CAST(tn.nspname AS pg_catalog.text) AS type_schema, t.typtype = 'e' AS is_enum,
  CASE WHEN a.atttypmod <> -1 THEN a.atttypmod ELSE b.modifier END AS modifier,
  COALESCE(l.collisdeterministic, true) AS deterministic,
  pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') AND a.attgenerated <> 'v' AS readable
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN base b ON b.oid = a.atttypid JOIN pg_catalog.pg_type t ON t.oid = b.target
JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
ORDER BY 1, 2, a.attnum
"""

_ENUMS = "SELECT CAST(typname AS pg_catalog.text) AS name FROM pg_catalog.pg_type WHERE typtype = 'e'"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column: `deterministic` where equal strings have equal bytes."""

    name: str
    stored: Stored
    deterministic: bool = True
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, view, materialised view or foreign table, or a query of the catalog (`kind` "q").

    A table with a foreign part is a foreign table: a condition could keep the server from reading that part.
    """

    schema: str
    name: str
    kind: str
    columns: tuple[StoredColumn, ...] = ()
    definition: str | None = None
    rules: str | None = None
    readable: bool = True
    writable: bool = False

    @property
    def source(self) -> str:
        """What is in FROM."""
        if self.kind == "q":
            return f"({self.definition}\n) AS {quoted(self.name)}"
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def is_base(self) -> bool:
        """Whether a condition may be handed on: elsewhere a row may fail, and the condition would decide whether it is met."""
        return self.kind in {"r", "p"} and self.rules is None

    def column(self, name: str) -> StoredColumn:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def alike(self) -> list[str]:
        """Columns whose names differ only in case, or not at all: no query can say which one it means."""
        folded = [fold(column.name) for column in self.columns]
        return [column.name for column, name in zip(self.columns, folded, strict=True) if folded.count(name) > 1]

    def offered(self) -> Relation:
        """With the columns that queries can name and the role may read."""
        alike = set(self.alike)
        return replace(self, columns=tuple(c for c in self.columns if c.readable and c.name not in alike))

    def described(self) -> list[tuple[str, str]]:
        """Columns and types in the words of the embedded engine."""
        return [(column.name, column.stored.named) for column in self.offered().columns]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a role sees of a server."""

    role: str
    is_superuser: bool
    relations: tuple[Relation, ...]
    enums: frozenset[str] = frozenset()

    @classmethod
    def of(cls, connection: Connection) -> Contents:
        """Reads it; E_SOURCE for a server that is too old or keeps its strings in another encoding."""
        (server,) = connection.rows(_SERVER)
        _check_server(server)
        columns: dict[tuple[str, str], list[StoredColumn]] = {}
        for row in connection.rows(_COLUMNS):
            columns.setdefault((row["schema"], row["relation"]), []).append(_column(row))
        relations = [_relation(row, columns) for row in connection.rows(_RELATIONS)]
        enums = frozenset(row["name"] for row in connection.rows(_ENUMS))
        return cls(server["role"], bool(server["super"]), tuple(relations), enums)

    def at(self, schema: str, name: str) -> Relation | None:
        """The relation of exactly this name."""
        return next((r for r in self.relations if (r.schema, r.name) == (schema, name)), None)

    def named(self, name: str) -> list[Relation]:
        """Relations of this name in any schema, case ignored."""
        return [relation for relation in self.relations if fold(relation.name) == fold(name)]


def _check_server(server: dict[str, Any]) -> None:
    if not isinstance(server["version"], int):  # the driver learns the types of a server from strings that this changes
        role = server["role"].decode() if isinstance(server["role"], bytes) else server["role"]
        raise ShoalError(
            "E_SOURCE",
            "The role or the database sets quote_all_identifiers, and then the driver cannot read the types of the server.",
            hint=f"ALTER ROLE {quoted(role)} SET quote_all_identifiers = off;",
        )
    if server["version"] < OLDEST:
        raise ShoalError(
            "E_SOURCE", f"The PostgreSQL server is older than version {OLDEST // 10000}.", hint="Use a newer server."
        )
    if server["encoding"] != "UTF8":
        raise ShoalError(
            "E_SOURCE",
            "The PostgreSQL server stores strings in an encoding other than UTF8.",
            hint="Create the database with ENCODING 'UTF8'.",
        )


def _column(row: dict[str, Any]) -> StoredColumn:
    is_enum = bool(row["is_enum"])
    own = row["type"] if row["type_schema"] == "pg_catalog" or is_enum else f"{row['type_schema']}.{row['type']}"
    return StoredColumn(
        row["name"], Stored(own, int(row["modifier"]), is_enum), bool(row["deterministic"]), bool(row["readable"])
    )


def _relation(row: dict[str, Any], columns: dict[tuple[str, str], list[StoredColumn]]) -> Relation:
    place = row["schema"], row["name"]
    rules = (row["rules"] or "") if row["secured"] else None
    found = tuple(columns.get(place, ()))
    return Relation(*place, row["kind"], found, row["definition"], rules, bool(row["readable"]), bool(row["writable"]))


# ---- the catalog's tables ------------------------------------------------------------------------------------------


def located(contents: Contents, catalog: Catalog | None) -> dict[str, Relation]:
    """Folded name → relation: those of the catalog, or without one everything that can be read."""
    if catalog is None:
        return _everything(contents)
    found = {}
    for key, table in catalog.tables.items():
        if table.view is None and (relation := _located(contents, table)) is not None:
            found[key] = relation
    return found


def _everything(contents: Contents) -> dict[str, Relation]:
    """All tables that can be read; where two schemas have one of the same name, readable or not, the schema is part of it."""
    names = [fold(relation.name) for relation in contents.relations]
    return {
        name if names.count(name) == 1 else fold(f"{relation.schema}.{relation.name}"): relation.offered()
        for name, relation in zip(names, contents.relations, strict=True)
        if relation.readable
    }


def _located(contents: Contents, table: Table) -> Relation | None:
    candidates = sorted(_candidates(contents, table), key=lambda each: not each.readable)
    if len(candidates) > 1:
        listed = ", ".join(f'"{r.schema}.{r.name}"' for r in candidates[:5])
        raise ShoalError(
            "E_SOURCE",
            f"The database has several tables that {table.name!r} of the catalog could be: {listed}.",
            hint=f'Say which one: [tables.{table.name}] source = "{candidates[0].schema}.{candidates[0].name}".',
        )
    if not candidates:
        return None
    (relation,) = candidates
    if not relation.readable:
        raise ShoalError(
            "E_SOURCE",
            f"The role may not read the table {table.name!r} of the catalog.",
            hint=" ".join(grants(relation, contents.role)),
        )
    _refuse_loose_owner(table, relation)
    return relation.offered()


def _candidates(contents: Contents, table: Table) -> list[Relation]:
    written = table.source or table.name
    exact = [relation for relation in contents.relations if f"{relation.schema}.{relation.name}" == written]
    if exact:
        return exact
    if table.source is None:
        whole = [r for r in contents.relations if fold(f"{r.schema}.{r.name}") == fold(written)]
        return whole or contents.named(table.name)
    candidates = [relation for relation in contents.relations if relation.name == table.source]
    if not candidates:
        raise ShoalError(
            "E_CATALOG",
            f"The catalog says that {table.name!r} is {table.source!r}, and the database has no such table.",
            hint='A source is written "schema.table", exactly as the database spells it.',
        )
    return candidates


def _refuse_loose_owner(table: Table, relation: Relation) -> None:
    owner = next((c for c in relation.columns if fold(c.name) == fold(table.owner or "")), None)
    if owner is not None and not owner.deterministic:
        raise ShoalError(
            "E_SOURCE",
            f"The owner column of {table.name!r} has a collation under which different strings are equal.",
            hint="One owner of the database would be two here: name another column, or give it a deterministic collation.",
        )


def grants(relation: Relation, role: str) -> tuple[str, str]:
    """The two lines that make a reader of a role."""
    name = quoted(role)
    return (
        f"GRANT USAGE ON SCHEMA {quoted(relation.schema)} TO {name};",
        f"GRANT SELECT ON {quoted(relation.schema)}.{quoted(relation.name)} TO {name};",
    )


def warnings_of(contents: Contents, used: dict[str, Relation]) -> tuple[str, ...]:
    """What a role can do that a reader need not, and columns that no query can name."""
    tables = [relation for relation in used.values() if relation.kind != "q"]
    return (*_rights_beyond_reading(contents, tables), *_columns_alike(contents, tables))


def _rights_beyond_reading(contents: Contents, tables: list[Relation]) -> tuple[str, ...]:
    lines = " ".join(grants(tables[0], "reader")) if tables else ""
    if contents.is_superuser:
        return (f"The role {contents.role!r} is a superuser. A role that reads is enough: {lines}",)
    writable = [f"{relation.schema}.{relation.name}" for relation in tables if relation.writable]
    if not writable:
        return ()
    return (f"The role {contents.role!r} may write to {', '.join(writable)}. A role that reads is enough: {lines}",)


def _columns_alike(contents: Contents, tables: list[Relation]) -> tuple[str, ...]:
    stored = [whole for table in tables if (whole := contents.at(table.schema, table.name)) is not None]
    return tuple(
        f"No query can name the columns {', '.join(map(repr, relation.alike))} of {relation.schema}.{relation.name}, "
        "because names are compared without case. A view can give them other names."
        for relation in stored
        if relation.alike
    )
