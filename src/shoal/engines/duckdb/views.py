"""Views of a custodian that cannot fail on a single row.

A view with `CAST(amount AS INTEGER)` and one bad amount works until a filter reaches that row: whether a query fails then says
where the row is. So a view over private rows is bound when a session opens, over an empty copy of the schema, and what the
engine has made of it is read like a statement of ours, with a shorter list of functions: arithmetic of whole numbers can
overflow, and nothing guards it there. Generated columns are computed when they are read, so they are views of one column. A data
frame that somebody registered may hold a value that its scan refuses: it is read whole, once.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from shoal.catalog import fold
from shoal.engines.duckdb.checking.known_calls import FUNCTIONS_OF_VIEWS
from shoal.engines.duckdb.checking.reading import Reader
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import duckdb

    Schemas = Mapping[str, Iterable[tuple[str, str]]]
    Places = Mapping[str, tuple[str, str]]

OWN_KINDS = frozenset({"duckdb"})
GENERATED = "GENERATED ALWAYS AS"


@dataclass(frozen=True)
class Stored:
    """What a database computes when a table is read, by folded name: views, generated columns, registered data frames."""

    views: Mapping[str, exp.Expr] = field(default_factory=dict)
    generated: Mapping[str, exp.Expr] = field(default_factory=dict)
    frames: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    """Tables of attached databases that an extension reads: it may refuse single values."""

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, places: Places) -> Stored:
        """`places` says which table is meant where several schemas have one of the same name."""
        views = stored_views(connection, places)
        frames = frozenset(table for table, query in views.items() if _is_frame(query))
        plain = {table: query for table, query in views.items() if table not in frames}
        return cls(plain, generated_columns(connection, places), frames, foreign_tables(connection, places))

    def computes(self, table: str) -> bool:
        """Whether reading the table computes anything."""
        return any(table in part for part in (self.views, self.generated, self.frames, self.foreign))

    def frames_under(self, tree: exp.Expr) -> set[str]:
        """The registered data frames that a query reads."""
        return _tables(tree, self.views) & self.frames


def refuse_fragile(view: str, tree: exp.Expr, schemas: Schemas, stored: Stored, lockdown: Iterable[str]) -> None:
    """E_CATALOG for a view that could fail on some rows, or that reads one."""
    reader, tables = Reader(lockdown), _tables(tree, stored.views)
    if tables & stored.foreign:
        raise ShoalError(
            "E_CATALOG",
            f"The rows of {view!r} lie in an attached database of another kind, whose reader can fail on single rows.",
            hint="Copy the table into DuckDB first (CREATE TABLE … AS SELECT …). If no row can fail, say trusted_view = true.",
        )
    reader.copy({table: columns for table, columns in schemas.items() if table in tables})
    inside = [part[table] for part in (stored.views, stored.generated) for table in sorted(tables) if table in part]
    for part in (tree, *inside):
        try:
            reader.check(_bare(part), FUNCTIONS_OF_VIEWS)
        except InternalError as found:
            raise ShoalError(
                "E_CATALOG",
                f"The view of {view!r} can fail on single rows: it has {str(found).rpartition(' with ')[2]}.",
                hint="Write casts as TRY_CAST, and use only functions that give a value or NULL for every row. "
                "If no row can fail, say trusted_view = true.",
            ) from None


def definitions(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, ...]]:
    """How every table and view is defined: what was checked holds while this stays."""
    rows = connection.sql(
        "SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables() WHERE NOT internal UNION ALL "
        "SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal"
    ).fetchall()
    return frozenset(tuple(map(str, row)) for row in rows)


def stored_views(connection: duckdb.DuckDBPyConnection, places: Places) -> dict[str, exp.Expr]:
    """The views of a database, by folded name; one that cannot be read is left out, and so cannot be bound either."""
    rows = connection.sql(
        "SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal"
    ).fetchall()
    found: dict[str, exp.Expr] = {}
    for database, schema, name, sql in rows:
        if places.get(fold(str(name))) != (database, schema):
            continue
        try:
            created = sqlglot.parse_one(str(sql), dialect="duckdb")
        except sqlglot.errors.SqlglotError:
            continue
        query = created.expression if isinstance(created, exp.Create) else None
        if isinstance(query, exp.Query):
            found[fold(str(name))] = query
    return found


def foreign_tables(connection: duckdb.DuckDBPyConnection, places: Places) -> frozenset[str]:
    """The tables, by folded name, that lie in databases which are none of DuckDB's own."""
    rows = connection.sql("SELECT database_name, type FROM system.main.duckdb_databases()").fetchall()
    foreign = {name for name, kind in rows if kind not in OWN_KINDS}
    return frozenset(table for table, (database, _) in places.items() if database in foreign)


def generated_columns(connection: duckdb.DuckDBPyConnection, places: Places) -> dict[str, exp.Expr]:
    """For every table with generated columns, a query that computes them as reading the table does."""
    rows = connection.sql(
        "SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables() WHERE NOT internal "
        f"AND system.main.contains(system.main.upper(sql), '{GENERATED}')"
    ).fetchall()
    found: dict[str, exp.Expr] = {}
    for database, schema, name, sql in rows:
        if places.get(fold(str(name))) == (database, schema):
            values = _generated_by(str(sql))
            if values:
                source = exp.Table(this=exp.to_identifier(fold(str(name)), quoted=True))
                found[fold(str(name))] = exp.select(*values).from_(source)
    return found


def _generated_by(sql: str) -> list[exp.Expr]:
    """What a CREATE TABLE computes; of one that cannot be read, a column that does not exist, so that nothing binds it."""
    try:
        created = sqlglot.parse_one(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return [exp.column("a column that cannot be read", quoted=True)]
    return [
        exp.Cast(this=constraint.expression.copy(), to=definition.args["kind"].copy())
        for definition in created.find_all(exp.ColumnDef)
        for constraint in definition.find_all(exp.GeneratedAsIdentityColumnConstraint, exp.ComputedColumnConstraint)
        if isinstance(constraint.expression, exp.Expr)
    ]


def _is_frame(query: exp.Expr) -> bool:
    """Whether a view is a data frame that was registered under a name: it computes nothing."""
    sources = list(query.find_all(exp.Table))
    one = len(sources) == 1 and sources[0].alias.startswith("__duckdb_source_")
    return one and isinstance(query, exp.Query) and query.is_star


def _tables(tree: exp.Expr, stored: Mapping[str, exp.Expr]) -> set[str]:
    """The tables that a view reads, through other views too."""
    found: set[str] = set()
    pending = [tree]
    while pending:
        for table in pending.pop().find_all(exp.Table):
            name = fold(table.name)
            if name not in found:
                found.add(name)
                pending.extend([stored[name]] if name in stored else [])
    return found


def _bare(tree: exp.Expr) -> str:
    """The query over tables of the copy, which has one schema."""
    query = tree.copy()
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            table.set("db", None)
            table.set("catalog", None)
            table.set("this", exp.to_identifier(fold(table.name), quoted=True))
    return query.sql(dialect="duckdb")
