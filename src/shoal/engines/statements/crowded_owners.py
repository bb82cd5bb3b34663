"""Owners whose rows would become too many, or take too long.

A join of private tables on the owner gives n·m rows for an owner with n rows in one and m in the other, and n⁴ for four copies
of one table; a public table makes copies of each row, and expressions take their time for each copy. One person's rows could
keep a query busy for ever, and a query that does not end has revealed something. So owners with more joined rows than their share
(`nodes.OwnerShare`, from the plan and public facts alone), with more than `MAX_JOINED_ROWS`, or with more than `MAX_OWNER_BYTES` of
strings in them take no part in the query. That looks at each owner's own rows alone, and the others' answer is the same with and
without them, so it costs nothing; below the limits nobody is left out.

A share is about rows whose strings have up to `STORED_TEXT` bytes together. A row with longer ones counts as often as these fit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.statements.integers import integer, plus, times, wide
from shoal.engines.statements.relations import Compiler, aliased, call, column, name, select
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column
from shoal.plan.nodes import field_of
from shoal.plan.traverse import all_nodes, rebuilt
from shoal.plan.types import BOOLEAN, Kind
from shoal.rewrite.checks.extents import MAX_OWNER_BYTES, equalities
from shoal.rewrite.checks.row_work import STORED_TEXT
from shoal.sql.functions import engine_type
from shoal.sql.functions.forms import cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shoal.plan.nodes import Node

MAX_JOINED_ROWS = 10**8
WITHOUT_COUNTING, COPIES_WITHOUT_COUNTING = 10**6, 10
"""Owners of a single table may have as many rows as they like where their share is at least so large, and copies are so few."""

CROWDED = "(crowded)"
"""The source of owners who take no part."""

Product = tuple[nodes.Scan, ...]
Most = tuple[int, int, int]
"""Of one owner, or of any: rows, rows counted by the length of their strings, bytes of strings."""


def multiplied(node: Node) -> list[Product]:
    """Which private tables multiply each other: the rows of one owner are at most a sum of such products of its rows."""
    match node:
        case nodes.Scan():
            return [(node,)] if node.owner is not None else [()]
        case nodes.Aggregate() if len(node.keys) <= 1:
            return [()]
        case nodes.SetOperation():
            return _distinct([*multiplied(node.left), *multiplied(node.right)])
        case nodes.Join():
            left, right = multiplied(node.left), multiplied(node.right)
            if node.kind in {"semi", "anti"} and equalities(node)[1]:
                return left
            return _distinct((*one, *other) for one, other in product(left, right))
        case _:
            below = nodes.inputs(node)
            return multiplied(below[0]) if below else [()]


def products_of(node: Node) -> list[Product]:
    """The products of private tables of which an owner may have too much, wherever in a relation an engine makes their rows."""
    found = (each for part in (node, *_made_inside(node)) for each in multiplied(part))
    return _distinct(each for each in found if _is_counted(each))


def _distinct(found: Iterable[Product]) -> list[Product]:
    """One product of each kind: those of the same tables, strings and shares have the same owners with too much.

    A union of many relations, joined with another, would have more products than anybody can count.
    """
    return list({shapes_of(each): each for each in found}.values())


def shapes_of(found: Product) -> frozenset[tuple[tuple[object, ...], int]]:
    """What decides who has too much in a product: its tables, their strings and shares, each as often as it is there."""
    return frozenset(Counter(map(_shape, found)).items())


def _shape(scan: nodes.Scan) -> tuple[object, ...]:
    return scan.table, owner_and_texts(scan).columns, scan.longest_text, scan.owner_share


def _is_counted(found: Product) -> bool:
    if len(found) != 1:
        return len(found) > 1
    share = found[0].owner_share
    return share is not None and (share.rows < WITHOUT_COUNTING or share.copies > COPIES_WITHOUT_COUNTING)


def limits_of(found: Product, joined_rows: int = MAX_JOINED_ROWS) -> tuple[int, int | None]:
    """How many rows, counted by their strings, an owner may have in a product, and bytes of strings where these are repeated."""
    shares = [scan.owner_share for scan in found if scan.owner_share is not None]
    rows = min((share.rows for share in shares), default=joined_rows)
    copies = max((share.copies for share in shares), default=1)
    if len(found) > 1:
        rows = min(rows, joined_rows)
    return rows, MAX_OWNER_BYTES // copies if len(found) > 1 or copies > 1 else None


def may_crowd(most: list[Most], limits: tuple[int, int | None]) -> bool:
    """Whether an owner who has most in each table of a product would have too much."""
    rows, counted, size = most[0]
    for more_rows, more_counted, more_size in most[1:]:
        rows, counted, size = rows * more_rows, counted * more_counted, size * more_rows + more_size * rows
    return counted > limits[0] or (limits[1] is not None and size > limits[1])


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
    """The most that any owner has in a table: rows, rows counted by their strings, bytes of strings."""
    return select([call("max", column(each)) for each in _MEASURED], _counted(Compiler(tables), scan, "t"))


def crowded_statement(found: Product, limits: tuple[int, int | None], tables: Mapping[str, exp.Expr]) -> exp.Select:
    """The owners who have more than these limits in a product of tables."""
    compiler = Compiler(tables)
    sources = [_counted(compiler, scan, f"c{number}") for number, scan in enumerate(found)]
    query = select([aliased(column("o", "c0"), "o")], sources[0])
    rows, counted, size = (wide(column(each, "c0")) for each in _MEASURED)
    for number, source in enumerate(sources[1:], start=1):
        same = exp.EQ(this=column("o", "c0"), expression=column("o", f"c{number}"))
        query.append("joins", exp.Join(this=source, on=same, kind="INNER"))
        more_rows, more_counted, more_size = (wide(column(each, f"c{number}")) for each in _MEASURED)
        # Saturated after each factor, so that no product overflows.
        size = _at_most(plus(times(size, more_rows), times(more_size, rows.copy())), _SATURATED)
        rows = _at_most(times(rows, more_rows.copy()), _SATURATED)
        counted = _at_most(times(counted, more_counted), _SATURATED)
    crowded: exp.Expr = exp.GT(this=counted, expression=integer(limits[0]))
    if limits[1] is not None:
        crowded = exp.Or(this=crowded, expression=exp.GT(this=size, expression=integer(limits[1])))
    return query.where(crowded, copy=False)


_MEASURED = ("n", "w", "b")
_SATURATED = 2**50
"""Above every limit; the product of two such numbers fits 128 bits."""


def _at_most(value: exp.Expr, most: int) -> exp.Expr:
    return call("least", value, integer(most))


def _counted(compiler: Compiler, scan: nodes.Scan, alias: str) -> exp.Subquery:
    assert scan.owner is not None  # noqa: S101 - products are of private tables
    narrow = owner_and_texts(scan)
    size = _bytes_of(narrow)
    weight = plus(exp.IntDiv(this=exp.Paren(this=size), expression=_small(STORED_TEXT)), _small(1))
    items = [
        aliased(column(scan.owner), "o"),
        aliased(call("count_star"), "n"),
        aliased(call("sum", weight), "w"),
        aliased(call("sum", size.copy()), "b"),
    ]
    counts = select(items, compiler.subquery(compiler.relation(narrow)))
    counts.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
    return exp.Subquery(this=counts, alias=exp.TableAlias(this=name(alias)))


def _bytes_of(scan: nodes.Scan) -> exp.Expr:
    """The bytes of all strings of a row, the name of its owner left out."""
    size = _small(0)
    for field in scan.fields:
        if field.symbol != scan.owner:
            length = call("strlen", column(field.symbol))
            size = plus(size, exp.Coalesce(this=length, expressions=[_small(0)]))
    return size


def _small(value: int) -> exp.Expr:
    return cast(exp.Literal.number(value), "BIGINT")


def owner_and_texts(scan: nodes.Scan) -> nodes.Scan:
    """The scan with the owner's column and strings alone."""
    pairs = zip(scan.fields, scan.columns, strict=True)
    kept = [(f, c) for f, c in pairs if f.symbol == scan.owner or f.type.kind is Kind.TEXT]
    return replace(scan, fields=tuple(f for f, _ in kept), columns=tuple(c for _, c in kept))


def crowded_source(products: Iterable[Product], tables: Mapping[str, exp.Expr], joined_rows: int) -> exp.Subquery:
    """The owners who have more than their share in any of some products, as a source of rows: there may be many of them."""
    first, *others = (crowded_statement(found, limits_of(found, joined_rows), tables) for found in products)
    whole: exp.Query = first
    for other in others:
        whole = exp.Union(this=whole, expression=other, distinct=False)
    return exp.Subquery(this=whole, alias=exp.TableAlias(this=name("crowded")))


def without_owners(node: Node, products: Iterable[Product]) -> Node:
    """The relation without rows of the owners in `CROWDED` in all tables of some products, whichever columns are read of them."""
    affected = {scan.table for found in products for scan in found}

    def change(part: Node) -> Node:
        if not (isinstance(part, nodes.Scan) and part.owner is not None and part.table in affected):
            return rebuilt(part, change)
        owner = field_of(part, part.owner)
        type_ = replace(owner.type, storage=engine_type(owner.type))
        left_out = nodes.Field("", f"{owner.symbol}_crowded", type_)
        same = Call("equal", (Column(owner.symbol, owner.type), Column(left_out.symbol, type_)), BOOLEAN)
        return nodes.Join(part, nodes.Scan(CROWDED, (left_out,), ("o",)), "anti", same, owner=part.owner)

    return change(node)
