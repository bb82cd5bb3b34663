"""`shoal anonymity`: measure k-anonymity and its relatives, and make a table meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.output import check_writable, console, write_json
from shoal.errors import ShoalError

app = typer.Typer(
    name="anonymity",
    help="k-anonymity and its relatives: measure them, and make a table meet them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Source = Annotated[str, typer.Argument(help="A file, folder or glob (parquet, CSV), or a DuckDB file.")]
Quasi = Annotated[str, typer.Option(help="The quasi-identifiers, with commas between: zip,age.")]
Sensitive = Annotated[str | None, typer.Option(help="The sensitive columns, with commas between.")]
Owner = Annotated[str | None, typer.Option(help="The column that says whose a row is; an owner counts once.")]
Table = Annotated[str | None, typer.Option(help="The table, where the source has several.")]
Population = Annotated[str | None, typer.Option(help="A source with the quasi-identifiers of the whole population.")]
Sampling = Annotated[float | None, typer.Option(help="The share of the population that is in the table.")]
Distance = Annotated[
    list[str] | None, typer.Option(help="COLUMN=equal, COLUMN=ordered or COLUMN=hierarchy.csv; more than once.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a web page that needs nothing but a browser.")]
ShowValues = Annotated[bool, typer.Option("--show-values", help="Show the values of failing classes on the page.")]


@app.command()
def measure(
    source: Source,
    *,
    quasi: Quasi,
    sensitive: Sensitive = None,
    owner: Owner = None,
    table: Table = None,
    population: Population = None,
    sampling: Sampling = None,
    distance: Distance = None,
    html: Html = None,
    show_values: ShowValues = False,
    json: Json = False,
) -> None:
    """Measure k, l-diversity, t-closeness, presence and risk of re-identification.

    Example: shoal anonymity measure people.csv --quasi zip,age --sensitive dx --owner uid --html anonymity.html
    """
    from shoal import anonymity

    check_writable(html)
    found = anonymity.measure(
        source,
        quasi=names(quasi),
        sensitive=names(sensitive),
        owner=owner,
        table=table,
        population=population,
        sampling=sampling,
        distance=pairs(distance, "--distance dx=ordered"),
    )
    if html is not None:
        found.to_html(html, show_values=show_values)
    show(found, json=json)


def show(found: Any, *, json: bool) -> None:
    """For machines or for people."""
    if json:
        write_json(found.to_dict())
    else:
        console().print(str(found), markup=False, soft_wrap=True)


def names(listed: str | None) -> list[str]:
    """`a,b` as a list."""
    return [] if listed is None else [name.strip() for name in listed.split(",") if name.strip()]


def pairs(given: list[str] | None, example: str) -> dict[str, str] | None:
    """`name=value`, more than once, as a dict."""
    if not given:
        return None
    if not all("=" in entry for entry in given):
        raise ShoalError("E_USAGE", "An option of the form NAME=VALUE was given without '='.", hint=example)
    return dict(entry.rsplit("=", 1) for entry in given)
