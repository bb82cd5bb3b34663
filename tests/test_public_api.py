"""The public list is tested: what a user may rely on, how fast it is there, and that nothing heavy comes with it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import version

import pytest

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


def test_the_public_list_is_this_one():
    assert sorted(shoal.__all__) == [
        "Catalog",
        "Collection",
        "Explanation",
        "InternalError",
        "Result",
        "Session",
        "ShoalError",
        "__version__",
        "aggregates",
        "anonymity",
        "audit",
        "connect",
        "definitions",
        "guarantees",
        "knowledge",
        "local",
        "meaning",
        "policy",
        "risk",
        "tuning",
    ]


@pytest.mark.parametrize("name", shoal.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    thing = getattr(shoal, name)
    assert name == "__version__" or inspect.getdoc(thing)


def test_a_name_that_is_not_public_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'connectt'"):
        _ = shoal.connectt


def test_connect_takes_what_the_documentation_says():
    assert list(inspect.signature(shoal.connect).parameters) == [
        "source",
        "catalog",
        "budget",
        "ledger",
        "accountant",
        "user",
        "token",
        "buckets",
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Session", ["query", "plan", "explain", "epsilon_for", "spent", "remaining", "tables", "close"]),
        ("Result", ["to_arrow", "to_pandas", "to_polars", "to_dicts", "intervals", "plot", "_repr_html_"]),
        ("Explanation", ["to_dict", "__str__"]),
        ("Catalog", ["from_toml", "from_dict"]),
    ],
)
def test_what_users_call_is_there(kind, names):
    assert [name for name in names if not hasattr(getattr(shoal, kind), name)] == []


def test_the_version_of_the_package_is_the_one_in_the_metadata():
    assert shoal.__version__ == version("shoal")
