"""Groups that are public knowledge: the rows of a public relation that joins preserve, or the values the catalog lists.

A WHERE condition shortens the list exactly when it reads only columns of that list: it then gives the same result for
every group, whoever is in the private tables. A condition that reads anything else filters rows and leaves the list alone.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from shoal.plan import nodes
from shoal.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    ExistsRelation,
    Expression,
    InRelation,
    Literal,
    ScalarRelation,
    WindowCall,
    transform,
    walk,
)
from shoal.plan.traverse import columns_read, is_owned
from shoal.plan.types import BOOLEAN, INTEGER, TEXT
from shoal.sql.binding.clauses.conditions import filtered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.plan.nodes import Field, Node
    from shoal.plan.types import Type
    from shoal.sql.binding.statement import Binder

    Keys = tuple[tuple[Field, Expression], ...]
    Block = tuple[tuple[int, ...], Sequence[tuple[object, ...]]]
    """Some of the keys, by their places among all, and every combination of values that they have."""

MAX_PUBLIC_GROUPS = 1_000_000
SHORT_LIST, LONGEST_LIST = 100, 1_000
"""Up to this many groups of public tables appear in plain SQL, wherever the rows are: a person can read them all. Longer lists
do too, if the catalog's population has more owners than there are groups."""
FEW_OWNERS = 1_000
"""With fewer owners, by the catalog's population, months, weekdays and hours are listed: selection would show few, or none."""
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November")
CALENDAR: dict[str, tuple[object, ...]] = {
    "month": tuple(range(1, 13)),
    "quarter": (1, 2, 3, 4),
    "dayofweek": tuple(range(7)),
    "dayofweek from 1": tuple(range(1, 8)),
    "isodow": tuple(range(1, 8)),
    "hour": tuple(range(24)),
    "dayname": _DAYS,
    "monthname": (*_MONTHS, "December"),
}
_WRITTEN: dict[str, tuple[object, ...]] = {
    "%m": tuple(f"{month:02}" for month in range(1, 13)),
    "%B": CALENDAR["monthname"],
    "%b": tuple(str(name)[:3] for name in CALENDAR["monthname"]),
    "%A": _DAYS,
    "%a": tuple(name[:3] for name in _DAYS),
    "%H": tuple(f"{hour:02}" for hour in range(24)),
}
"""What STRFTIME writes of a date that has few values."""


def outer_joined(binder: Binder, node: Node, keys: Keys) -> tuple[Node, Node] | None:
    """(rows with the outer join made inner, the groups) if the keys are columns of a public side that joins preserve."""
    kept = _kept(node)
    if kept is None or not all(isinstance(value, Column) for _, value in keys):
        return None
    rows, public = kept
    offered = {f.symbol: f for f in public.fields}
    symbols = [value.symbol for _, value in keys if isinstance(value, Column)]
    if not all(symbol in offered for symbol in symbols):
        return None
    listed = filtered(public, [c for c in conditions_of(node) if _reads_only(c, public)])
    groups = binder.project(listed, [(offered[s].name, Column(s, offered[s].type)) for s in symbols])
    return rows, nodes.Distinct(groups)


def has_public_keys(node: Node, keys: Keys) -> bool:
    """Whether every key is a column of some public relation in FROM."""
    public = [part for part in nodes.walk(node) if not is_owned(part)]
    offered = {f.symbol for part in public for f in part.fields}
    return all(isinstance(value, Column) and value.symbol in offered for _, value in keys)


def listed_in_tables(binder: Binder, node: Node, keys: Keys) -> tuple[Node, str] | None:
    """All combinations of the keys in the public tables they come from, and why; None if there are too many.

    Every row must find its group there: where an outer join may find no row of a table, NULLs are listed with its rows,
    whether or not any private row has them.
    """
    partners = dict(_partners(node))
    offered = {f.symbol: scan for scan in partners for f in scan.fields}
    read = [columns_read(value) for _, value in keys]
    if not all(
        symbols and symbols <= offered.keys() and not _asks(value)
        for symbols, (_, value) in zip(read, keys, strict=True)
    ):
        return None
    scans = list(dict.fromkeys(offered[symbol] for symbols in read for symbol in sorted(symbols)))
    facts = binder.context.facts
    sizes = [facts.size(scan.table) + partners[scan] for scan in scans if facts.is_counted(scan.table)]
    owners = binder.context.catalog.defaults.population or 0
    longest = max(SHORT_LIST, min(owners, LONGEST_LIST))
    if len(sizes) < len(scans) or prod(sizes) > longest:
        return None
    rows = [_with_nulls(binder, scan) if partners[scan] else scan for scan in scans]
    conditions = conditions_of(node)
    kept = [filtered(part, [c for c in conditions if _reads_only(c, part)]) for part in rows]
    every = reduce(lambda left, right: nodes.Join(left, right, "inner", Literal(True, BOOLEAN)), kept)
    columns: list[tuple[str, Expression]] = [(f.name, value) for f, value in keys]
    filled = [scan.table for scan, part in zip(scans, kept, strict=True) if partners[scan] and part in rows]
    if filled:
        binder.context.remarks.append(_own_group(list(dict.fromkeys(filled))))
    return nodes.Distinct(binder.project(every, columns)), _why([scan.table for scan in scans])


def _why(names: list[str]) -> str:
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} public and short, so that every group appears"


def _own_group(names: list[str]) -> str:
    """What to say about rows that an outer join fills with NULL."""
    rows = f"Rows that match nothing in {' or '.join(names)}"
    return f"{rows} have a group of their own. Like all others, it appears with or without rows."


def _asks(value: Expression) -> bool:
    """Whether an expression reads another relation, or looks at other rows."""
    return any(isinstance(part, (ScalarRelation, InRelation, ExistsRelation, WindowCall)) for part in walk(value))


def _partners(node: Node, *, optional: bool = False) -> list[tuple[nodes.Scan, bool]]:
    """Public tables of which every counted row has a row, or (True) NULLs where an outer join finds none."""
    match node:
        case nodes.Scan():
            return [] if is_owned(node) else [(node, optional)]
        case nodes.Filter(input=below) | nodes.Join(kind="semi" | "anti", left=below):
            return _partners(below, optional=optional)
        case nodes.Join(kind=kind):
            left = _partners(node.left, optional=optional or kind in {"right", "full"})
            return [*left, *_partners(node.right, optional=optional or kind in {"left", "full"})]
    return []


def _with_nulls(binder: Binder, scan: nodes.Scan) -> Node:
    """The rows of a table, and one of NULLs: that is what nothing matches, for a list of one row."""
    alone = nodes.Values(((1,),), (binder.context.symbols.field("", INTEGER),))
    return nodes.Join(alone, scan, "full", Literal(False, BOOLEAN))


def listed_in_catalog(binder: Binder, node: Node, keys: Keys, lists: Sequence[Sequence[object] | None]) -> Node | None:
    """All combinations of the values that the catalog lists for every key; None if there is no list, or too many."""
    known = [((place,), [(v,) for v in values]) for place, values in enumerate(lists) if values is not None]
    return every_combination(binder, node, keys, known) if len(known) == len(lists) else None


def every_combination(binder: Binder, node: Node, keys: Keys, blocks: Sequence[Block]) -> Node | None:
    """All combinations of what blocks of keys list, in the order of the keys; None if there are too many."""
    if reduce(lambda product, block: product * max(1, len(block[1])), blocks, 1) > MAX_PUBLIC_GROUPS:
        return None
    fields = [binder.context.symbols.field(f.name, f.type) for f, _ in keys]
    parts: list[Node] = [nodes.Values(tuple(rows), tuple(fields[place] for place in places)) for places, rows in blocks]
    listed = reduce(lambda left, right: nodes.Join(left, right, "inner", Literal(True, BOOLEAN)), parts)
    if [place for places, _ in blocks for place in places] != list(range(len(keys))):
        listed = nodes.Project(listed, tuple((f, Column(f.symbol, f.type)) for f in fields))
    on_list = {value: Column(f.symbol, f.type) for f, (_, value) in zip(fields, keys, strict=True)}
    conditions = [transform(c, lambda part: on_list.get(part, part)) for c in conditions_of(node)]
    return filtered(listed, [c for c in conditions if _reads_only(c, listed)])


def pinned(value: Expression, node: Node) -> tuple[object, ...] | None:
    """The constants that WHERE compares a key with: no row has another value, and none is NULL."""
    for condition in conditions_of(node):
        if not isinstance(condition, Call) or condition.function not in {"equal", "in"}:
            continue
        first, *rest = condition.arguments
        compared = condition.arguments if condition.function == "equal" else (first,)
        if value in compared:
            others = rest if first == value else [first]
            constants = [_plain(part, value.type) for part in others]
            if all(constant is not None for constant in constants):
                return tuple(dict.fromkeys(constants))
    return None


def _plain(part: Expression, type_: Type) -> object | None:
    """A constant of the key's own type that needs no conversion."""
    same = isinstance(part, Literal) and part.type.plain() == type_.plain()
    return part.value if same and isinstance(part, Literal) and isinstance(part.value, (str, int)) else None


def in_calendar(value: Expression) -> tuple[object, ...] | None:
    """Every value of a part of a date that has few: months, days of the week, hours, also as text. NULL is none of them."""
    if isinstance(value, Cast) and value.type.plain() == TEXT:
        found = in_calendar(value.value)
        return found and tuple(str(each) for each in found)
    if not isinstance(value, Call):
        return None
    match value:
        case Call(function="concat", arguments=(Literal(value=str(before)), after)):  # 'Q' || QUARTER(day)
            found = in_calendar(after)
            return found and tuple(f"{before}{each}" for each in found)
        case Call(function="strftime", arguments=(_, Literal(value=str(form)))):
            return _WRITTEN.get(form)
    part = value.arguments[0] if value.function == "date_part" else None
    return CALENDAR.get(str(part.value) if isinstance(part, Literal) else value.function)


def listed_in_query(value: Expression) -> tuple[object, ...] | None:
    """Every value a key can have, if the expression itself shows it: the constants of a CASE with ELSE, or IS NULL."""
    if isinstance(value, Call) and value.function in {"is_null", "is_not_null"}:
        return (True, False)
    if not isinstance(value, Case):
        return None
    results = [result for _, result in value.branches] + [value.otherwise]
    constants = [result.value for result in results if isinstance(result, Literal) and result.value is not None]
    plain = len(constants) == len(results) and all(isinstance(c, (str, bool, int)) for c in constants)
    return tuple(dict.fromkeys(constants)) if plain else None


def _kept(node: Node) -> tuple[Node, Node] | None:
    """The tree with the first outer join that preserves a public side made inner, and that side.

    The rows that the outer join adds have no owner. Filters, semi joins and further row-preserving joins give them no
    owner either: private tables are joined on the owner, which is missing there.
    """
    match node:
        case nodes.Filter(input=below):
            found = _kept(below)
            return found and (nodes.Filter(found[0], node.predicate, position=node.position), found[1])
        case nodes.Join(kind="left" | "semi" | "anti", left=side) | nodes.Join(kind="right", right=side):
            if node.kind in {"left", "right"} and not is_owned(side):
                return _with_kind(node, node.left, node.right, "inner"), side
            found = _kept(side)
            if found is None:
                return None
            left, right = (found[0], node.right) if side is node.left else (node.left, found[0])
            return _with_kind(node, left, right, node.kind), found[1]
    return None


def _with_kind(join: nodes.Join, left: Node, right: Node, kind: str) -> nodes.Join:
    return nodes.Join(left, right, kind, join.condition, from_subquery=join.from_subquery, position=join.position)


def conditions_of(node: Node) -> list[Expression]:
    """The conditions that WHERE guarantees for every row of a tree."""
    match node:
        case nodes.Filter():
            return [*_conjuncts(node.predicate), *conditions_of(node.input)]
        case nodes.Join(kind="semi" | "anti"):
            return conditions_of(node.left)
    return []


def _conjuncts(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in _conjuncts(argument)]
    return [condition]


def _reads_only(condition: Expression, public: Node) -> bool:
    """Whether a condition reads columns of a public relation, and only public rows."""
    inside = columns_read(condition) <= {f.symbol for f in public.fields}
    return inside and not is_owned(nodes.Filter(public, condition))
