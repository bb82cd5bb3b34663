"""A small shop with everything that can go wrong in it: NULLs, NaN, rows of nobody, owners on one side of a join only."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

CATALOG = {
    "tables": {
        "customers": {"owner": "uid", "owner_kind": "customer"},
        "visits": {"owner": "uid", "owner_kind": "customer"},
        "regions": {"public": True},
    }
}
REGIONS = ("north", "south", "east", "west")


def tables(seed: int = 7, owners: int = 120, visits: int = 700) -> dict[str, pa.Table]:
    """Customers 1 … n, visits of about nine tenths of them and of a few strangers, and a public table."""
    draw = np.random.default_rng(seed)
    ids = np.arange(1, owners + 1)
    visitors = draw.integers(1, int(owners * 1.1), visits)
    day = np.datetime64("2026-01-01") + draw.integers(0, 90, visits).astype("timedelta64[D]")
    return {
        "customers": pa.table(
            {
                "uid": pa.array(_with_nulls(draw, ids, 0.03), pa.int64()),
                "region": pa.array(_with_nulls(draw, draw.choice(REGIONS, owners), 0.1), pa.string()),
                "age": pa.array(_with_nulls(draw, draw.integers(18, 90, owners), 0.1), pa.int32()),
                "income": pa.array(_with_nulls(draw, draw.normal(100, 300, owners).round(3), 0.1), pa.float64()),
                "vip": pa.array(_with_nulls(draw, draw.random(owners) < 0.3, 0.1), pa.bool_()),
            }
        ),
        "visits": pa.table(
            {
                "uid": pa.array(_with_nulls(draw, visitors, 0.03), pa.int64()),
                "site": pa.array([f"s{i}" for i in draw.zipf(1.6, visits) % 7], pa.string()),
                "day": pa.array(day).cast(pa.date32()),
                "spend": pa.array(_with_nan(draw, draw.lognormal(2, 1, visits).round(4)), pa.float64()),
                "items": pa.array(_with_nulls(draw, draw.integers(-5, 50, visits), 0.1), pa.int64()),
            }
        ),
        "regions": pa.table(
            {"region": [*REGIONS, None], "continent": ["EU", "EU", "AS", "AS", "XX"], "rate": [1, 2, 3, 4, 5]}
        ),
    }


def _with_nulls(draw: np.random.Generator, values: np.ndarray, share: float) -> list[object]:
    missing = draw.random(len(values)) < share
    return [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]


def _with_nan(draw: np.random.Generator, values: np.ndarray) -> np.ndarray:
    return np.where(draw.random(len(values)) < 0.05, np.nan, values)


def plain_database(data: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """The same tables for plain SQL, after the two rules that hold at every scan: rows of nobody are gone, NaN is NULL."""
    connection = duckdb.connect()
    for name, table in data.items():
        connection.register(f"raw_{name}", table)
        reals = [f.name for f in table.schema if pa.types.is_floating(f.type)]
        cleaned = ", ".join(f"CASE WHEN isnan({c}) THEN NULL ELSE {c} END AS {c}" for c in reals)
        replaced = f"* REPLACE ({cleaned})" if reals else "*"
        owned = "WHERE uid IS NOT NULL" if "uid" in table.column_names else ""
        connection.execute(f"CREATE VIEW {name} AS SELECT {replaced} FROM raw_{name} {owned}")
    return connection
