"""How the cost grows with the table: the jobs of `benchmarks jobs` over 1, 10 and 50 million rows.

    python -m benchmarks scale [--rows N N …] [--runs N] [--write]

Prints seconds, processor seconds of all threads, and how far each step is from proportional (1.00 = ten times the rows cost ten
times as much); writes benchmarks/results/scale-DATE.json. Processor time is what grows; the clock also sees other programs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks import visits
from benchmarks.jobs import CATALOG, JOBS
from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal.session import Session, connect

ROWS, RUNS = (1_000_000, 10_000_000, 50_000_000), 3


@dataclass(frozen=True)
class Cost:
    """Medians of one job over one table."""

    rows: int
    job: str
    seconds: float
    processor_seconds: float

    @property
    def nanoseconds_per_row(self) -> float:
        """Processor time per row."""
        return 1e9 * self.processor_seconds / self.rows


def cost(session: Session, rows: int, sql: str, job: str, runs: int) -> Cost:
    """One run warms up files and code, then the median of some."""
    session.query(sql)
    taken = []
    for _ in range(runs):
        clock, processor = time.perf_counter(), time.process_time()
        session.query(sql)
        taken.append((time.perf_counter() - clock, time.process_time() - processor))
    seconds, processor_seconds = (statistics.median(column) for column in zip(*taken, strict=True))
    return Cost(rows, job, seconds, processor_seconds)


def costs(rows: int, runs: int, data: Path) -> list[Cost]:
    """All jobs over a table of this size."""
    with connect(visits.database(rows, data), CATALOG) as session:
        return [cost(session, rows, job.private_sql(), job.name, runs) for job in JOBS]


def growth(found: list[Cost], job: str) -> list[float]:
    """Processor time per row, over that of the size before."""
    per_row = [one.nanoseconds_per_row for one in found if one.job == job]
    return [after / before for before, after in pairwise(per_row)]


def report(found: list[Cost], sizes: list[int]) -> list[str]:
    """A table in Markdown."""
    heads = " | ".join(f"{rows / 1e6:g} million rows" for rows in sizes)
    lines = [f"| job | {heads} | processor time per row, over the size before |", f"|---|{'---:|' * (len(sizes) + 1)}"]
    for job in JOBS:
        times = [f"{c.seconds:.2f} s (processor {c.processor_seconds:.2f} s)" for c in found if c.job == job.name]
        steps = ", ".join(f"{step:.2f}×" for step in growth(found, job.name))
        lines.append(f"| {job.name} {job.title} | {' | '.join(times)} | {steps} |")
    return lines


def main(argv: list[str]) -> int:
    """Runs all sizes, prints the table, writes the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--data", type=Path, default=visits.DATA, help="where the tables are kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/benchmarks.md")
    asked = parser.parse_args(argv)
    load = os.getloadavg()
    found = [one for rows in asked.rows for one in costs(rows, asked.runs, asked.data)]
    shown(report(found, asked.rows), "scale", load, write=asked.write)
    numbers = {
        "runs": asked.runs,
        "load_before": load,
        "costs": [asdict(one) for one in found],
        "growth_per_row": {job.name: growth(found, job.name) for job in JOBS},
    }
    print(f"\n{write_record('scale', numbers, asked.results)}")
    return 0
