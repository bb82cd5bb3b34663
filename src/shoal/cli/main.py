"""The command line: mounts one verb a file, and turns every error into one readable paragraph and an exit status.

Exit status: 0 done, 1 a check failed, 2 wrong usage or refused. Verbs import what they need when they run, so that
`shoal --help` is there at once.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from shoal.errors import InternalError, ShoalError

app = typer.Typer(
    name="shoal",
    help="Strong anonymization an ordinary data team can use: private SQL, risk analysis, audit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"shoal {version('shoal')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Strong anonymization an ordinary data team can use: private SQL, risk analysis, audit."""


def run() -> None:
    """The program `shoal`."""
    try:
        app()
    except ShoalError as error:
        fail(str(error))
    except InternalError as error:
        fail(f"This is a bug in shoal, not in your query: {error}. Please report it; the message carries no data.")


def fail(paragraph: str) -> None:
    """Say what is wrong on stderr and leave with the status of a refusal."""
    typer.echo(paragraph, err=True)
    sys.exit(2)
