"""`shoal query`: a private answer to one query."""

from __future__ import annotations

import getpass
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import (
    Format,
    check_terminal,
    check_writable,
    reason_of,
    rows_of,
    with_intervals,
    write_answer,
    write_json,
)
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.result import Result, Rows
    from shoal.session import Session

Sql = Annotated[str, typer.Argument(metavar="SQL", help="The query, or - to read it from standard input.")]
Database = Annotated[
    str,
    typer.Option(
        "--db", metavar="SOURCE", help="A DuckDB file, a parquet or CSV file, a glob, a folder, or postgresql://…"
    ),
]
CatalogFile = Annotated[
    Path, typer.Option("--catalog", metavar="FILE", help="What the tables mean; `shoal init` writes a first catalog.")
]
LedgerFile = Annotated[
    str | None,
    typer.Option("--ledger", metavar="FILE", help="The ledger to charge; `shoal budget --create` creates one."),
]
User = Annotated[
    str | None, typer.Option("--user", help="The user to record in the ledger.", show_default="your account")
]


def query(
    sql: Sql,
    db: Database,
    catalog: CatalogFile = Path("shoal.toml"),
    ledger: LedgerFile = None,
    user: User = None,
    format: Annotated[  # noqa: A002 - its name on the command line
        Format | None, typer.Option(help="The output format.", show_default="table")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file.")] = None,
    level: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="The confidence level of the intervals, such as 0.9; adds <name>_low and <name>_high to CSV, JSON and parquet.",
        ),
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the rows, their intervals and the cost as JSON.")] = False,
) -> None:
    """Answer one query privately.

    [bold]Example[/bold]

        shoal query "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6)
            site, COUNT(DISTINCT uid) AS owners FROM visits GROUP BY site" --db data/
    """
    check_level(level)
    check_format(format, output, json=json)
    check_writable(output)
    session = open_session(db, catalog, ledger, user)
    result = session.query(read_sql(sql))
    with charged(getattr(result, "epsilon", 0.0)):
        if json:
            write_json(everything(result, level), output)
        else:
            write_answer(result, format or Format.table, output, level)


def check_level(level: float | None) -> None:
    """Refuse a level that is none before anything is spent."""
    from shoal import params

    if level is not None:
        params.confidence_level(level, option="--level")


def check_format(chosen: Format | None, output: Path | None, *, json: bool) -> None:
    """Refuse formats that contradict each other or the terminal before anything is spent."""
    if json and chosen is not None:
        raise ShoalError(
            "E_USAGE",
            "--json and --format cannot be combined.",
            hint="--json writes rows, intervals, cost and notes as one object; --format json the rows alone.",
        )
    check_terminal(chosen or Format.table, output)


@contextmanager
def charged(epsilon: float) -> Iterator[None]:
    """An answer that cannot be written is paid for all the same, and that is said."""
    paid = f" The query stays charged: epsilon {float(epsilon):g}." if epsilon else ""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ShoalError("E_USAGE", f"The answer was not written: {reason_of(error)}.{paid}") from None
    except ShoalError as error:
        raise ShoalError(error.code, error.message + paid, hint=error.hint) from None


def open_session(db: str, catalog: Path, ledger: str | None, user: str | None) -> Session:
    """A session over the source, as `shoal.connect` makes it."""
    from shoal.session import connect

    return connect(db, catalog=catalog, ledger=ledger, user=user or account_name())


def account_name() -> str | None:
    """The account that runs the program, where the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def read_sql(argument: str) -> str:
    """The argument itself, or standard input for `-`."""
    return sys.stdin.read() if argument == "-" else argument


def everything(result: Result | Rows, level: float | None) -> dict[str, object]:
    """The whole answer: rows, intervals, cost, notes; an explanation costs nothing."""
    return {
        "rows": rows_of(result.to_arrow()),
        "intervals": rows_of(with_intervals(result, level).to_arrow()),
        "epsilon": getattr(result, "epsilon", 0.0),
        "delta": getattr(result, "delta", 0.0),
        "notes": [*getattr(result, "warnings", ()), *getattr(result, "notes", ())],
    }
