"""Views of a custodian that cannot fail on a single row.

A view with `CAST(amount AS INTEGER)` and one bad amount works until a filter reaches that row: whether a query fails then says
where the row is. So what reading a table computes is bound when a session opens, by the very connection that will run it, with
views under views, macros and generated columns, and what the engine has made of it is read like a statement of ours, with a
shorter list of functions: arithmetic of whole numbers can overflow, and nothing guards it there.

The engine cannot write down how it reads a data frame that somebody registered. Views over one are bound over an empty copy of
the schema instead, if their names mean one table each; and the frame is read whole, once, since its scan may refuse a value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from shoal.catalog import fold
from shoal.engines.duckdb.checking.casts import surprise
from shoal.engines.duckdb.checking.fan_out import check_fan_out
from shoal.engines.duckdb.checking.known_calls import OF_VIEWS
from shoal.engines.duckdb.checking.reading import NO_TABLE, READ, Reader, bound, check_plan, databases_of
from shoal.engines.duckdb.checking.row_bounds import MOST_COPIES, MultipliedError, RepeatedError
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import duckdb

    from shoal.engines.duckdb.checking.string_bounds import Statistics

    Json = dict[str, Any]
    Schemas = Mapping[str, Iterable[tuple[str, str]]]
    Places = Mapping[str, tuple[str, str]]

OWN_KINDS = frozenset({"duckdb"})
UNREADABLE = exp.select(exp.column("a view that cannot be read", quoted=True))
"""Stands for a view whose text is not understood: nothing binds it."""
GENERATED = "GENERATED ALWAYS AS"


@dataclass(frozen=True)
class Stored:
    """What a database computes when a table is read, by folded name: views, generated columns, registered data frames."""

    views: Mapping[str, exp.Expr] = field(default_factory=dict)
    generated: Mapping[str, exp.Expr] = field(default_factory=dict)
    frames: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    """Tables of attached databases that an extension reads: it may refuse single values."""
    ambiguous: frozenset[str] = frozenset()
    """Names that tables of several schemas or databases have."""
    has_macros: bool = False
    """Whether a name of a function may mean something that somebody stored."""

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, places: Places) -> Stored:
        """`places` says which table is meant where several schemas have one of the same name."""
        views = stored_views(connection, places)
        frames = frozenset(table for table, query in views.items() if _is_frame(query))
        plain = {table: query for table, query in views.items() if table not in frames}
        generated, foreign = generated_columns(connection, places), foreign_tables(connection, places)
        return cls(plain, generated, frames, foreign, ambiguous_names(connection), bool(macros(connection)))

    def frames_under(self, tree: exp.Expr) -> set[str]:
        """The registered data frames that a query reads."""
        return _tables(tree, self.views) & self.frames


def read_in_place(connection: duckdb.DuckDBPyConnection, tree: exp.Expr) -> Json:
    """Has the connection bind a query over its own tables; InternalError where rows could make it fail.

    What it has made of the query.
    """
    (plan,) = bound(connection, READ, [tree.sql(dialect="duckdb")])
    check_plan(plan, OF_VIEWS)
    if not databases_of(plan) <= _own_databases(connection):
        raise surprise(NO_TABLE)
    return plan


def refuse_many_pairs(plan: Json, asked: Statistics) -> None:
    """MultipliedError where a view may make any number of rows of one, or hand a long string to many."""
    on_its_own_stack(partial(check_fan_out, plan, asked))


def read_in_copy(tree: exp.Expr, schemas: Schemas, stored: Stored, lockdown: Iterable[str], asked: Statistics) -> None:
    """The same over an empty copy of the schema, which goes by names alone."""
    reader, tables = Reader(lockdown), _tables(tree, stored.views)
    if tables & stored.foreign:
        raise surprise(NO_TABLE)
    if tables & stored.ambiguous:
        raise surprise("a name that tables of several schemas have")
    if stored.has_macros:
        raise surprise("a data frame below it, in a database with macros")
    reader.copy({table: columns for table, columns in schemas.items() if table in tables})
    inside = [part[table] for part in (stored.views, stored.generated) for table in sorted(tables) if table in part]
    for part in (*inside, tree):  # what is below first: rows of a view are counted by reading it
        reader.check(_bare(part), OF_VIEWS)
        refuse_many_pairs(reader.bound(_bare(part)), asked)


def fragile(view: str, found: InternalError) -> ShoalError:
    """What the custodian is told."""
    if isinstance(found, RepeatedError):
        return ShoalError(
            "E_CATALOG",
            f"The view of {view!r} may repeat long strings: it has {found}, and copies of one would take more than a GiB, "
            "or all of them a hundred times what is stored.",
            hint="Who has a long string would decide whether queries end. Leave the column out, or declare the "
            "tables themselves and let queries join them. If nobody has long ones, say trusted_view = true.",
        )
    if isinstance(found, MultipliedError):
        return ShoalError(
            "E_CATALOG",
            f"The view of {view!r} may make more than {MOST_COPIES} rows of one: it has {found}, and values repeat on both sides.",
            hint="Who has many rows would decide whether queries end. Join by a key, or declare the tables themselves and let "
            "queries join them: there, owners with too many pairs are left out. If nobody has many rows, say trusted_view = true.",
        )
    what = str(found).partition(" with ")[2]
    if what == NO_TABLE:
        return ShoalError(
            "E_CATALOG",
            f"The rows of {view!r} lie in an attached database of another kind, or come from a file or a function: its reader "
            "can fail on single rows.",
            hint="Copy the table into DuckDB first (CREATE TABLE … AS SELECT …). If no row can fail, say trusted_view = true.",
        )
    return ShoalError(
        "E_CATALOG",
        f"The view of {view!r} can fail on single rows: it has {what}.",
        hint="Write casts as TRY_CAST, and use only functions that give a value or NULL for every row. "
        "If no row can fail, say trusted_view = true.",
    )


def definitions(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, ...]]:
    """How every table and view is defined: what was checked holds while this stays."""
    rows = connection.sql(
        "SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables() WHERE NOT internal UNION ALL "
        "SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal"
    ).fetchall()
    return frozenset(tuple(map(str, row)) for row in rows)


def macros(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, ...]]:
    """What views may call that somebody defined: a view over a macro computes what the macro says when it is read."""
    rows = connection.sql(
        "SELECT database_name, schema_name, function_name, parameters, macro_definition FROM system.main.duckdb_functions() "
        "WHERE NOT internal"
    ).fetchall()
    return frozenset(tuple(map(str, row)) for row in rows)


def stored_views(connection: duckdb.DuckDBPyConnection, places: Places) -> dict[str, exp.Expr]:
    """The views of a database, by folded name."""
    rows = connection.sql(
        "SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal"
    ).fetchall()
    found: dict[str, exp.Expr] = {}
    for database, schema, name, sql in rows:
        if places.get(fold(str(name))) != (database, schema):
            continue
        found[fold(str(name))] = _query_of(str(sql))
    return found


def _query_of(sql: str) -> exp.Expr:
    try:
        created = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return UNREADABLE
    query = created.expression if isinstance(created, exp.Create) else None
    return query if isinstance(query, exp.Query) else UNREADABLE


def ambiguous_names(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The folded names of several tables or views."""
    counted = Counter(fold(name) for _, _, name, _ in definitions(connection))
    return frozenset(name for name, count in counted.items() if count > 1)


def foreign_tables(connection: duckdb.DuckDBPyConnection, places: Places) -> frozenset[str]:
    """The tables, by folded name, that lie in databases which are none of DuckDB's own."""
    own = _own_databases(connection)
    return frozenset(table for table, (database, _) in places.items() if database not in own)


def _own_databases(connection: duckdb.DuckDBPyConnection) -> set[str]:
    rows = connection.sql("SELECT database_name, type FROM system.main.duckdb_databases()").fetchall()
    return {str(name) for name, kind in rows if kind in OWN_KINDS}


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
