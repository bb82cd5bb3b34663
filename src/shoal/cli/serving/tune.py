"""`shoal tune`: what ε, groups per owner and bounds do to one question, on raw data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import check_writable, console, write_json
from shoal.cli.query import CatalogFile, Database, Sql, read_sql
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.tuning import Tuning


def tune(
    sql: Sql,
    db: Database,
    catalog: CatalogFile = Path("shoal.toml"),
    epsilon: Annotated[str | None, typer.Option(metavar="LIST", help="Such as 0.5,1,2.")] = None,
    groups: Annotated[str | None, typer.Option(metavar="LIST", help="Groups per owner, such as 1,2,5.")] = None,
    bounds: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LIST", help="Of an output column, such as n=0:5,0:20.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a web page.")] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what each setting of one question keeps, loses and adds: exact figures, not private.

    [bold]Example[/bold]

        shoal tune "SELECT …" --db data/ --epsilon 0.5,1,2 --groups 1,2,5 --bounds n=0:5,0:20
    """
    from shoal import tuning
    from shoal.remote import is_remote

    if is_remote(db):
        page = db.partition("?")[0].rstrip("/")
        raise ShoalError(
            "E_USAGE",
            "A data set of a service is tuned on its page Tune: this verb reads the data itself.",
            hint=f"Open {page}/tune as a custodian; programs: POST {page.replace('/d/', '/v1/datasets/', 1)}/tune.",
        )
    check_writable(html)
    found = tuning.tune(
        db,
        catalog,
        read_sql(sql),
        epsilon=None if epsilon is None else [number(part) for part in epsilon.split(",")],
        groups=None if groups is None else [whole(part) for part in groups.split(",")],
        bounds=dict(map(pairs_of, bounds or [])),
    )
    if html is not None:
        found.to_html(html)
    if json:
        return write_json(found.to_dict())
    return show(found)


def show(found: Tuning) -> None:
    """For people, the warning first."""
    from rich import box
    from rich.table import Table

    from shoal.tuning.cells import SHORT_HEADINGS, advised, cells

    out, table = console(), Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in SHORT_HEADINGS:
        table.add_column(name, justify="left" if name == "bounds" else "right")
    for one in found.settings:
        table.add_row(*cells(one))
    out.print(found.warning)
    out.print(table)
    for sentence, about in advised(found).items():
        out.print(f"advice  {sentence}{about}")


def number(text: str) -> float:
    """A number of a list."""
    try:
        return float(text)
    except ValueError:
        raise ShoalError("E_USAGE", f"{text[:40]!r} is not a number.", hint="Write lists as 0.5,1,2.") from None


def whole(text: str) -> int:
    """A whole number of a list."""
    if not text.strip().isdecimal():
        raise ShoalError("E_USAGE", f"{text[:40]!r} is not a whole number.", hint="Write lists as 1,2,5.")
    return int(text)


def pairs_of(text: str) -> tuple[str, list[tuple[float, float]]]:
    """`n=0:5,0:20` as a column and its bounds."""
    name, _, listed = text.partition("=")
    found = [part.split(":") for part in listed.split(",")]
    if not name or any(len(pair) != 2 for pair in found):
        raise ShoalError("E_USAGE", "Bounds are written as NAME=LOWER:UPPER,LOWER:UPPER.", hint="Such as n=0:5,0:20.")
    return name, [(number(low), number(high)) for low, high in found]
