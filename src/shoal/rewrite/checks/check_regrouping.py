"""Refuses AVG(x) FROM (… GROUP BY order_id): groups of one owner each never appear, and the outer aggregate would be NULL.

Read literally it is an average over released groups. Where a key names single rows or events of an owner, no group has more
than one owner, so nothing would be released but everything paid for. The intended query is an average per owner.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column
from shoal.plan.traverse import all_nodes

if TYPE_CHECKING:
    from shoal.catalog import Catalog, Table
    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect
    from shoal.sql.binding.statement import BoundStatement

_NUMBERED = re.compile(r"^(?P<thing>[a-z]+?)_?(id|no|nr|num|number|uuid)$", re.IGNORECASE)
_EVENTS = frozenset({"booking", "event", "invoice", "order", "payment", "purchase", "receipt"}) | {
    "ride",
    "session",
    "ticket",
    "transaction",
    "trip",
    "visit",
}
"""Things that happen to one owner, so their numbers do not form groups."""


def check_regrouping(bound: BoundStatement, catalog: Catalog) -> None:
    """E_UID_LOST where an outer aggregate reads a private SELECT that is grouped by the number of an event."""
    for node in all_nodes(bound.root):
        if not isinstance(node, nodes.Aggregate):
            continue
        below = _released(node.input)
        if below is None:
            continue
        select = bound.selects[below.select]
        found = _event_key(select)
        if found is not None:
            raise _refusal(select, found, catalog)


def _released(node: Node) -> nodes.StoredRows | None:
    while isinstance(node, (nodes.Filter, nodes.Project, nodes.Sort)):
        node = node.input
    return node if isinstance(node, nodes.StoredRows) else None


def _event_key(select: PrivateSelect) -> str | None:
    """The name of a key that numbers the events of single owners."""
    if select.public_groups is not None:
        return None
    scans = [node for node in nodes.walk(select.input) if isinstance(node, nodes.Scan) and node.owner is not None]
    names = {field.symbol: field.name for scan in scans for field in scan.fields}
    tables = [scan.table.lower() for scan in scans]
    for field, value in select.keys:
        written = names.get(value.symbol) if isinstance(value, Column) else None
        found = _NUMBERED.match(written or field.name or "")
        thing = found["thing"].lower() if found else ""
        if thing and (thing in _EVENTS or any(table.startswith(thing) for table in tables)):
            return written or field.name
    return None


def _refusal(select: PrivateSelect, key: str, catalog: Catalog) -> ShoalError:
    scan = next(n for n in nodes.walk(select.input) if isinstance(n, nodes.Scan) and n.owner is not None)
    owner = nodes.field_of(scan, scan.owner or "").name
    # A table whose owner is in another one has no column of that name.
    added = f"Add {owner}" if owner else _joined(catalog.table(scan.table), catalog)
    return ShoalError(
        "E_UID_LOST",
        f"Every {key} belongs to one owner, so no group of the inner query could be shown and the answer would be NULL.",
        hint=f"{added} to GROUP BY of the inner query: then the outer aggregate is over owners, and private.",
        position=select.position,
    )


def _joined(table: Table | None, catalog: Catalog) -> str:
    """The table at the end of the references that lead to the owner, and its column."""
    while table is not None and table.through is not None:
        table = catalog.table(table.through.to)
    if table is None or not table.owner:
        return "Join the table that has the owner column, and add that column"
    return f"Join {table.name}, and add {table.owner}"
