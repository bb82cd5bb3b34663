"""`shoal anonymity`: measure k-anonymity and its relatives, and make a table meet them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
Quasi = Annotated[str, typer.Option(help="The quasi-identifiers, comma-separated: zip,age.")]
Sensitive = Annotated[str | None, typer.Option(help="The sensitive columns, comma-separated.")]
Owner = Annotated[str | None, typer.Option(help="The column with the owner of a row; an owner counts once.")]
Table = Annotated[str | None, typer.Option(help="The table, where the source has several.")]
Population = Annotated[str | None, typer.Option(help="A source with the quasi-identifiers of the whole population.")]
Sampling = Annotated[float | None, typer.Option(help="The share of the population that is in the table.")]
Distance = Annotated[
    list[str] | None, typer.Option(help="COLUMN=equal, COLUMN=ordered or COLUMN=hierarchy.csv; can be repeated.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write, .parquet or .csv.")]
Suppress = Annotated[float, typer.Option(help="The share of rows that may be dropped.")]
Keep = Annotated[str | None, typer.Option(help="Other columns to publish as they are, comma-separated.")]
KeepOwner = Annotated[bool, typer.Option("--keep-owner", help="Publish the owner as a random number.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a self-contained web page.")]
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


K = Annotated[int | None, typer.Option("--k", help="Every class has at least this many owners.")]
Diversity = Annotated[
    int | None, typer.Option("--l", help="Every class has at least this many values of each sensitive column.")
]
EntropyL = Annotated[float | None, typer.Option(help="Every class is as uncertain as this many equally likely values.")]
Recursive = Annotated[str | None, typer.Option(help="C,L: recursive (c, l)-diversity.")]
Closeness = Annotated[float | None, typer.Option("--t", help="Every class is within t of the whole table.")]
KMap = Annotated[int | None, typer.Option(help="Every class has at least this many owners in the population.")]
Presence = Annotated[str | None, typer.Option(help="HIGH, or LOW,HIGH: the share of a class that is here.")]
Hierarchies = Annotated[
    Path | None,
    typer.Option(help="A folder of hierarchies, or a TOML file; without it, they are made from the data."),
]
Quality = Annotated[str, typer.Option(help="What to minimise: loss, discernibility or class_size.")]
Weights = Annotated[
    list[str] | None, typer.Option(help="COLUMN=WEIGHT: how much the loss of a column matters; can be repeated.")
]
Recoding = Annotated[str, typer.Option(help="global: one level for all rows; local: each part its own.")]
TimeLimit = Annotated[float | None, typer.Option(help="Stop the search after this many seconds.")]
Save = Annotated[Path | None, typer.Option(help="Save the transformation, to apply it again.")]


@app.command()
def enforce(
    source: Source,
    *,
    quasi: Quasi,
    output: Output,
    k: K = None,
    l: Diversity = None,  # noqa: E741 - the letter of the definition
    entropy_l: EntropyL = None,
    recursive: Recursive = None,
    t: Closeness = None,
    k_map: KMap = None,
    presence: Presence = None,
    sensitive: Sensitive = None,
    owner: Owner = None,
    table: Table = None,
    population: Population = None,
    sampling: Sampling = None,
    distance: Distance = None,
    hierarchies: Hierarchies = None,
    suppress: Suppress = 0.0,
    quality: Quality = "loss",
    weights: Weights = None,
    recoding: Recoding = "global",
    keep: Keep = None,
    keep_owner: KeepOwner = False,
    time_limit: TimeLimit = None,
    save: Save = None,
    html: Html = None,
    show_values: ShowValues = False,
    json: Json = False,
) -> None:
    """Recode a table so that every demand holds, with the least loss.

    Example: shoal anonymity enforce people.csv --quasi zip,age --k 5 --suppress 0.05 -o out.csv --save t.toml
    """
    from shoal import anonymity

    check_outputs(output, save, html)
    with progress_line() as progress:
        made = anonymity.enforce(
            source,
            quasi=names(quasi),
            k=k,
            l=l,
            entropy_l=entropy_l,
            recursive=None if recursive is None else pair(recursive, "--recursive 4,3"),
            t=t,
            k_map=k_map,
            presence=None if presence is None else one_or_two(presence, "--presence 0.1,0.5"),
            sensitive=names(sensitive),
            owner=owner,
            table=table,
            population=population,
            sampling=sampling,
            distance=pairs(distance, "--distance dx=ordered"),
            hierarchies=hierarchies,
            suppress=suppress,
            quality=quality,
            weights=numbers(pairs(weights, "--weights zip=2"), "--weights zip=2"),
            recoding=recoding,
            keep=names(keep),
            keep_owner=keep_owner,
            time_limit=time_limit,
            progress=progress,
        )
    deliver(made, output, html, save=save, show_values=show_values, json=json)


@app.command()
def apply(
    source: Source,
    transformation: Annotated[Path, typer.Argument(help="A transformation that enforce saved.")],
    *,
    output: Output,
    owner: Owner = None,
    table: Table = None,
    population: Population = None,
    keep: Keep = None,
    keep_owner: KeepOwner = False,
    suppress: Suppress = 0.0,
    html: Html = None,
    show_values: ShowValues = False,
    json: Json = False,
) -> None:
    """Recode a table with a saved transformation: its demands are checked, and nothing is chosen from the data.

    Example: shoal anonymity apply june.csv t.toml -o june-out.csv --suppress 0.01
    """
    from shoal import anonymity

    check_outputs(output, html)
    made = anonymity.apply(
        source,
        anonymity.Transformation.read(transformation),
        owner=owner,
        table=table,
        keep=names(keep),
        suppress=suppress,
        population=population,
        keep_owner=keep_owner,
    )
    deliver(made, output, html, save=None, show_values=show_values, json=json)


@app.command()
def compose(
    source: Source,
    transformations: Annotated[list[Path], typer.Argument(help="Two or more transformations.")],
    *,
    sensitive: Sensitive = None,
    owner: Owner = None,
    table: Table = None,
    population: Population = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure what several recodings of one table reveal together.

    Example: shoal anonymity compose people.csv t1.toml t2.toml --sensitive dx
    """
    from shoal import anonymity

    check_writable(html)
    read = [anonymity.Transformation.read(path) for path in transformations]
    found = anonymity.compose(source, read, sensitive=names(sensitive), owner=owner, table=table, population=population)
    if html is not None:
        found.to_html(html)
    show(found, json=json)


@app.command()
def hierarchy(
    source: Source,
    *,
    column: Annotated[str, typer.Option(help="The column whose values to list.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    table: Table = None,
    intervals: Annotated[str | None, typer.Option(help="Widths comma-separated: 5,10,20.")] = None,
    dates: Annotated[str | None, typer.Option(help="Periods comma-separated: month,year.")] = None,
    mask: Annotated[str | None, typer.Option(help="right or left.")] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Choose by the type and range of the data.")] = False,
    complete: Annotated[
        Path | None, typer.Option(help="A hierarchy to complete: missing values are added under *.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the hierarchy of a column to a file that you can edit.

    Example: shoal anonymity hierarchy people.csv --column age --intervals 5,10,20 -o age.csv
    """
    from shoal.anonymity.writing import write_hierarchy

    check_writable(output)
    rule = {
        "intervals": None if intervals is None else names(intervals),
        "dates": None if dates is None else names(dates),
        "mask": mask,
        "auto": auto or None,
        "complete": complete,
    }
    written = write_hierarchy(source, column, table, {key: value for key, value in rule.items() if value}, output)
    if json:
        write_json({"values": written, "file": str(output)})
    else:
        typer.echo(f"Wrote {written:,} values to {output}.", err=True)


@app.command()
def check(
    source: Source,
    *,
    policy: Annotated[Path, typer.Option(help="The policy, a TOML file with limits.")],
    json: Json = False,
) -> None:
    """Check tables against a policy; exit with status 1 if a limit is broken.

    Example: shoal anonymity check data/ --policy policy.toml
    """
    from shoal import anonymity

    verdict = anonymity.check(source, anonymity.read_policy(policy))
    show(verdict, json=json)
    if not verdict.passed:
        raise typer.Exit(1)


def check_outputs(output: Path, *others: Path | None) -> None:
    """Refuse what cannot be written before anything is read."""
    from shoal.anonymity.recoding.output import check_ending

    check_ending(output)
    for path in (output, *others):
        check_writable(path)


def deliver(made: Any, output: Path, html: Path | None, *, save: Path | None, show_values: bool, json: bool) -> None:
    """Write the rows, the page and the transformation, and say what was done."""
    made.write(output)
    if save is not None:
        made.transformation.save(save)
    if html is not None:
        made.to_html(html, show_values=show_values)
    show(made, json=json)


@contextmanager
def progress_line() -> Iterator[Callable[[int, int], None] | None]:
    """How many recodings were checked, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("searching") as status:
        yield lambda checked, nodes: status.update(f"searching: {checked:,} of {nodes:,} recodings checked")


def show(found: Any, *, json: bool) -> None:
    """For machines or for people."""
    if json:
        write_json(found.to_dict())
    else:
        console().print(str(found), markup=False, soft_wrap=True)


def names(listed: str | None) -> list[str]:
    """`a,b` as a list."""
    return [] if listed is None else [name.strip() for name in listed.split(",") if name.strip()]


def pair(text: str, example: str) -> list[Any]:
    """`4,3` as two numbers, whole where they are written so."""
    parts = [as_number(part, example) for part in text.split(",")]
    if len(parts) != 2:
        raise ShoalError("E_USAGE", "Expected two numbers separated by a comma.", hint=example)
    return parts


def one_or_two(text: str, example: str) -> Any:
    """`0.5`, or `0.1,0.5`."""
    return pair(text, example) if "," in text else as_number(text, example)


def as_number(text: str, example: str) -> Any:
    """A number as it was written."""
    try:
        return int(text) if text.strip().lstrip("-").isdigit() else float(text)
    except ValueError:
        raise ShoalError("E_USAGE", "Expected a number.", hint=example) from None


def numbers(given: dict[str, str] | None, example: str) -> dict[str, Any] | None:
    """The values of NAME=VALUE as numbers."""
    return None if given is None else {name: as_number(value, example) for name, value in given.items()}


def pairs(given: list[str] | None, example: str) -> dict[str, str] | None:
    """`name=value`, more than once, as a dict."""
    if not given:
        return None
    if not all("=" in entry for entry in given):
        raise ShoalError("E_USAGE", "An option of the form NAME=VALUE was given without '='.", hint=example)
    return dict(entry.rsplit("=", 1) for entry in given)
