"""Limits that find themselves: errors beside the best fixed limit in hindsight, and how many intervals hold the exact value.

    python -m benchmarks auto [--rows 10000 100000] [--runs 5] [--write]
    python -m benchmarks auto --pairs [--rows 10000 100000] [--runs 5]
    python -m benchmarks auto --folder DIR --queries FILE.toml

Over made-up tables, or over your own parquet files with queries from a file:

    [[query]]
    name = "orders by country"
    files = { orders = "shop/orders.parquet" }     # the tables, below DIR
    owner = "customer_id"                          # of every table that has the column; the others are public
    sql = "SELECT country, COUNT(*) AS n FROM orders GROUP BY country"

Queries that count owners by group are also asked with fixed groups per owner; with `--pairs` those that count rows by group, and no
others, with fixed groups per owner and rows in each. Prints a table and writes
benchmarks/results/auto-DATE.json; `--write` puts the table into docs/results/auto.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.records import FOLDER, replace_between, write_record
from shoal.session import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.result import Result
    from shoal.session import Session

PAGE = Path(__file__).parent.parent / "docs" / "results" / "auto.md"
ROWS, RUNS, SEED = (10_000, 100_000, 1_000_000), 5, 12
EPSILON, DELTA = 1.0, 1e-6
FIXED = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100)
PAIRS = [(groups, rows) for groups in (1, 2, 3, 5, 10, 20, 50) for rows in (1, 2, 4, 8, 16, 32, 64, 128)]
ASKED_AGAIN = 4
"""So many of the pairs that look best once are asked as often as what was found: the best of many lucky ones would flatter."""
ENOUGH_OWNERS = 600


@dataclass(frozen=True)
class Case:
    """One question about some tables; `owner` is the column that private tables have."""

    name: str
    tables: dict[str, pa.Table] = field(repr=False)
    owner: str
    sql: str

    @property
    def catalog(self) -> dict[str, Any]:
        """Nothing about limits."""
        private = {"owner": self.owner}
        tables = {n: private if self.owner in t.column_names else {"public": True} for n, t in self.tables.items()}
        return {"tables": tables, "defaults": {"epsilon": EPSILON, "delta": DELTA}}

    @property
    def counts_owners(self) -> bool:
        """Whether groups per owner are its only limit."""
        return f", COUNT(DISTINCT {self.owner}) AS n" in self.sql and "GROUP BY" in self.sql

    @property
    def owners(self) -> int:
        """How many there are."""
        columns = [t.column(self.owner) for t in self.tables.values() if self.owner in t.column_names]
        return max(len(column.unique()) for column in columns)

    @property
    def counts_rows(self) -> bool:
        """Whether groups per owner and rows in each are its limits."""
        return ", COUNT(*) AS n" in self.sql and "GROUP BY" in self.sql

    def with_groups(self, groups: int) -> str:
        """The same with groups per owner named."""
        options = f"epsilon = {EPSILON}, delta = {DELTA}, max_groups_contributed = {groups}"
        return self.sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options})", 1)

    def with_pair(self, groups: int, rows: int) -> str:
        """The same with groups per owner and rows in each named."""
        return self.with_groups(groups).replace(
            "COUNT(*)", f"COUNT(*, contribution_bounds_per_group => (0, {rows}))", 1
        )

    def exact(self) -> dict[tuple[Any, ...], dict[str, float]]:
        """The plain answer: groups, and the numbers of each."""
        connection = duckdb.connect()
        for name, table in self.tables.items():
            connection.register(name, table)
        return by_group(connection.sql(self.sql).to_arrow_table())


def by_group(table: pa.Table) -> dict[tuple[Any, ...], dict[str, float]]:
    """The number of a query is called n; all other columns are keys."""
    return {keys_of(row): {"n": row["n"]} for row in table.to_pylist()}


def keys_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row without its number and the ends of its interval."""
    return tuple(
        value for name, value in row.items() if name not in {"n", "n_low", "n_high", "n_noise_low", "n_noise_high"}
    )


# ---- made-up tables ----------------------------------------------------------------------------------------------


def made_up(rows: int) -> Iterator[Case]:
    """Shapes that differ in how many rows and groups an owner has."""
    generator = np.random.default_rng([SEED, rows])
    shapes = {
        "a few rows": _spread(generator, rows, lambda n: 1 + generator.geometric(0.3, n)),
        "many rows": _spread(generator, rows, lambda n: 1 + generator.geometric(0.03, n)),
        "heavy owners": _spread(generator, rows, lambda n: np.minimum(1 + generator.pareto(0.9, n) * 3, 2000).astype(int)),
    }  # fmt: skip
    one = pa.table(
        {"uid": np.arange(rows), "city": generator.zipf(1.5, rows) % 200, "spend": generator.gamma(2, 10, rows)}
    )
    for shape, table in shapes.items():
        for key, of in (("kind", "8 kinds"), ("shop", "60 shops"), ("item", "1,000 items")):
            owners = f"SELECT {key}, COUNT(DISTINCT uid) AS n FROM t GROUP BY {key}"
            yield Case(f"{shape}, {of}: owners", {"t": table}, "uid", owners)
        yield Case(f"{shape}: rows", {"t": table}, "uid", "SELECT COUNT(*) AS n FROM t")
        yield Case(f"{shape}, 8 kinds: rows", {"t": table}, "uid", "SELECT kind, COUNT(*) AS n FROM t GROUP BY kind")
        yield Case(f"{shape}, 60 shops: rows", {"t": table}, "uid", "SELECT shop, COUNT(*) AS n FROM t GROUP BY shop")
        yield Case(f"{shape}, 8 kinds: sums", {"t": table}, "uid", "SELECT kind, SUM(spend) AS n FROM t GROUP BY kind")
        yield Case(f"{shape}: averages", {"t": table}, "uid", "SELECT AVG(mean) AS n FROM (SELECT uid, AVG(spend) AS mean FROM t GROUP BY uid)")  # fmt: skip # noqa: E501
        yield Case(f"{shape}, 8 kinds: rows for each owner", {"t": table}, "uid", "SELECT kind, COUNT(*) / COUNT(DISTINCT uid) AS n FROM t GROUP BY kind")  # fmt: skip # noqa: E501
        yield Case(f"{shape}: different items", {"t": table}, "uid", "SELECT COUNT(DISTINCT item) AS n FROM t")
    yield Case(
        "one row each, 200 cities: owners",
        {"t": one},
        "uid",
        "SELECT city, COUNT(DISTINCT uid) AS n FROM t GROUP BY city",
    )
    yield Case("one row each: averages", {"t": one}, "uid", "SELECT AVG(spend) AS n FROM t")


def _spread(generator: np.random.Generator, rows: int, rows_of: Any) -> pa.Table:
    """Owners with so many rows, each row in some shop, kind and item; an owner has favourite shops."""
    sizes = rows_of(rows)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), rows)) + 1]
    uid = np.repeat(np.arange(len(sizes)), sizes)
    favourite = generator.zipf(1.4, len(sizes))[uid] % 60
    shop = np.where(generator.random(len(uid)) < 0.5, favourite, generator.integers(0, 60, len(uid)))
    item = np.minimum(generator.zipf(1.3, len(uid)), 1000)
    spend = generator.gamma(2.0, 10.0, len(uid)) * generator.lognormal(0, 0.4, len(sizes))[uid]
    return pa.table({"uid": uid, "kind": item % 8, "shop": shop, "item": item, "spend": spend})


def from_file(folder: Path, queries: Path) -> Iterator[Case]:
    """Questions about parquet files."""
    for query in tomllib.loads(queries.read_text(encoding="utf-8"))["query"]:
        tables = {name: pq.read_table(folder / path) for name, path in query["files"].items()}
        yield Case(query["name"], tables, query["owner"], query["sql"])


# ---- measuring ---------------------------------------------------------------------------------------------------


@dataclass
class Errors:
    """Of one way to ask, over all runs."""

    squares: list[float] = field(default_factory=list)
    """Of every group, one that is not shown counting with its whole value."""
    shown: list[float] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """Over all groups."""
        return math.sqrt(statistics.fmean(self.squares)) if self.squares else math.nan

    @property
    def of_shown(self) -> float:
        """Over groups that are shown."""
        return math.sqrt(statistics.fmean(self.shown)) if self.shown else math.nan


@dataclass(frozen=True)
class Outcome:
    """What came out for one question."""

    name: str
    owners: int
    groups: int
    loss_ratio: float | None
    """To the best fixed groups per owner in hindsight, over all groups."""
    shown_ratio: float | None
    best_groups: int | None
    intervals: int
    held: int
    held_by_noise: int
    widening: float
    """The median width beside that of the noise part."""

    def line(self, rows: str) -> str:
        """One row of the page."""
        ratios = [
            _number(self.loss_ratio),
            _number(self.shown_ratio),
            "" if self.best_groups is None else f"{self.best_groups}",
        ]
        shares = [f"{n / self.intervals:.0%}" if self.intervals else "none" for n in (self.held, self.held_by_noise)]
        cells = [rows, self.name, f"{self.owners:,}", f"{self.groups:,}", *ratios, *shares, f"{self.widening:.1f}×"]
        return f"| {' | '.join(cells)} |"


def _number(ratio: float | None) -> str:
    return "" if ratio is None or math.isnan(ratio) else f"{ratio:.2f}"


HEADER = [
    "| rows | query | owners | groups | error ÷ best κ | of shown groups | best κ | intervals that hold | by noise alone | width |",
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
]


HEADER_OF_PAIRS = [
    "| rows | query | owners | groups | error ÷ best pair | of shown groups | best κ · rows |",
    "|---|---|---:|---:|---:|---:|---|",
]


def measured(case: Case, runs: int) -> Outcome:
    """One question, asked so often."""
    exact = case.exact()
    session = connect(case.tables, catalog=case.catalog)
    found, held = Errors(), Held()
    for _ in range(runs):
        result = session.query(case.sql)
        _add(found, result, exact)
        held.add(result, exact)
    best = _best(case, session, exact, runs) if case.counts_owners else None
    return Outcome(
        case.name,
        case.owners,
        len(exact),
        None if best is None else found.loss / best[1],
        None if best is None else found.of_shown / best[2],
        None if best is None else best[0],
        held.intervals,
        held.whole,
        held.noise,
        statistics.median(held.widths) if held.widths else 1.0,
    )


def best_pair(case: Case, runs: int) -> str:
    """One line: what was found beside the best pair of limits in hindsight."""
    exact = case.exact()
    session = connect(case.tables, catalog=case.catalog)

    def asked(sql: str, often: int) -> Errors:
        errors = Errors()
        for _ in range(often):
            _add(errors, session.query(sql), exact)
        return errors

    found = asked(case.sql, runs)
    once = {pair: asked(case.with_pair(*pair), 1) for pair in PAIRS}
    again = {
        pair: asked(case.with_pair(*pair), runs)
        for pair in sorted(once, key=lambda pair: once[pair].loss)[:ASKED_AGAIN]
    }
    best = min(again, key=lambda pair: again[pair].loss)
    shown = found.of_shown / again[best].of_shown if again[best].shown and found.shown else math.nan
    ratios = f"{_number(found.loss / again[best].loss)} | {_number(shown)}"
    return f"{case.name} | {case.owners:,} | {len(exact):,} | {ratios} | {best[0]} · {best[1]} |"


def _best(
    case: Case, session: Session, exact: dict[tuple[Any, ...], dict[str, float]], runs: int
) -> tuple[int, float, float] | None:
    """The groups per owner with the least loss in hindsight, that loss, and the error of the groups that it shows."""
    asked = {}
    for groups in FIXED:
        asked[groups] = Errors()
        for _ in range(runs):
            _add(asked[groups], session.query(case.with_groups(groups)), exact)
    best = min(asked, key=lambda groups: asked[groups].loss)
    if not asked[best].shown:
        return None
    return best, asked[best].loss, asked[best].of_shown


def _add(errors: Errors, result: Result, exact: dict[tuple[Any, ...], dict[str, float]]) -> None:
    shown = by_group(result.to_arrow())
    for key, numbers in exact.items():
        for name, value in numbers.items():
            answer = shown.get(key, {}).get(name)
            wrong = float(value or 0) - float(answer or 0)
            errors.squares.append(wrong**2)
            if answer is not None:
                errors.shown.append(wrong**2)


@dataclass
class Held:
    """Intervals, and how many of them hold the exact value."""

    intervals: int = 0
    whole: int = 0
    noise: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, result: Result, exact: dict[tuple[Any, ...], dict[str, float]]) -> None:
        """All intervals of an answer."""
        for row in result.intervals().to_dicts():
            key = keys_of(row)
            if row.get("n_low") is None:
                continue
            truth = float(exact.get(key, {}).get("n") or 0)
            low, high = row.get("n_noise_low", row["n_low"]), row.get("n_noise_high", row["n_high"])
            self.intervals += 1
            self.whole += row["n_low"] <= truth <= row["n_high"]
            self.noise += low <= truth <= high
            self.widths.append((row["n_high"] - row["n_low"]) / max(high - low, 1e-300) if high > low else 1.0)


def summary(outcomes: list[Outcome]) -> list[str]:
    """The figures that count."""
    known = [o for o in outcomes if o.loss_ratio is not None and o.owners >= ENOUGH_OWNERS]
    lines = []
    for what, ratios in (
        ("over all groups", [o.loss_ratio for o in known]),
        ("of shown groups", [o.shown_ratio for o in known]),
    ):
        numbers = [r for r in ratios if r is not None and not math.isnan(r) and r > 0]
        if numbers:
            within = sum(r <= 1.5 for r in numbers) / len(numbers)
            mean = math.exp(statistics.fmean(map(math.log, numbers)))
            lines.append(
                f"Error {what} beside the best fixed κ in hindsight, from {ENOUGH_OWNERS} owners: within 1.5× in {within:.0%} of "
                f"{len(numbers)} queries; geometric mean {mean:.2f}×."
            )
    for enough, what in ((True, "from"), (False, "below")):
        some = [o for o in outcomes if (o.owners >= ENOUGH_OWNERS) == enough and o.intervals]
        if some:
            intervals = sum(o.intervals for o in some)
            held, by_noise = (
                sum(numbers) / intervals for numbers in zip(*((o.held, o.held_by_noise) for o in some), strict=True)
            )
            by_query = statistics.fmean(o.held / o.intervals for o in some)
            lines.append(
                f"Intervals that hold the exact value, {what} {ENOUGH_OWNERS} owners: {held:.0%} of {intervals:,} (by their noise "
                f"alone {by_noise:.0%}); {by_query:.0%} where each of {len(some)} queries counts once."
            )
    return lines


def main(argv: list[str]) -> None:
    """Runs, prints and records."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks auto", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="a part of the names of queries")
    parser.add_argument("--pairs", action="store_true", help="counts of rows beside the best pair of limits")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table into docs/results/auto.md")
    parser.add_argument("--results", type=Path, default=FOLDER)
    arguments = parser.parse_args(argv)
    if arguments.folder is not None and arguments.queries is not None:
        cases = [("", case) for case in from_file(arguments.folder, arguments.queries)]
    else:
        cases = [(f"{rows:,}", case) for rows in arguments.rows for case in made_up(rows)]
    if arguments.pairs:
        print("\n".join(HEADER_OF_PAIRS))
        for rows, case in cases:
            if case.counts_rows and arguments.only in case.name:
                print(f"| {rows} | {best_pair(case, arguments.runs)}", flush=True)
        return
    lines, outcomes = list(HEADER), []
    print("\n".join(HEADER))
    for rows, case in cases:
        if arguments.only in case.name:
            outcomes.append(measured(case, arguments.runs))
            lines.append(outcomes[-1].line(rows))
            print(lines[-1], flush=True)
    print("\n".join(said := summary(outcomes)))
    write_record("auto", {"outcomes": [asdict(o) for o in outcomes], "summary": said}, arguments.results)
    if arguments.write:
        replace_between(PAGE, "auto", [*(f"- {line}" for line in said), "", *lines])
