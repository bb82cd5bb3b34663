"""Demands, distances and hierarchies as a transformation stores them: everything that depended on the data is fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.anonymity.hierarchies.hierarchy import Hierarchy
from shoal.anonymity.hierarchies.rules import Mask

if TYPE_CHECKING:
    from shoal.anonymity.hierarchies.ladders import Ladder
    from shoal.anonymity.measuring.definitions import Demand
    from shoal.anonymity.recoding.task import Task


def stored_demands(demands: tuple[Demand, ...]) -> dict[str, Any]:
    """Demands as `enforce` takes them; several on one name are one mapping by column."""
    found: dict[str, Any] = {}
    for demand in demands:
        for name, value in demand.to_dict().items():
            if isinstance(value, Mapping):
                found[name] = {**found.get(name, {}), **value}
            else:
                found[name] = value
    return found


def stored_distances(task: Task) -> dict[str, Any]:
    """Distances by column: a word, or the lines of a hierarchy."""
    found: dict[str, Any] = {}
    for name, distance in task.distances.items():
        asked = task.asked_distances.get(name)
        found[name] = distance.name if distance.name != "hierarchical" else Hierarchy.of(asked).to_dict()  # type: ignore[arg-type]
    return found


def stored_hierarchy(ladder: Ladder) -> Hierarchy:
    """A hierarchy that gives the same levels for other data: a mask remembers the length it was made for."""
    rule = ladder.hierarchy.rule
    if isinstance(rule, Mask) and rule.length is None:
        return Hierarchy(Mask(rule.side, ladder.levels - 1), automatic=ladder.hierarchy.automatic)
    return ladder.hierarchy
