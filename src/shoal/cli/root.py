"""The program without verbs: its name, its help and its version."""

from __future__ import annotations

from typing import Annotated

import typer


def bare() -> typer.Typer:
    """A program that knows no verb yet."""
    app = typer.Typer(
        name="shoal",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(main)
    return app


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"shoal {version('shoal')}")
        raise typer.Exit


def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Query personal data in SQL and get answers that are safe to share.

    [bold]Example[/bold]

        shoal demo        the whole story on sample data, in under a minute
    """
