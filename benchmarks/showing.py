"""A table on the screen and, when asked, on the page of benchmarks, with the machine it was measured on."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from benchmarks.records import machine, replace_between, versions

PAGE = Path(__file__).parent.parent / "docs" / "results" / "benchmarks.md"


def shown(lines: list[str], mark: str, load: tuple[float, ...], *, write: bool) -> None:
    """Prints lines; puts them between the marks of the page."""
    print("\n".join(lines))
    if write:
        replace_between(PAGE, mark, [*lines, "", where(load[0])])


def where(load: float) -> str:
    """One sentence about the machine, and one more if others were using it."""
    host, found = machine(), versions()
    packages = ", ".join(f"{name} {found[name]}" for name in ("duckdb", "numpy", "pyarrow", "opendp"))
    today = dt.datetime.now(dt.UTC).date()
    busy = " The machine was busy with other work (load average {load:.0f}): look at ratios, not at times."
    return (
        f"Measured on {today} on {host['cores']} cores ({host['processor']}, {host['memory_gb']:g} GB, {host['system']}), "
        f"Python {host['python']}, {packages}." + (busy.format(load=load) if load > host["cores"] / 2 else "")
    )
