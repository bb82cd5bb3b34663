"""Views of a server that make a bounded number of rows of one.

The embedded engine binds the text of a view over an empty copy of the tables below it, with views and rules about rows among them,
and tables are counted on the server. Only the few forms that `views` lets through come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import sqlglot
from sqlglot import exp

from shoal.engines.duckdb.checking.fan_out import check_fan_out
from shoal.engines.duckdb.checking.reading import READ, bound
from shoal.engines.duckdb.checking.row_bounds import MOST_COPIES, MultipliedError, RepeatedError
from shoal.engines.duckdb.checking.string_bounds import LONG, Statistics
from shoal.engines.duckdb.settings import LOCKDOWN
from shoal.engines.postgresql.statements import quoted
from shoal.errors import InternalError, ShoalError
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.engines.postgresql.relations import Contents, Relation

UNCOUNTED = 10**15
"""How many rows there may be in a table that the role cannot read: views have the rights of whoever made them."""
ROWS_OF = "rows of "
"""Before the name of a table that has rules about its rows, in the copy: the name itself is that of the rows which they leave."""

UNIQUE = """
SELECT CAST(n.nspname AS pg_catalog.text) AS schema, CAST(c.relname AS pg_catalog.text) AS name,
  CAST(i.indexrelid AS pg_catalog.int8) AS key, i.indisprimary AS is_primary, CAST(a.attname AS pg_catalog.text) AS part
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid
  AND a.attnum OPERATOR(pg_catalog.=) ANY ((CAST(i.indkey AS pg_catalog.int2[]))[0 : i.indnkeyatts - 1])
WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT (c.relkind OPERATOR(pg_catalog.=) 'r' AND c.relhassubclass)
"""
"""Keys that the server keeps. A table with others below it has the rows of those too, and its keys do not hold there."""


def refuse_many_pairs(name: str, relation: Relation, contents: Contents, asked: Statistics) -> None:
    """E_CATALOG for a view that may look at many pairs of rows for each row of its tables, or hand a long string to many."""
    below = _below(relation, contents)
    if not any(len(list(tree.find_all(exp.Table))) > 1 for _, tree in below if tree is not None):
        return
    try:
        on_its_own_stack(lambda: check_fan_out(_bound(relation, below), asked))
    except RepeatedError as found:
        raise ShoalError(
            "E_CATALOG",
            f"Reading {name!r} may repeat long strings: it has {found}, and copies of one would take more than a GiB, "
            "or all of them a hundred times what is stored.",
            hint="Who has a long string would decide whether queries end. Leave the column out, or declare the tables "
            "themselves and let queries join them. If nobody has long ones, say trusted_view = true.",
        ) from None
    except MultipliedError as found:
        raise ShoalError(
            "E_CATALOG",
            f"Reading {name!r} may make more than {MOST_COPIES} rows of one: it has {found}, and values repeat on both sides.",
            hint="Who has many rows would decide whether queries end. Join by a key, or declare the tables themselves and let "
            "queries join them: there, owners with too many pairs are left out. If nobody has many rows, say trusted_view = true.",
        ) from None
    except InternalError:
        raise ShoalError(
            "E_CATALOG",
            f"What {name!r} joins is not understood, so it may make any number of rows of one.",
            hint="Write joins by columns of the tables themselves. If nobody has many rows, say trusted_view = true.",
        ) from None


def _query(relation: Relation) -> exp.Expr | None:
    """What reading a relation computes; None for a table."""
    if relation.rules:
        source = f"{quoted(relation.schema)}.{quoted(ROWS_OF + relation.name)} AS {quoted(relation.name)}"
        return sqlglot.parse_one(f"SELECT * FROM {source} WHERE {relation.rules}", dialect="postgres")
    return None if relation.definition is None else sqlglot.parse_one(relation.definition, dialect="postgres")


def _below(relation: Relation, contents: Contents) -> list[tuple[Relation, exp.Expr | None]]:
    """The relation and all that it reads, each after what it reads itself."""
    found: dict[tuple[str, str], tuple[Relation, exp.Expr | None]] = {}

    def add(each: Relation) -> None:
        tree = _query(each)
        for table in tree.find_all(exp.Table) if tree is not None else ():
            other = contents.at(table.db, table.name.removeprefix(ROWS_OF)) if table.db else None
            if other is not None and other is not each and (other.schema, other.name) not in found:
                add(other)
        found[each.schema, each.name] = each, tree

    add(relation)
    return list(found.values())


def _bound(relation: Relation, below: Iterable[tuple[Relation, exp.Expr | None]]) -> dict[str, object]:
    """What the embedded engine makes of a relation, over tables without rows."""
    copy = duckdb.connect(":memory:", config={"threads": "1"})
    try:
        for statement in LOCKDOWN:
            copy.execute(statement)
        for each, tree in below:
            if each is not relation or tree is None:
                _create(copy, each, tree)
        source = f"SELECT * FROM {quoted(relation.schema)}.{quoted(relation.name)}"
        tree = _query(relation)
        if tree is not None and relation.rules:
            _create(copy, relation, tree)
        text = source if tree is None or relation.rules else _written(tree)
        (plan,) = bound(copy, READ, [text])
    except (duckdb.Error, sqlglot.errors.SqlglotError):
        raise InternalError("a view that cannot be bound") from None
    finally:
        copy.close()
    return plan


def _create(copy: duckdb.DuckDBPyConnection, relation: Relation, tree: exp.Expr | None) -> None:
    schema, name = quoted(relation.schema), quoted(relation.name)
    copy.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    if relation.definition is None or relation.rules:
        columns = ", ".join(f"{quoted(c.name)} {c.stored.kept_as}" for c in relation.columns)
        table = quoted(ROWS_OF + relation.name) if relation.rules else name
        copy.execute(f"CREATE TABLE {schema}.{table} ({columns})")
    if tree is not None:
        copy.execute(f"CREATE VIEW {schema}.{name} AS {_written(tree)}")


def _written(tree: exp.Expr) -> str:
    """A query in the embedded engine's words; who asks makes no difference to what is joined, nor does a list of values."""
    return tree.transform(_plainer).sql(dialect="duckdb")


def _plainer(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.CurrentUser):
        return exp.Literal.string("")
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        listed = node.expression.this.unnest()
        listed = listed.this if isinstance(listed, exp.Cast) else listed
        if isinstance(listed, exp.Array):
            return exp.In(this=node.this, expressions=listed.expressions)
    return node


def most_alike(source: str, columns: tuple[str, ...], *, nulls: bool) -> str:
    """A statement that counts the rows of the most frequent values of some columns; of none, all rows."""
    if not columns:
        return f"SELECT pg_catalog.count(*) AS n FROM {source}"
    names = [quoted(each) for each in columns]
    present = "" if nulls else " WHERE " + " AND ".join(f"{each} IS NOT NULL" for each in names)
    counts = f"SELECT pg_catalog.count(*) AS n FROM {source}{present} GROUP BY {', '.join(names)}"
    return f"SELECT pg_catalog.max(t.n) AS n FROM ({counts}) AS t"


def string_sizes(source: str, columns: tuple[str, ...]) -> str:
    """A statement that measures the values of some columns as text: of the longest row, of all, and of those with many bytes."""
    plus, above = " OPERATOR(pg_catalog.+) ", "OPERATOR(pg_catalog.>)"
    sizes = (f"COALESCE(pg_catalog.octet_length(CAST({quoted(each)} AS pg_catalog.text)), 0)" for each in columns)
    rows = f"SELECT CAST({plus.join(sizes)} AS pg_catalog.int8) AS n FROM {source}"
    long = f"pg_catalog.sum(CASE WHEN t.n {above} {LONG} THEN t.n END)"
    found = {"longest": "pg_catalog.max(t.n)", "whole": "pg_catalog.sum(t.n)", "long": long}
    items = ", ".join(f"CAST(COALESCE({value}, 0) AS pg_catalog.int8) AS {name}" for name, value in found.items())
    return f"SELECT {items} FROM ({rows}) AS t"
