"""What tests of every kind share: how long something takes, asked so that a busy machine changes no verdict."""

from __future__ import annotations

import gc
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import settings

from steady_noise import pytest_fixture_setup, pytest_runtest_protocol  # noqa: F401 - pytest finds hooks by their names

# A run of the tests tells about the change, not about the luck of its examples: the same ones every time, unless asked.
# No deadline: how long an example takes is the machine's affair.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("searching", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Java machines live for seconds here: the quick compiler and the plain collector take half of the processor time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

TRIES = 5
PATIENCE = 10
"""How many times slower than meant a machine may be: what these tests catch is work that grows out of bounds."""


@pytest.fixture(autouse=True)
def no_plans_remembered(request):
    """Tests that patch the code plant bugs in the passes: plans of sound ones must not stand in for theirs, nor the reverse."""
    if "monkeypatch" not in request.fixturenames:
        yield
        return
    from shoal.rewrite import pipeline

    pipeline._remembered.cache_clear()
    yield
    pipeline._remembered.cache_clear()


STARTING = {"benchmarks", "docs", "service", "web"}
"""Folders of tests that start programs and wait for them: few tests of theirs take longer than many others."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Which tests share a process, and in which order they begin, where several processes share the tests.

    Tests that need Spark are one group: a second process would start a second Java machine. The quick tests of a file are one
    group too, so that what a file opens is opened once and not by every process. Groups that last for minutes begin first,
    then single slow tests, then files that start programs, then the others, the small ones last: no process is left alone with
    a long group at the end.
    """
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("slow") is None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if hasattr(config, "workerinput"):
        sizes = Counter(_group(item) for item in items)
        items.sort(key=lambda item: _turn(item, sizes))
        for item in items:
            _tell_group(item)


def _group(item):
    mark = item.get_closest_marker("xdist_group")
    return None if mark is None else mark.args[0]


def _tell_group(item):
    """The group at the end of a test's identifier, where the scheduler looks for it.

    xdist writes it there itself, but into a field that pytest no longer reads since 9.2: no group was kept together.
    """
    if _group(item) is not None and hasattr(item, "_id"):
        item._id = type(item._id).parse(f"{item.nodeid}@{_group(item)}")


def _turn(item, sizes):
    group = _group(item)
    if group == "spark":
        return 0, 0
    if item.get_closest_marker("slow") is not None:
        return (1 if group else 2), 0
    folders = item.nodeid.partition("::")[0].split("/")
    return (4 if STARTING.isdisjoint(folders) else 3), -sizes[group]


def pytest_sessionstart():
    """Collecting 15,000 tests leaves hardly any garbage: looking for it again and again is waste."""
    gc.disable()


def pytest_collection_finish():
    """Whoever looks for garbage need not look through 15,000 tests: that took a twelfth of all processor time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def quickest():
    """`quickest(action, below)`: the least processor time of some tries, in seconds; the first below the limit is enough.

    What it is asked for is work that must not grow without bound; speed itself is measured in `benchmarks`. A collection of
    the garbage that other tests left behind, a neighbour on the machine or a trace of coverage can only add to it, so the
    least of several tries is told, and a tenth of it.
    """

    def measure(action, below):
        least = float("inf")
        for _ in range(TRIES):
            gc.collect()
            start = time.process_time()
            action()
            least = min(least, (time.process_time() - start) / PATIENCE)
            if least < below:
                break
        return least

    return measure


# ---- a PostgreSQL server of our own ------------------------------------------------------------------------------


def postgres_programs() -> Path | None:
    """The folder with initdb and pg_ctl, where the machine has one."""
    named = shutil.which("initdb")
    folders = [Path(named).resolve().parent] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "pg_ctl").exists()), None)


@pytest.fixture(scope="session")
def postgres_server():
    """A throwaway cluster that listens on a socket in its own folder: (URL of the server, its control command)."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (on Debian and Ubuntu: apt install postgresql)")
    pytest.importorskip("psycopg", reason="the extra 'postgresql' is not installed")
    is_root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # short: the name of a socket has at most 107 bytes
    if is_root:
        shutil.chown(folder, "postgres", "postgres")
    as_user = ["runuser", "-u", "postgres", "--"] if is_root else []

    def control(*words: str) -> None:
        command = [*as_user, str(programs / words[0]), *words[1:]]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)

    data = folder / "d"
    control("initdb", "--no-sync", "-A", "trust", "-D", str(data))
    start = (
        "pg_ctl",
        "-D",
        str(data),
        "-o",
        f"-k {folder} -c listen_addresses='' -c max_connections=150",
        "-w",
        "start",
    )
    stop = ("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    control(*start)
    user = "postgres" if is_root else getpass.getuser()
    try:
        yield f"postgresql://{user}@/postgres?host={folder}", control, start, stop
    finally:
        with suppress(subprocess.CalledProcessError):
            control(*stop)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_ledger(postgres_server):
    """The name of a ledger that does not exist yet."""
    return f"{postgres_server[0]}#l{secrets.token_hex(8)}"


@pytest.fixture(scope="module")
def postgres_database(postgres_server):
    """A database of its own for a module, in a zone with summer time: (URL, connection of the administrator)."""
    psycopg = pytest.importorskip("psycopg", reason="the extra 'postgresql' is not installed")
    pytest.importorskip("adbc_driver_postgresql", reason="the extra 'postgresql' is not installed")
    url, name = postgres_server[0], f"d{secrets.token_hex(8)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'America/New_York'")
    own = url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(own, autocommit=True) as connection:
        yield own, connection
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


# ---- Spark ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One local Spark with two threads for the whole run: starting one takes half a minute."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed (./run test --all installs it)")
    if shutil.which("java") is None:
        pytest.skip("no Java was found (on Debian and Ubuntu: apt install openjdk-17-jre-headless)")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]").appName("tests")
    settings_ = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.session.timeZone": "America/New_York",
        # Every query is a new one here: the second compiler of Java would work longer than what it compiles.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for name, value in settings_.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def spark_programs(tmp_path):
    """Starts a standalone cluster: a master and two workers, each a process of its own."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed (./run test --all installs it)")
    if shutil.which("java") is None:
        pytest.skip("no Java was found (on Debian and Ubuntu: apt install openjdk-17-jre-headless)")
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    @contextmanager
    def started():
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        roles = [
            ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
            *(
                [
                    *("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"),
                    *("--work-dir", str(tmp_path / f"worker{number}"), "--host", "127.0.0.1", master),
                ]
                for number in range(2)
            ),
        ]
        processes = []
        try:
            processes.extend(
                subprocess.Popen(
                    [program, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                for words in roles
            )
            yield master
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(timeout=300)

    return started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
