"""Speed beside pycanon and anjana, and memory on tables of millions of rows; each side in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from benchmarks import visits

if TYPE_CHECKING:
    from collections.abc import Sequence

ENVIRONMENT = visits.DATA / "anonymity-environment"
PEERS = ("pycanon==1.3.5", "anjana==1.2.3")
SCRIPTS = Path(__file__).parent.parent / "peer_jobs"
PATIENCE = 1800


@dataclass(frozen=True)
class Timed:
    """One job on one side."""

    job: str
    who: str
    seconds: float | None
    memory_mb: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, object]:
        """For the record."""
        return asdict(self)


def timed(folder: Path, times: int, *, peers: bool) -> list[Timed]:
    """Every job, ours and theirs, one after the other, on copies of the data that are gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        return _all_jobs(folder, Path(place), times, peers=peers)


def _all_jobs(folder: Path, place: Path, times: int, *, peers: bool) -> list[Timed]:
    small, ten, many = (_copies(folder, place, count) for count in (1, 10, times))
    jobs: list[tuple[str, str, Path]] = [
        ("measure three columns and a sensitive one, 301,620 rows", "three", ten),
        ("measure seven columns and a sensitive one, 30,162 rows", "seven", small),
        ("recode seven columns, 5% suppressed, 30,162 rows", "recode", small),
    ]
    found = []
    for what, job, path in jobs:
        found.append(_shown(_ours(what, job, path, folder)))
        if peers:
            found.append(_shown(_theirs(what, job, path, folder)))
    rows = 30_162 * times
    found.append(_shown(_ours(f"measure seven columns and a sensitive one, {rows:,} rows", "seven", many, folder)))
    found.append(_shown(_ours(f"recode seven columns, 5% suppressed, {rows:,} rows", "recode", many, folder)))
    found.append(_shown(_ours("nine recodings of nine columns, 30,162 rows", "nine", small, folder)))
    return found


def _copies(folder: Path, place: Path, times: int) -> Path:
    """The data so many times over, as parquet."""
    path = place / f"adult-{times}.parquet"
    table = pa_csv.read_csv(folder / "adult.csv", parse_options=pa_csv.ParseOptions(delimiter=";"))
    pq.write_table(pa.concat_tables([table] * times), path)
    return path


def _run(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _ours(what: str, job: str, path: Path, folder: Path) -> Timed:
    answer = _run([sys.executable, "-m", "benchmarks.anonymity.job", job, str(path), str(folder)])
    return Timed(what, "shoal", answer["seconds"], answer["memory_mb"], answer["note"])


def _theirs(what: str, job: str, path: Path, folder: Path) -> Timed:
    name = "anjana 1.2.3" if job == "recode" else "pycanon 1.3.5"
    script = "anjana_recoding.py" if job == "recode" else "pycanon_measures.py"
    try:
        answer = _run([str(_python()), str(SCRIPTS / script), job, str(path), str(folder)])
    except (subprocess.SubprocessError, OSError) as problem:
        said = (getattr(problem, "stderr", None) or str(problem)).strip().splitlines()
        return Timed(what, name, None, None, f"could not be run: {said[-1][:120] if said else 'no reason given'}")
    return Timed(what, name, answer["seconds"], answer["memory_mb"], answer["note"])


def _python() -> Path:
    """The interpreter of the peers' environment, made where it is missing."""
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, capture_output=True, text=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *PEERS, "pyarrow"]
        subprocess.run(install, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return python


def _shown(line: Timed) -> Timed:
    print(f"{line.job}: {line.who} {'–' if line.seconds is None else f'{line.seconds:.2f} s'} {line.note}", flush=True)
    return line


def table(lines: Sequence[Timed]) -> list[str]:
    """The table of the page."""
    head = ["| job | | seconds | peak memory | |", "|---|---|---:|---:|---|"]
    return [*head, *(_row(line) for line in lines)]


def _row(line: Timed) -> str:
    seconds = "–" if line.seconds is None else f"{line.seconds:.2f}"
    memory = "–" if line.memory_mb is None else f"{line.memory_mb:,.0f} MB"
    return f"| {line.job} | {line.who} | {seconds} | {memory} | {line.note} |"
