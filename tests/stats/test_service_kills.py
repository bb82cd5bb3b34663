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


@pytest.fixture(params=["file", "postgresql"])
def store(request):
    if request.param == "file":
        return "file"
    server = request.getfixturevalue("postgres_server")[0]
    name = f"d{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.mark.parametrize("point", POINTS)
def test_a_service_that_is_killed_owes_nothing(store, point, tmp_path):
    """A busy machine may keep a process from its point in time, so what was not killed is tried again."""
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        command = [sys.executable, PROGRAM, "--times", "1", "--store", store, "--folder", folder, "--point", point]
        run = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
        assert run.stdout, run.stderr
        found = json.loads(run.stdout)
        assert {found[name] for name in ("unpaid", "charged twice", "changed", "never ended", "chains")} == {0}
        if found["killed"] == found["tried"] == 2:
            return
    pytest.fail("no process came to its point")
