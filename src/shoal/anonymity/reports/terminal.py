"""A measurement and a recoding as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.anonymity.reports.limits import CAVEAT
from shoal.anonymity.reports.words import counted, number, of_owners, percent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.anonymity.measuring.measurement import Measurement, Sensitive
    from shoal.anonymity.recoding.anonymized import Anonymized


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


def recoding_text(made: Anonymized) -> str:
    """What was done, what it cost, and what the result is worth."""
    lines = [_headline(made), *lines_of(_of_recoding(made))]
    if made.levels:
        lines += ["", "Levels", *lines_of(_levels(made))]
    lines += ["", "Published: " + ", ".join(made.published)]
    if made.left_out:
        lines.append("Left out: " + ", ".join(made.left_out))
    if made.automatic:
        lines.append("Hierarchies made from the data: " + ", ".join(made.automatic))
    lines += ["", "What this does not protect from"]
    lines += [f"  {limit.title}: {limit.sentence}" for limit in made.not_protected]
    return "\n".join([*lines, "", CAVEAT])


def _headline(made: Anonymized) -> str:
    demands = "; ".join(made.demands)
    return f"{counted(made.after.rows)} of {counted(made.before.rows)} rows published: {demands}."


def _of_recoding(made: Anonymized) -> Iterable[tuple[str, str]]:
    yield "recoding", made.recoding
    yield "loss", f"{made.loss:.6f}"
    yield "suppressed", f"{counted(made.suppressed)} rows, {counted(made.owners_lost)} owners lost"
    if made.recoding == "global":
        yield "search", search_sentence(made)
    yield "k", f"{counted(made.before.k)} before, {counted(made.after.k)} after"
    yield "classes", f"{counted(made.before.classes)} before, {counted(made.after.classes)} after"
    yield (
        "prosecutor risk",
        (
            f"highest {number(made.before.risk.prosecutor.highest)} before, {number(made.after.risk.prosecutor.highest)} after"
        ),
    )


def search_sentence(made: Anonymized) -> str:
    """Whether the result is the best, or how far from it at most."""
    looked = f"{counted(made.checked)} of {counted(made.lattice)} recodings checked"
    if made.optimal:
        return f"the best there is ({looked})"
    if made.gap is None:
        return f"stopped early; how far from the best is not known ({looked})"
    return f"stopped early; at most {percent(made.gap)} from the best ({looked})"


def _levels(made: Anonymized) -> Iterable[tuple[str, str]]:
    for column, level in made.levels.items():
        finer = made.finer.get(column)
        yield (
            column,
            f"{level}" + ("" if finer is None else f" ({counted(finer)} rows would fail at level {level - 1})"),
        )
