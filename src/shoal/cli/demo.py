"""`shoal demo`: the whole story on sample data, in under a minute."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import console, reason_of, rows_of, with_intervals, write_json
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from shoal.result import Result, Rows
    from shoal.session import Session

BUDGET = (3.0, 1e-5)
MARKER = "made-by-shoal-demo.txt"

PLAIN = """\
SELECT site, COUNT(DISTINCT uid) AS customers
FROM visits GROUP BY site"""

PRIVATE = """\
SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=20)
  site, COUNT(DISTINCT uid) AS customers
FROM visits GROUP BY site"""

HONEST = """\
SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS(epsilon=0.5, measure_cut=0.1)
  COUNT(*, contribution_bounds_per_group => (0, 5)) AS visits
FROM visits"""

GREEDY = PRIVATE.replace("epsilon=1", "epsilon=5")


@dataclass(frozen=True)
class Story:
    """What the demo found, before it is printed."""

    folder: Path
    tables: dict[str, pa.Table]
    seconds: float
    exact: dict[str, int]
    private: dict[str, tuple[int, float, float]]
    honest: dict[str, float]
    selection: dict[str, Any]
    spent: tuple[float, float]
    remaining: tuple[float, float]
    refusal: str


def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to put the sample shop.")] = Path(
        "shoal-demo"
    ),
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the story as JSON.")] = False,
) -> None:
    """Run the whole story on sample data, in under a minute.

    [bold]Example[/bold]

        shoal demo
    """
    story = live_through(folder)
    if json:
        write_json(as_data(story))
    else:
        tell(story, console())


def live_through(folder: Path) -> Story:
    """Make the shop, ask the plain query and its private twin, and try to overspend."""
    from shoal import datasets

    with writing_into(folder):
        prepare(folder)
        start = time.perf_counter()
        tables = datasets.shop()
        datasets.write_shop(folder, tables)
        seconds = time.perf_counter() - start
    session = open_session(folder)
    private = by_site(session.query(PRIVATE))
    honest = next(iter(rows_of(with_intervals(session.query(HONEST), 0.95).to_arrow())))
    return Story(
        folder=folder,
        tables=tables,
        seconds=seconds,
        exact=exact_customers_by_site(tables["visits"]),
        private=private,
        honest=honest,
        selection=session.explain(PRIVATE).to_dict()["selects"][0]["selection"],
        spent=session.spent,
        remaining=session.remaining or BUDGET,
        refusal=refusal_of(session, GREEDY),
    )


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Where no folder can be made or written, a sentence says so."""
    try:
        yield
    except OSError as error:
        raise ShoalError(
            "E_USAGE",
            f"The sample shop cannot be put into {str(folder)!r}: {reason_of(error)}.",
            hint="Choose a folder that you can write to: shoal demo FOLDER",
        ) from None


def prepare(folder: Path) -> None:
    """An empty place for the shop; a folder that is not an earlier demo is left alone."""
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and any(folder.iterdir()):
        raise ShoalError(
            "E_USAGE",
            f"The folder {str(folder)!r} is not empty and was not changed.",
            hint="Choose another: shoal demo FOLDER",
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text(
        "Made-up data, written by `shoal demo`. Delete this folder whenever you like.\n", encoding="utf-8"
    )
    for leftover in folder.glob("ledger.db*"):
        leftover.unlink()


def open_session(folder: Path) -> Session:
    """A session over the shop with a fresh budget in `ledger.db`."""
    from shoal.accounting.ledger import Ledger
    from shoal.params import budget
    from shoal.session import connect

    Ledger.create(folder / "ledger.db", budget(BUDGET))
    return connect(folder / "data", catalog=folder / "shoal.toml", ledger=folder / "ledger.db", user="demo")


def exact_customers_by_site(visits: pa.Table) -> dict[str, int]:
    """What the plain query answers: the truth about everyone, down to a single person."""
    grouped = visits.group_by("site").aggregate([("uid", "count_distinct")])
    pairs = zip(grouped["site"].to_pylist(), grouped["uid_count_distinct"].to_pylist(), strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def by_site(result: Result | Rows) -> dict[str, tuple[int, float, float]]:
    """Site → released customers, low, high."""
    rows = rows_of(with_intervals(result, 0.95).to_arrow())
    return {row["site"]: (row["customers"], row["customers_low"], row["customers_high"]) for row in rows}


def refusal_of(session: Session, sql: str) -> str:
    """What the session says to a query that is beyond the budget."""
    try:
        session.query(sql)
    except ShoalError as error:
        return str(error)
    return ""


def tell(story: Story, out: Console) -> None:
    """The story for people."""
    visits = story.tables["visits"]
    heading(out, 1, "A shop")
    out.print(
        f"{story.tables['customers'].num_rows:,} customers and {visits.num_rows:,} visits, made up in"
        f" {story.seconds:.1f} s; one customer came {busiest(visits):,} times. The files are in {story.folder}/."
    )
    heading(out, 2, "A plain query, and its private twin")
    out.print(PLAIN, style="dim", markup=False)
    out.print()
    out.print(PRIVATE, style="cyan", markup=False)
    out.print()
    out.print(side_by_side(story))
    out.print("± is the 95 % interval of the noise. Both queries read the same rows; only the second is safe to share.")
    heading(out, 3, "Singled out")
    tell_singled_out(story, out)
    heading(out, 4, "An honest interval")
    tell_honest_interval(story, out)
    heading(out, 5, "The budget")
    tell_budget(story, out)
    heading(out, 6, "Try next")
    for words, command in next_commands(story.folder):
        out.print(f"[bold]{words}[/bold]")
        out.print(f"  {command}", style="cyan", markup=False, soft_wrap=True)


def heading(out: Console, number: int, words: str) -> None:
    """A numbered line above each part."""
    out.print()
    out.print(f"[bold]{number}  {words}[/bold]")


def side_by_side(story: Story) -> Table:
    """Exact and private answers, site by site."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("site")
    table.add_column("exact", justify="right", style="dim")
    table.add_column("private", justify="right", style="bold cyan")
    table.add_column("±", justify="right")
    for site, exact in story.exact.items():
        if site in story.private:
            value, low, high = story.private[site]
            table.add_row(site, f"{exact:,}", f"{value:,}", f"{(high - low) / 2:,.0f}")
        else:
            table.add_row(f"[yellow]{site}[/yellow]", f"[yellow]{exact:,}[/yellow]", "[yellow]withheld[/yellow]", "")
    return table


def tell_singled_out(story: Story, out: Console) -> None:
    """What a group of one looks like in the exact answer, and that the private one does not have it."""
    from shoal.datasets import SINGLED_OUT_SITE

    customers = story.exact[SINGLED_OUT_SITE]
    out.print(
        f"The exact answer has a group of {customers}: whoever knows a customer of the"
        f" [yellow]{SINGLED_OUT_SITE}[/yellow] can now ask what that person spent."
        " In the private answer the group is withheld. Not by a rule for small numbers, which two queries can get around:"
        f" a group of one owner appears with a probability of {story.selection['keep_probability']['1']:.0e}, one of"
        f" {story.selection['owners_for_even_chance']:,} owners half of the time, and every answer is about as likely with"
        " that customer's rows as without them."
    )


def tell_honest_interval(story: Story, out: Console) -> None:
    """A limit that leaves most rows out: the noise alone says nothing about them, the whole interval does."""
    found = story.honest
    out.print(HONEST, style="cyan", markup=False)
    out.print()
    noise = (found["visits_noise_high"] - found["visits_noise_low"]) / 2
    out.print(
        f"At most five visits of each customer count: {found['visits']:,} ± {noise:,.0f} by the noise alone, where the exact"
        f" number is {story.tables['visits'].num_rows:,}. A tenth of the price measures what the limit leaves out, so the answer"
        f" says {found['visits']:,} \\[{found['visits_low']:,.0f}, {found['visits_high']:,.0f}]: the end on the side of the cut"
        " is moved as far as what was left out may reach."
    )


def tell_budget(story: Story, out: Console) -> None:
    """What was spent, what is left, and how a greedy query is refused."""
    epsilon, delta = BUDGET
    out.print(
        f"Budget: epsilon {epsilon:g}, delta {delta:g}. The private answers above took epsilon {story.spent[0]:g},"
        f" delta {story.spent[1]:g}; left: epsilon {story.remaining[0]:g}. The same query with epsilon 5 is refused:"
    )
    out.print(story.refusal, style="yellow", markup=False)


def busiest(visits: pa.Table) -> int:
    """The number of visits of the customer who came most often."""
    import pyarrow.compute as pc

    return int(pc.max(pc.value_counts(visits["uid"]).field("counts")).as_py())


def next_commands(folder: Path) -> list[tuple[str, str]]:
    """Three commands that work as they are, each with what it shows."""
    program = os.environ.get("SHOAL_PROGRAM", "shoal")
    files = f"--db {folder}/data --catalog {folder}/shoal.toml"
    regions = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5) region, SUM(income) AS income"
        " FROM customers GROUP BY region"
    )
    return [
        (
            "Income by region, charged to the same budget",
            f'{program} query "{regions}" {files} --ledger {folder}/ledger.db',
        ),
        ("What that query does and costs, before asking it", f'{program} explain "{regions}" {files}'),
        ("What was spent, by whom and on what", f"{program} budget --ledger {folder}/ledger.db"),
    ]


def as_data(story: Story) -> dict[str, Any]:
    """Print the story as JSON."""
    return {
        "folder": str(story.folder),
        "exact": story.exact,
        "private": {
            site: {"customers": value, "low": low, "high": high} for site, (value, low, high) in story.private.items()
        },
        "honest": story.honest,
        "selection": story.selection,
        "withheld": [site for site in story.exact if site not in story.private],
        "spent": story.spent,
        "remaining": story.remaining,
        "refused": story.refusal,
        "next": [command for _, command in next_commands(story.folder)],
    }
