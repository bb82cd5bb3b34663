"""`shoal functions date`: the functions that a query may call."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shoal.cli.output import console, write_json
from shoal.errors import ShoalError


def functions(
    search: Annotated[str, typer.Argument(help="A word that must occur in the name, the usage or the meaning.")] = "",
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the functions that queries may call.

    [bold]Example[/bold]

        shoal functions date
    """
    from shoal.sql.functions import OWNER_AGGREGATES, SECTIONS, WINDOW_FUNCTIONS

    listed: list[dict[str, Any]] = [
        {"section": section, "written": f.usage, "gives": f.meaning, "also": [a.upper() for a in f.aliases]}
        for section, members in SECTIONS.items()
        for f in members
    ]
    listed += [
        {"section": section, "written": f.usage, "gives": f.meaning, "also": []}
        for section, members in (
            ("Aggregates of one owner's rows", OWNER_AGGREGATES),
            ("Window functions", WINDOW_FUNCTIONS),
        )
        for f in members.values()
    ]
    word = search.lower()
    found = [f for f in listed if word in f"{f['written']} {f['gives']} {' '.join(f['also'])}".lower()]
    if not found:
        raise ShoalError(
            "E_USAGE", f"No function has {search!r} in its name or meaning.", hint="shoal functions lists all."
        )
    if json:
        return write_json(found)
    return _print(found)


def _print(found: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    shown = console()
    for section in dict.fromkeys(f["section"] for f in found):
        table = Table("written", "gives", title=str(section), title_justify="left", box=None, padding=(0, 2, 0, 0))
        for f in found:
            if f["section"] == section:
                table.add_row(escape(str(f["written"])), escape(str(f["gives"])))
        shown.print(table)
