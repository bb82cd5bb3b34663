"""`shoal convert`: what a claim implies under another definition."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.output import write_json
from shoal.cli.theory.claim import one_claim, show_claim


def convert(
    claim: Annotated[str | None, typer.Argument(metavar="CLAIM", help="A claim, such as 'renyi(8, 0.5)'.")] = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="dp, pure, approximate, zcdp, renyi, gdp, tv, kl, mi, probabilistic, replace-one."
        ),
    ] = "dp",
    delta: Annotated[float | None, typer.Option(help="For dp: the ε at this δ.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="For dp: the δ at this ε.")] = None,
    alpha: Annotated[float | None, typer.Option(help="For renyi: the order.")] = None,
    gamma: Annotated[float | None, typer.Option(help="For probabilistic: how much ε may grow.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Convert a claim to another definition, rounded up; without a claim, list every conversion.

    [bold]Example[/bold]

        shoal convert "renyi(8, 0.5)" --to dp --delta 1e-6
    """
    from shoal import guarantees

    if claim is None:
        return list_conversions(json=json)
    given = {"delta": delta, "epsilon": epsilon, "alpha": alpha, "gamma": gamma}
    wanted = {name: value for name, value in given.items() if value is not None}
    return show_claim(guarantees.convert(one_claim(claim), to, **wanted), json=json)


def list_conversions(*, json: bool) -> None:
    """All conversions with their formulas."""
    from shoal.guarantees import conversions

    if json:
        return write_json(
            [
                {"from": one.source.__name__, "to": one.target.__name__, "formula": one.formula, "needs": one.needs}
                for one in conversions()
            ]
        )
    return typer.echo("\n".join(str(one) for one in conversions()))
