"""`shoal meaning`: what ε means for a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import check_writable, write_json

if TYPE_CHECKING:
    from shoal.accounting.claims.meaning import Meaning
    from shoal.guarantees import Deployment


def meaning(
    epsilon: Annotated[float, typer.Argument(metavar="EPSILON", help="The ε to explain.")],
    *,
    delta: Annotated[float, typer.Option(help="Its δ.")] = 0.0,
    prior: Annotated[float, typer.Option(help="How sure somebody is beforehand, from 0 to 1.")] = 0.5,
    people: Annotated[int | None, typer.Option(help="The public order of magnitude of people in the data.")] = None,
    deployments: Annotated[bool, typer.Option("--deployments", help="List documented deployments too.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a web page.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw beliefs before and after.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain what (ε, δ) means: beliefs before and after, tests, guesses, and the defaults with their reasons.

    [bold]Example[/bold]

        shoal meaning 1.1 --prior 0.1
    """
    from shoal.accounting.claims.meaning import meaning as meaning_of

    check_writable(html)
    check_writable(plot)
    explained = meaning_of(epsilon, delta, people)
    if html is not None:
        explained.to_html(html)
    if plot is not None:
        explained.plot(plot)
    if json:
        listed = {"deployments": [one.to_dict() for one in published()]} if deployments else {}
        return write_json({**explained.to_dict(prior), **listed})
    return show(explained, prior, deployments=deployments)


def show(explained: Meaning, prior: float, *, deployments: bool) -> None:
    """For people."""
    typer.echo(str(explained))
    if prior not in {0.1, 0.5}:
        typer.echo(f"\n{explained.sentence(prior)}")
    if deployments:
        from shoal.guarantees.published import CAVEAT

        typer.echo("\nDocumented deployments:")
        for one in published():
            typer.echo(f"  {one}\n      {one.source}")
        typer.echo(CAVEAT)


def published() -> list[Deployment]:
    """Documented deployments."""
    from shoal.guarantees import deployments

    return deployments()
