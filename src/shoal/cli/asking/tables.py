"""`shoal tables`: what the catalog knows, free of charge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import rows_of, write_json, write_text
from shoal.cli.query import CatalogFile, Database, TokenFile, open_session


def tables(
    db: Database,
    name: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Describe the columns of this table.")] = None,
    catalog: CatalogFile = Path("shoal.toml"),
    token_file: TokenFile = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """List the tables that queries may name, or describe one.

    [bold]Example[/bold]

        shoal tables --db data/
        shoal tables visits --db data/
    """
    quoted = "" if name is None else name.replace('"', '""')
    with open_session(db, catalog, None, None, token_file) as session:
        answer = session.query("SHOW TABLES" if name is None else f'DESCRIBE "{quoted}"')
    if json:
        return write_json(rows_of(answer.to_arrow()))
    return write_text(answer.to_text() + "\n", None)
