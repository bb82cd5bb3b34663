"""`shoal risk`: how identifying is data that exists, how easily can it be joined, and does it stay within limits."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import check_writable, console, write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.risk import Progress

app = typer.Typer(
    name="risk",
    help="Measure how identifying data is, and how easily it can be joined.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a self-contained web page.")]
Sketches = Annotated[Path, typer.Argument(help="A folder of sketches, or one sketch file.")]


@app.command()
def scan(
    source: Annotated[
        str, typer.Argument(help="A file, folder or glob (parquet, CSV, JSON lines), a DuckDB file, or postgresql://…")
    ],
    *,
    owner: Annotated[
        list[str] | None, typer.Option(help="The column with the owner of a row, or TABLE=COLUMN; can be repeated.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Only these columns, comma-separated; zip+age is a combination.")
    ] = None,
    combine: Annotated[int, typer.Option(help="2: also all pairs of the most unique columns. 3: triples too.")] = 1,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; can be repeated.")] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="File with the secret key that values are hashed with; create one with shoal risk key FILE."),
    ] = None,
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Hash without a secret key: anybody can test guesses.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write the sketches into.")] = None,
    html: Html = None,
    json: Json = False,
    k: Annotated[int, typer.Option("--k", help="How many values to sample per column.")] = 2048,
    m: Annotated[int, typer.Option("--m", help="Registers that count the owners of a value.")] = 512,
    max_combinations: Annotated[int, typer.Option(help="The most combinations to look at per table.")] = 50,
    workers: Annotated[int | None, typer.Option(min=1, help="How many processes; one per core by default.")] = None,
) -> None:
    """Sketch every column in one pass: how many owners share each value.

    Example: shoal risk scan data/ --owner uid --combine 2 --key secret.key -o sketches/ --html report.html
    """
    from shoal import risk
    from shoal.risk.reports.terminal import risk_tables

    check_writable(html)
    with warnings_on_stderr(), progress_bar() as progress:
        report = risk.scan(
            source,
            owner=_owners(owner),
            columns=_columns(columns),
            combine=combine,
            key=_key(key, no_key=no_key),
            k=k,
            m=m,
            tables=table,
            max_combinations=max_combinations,
            workers=workers,
            progress=progress,
        )
        written = [] if output is None else risk.write_datasets(output, list(report.sketched))
    if html is not None:
        report.to_html(html)
    if json:
        write_json(report.to_dict())
    else:
        console().print(risk_tables(report.datasets))
    _say_where(written, html, key_thrown_away=report.key_thrown_away)


@app.command()
def join(
    sketches: Sketches,
    *,
    labels: Annotated[
        Path | None,
        typer.Option(help="TOML file with labels of columns and spaces of owners (identified, pseudonymous)."),
    ] = None,
    path: Annotated[str | None, typer.Option(help="FROM,TO: show the best path between two datasets.")] = None,
    minimum_containment: Annotated[float, typer.Option(min=0, max=1, help="Leave out pairs that share less.")] = 0.1,
    minimum_values: Annotated[int, typer.Option(min=1, help="Set aside columns with fewer values.")] = 100,
    html: Html = None,
    json: Json = False,
) -> None:
    """Find which sketched datasets can be joined on which columns, directly or through others.

    Example: shoal risk join sketches/ --labels labels.toml --html join.html
    """
    from shoal import risk

    check_writable(html)
    known = None if labels is None else risk.read_knowledge(labels)
    found = risk.joinability(
        sketches, minimum_containment=minimum_containment, minimum_values=minimum_values, knowledge=known
    )
    if html is not None:
        found.to_html(html)
    if path is not None:
        _show_path(found, path, json=json)
    elif json:
        write_json(found.to_dict())
    else:
        console().print(found)


@app.command()
def check(
    sketches: Sketches,
    *,
    policy: Annotated[Path, typer.Option(help="The policy, a TOML file with limits.")],
    baseline: Annotated[Path | None, typer.Option(help="Sketches of an earlier scan, to see what changed.")] = None,
    json: Json = False,
) -> None:
    """Check sketches against a policy; exit with status 1 if a limit is broken.

    Example: shoal risk check sketches/ --policy policy.toml --baseline last-week/
    """
    from shoal import risk
    from shoal.risk.reports.terminal import verdict_lines

    limits = risk.read_policy(policy)
    earlier = None if baseline is None else risk.read_datasets(baseline)
    verdict = risk.check(risk.read_datasets(sketches), limits, earlier)
    if json:
        write_json(verdict.to_dict())
    else:
        console().print(verdict_lines(verdict))
    if not verdict.passed:
        raise typer.Exit(1)


@app.command()
def report(sketches: Sketches, *, html: Html = None, json: Json = False) -> None:
    """Show what an earlier scan found, from its sketches.

    Example: shoal risk report sketches/ --html report.html
    """
    from shoal import risk
    from shoal.risk.reports.terminal import risk_tables

    check_writable(html)
    found = risk.Report(tuple(risk.read_datasets(sketches)))
    if html is not None:
        found.to_html(html)
    if json:
        write_json(found.to_dict())
    else:
        console().print(risk_tables(found.datasets))


@app.command()
def key(
    file: Annotated[Path, typer.Argument(help="Where to write the key; an existing file is never overwritten.")],
    *,
    json: Json = False,
) -> None:
    """Create a secret key of 32 random bytes that only you can read.

    Example: shoal risk key secret.key
    """
    from shoal import risk

    risk.make_key(file)
    if json:
        write_json({"key": str(file)})
    typer.echo(
        f"Wrote a new key to {file}. Anyone who has it can look up values in your sketches, so keep it apart from them.",
        err=True,
    )


@app.command()
def loss(
    *,
    owners: Annotated[float, typer.Option(min=0, help="How many owners the sketch has seen.")],
    m: Annotated[int, typer.Option("--m", help="Registers of the sketch.")] = 512,
    json: Json = False,
) -> None:
    """The average privacy loss of a HyperLogLog sketch: what it reveals about an average owner's presence.

    Example: shoal risk loss --owners 10000 --m 512
    """
    from shoal import risk

    found = risk.sketch_loss(m, owners)
    if json:
        return write_json(found.to_dict())
    return typer.echo(
        f"Average ε = {found.average:.4g} with {m} registers and {owners:,.0f} owners. This is an average over owners: the\n"
        "worst case has no bound, so a sketch is to be protected like the identifiers in it. Whoever has the key and\n"
        f"guesses who is in the sketch is right {found.accuracy:.1%} of the time; a coin is right half of the time."
    )


@app.command()
def membership(
    sketches: Sketches,
    owner: Annotated[str, typer.Option(help="The owner to look up; digits are read as a number.")],
    *,
    value: Annotated[
        str | None, typer.Option(help="Ask whether the owner has this value; digits are read as a number.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Only this column.")] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Treat owner and value as strings, even if they are digits.")
    ] = False,
    key: Annotated[Path | None, typer.Option(help="The file with the secret key of the sketches.")] = None,
    prior: Annotated[float, typer.Option(help="Your belief beforehand, above 0 and below 1.")] = 0.5,
    json: Json = False,
) -> None:
    """Compute what the holder of a sketch learns about somebody: prior and posterior, exactly.

    Example: shoal risk membership sketches/ --owner 42 --key secret.key
    """
    from shoal import risk

    found = risk.look_up(
        risk.read_datasets(sketches),
        _typed(owner, text=text),
        value=None if value is None else _typed(value, text=text),
        column=column,
        key=None if key is None else _key(key, no_key=False),
        prior=prior,
    )
    if json:
        return write_json([one.to_dict() for one in found])
    return typer.echo("\n".join(map(str, found)))


def _typed(word: str, *, text: bool) -> str | int:
    digits = word.removeprefix("-")
    return int(word) if not text and digits.isascii() and digits.isdigit() and len(digits) < 19 else word


def _owners(owner: list[str] | None) -> str | dict[str, str] | None:
    if not owner:
        return None
    if len(owner) == 1 and "=" not in owner[0]:
        return owner[0]
    if not all("=" in entry for entry in owner):
        raise ShoalError(
            "E_USAGE", "Give one owner for all tables, or TABLE=COLUMN for each.", hint="--owner visits=uid"
        )
    return dict(entry.split("=", 1) for entry in owner)


def _columns(columns: str | None) -> list[str | list[str]] | None:
    if columns is None:
        return None
    named = [entry.strip() for entry in columns.split(",") if entry.strip()]
    return [entry.split("+") if "+" in entry else entry for entry in named]


def _key(path: Path | None, *, no_key: bool) -> Any:
    from shoal.risk.hashing.keys import PROCESS_KEY, read_key, weaknesses_of_key_file

    if path is None:
        return None if no_key else PROCESS_KEY
    if no_key:
        raise ShoalError("E_USAGE", "--key and --no-key contradict each other.")
    secret = read_key(path)
    for weakness in weaknesses_of_key_file(path, secret):
        typer.echo(f"warning: {weakness}", err=True)
    return secret


def _say_where(written: list[Path], html: Path | None, *, key_thrown_away: bool) -> None:
    """Tell people, on stderr, what was written."""
    if written:
        typer.echo(f"Wrote {len(written)} sketch files to {written[0].parent} (readable only by you).", err=True)
        if key_thrown_away:
            typer.echo(
                "They were hashed with a key that is gone now: they can be compared with each other, but not with a later scan. "
                "For that, create a key once (shoal risk key FILE) and scan with --key FILE.",
                err=True,
            )
    if html is not None:
        typer.echo(f"Wrote the page to {html}.", err=True)


def _show_path(found: Any, wanted: str, *, json: bool) -> None:
    ends = [end.strip() for end in wanted.split(",")]
    if len(ends) != 2:
        raise ShoalError("E_USAGE", "Name two datasets.", hint="--path crm,clicks")
    way = found.path(*ends)
    if json:
        return write_json({"path": None if way is None else way.to_dict()})
    if way is None:
        return typer.echo(f"No path links {ends[0]} to {ends[1]}.")
    hops = "\n".join(f"  {pair.a} = {pair.b}: {pair.reason}" for pair in way.pairs)
    return typer.echo(f"{' → '.join(way.datasets)} (score {way.score:.2f})\n{hops}")


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Warnings as lines for people."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in dict.fromkeys(str(entry.message) for entry in caught):
        typer.echo(f"warning: {warning}", err=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None] | None]:
    """A bar with rows per second on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(at: Any) -> None:
            if at.dataset not in tasks:
                tasks[at.dataset] = bar.add_task(at.dataset, total=at.total, said="")
            task = bar.tasks[list(tasks).index(at.dataset)]
            speed = at.rows / max(task.elapsed or 0.0, 0.001)
            bar.update(tasks[at.dataset], completed=at.rows, said=f"{at.rows:,} rows, {speed:,.0f}/s")

        yield show
