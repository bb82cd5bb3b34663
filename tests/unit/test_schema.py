"""Types and facts, frozen when a session opens."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.ledger import Ledger
from shoal.catalog import Catalog
from shoal.session import Session

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100000, delta = 0.01, max_groups_contributed = 5)"


def types(session) -> dict:
    return {name: facts["type"] for name, facts in session.tables()["t"]["columns"].items()}


def test_a_type_of_the_catalog_wins_and_what_does_not_parse_is_null(open_shop):
    table = pa.table({"uid": range(200), "n": ["7", "x"] * 100, "day": ["2026-01-02"] * 200})
    catalog = {"tables": {"t": {"owner": "uid", "columns": {"n": {"type": "BIGINT"}, "day": {"type": "date"}}}}}
    session = open_shop(catalog, {"t": table})
    assert types(session) == {"uid": "integer", "n": "integer", "day": "date"}
    (row,) = session.query(f"{CLAUSE} COUNT(n, contribution_bounds_per_group => (0, 5)) AS n FROM t").to_dicts()
    assert row == {"n": 100}
    (row,) = session.query(
        f"{CLAUSE} day, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM t GROUP BY day"
    ).to_dicts()
    assert row == {"day": dt.date(2026, 1, 2), "n": 200}


def test_types_do_not_change_while_a_session_is_open():
    """A table that the custodian changes meanwhile is refused before the charge; no answer has another type."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS uid, i AS x FROM range(100) r(i)")
        session = shoal.connect(connection, catalog={"tables": {"t": {"owner": "uid"}}})
        before = session.plan(f"{CLAUSE} x, COUNT(*) AS n FROM t GROUP BY x")
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT i AS uid, 'text' AS x FROM range(100) r(i)")
        assert types(session) == {"uid": "integer", "x": "integer"}
        assert session.plan(f"{CLAUSE} x, COUNT(*) AS n FROM t GROUP BY x") == before
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(f"{CLAUSE} SUM(x, contribution_bounds_per_group => (0, 100)) AS s FROM t")
        assert refused.value.code == "E_SOURCE"
        assert session.spent == (0.0, 0.0)


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.int64())])
def test_an_owner_that_could_look_different_and_be_equal_is_refused(open_shop, kind):
    values = [1.0, 2.0] if kind == pa.float64() else [[1], [2]]
    with pytest.raises(shoal.ShoalError) as refused:
        open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": pa.array(values, kind)})})
    assert refused.value.code == "E_CATALOG"


@pytest.mark.parametrize(
    "owners",
    [
        pa.array(range(300), pa.int16()),
        pa.array([f"user {i}" for i in range(300)]),
        pa.array([2**63 + i for i in range(300)], pa.uint64()),
        pa.array([dt.date(2000, 1, 1) + dt.timedelta(days=i) for i in range(300)]),
        pa.array(range(300), pa.int64()).cast(pa.decimal128(20, 0)),
        pa.array([f"user {i}" for i in range(300)]).dictionary_encode(),
    ],
    ids=["int16", "text", "uint64 beyond int64", "date", "decimal", "dictionary"],
)
def test_owners_of_every_usable_type_are_told_apart(open_shop, owners):
    session = open_shop(
        {"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": owners, "g": [i % 3 for i in range(300)]})}
    )
    assert session.query(f"{CLAUSE} COUNT(DISTINCT uid) AS n FROM t").to_dicts() == [{"n": 300}]
    rows = session.query(f"{CLAUSE} g, COUNT(DISTINCT uid) AS n FROM t GROUP BY g").to_dicts()
    assert sorted((row["g"], row["n"]) for row in rows) == [(0, 100), (1, 100), (2, 100)]


class Nothing:
    """An engine without any table, as behind `shoal explain` without data."""

    warnings: tuple[str, ...] = ()

    def tables(self):
        return {}

    def row_counts(self, _):
        return {}


def test_without_data_types_are_guessed_from_what_the_catalog_says():
    facts = {
        "spend": {"bounds": [0, 9]}, "site": {"values": ["a"]}, "vip": {"values": [None, True]}, "n": {"type": "integer"},
        "day": {"values": [dt.date(2026, 1, 1)]}, "level": {"values": [1, 2]},
    }  # fmt: skip
    catalog = Catalog.from_dict({"tables": {"t": {"owner": "uid", "columns": facts}}})
    session = Session(Nothing(), catalog, Ledger.in_memory())
    assert types(session) == {
        "uid": "integer", "spend": "double", "site": "text", "vip": "boolean", "n": "integer", "day": "date", "level": "integer",
    }  # fmt: skip
    assert "SUM" in str(session.explain("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) SUM(spend) FROM t"))


@pytest.mark.parametrize(
    "facts",
    [
        {"g": {"values": ["a", "b"]}},
        {"g": {"values": [1.5]}},
        {"g": {"values": [[1]]}},
        {"g": {"values": [{"a": 1}]}},
        {"t": {"values": [1, 2]}},
        {"d": {"values": ["yesterday"]}},
    ],
)
def test_listed_values_that_do_not_fit_their_column_are_refused_when_the_session_opens(open_shop, facts):
    table = pa.table({"uid": [1], "g": [1], "t": ["a"], "d": [dt.date(2026, 1, 1)]})
    with pytest.raises(shoal.ShoalError) as refused:
        open_shop({"tables": {"t": {"owner": "uid", "columns": facts}}}, {"t": table})
    assert refused.value.code == "E_CATALOG"


@pytest.mark.parametrize(
    ("column", "values", "keys"),
    [
        ("g", [1, 2, None], {1, 2, None}),
        ("d", ["2026-01-01", dt.date(2026, 1, 2)], {dt.date(2026, 1, 1), dt.date(2026, 1, 2)}),
        ("x", [1, 2.5], {1.0, 2.5}),
        ("b", [True, False], {True, False}),
    ],
)
def test_listed_values_may_be_written_in_any_form_that_fits(open_shop, column, values, keys):
    table = pa.table({"uid": [1], "g": [1], "x": [1.0], "b": [True], "d": [dt.date(2026, 1, 1)]})
    session = open_shop({"tables": {"t": {"owner": "uid", "columns": {column: {"values": values}}}}}, {"t": table})
    rows = session.query(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) {column} AS k, COUNT(DISTINCT uid) AS n FROM t GROUP BY k"
    )
    assert {row["k"] for row in rows.to_dicts()} == keys
