"""`shoal query`: a private answer to one query."""

from __future__ import annotations

import getpass
import sys
import warnings
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

OTHER_FILES = frozenset(
    {"xlsx", "xls", "ods", "tsv", "html", "pdf", "png", "svg", "feather", "arrow", "db", "sqlite", "duckdb"}
)
"""Endings that promise what a table of text is not."""
SqlOrFile = Annotated[
    str | None, typer.Argument(metavar="[SQL]", help="The query, or - to read it from standard input.")
]
Sql = Annotated[str, typer.Argument(metavar="SQL", help="The query, or - to read it from standard input.")]
Database = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="SOURCE",
        help="A DuckDB, SQLite or Excel file, a parquet, CSV or JSON lines file, a glob, a folder, postgresql://… or https://host/d/NAME",
    ),
]
CatalogFile = Annotated[
    Path, typer.Option("--catalog", metavar="FILE", help="What the tables mean; `shoal init` writes a first catalog.")
]
LedgerFile = Annotated[
    str | None,
    typer.Option("--ledger", metavar="FILE", help="The ledger to charge; `shoal budget --create` creates one."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Your token, where SOURCE is a service.",
        show_default="SHOAL_TOKEN",
    ),
]
User = Annotated[
    str | None, typer.Option("--user", help="The user to record in the ledger.", show_default="your account")
]


def query(
    db: Database,
    sql: SqlOrFile = None,
    catalog: CatalogFile = Path("shoal.toml"),
    ledger: LedgerFile = None,
    user: User = None,
    token_file: TokenFile = None,
    format: Annotated[  # noqa: A002 - its name on the command line
        Format | None, typer.Option(help="The output format.", show_default="table")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file.")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the query from this file.")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="EPSILON", help="The ε of each private SELECT, instead of the query's or the catalog's."),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="The confidence level of the intervals, such as 0.9: the ± of a table, <name>_low and <name>_high in files.",
            show_default="the query's, else 0.95",
        ),
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the rows, their intervals and the cost as JSON.")] = False,
) -> None:
    """Answer one query privately.

    [bold]Example[/bold]

        shoal query "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6)
            site, COUNT(DISTINCT uid) AS owners FROM visits GROUP BY site" --db data/

        shoal query --file visits.sql --db data/ -o visits.csv
    """
    check_level(level)
    format = format or (format_of(output) if not json else None)  # noqa: A001 - its name on the command line
    check_format(format, output, json=json)
    check_writable(output)
    with open_session(db, catalog, ledger, user, token_file) as session:
        with warnings_in_words():
            result = session.query(read_sql_or_file(sql, file), epsilon=epsilon)
        with charged(getattr(result, "epsilon", 0.0)):
            if json:
                write_json(everything(result, level), output)
            else:
                write_answer(result, format or Format.table, output, level)
                if session.remaining is not None:
                    typer.echo(left_in_words(session), err=True)


@contextmanager
def warnings_in_words() -> Iterator[None]:
    """Warnings as sentences, without the place in a program."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(str(message), err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def format_of(output: Path | None) -> Format | None:
    """The format that the end of a file's name asks for; None where it asks for none, E_USAGE where we have none such."""
    ending = output.suffix.lower().lstrip(".") if output is not None else ""
    if ending in OTHER_FILES:
        raise ShoalError(
            "E_USAGE",
            f"Answers are not written as .{ending} files.",
            hint="Name a .csv, .json or .parquet file; .txt is the table as on screen.",
        )
    return Format(ending) if ending in {"csv", "json", "parquet"} else None


def left_in_words(session: Session) -> str:
    """What is left of the budget."""
    left, spent = session.remaining, session.spent
    if left is None:
        return f"spent so far: ε = {spent[0]:g}, δ = {spent[1]:g} (no budget)"
    return f"left: ε = {left[0]:g}, δ = {left[1]:g}"


def read_sql_or_file(sql: str | None, file: Path | None) -> str:
    """The query from exactly one place."""
    if (sql is None) == (file is None):
        raise ShoalError("E_USAGE", "A query is given as an argument or with --file, one of both.")
    if file is None:
        return read_sql(sql or "")
    try:
        return file.read_text(encoding="utf-8").rstrip()
    except UnicodeDecodeError:
        raise ShoalError("E_USAGE", f"The file {str(file)!r} is not UTF-8.") from None
    except OSError as error:
        raise ShoalError("E_USAGE", f"The file {str(file)!r} cannot be read: {reason_of(error)}.") from None


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


def open_session(
    db: str, catalog: Path, ledger: str | None, user: str | None, token_file: Path | None = None
) -> Session:
    """A session over the source, as `shoal.connect` makes it; a service has its own catalog."""
    from shoal.remote import is_remote
    from shoal.session import connect

    if is_remote(db):
        return connect(db, ledger=ledger, user=user, token=read_token(token_file))
    if token_file is not None:
        raise ShoalError("E_USAGE", "--token-file only works with a service: --db https://host/d/NAME.")
    return connect(db, catalog=catalog, ledger=ledger, user=user or account_name())


def read_token(file: Path | None) -> str | None:
    """The token in a file; without one, SHOAL_TOKEN is asked."""
    if file is None:
        return None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise ShoalError("E_USAGE", f"The file {str(file)!r} cannot be read, or holds no token.") from None


def account_name() -> str | None:
    """The account that runs the program, where the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def read_sql(argument: str) -> str:
    """The argument itself, or standard input for `-`."""
    return sys.stdin.read().rstrip() if argument == "-" else argument


def everything(result: Result | Rows, level: float | None) -> dict[str, object]:
    """The whole answer: rows, intervals, cost, notes; an explanation costs nothing."""
    return {
        "rows": rows_of(result.to_arrow()),
        "intervals": rows_of(with_intervals(result, level).to_arrow()),
        "epsilon": getattr(result, "epsilon", 0.0),
        "delta": getattr(result, "delta", 0.0),
        "notes": [*getattr(result, "warnings", ()), *getattr(result, "notes", ())],
    }
