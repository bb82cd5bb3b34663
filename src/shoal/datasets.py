"""Sample data from seeded generators: a shop whose owners have many rows, unevenly.

    >>> tables = shop(customers=100)
    >>> {name: table.num_columns for name, table in tables.items()}
    {'customers': 4, 'visits': 4, 'regions': 2}

The same seed gives the same tables. They are made up: nothing here needs protection, so examples may look at them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

REGIONS = {"north": 0.45, "south": 0.30, "east": 0.20, "west": 0.05}
"""Share of the customers living in each region."""

CONTINENTS = {"north": "Europe", "south": "Africa", "east": "Asia", "west": "America"}

SITES = (
    "market", "station", "harbour", "campus", "old town", "airport", "riverside", "stadium", "library", "museum",
    "hillside", "mill", "castle", "gardens", "brewery", "theatre", "docks", "observatory", "lighthouse", "vineyard",
)  # fmt: skip
"""Shops from the busiest to the quietest; visits fall off as 1 / rank^1.3."""

SINGLED_OUT_SITE = "night pharmacy"
"""A shop that exactly one customer ever visited: an exact answer names them, a private one must not."""

SHOP_CATALOG = """\
# What the tables mean: who owns a row, and what is public knowledge anyway.

[tables.customers]
owner = "uid"
[tables.customers.columns]
uid = { type = "BIGINT" }
region = { type = "VARCHAR", values = ["north", "south", "east", "west"] }    # a public list: usable as public groups
age = { type = "INTEGER", bounds = [18, 100] }
income = { type = "DOUBLE", bounds = [0, 200000] }

[tables.visits]
owner = "uid"
max_rows_per_owner_and_group = 10           # COUNT(*) counts at most this many visits per owner and group
[tables.visits.columns]
uid = { type = "BIGINT" }
site = { type = "VARCHAR" }                 # no list: which sites may appear is decided privately
day = { type = "DATE" }
spend = { type = "DOUBLE", bounds = [0, 200] }    # of one visit: an owner moves SUM(spend) of a group by 10 · 200 at most

[tables.regions]
public = true                               # no owner: free to use
[tables.regions.columns]
region = { type = "VARCHAR" }
continent = { type = "VARCHAR" }

[defaults]
population = 20000                          # order of magnitude, public: sets delta where a query names none
"""
"""The custodian's catalog for the shop, as TOML."""


def shop(customers: int = 20_000, seed: int = 7) -> dict[str, pa.Table]:
    """Customers, their visits, and a public table of regions.

    Visits per customer have a heavy tail (a median of a few, the busiest near two thousand at the default size), so
    that a query which does not bound its owners is visibly ruled by one of them.
    """
    rng = np.random.default_rng(seed)
    return {"customers": _customers(customers, rng), "visits": _visits(customers, rng), "regions": _regions()}


def write_shop(folder: Path | str, tables: dict[str, pa.Table] | None = None) -> None:
    """Write `data/*.parquet` and `shoal.toml` into a folder, making it if need be."""
    folder = Path(folder)
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    for name, table in (tables or shop()).items():
        pq.write_table(table, data / f"{name}.parquet")
    (folder / "shoal.toml").write_text(SHOP_CATALOG, encoding="utf-8")


def _customers(count: int, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "uid": np.arange(1, count + 1, dtype=np.int64),
            "region": _labels(list(REGIONS), rng.choice(len(REGIONS), size=count, p=list(REGIONS.values()))),
            "age": np.clip(rng.normal(44, 17, size=count), 18, 100).astype(np.int32),
            "income": np.round(np.minimum(rng.lognormal(10.4, 0.55, size=count), 400_000), 2),
        }
    )


def _visits(customers: int, rng: np.random.Generator) -> pa.Table:
    per_owner = _visits_per_owner(customers, rng)
    owners = np.repeat(np.arange(1, customers + 1, dtype=np.int64), per_owner)
    sites = _sites(owners, customers, rng)
    # The one customer of the singled-out site went there three times, on top of everything else.
    loner = np.full(3, 1 + customers // 3, dtype=np.int64)
    uid = np.concatenate([owners, loner])
    site = np.concatenate([sites, np.full(3, len(SITES))])
    order = rng.permutation(len(uid))
    return pa.table(
        {
            "uid": uid[order],
            "site": _labels([*SITES, SINGLED_OUT_SITE], site[order]),
            "day": np.datetime64("2025-01-01") + rng.integers(0, 365, size=len(uid)).astype("timedelta64[D]"),
            "spend": np.round(np.minimum(rng.lognormal(2.7, 0.9, size=len(uid)), 2_000), 2),
        }
    )


def _visits_per_owner(customers: int, rng: np.random.Generator) -> np.ndarray:
    """Heavy-tailed: most customers come a few times, a handful hundreds of times."""
    return np.minimum(rng.pareto(1.3, size=customers) * 2.5 + 1, 2_000).astype(np.int64)


def _sites(owners: np.ndarray, customers: int, rng: np.random.Generator) -> np.ndarray:
    """Two visits of three go to the customer's favourite shop, the others anywhere; both fall off with rank."""
    chances = np.arange(1, len(SITES) + 1) ** -1.3
    chances /= chances.sum()
    favourite = rng.choice(len(SITES), size=customers + 1, p=chances)
    anywhere = rng.choice(len(SITES), size=len(owners), p=chances)
    return np.where(rng.random(len(owners)) < 2 / 3, favourite[owners], anywhere)


def _regions() -> pa.Table:
    return pa.table({"region": list(CONTINENTS), "continent": list(CONTINENTS.values())})


def _labels(names: list[str], codes: np.ndarray) -> pa.Array:
    return pa.array(names).take(pa.array(codes))
