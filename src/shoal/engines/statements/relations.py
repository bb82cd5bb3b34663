"""Relational nodes → a sqlglot tree. No connection, no names but our own symbols, no text of the analyst.

Every node becomes a SELECT whose columns are named by symbols; an engine says through `tables` what a table of the catalog is
in its own words.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.statements.lifted import lifted
from shoal.errors import InternalError
from shoal.plan import expressions as ex
from shoal.plan import nodes
from shoal.plan.types import RELEASED_LIST, Kind
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shoal.plan.nodes import Node
    from shoal.plan.types import Type


def name(text: str) -> exp.Identifier:
    """A quoted identifier: nothing in it can be read as SQL."""
    return exp.Identifier(this=text, quoted=True)


def column(symbol: str, table: str | None = None) -> exp.Column:
    """A reference to a column by symbol."""
    return exp.Column(this=name(symbol), table=name(table) if table else None)


def call(function: str, *arguments: exp.Expr) -> exp.Expr:
    """A built-in, by its qualified name: a macro of the same name changes nothing."""
    return exp.Anonymous(this=f"system.main.{function}", expressions=list(arguments))


def aliased(expression: exp.Expr, symbol: str) -> exp.Alias:
    """Expression AS symbol."""
    return exp.Alias(this=expression, alias=name(symbol))


def select(items: Iterable[exp.Expr], source: exp.Expr | None = None) -> exp.Select:
    """SELECT items FROM source."""
    query = exp.Select(expressions=list(items) or [exp.Literal.number(1)])
    if source is not None:
        query.set("from_", exp.From(this=source))
    return query


def by_bytes(value: exp.Expr, type_: Type) -> exp.Expr:
    """A text that is compared, grouped and sorted by its bytes; other values as they are."""
    if type_.kind is not Kind.TEXT:
        return value
    operand = value if isinstance(value, (exp.Cast, exp.Func)) else exp.Paren(this=value)
    return exp.Collate(this=operand, expression=name("binary"))


class Compiler:
    """Turns nodes into SELECTs for one statement; `tables` says what the engine calls each table of the catalog.

    Statements that read private rows take long strings for missing, those of public tables too; `whole_texts` reads them.
    """

    def __init__(self, tables: Mapping[str, exp.Expr], *, whole_texts: bool = False) -> None:
        self._tables = tables
        self._whole_texts = whole_texts
        self._aliases = count(1)

    def subquery(self, query: exp.Query, alias: str | None = None) -> exp.Subquery:
        """(query) AS alias."""
        return exp.Subquery(this=query, alias=exp.TableAlias(this=name(alias or f"t{next(self._aliases)}")))

    def relation(self, node: Node) -> exp.Query:
        """The SELECT of a node; its columns are the node's symbols."""
        match node:
            case nodes.Scan():
                return self._scan(node)
            case nodes.StoredRows():
                return select((column(f.symbol) for f in node.fields), exp.Table(this=name(f"released_{node.select}")))
            case nodes.Values():
                return self._values(node)
            case nodes.Filter():
                return self._from(node.input).where(self.expression(node.predicate), copy=False)
            case nodes.Project():
                return self._project(lifted(node))
            case nodes.Join():
                return self._join(node)
            case nodes.Aggregate():
                return self._aggregate(lifted(node))
            case nodes.Distinct():
                return self._from(node.input).distinct(copy=False)
            case nodes.SetOperation():
                return self._set_operation(node)
            case nodes.Sort():
                return self._sort(node)
        raise InternalError("a node without SQL")

    def _from(self, node: Node) -> exp.Select:
        return select((column(f.symbol) for f in node.fields), self.subquery(self.relation(node)))

    def _scan(self, node: nodes.Scan) -> exp.Select:
        source = self._tables.get(node.table)
        if source is None:
            raise InternalError("a table without a source")
        items = [
            aliased(self._stored(original, f.type, node.longest_text), f.symbol)
            for f, original in zip(node.fields, node.columns, strict=True)
        ]
        query = select(items, source.copy())
        if node.owner is None:
            return query
        original = next(c for f, c in zip(node.fields, node.columns, strict=True) if f.symbol == node.owner)
        return query.where(exp.Not(this=exp.Is(this=column(original), expression=exp.Null())), copy=False)

    def _stored(self, original: str, type_: Type, longest_text: int | None) -> exp.Expr:
        """A stored column; one of a type that no query can name is carried as NULL."""
        if type_.kind is Kind.UNSUPPORTED:
            return exp.Null()
        if self._whole_texts:
            return functions.scan_form(column(original), type_)
        return functions.bounded_scan_form(column(original), type_, longest_text)

    def _values(self, node: nodes.Values) -> exp.Query:
        """VALUES (…), (…): one list, which engines read in one go however long it is."""
        if not node.rows:
            nothing = select(aliased(self._cell(None, f.type), f.symbol) for f in node.fields)
            return nothing.where(exp.false(), copy=False)
        rows = [
            exp.Tuple(expressions=[self._cell(value, f.type) for f, value in zip(node.fields, row, strict=True)])
            for row in node.rows
        ]
        alias = exp.TableAlias(this=name(f"t{next(self._aliases)}"), columns=[name(f.symbol) for f in node.fields])
        listed = exp.Values(expressions=rows, alias=alias)
        return select((aliased(by_bytes(column(f.symbol), f.type), f.symbol) for f in node.fields), listed)

    @staticmethod
    def _cell(value: object, type_: Type) -> exp.Expr:
        """A constant of a list; one of a type that no query can name is carried as NULL."""
        if type_ == RELEASED_LIST and isinstance(value, list):
            return exp.Array(expressions=[functions.double_form(number) for number in value])
        if type_.kind is Kind.UNSUPPORTED:
            return exp.Null()
        return functions.cast_form(functions.literal_form(ex.Literal(value, type_)), type_, type_)

    def _join(self, node: nodes.Join) -> exp.Select:
        left, right = self.subquery(self.relation(node.left)), self.subquery(self.relation(node.right))
        condition = self.expression(node.condition)
        query = select((column(f.symbol) for f in node.fields), left)
        if node.kind in {"semi", "anti"}:
            exists = exp.Exists(this=select([exp.Literal.number(1)], right).where(condition, copy=False))
            return query.where(exists if node.kind == "semi" else exp.Not(this=exists), copy=False)
        side = {"inner": None, "left": "LEFT", "right": "RIGHT", "full": "FULL"}[node.kind]
        query.append("joins", exp.Join(this=right, on=condition, side=side, kind=None if side else "INNER"))
        return query if side is None else self._made_first(query)

    def _made_first(self, query: exp.Select) -> exp.Select:
        """Rows of an outer join are made before anything else reads them.

        The engine brings matched and unmatched rows from two sources. One of its joins that keeps dictionaries expects rows of one
        source, and fails where they reach it as they come; which joins do depends on how many rows it expects, so on data.
        """
        made = name(f"t{next(self._aliases)}")
        names = [item.alias_or_name for item in query.expressions]
        reading = select((column(each) for each in names), exp.Table(this=made.copy()))
        return reading.with_(exp.TableAlias(this=made), as_=query, materialized=True, copy=False)

    def _project(self, node: nodes.Project) -> exp.Select:
        items = [aliased(self.expression(value), f.symbol) for f, value in node.items]
        return select(items, self.subquery(self.relation(node.input)))

    def _aggregate(self, node: nodes.Aggregate) -> exp.Select:
        keys = [aliased(functions.key_form(self.expression(v), f.type), f.symbol) for f, v in node.keys]
        source = self.subquery(self.relation(node.input))
        items = keys + [aliased(self.row_aggregate(a), f.symbol) for f, a in node.aggregates]
        query = select(items, source)
        if node.keys:
            query.set("group", exp.Group(expressions=[exp.Literal.number(i + 1) for i in range(len(keys))]))
        return query

    def row_aggregate(self, aggregate: nodes.RowAggregate) -> exp.Expr:
        """An exact, order-independent aggregate."""
        arguments = [self.expression(a) for a in aggregate.arguments]
        condition = self.expression(aggregate.filter) if aggregate.filter is not None else None
        return functions.owner_aggregate_form(
            aggregate.function, arguments, [a.type for a in aggregate.arguments], aggregate.distinct, condition
        )

    def _set_operation(self, node: nodes.SetOperation) -> exp.Query:
        sides = [
            select(
                (aliased(column(s.symbol), f.symbol) for s, f in zip(side.fields, node.fields, strict=True)),
                self.subquery(self.relation(side)),
            )
            for side in (node.left, node.right)
        ]
        kind = {"union_all": exp.Union, "union": exp.Union, "intersect": exp.Intersect, "except": exp.Except}[node.kind]
        both = kind(this=sides[0], expression=sides[1], distinct=node.kind != "union_all")
        return select((column(f.symbol) for f in node.fields), self.subquery(both))

    def _sort(self, node: nodes.Sort) -> exp.Select:
        query = self._from(node.input)
        if node.order:
            query.set("order", exp.Order(expressions=[self.order(o) for o in node.order]))
        if node.limit is not None:
            query = query.limit(node.limit, copy=False)
        return query.offset(node.offset, copy=False) if node.offset else query

    def order(self, item: ex.Order) -> exp.Ordered:
        """One item of ORDER BY; the place of NULLs is always written."""
        return exp.Ordered(this=self.expression(item.value), desc=item.descending, nulls_first=item.nulls_first)

    def expression(self, expression: ex.Expression) -> exp.Expr:
        """The total form of an expression; strings compare by bytes, whatever collation the connection prefers."""
        match expression:
            case ex.Column():
                return column(expression.symbol)
            case ex.Literal():
                return functions.literal_form(expression)
        return by_bytes(self._computed(expression), expression.type)

    def _computed(self, expression: ex.Expression) -> exp.Expr:
        match expression:
            case ex.Call():
                return functions.safe_form(expression, [self.expression(a) for a in expression.arguments])
            case ex.Cast():
                return functions.cast_form(self.expression(expression.value), expression.value.type, expression.type)
            case ex.Case():
                return self._case(expression)
            case ex.WindowCall():
                return self._window(expression)
            case ex.InRelation():
                value = self.expression(expression.value)
                enclosed = value if isinstance(value, (exp.Column, exp.Literal)) else exp.Paren(this=value)
                return exp.In(this=enclosed, query=self._bare(expression.relation))
            case ex.ExistsRelation():
                return exp.Exists(this=self.relation(expression.relation))
            case ex.ScalarRelation():
                return self._only_value(expression.relation)
        raise InternalError("an expression without SQL")

    def _only_value(self, node: Node) -> exp.Subquery:
        """The value of the one row, as the largest of one: then the engine adds no check that could fail."""
        limited = self.subquery(self.relation(node).limit(1, copy=False))
        return exp.Subquery(this=select([functions.builtin("max", column(node.fields[0].symbol))], limited))

    def _bare(self, node: Node) -> exp.Subquery:
        return exp.Subquery(this=self.relation(node))

    def _case(self, expression: ex.Case) -> exp.Case:
        def branch(value: ex.Expression, target: Type) -> exp.Expr:
            return functions.cast_form(self.expression(value), value.type, target)

        return exp.Case(
            ifs=[
                exp.If(this=self.expression(condition), true=branch(value, expression.type))
                for condition, value in expression.branches
            ],
            default=branch(expression.otherwise, expression.type),
        )

    def _window(self, expression: ex.WindowCall) -> exp.Expr:
        def over(function: exp.Expr) -> exp.Expr:
            window = exp.Window(this=function, partition_by=[self.expression(p) for p in expression.partition])
            if expression.order:
                window.set("order", exp.Order(expressions=[self.order(o) for o in expression.order]))
            if expression.frame is not None:
                window.set("spec", _frame(expression.frame))
            return window

        arguments = [self.expression(a) for a in expression.arguments]
        return functions.window_form(expression.function, arguments, [a.type for a in expression.arguments], over)


def _frame(frame: ex.Frame) -> exp.WindowSpec:
    def bound(end: tuple[int | None, str]) -> tuple[str | exp.Expr, str | None]:
        number, side = end
        if side == "CURRENT ROW":
            return "CURRENT ROW", None
        return ("UNBOUNDED" if number is None else exp.Literal.number(number)), side

    start, end = bound(frame.start), bound(frame.end)
    return exp.WindowSpec(kind=frame.unit, start=start[0], start_side=start[1], end=end[0], end_side=end[1])
