"""`shoal compose`: what many claims cost together, by every rule side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import check_writable, write_result
from shoal.errors import ShoalError


def compose(
    claims: Annotated[str, typer.Argument(metavar="CLAIMS", help="Claims, such as 'laplace(10)*50 + dp(0.1, 1e-9)'.")],
    *,
    delta: Annotated[float | None, typer.Option(help="Ask for ε at this δ.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Ask for δ at this ε.")] = None,
    rule: Annotated[
        str, typer.Option(help="basic, advanced, optimal, zcdp, renyi, gdp, numerical, or best: the smallest.")
    ] = "best",
    fits: Annotated[
        str | None, typer.Option(metavar="EPS,DELTA", help="Exit with status 1 if this budget is exceeded.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw δ over ε, a line for each rule.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add up privacy claims that are fixed in advance; one row for each known rule. Reads no data.

    Claims: dp(ε[, δ]) laplace(b) geometric(b) gaussian(σ) rr(ε) zcdp(ρ) renyi(α, ε) gdp(μ) subsampled(claim, rate); a
    sensitivity is the last argument, s=3.

    [bold]Example[/bold]

        shoal compose "laplace(10)*50" --delta 1e-6
    """
    from shoal.guarantees import compose as composed

    check_writable(plot)
    budget = None if fits is None else budget_of(fits)
    if budget is not None and delta is None and epsilon is None:
        delta = budget[1]
    result = composed(claims, delta, epsilon=epsilon, rule=rule)
    write_result(result, plot, json=json)
    if budget is not None:
        inside = composed(claims, budget[1], rule=rule).epsilon <= budget[0]
        if not json:
            typer.echo(f"\n{'Fits' if inside else 'Does not fit'} the budget ε = {budget[0]:g}, δ = {budget[1]:g}.")
        if not inside:
            raise typer.Exit(1)


def budget_of(text: str) -> tuple[float, float]:
    """ε and δ of a budget that is written as "1,1e-6"."""
    try:
        epsilon, delta = (float(part) for part in text.split(","))
    except ValueError:
        raise ShoalError("E_USAGE", "A budget is two numbers.", hint="Write --fits 1,1e-6.") from None
    return epsilon, delta
