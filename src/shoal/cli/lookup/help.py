"""`shoal help E_UID_EXPOSED`: what a code means, with an example and what to write instead."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from shoal.cli.lookup import refusals
from shoal.cli.output import write_json
from shoal.errors import ShoalError


def help_(
    code: Annotated[str, typer.Argument(help="A code such as E_UID_EXPOSED; without one, all codes are listed.")] = "",
    *,
    json: Annotated[bool, typer.Option("--json", help="Write it for machines.")] = False,
) -> None:
    """Explain the code of an error.

    [bold]Example[/bold]

        shoal help E_JOIN_NOT_ON_UID
    """
    if not code:
        listed = refusals.codes()
        return write_json(listed) if json else typer.echo("\n".join(listed))
    wanted = code.upper() if code.upper().startswith("E_") else f"E_{code.upper()}"
    found = refusals.explained(wanted)
    if found is None:
        near = ", ".join(get_close_matches(wanted, refusals.codes())) or "shoal help lists them all"
        raise ShoalError("E_USAGE", f"There is no code {wanted}.", hint=f"Did you mean: {near}?")
    return write_json({"code": wanted, "meaning": found}) if json else typer.echo(found)
