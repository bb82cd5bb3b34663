"""Owners whose rows would become too many where private tables are joined.

A join of private tables on the owner gives n·m rows for an owner with n rows in one and m in the other, and n⁴ for four copies
of one table: one person's rows could keep a query busy for ever, and a query that does not end has told something. So owners
with more than `MAX_JOINED_ROWS` such rows take no part in the query at all. That looks at each owner's own rows alone, and the
others' answer is the same with and without them, so it costs nothing; below the limit nobody is left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.statements.integers import integer, times, wide
from shoal.engines.statements.relations import Compiler, aliased, call, column, name, select
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column
from shoal.plan.nodes import field_of
from shoal.plan.traverse import all_nodes, rebuilt
from shoal.plan.types import BOOLEAN
from shoal.rewrite.check_fanout import equalities

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shoal.plan.nodes import Node

MAX_JOINED_ROWS = 10**8

Product = tuple[nodes.Scan, ...]


def multiplied(node: Node) -> list[Product]:
    """Which private tables multiply each other: the rows of one owner are at most a sum of such products of its rows."""
    match node:
        case nodes.Scan():
            return [(node,)] if node.owner is not None else [()]
        case nodes.Aggregate() if len(node.keys) <= 1:
            return [()]
        case nodes.SetOperation():
            return [*multiplied(node.left), *multiplied(node.right)]
        case nodes.Join():
            left, right = multiplied(node.left), multiplied(node.right)
            if node.kind in {"semi", "anti"} and equalities(node)[1]:
                return left
            return [(*one, *other) for one, other in product(left, right)]
        case _:
            below = nodes.inputs(node)
            return multiplied(below[0]) if below else [()]


def products_of(node: Node) -> list[Product]:
    """The products of two or more private tables, wherever in a relation an engine makes their rows."""
    found = (each for part in (node, *_made_inside(node)) for each in multiplied(part))
    return list(dict.fromkeys(each for each in found if len(each) > 1))


def _made_inside(node: Node) -> Iterator[Node]:
    """Relations whose rows do not come out: they are aggregated, or decide about other rows."""
    for part in all_nodes(node):
        match part:
            case nodes.Aggregate():
                yield part.input
            case nodes.Join() if part.kind in {"semi", "anti"}:
                yield part.right
            case _:
                pass


def most_rows_statement(scan: nodes.Scan, tables: Mapping[str, exp.Expr]) -> exp.Select:
    """The rows of the owner who has most in a table."""
    return select([call("max", column("n"))], _counted(Compiler(tables), scan, "t"))


def crowded_statement(found: Product, limit: int, tables: Mapping[str, exp.Expr]) -> exp.Select:
    """The owners with more than `limit` rows in a product of tables."""
    compiler = Compiler(tables)
    sources = [_counted(compiler, scan, f"c{number}") for number, scan in enumerate(found)]
    query = select([aliased(column("o", "c0"), "o")], sources[0])
    rows: exp.Expr = wide(column("n", "c0"))
    for number, source in enumerate(sources[1:], start=1):
        same = exp.EQ(this=column("o", "c0"), expression=column("o", f"c{number}"))
        query.append("joins", exp.Join(this=source, on=same, kind="INNER"))
        # Saturated after each factor, so that no product overflows.
        rows = call("least", times(rows, wide(column("n", f"c{number}"))), integer(limit + 1))
    return query.where(exp.GT(this=rows, expression=integer(limit)), copy=False)


def _counted(compiler: Compiler, scan: nodes.Scan, alias: str) -> exp.Subquery:
    assert scan.owner is not None  # noqa: S101 - products are of private tables
    items = [aliased(column(scan.owner), "o"), aliased(call("count_star"), "n")]
    counts = select(items, compiler.subquery(compiler.relation(_narrow(scan))))
    counts.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
    return exp.Subquery(this=counts, alias=exp.TableAlias(this=name(alias)))


def _narrow(scan: nodes.Scan) -> nodes.Scan:
    """The owner's column alone."""
    number = next(i for i, f in enumerate(scan.fields) if f.symbol == scan.owner)
    return replace(scan, fields=(scan.fields[number],), columns=(scan.columns[number],))


def without_owners(node: Node, owners: Iterable[object], scans: Iterable[nodes.Scan]) -> Node:
    """The relation without the rows of these owners."""
    listed, affected = tuple((owner,) for owner in owners), set(scans)

    def change(part: Node) -> Node:
        if not (isinstance(part, nodes.Scan) and part in affected and part.owner is not None):
            return rebuilt(part, change)
        owner = field_of(part, part.owner)
        left_out = nodes.Field("", f"{owner.symbol}_crowded", owner.type)
        same = Call("equal", (Column(owner.symbol, owner.type), Column(left_out.symbol, owner.type)), BOOLEAN)
        return nodes.Join(part, nodes.Values(listed, (left_out,)), "anti", same, owner=part.owner)

    return change(node)
