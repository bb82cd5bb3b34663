"""The tables of `nasty_data` beside others: owners that stand elsewhere, references to a key, rows that are owners."""

from __future__ import annotations

import copy
from typing import Any

import nasty_data
import pyarrow as pa
from nasty_data import OWNER, Tables

EXTRA = {
    "orders": {"owner": "uid"},
    "lines": {"owner": {"through": "order_id", "to": "orders"}},
    "returns": {"owner": {"through": "line", "to": "lines", "key": "line_id"}},
    "payments": {"owner": "uid", "references": {"order_id": "orders"}},
    "answers": {"owner": "each row"},
}
CATALOG: dict[str, Any] = copy.deepcopy(nasty_data.CATALOG)
CATALOG["tables"] |= EXTRA
PLAIN_CATALOG = CATALOG | {"defaults": {"epsilon": 1, "delta": 1e-6}}
"""With a price for queries that name none."""

TYPES = {
    "orders": {"order_id": pa.int64(), "uid": pa.int64(), "place": pa.string(), "total": pa.float64()},
    "lines": {"line_id": pa.int64(), "order_id": pa.int64(), "units": pa.int32(), "label": pa.string()},
    "returns": {"line": pa.int64(), "why": pa.string(), "back": pa.date32()},
    "payments": {"uid": pa.int64(), "order_id": pa.int64(), "paid": pa.float64()},
    "answers": {"choice": pa.string(), "score": pa.int64(), "weight": pa.float64()},
}
KEYS = [None, "", "%", "north", "e\u0301", "7", "2026-01-15", "x" * 70_000]
NUMBERS = [float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324, None, 12.5]


def _orders() -> dict[str, list[tuple[Any, ...]]]:
    """Three orders each for thirty owners; owner 7 has one order for every nasty value."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in EXTRA}
    for uid in range(1, 31):
        for number in range(len(KEYS) if uid == OWNER else 3):
            order, nasty = 100 * uid + number, uid == OWNER
            value, key = NUMBERS[number % 8] if nasty else 10.0, KEYS[number % 8] if nasty else "north"
            rows["orders"].append((order, uid, key, value))
            rows["payments"].append((uid, order, value))
            for line in range(4 if nasty else 2):
                rows["lines"].append(
                    (10 * order + line, order, (0, -(2**31), 2**31 - 1, None)[line] if nasty else 2, key)
                )
            rows["returns"].append((10 * order, key, nasty_data.FIRST_DAY))
    rows["orders"].append((1, None, "north", 1.0))
    rows["lines"] += [(1, 999_999, 1, "lost"), (2, None, 1, "lost"), (3, 1, 1, "of nobody")]
    rows["answers"] = [("yes" if number % 3 else "no", number % 5, 1.0) for number in range(60)]
    return rows


def tables() -> Tables:
    """Everything at once, and what refers to it."""
    rows = _orders()
    rows["answers"].append(("é" * 1000, -(2**63), float("nan")))
    return nasty_data.everything_at_once() | _built(rows)


def neighbour() -> Tables:
    """Without owner 7, whatever leads there, and the one nasty answer: owners of two kinds, which no query can join."""
    rows = _orders()
    gone = {row[0] for row in rows["orders"] if row[1] == OWNER}
    kept = {
        "orders": [row for row in rows["orders"] if row[1] != OWNER],
        "lines": [row for row in rows["lines"] if row[1] not in gone],
        "returns": [row for row in rows["returns"] if row[0] // 10 not in gone],
        "payments": [row for row in rows["payments"] if row[0] != OWNER],
        "answers": rows["answers"],
    }
    return nasty_data.shuffled(nasty_data.without(nasty_data.everything_at_once()) | _built(kept))


def alone() -> Tables:
    """Owner 7, and the one nasty answer, with nobody else."""
    rows = _orders()
    own = {row[0] for row in rows["orders"] if row[1] == OWNER}
    kept = {
        "orders": [row for row in rows["orders"] if row[1] == OWNER],
        "lines": [row for row in rows["lines"] if row[1] in own],
        "returns": [row for row in rows["returns"] if row[0] // 10 in own],
        "payments": [row for row in rows["payments"] if row[0] == OWNER],
        "answers": [("é" * 1000, -(2**63), float("nan"))],
    }
    everything = nasty_data.everything_at_once()
    only = {
        name: everything[name].filter(pa.array([uid == OWNER for uid in everything[name].column("uid").to_pylist()]))
        for name in ("customers", "visits")
    }
    return everything | only | _built(kept)


def _built(rows: dict[str, list[tuple[Any, ...]]]) -> Tables:
    made = {}
    for name, types in TYPES.items():
        columns = zip(*rows[name], strict=True)
        arrays = [pa.array(list(column), type_) for column, type_ in zip(columns, types.values(), strict=True)]
        made[name] = pa.Table.from_arrays(arrays, names=list(types))
    return made
