"""Which distance a sensitive column's t is measured in: asked for, or by the type of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.anonymity.hierarchies.hierarchy import Hierarchy
from shoal.anonymity.hierarchies.ladders import ladder_of
from shoal.anonymity.measuring.demands import usage
from shoal.anonymity.measuring.distances import Distance, Equal, Ordered, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.anonymity.measuring.rows import Column


def distances_for(columns: Mapping[str, Column], asked: Mapping[str, Any] | None) -> dict[str, Distance]:
    """Sensitive column → distance: numbers and dates ordered, text equal, unless the caller says otherwise."""
    unknown = set(asked or {}) - set(columns)
    if unknown:
        raise usage(f"distance names {min(unknown)!r}, which is not a sensitive column.", hint="Add it to sensitive=.")
    return {name: _distance(column, (asked or {}).get(name)) for name, column in columns.items()}


def _distance(column: Column, asked: Any) -> Distance:
    if asked is None:
        asked = "equal" if column.kind == "text" else "ordered"
    if asked == "equal":
        return Equal()
    if asked == "ordered":
        return Ordered()
    ladder = ladder_of(column.name, Hierarchy.of(asked, column.name), column.values, column.kind)
    return Tree(tuple(labels[: len(column.values)] for labels in ladder.maps))
