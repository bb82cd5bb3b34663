"""What is refused anywhere below a private SELECT: columns that claim the owner's name, rows of several owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.lineage import is_copy, lineage, owner_names
from shoal.plan.traverse import expressions_of, is_owned
from shoal.rewrite.check_windows import windows_of
from shoal.sql.functions import needs_order

if TYPE_CHECKING:
    from shoal.plan.expressions import Expression, Position
    from shoal.plan.nodes import Field, Node


def refuse_mixed_owners(relation: Node) -> None:
    """E_UID_FORGED and E_CROSS_USER wherever their reason is below a relation."""
    for node in nodes.walk(relation):
        _refuse_forged(node)
    for node in nodes.walk(relation):
        _refuse_cross_owner(node)


def _refuse_forged(node: Node) -> None:
    """A column that has the owner's name but not its lineage."""
    if not isinstance(node, (nodes.Project, nodes.Aggregate)) or not is_owned(node):
        return
    names, genuine = owner_names(node), lineage(node)
    for f in node.fields:
        if f.name and fold(f.name) in names and f.symbol not in genuine:
            raise ShoalError(
                "E_UID_FORGED",
                f"The column {f.name!r} has the owner's name but does not hold the owner.",
                hint="Give the computed column another name; the owner is carried along automatically.",
                position=place_of(node, f),
            )


def place_of(node: nodes.Project | nodes.Aggregate, f: Field) -> Position:
    """Where a column was written."""
    items = node.items if isinstance(node, nodes.Project) else node.keys
    return next((value.position for known, value in items if known == f), None) or node.position


def _refuse_cross_owner(node: Node) -> None:
    """Windows that look at several owners' rows, and LIMIT inside FROM."""
    if not is_owned(node):
        return
    if isinstance(node, nodes.Sort) and (node.limit is not None or node.offset):
        raise cross_owner(node.position, "ORDER BY … LIMIT inside FROM chooses rows by looking at all owners.")
    genuine = frozenset[str]().union(*(lineage(part) for part in nodes.inputs(node)))
    for value in expressions_of(node):
        refuse_cross_windows(value, genuine)


def refuse_cross_windows(value: Expression, genuine: frozenset[str]) -> None:
    """E_CROSS_USER for a window that is not confined to one owner."""
    for part in windows_of(value):
        if not any(is_copy(p, genuine) for p in part.partition):
            raise cross_owner(part.position, "This window looks at the rows of several owners.")
        if (needs_order(part.function) or part.frame is not None) and not part.order:
            what = part.function.upper() if part.frame is None else f"{part.function.upper()} over a frame"
            raise ShoalError(
                "E_UNSUPPORTED",
                f"{what} needs an order, or its answer would depend on how rows are stored.",
                hint="Write OVER (PARTITION BY uid ORDER BY day).",
                position=part.position,
            )


def cross_owner(position: Position, message: str) -> ShoalError:
    """The refusal of what looks at several owners."""
    return ShoalError(
        "E_CROSS_USER",
        message,
        hint="Windows may look at one owner's rows: PARTITION BY the owner. Sort and limit the private result instead.",
        position=position,
    )
