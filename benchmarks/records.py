"""What a benchmark leaves behind: one JSON file per run, with the machine, the versions and the date beside the numbers."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("shoal", "duckdb", "numpy", "opendp", "pyarrow", "sqlglot")


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return {
        "system": platform.system(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9, 1),
        "python": platform.python_version(),
    }


def processor() -> str:
    """The processor by its name, where the system tells it."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """The versions of everything that takes part."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def write_record(benchmark: str, numbers: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Writes benchmarks/results/NAME-DATE.json and says where."""
    now = dt.datetime.now(dt.UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{benchmark}-{now:%Y%m%dT%H%M%S}.json"
    record = {"benchmark": benchmark, "date": now.isoformat(timespec="seconds"), "machine": machine()}
    path.write_text(json.dumps({**record, "versions": versions(), **numbers}, indent=2) + "\n", encoding="utf-8")
    return path


def replace_between(page: Path, mark: str, lines: list[str]) -> None:
    """Puts lines between `<!-- mark: begin -->` and `<!-- mark: end -->` of a page."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    head, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1], encoding="utf-8")
