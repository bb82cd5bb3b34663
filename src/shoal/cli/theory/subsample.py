"""`shoal subsample`: what is left of a claim when only a sample is looked at."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from shoal.cli.theory.claim import one_claim, show_claim


class Neighbours(StrEnum):
    """What `--neighbours` may be."""

    add_remove = "add/remove"
    replace_one = "replace-one"


def subsample(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="A claim, such as 'dp(1, 1e-6)'.")],
    *,
    rate: Annotated[float, typer.Option(help="The share of people in the sample.")],
    neighbours: Annotated[
        Neighbours, typer.Option(help="add/remove: a Poisson sample; replace-one: m of n without replacement.")
    ] = Neighbours.add_remove,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a claim becomes when the mechanism sees a secret random sample. Reads no data.

    [bold]Example[/bold]

        shoal subsample "dp(1, 1e-6)" --rate 0.01
    """
    from shoal import guarantees

    show_claim(guarantees.subsample(one_claim(claim), rate, neighbours.value), json=json)
