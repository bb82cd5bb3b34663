"""A service that is killed at twelve points: no answer without a charge, nothing charged twice, every chain verifies.

The program beside it does the same a hundred times for each point: docs/results/service.md has its figures.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from service_kills import POINTS

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("service_kills.py")
AT_LEAST = 5
"""So many processes die at each point, on each store."""


STORES = [pytest.param(store, marks=pytest.mark.xdist_group(f"kills, {store}")) for store in ("file", "postgresql")]


@pytest.fixture(scope="module", params=STORES)
def killing(request, tmp_path_factory):
    """The program, started once for each store: it is told a point, and says what it found there."""
    store = request.param if request.param == "file" else new_database(request.getfixturevalue("postgres_server")[0])
    folder = tmp_path_factory.mktemp("kills")
    words = [sys.executable, str(PROGRAM), "--times", "3", "--store", store, "--folder", str(folder), "--asked"]
    complaints = folder / "complaints.txt"
    with (
        complaints.open("w") as heard,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=heard, text=True) as program,
    ):

        def at(point):
            program.stdin.write(f"{point}\n")
            program.stdin.flush()
            said = program.stdout.readline()
            assert said, complaints.read_text()
            return json.loads(said)

        yield at


def new_database(server):
    name = f"d{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.mark.parametrize("point", POINTS)
def test_a_service_that_is_killed_owes_nothing(killing, point):
    """Six at a time, three before the point and three after; a busy machine may keep one from its point, so others are sent."""
    deaths = {"before": 0, "after": 0}
    for _ in range(3):
        found = killing(point)
        assert {found[name] for name in ("unpaid", "charged twice", "changed", "never ended", "chains")} == {0}
        deaths = {when: number + found[when] for when, number in deaths.items()}
        if sum(deaths.values()) >= AT_LEAST and min(deaths.values()) >= 2:
            return
    pytest.fail(f"too few processes came to their point: {deaths}")
