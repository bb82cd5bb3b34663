"""How the cost grows with the table: the jobs of `benchmarks jobs` over 1, 10 and 50 million rows.

    python -m benchmarks scale [--rows N N …] [--runs N]

Prints seconds and how far each step is from proportional (1.00 = ten times the rows take ten times as long); writes
benchmarks/results/scale-DATE.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
from itertools import pairwise
from pathlib import Path

from benchmarks import visits
from benchmarks.jobs import CATALOG, JOBS, seconds
from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal.session import connect

ROWS, RUNS = (1_000_000, 10_000_000, 50_000_000), 3


def timings(rows: int, runs: int, data: Path) -> dict[str, float]:
    """Median seconds of every job over a table of this size; one run before warms up files and code."""
    taken = {}
    with connect(visits.database(rows, data), CATALOG) as session:
        for job in JOBS:
            session.query(job.private_sql())
            taken[job.name] = statistics.median(seconds(lambda: session.query(job.private_sql())) for _ in range(runs))  # noqa: B023 - run at once
    return taken


def growth(sizes: list[int], taken: list[dict[str, float]], job: str) -> list[float]:
    """Seconds per row, over those of the size before."""
    per_row = [times[job] / rows for rows, times in zip(sizes, taken, strict=True)]
    return [after / before for before, after in pairwise(per_row)]


def report(sizes: list[int], taken: list[dict[str, float]]) -> list[str]:
    """A table in Markdown."""
    heads = [f"{rows / 1e6:g} million rows" for rows in sizes]
    lines = [
        f"| job | {' | '.join(heads)} | cost per row, over the size before |",
        f"|---|{'---:|' * (len(heads) + 1)}",
    ]
    for job in JOBS:
        times = " | ".join(f"{times[job.name]:.2f} s" for times in taken)
        steps = ", ".join(f"{step:.2f}×" for step in growth(sizes, taken, job.name))
        lines.append(f"| {job.name} {job.title} | {times} | {steps} |")
    return lines


def main(argv: list[str]) -> int:
    """Runs all sizes, prints the table, writes the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--data", type=Path, default=visits.DATA, help="where the tables are kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/benchmarks.md")
    asked = parser.parse_args(argv)
    load = os.getloadavg()
    taken = [timings(rows, asked.runs, asked.data) for rows in asked.rows]
    shown(report(asked.rows, taken), "scale", load, write=asked.write)
    numbers = {
        "runs": asked.runs,
        "load_before": load,
        "seconds": {str(rows): times for rows, times in zip(asked.rows, taken, strict=True)},
        "growth_per_row": {job.name: growth(asked.rows, taken, job.name) for job in JOBS},
    }
    print(f"\n{write_record('scale', numbers, asked.results)}")
    return 0
