"""`shoal service check|migrate|backup|restore`: looking after what a service keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.budget import parse_budget
from shoal.cli.serving.serve import HOME, where
from shoal.cli.serving.service import Home, Json, StoreUrl, acting, app, opened, said
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.cli.serving.service import Done
    from shoal.service.people import Caller
    from shoal.service.service import Service

__all__ = ["app"]


@app.command()
def check(
    anchor: Annotated[
        str | None, typer.Option(metavar="N:HASH", help="A line noted elsewhere that the log must contain.")
    ] = None,
    home: Home = HOME,
    store: StoreUrl = None,
    *,
    json: Json = False,
) -> None:
    """Verify the log, the ledgers, and that they agree charge by charge.

    [bold]Example[/bold]

        shoal service check
    """
    with opened(where(home, store), anchor=anchor) as service:
        lines, charges = service.check()
    said(
        {"lines": lines, "charges": charges},
        f"{_counted(lines, 'line')} of the log and {_counted(charges, 'charge')} are right, and agree.",
        json=json,
    )


@app.command()
def migrate(
    grant: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Give this database role what a running service needs.")
    ] = None,
    home: Home = HOME,
    store: StoreUrl = None,
    *,
    json: Json = False,
) -> None:
    """Upgrade a store to this version of shoal; in PostgreSQL, also create it.

    [bold]Example[/bold]

        shoal service migrate --store postgresql://admin@db/shoal --grant shoal_service
    """
    from shoal.service.people import random_id
    from shoal.service.stores.opening import migrate as migrate_store

    done = migrate_store(where(home, store), random_id("", 16), grant)
    said({"migrations": done}, f"{done} migrations were made.", json=json)


@app.command()
@acting
def backup(
    service: Service,
    operator: Caller,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that does not exist yet.")],
) -> Done:
    """Copy everything a service keeps, while it runs.

    [bold]Example[/bold]

        shoal service backup /backup/monday
    """
    anchor = service.backup(operator, folder)
    return {"folder": str(folder), "anchor": anchor}, f"Copied to {folder}. Note this elsewhere: {anchor}"


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What backup wrote.")],
    anchor: Annotated[
        str | None, typer.Option(metavar="N:HASH", help="The newest line of the log that was noted elsewhere.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(metavar="EPS,DELTA", help="What may have been spent since the copy was made.")
    ] = None,
    because: Annotated[str, typer.Option(metavar="TEXT", help="With --loss: the reason, which is kept.")] = "",
    home: Home = HOME,
    *,
    json: Json = False,
) -> None:
    """Replace a service with a copy. An older copy is refused until what it lacks is recorded as a loss.

    [bold]Example[/bold]

        shoal service restore /backup/monday --loss 0.5,1e-6 --because "the disk died on Tuesday"
    """
    from shoal.service.acts.copying import restore as put_back

    if loss is not None and not because.strip():
        raise ShoalError("E_USAGE", "Booking a loss needs a reason.", hint="Add --because TEXT.")
    booked = None if loss is None else parse_budget(loss, "--loss")
    lines = put_back(folder, home, anchor, booked, because)
    said({"lines": lines}, f"{lines} lines of the log are back in {home}.", json=json)


@app.command()
def risk(
    dataset: Annotated[str, typer.Argument(metavar="DATASET")],
    combine: Annotated[int, typer.Option(help="2: also all pairs of the most unique columns. 3: triples too.")] = 2,
    home: Home = HOME,
    *,
    json: Json = False,
) -> None:
    """Report how identifying each column is. For custodians; the console's Tune page links to it. Not private.

    [bold]Example[/bold]

        shoal service risk visits
    """
    from shoal import risk as risk_tools
    from shoal.service.service import OPERATOR

    with opened(home) as service:
        found = service.datasets.get(dataset)
        tables = [table for table in found.catalog.tables.values() if table.owner is not None]
        report = risk_tools.scan(
            found.source,
            owner={table.name: str(table.owner) for table in tables},
            combine=combine,
            tables=[table.name for table in tables],
        )
        place = service.keep_risk_report(OPERATOR, dataset, report.to_html())
    said({"report": str(place)}, f"The report is in {place}; the console links it on the page Tune.", json=json)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
