"""Groups released and median errors beside OpenDP, PipelineDP and the even split, on our table and on files of your own.

    python -m benchmarks comparison [--data FOLDER] [--questions FILE] [--runs 5] [--write]

Every question is COUNT(*) and SUM(value) by an unknown key, ε = 1, δ = 10⁻⁶, limits alike for all. Questions about
FOLDER are in a TOML file (default: comparison.toml beside this script, for ten public data sets). Only figures leave the folder.
Errors are distances from what the limits leave on average: an owner in d groups counts κ/d in each of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow.parquet as pq

from benchmarks import peers, visits
from benchmarks.even_split import Limits, even_split
from benchmarks.records import FOLDER, replace_between, write_record
from benchmarks.showing import where
from shoal.session import connect

PAGE = Path(__file__).parent.parent / "docs" / "results" / "comparison.md"
QUESTIONS = Path(__file__).with_suffix(".toml")
EPSILON, DELTA, ROWS = 1.0, 1e-6, 500_000
PATIENCE = 4 * 3600
MANY_GROUPS = 100
OWN_TIMES = 20
"""How much more often shoal and the even split are asked: they take a tenth of the time, and are the closest to each other."""
EVEN = "even split"
INSTALLING = Lock()
OWN = {
    "name": "the benchmark's table: by site",
    "sql": "SELECT uid AS owner, site AS key, spend AS value FROM visits",
    "kappa": 5,
    "rows": 10,
    "upper": 100,
}
LIBRARIES = (
    ("OpenDP", ("opendp[polars]",), "opendp_groups.py"),
    ("PipelineDP", ("pipeline-dp", "polars"), "pipelinedp_groups.py"),
)
TRUTH = """
SELECT key, sum(n * part), sum(s * part) FROM (
    SELECT key, least(count(*), {rows}) AS n, least(greatest(sum(value), 0), {upper}) AS s,
        least(1, {kappa} / count(*) OVER (PARTITION BY owner)) AS part
    FROM '{table}' GROUP BY owner, key) GROUP BY key
"""
Answer = Mapping[str, Sequence[float]]
"""Count and sum of every group that is shown; nothing beside a name where only names were asked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """Rows of (owner, key, value) in a file, the limits, and the exact counts."""

    name: str
    table: str
    kappa: int
    rows: int
    upper: float
    owners: int
    truth: Answer
    names_only: bool = False

    def sql(self) -> str:
        """As it is asked here."""
        limits = f"epsilon = {EPSILON}, delta = {DELTA}, max_groups_contributed = {self.kappa}"
        if self.names_only:
            return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({limits}) key FROM t GROUP BY key"
        bounds = "contribution_bounds_per_group => (0, {})"
        return (
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({limits}) key, COUNT(*, {bounds.format(self.rows)}) AS n, "
            f"SUM(value, {bounds.format(self.upper)}) AS s FROM t GROUP BY key"
        )

    def asked(self, runs: int) -> int:
        """How often it is asked: with few groups more often, so that a median is one of many errors."""
        return runs * max(1, math.ceil(MANY_GROUPS / len(self.truth)))

    def asked_of_us(self, runs: int) -> int:
        """How often shoal and the even split are asked."""
        return max(self.asked(runs), runs * OWN_TIMES)

    def for_peers(self, runs: int) -> dict[str, Any]:
        """As another library is told."""
        limits = {"table": self.table, "kappa": self.kappa, "rows": self.rows, "upper": self.upper}
        limits["runs"] = self.asked(runs)
        public = {"most_groups": 2 * len(self.truth) + 10, "most_rows": 10_000_000}
        return limits | public | {"epsilon": EPSILON, "delta": DELTA, "names_only": self.names_only}


@dataclass(frozen=True, slots=True)
class Figures:
    """Groups shown, on average over runs, and the median errors of their counts and sums; `failure` says why there are none."""

    groups: float | None = None
    errors: tuple[float, ...] = ()
    failure: str | None = None

    def __str__(self) -> str:
        if self.groups is None:
            return "–"
        return " · ".join([f"{self.groups:,.0f}", *(f"{error:,.{0 if error >= 10 else 1}f}" for error in self.errors)])


@dataclass(frozen=True, slots=True)
class Line:
    """One question, answered by everybody."""

    question: str
    owners: int
    groups: int
    limits: str
    figures: Mapping[str, Figures]

    def __str__(self) -> str:
        cells = " | ".join(str(each) for each in self.figures.values())
        return f"| {self.question} | {self.owners:,} | {self.groups:,} | {self.limits} | {cells} |"


def main(argv: list[str] | None = None) -> int:
    """Asks everybody, prints and writes the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks comparison", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of Parquet files; without it, the benchmark's table alone")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, help="a TOML file of questions about the folder")
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        help="how often every library is asked; shoal and the even split twenty times as often",
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the benchmark's table")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/comparison.md")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON record goes")
    asked = parser.parse_args(argv)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        questions = read_questions(asked, Path(folder))
        lines = compared(questions, asked.runs, Path(folder))
    table = [*header(), *map(str, lines)]
    print("\n".join(table))
    failures = failed(lines)
    print("\n".join(failures))
    if asked.write:
        replace_between(PAGE, "table", [*table, "", *failures, where(load)])
    numbers = {"runs": asked.runs, "load_average": load, "lines": [asdict(line) for line in lines]}
    print(f"written: {write_record('comparison', numbers, asked.results)}")
    return 0


def header() -> list[str]:
    """The first two lines of the table."""
    names = ["shoal", EVEN, *(name for name, _, _ in LIBRARIES)]
    titles = [
        "question",
        "owners",
        "groups",
        "groups per owner × rows",
        *(f"{name}: shown · count · sum" for name in names),
    ]
    return [f"| {' | '.join(titles)} |", f"|---|---:|---:|---:|{'---:|' * len(names)}"]


def read_questions(asked: argparse.Namespace, folder: Path) -> list[Question]:
    """All questions, their rows written to files of their own."""
    with duckdb.connect(str(visits.database(asked.rows)), read_only=True) as database:
        found = [materialised(database, OWN, OWN["sql"], folder / "0.parquet")]
    if asked.data is None:
        return found
    with duckdb.connect() as database:
        for number, one in enumerate(tomllib.loads(asked.questions.read_text(encoding="utf-8"))["question"], start=1):
            sql = one["sql"].replace("{folder}", str(asked.data))
            found.append(materialised(database, one, sql, folder / f"{number}.parquet"))
    return found


def materialised(database: duckdb.DuckDBPyConnection, one: Mapping[str, Any], sql: str, path: Path) -> Question:
    """The rows of a question, and what is true about them."""
    rows = (
        f"SELECT owner, CAST(key AS VARCHAR) AS key, CAST(value AS DOUBLE) AS value FROM ({sql}) WHERE key IS NOT NULL"
    )
    database.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    limits = {"rows": one["rows"], "upper": one["upper"], "kappa": float(one["kappa"]), "table": path}
    truth = {
        key: (float(count), float(total)) for key, count, total in database.execute(TRUTH.format(**limits)).fetchall()
    }
    owners = database.execute(f"SELECT count(DISTINCT owner) FROM '{path}'").fetchall()[0][0]
    return Question(
        one["name"], str(path), one["kappa"], one["rows"], one["upper"], owners, truth, one.get("names_only", False)
    )


def compared(questions: Sequence[Question], runs: int, folder: Path) -> list[Line]:
    """Everybody's figures for every question. All are asked at once: errors are compared, not times."""
    ways: dict[str, Callable[[Question, int], list[Answer]]] = {"shoal": run_shoal, EVEN: run_even_split}
    asked = folder / "questions.json"
    asked.write_text(json.dumps([question.for_peers(runs) for question in questions]), encoding="utf-8")

    def of_ours(name: str) -> list[Figures]:
        return [judged(ways[name](question, runs), question.truth) for question in questions]

    with ThreadPoolExecutor() as pool:
        started = {name: pool.submit(of_ours, name) for name in ways}
        for name, packages, script in LIBRARIES:
            started[name] = pool.submit(run_library, packages, script, questions, asked)
        everybody = {name: future.result() for name, future in started.items()}
    return [
        Line(
            q.name,
            q.owners,
            len(q.truth),
            f"{q.kappa} × {q.rows}",
            {name: figures[place] for name, figures in everybody.items()},
        )
        for place, q in enumerate(questions)
    ]


def run_shoal(question: Question, runs: int) -> list[Answer]:
    """The planner's choice."""
    catalog = {"tables": {"t": {"owner": "owner"}}}
    with connect({"t": pq.read_table(question.table)}, catalog=catalog) as session:
        answers = [session.query(question.sql()).to_dicts() for _ in range(question.asked_of_us(runs))]
    return [{row["key"]: [row["n"], row["s"]] if "n" in row else [] for row in rows} for rows in answers]


def run_even_split(question: Question, runs: int) -> list[Answer]:
    """A third of ε for each of count, sum and selection."""
    limits = Limits(question.kappa, question.rows, question.upper, EPSILON, DELTA, names_only=question.names_only)
    return [even_split(f"'{question.table}'", limits) for _ in range(question.asked_of_us(runs))]


def run_library(packages: tuple[str, ...], script: str, questions: Sequence[Question], asked: Path) -> list[Figures]:
    """One library in the environment of its own."""
    try:
        with INSTALLING:
            peers.install(packages)
        command = [str(peers.python()), str(peers.SCRIPTS / script), str(asked)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (subprocess.SubprocessError, OSError) as problem:
        return [Figures(failure=peers.reason(problem))] * len(questions)
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        Figures(failure=one["failure"]) if "failure" in one else judged(one["answers"], question.truth)
        for one, question in zip(found, questions, strict=True)
    ]


def judged(answers: Sequence[Answer], truth: Answer) -> Figures:
    """Groups shown on average, and the median distances of their counts and sums from the exact ones, over all runs."""
    told = [
        [abs(number - exact) for number, exact in zip(numbers, truth.get(key, (0.0, 0.0)), strict=False)]
        for answer in answers
        for key, numbers in answer.items()
    ]
    errors = tuple(median_error(column) for column in zip(*told, strict=True))
    return Figures(statistics.mean(len(answer) for answer in answers), errors)


def median_error(errors: Sequence[float]) -> float:
    """The median; of whole numbers one that is interpolated between them, so that 1.1 and 1.4 are not both 1."""
    if all(float(error).is_integer() for error in errors):
        return max(0.0, statistics.median_grouped(errors))
    return statistics.median(errors)


def failed(lines: Sequence[Line]) -> list[str]:
    """What could not be run, once for each reason."""
    said = {
        f"{name} could not answer {line.question}: {figures.failure}."
        for line in lines
        for name, figures in line.figures.items()
        if figures.failure is not None
    }
    return sorted(said)
