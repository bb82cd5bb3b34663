"""Tables whose owner is in no column of their own: it is carried over from another table, or the row is named by its content.

A name made of the content, and of a number among rows that no query can tell apart, belongs to its row alone: where one row
more or less is in the table, all others keep theirs, but for equal rows, of which the last number comes or goes. A number that
counts all rows would rename everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import CARRIED_OWNER
from shoal.engines.statements.relations import aliased, by_bytes, call, column, name, select
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.plan.types import Type

_ROW, _TARGET, _CONTENT = "t", "r", "(content)"
Named = tuple[str, "Type"]
"""A stored column and its type in plans."""


def through_reference(
    source: exp.Expr, columns: Iterable[str], through: Named, target: exp.Expr, key: Named, owner: str
) -> exp.Select:
    """All columns of a table, and the owner of the row that each of its rows refers to."""
    items = [column(each, _ROW) for each in columns]
    query = select([*items, aliased(column(owner, _TARGET), CARRIED_OWNER)], _called(source, _ROW))
    same = exp.EQ(this=_compared(through, _ROW), expression=_compared(key, _TARGET))
    query.append("joins", exp.Join(this=_called(target, _TARGET), on=same, kind="INNER"))
    return query


def named_rows(source: exp.Expr, columns: Iterable[str], usable: Iterable[Named]) -> exp.Select:
    """All columns of a table, and a name for each row."""
    stored = list(columns)
    content = aliased(call("sha256", _written(usable)), _CONTENT)
    inner = select([*(column(each, _ROW) for each in stored), content], _called(source, _ROW))
    number = exp.Window(this=call("row_number"), partition_by=[column(_CONTENT)])
    owner = call("concat", column(_CONTENT), exp.Literal.string("-"), _text(number))
    items = [*map(column, stored), aliased(owner, CARRIED_OWNER)]
    return select(items, exp.Subquery(this=inner, alias=exp.TableAlias(this=name(_ROW))))


def _called(source: exp.Expr, alias: str) -> exp.Expr:
    named = source.copy()
    named.set("alias", exp.TableAlias(this=name(alias)))
    return named


def _compared(which: Named, table: str) -> exp.Expr:
    return by_bytes(functions.scan_form(column(which[0], table), which[1]), which[1])


def _written(usable: Iterable[Named]) -> exp.Expr:
    """What queries see of a row as one text, different for different rows: each value with its length before it."""
    parts = [_with_length(_text(functions.bounded_scan_form(column(each, _ROW), type_))) for each, type_ in usable]
    return call("concat", *parts) if parts else exp.Literal.string("")


def _with_length(value: exp.Expr) -> exp.Expr:
    missing = exp.Is(this=value.copy(), expression=exp.Null())
    written = call("concat", _text(call("strlen", value.copy())), exp.Literal.string(":"), value)
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Literal.string("-"))], default=written)


def _text(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("VARCHAR", dialect="duckdb"))
