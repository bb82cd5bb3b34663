"""What an engine that only reads must read: the columns that a question needs, and conditions that it may narrow rows by.

The embedded engine applies every condition again. So narrowing may keep too much and never too little, and a condition is handed on
only where it means the same everywhere: a stored column against constants, over whole numbers, booleans, dates, and strings that
are compared by their bytes.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.engines.statements.crowded_owners import products_of
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column, InRelation, Literal, ScalarRelation, walk
from shoal.plan.traverse import all_nodes, columns_read, expressions_of, rebuilt, relations_in, with_relations
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shoal.catalog import Catalog
    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node, Scan
    from shoal.plan.totals import TotalsQuery

Constant = int | bool | str | dt.date

_OPERATORS = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERED = {Kind.INTEGER, Kind.DATE}
_COMPARED = {Kind.INTEGER, Kind.DATE, Kind.BOOLEAN, Kind.TEXT}


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition on one stored column: `=`, `<`, `<=`, `>`, `>=`, `between`, `in` with constants, or `is not null` without."""

    column: str
    operator: str
    values: tuple[Constant, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """What is read of one table: some columns, of rows that have an owner (where it is private) and meet all conjuncts."""

    table: str
    columns: tuple[str, ...]
    owner: str | None
    conjuncts: tuple[Conjunct, ...] = ()


def is_private(catalog: Catalog | None, table: str) -> bool:
    """Whether rows of a table belong to owners: queries read strings of more than `LONGEST_TEXT` bytes there as NULL."""
    known = catalog.tables.get(table) if catalog is not None else None
    return known is not None and not known.public


def narrowed(query: TotalsQuery) -> TotalsQuery:
    """The question over scans of the columns that it needs."""
    used = _used(query)

    def change(node: Node) -> Node:
        return _narrow(node, used) if isinstance(node, nodes.Scan) else rebuilt(node, change)

    def value(expression: Expression) -> Expression:
        return with_relations(expression, change)

    groups = change(query.public_groups) if query.public_groups is not None else None
    keys = tuple((field, value(key)) for field, key in query.keys)
    return replace(query, input=change(query.input), keys=keys, public_groups=groups)


def needs_of(query: TotalsQuery) -> tuple[Need, ...]:
    """What the tables of a (narrowed) question must hold."""
    below = [query.input, *([query.public_groups] if query.public_groups is not None else [])]
    inside = [relation for expression in _outer(query) for relation in relations_in(expression)]
    # Owners with too many joined rows are found by counting all of their rows.
    conditions = {} if products_of(query.input) else _conditions(query.input)
    scans = [scan for node in (*below, *inside) for scan in all_nodes(node) if isinstance(scan, nodes.Scan)]
    return needs_of_scans(scans, conditions)


def needs_of_scans(
    scans: Iterable[Scan], conditions: dict[Scan, frozenset[Conjunct]] | None = None
) -> tuple[Need, ...]:
    """One need for each table: all columns that some scan reads, and the conditions that all of them have."""
    by_table: dict[str, list[Scan]] = {}
    for scan in scans:
        by_table.setdefault(scan.table, []).append(scan)
    return tuple(_need(table, found, conditions or {}) for table, found in sorted(by_table.items()))


def _need(table: str, scans: list[Scan], conditions: dict[Scan, frozenset[Conjunct]]) -> Need:
    columns = sorted({c for scan in scans for c in readable_columns(scan)})
    shared = frozenset.intersection(*(conditions.get(scan, frozenset()) for scan in scans))
    return Need(table, tuple(columns), owner_column(scans[0]), tuple(sorted(shared, key=str)))


def readable_columns(scan: Scan) -> list[str]:
    """The stored columns of a scan; those of a type that no query can name are not read."""
    pairs = zip(scan.fields, scan.columns, strict=True)
    return [original for field, original in pairs if field.type.kind is not Kind.UNSUPPORTED]


def owner_column(scan: Scan) -> str | None:
    """The stored column that says whose a row is."""
    pairs = zip(scan.fields, scan.columns, strict=True)
    return next((original for field, original in pairs if field.symbol == scan.owner), None)


# ---- columns -------------------------------------------------------------------------------------------------------


def _outer(query: TotalsQuery) -> list[Expression]:
    return [*(key for _, key in query.keys), *query.arguments]


def _used(query: TotalsQuery) -> frozenset[str]:
    """Every symbol that something reads: expressions, and relations whose columns count by their place."""
    roots = [query.input, *([query.public_groups] if query.public_groups is not None else [])]
    written, found = _outer(query), set[str]()
    inside = [relation for expression in written for relation in relations_in(expression)]
    every = [node for root in (*roots, *inside) for node in all_nodes(root)]
    written = [*written, *(e for node in every for e in expressions_of(node))]
    for expression in written:
        found |= columns_read(expression)
        for part in walk(expression):
            if isinstance(part, (InRelation, ScalarRelation)):
                found |= _symbols(part.relation)
    for node in every:
        if isinstance(node, (nodes.Distinct, nodes.SetOperation)):
            found.update(*(_symbols(below) for below in nodes.inputs(node)))
        found |= {node.owner} if node.owner is not None else set()
    if query.public_groups is not None:
        found |= _symbols(query.public_groups)
    return frozenset(found)


def _symbols(node: Node) -> set[str]:
    return {field.symbol for field in node.fields}


def _narrow(scan: Scan, used: frozenset[str]) -> Scan:
    kept = [(f, c) for f, c in zip(scan.fields, scan.columns, strict=True) if f.symbol in used]
    kept = kept or [next(zip(scan.fields, scan.columns, strict=True))]
    return replace(scan, fields=tuple(f for f, _ in kept), columns=tuple(c for _, c in kept))


# ---- conditions ----------------------------------------------------------------------------------------------------


def _conditions(node: Node) -> dict[Scan, frozenset[Conjunct]]:
    """For every scan right below filters, the parts of these that may be handed on."""
    found: dict[Scan, frozenset[Conjunct]] = {}
    for part in all_nodes(node):
        if isinstance(part, nodes.Scan):
            found.setdefault(part, frozenset())
        if not isinstance(part, nodes.Filter):
            continue
        below, predicates = part.input, [part.predicate]
        while isinstance(below, nodes.Filter):
            predicates.append(below.predicate)
            below = below.input
        if isinstance(below, nodes.Scan):
            found[below] = found.get(below, frozenset()) | frozenset(
                c for p in predicates for c in conjuncts_of(p, below)
            )
    return _of_all_uses(node, found)


def _of_all_uses(node: Node, found: dict[Scan, frozenset[Conjunct]]) -> dict[Scan, frozenset[Conjunct]]:
    """A scan that occurs twice is narrowed by neither's filter."""
    uses: dict[Scan, int] = {}
    for part in all_nodes(node):
        if isinstance(part, nodes.Scan):
            uses[part] = uses.get(part, 0) + 1
    return {scan: conjuncts if uses[scan] == 1 else frozenset() for scan, conjuncts in found.items()}


def conjuncts_of(predicate: Expression, scan: Scan) -> list[Conjunct]:
    """The parts of a condition that a reader may narrow by."""
    stored = {field.symbol: column for field, column in zip(scan.fields, scan.columns, strict=True)}
    return _parts(predicate, lambda column: stored.get(column.symbol))


def _parts(predicate: Expression, stored: Callable[[Column], str | None]) -> list[Conjunct]:
    if not isinstance(predicate, Call):
        return []
    if predicate.function == "and":
        return [conjunct for part in predicate.arguments for conjunct in _parts(part, stored)]
    if predicate.function == "not" and isinstance(predicate.arguments[0], Call):
        inner = predicate.arguments[0]
        return _not_null(inner.arguments[0], stored) if inner.function == "is_null" else []
    if predicate.function == "is_not_null":
        return _not_null(predicate.arguments[0], stored)
    return _comparison(predicate, stored)


def _not_null(value: Expression, stored: Callable[[Column], str | None]) -> list[Conjunct]:
    column = stored(value) if isinstance(value, Column) and value.type.kind in _COMPARED else None
    return [] if column is None else [Conjunct(column, "is not null")]


def _comparison(call: Call, stored: Callable[[Column], str | None]) -> list[Conjunct]:
    first, *rest = call.arguments or (None,)
    operator = _OPERATORS.get(call.function, call.function)
    if operator in _TURNED and isinstance(first, Literal) and isinstance(rest[0], Column):
        first, rest, operator = rest[0], [first], _TURNED[operator]
    if operator not in {*_TURNED, "between", "in"} or not isinstance(first, Column):
        return []
    column, kind = stored(first), first.type.kind
    allowed = _COMPARED if operator in {"=", "in"} else _ORDERED
    values = [constant.value for constant in rest if isinstance(constant, Literal)]
    if column is None or kind not in allowed or len(values) != len(rest) or not rest:
        return []
    return [Conjunct(column, operator, tuple(values))] if all(_sound(value, kind) for value in values) else []


def _sound(value: object, kind: Kind) -> bool:
    """Whether a constant can be written for every reader, and means the same there."""
    match kind:
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        case Kind.DATE:
            return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        case Kind.TEXT:
            return isinstance(value, str) and "\0" not in value and _encodes(value)
    return False


def _encodes(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
