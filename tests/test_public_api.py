"""The public list is tested: what a user may rely on, how fast it is there, and that nothing heavy comes with it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import shoal


def run_python(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)


def seconds_to_import() -> float:
    """The cumulative time of `import shoal` as the interpreter itself counts it."""
    report = run_python("import shoal", "-X", "importtime").stderr
    line = next(line for line in report.splitlines() if line.endswith("| shoal"))
    return int(line.split("|")[1]) / 1e6


def test_import_takes_less_than_half_a_second():
    # The best of three: the machine may be busy, the program is not slower for it.
    assert min(seconds_to_import() for _ in range(3)) < 0.5


def test_import_loads_nothing_heavy_or_optional():
    heavy = ["dp_accounting", "scipy", "pandas", "polars", "matplotlib", "typer"]
    loaded = run_python(f"import sys, shoal; print([name for name in {heavy} if name in sys.modules])").stdout
    assert loaded.strip() == "[]"


def test_the_version_is_the_installed_one():
    reported = subprocess.run(
        [sys.executable, "-m", "shoal", "--version"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert reported.stdout.strip() == f"shoal {version('shoal')}"


def test_the_package_says_what_it_is():
    assert shoal.__doc__
