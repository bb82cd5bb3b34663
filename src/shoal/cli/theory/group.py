"""`shoal group`: what a claim says about several owners together."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.theory.claim import one_claim, show_claim


def group(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="A claim, such as 'dp(0.5, 1e-8)'.")],
    *,
    size: Annotated[int, typer.Option(help="How many owners come or go together.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a claim says about a group of owners, such as a household. Reads no data.

    [bold]Example[/bold]

        shoal group "dp(0.5, 1e-8)" --size 4
    """
    from shoal import guarantees

    show_claim(guarantees.group(one_claim(claim), size), json=json)
