"""Views of a custodian that cannot fail on a single row.

A view with `CAST(amount AS INTEGER)` and one bad amount works until a filter reaches that row: whether a query fails then says
where the row is. So a view over private rows is bound when a session opens, over an empty copy of the schema, and what the
engine has made of it is read like a statement of ours, with a shorter list of functions: arithmetic of whole numbers can
overflow, and nothing guards it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from shoal.catalog import fold
from shoal.engines.duckdb.known_calls import FUNCTIONS_OF_VIEWS
from shoal.engines.duckdb.reading import Reader
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import duckdb

    Schemas = Mapping[str, Iterable[tuple[str, str]]]


def refuse_fragile(
    view: str, tree: exp.Expr, schemas: Schemas, stored: Mapping[str, exp.Expr], lockdown: Iterable[str]
) -> None:
    """E_CATALOG for a view that could fail on some rows, or that reads one; `stored` are the views of the database itself."""
    reader = Reader(lockdown)
    reader.copy({table: columns for table, columns in schemas.items() if table in _tables(tree, stored)})
    for part in (tree, *(stored[table] for table in _tables(tree, stored) if table in stored)):
        try:
            reader.check(_bare(part), FUNCTIONS_OF_VIEWS)
        except InternalError as found:
            raise ShoalError(
                "E_CATALOG",
                f"The view of {view!r} can fail on single rows: it has {str(found).rpartition(' with ')[2]}.",
                hint="Write casts as TRY_CAST, and keep to functions that have a value or NULL for every row. "
                "If no row can fail, say trusted_view = true.",
            ) from None


def stored_views(connection: duckdb.DuckDBPyConnection) -> dict[str, exp.Expr]:
    """The views of a database, by folded name; one that cannot be read is left out, and so cannot be bound either."""
    rows = connection.sql("SELECT view_name, sql FROM system.main.duckdb_views() WHERE NOT internal").fetchall()
    found: dict[str, exp.Expr] = {}
    for name, sql in rows:
        try:
            created = sqlglot.parse_one(str(sql), dialect="duckdb")
        except sqlglot.errors.SqlglotError:
            continue
        query = created.expression if isinstance(created, exp.Create) else None
        if isinstance(query, exp.Query) and not _is_frame(query):
            found[fold(str(name))] = query
    return found


def _is_frame(query: exp.Query) -> bool:
    """Whether a view is a data frame that was registered under a name: it computes nothing."""
    sources = list(query.find_all(exp.Table))
    return len(sources) == 1 and sources[0].alias.startswith("__duckdb_source_") and query.is_star


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
