"""The page of a measurement or a recoding: tiles, class sizes, values, risk, and what none of it protects from."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.anonymity.reports import sections
from shoal.anonymity.reports.limits import CAVEAT
from shoal.anonymity.reports.words import counted, number, percent
from shoal.pages import page, tile, top

if TYPE_CHECKING:
    from shoal.anonymity.measuring.measurement import Measurement
    from shoal.anonymity.recoding.anonymized import Anonymized


def measurement_page(found: Measurement, *, k: int = 5, show_values: bool = False) -> str:
    """The page of a measurement; classes below k are the small ones."""
    owners = "" if found.unit == "rows" else f" of {counted(found.owners)} owners"
    lead = (
        f"{counted(found.rows)} rows{owners}, seen by somebody who knows {', '.join(found.quasi)}: "
        f"{counted(found.classes)} classes of rows that look the same."
    )
    body = "".join(
        (
            top("Anonymity, measured", lead),
            f'<main><div class="tiles">{"".join(_tiles(found, k))}</div>',
            sections.warnings(found.warnings),
            sections.limits(found.not_protected, found.unit),
            sections.class_sizes([("now", found)], k),
            sections.sensitive([("", found)]),
            sections.risk([("", found)]),
            sections.failing(found, k, show_values=show_values),
            "</main>",
            _footer(found),
        )
    )
    return page("Anonymity, measured", body)


def _tiles(found: Measurement, k: int) -> list[str]:
    small = found.below(k).owners / max(int(found.found.owners.sum()), 1)
    tiles = [
        tile(counted(found.k), f"k: {found.unit} in the smallest class", "critical" if found.k < 2 else ""),
        tile(percent(small), f"of {found.unit} in classes below {k}", "high" if small > 0 else ""),
        tile(
            percent(found.unique / max(found.owners, 1)), f"of {found.unit} unique", "critical" if found.unique else ""
        ),
    ]
    tiles += _tiles_of_values(found)
    if found.suppressed:
        tiles.append(tile(counted(found.suppressed), "rows suppressed before"))
    return tiles


def _tiles_of_values(found: Measurement) -> list[str]:
    if not found.sensitive:
        return []
    worst = min(found.sensitive.values(), key=lambda column: column.distinct)
    farthest = max(found.sensitive.values(), key=lambda column: column.t)
    return [
        tile(
            counted(worst.distinct), f"l: values of {worst.column} in a class", "critical" if worst.distinct < 2 else ""
        ),
        tile(number(farthest.t), f"t: distance of {farthest.column} from the table"),
    ]


def recoding_page(made: Anonymized, *, show_values: bool = False) -> str:
    """The page of a recoding."""
    k = max(made.after.k, 2)
    lead = (
        f"{counted(made.after.rows)} of {counted(made.before.rows)} rows are published. Demanded: "
        f"{'; '.join(made.demands)}. Measured again in the output, every demand holds."
    )
    body = "".join(
        (
            top("Anonymity, enforced", lead),
            f'<main><div class="tiles">{"".join(_recoding_tiles(made))}</div>',
            sections.warnings(made.after.warnings),
            sections.limits(made.not_protected, made.after.unit),
            sections.before_and_after(made),
            sections.levels(made),
            sections.search(made),
            sections.class_sizes([("before", made.before), ("after", made.after)], k),
            sections.sensitive([("before", made.before), ("after", made.after)]),
            sections.risk([("before", made.before), ("after", made.after)]),
            sections.columns(made),
            sections.failing(made.before, k, show_values=show_values),
            "</main>",
            _footer(made.after),
        )
    )
    return page("Anonymity, enforced", body)


def _recoding_tiles(made: Anonymized) -> list[str]:
    return [
        tile(counted(made.after.k), f"k: {made.after.unit} in the smallest class"),
        tile("0", f"{made.after.unit} in classes below {counted(made.after.k)}"),
        *_tiles_of_values(made.after),
        tile(f"{made.loss:.4f}", "loss: 0 untouched, 1 nothing left"),
        tile(counted(made.suppressed), f"rows suppressed, {percent(made.suppressed / max(made.before.rows, 1))}"),
    ]


def _footer(found: Measurement) -> str:
    words = (
        ("class", f"the rows that are equal in {', '.join(found.quasi)}"),
        ("k", "the owners of the smallest class; an owner with several rows counts once"),
        ("l", "the values of a sensitive column in a class; 1 as soon as one value is held by every owner of it"),
        ("α", "how sure an attacker is of the most common value of a class"),
        ("β", "how much likelier a value becomes by seeing its class"),
        ("t", "how far the values of a class are from those of the whole table (earth mover's distance)"),
        ("prosecutor", "knows that the target is in the table"),
        ("journalist", "does not know it; needs a population or a sampling fraction to be measured"),
        ("marketer", "wants as many people as possible, not one in particular"),
    )
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in words)
    return f"<footer><p><strong>{escape(CAVEAT)}</strong></p><dl>{listed}</dl></footer>"
