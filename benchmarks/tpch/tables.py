"""TPC-H tables from the generator of the package registry, and two catalogs over them: customers own rows, or suppliers do.

Only `customer`, `orders`, `supplier` and `partsupp` name an owner themselves. Line items get their customer from their order, and
orders get their suppliers from their line items, by views of the catalog.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.accounting.ledger import Ledger
from shoal.catalog import Catalog
from shoal.engines.sources import open_source
from shoal.session import Session

if TYPE_CHECKING:
    import duckdb

    from shoal.engines.base import Engine

DATA = Path(__file__).parent.parent / "data"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "supplier")
EPSILON = 0.1
LARGEST_DELTA = 0.1
PER_SCALE = {"customer": 150_000, "supplier": 10_000}

CATALOGS: dict[str, dict[str, dict[str, Any]]] = {
    "customer": {
        "customer": {"owner": "c_custkey", "owner_kind": "customer"},
        "orders": {"owner": "o_custkey", "owner_kind": "customer"},
        "lineitem": {
            "owner": "l_custkey",
            "owner_kind": "customer",
            "view": "SELECT l.*, o.o_custkey AS l_custkey FROM lineitem AS l JOIN orders AS o ON l.l_orderkey = o.o_orderkey",
        },
    },
    "supplier": {
        "supplier": {"owner": "s_suppkey", "owner_kind": "supplier"},
        "partsupp": {"owner": "ps_suppkey", "owner_kind": "supplier"},
        "lineitem": {"owner": "l_suppkey", "owner_kind": "supplier"},
        "orders": {
            "owner": "o_suppkey",
            "owner_kind": "supplier",
            "view": (
                "SELECT DISTINCT o.o_orderkey, o.o_orderstatus, l.l_suppkey AS o_suppkey "
                "FROM orders AS o JOIN lineitem AS l ON l.l_orderkey = o.o_orderkey"
            ),
        },
        "part": {"public": True},
        "nation": {"public": True},
    },
}


def generate(scale: float, folder: Path = DATA) -> Path:
    """The folder with the tables at this scale factor, made where it is missing."""
    made = folder / f"tpch-sf{scale:g}"
    if all((made / f"{table}.parquet").exists() for table in TABLES):
        return made
    beside = Path(sys.executable).parent / "tpchgen-cli"
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise SystemExit("tpchgen-cli is missing: install the dev group, or `pip install tpchgen-cli`.")
    command = [program, "parquet", "-s", f"{scale:g}", "--output-dir", str(made), "--overwrite", "--quiet"]
    subprocess.run(command, check=True)
    return made


def owners_at(kind: str, scale: float) -> int:
    """How many customers or suppliers there are: public, since the generator says so."""
    return round(PER_SCALE[kind] * scale)


def delta_at(kind: str, scale: float) -> float:
    """δ = n^{−ε ln n}, the published table's choice; cut at small scales, where a query would be refused."""
    owners = owners_at(kind, scale)
    return min(float(owners) ** (-EPSILON * math.log(owners)), LARGEST_DELTA)


@dataclass(frozen=True, slots=True)
class Opened:
    """A session, the engine under it for asking it directly, and the same tables for plain SQL."""

    session: Session
    engine: Engine
    plain: duckdb.DuckDBPyConnection

    def close(self) -> None:
        """Lets go of both."""
        self.session.close()
        self.plain.close()


def open_tables(folder: Path, kind: str) -> Opened:
    """Customers or suppliers as owners of everything."""
    engine = open_source(folder)
    session = Session(engine, Catalog.from_dict({"tables": CATALOGS[kind]}), Ledger.in_memory())
    return Opened(session, engine, _plain(folder, kind))


def _plain(folder: Path, kind: str) -> duckdb.DuckDBPyConnection:
    """The catalog's tables and views as an ordinary database: what the truth is computed from."""
    import duckdb

    plain = duckdb.connect()
    plain.execute("SET enable_progress_bar = false")
    plain.execute("CREATE SCHEMA raw")
    for table in TABLES:
        plain.execute(f"CREATE VIEW raw.{table} AS SELECT * FROM read_parquet('{folder / table}.parquet')")
    for name, facts in CATALOGS[kind].items():
        sql = facts.get("view", f"SELECT * FROM {name}")
        for table in TABLES:
            sql = sql.replace(f"FROM {table}", f"FROM raw.{table}").replace(f"JOIN {table}", f"JOIN raw.{table}")
        plain.execute(f"CREATE VIEW {name} AS {sql}")
    return plain
