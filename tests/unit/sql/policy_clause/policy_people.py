"""People with an age and a ward, policies about them, and how they are asked under one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ROWS = 2000


DOMAIN = {"age": [0, 100], "ward": ["A", "B", "C"]}


POLICIES = {
    "nearby_age": {"domain": DOMAIN, "secret": {"distance": {"age": 5}}, "known": [["ward"]]},
    "everything": {"domain": DOMAIN, "secret": "full"},
    "tens": {"domain": DOMAIN, "secret": {"partition": {"age": list(range(0, 100, 10))}}},
    "two_rows": {"domain": DOMAIN, "secret": {"distance": {"age": 5}}, "max_rows_per_owner": 2},
    "pairs": {"domain": {"age": [0, 100]}, "secret": {"graph": [[30, 31], [31, 40]]}},
    "facts": {"domain": DOMAIN, "secret": {"attributes": 1}},
}


CATALOG = {
    "tables": {
        "people": {"owner": "uid", "policies": POLICIES},
        "plain": {"owner": "uid"},
        "wards": {"public": True},
    }
}


HUGE = 10**6


def people(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "uid": np.arange(rows),
            "age": rng.integers(0, 101, rows),
            "ward": rng.choice(["A", "B", "C"], rows),
            "secret_column": np.arange(rows),
        }
    )


TABLES = {"people": people(), "plain": people(5), "wards": pa.table({"ward": ["A", "B", "C"]})}


def query(text, policy="nearby_age", epsilon=HUGE, more=""):
    return f"SELECT WITH POLICY OPTIONS(policy = '{policy}', epsilon = {epsilon}{more}) {text}"
