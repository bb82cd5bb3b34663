"""`shoal audit`: put shoal's own mechanisms before its own tester."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import check_writable, console, write_json, write_text
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.audit.suite.rows import Report, Row


def audit(
    *,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Draw a million samples per database instead of 100,000, to see smaller violations."
        ),
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FAMILY", help="Check only this family; can be repeated.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1000, max=10_000_000, help="Samples per database, instead of the default.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many checks to run in parallel.")] = 2,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save each verdict to this file, and skip those already in it: an interrupted run continues.",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as a web page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Check every sampler, aggregate, selection rule and kind of query of this installation.

    Each verdict is printed to stderr as it is reached, the whole table at the end.
    Exit status 1 when a check fails. False alarms: at most one run in a million.

    [bold]Example[/bold]

        shoal audit --only selection --html audit.html
    """
    from shoal.audit.suite import run as suite
    from shoal.audit.suite.kept import KeptRows
    from shoal.audit.suite.page import page

    check_writable(html)
    check_writable(resume)
    unknown = sorted(set(only or ()) - set(suite.families()))
    if unknown:
        raise ShoalError(
            "E_USAGE", f"There is no family of checks {unknown[0]!r}.", hint=f"Families: {', '.join(suite.families())}."
        )
    if deep and samples is not None:
        raise ShoalError("E_USAGE", "--deep and --samples cannot be combined.", hint="Give one of them.")
    depth = samples or (suite.DEEP_SAMPLES if deep else suite.DEFAULT_SAMPLES)
    kept = None if resume is None else KeptRows(resume, depth, tuple(only or ()))
    report = suite.run(depth, tuple(only or ()), processes, tell, kept)
    if html is not None:
        write_text(page(report), html)
    if json:
        write_json(report.to_dict())
    else:
        show(report)
    if not report.passed:
        raise typer.Exit(1)


def tell(done: int, of: int, row: Row) -> None:
    """A verdict as it is reached, in one line on stderr."""
    from shoal.audit.suite.page import cells

    _, method, epsilon, _, verdict, lower, seen_from, samples, note = cells(row)
    found = f"true ε ≥ {lower}, seen from {seen_from}, {samples} samples" if row.samples else note
    words = (
        f"{done:>3} of {of}  {verdict}  {row.family}: {row.name}, ε = {epsilon}, {method}; {found}; {row.seconds:.1f} s"
    )
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def show(report: Report) -> None:
    """The table for people."""
    from rich import box
    from rich.table import Table

    from shoal.audit.suite.page import HEADINGS, cells, lead

    out = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in HEADINGS[:-1]:
        table.add_column(
            name, justify="right" if name in {"ε", "δ", "true ε ≥", "seen from ε =", "samples"} else "left"
        )
    family = ""
    for row in report.rows:
        if row.family != family:
            family = row.family
            table.add_row(family.upper(), *[""] * (len(HEADINGS) - 2))
        table.add_row(*cells(row)[:-1], style=None if row.passed else "bold red")
    out.print(table)
    for row in report.rows:
        if row.note and (not row.passed or row.method == "exact"):
            out.print(f"{row.name}, ε = {row.epsilon:.3g}: {row.note}", markup=False)
    out.print(lead(report), markup=False)
