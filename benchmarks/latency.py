"""How long an analyst waits before data is touched: planning a query in a running session, and starting the program.

    python -m benchmarks latency [--runs N] [--write]

Planning, and the engine's own reading of each statement before its charge, are measured in processor time, after warm-up. Texts
are planned that were planned before, and with an ε and κ that are new (so that nothing can be remembered); statements are
read with a condition that is new each time. Starts are whole processes over a table of 2,000 customers, in processor time and by
the clock.
Prints medians beside the goals and writes benchmarks/results/latency-DATE.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal import datasets
from shoal.release.execute import prepare
from shoal.session import Session, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNS, STARTS, CUSTOMERS = 50, 7, 2_000
PLANNING_GOAL_MS, START_GOAL_SECONDS = 20, 0.6
OPTIONS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon}, delta = 1e-6, max_groups_contributed = {kappa}) "
)
QUERIES = {
    "COUNT(*), SUM by site": "site, COUNT(*) AS n, SUM(spend) AS s FROM visits GROUP BY site",
    "COUNT(DISTINCT uid) by site": "site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site ORDER BY n DESC",
    "MEDIAN, P95 by region": "region, MEDIAN(age) AS m, PERCENTILE_CONT(age, 0.95) AS p FROM customers GROUP BY region",
    "AVG, VARIANCE by region": "region, AVG(income) AS a, VARIANCE(income) AS v FROM customers GROUP BY region",
    "one COUNT(*)": "COUNT(*) AS n FROM visits",
    "SUM, AVG, bounds to be found": "site, SUM(spend * 2) AS s, AVG(spend * 2) AS a FROM visits GROUP BY site",
    "join and subquery": "c.region, SUM(v.total, contribution_bounds_per_group => (0, 500)) AS s FROM (SELECT uid, site, "
    "SUM(spend) AS total FROM visits WHERE spend > 1 GROUP BY uid, site) AS v JOIN customers AS c ON c.uid = v.uid "
    "GROUP BY c.region",
    "10 aggregates": "site, COUNT(*) AS n, COUNT(DISTINCT uid) AS o, "
    + ", ".join(f"SUM(spend * {i}, contribution_bounds_per_group => (0, {200 * i})) AS s{i}" for i in range(1, 9))
    + " FROM visits GROUP BY site",
}
LIMITS = {"named": ", max_groups_contributed = 3", "found": ""}
READ_GOALS_MS = (4, 10)
READ = {
    **{name: "{clause}" + text.replace(" GROUP BY ", " WHERE {spend} GROUP BY ") for name, text in QUERIES.items()},
    "one COUNT(*)": "{clause}COUNT(*) AS n FROM visits WHERE {spend}",
    "join and subquery": "{clause}" + QUERIES["join and subquery"].replace("spend > 1", "{spend}"),
    "MEDIAN, P95 by region": "{clause}" + QUERIES["MEDIAN, P95 by region"].replace(" GROUP", " WHERE {income} GROUP"),
    "AVG, VARIANCE by region": "{clause}"
    + QUERIES["AVG, VARIANCE by region"].replace(" GROUP", " WHERE {income} GROUP"),
    "one private SELECT reads another": "WITH big AS ({clause}site, COUNT(*) AS n FROM visits WHERE {spend} GROUP BY site) "
    "{clause}COUNT(*) AS c FROM visits JOIN big ON visits.site = big.site WHERE {spend}",
    "released rows beside a public list": "SELECT r.region, n FROM ({clause}region, COUNT(*) AS n FROM customers WHERE {income} "
    "GROUP BY region) AS c JOIN (VALUES ('north'), ('south')) AS r(region) ON r.region = c.region",
}
"""What is read before a charge, each with a condition of its own."""
FIRST = OPTIONS.format(epsilon=1, kappa=3) + QUERIES["COUNT(DISTINCT uid) by site"]


@dataclass(frozen=True)
class Planning:
    """Median milliseconds of processor time for one query."""

    query: str
    plan: float
    explain: float
    fresh: float


@dataclass(frozen=True)
class Checking:
    """Milliseconds of processor time to read all statements of a query: the middle one of many, and the 90th of a hundred."""

    limits: str
    median: float
    ninetieth: float


@dataclass(frozen=True)
class Start:
    """Seconds from the start of a process to its end: the least processor time of all its threads, and by the clock."""

    what: str
    processor: float
    median: float
    best: float


def milliseconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def planning(session: Session, name: str, runs: int, numbers: Iterator[int]) -> Planning:
    """One query, planned again and again, and with new parameters each time."""
    text = QUERIES[name]
    known = OPTIONS.format(epsilon=1, kappa=5) + text
    session.explain(known)
    taken = []
    for _ in range(runs):
        number = next(numbers)
        fresh = OPTIONS.format(epsilon=f"{0.5 + 0.00137 * number:.5f}", kappa=2 + number % 7) + text
        works = (lambda: session.plan(known), lambda: session.explain(known), lambda new=fresh: session.plan(new))
        taken.append([milliseconds(work) for work in works])
    return Planning(name, *(statistics.median(column) for column in zip(*taken, strict=True)))


def checking(session: Session, runs: int) -> list[Checking]:
    """Every shape with limits that are named and found; one round more, which reads what all queries share."""
    taken: dict[str, list[float]] = {limits: [] for limits in LIMITS}
    again = []
    for number in range(runs + 1):
        for limits, option in LIMITS.items():
            clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6{option}) "
            for text in READ.values():
                bound = 1 + 0.00137 * len(again)
                sql = text.format(clause=clause, spend=f"spend > {bound:.5f}", income=f"income > {1000 * bound:.2f}")
                plan = session.plan(sql)
                found = [milliseconds(lambda read=plan: prepare(read, session._engine)) for _ in range(2)]  # noqa: SLF001 - benchmarks look inside
                again.append(found[1])
                if number:
                    taken[limits].append(found[0])
    taken["all"] = [each for limits in LIMITS for each in taken[limits]]
    taken["read before"] = again
    return [
        Checking(what, statistics.median(all_), statistics.quantiles(all_, n=10)[-1]) for what, all_ in taken.items()
    ]


def seconds(words: list[str], folder: Path) -> tuple[float, float]:
    """A Python process with these words, from its start to its end: processor time, and by the clock."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True)
    after, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


def starts(runs: int, folder: Path) -> list[Start]:
    """The program, and what its libraries alone need to be loaded; in turn, so that a busy machine disturbs all alike."""
    program = ["-m", "shoal"]
    processes = {
        "`import duckdb, numpy, pyarrow`, for comparison": ["-c", "import duckdb, numpy, pyarrow"],
        "`shoal --help`": [*program, "--help"],
        "`shoal explain`": [*program, "explain", FIRST],
        "`shoal query`, the answer as a table": [*program, "query", FIRST, "--db", "data/"],
    }
    rounds = [[seconds(words, folder) for words in processes.values()] for _ in range(runs + 1)]
    taken = zip(*rounds[1:], strict=True)  # the first round also compiles
    found = []
    for what, times in zip(processes, taken, strict=True):
        processor, clock = zip(*times, strict=True)
        found.append(Start(what, min(processor), statistics.median(clock), min(clock)))
    return found


def report(plans: list[Planning], read: list[Checking], found: list[Start]) -> list[str]:
    """Three tables in Markdown."""
    lines = ["| query | planned before | explained | new ε and κ | goal |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {p.query} | {p.plan:.1f} ms | {p.explain:.1f} ms | {p.fresh:.1f} ms | < {PLANNING_GOAL_MS} ms |"
        for p in plans
    ]
    lines += ["", "| read before the charge, limits | median | 90th percentile | goals |", "|---|---:|---:|---:|"]
    goals = "< {} ms, < {} ms".format(*READ_GOALS_MS)
    lines += [f"| {r.limits} | {r.median:.2f} ms | {r.ninetieth:.2f} ms | {goals} |" for r in read]
    lines += ["", "| process | processor time | clock, median | clock, best | goal |", "|---|---:|---:|---:|---:|"]
    starting = ["", "", "", f"≤ {START_GOAL_SECONDS} s"]
    return lines + [
        f"| {s.what} | {s.processor:.2f} s | {s.median:.2f} s | {s.best:.2f} s | {goal} |"
        for s, goal in zip(found, starting, strict=True)
    ]


def main(argv: list[str]) -> int:
    """Plans, starts, prints both tables, writes the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="of each query")
    parser.add_argument("--starts", type=int, default=STARTS, help="of each process")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/benchmarks.md")
    asked = parser.parse_args(argv)
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        datasets.write_shop(folder, datasets.shop(customers=CUSTOMERS))
        found = starts(asked.starts, folder)
        with connect(folder / "data", folder / "shoal.toml") as session:
            numbers = count(1)
            plans = [planning(session, name, asked.runs, numbers) for name in QUERIES]
            read = checking(session, max(2, asked.runs // 5))
    shown(report(plans, read, found), "latency", load, write=asked.write)
    numbers_found = {
        "planning_ms": [asdict(p) for p in plans],
        "checking_ms": [asdict(r) for r in read],
        "start_seconds": [asdict(s) for s in found],
    }
    path = write_record("latency", {"runs": asked.runs, "load_before": load, **numbers_found}, asked.results)
    print(f"\n{path}")
    return 0
