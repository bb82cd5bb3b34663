"""`shoal explain`: what a query would do and cost; reads no data, spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import write_json
from shoal.cli.query import CatalogFile, Sql, read_sql


def explain(
    sql: Sql,
    catalog: CatalogFile = Path("shoal.toml"),
    db: Annotated[
        str | None, typer.Option("--db", metavar="SOURCE", help="Take column types from here, not from the catalog.")
    ] = None,
    error: Annotated[
        float | None, typer.Option(metavar="X", help="The smallest ε whose widest interval is at most ± X.")
    ] = None,
    level: Annotated[float, typer.Option(metavar="LEVEL", help="The confidence of that interval.")] = 0.95,
    owners: Annotated[
        int | None, typer.Option(metavar="N", help="For averages: how many owners a group has, about.")
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="The explanation for machines.")] = False,
) -> None:
    """Explain one query: ownership, bounds, noise, which groups may appear, expected error, cost.

    [bold]Example[/bold]

        shoal explain "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6)
            site, COUNT(*) AS visits FROM visits GROUP BY site" --catalog shoal.toml

        shoal explain "SELECT …" --error 100      the ε that makes every interval ± 100 or narrower
    """
    from shoal.session import connect

    session = connect(db if db is not None else {}, catalog=catalog)
    text = read_sql(sql)
    wanted = None if error is None else session.epsilon_for(text, error=error, level=level, owners=owners)
    explanation = session.explain(text)
    if json:
        return write_json(explanation.to_dict() | ({} if wanted is None else {"epsilon_for_error": wanted}))
    typer.echo(str(explanation))
    if wanted is not None:
        typer.echo(f"\nAn interval of at most ± {error:g} at {level:.0%} needs epsilon = {wanted:.6g}.")
    return None
