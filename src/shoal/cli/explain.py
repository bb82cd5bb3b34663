"""`shoal explain`: what a query would do and cost; reads no data, spends nothing."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import write_json
from shoal.cli.query import CatalogFile, Sql, TokenFile, check_level, open_session, read_sql
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.session import Session


def explain(
    sql: Sql,
    catalog: CatalogFile = Path("shoal.toml"),
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="SOURCE", help="Read column types from this source instead of the catalog."),
    ] = None,
    error: Annotated[
        float | None, typer.Option(metavar="X", help="Find the smallest ε whose widest interval is at most ± X.")
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="LEVEL", help="With --error: the confidence level of that interval.", show_default="0.95"),
    ] = None,
    owners: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --error, for averages: roughly how many owners a group has."),
    ] = None,
    token_file: TokenFile = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Explain one query: ownership, bounds, noise, which groups may appear, expected error, cost.

    [bold]Example[/bold]

        shoal explain "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6)
            site, COUNT(*) AS visits FROM visits GROUP BY site" --catalog shoal.toml

        shoal explain "SELECT …" --error 100      the ε that makes every interval ± 100 or narrower, and the query with it
    """
    check_question(error, level, owners)
    text = read_sql(sql)
    exact = 0.95 if level is None else level
    with explaining_session(db, catalog, token_file) as session:
        wanted = None if error is None else session.epsilon_for(text, error=error, level=exact, owners=owners)
        explanation = session.explain(text, epsilon=wanted)
    if json:
        return write_json(explanation.to_dict() | ({} if wanted is None else {"epsilon_for_error": wanted}))
    typer.echo(str(explanation))
    if error is not None and wanted is not None:
        typer.echo(f"\n{answer_in_words(error, exact, wanted)}")
    return None


def explaining_session(db: str | None, catalog: Path, token_file: Path | None) -> Session:
    """A session over a source, over a service, or over the catalog alone."""
    from shoal.remote import is_remote
    from shoal.session import connect

    if db is not None and (is_remote(db) or token_file is not None):
        return open_session(db, catalog, None, None, token_file)
    return connect(db if db is not None else {}, catalog=catalog)


def check_question(error: float | None, level: float | None, owners: int | None) -> None:
    """--level and --owners say more about --error; alone they would do nothing."""
    for name, value in (("--level", level), ("--owners", owners)):
        if error is None and value is not None:
            raise ShoalError(
                "E_USAGE",
                f"{name} only works with --error.",
                hint="Ask --error 10 for the epsilon of ± 10; the ± of a query has the level of its confidence_level.",
            )
    if error is not None and not 0 < error < math.inf:
        raise ShoalError("E_USAGE", "--error must be a positive, finite number.", hint="--error 10 asks for ± 10.")
    check_level(level)


def answer_in_words(error: float, level: float, epsilon: float) -> str:
    """The ε for people: with fewer digits, and still enough of it."""
    from shoal.params import percent

    return f"An interval of at most ± {error:g} at {percent(level)} needs epsilon = {rounded_up(epsilon)}."


def rounded_up(epsilon: float) -> str:
    """Six digits that are never less than the number itself.

    >>> rounded_up(1.788430889168), rounded_up(0.5)
    ('1.78844', '0.5')
    """
    return f"{Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(repr(epsilon))).normalize():f}"
