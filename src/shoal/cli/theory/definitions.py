"""`shoal definitions`: the catalogue of privacy definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import check_writable, write_json

app = typer.Typer(
    name="definitions",
    no_args_is_help=True,
    help="The catalogue of privacy definitions. Reads no data.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(metavar="ID", help="An id of the catalogue, such as renyi-dp.")]


@app.command("list")
def list_(
    *,
    dimension: Annotated[str | None, typer.Option(help="One of Q N V B F R C.")] = None,
    composes: Annotated[bool, typer.Option("--composes", help="Only those whose losses add up.")] = False,
    axioms: Annotated[bool, typer.Option("--axioms", help="Only those that keep both privacy axioms.")] = False,
    kind: Annotated[
        str | None, typer.Option(help="definition, deployment model, sensitivity notion or out of scope.")
    ] = None,
    search: Annotated[str, typer.Option(metavar="TEXT", help="Search names, ideas and notes.")] = "",
    json: AsJson = False,
) -> None:
    """List entries.

    [bold]Example[/bold]

        shoal definitions list --dimension Q --composes
    """
    from shoal import definitions

    found = definitions.find(search, dimension=dimension, composes=composes or None, axioms=axioms or None, kind=kind)
    if json:
        return write_json([one.to_dict() for one in found])
    for one in found:
        typer.echo(f"{one.id:<42} {one.idea}")
    return typer.echo(f"{len(found)} of {len(definitions.all())} entries", err=True)


@app.command()
def show(name: Name, *, json: AsJson = False) -> None:
    """Show one entry."""
    from shoal import definitions

    one = definitions.get(name)
    return write_json(one.to_dict()) if json else typer.echo(str(one))


@app.command()
def relation(first: Name, second: Name, *, json: AsJson = False) -> None:
    """Show how two entries relate; exit with status 1 if nothing is known."""
    from shoal import definitions

    found = definitions.relation(first, second)
    if json:
        write_json(None if found is None else found.to_dict())
    else:
        typer.echo(f"No relation of {first} and {second} is known." if found is None else str(found))
    if found is None:
        raise typer.Exit(1)


@app.command()
def path(first: Name, second: Name, *, json: AsJson = False) -> None:
    """Show the shortest chain of implications, with conversions; exit with status 1 if none is known."""
    from dataclasses import asdict

    from shoal import definitions

    steps = definitions.path(first, second)
    if json:
        write_json(None if steps is None else [asdict(step) for step in steps])
    elif steps is None:
        typer.echo(f"It is not known that {first} implies {second}.")
    else:
        typer.echo("\n".join(str(step) for step in steps) or f"{first} is {second}.")
    if steps is None:
        raise typer.Exit(1)


@app.command()
def guide(
    *,
    protects: Annotated[
        str, typer.Option(help="person, event, attribute, place, text, 'some values', group, graph or stream.")
    ] = "person",
    attacker: Annotated[str, typer.Option(help="full, partial or polynomial.")] = "full",
    repeats: Annotated[str, typer.Option(help="once, few or many.")] = "few",
    needs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS",
            help="'never fails', 'exact output', 'personal levels', constraints, 'many gaussians' or "
            "'no trusted collector'; can be repeated.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Recommend a definition, with reasons.

    [bold]Example[/bold]

        shoal definitions guide --protects place --repeats many
    """
    from shoal import definitions

    advice = definitions.guide(protects, attacker, repeats, needs or ())
    return write_json(advice.to_dict()) if json else typer.echo(str(advice))


@app.command()
def page(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The page to write.")], *, json: AsJson = False
) -> None:
    """Write the whole catalogue as one web page: search, filters, graph, guide, formulas; no network."""
    from shoal import definitions

    check_writable(file)
    size = len(definitions.to_html(file).encode())
    return write_json({"file": str(file), "bytes": size}) if json else typer.echo(f"{file}: {size:,} bytes")
