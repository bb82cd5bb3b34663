"""Four queries over ten million rows: plain SQL, hand-written bounding in SQL, and shoal, side by side in one run.

    python -m benchmarks jobs [--rows N] [--runs N]

Prints medians and ratios, what the answers are worth beside an even Laplace split of the same (ε, δ), how long planning takes
and how much memory J1 needs; writes benchmarks/results/jobs-DATE.json. Ratios count, times are the machine's.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from benchmarks import visits
from benchmarks.even_split import Limits, even_split
from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal.mechanisms.noise import add_noise
from shoal.release.execute import fresh_sampling_key, measure, release
from shoal.session import Session, connect

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, RUNS = 10_000_000, 5
ROWS_PER_OWNER, SPEND_PER_OWNER, TOP, DRAWS = 10, 100, 100, 200
KAPPA, DELTA = 5, 1e-6
OPTIONS = f"epsilon = {{epsilon}}, delta = {DELTA}, max_groups_contributed = {KAPPA}"
EVEN = Limits(KAPPA, ROWS_PER_OWNER, SPEND_PER_OWNER, epsilon=1, delta=DELTA)
BY_SITE = "(SELECT uid AS owner, site AS key, spend AS value FROM visits)"
ALL_FOR_THE_COUNT = ", noise = LAPLACE, group_selection_strategy = LAPLACE_THRESHOLD"
"""The even split of a count that also selects: one number, which has all of ε."""
CATALOG = {
    "tables": {
        "visits": {
            "owner": "uid",
            "columns": {
                "day": {"values": [str(visits.FIRST_DAY + i) for i in range(visits.DAYS)]},
                "spend": {"bounds": [0, SPEND_PER_OWNER]},
            },
        }
    }
}


@dataclass(frozen=True)
class Job:
    """One question, asked three ways."""

    name: str
    title: str
    plain: str
    by_hand: str
    private: str
    target: float
    most: float | None = None
    """The goal beside the plain query, in processor time."""

    def private_sql(self, epsilon: float = 1, more: str = "") -> str:
        """The question for shoal."""
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({OPTIONS.format(epsilon=epsilon)}{more}) {self.private}"


def by_hand(group: str, partial: str, total: str) -> str:
    """GROUP BY owner and group; five random groups of each owner by a window; clamp; GROUP BY group."""
    return (
        f"WITH partials AS (SELECT uid, {group}, {partial} FROM visits GROUP BY uid, {group}), "
        "picked AS (SELECT *, random() AS pick FROM partials), "
        "ranked AS (SELECT *, row_number() OVER (PARTITION BY uid ORDER BY pick) AS rank FROM picked) "
        f"SELECT {group}, {total} FROM ranked WHERE rank <= {KAPPA} GROUP BY {group}"
    )


def clamped(value: str) -> str:
    """The value within the bounds."""
    return f"least(greatest({value}, 0), {SPEND_PER_OWNER})"


JOBS = (
    Job(
        "J1",
        "site: COUNT(*), SUM(spend), unknown groups",
        "SELECT site, count(*), sum(spend) FROM visits GROUP BY site",
        by_hand(
            "site",
            "count(*) AS n, sum(spend) AS s",
            f"count(*), sum(least(n, {ROWS_PER_OWNER})), sum({clamped('s')})",
        ),
        f"site, COUNT(*, contribution_bounds_per_group => (0, {ROWS_PER_OWNER})) AS n, SUM(spend) AS s "
        "FROM visits GROUP BY site",
        0.5,
        8,
    ),
    Job(
        "J2",
        "site: COUNT(DISTINCT uid), unknown groups",
        "SELECT site, count(DISTINCT uid) FROM visits GROUP BY site",
        by_hand("site", "1 AS one", "count(*)"),
        "site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site",
        0.5,
    ),
    Job(
        "J3",
        "day: MEDIAN, P95 of spend, public groups",
        "SELECT day, quantile_cont(spend, [0.5, 0.95]) FROM visits GROUP BY day",
        by_hand("day", "any_value(spend) AS x", f"quantile_cont({clamped('x')}, [0.5, 0.95])"),
        "day, MEDIAN(spend) AS median, PERCENTILE_CONT(spend, 0.95) AS p95 FROM visits GROUP BY day",
        1.0,
        4,
    ),
    Job(
        "J4",
        "day: AVG, VAR of spend, public groups",
        "SELECT day, avg(spend), var_samp(spend) FROM visits GROUP BY day",
        by_hand("day", "avg(spend) AS a, any_value(spend) AS x", f"avg({clamped('a')}), var_samp({clamped('x')})"),
        "day, AVG(spend) AS mean, VARIANCE(spend) AS variance FROM visits GROUP BY day",
        1.0,
        15,
    ),
)


@dataclass(frozen=True)
class Timing:
    """Median seconds of the three sides, planning in milliseconds, and the least processor seconds of two sides."""

    job: str
    plain: float
    by_hand: float
    shoal: float
    planning_ms: float
    target: float
    plain_processor: float
    shoal_processor: float
    most: float | None

    @property
    def over_plain(self) -> float:
        """Processor time over that of the query without any protection."""
        return self.shoal_processor / self.plain_processor

    @property
    def ratio(self) -> float:
        """Shoal over hand-written SQL."""
        return self.shoal / self.by_hand


@dataclass(frozen=True)
class Utility:
    """What the answers are worth, beside an even Laplace split of the same (ε, δ)."""

    job: str
    sites: float
    even_sites: float
    error: float
    even_error: float

    @property
    def gain(self) -> float:
        """Sites released, over those of the even split."""
        return self.sites / max(self.even_sites, 1)


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    return both_clocks(action)[0]


def both_clocks(action: Callable[[], object]) -> tuple[float, float]:
    """How long it takes by the clock, and in processor time of all threads."""
    clock, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - processor


def timing(job: Job, connection: duckdb.DuckDBPyConnection, session: Session, runs: int) -> Timing:
    """All sides in turn, so that a busy machine disturbs them alike."""
    sides = {
        "plain": lambda: connection.sql(job.plain).to_arrow_table(),
        "by_hand": lambda: connection.sql(job.by_hand).to_arrow_table(),
        "shoal": lambda: session.query(job.private_sql()),
    }
    taken: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for _ in range(runs):
        for side, action in sides.items():
            taken[side].append(both_clocks(action))
    # once more without the hand-written query, which leaves memory in pieces: taking large ones is then charged to whoever is next
    for _ in range(runs):
        for side in ("plain", "shoal"):
            taken[side].append(both_clocks(sides[side]))
    # parameters that were not planned before: nothing is remembered but what every plan shares
    planning = [seconds(lambda i=i: session.plan(job.private_sql(1 + i / 97))) for i in range(1, 8)]
    medians = {side: statistics.median(clock for clock, _ in times[:runs]) for side, times in taken.items()}
    least = {f"{side}_processor": min(processor for _, processor in taken[side]) for side in ("plain", "shoal")}
    planning_ms = 1000 * statistics.median(planning)
    return Timing(job.name, **medians, planning_ms=planning_ms, target=job.target, **least, most=job.most)


def utility(job: Job, connection: duckdb.DuckDBPyConnection, session: Session, runs: int) -> Utility:
    """Sites and the median relative error of the first aggregate on the largest sites, against the bounded truth."""
    ours = [answered(session, job.private_sql()) for _ in range(runs)]
    if "SUM(" in job.private:
        even = [split_evenly(connection) for _ in range(runs)]
    else:
        even = [answered(session, job.private_sql(more=ALL_FOR_THE_COUNT)) for _ in range(runs)]
    sites, even_sites = (statistics.median(count for count, _ in side) for side in (ours, even))
    error, even_error = (float(np.median(np.concatenate([errors for _, errors in side]))) for side in (ours, even))
    return Utility(job.name, sites, even_sites, error, even_error)


def answered(session: Session, sql: str) -> tuple[int, np.ndarray]:
    """One run, looked at from inside: how many sites, and how far off the largest are, their noise drawn many times."""
    (plan,) = session.plan(sql).selects
    measured = measure(plan, session._engine, fresh_sampling_key())  # noqa: SLF001 - the bounded truth is not public
    sites = release(plan, measured).table.num_rows
    noise = measured.noises[0]
    # In steps of the noise's own grid, as the engine counts them.
    truth = np.sort(np.asarray(measured.measurement.totals[0], dtype=np.int64))[-TOP:]
    largest = np.tile(truth, DRAWS)
    return sites, np.abs(add_noise(noise, largest) - largest).astype(np.float64) / largest


def split_evenly(connection: duckdb.DuckDBPyConnection) -> tuple[int, np.ndarray]:
    """The same for ε/3 each for count, sum and selection, by hand."""
    sites = len(even_split(BY_SITE, EVEN, connection))
    (top,) = (
        connection.sql(f"SELECT n FROM ({JOBS[0].by_hand}) AS t(site, owners, n, s) ORDER BY n DESC LIMIT {TOP}")
        .fetchnumpy()
        .values()
    )
    largest = np.tile(np.asarray(top, dtype=np.float64), DRAWS)
    off = np.random.default_rng().laplace(scale=ROWS_PER_OWNER * EVEN.scale, size=len(largest))
    return sites, np.abs(off) / largest


def peak_memory(rows: int, data: Path) -> float:
    """Gigabytes that a process of its own needs at most to answer J1."""
    command = [sys.executable, "-m", "benchmarks", "jobs", "--rows", str(rows), "--data", str(data), "--peak"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    return float(done.stdout)


def answer_once(path: Path) -> float:
    """Answers J1 and tells the largest resident size so far, in gigabytes."""
    with connect(path, CATALOG) as session:
        session.query(JOBS[0].private_sql())
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would include the process that started this one
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)


def times(timings: list[Timing], peak: float) -> list[str]:
    """Tables of how long it took, in Markdown."""
    titles = {job.name: job.title for job in JOBS}
    lines = [
        "| job | plain DuckDB | hand-written SQL | shoal | shoal / hand-written | goal | planning |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {t.job} {titles[t.job]} | {t.plain:.2f} s | {t.by_hand:.2f} s | {t.shoal:.2f} s "
        f"| **{t.ratio:.2f}×** | ≤ {t.target:g}× | {t.planning_ms:.0f} ms |"
        for t in timings
    ]
    lines += [
        "",
        "| job, in processor seconds | plain DuckDB | shoal | shoal / plain | goal |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {t.job} | {t.plain_processor:.3f} s | {t.shoal_processor:.2f} s | **{t.over_plain:.1f}×** "
        f"| {f'≤ {t.most:g}×' if t.most is not None else ''} |"
        for t in timings
    ]
    return [*lines, "", f"Peak memory of J1: {peak:.2f} GB."]


def worth(utilities: list[Utility]) -> list[str]:
    """A table of what the answers are worth."""
    lines = [
        f"| job | sites released | even Laplace split | gain | median error of the top {TOP} | even Laplace split |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {u.job} | {u.sites:,.0f} | {u.even_sites:,.0f} | **{u.gain:.2f}×** | {u.error:.3%} | {u.even_error:.3%} |"
        for u in utilities
    ]
    return lines


def measured_jobs(asked: argparse.Namespace) -> tuple[list[Timing], list[Utility]]:
    """Timings of all jobs, unless nobody wants them, and utility of those with unknown groups."""
    path = visits.database(asked.rows, asked.data)
    chosen = [job for job in JOBS if job.name in asked.jobs]
    with duckdb.connect(str(path), read_only=True) as connection, connect(path, CATALOG) as session:
        timings = [] if asked.only_utility else [timing(job, connection, session, asked.runs) for job in chosen]
        unknown = [job for job in chosen if "unknown groups" in job.title]
        return timings, [utility(job, connection, session, asked.runs) for job in unknown]


def options(argv: list[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks jobs", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=RUNS)
    names = [job.name for job in JOBS]
    parser.add_argument("--jobs", nargs="+", default=names, choices=names, metavar="J", help=", ".join(names))
    parser.add_argument("--data", type=Path, default=visits.DATA, help="where the table is kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/benchmarks.md")
    parser.add_argument("--only-utility", action="store_true", help="what the answers are worth, without any timing")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Runs the jobs, prints tables, writes the record."""
    asked = options(argv)
    if asked.peak:
        print(answer_once(visits.database(asked.rows, asked.data)))
        return 0
    load = os.getloadavg()
    timings, utilities = measured_jobs(asked)
    peak = None if asked.only_utility else peak_memory(asked.rows, asked.data)
    if peak is not None:
        shown(times(timings, peak), "jobs", load, write=asked.write)
    print()
    shown(worth(utilities), "worth", load, write=asked.write)
    numbers: dict[str, Any] = {
        "rows": asked.rows,
        "runs": asked.runs,
        "load_before": load,
        "jobs": [{**asdict(t), "ratio": t.ratio, "over_plain": t.over_plain} for t in timings],
        "utility": [{**asdict(u), "gain": u.gain} for u in utilities],
        "peak_memory_gb": peak,
    }
    print(f"\n{write_record('jobs', numbers, asked.results)}")
    return 0
