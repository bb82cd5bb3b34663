from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from forked_shoal import started

from shoal import datasets

sys.path.append(str(Path(__file__).parent.parent / "engines"))
from postgres_tables import write


@pytest.fixture(scope="session")
def sample_shop(tmp_path_factory) -> Path:
    """A folder with data/*.parquet and shoal.toml, as `shoal demo` leaves it."""
    folder = tmp_path_factory.mktemp("shop")
    datasets.write_shop(folder)
    return folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Where the command `shoal` is found: a child of a server that has loaded it (`forked_shoal`)."""
    folder = tmp_path_factory.mktemp("p")
    server = started(folder)
    yield folder
    server.terminate()
    server.wait(timeout=300)
    server.stdout.close()


@pytest.fixture
def workplace(sample_shop, programs, tmp_path, monkeypatch) -> Path:
    """A fresh copy of the sample shop as the current folder, with `shoal` and `python` of this environment in reach."""
    folder = tmp_path / "shop"
    shutil.copytree(sample_shop, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]))
    return folder


@pytest.fixture
def postgresql_shop(postgres_server, workplace, monkeypatch) -> None:
    """The sample shop in a database `shop` of a server that the environment leads to, and a role that may read it."""
    psycopg = pytest.importorskip("psycopg", reason="the extra 'postgresql' is not installed")
    pytest.importorskip("adbc_driver_postgresql", reason="the extra 'postgresql' is not installed")
    url = postgres_server[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")
        connection.execute("DROP ROLE IF EXISTS shoal_reader")
        connection.execute("CREATE ROLE shoal_reader LOGIN")
        connection.execute("CREATE DATABASE shop ENCODING 'UTF8' TEMPLATE template0")
    with psycopg.connect(url.replace("/postgres?", "/shop?"), autocommit=True) as connection:
        for file in sorted((workplace / "data").glob("*.parquet")):
            write(connection, file.stem, pq.read_table(file))
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO shoal_reader")
    monkeypatch.setenv("PGHOST", url.partition("host=")[2])


@pytest.fixture
def spark_shop(spark, workplace) -> None:
    """A Spark session that `SparkSession.builder.getOrCreate()` finds."""
