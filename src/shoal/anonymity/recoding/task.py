"""What `enforce`, `apply` and `compose` have in common: the table read once, its roles, and what is demanded of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.anonymity.hierarchies.folders import hierarchies_for
from shoal.anonymity.hierarchies.hierarchy import Hierarchy
from shoal.anonymity.hierarchies.ladders import ladder_of
from shoal.anonymity.measuring.definitions import Presence
from shoal.anonymity.measuring.demands import Ground, demands_from, exact_number, usage
from shoal.anonymity.measuring.distances import Equal
from shoal.anonymity.measuring.grounds import distances_for
from shoal.anonymity.measuring.measure_table import MARKER, Roles, measured, read_population, set_aside
from shoal.anonymity.measuring.rows import read_rows
from shoal.anonymity.measuring.tuples import tuples_of
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shoal.anonymity.hierarchies.ladders import Ladder
    from shoal.anonymity.measuring.definitions import Demand
    from shoal.anonymity.measuring.distances import Distance
    from shoal.anonymity.measuring.measurement import Measurement
    from shoal.anonymity.measuring.rows import Rows
    from shoal.anonymity.measuring.tuples import Tuples

THRESHOLD = 0.2


@dataclass(frozen=True)
class Task:
    """A table to recode."""

    rows: Rows
    roles: Roles
    tuples: Tuples
    people: Tuples | None
    distances: Mapping[str, Distance]
    demands: tuple[Demand, ...]
    earlier: int  # rows suppressed before, set aside
    sampling: float | None
    asked_distances: Mapping[str, Any]
    limit: int

    @property
    def before(self) -> Measurement:
        """The table as it came."""
        return self.measured(self.rows, self.people, self.earlier)

    def measured(self, rows: Rows, people: Tuples | None, suppressed: int, roles: Roles | None = None) -> Measurement:
        """A table of these roles, measured; a distance over a hierarchy is laid over the values that are left."""
        sensitive = {name: rows.columns[name] for name in self.roles.sensitive}
        return measured(
            rows,
            roles or self.roles,
            distances_for(sensitive, self.asked_distances),
            people=people,
            sampling=self.sampling,
            threshold=THRESHOLD,
            suppressed=suppressed,
        )


def read_task(
    source: Any,
    roles: Roles,
    *,
    asked: Mapping[str, Any],
    table: str | None,
    population: Any,
    sampling: float | None,
    distance: Mapping[str, Any] | None,
    suppress: Any,
) -> Task:
    """Read a table and check what is demanded of it; nothing has been written yet."""
    share = exact_number("suppress", suppress, 0, 1)
    demands_from(asked, Ground(dict.fromkeys(roles.sensitive, Equal()), population is not None, sampling is not None))
    read = read_rows(source, roles.read, owner=roles.owner, table=table)
    rows, earlier = set_aside(read, roles.quasi, MARKER)
    if not rows.total:
        raise ShoalError("E_DEMANDS", "The table has no rows: there is nothing to publish.")
    people = None if population is None else read_population(population, roles, rows.table)
    task = task_of(rows, roles, asked, people=people, sampling=sampling, distance=distance, earlier=earlier)
    _refuse_a_population_without_the_table(task)
    return replace(task, limit=math.floor(share * rows.total))


def task_of(
    rows: Rows,
    roles: Roles,
    asked: Mapping[str, Any],
    *,
    people: Tuples | None,
    sampling: float | None,
    distance: Mapping[str, Any] | None,
    earlier: int = 0,
) -> Task:
    """The task of a table that was read before; every row may be suppressed."""
    distances = distances_for({name: rows.columns[name] for name in roles.sensitive}, distance)
    return Task(
        rows=rows,
        roles=roles,
        tuples=tuples_of(rows, roles.quasi, roles.sensitive),
        people=people,
        distances=distances,
        demands=demands_from(asked, Ground(distances, people is not None, sampling is not None)),
        earlier=earlier,
        sampling=sampling,
        asked_distances=distance or {},
        limit=rows.total,
    )


def _refuse_a_population_without_the_table(task: Task) -> None:
    if not any(isinstance(demand, Presence) for demand in task.demands):
        return
    found = task.before.found
    if found.population is not None and (found.owners > found.population).any():
        raise usage(
            "The population does not contain the table: some class has more owners in the table than in the population.",
            hint="Give the population that the table was drawn from, the table included.",
        )


def ladders_for(task: Task, given: Any) -> tuple[Ladder, ...]:
    """A ladder for each quasi-identifier: from a hierarchy that was given, or made from the data."""
    hierarchies = hierarchies_for(task.roles.quasi, given)
    return tuple(_ladder(task, position, hierarchies.get(name)) for position, name in enumerate(task.roles.quasi))


def fixed_ladders(task: Task, hierarchies: Mapping[str, Hierarchy]) -> tuple[Ladder, ...]:
    """The ladders of a transformation."""
    return tuple(_ladder(task, position, hierarchies[name]) for position, name in enumerate(task.roles.quasi))


def _ladder(task: Task, position: int, hierarchy: Hierarchy | None) -> Ladder:
    column = task.tuples.quasi[position]
    others: Sequence[Any] = ()
    if task.people is not None:
        known, theirs = set(column.texts), task.people.quasi[position]
        others = [
            value for value, text in zip(theirs.values.to_pylist(), theirs.texts, strict=True) if text not in known
        ]
    chosen = hierarchy or Hierarchy.auto(column.values)
    return ladder_of(column.name, chosen, column.values, column.kind, others)
