"""One job on other libraries and on shoal: COUNT(*) and SUM(spend) by site, five sites per owner, ε = 1, δ = 10⁻⁶.

    python -m benchmarks peers [--rows 500000] [--write]

Optional: makes an environment of its own under benchmarks/data/ and installs OpenDP's Polars API, PipelineDP and diffprivlib
there. A library that cannot be installed or run is named as such, and the rest is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks import visits
from benchmarks.jobs import CATALOG, JOBS
from benchmarks.records import FOLDER, replace_between, write_record
from benchmarks.showing import where
from shoal.session import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENT = visits.DATA / "peers-environment"
PAGE = Path(__file__).parent.parent / "docs" / "results" / "peers.md"
SCRIPTS = Path(__file__).parent / "peer_jobs"
TOP = 100
PATIENCE = 900
HEADER = [
    "| library | seconds | sites released | of the top 100 | median count error of those | note |",
    "|---|---:|---:|---:|---:|---|",
]


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, what to install for it, and what the comparison cannot say."""

    name: str
    packages: tuple[str, ...]
    script: str
    note: str


PEERS = (
    Peer("OpenDP, Polars API", ("opendp[polars]",), "opendp_polars.py", "the first sites of an owner, not random ones"),
    Peer("PipelineDP, local", ("pipeline-dp", "polars"), "pipelinedp_local.py", "Gaussian noise"),
    Peer(
        "diffprivlib",
        ("diffprivlib", "scikit-learn<1.6", "polars"),
        "diffprivlib_by_hand.py",
        "bounding by hand; all sites must be public",
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What one library gave; `failure` says why there is nothing."""

    library: str
    note: str
    seconds: float | None = None
    sites: int | None = None
    top_released: int | None = None
    error: float | None = None
    failure: str | None = None


def main(argv: list[str] | None = None) -> int:
    """Installs, runs, compares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the table")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/peers.md")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON record goes")
    arguments = parser.parse_args(argv)
    load = os.getloadavg()[0]
    database = visits.database(arguments.rows)
    table, truth = database.with_suffix("") / "visits.parquet", bounded_truth(database)
    table.parent.mkdir(exist_ok=True)
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.execute(f"COPY visits TO '{table}'")
    print("\n".join(HEADER))
    results = [shown(run_shoal(table, truth)), *(shown(run_peer(peer, table, truth)) for peer in PEERS)]
    if arguments.write:
        replace_between(PAGE, "table", [*HEADER, *(line(one) for one in results), "", where(load)])
    numbers = {"rows": arguments.rows, "load_average": load, "results": [asdict(one) for one in results]}
    print(f"written: {write_record('peers', numbers, arguments.results)}")
    return 0


def bounded_truth(database: Path) -> dict[int, float]:
    """Exact counts after bounding: what noise and selection are held against. Which five sites of an owner is chance."""
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute(JOBS[0].by_hand).fetchall()
    return {int(site): float(count) for site, _, count, _ in rows}


def run_shoal(table: Path, truth: Mapping[int, float]) -> Result:
    """The same file, the same question."""
    began = time.perf_counter()
    with connect(table, catalog=CATALOG) as session:
        rows = session.query(JOBS[0].private_sql()).to_dicts()
    seconds = time.perf_counter() - began
    return judged("shoal", "the planner's choice", seconds, {row["site"]: row["n"] for row in rows}, truth)


def run_peer(peer: Peer, table: Path, truth: Mapping[int, float]) -> Result:
    """Installs and runs one library in the environment of its own."""
    try:
        install(peer.packages)
        command = [str(python()), str(SCRIPTS / peer.script), str(table)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (subprocess.SubprocessError, OSError) as problem:
        return Result(peer.name, peer.note, failure=reason(problem))
    answer = json.loads(done.stdout.splitlines()[-1])
    counts = {int(site): float(count) for site, count in answer["counts"].items()}
    return judged(peer.name, peer.note, answer["seconds"], counts, truth)


def reason(problem: Exception) -> str:
    """The last line that a failed command wrote."""
    said = getattr(problem, "stderr", None) or str(problem)
    lines = [line for line in str(said).strip().splitlines() if line.strip()]
    return lines[-1].partition(" (/")[0][:200] if lines else type(problem).__name__


def python() -> Path:
    """The interpreter of the peers' environment, made where it is missing."""
    folder = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin")
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, capture_output=True, text=True)
    return folder / "python"


def install(packages: tuple[str, ...]) -> None:
    """Only what is missing is fetched."""
    command = [str(python()), "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)


def judged(library: str, note: str, seconds: float, counts: Mapping[int, float], truth: Mapping[int, float]) -> Result:
    """Sites released, and the error of the largest ones among them."""
    top = [site for site in sorted(truth, key=lambda site: -truth[site])[:TOP] if site in counts]
    errors = [abs(counts[site] - truth[site]) / truth[site] for site in top]
    error = statistics.median(errors) if errors else None
    return Result(library, note, seconds, len(counts), len(top), error)


def shown(result: Result) -> Result:
    """Prints a line as soon as it is known."""
    print(line(result), flush=True)
    return result


def line(result: Result) -> str:
    """One line of the table."""
    if result.failure is not None:
        return f"| {result.library} | – | – | – | – | could not be run: {result.failure} |"
    error = "–" if result.error is None else f"{100 * result.error:.0f}%"
    numbers = f"{result.seconds:.1f} | {result.sites:,} | {result.top_released} | {error}"
    return f"| {result.library} | {numbers} | {result.note} |"
