"""Data that breaks careless arithmetic, each as a pair of neighbours: all tables, and the same tables without owner 7.

Every data set keeps the columns that the hostile queries name; types change where the trap is a type.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

CATALOG: dict[str, Any] = {
    "tables": {
        "customers": {
            "owner": "uid",
            "policies": {
                "near": {
                    "domain": {"age": [0, 120], "region": ["north", "south", "east", "west"]},
                    "secret": {"distance": {"age": 5}},
                    "max_rows_per_owner": 1,
                }
            },
        },
        "visits": {"owner": "uid"},
        "regions": {"public": True},
    }
}
OWNER = 7
REGIONS = ("north", "south", "east", "west")
CUSTOMER_TYPES = {"uid": pa.int64(), "region": pa.string(), "age": pa.int32(), "income": pa.float64()}
VISIT_TYPES = {"uid": pa.int64(), "site": pa.string(), "day": pa.date32(), "spend": pa.float64()}
FIRST_DAY = dt.date(2026, 1, 1)

Rows = list[tuple[Any, ...]]
Tables = dict[str, pa.Table]


def regions() -> pa.Table:
    """The public table."""
    return pa.table({"region": list(REGIONS), "continent": ["EU", "EU", "AS", "AS"]})


def built(customers: Rows, visits: Rows, **types: pa.DataType) -> Tables:
    """Tables from rows; `types` replaces the types of columns, by name."""

    def table(rows: Rows, usual: dict[str, pa.DataType]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in usual]
        arrays = [pa.array(list(c), types.get(n, t)) for c, (n, t) in zip(columns, usual.items(), strict=True)]
        return pa.Table.from_arrays(arrays, names=list(usual))

    return {"customers": table(customers, CUSTOMER_TYPES), "visits": table(visits, VISIT_TYPES), "regions": regions()}


def ordinary(owners: int = 40, visits: int = 160, seed: int = 1) -> tuple[Rows, Rows]:
    """Rows that harm nobody: owners 1, 2, …, each in one region, with a few visits."""
    rng = np.random.default_rng(seed)
    people = [
        (uid, REGIONS[int(rng.integers(4))], int(rng.integers(18, 90)), float(np.round(rng.lognormal(10, 0.5), 2)))
        for uid in range(1, owners + 1)
    ]
    trips = [
        (
            int(rng.integers(1, owners + 1)),
            f"s{int(rng.integers(8))}",
            FIRST_DAY + dt.timedelta(days=int(rng.integers(60))),
            float(np.round(rng.lognormal(2, 1), 2)),
        )
        for _ in range(visits)
    ]
    return people, [*trips, (OWNER, "s1", FIRST_DAY, 12.5), (OWNER, "s2", FIRST_DAY, 0.25)]


def without(tables: Tables, owner: Any = OWNER) -> Tables:
    """The neighbour: no row of the owner is left in any private table."""
    kept = dict(tables)
    for name in ("customers", "visits"):
        keep = [value != owner for value in tables[name].column("uid").to_pylist()]
        kept[name] = tables[name].filter(pa.array(keep, pa.bool_()))
    return kept


def shuffled(tables: Tables, seed: int = 3) -> Tables:
    """The same rows in another order."""
    rng = np.random.default_rng(seed)
    return {name: t.take(pa.array(rng.permutation(t.num_rows))) for name, t in tables.items()}


def _owned_values(incomes: list[float], spends: list[float]) -> Tables:
    """Ordinary rows, and owner 7 (and a few others) with the given values."""
    people, trips = ordinary()
    people += [(uid, "north", 30, value) for uid in (OWNER, 100, 101) for value in incomes]
    trips += [(uid, "s1", FIRST_DAY, value) for uid in (OWNER, 100, 101) for value in spends]
    return built(people, trips)


def _with_keys(keys: list[str | None]) -> Tables:
    people, trips = ordinary()
    people += [(OWNER, key, 30, 1.0) for key in keys]
    trips += [(uid, key, FIRST_DAY, 1.0) for uid in (OWNER, OWNER, 100) for key in keys]
    return built(people, trips)


def nan_values() -> Tables:
    return _owned_values([float("nan")] * 2, [float("nan"), 1.0, float("nan")])


def infinities() -> Tables:
    return _owned_values([float("inf"), float("-inf")], [float("inf"), float("-inf"), 1.0])


def negative_zeros() -> Tables:
    return _owned_values([-0.0, 0.0], [-0.0, 0.0, -0.0])


def beyond_exact_doubles() -> Tables:
    return _owned_values([2.0**53, 2.0**53 + 2, -(2.0**60)], [2.0**53, 1.0, -(2.0**53)])


def largest_doubles() -> Tables:
    return _owned_values([1.7976931348623157e308, -1.7976931348623157e308], [1e308, 1e308, -1e308])


def subnormals() -> Tables:
    return _owned_values([5e-324, -5e-324, 1e-310], [5e-324, 2.2250738585072014e-308])


def edges_of_int64() -> Tables:
    low, high = -(2**63), 2**63 - 1
    people, trips = ordinary()
    people += [
        (low, "north", high, 1.0),
        (high, "north", low, 2.0),
        (OWNER, "south", low, 1.0),
        (OWNER, "east", high, 1.0),
    ]
    people += [(0, "west", 2**53 + 1, 1.0)]
    trips += [(low, "s1", FIRST_DAY, 1.0), (high, "s1", FIRST_DAY, 1.0), (high, "s2", FIRST_DAY, 1.0)]
    return built(people, trips, age=pa.int64())


def missing_owners() -> Tables:
    people, trips = ordinary()
    return built(
        people + [(None, "north", 50, 1e6)] * 50, trips + [(None, "s1", FIRST_DAY, 1e6), (None, None, None, None)] * 50
    )


def one_heavy_owner() -> Tables:
    people, trips = ordinary()
    return built(people, trips + [(OWNER, "s1", FIRST_DAY, 3.0 + i % 5) for i in range(3000)])


def an_owner_in_every_group() -> Tables:
    people, trips = ordinary()
    people += [(OWNER, f"r{i}", i % 120, float(i)) for i in range(300)]
    trips += [(OWNER, f"t{i}", FIRST_DAY + dt.timedelta(days=i), float(i)) for i in range(300)]
    return built(people, trips)


def nothing_at_all() -> Tables:
    return built([], [])


def only_one_owner() -> Tables:
    return built([(OWNER, "north", 40, 100.0)], [(OWNER, "s1", FIRST_DAY, 2.0), (OWNER, "s2", FIRST_DAY, 3.0)])


def all_values_equal() -> Tables:
    return built(
        [(uid, "north", 40, 100.0) for uid in range(1, 31)], [(uid, "s1", FIRST_DAY, 5.0) for uid in range(1, 31)] * 3
    )


def huge_keys() -> Tables:
    return _with_keys(["x" * 1_000_000, "x" * 999_999 + "y", "é" * 200_000])


def strange_keys() -> Tables:
    return _with_keys(
        [
            "",
            " ",
            "\t",
            "a\nb",
            "\x1b[31m",
            "'; DROP TABLE visits; --",
            '"',
            "\x00",
            "\u202e",
            "é",
            "e\u0301",
            "NULL",
            "🦆",
        ]
    )


def missing_keys_and_values() -> Tables:
    people, trips = ordinary()
    people += [(OWNER, None, None, None), (100, None, None, None), (101, None, 30, None)]
    trips += [(OWNER, None, None, None)] * 3 + [(100, None, None, 1.0), (101, "s1", None, None)]
    return built(people, trips)


def duplicate_rows() -> Tables:
    people, trips = ordinary(20, 60)
    return built(people * 3, trips * 5)


def decimals() -> Tables:
    people, trips = ordinary()
    big, low = (Decimal(sign + "9" * 28 + "." + "9" * 10) for sign in ("", "-"))
    money = [(u, r, a, Decimal(str(i))) for u, r, a, i in people] + [(OWNER, "north", 1, big), (OWNER, "south", 1, low)]
    spent = [(u, s, d, Decimal(str(x))) for u, s, d, x in trips] + [(OWNER, "s1", FIRST_DAY, Decimal("-99999.999"))]
    return built(money, spent, income=pa.decimal128(38, 10), spend=pa.decimal128(9, 3))


def dates_at_the_edges() -> Tables:
    people, trips = ordinary()
    days = [-719162, -719163, 2932896, 2932897, -(2**31) + 1, 2**31 - 1, 2**31 - 2, 0, None]
    dated = [(u, s, (d - dt.date(1970, 1, 1)).days, x) for u, s, d, x in trips]
    dated += [(uid, "s1", day, 1.0) for uid in (OWNER, 100) for day in days]
    tables = built(people, [], day=pa.int32())
    columns = list(zip(*dated, strict=True))
    arrays = [
        pa.array(list(c), t) for c, t in zip(columns, (pa.int64(), pa.string(), pa.int32(), pa.float64()), strict=True)
    ]
    arrays[2] = arrays[2].cast(pa.date32())
    return tables | {"visits": pa.Table.from_arrays(arrays, names=list(VISIT_TYPES))}


def narrow_columns() -> Tables:
    people, trips = ordinary()
    people = [(u, r, a, i) for u, r, a, i in people] + [(OWNER, "north", 127, 3.4e38), (OWNER, "north", -128, -3.4e38)]
    return built(people, trips, uid=pa.int16(), age=pa.int8(), income=pa.float32(), spend=pa.float32())


def unsigned_owners() -> Tables:
    people, trips = ordinary()
    top = 2**64 - 1
    people += [(top, "north", 30, 1.0), (top - 1, "north", 30, 1.0)]
    trips += [(top, "s1", FIRST_DAY, 1.0), (top - 1, "s1", FIRST_DAY, 2.0), (top - 1, "s2", FIRST_DAY, 2.0)]
    return built(people, trips, uid=pa.uint64())


def owners_and_keys_that_hash_alike() -> Tables:
    """Numbers that agree in their low 62 bits, which is all that the sampling hash sees of them."""
    people, trips = ordinary()
    twins = [OWNER + 2**62, OWNER - 2**62, OWNER - 2**63]
    people += [(uid, "north", age, 1.0) for uid in (OWNER, *twins) for age in (5, 5 + 2**62, 5 - 2**62)]
    trips += [(uid, f"s{i}", FIRST_DAY, 1.0 + i) for uid in twins for i in range(6)]
    return built(people, trips, age=pa.int64())


def text_owners() -> Tables:
    people, trips = ordinary()
    people = [(str(u), r, a, i) for u, r, a, i in people] + [("07", "north", 30, 1.0), (" 7", "north", 31, 2.0)]
    trips = [(str(u), s, d, x) for u, s, d, x in trips] + [
        ("é", "s1", FIRST_DAY, 1.0),
        ("e\u0301", "s1", FIRST_DAY, 9.0),
    ]
    return built(people, trips, uid=pa.string())


def dictionary_columns() -> Tables:
    people, trips = ordinary()
    tables = built(people, trips)
    for name, column in (("customers", "region"), ("visits", "site")):
        place = tables[name].column_names.index(column)
        tables[name] = tables[name].set_column(place, column, tables[name].column(column).dictionary_encode())
    return tables


def owners_in_one_table_only() -> Tables:
    people, trips = ordinary()
    people = [row for row in people if row[0] != OWNER]
    return built(people, [*trips, (500, "s9", FIRST_DAY, 1.0), (OWNER, "s9", FIRST_DAY, 4.0)])


def groups_of_one() -> Tables:
    people, trips = ordinary()
    return built(
        [*people, (OWNER, "nowhere", 55, 5.0)], trips + [(OWNER, f"only{i}", FIRST_DAY, 1.0) for i in range(3)]
    )


def everything_at_once() -> Tables:
    """A little of every trap, for queries that nobody wrote by hand."""
    people, trips = ordinary()
    doubles = [float("nan"), float("inf"), float("-inf"), -0.0, 0.1, 1e308, -1e308, 5e-324, 2.0**53, None]
    keys = [None, "", " ", "7", "2026-01-15", "e\u0301", "é", "north", "s1", "%"]
    for place, (value, key) in enumerate(zip(doubles, keys, strict=True)):
        for uid in (OWNER, 100 + place, 101 + place):
            people.append((uid, key, (None, 0, -(2**31), 2**31 - 1, 7)[place % 5], value))
            trips.append((uid, key, None if place % 3 == 0 else FIRST_DAY, value))
    trips += [(OWNER, f"t{i % 25}", FIRST_DAY + dt.timedelta(days=i % 40), i / 3) for i in range(60)]
    return built([*people, people[0], (None, "north", 1, 1.0)], trips + trips[:20] + [(None, "s1", None, None)])


DATA_SETS: dict[str, Callable[[], Tables]] = {
    made.__name__: made
    for made in (
        nan_values,
        infinities,
        negative_zeros,
        beyond_exact_doubles,
        largest_doubles,
        subnormals,
        edges_of_int64,
        missing_owners,
        one_heavy_owner,
        an_owner_in_every_group,
        nothing_at_all,
        only_one_owner,
        all_values_equal,
        huge_keys,
        strange_keys,
        missing_keys_and_values,
        duplicate_rows,
        decimals,
        dates_at_the_edges,
        narrow_columns,
        unsigned_owners,
        owners_and_keys_that_hash_alike,
        text_owners,
        dictionary_columns,
        owners_in_one_table_only,
        groups_of_one,
        everything_at_once,
    )
}


def owner_of(tables: Tables) -> Any:
    """Owner 7, as the tables spell it."""
    return str(OWNER) if pa.types.is_string(tables["customers"].schema.field("uid").type) else OWNER
