"""One claim as the command line reads and writes it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import typer

from shoal.cli.output import write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.guarantees import Claim


def one_claim(text: str) -> Claim:
    """The single claim in a string."""
    from shoal.guarantees import parse

    claims = parse(text)
    if len(claims) != 1:
        raise ShoalError(
            "E_USAGE", "Expected a single claim.", hint="`shoal compose` adds several up; name a single one here."
        )
    return claims[0]


def show_claim(claim: Claim, *, json: bool) -> None:
    """A claim and its parameters."""
    numbers = {field.name: getattr(claim, field.name) for field in fields(claim)}  # type: ignore[arg-type]
    shown = {name: value if isinstance(value, int | float) else str(value) for name, value in numbers.items()}
    if json:
        return write_json({"claim": str(claim), "definition": type(claim).__name__, **shown})
    return typer.echo(
        f"{claim}  {type(claim).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"
    )
