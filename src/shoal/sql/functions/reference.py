"""The reference page of functions, written from the allow-list itself: `python -m shoal.sql.functions.reference`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shoal.sql.functions import OWNER_AGGREGATES, SECTIONS, WINDOW_FUNCTIONS
from shoal.sql.functions.environment import ENVIRONMENT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.sql.functions.overloads import Function

_INTRODUCTION = """\
# Functions

These functions, operators, aggregates and window functions can appear in a query; everything else is refused with
`E_FUNCTION_NOT_ALLOWED` before any data is read: random numbers, settings, files, user-defined functions, anything that
the engine knows and this page does not.

No value of a row can make a function fail. What has no answer is NULL:

- Integers have 64 bits. What does not fit is NULL, and so is a division by zero.
- Reals are doubles. NaN is NULL, −0.0 is 0.0, infinities are values. Decimals become doubles where they are computed with.
- Dates and timestamps lie in the years 1 to 9999; timestamps have no zone (what is stored with one is UTC).
- Strings compare by bytes, whatever collation a column declares. No function makes a string longer than 2¹⁶ bytes.
- Every cast is a try-cast: what does not fit is NULL. A double rounds to the nearest integer, halves to the even one; a
  decimal rounds halves away from zero.
- Patterns, formats, units, counts of repetition and numbers of digits are constants.
- Numbers widen by themselves (integer → decimal → double), dates to timestamps; a string *constant* next to a date or
  timestamp is read as one. Everything else takes a CAST.

Names are case-insensitive. Functions of BigQuery and of DuckDB are understood, with units and formats in either order.
Some are written alike in both and mean two things. BigQuery's meaning counts in `LOG(x, base)`, `LOG(x)`,
`REGEXP_EXTRACT(text, 'a(b)')`, `EXTRACT(WEEK FROM day)` and `EXTRACT(DAYOFWEEK FROM day)`. A unit that is a bare word
at the end, `DATE_TRUNC(day, WEEK)`, is BigQuery's too: its weeks begin on Sunday. With the unit as a string,
`DATE_TRUNC('week', day)`, and in functions such as `WEEK(day)` and `DAYOFWEEK(day)`, DuckDB's meaning counts: weeks are
ISO weeks and begin on Monday, and Sunday is day 0.
"""

_AGGREGATES = """\
These aggregate one owner's rows: in subqueries grouped by the owner, and as windows partitioned by the owner. None
depends on the order of rows: a real is put on a grid of 2⁻³⁰ in its row, saturated at ±2⁶⁰, and summed in whole steps.
(The private aggregates of the outer SELECT are another matter: there, noise is added.) All take `DISTINCT` and
`FILTER (WHERE …)`.
"""

_WINDOWS = """\
Windows are partitioned by the owner and need an ORDER BY; ties are broken by all columns. Offsets and counts are constants.
The aggregates above may be windows too; with a frame (ROWS, RANGE, GROUPS) they need an ORDER BY as well.
"""


def page() -> str:
    """The whole page, as Markdown."""
    sections = [_INTRODUCTION]
    for title, listed in SECTIONS.items():
        ordered = [f for f in listed if f.operator] + sorted((f for f in listed if not f.operator), key=_name)
        sections.append(
            f"## {title}\n\n{_table((f.usage, f.meaning, _also(f.name, f.usage, f.aliases)) for f in ordered)}"
        )
    sections.append(f"## The moment of planning\n\n{_moment()}")
    aggregates = [(a.usage, a.meaning, "") for a in OWNER_AGGREGATES.values()]
    sections.append(f"## Aggregates of one owner's rows\n\n{_AGGREGATES}\n{_table(aggregates)}")
    windows = [(w.usage, w.meaning, "") for w in WINDOW_FUNCTIONS.values()]
    sections.append(f"## Window functions\n\n{_WINDOWS}\n{_table(windows)}")
    return "\n".join(sections)


def _name(function: Function) -> str:
    return function.name


def _also(name: str, usage: str, aliases: tuple[str, ...]) -> str:
    """Other names that the usage does not show."""
    names = aliases if "(" not in usage else (name, *aliases)
    others = [other.upper() for other in names if other.isidentifier() and f"{other.upper()}(" not in usage]
    return ", ".join(f"`{other}`" for other in others)


def _table(rows: Iterable[tuple[str, str, str]]) -> str:
    lines = ["| written | gives | also |", "|---|---|---|"]
    lines.extend(f"| `{_cell(usage)}` | {_cell(meaning)} | {also} |" for usage, meaning, also in rows)
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _moment() -> str:
    names = ", ".join(f"`{name.upper()}`" for name in sorted(ENVIRONMENT_NAMES))
    return f"{names}: read once when the query is planned, in UTC, and constant from then on.\n"


if __name__ == "__main__":
    sys.stdout.write(page())
