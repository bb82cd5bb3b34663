"""A measurement and a recoding as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.anonymity.reports.limits import CAVEAT
from shoal.anonymity.reports.words import counted, number, of_owners, percent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.anonymity.measuring.measurement import Measurement, Sensitive


def lines_of(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names and values in two columns."""
    listed = list(pairs)
    width = max((len(name) for name, _ in listed), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in listed]


def measurement_text(found: Measurement) -> str:
    """All numbers, then what they do not protect from."""
    owners = "" if found.unit == "rows" else f", {counted(found.owners)} owners"
    head = f"{counted(found.rows)} rows{owners}, {counted(found.classes)} classes of {', '.join(found.quasi)}"
    lines = [head, *lines_of(_numbers(found))]
    for column in found.sensitive.values():
        lines += ["", f"{column.column}", *lines_of(_of_column(found, column))]
    lines += ["", "What this does not protect from"]
    lines += [f"  {limit.title}: {limit.sentence}" for limit in found.not_protected]
    return "\n".join([*lines, "", CAVEAT, *(f"warning: {warning}" for warning in found.warnings)])


def _numbers(found: Measurement) -> Iterable[tuple[str, str]]:
    owners = int(found.found.owners.sum())
    yield "k", counted(found.k)
    if found.profile_k != found.k:
        yield "profile k", f"{counted(found.profile_k)} (owners with the same set of classes)"
    yield "unique", of_owners(found.unique, found.owners, found.unit)
    yield "in classes below 5", of_owners(found.below(5).owners, owners, found.unit)
    if found.suppressed:
        yield "suppressed before", f"{counted(found.suppressed)} rows"
    if found.k_map is not None:
        yield "k-map", counted(found.k_map)
        yield "unique in the population too", counted(found.population_unique or 0)
    if found.k_map_estimate is not None:
        yield "k-map, estimated", number(found.k_map_estimate)
    if found.presence is not None:
        yield "presence", f"{number(found.presence[0])} to {number(found.presence[1])}"
    for name in ("prosecutor", "journalist"):
        risk = getattr(found.risk, name)
        if risk is not None:
            yield (
                f"{name} risk",
                (
                    f"highest {number(risk.highest)}, average {number(risk.average)}, "
                    f"above {number(found.risk.threshold)}: {percent(risk.above)}"
                ),
            )
    yield "marketer risk", f"average {number(found.risk.marketer.average)}"


def _of_column(found: Measurement, column: Sensitive) -> Iterable[tuple[str, str]]:
    yield "distinct l", counted(column.distinct)
    yield "entropy l", number(column.entropy)
    yield "recursive c(2), c(3), c(4)", ", ".join(number(column.recursive(level)) for level in (2, 3, 4))
    yield "α", number(column.alpha)
    yield "β", number(column.beta)
    yield f"t ({column.distance})", number(column.t)
    yield "value known for certain", of_owners(column.homogeneous, int(found.found.owners.sum()), found.unit)
