"""Generated queries on a PostgreSQL server: the refusals and the integers of the embedded engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from generated import compared
from postgres_tables import write

import shoal

sys.path.append(str(Path(__file__).parent.parent / "hostile"))
import nasty_data

IN_CI = 300
CHUNK = 100


@pytest.fixture(scope="module")
def sessions(postgres_database):
    url, connection = postgres_database
    tables = nasty_data.everything_at_once()
    for name, table in tables.items():
        write(connection, name, table)
    with (
        shoal.connect(tables, catalog=nasty_data.CATALOG) as here,
        shoal.connect(url, catalog=nasty_data.CATALOG) as there,
    ):
        yield here, there


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, IN_CI, CHUNK))
def test_generated_queries_have_the_integers_of_the_embedded_engine(sessions, start):
    found = sum(compared(seed, *sessions) for seed in range(start, start + CHUNK))
    assert found > CHUNK // 10


def test_some_generated_queries_have_the_integers_of_the_embedded_engine(sessions):
    assert sum(compared(seed, *sessions) for seed in range(IN_CI, IN_CI + 20)) > 3
