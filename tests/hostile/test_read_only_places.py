"""File systems that cannot be written to: a sentence that says what to do, or an answer; nothing is charged without one.

Tests may run as root, who writes into any folder whatever its permissions. So each runs a process of its own in a mount namespace,
in which some folders are mounted read-only. That works for everybody where the system lets users have namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal

CATALOG = "[tables.t]\nowner = 'uid'\n"
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1) COUNT(*) AS n FROM t"
ROWS = 1_000


def can_mount():
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    tried = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        "mount --bind /usr /usr && mount -o remount,bind,ro /usr",
    ]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_mount(), reason="this system lets nobody mount a folder read-only")


@pytest.fixture
def shop(tmp_path):
    """Data in two forms, a ledger with a budget, and folders for everything else."""
    table = pa.table({"uid": np.arange(ROWS), "x": np.arange(ROWS) % 7})
    for name in ("data", "ledgers", "here", "temporary", "cache", "out"):
        (tmp_path / name).mkdir()
    pq.write_table(table, tmp_path / "data" / "t.parquet")
    with duckdb.connect(tmp_path / "data" / "d.duckdb") as connection:
        connection.register("frame", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    (tmp_path / "shoal.toml").write_text(CATALOG)
    return tmp_path


def run(shop, arguments, read_only, **env):
    """A process in which some folders of the shop cannot be written to; its working folder is `here`."""
    mounts = "".join(f"mount --bind {place} {place} && mount -o remount,bind,ro {place} && " for place in read_only)
    settings = {"TMPDIR": str(shop / "temporary"), "XDG_CACHE_HOME": str(shop / "cache"), **env}
    return subprocess.run(
        [
            "unshare",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            f'{mounts} cd {shop / "here"} && exec "$@"',
            "sh",
            *arguments,
        ],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def told(shop, script, read_only, **env):
    """What a script prints as JSON on its last line."""
    code = "import json, sys, shoal\nfrom pathlib import Path\nshop = Path(sys.argv[1])\n" + textwrap.dedent(script)
    done = run(shop, [sys.executable, "-c", code, str(shop)], [shop / place for place in read_only], **env)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


ASK = f"""
try:
    with shoal.connect(SOURCE, {{"tables": {{"t": {{"owner": "uid"}}}}}}, LEDGER) as session:
        answered = len(session.query({COUNT!r}))
    print(json.dumps(["answered", answered]))
except shoal.ShoalError as error:
    print(json.dumps([error.code, str(error)]))
"""


def asking(source, ledger="budget=(10, 1e-3)"):
    return ASK.replace("SOURCE", source).replace("LEDGER", ledger)


@pytest.mark.parametrize("source", ["shop / 'data'", "shop / 'data' / 't.parquet'", "shop / 'data' / 'd.duckdb'"])
def test_data_that_cannot_be_written_is_read(shop, source):
    if source == "shop / 'data'":
        (shop / "data" / "d.duckdb").unlink()
    assert told(shop, asking(source), ["data", "here", "cache", "out"]) == ["answered", 1]
    assert sorted(p.name for p in (shop / "here").iterdir()) == []


def test_no_folder_for_what_does_not_fit_memory_is_told_when_a_session_opens(shop):
    everywhere = [shop / "temporary", shop / "here", *(p for p in ("/tmp", "/var/tmp", "/usr/tmp") if Path(p).is_dir())]  # noqa: S108 - where Python looks
    for source in ("shop / 'data' / 't.parquet'", "shop / 'data' / 'd.duckdb'"):
        code, sentence = told(shop, asking(source), everywhere)
        assert code == "E_SOURCE"
        assert "TMPDIR" in sentence


SPILLING = """
import numpy as np, pyarrow as pa
from shoal.engines.duckdb.settings import keep_within
keep_within(100 * 2**20)
rng, n = np.random.default_rng(0), 1_500_000
texts = pa.array(["secret%d" % i for i in rng.integers(0, n, n)])
table = pa.table({"uid": rng.integers(0, 400_000, n), "x": rng.random(n), "s": texts})
with shoal.connect({"t": table}, {"tables": {"t": {"owner": "uid"}}}) as session:
    ranked = "SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY s, x) AS r FROM t WHERE s LIKE 'secret%'"
    options = "OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)"
    sum_ = "SUM(r, contribution_bounds_per_group => (0, 9)) AS n"
    try:
        session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY {options} {sum_} FROM ({ranked})")
        print(json.dumps("answered"))
    except shoal.ShoalError as error:
        print(json.dumps(error.code))
"""


@pytest.mark.slow
def test_a_working_folder_that_cannot_be_written_decides_about_no_query(shop):
    """What does not fit memory was written there: how much that is, one owner's rows decide."""
    assert told(shop, SPILLING, ["here"]) == "answered"
    assert list((shop / "temporary").iterdir()) == []


def test_what_does_not_fit_memory_goes_to_a_folder_of_ours_alone(shop):
    for source in (shop / "data" / "t.parquet", shop / "data" / "d.duckdb", {"t": pa.table({"uid": [1]})}):
        with shoal.connect(source, {"tables": {"t": {"owner": "uid"}}}) as session:
            ((place,),) = session._engine._connection.sql("SELECT current_setting('temp_directory')").fetchall()
        assert stat.S_IMODE(Path(place).parent.stat().st_mode) == 0o700
        assert Path(place).parent.name.startswith("shoal-")


def test_a_ledger_that_cannot_be_written_spends_nothing_and_says_so(shop):
    place = shop / "ledgers" / "l.ledger"
    with shoal.connect(shop / "data" / "t.parquet", shop / "shoal.toml", ledger=place, budget=(10, 1e-3)) as session:
        session.query(COUNT)
    kept = place.read_bytes()
    code, sentence = told(shop, asking("shop / 'data' / 't.parquet'", f"ledger={str(place)!r}"), ["ledgers"])
    assert (code, place.read_bytes()) == ("E_LEDGER", kept)
    assert "write" in sentence or "written" in sentence
    code, _ = told(
        shop, asking("shop / 'data' / 't.parquet'", "ledger=shop / 'ledgers' / 'new', budget=(1, 1e-6)"), ["ledgers"]
    )
    assert code == "E_LEDGER"
    assert not (shop / "ledgers" / "new").exists()


def command(*words):
    return [sys.executable, "-m", "shoal", *map(str, words)]


def test_an_answer_that_cannot_be_written_is_not_paid_for(shop):
    ledger = shop / "ledgers" / "l.ledger"
    assert run(shop, command("budget", "--ledger", ledger, "--create", "5,1e-4"), []).returncode == 0
    asked = command(
        "query", COUNT, "--db", shop / "data" / "t.parquet", "--catalog", shop / "shoal.toml", "--ledger", ledger
    )
    kept = ledger.read_bytes()
    done = run(shop, [*asked, "-o", str(shop / "out" / "answer.csv")], [shop / "out"])
    assert done.returncode != 0
    assert "answer.csv" in done.stderr
    assert "Traceback" not in done.stderr
    assert ledger.read_bytes() == kept
    done = run(shop, [*asked, "-o", str(shop / "out" / "answer.csv")], [shop / "data"])
    assert done.returncode == 0, done.stderr
    assert (shop / "out" / "answer.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("risk", "key", "out/secret.key"),
        ("risk", "scan", "data/t.parquet", "--owner", "uid", "-o", "out/sketches"),
        ("init", "data/t.parquet", "-o", "out/shoal.toml"),
        ("service", "init", "out/service"),
    ],
    ids=["key", "sketches", "catalog", "service"],
)
def test_what_cannot_be_kept_is_one_sentence(shop, words):
    placed = [str(shop / word) if "/" in word else word for word in words]
    done = run(shop, command(*placed), [shop / "out"])
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "out/" in done.stderr
    assert list((shop / "out").iterdir()) == []
