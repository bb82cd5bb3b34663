"""The database of the second generator, with and without its victim: nasty values in columns of every stored type."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from pathlib import Path

VICTIM = 7
OWNERS = range(1, 31)
NASTY: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807", "0", "-1", "100", "1"),
    "TINYINT": ("-128", "127", "0", "3"),
    "INTEGER": ("-2147483648", "2147483647", "0", "2026"),
    "HUGEINT": ("-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "7"),
    "DOUBLE": ("inf", "-inf", "nan", "1.7976931348623157e308", "-0.0", "0.0", "5e-324", "100", "-1", "9007199254740993"),
    "FLOAT": ("inf", "-inf", "nan", "3.4e38", "-0.0", "0.1"),
    "DECIMAL(18, 3)": ("-999999999999999.999", "0.001", "12.500"),
    "DECIMAL(9, 2)": ("-9999999.99", "0.01", "12.50"),
    "DECIMAL(38, 37)": ("9.9999999999999999999999999999999999999", "0.5", "-0.1"),
    "DECIMAL(38, 10)": ("9999999999999999999999999999.9999999999", "0.5"),
    "VARCHAR": ("", " ", "%", "é", "e\u0301", "🦆" * 40, "x" * 70_000, "\x00", "\x1b[31m", "infinity", "1e999", "2026-02-30",
                "99999-01-01", "24:00:00", "'; --", "100", "a"),
    "ENUM('x', 'y', 'infinity')": ("x", "infinity", "y"),
    "DATE": ("infinity", "-infinity", "5881580-07-10", "5877642-06-25 (BC)", "0001-01-01", "9999-12-31", "2026-01-15"),
    "TIMESTAMP": ("infinity", "-infinity", "294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00",
                  "9999-12-31 23:59:59.999999", "2026-01-15 12:30:00"),
    "TIMESTAMP WITH TIME ZONE": ("infinity", "294247-01-10 04:00:54.775806+00", "2026-01-15 12:30:00+00"),
    "TIME": ("00:00:00", "24:00:00", "23:59:59.999999", "12:30:00"),
}  # fmt: skip
COLUMNS = {
    "people": {
        "flag": "BOOLEAN", "n": "BIGINT", "small": "TINYINT", "huge": "HUGEINT", "r": "DOUBLE", "f": "FLOAT",
        "d": "DECIMAL(18, 3)", "w": "DECIMAL(38, 37)", "t": "VARCHAR", "e": "ENUM('x', 'y', 'infinity')", "day": "DATE",
        "at": "TIMESTAMP", "z": "TIMESTAMP WITH TIME ZONE", "clock": "TIME",
    },
    "events": {
        "kind": "VARCHAR", "n": "BIGINT", "year": "INTEGER", "amount": "DOUBLE", "price": "DECIMAL(9, 2)",
        "hour": "TIMESTAMP", "month": "DATE", "ok": "BOOLEAN", "clock": "TIME",
    },
    "places": {
        "kind": "VARCHAR", "n": "BIGINT", "r": "DOUBLE", "d": "DECIMAL(38, 10)", "day": "DATE", "at": "TIMESTAMP",
        "flag": "BOOLEAN", "clock": "TIME",
    },
}  # fmt: skip
ROWS_OF_VICTIM = {"people": 12, "events": 20}
ROWS_OF_PLACES = 14
LARGE = 150_000
"""Rows of ordinary owners: more than one thread gets at a time."""
CATALOG: dict[str, Any] = {
    "tables": {
        "people": {
            "owner": "uid",
            "columns": {"flag": {"values": [True, False]}, "d": {"bounds": [0, 100]}},
            "policies": {
                "near": {
                    "domain": {"small": [0, 9], "e": ["x", "y"]},
                    "secret": {"distance": {"small": 2}},
                    "max_rows_per_owner": 1,
                }
            },
        },
        "events": {"owner": "uid", "max_rows_per_owner_and_group": 3, "columns": {"amount": {"bounds": [-5, 500]}}},
        "recent": {"owner": "uid", "view": "SELECT uid, kind, amount, hour FROM events WHERE n IS NOT NULL"},
        "places": {"public": True},
    },
    "defaults": {"epsilon": 1, "delta": 1e-3},
}


def database(path: Path, *, with_victim: bool = True, ordinary: int | None = None) -> str:
    """Ordinary owners have the last value of every type, or NULL; the victim has all of them, in many combinations.

    `ordinary` says how many rows the others have in each table together, where that is not one each.
    """
    with duckdb.connect(str(path)) as connection:
        for table, columns in COLUMNS.items():
            owner = "" if table == "places" else "uid BIGINT, "
            typed = ", ".join(f'"{c}" {stored}' for c, stored in columns.items())
            connection.execute(f"CREATE TABLE {table} ({owner}{typed})")
            rows = rows_of(table, columns, with_victim=with_victim)
            if ordinary is not None and owner:
                connection.execute(f"INSERT INTO {table} {_many(columns, ordinary)}")
                rows = [row for row in rows if row[0] == VICTIM]
            marks = ", ".join("?" for _ in (*columns, *(["uid"] if owner else [])))
            if rows:
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    return str(path)


def _many(columns: dict[str, str], rows: int) -> str:
    """Rows of as many owners as a third of them, with ordinary values."""
    typed = (
        f"CASE WHEN (uid + {place}) % 6 <> 0 THEN CAST('{NASTY[stored][-1]}' AS {stored}) END"
        for place, stored in enumerate(columns.values())
    )
    return f"SELECT uid, {', '.join(typed)} FROM (SELECT 100 + i // 3 AS uid FROM range({rows}) AS r(i))"


def rows_of(table: str, columns: dict[str, str], *, with_victim: bool) -> list[tuple[Any, ...]]:
    draw = random.Random(table)
    if table == "places":
        return [tuple(draw.choice((*NASTY[t], None)) for t in columns.values()) for _ in range(ROWS_OF_PLACES)]
    ordinary = [
        (uid, *(None if (uid + place) % 6 == 0 else NASTY[t][-1] for place, t in enumerate(columns.values())))
        for uid in OWNERS
        if uid != VICTIM
    ]
    count = ROWS_OF_VICTIM[table] if with_victim else 0
    return ordinary + [(VICTIM, *(draw.choice((*NASTY[t], None)) for t in columns.values())) for _ in range(count)]
