"""The engine's memory limit is the limit: rows come in batches that are small beside it, however long their texts are.

A process of its own for each query, because a peak is never forgotten. Without small batches the same queries hold all rows at
once, 900 MB and more, under a limit of 200.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_MB = 200
ROWS, LENGTH = 16_000, 60_000
"""960 MB of texts."""
ALLOWED_MB = 4 * LIMIT_MB
"""What the engine holds, our share beside it, and for each of two threads a batch of 2,048 such texts (120 MB) and its copy."""

CHILD = """
import json, re, sys
from pathlib import Path
import duckdb, shoal

def peak_mb():
    # Not ru_maxrss: that of a new program begins with the peak of the process that started it.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

path, expression, limit = sys.argv[1:]
connection = duckdb.connect(path, config={"memory_limit": limit, "temp_directory": "", "threads": "2"})
session = shoal.connect(connection, catalog={"tables": {"notes": {"owner": "uid"}}})
session.query("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(DISTINCT uid) AS n FROM notes")
before = peak_mb()
sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, kappa=1) COUNT(DISTINCT %s) AS n FROM notes" % expression
try:
    session.query(sql)
    said = "answered"
except shoal.ShoalError as error:
    said = error.code
print(json.dumps({"said": said, "grew": peak_mb() - before}))
"""
MAKE = f"""
import sys, duckdb
with duckdb.connect(sys.argv[1]) as connection:
    connection.execute("CREATE TABLE notes (uid BIGINT, word VARCHAR, body VARCHAR)")
    for start in range(0, {ROWS}, 2000):
        text = "repeat('x', {LENGTH}) || i" if sys.argv[2] == "stored" else "'x'"
        connection.execute(
            f"INSERT INTO notes SELECT i % 50, 'w' || i, {{text}} FROM range({{start}}, {{start}} + 2000) AS r(i)"
        )
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read off Linux's /proc")
@pytest.mark.parametrize(
    ("kind", "expression"), [("stored", "body"), ("made", "REPEAT(REPEAT('abcdefg' || word, 50), 100)")]
)
def test_rows_with_long_texts_take_no_more_than_the_limit_allows(tmp_path, kind, expression):
    path = str(tmp_path / "notes.duckdb")
    subprocess.run([sys.executable, "-c", MAKE, path, kind], check=True)
    words = [sys.executable, "-c", CHILD, path, expression, f"{LIMIT_MB}MB"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert found["said"] in {"answered", "E_EXECUTION"}
    assert LIMIT_MB / 4 < found["grew"] < ALLOWED_MB, "rows were held that the limit has no room for"
