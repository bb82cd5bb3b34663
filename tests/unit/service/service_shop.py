"""A service over a small folder of visits, with a custodian, two analysts and an auditor."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.service import OPERATOR, Limits, Service

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.params import Budget

CATALOG = """
[tables.visits]
owner = "uid"
max_rows_per_owner_and_group = 5
[tables.sites]
public = true
[defaults]
max_groups_per_owner = 3
"""
PEOPLE = {"carla": ["custodian"], "ann": ["analyst"], "bob": ["analyst"], "otto": ["auditor"]}


def write_folder(folder: Path) -> Path:
    """120 people, five visits each, four sites."""
    folder.mkdir(exist_ok=True)
    number = list(range(600))
    table = pa.table({"uid": [i % 120 for i in number], "site": [f"s{i % 4}" for i in number]})
    pq.write_table(table, folder / "visits.parquet")
    pq.write_table(pa.table({"site": ["s0", "s1"], "town": ["here", "there"]}), folder / "sites.parquet")
    (folder.parent / "shoal.toml").write_text(CATALOG)
    return folder


def new_database(server: str) -> str:
    """The URL of an empty database on a server."""
    import psycopg

    name = f"d{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


def emptied(url: str) -> str:
    """A database without a service in it."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS shoal CASCADE")
    return url


def counting(epsilon: float = 0.1, what: str = "n") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon}) COUNT(DISTINCT uid) AS {what} FROM visits"


def new_service(home: Path | str, folder: Path, limit: Budget, **limits) -> Service:
    options = {"slots": 2, "answer_time": 0.0, "rates": False} | limits
    service = Service.open(home, Limits(**options))
    if not service.datasets.names():
        catalog = str(folder.parent / "shoal.toml")
        service.add_dataset(OPERATOR, NewDataSet("visits", str(folder), catalog, limit))
        for name, roles in PEOPLE.items():
            service.add_user(OPERATOR, name, roles, ["research"] if name in {"ann", "bob"} else [])
        service.allow(OPERATOR, Grant("visits", "group:research"))
    return service
