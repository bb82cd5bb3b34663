"""`measure`: a source, its quasi-identifiers and its sensitive columns → a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.anonymity.measuring.classes import classes_of
from shoal.anonymity.measuring.demands import exact_number, usage
from shoal.anonymity.measuring.grounds import distances_for
from shoal.anonymity.measuring.measurement import Measurement
from shoal.anonymity.measuring.population import population_classes, shared_codes
from shoal.anonymity.measuring.rows import read_rows
from shoal.anonymity.measuring.tuples import tuples_of
from shoal.catalog import fold
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.distances import Distance
    from shoal.anonymity.measuring.rows import Rows
    from shoal.anonymity.measuring.tuples import Tuples

MARKER = "*"


@dataclass(frozen=True, slots=True)
class Roles:
    """Which column plays which part; a column plays one."""

    quasi: tuple[str, ...]
    sensitive: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    owner: str | None = None

    def __post_init__(self) -> None:
        if not self.quasi:
            raise usage("No quasi-identifiers were given.", hint='Write quasi=["zip", "age"] (--quasi zip,age).')
        seen: set[str] = set()
        for name in (*self.quasi, *self.sensitive, *self.keep, *(() if self.owner is None else (self.owner,))):
            if fold(name) in seen:
                raise usage(f"The column {name!r} was given two roles.", hint="A column has one role.")
            seen.add(fold(name))

    @property
    def read(self) -> tuple[str, ...]:
        """The columns to read, the owner aside."""
        return (*self.quasi, *self.sensitive, *self.keep)


def names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """One name, several, or none."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def checked_sampling(sampling: Any, population: Any) -> float | None:
    """A sampling fraction in (0, 1]; it replaces a population that cannot be had."""
    if sampling is None:
        return None
    if population is not None:
        raise usage("A population and a sampling fraction cannot be combined.", hint="Give one of them.")
    fraction = exact_number("sampling", sampling, 0, 1)
    if fraction <= 0:
        raise usage("sampling must be above 0.", hint="Write sampling=0.1.")
    return float(fraction)


def measure(
    source: Any,
    quasi: str | Sequence[str],
    sensitive: str | Sequence[str] | None = None,
    owner: str | None = None,
    table: str | None = None,
    population: Any = None,
    sampling: float | None = None,
    distance: Mapping[str, Any] | None = None,
    threshold: float = 0.2,
    marker: str | None = MARKER,
) -> Measurement:
    """Measure k-anonymity and its relatives on a table; owners with several rows count once.

    >>> measure({"t": {"zip": [4217, 4217, 4217, 1742, 1742], "age": [34, 34, 34, 77, 77]}}, quasi=["zip", "age"]).k
    2
    """
    roles = Roles(names(quasi), names(sensitive), (), owner)
    fraction = checked_sampling(sampling, population)
    limit = float(exact_number("threshold", threshold, 0, 1))
    rows, suppressed = set_aside(read_rows(source, roles.read, owner=owner, table=table), roles.quasi, marker)
    distances = distances_for({name: rows.columns[name] for name in roles.sensitive}, distance)
    people = None if population is None else read_population(population, roles, rows.table)
    return measured(rows, roles, distances, people=people, sampling=fraction, threshold=limit, suppressed=suppressed)


def read_population(population: Any, roles: Roles, table: str) -> Tuples:
    """The population's quasi-identifiers; owners count once there too, where it has the owner column."""
    from shoal.errors import ShoalError

    try:
        rows = read_rows(population, roles.quasi, owner=roles.owner, prefer=table)
    except ShoalError as error:
        if error.code != "E_UNKNOWN_COLUMN" or roles.owner is None:
            raise
        rows = read_rows(population, roles.quasi, prefer=table)
    return tuples_of(rows, roles.quasi)


def set_aside(rows: Rows, quasi: Sequence[str], marker: str | None) -> tuple[Rows, int]:
    """The rows without those suppressed before: every quasi-identifier the marker. A table of nothing else is one class."""
    if marker is None:
        return rows, 0
    gone = np.ones(len(rows.count), dtype=bool)
    for name in quasi:
        column = rows.columns[name]
        marked = np.array([text == marker for text in column.texts] if column.kind == "text" else [False], dtype=bool)
        gone &= marked[column.codes] if column.kind == "text" and len(marked) else False
    if not gone.any() or gone.all():
        return rows, 0
    return rows.where(~gone), int(rows.count[gone].sum())


def measured(
    rows: Rows,
    roles: Roles,
    distances: Mapping[str, Distance],
    *,
    people: Tuples | None,
    sampling: float | None,
    threshold: float,
    suppressed: int,
) -> Measurement:
    """The measurement of coded rows."""
    tuples = tuples_of(rows, roles.quasi, roles.sensitive)
    count = len(tuples.rows)
    part: NDArray[np.int64] = np.arange(count)
    counts = None
    if people is not None:
        codes, sizes = shared_codes(tuples, people)
        own = [tuples.codes[:, position] for position in range(len(roles.quasi))]
        part, count, counts = population_classes(own, codes, sizes, people)
    found = classes_of(tuples, part, count, counts, sampling)
    warnings = _warnings(found.owners, found.population, rows)
    extra = {name: _unique_with(rows, roles, name) for name in (*roles.sensitive, *roles.keep)}
    unit = "rows" if rows.owner is None else "owners"
    return Measurement(tuples, found, distances, suppressed, threshold, unit, warnings, extra)


def _warnings(owners: NDArray[np.int64], population: NDArray[np.int64] | None, rows: Rows) -> tuple[str, ...]:
    found = []
    if population is not None and (owners > population).any():
        found.append(
            f"{int((owners > population).sum()):,} classes have more owners here than in the population: it does not "
            "contain the table, and presence has no meaning."
        )
    if rows.ownerless:
        found.append(f"{rows.ownerless:,} rows have no owner (NULL): together they count as one owner.")
    if not rows.total:
        found.append("The table has no rows.")
    return tuple(found)


def _unique_with(rows: Rows, roles: Roles, column: str) -> int:
    """Owners who are alone once a published column is seen together with the quasi-identifiers."""
    from shoal.anonymity.measuring.classes import owners_by_class

    tuples = tuples_of(rows, (*roles.quasi, column))
    return int((owners_by_class(tuples, np.arange(len(tuples.rows)), len(tuples.rows)) == 1).sum())
