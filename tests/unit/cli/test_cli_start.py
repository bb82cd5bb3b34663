"""What the program loads before it answers: how long that takes is measured by `python -m benchmarks latency`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("in_shop")

SITES = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3)
  site, COUNT(DISTINCT uid) AS customers FROM visits GROUP BY site ORDER BY site"""

NEVER = {"scipy", "pandas", "polars", "matplotlib", "dp_accounting", "hypothesis", "pytest", "IPython"}
ENGINES = {"duckdb", "sqlglot", "pyarrow", "opendp", "numpy"}
OTHER_VERBS = {"shoal.audit", "shoal.risk", "shoal.datasets"}
FILES_OF_OTHER_KINDS = {"pyarrow.parquet", "pyarrow.dataset", "pyarrow.orc", "pyarrow.flight"}

PROGRAM = """
import atexit, os, sys
atexit.register(lambda: os.write(2, "\\n".join(sys.modules).encode()))
from shoal.cli.main import program
program()
"""


def loaded(*words: str, **environment: str) -> set[str]:
    """Names of the modules that a process had loaded when it ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout
    return set(done.stderr.splitlines())


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_query_loads_what_it_needs_and_nothing_else(form):
    found = loaded("query", SITES, "--db", "data/", "--format", form)
    assert found >= ENGINES
    assert not found & (NEVER | OTHER_VERBS | FILES_OF_OTHER_KINDS | {"rich", "asyncio.events", "ssl"})


def test_asyncio_is_whole_once_somebody_uses_it():
    code = "import sys; from shoal.cli import main; main.run = lambda: None; main.program(); import asyncio; "
    read = "print('asyncio.events' in sys.modules, asyncio.run(asyncio.sleep(0, 7)), 'asyncio.events' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + read, "query"], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "7", "True"]


@pytest.mark.parametrize(
    ("words", "status"),
    [(("query", SITES, "--db", "data/"), 0), (("query", "SELECT"), 2), (("serve", "--host", "192.0.2.1"), 2)],
)
def test_the_program_ends_without_taking_itself_apart_and_does_what_was_left_for_the_end(words, status):
    code = (
        "import atexit, sys\n"
        "class Loaded:\n    def __del__(self): print('taken apart', file=sys.stderr)\n"
        "sys.modules['held'] = Loaded()\natexit.register(print, 'at the end')\n"
        "from shoal.cli.main import program\nprogram()"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], check=False, capture_output=True, text=True)
    assert done.returncode == status
    assert done.stdout.endswith("at the end\n")
    assert "taken apart" not in done.stderr


def test_no_dialect_of_sql_and_no_generator_is_loaded():
    found = loaded("query", SITES, "--db", "data/", "--format", "csv")
    dialects = {name.removeprefix("sqlglot.dialects.") for name in found if name.startswith("sqlglot.dialects.")}
    assert dialects == {"dialect"}
    assert not found & {"sqlglot.generators.duckdb", "numpy.ma"}


def test_an_explanation_draws_no_noise_and_loads_no_sampler():
    found = loaded("explain", SITES)
    assert not found & (NEVER | OTHER_VERBS | FILES_OF_OTHER_KINDS | {"opendp", "rich"})


def test_help_and_completion_load_no_engine():
    unwanted = NEVER | ENGINES | OTHER_VERBS
    assert not loaded("--help") & unwanted
    assert not loaded("query", "--help") & unwanted
    assert not loaded(_SHOAL_COMPLETE="complete_bash", COMP_WORDS="shoal qu", COMP_CWORD="1") & unwanted
    assert not loaded(_SHOAL_COMPLETE="source_bash") & unwanted


@pytest.mark.parametrize(("verb", "threads"), [("query", "1"), ("attack", "None")])
def test_linear_algebra_gets_threads_only_where_there_is_some(verb, threads):
    seen = "main.run = lambda: print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    code = f"import os; from shoal.cli import main; {seen}; main.program()"
    free = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code, verb], env=free, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == threads
