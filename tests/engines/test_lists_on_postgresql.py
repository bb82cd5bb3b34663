"""Groups of public tables that an outer join reads, on a PostgreSQL server: the list with NULLs is made there as here."""

from __future__ import annotations

import pyarrow as pa
from postgres_tables import write

import shoal

CATALOG = {
    "tables": {"listed_visits": {"owner": "uid"}, "listed_kinds": {"public": True}},
    "defaults": {"epsilon": 1e4, "delta": 1e-6, "population": 300},
}
SQL = (
    "SELECT k.label, k.kind, COUNT(*) AS n FROM listed_visits v LEFT JOIN listed_kinds k ON v.kind = k.kind "
    "GROUP BY k.label, k.kind"
)


def test_the_group_of_rows_without_a_match_is_listed_and_counted(postgres_database):
    url, connection = postgres_database
    kinds = [n % 5 if n % 7 else None for n in range(300)]
    write(connection, "listed_visits", pa.table({"uid": list(range(300)), "kind": kinds}))
    write(connection, "listed_kinds", pa.table({"kind": [0, 1, 2, 9], "label": ["a", "b", None, "d"]}))
    with shoal.connect(url, CATALOG) as session:
        found = {(row["label"], row["kind"]): row["n"] for row in session.query(SQL).to_dicts()}
    exact = {(label, kind): n for label, kind, n in connection.execute(SQL).fetchall()}
    assert found == exact | {("d", 9): 0}
    assert exact[None, None] > 100
