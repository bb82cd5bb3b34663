"""A subquery that looks at the outer query by the owner is a value of that owner; any other is refused as before."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.errors import ShoalError

SURE = 1e6


@pytest.fixture(scope="module")
def session():
    people = pa.table({"uid": [1, 2, 3, 4], "town": ["a", "a", "b", "b"]})
    visits = pa.table({"uid": [1, 1, 1, 2, 3, 3], "spend": [1.0, 2.0, 9.0, 4.0, 5.0, 5.0], "place": list("aabbab")})
    catalog = {
        "tables": {
            "people": {"owner": "uid", "one_row_per_owner": True, "columns": {"town": {"values": ["a", "b"]}}},
            "visits": {"owner": "uid", "columns": {"spend": {"bounds": [0, 10]}}},
        },
        "defaults": {"epsilon": SURE, "delta": 1e-6},
    }
    return shoal.connect({"people": people, "visits": visits}, catalog=catalog)


def value(session, sql):
    return next(iter(session.query(sql).to_dicts()[0].values()))


COUNTED = "(SELECT COUNT(*) FROM visits v WHERE v.uid = p.uid)"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT COUNT(*) FROM people p WHERE {COUNTED} > 1", 2),
        (f"SELECT COUNT(*) FROM people p WHERE {COUNTED} = 0", 1),
        ("SELECT COUNT(*) FROM people p WHERE (SELECT MAX(spend) FROM visits WHERE uid = p.uid AND place = 'b') > 4", 2),
        ("SELECT COUNT(*) FROM people p WHERE (SELECT SUM(v.spend) FROM visits v WHERE p.uid = v.uid) IS NULL", 1),
        (f"SELECT COUNT(*) FROM people p WHERE {COUNTED} >= 1 AND (SELECT MIN(spend) FROM visits v WHERE v.uid = p.uid) < 5", 2),
        (f"SELECT SUM({COUNTED}, contribution_bounds_per_group => (0, 8)) FROM people p", 6),
    ],
)  # fmt: skip
def test_it_is_an_exact_value_of_the_owner(session, sql, wanted):
    if "=>" in sql:
        sql = sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {SURE}, delta = 1e-6)", 1)
    assert value(session, sql) == pytest.approx(wanted, abs=0.01)


def test_averages_by_group_take_it_as_any_column(session):
    sql = f"SELECT town, AVG({COUNTED}, contribution_bounds_per_group => (0, 8)) AS n FROM people p GROUP BY town"
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {SURE}, delta = 1e-6)"
    rows = {row["town"]: row["n"] for row in session.query(sql.replace("SELECT", clause, 1)).to_dicts()}
    assert rows == pytest.approx({"a": 2, "b": 1}, abs=0.01)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (f"SELECT p.town, {COUNTED} AS n FROM people p", "E_RAW_OUTPUT"),
        ("SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.place = p.town) > 1", "E_EXPR_SUBQUERY"),
        ("SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.uid < p.uid) > 1", "E_EXPR_SUBQUERY"),
        ("SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.uid = p.uid OR TRUE) > 1", "E_EXPR_SUBQUERY"),
        ("SELECT COUNT(*) FROM people p WHERE (SELECT spend FROM visits v WHERE v.uid = p.uid) > 1", "E_EXPR_SUBQUERY"),
        (f"SELECT COUNT(*) FROM people p WHERE {COUNTED[:-1]} AND v.place = p.town) > 1", "E_EXPR_SUBQUERY"),
    ],
)  # fmt: skip
def test_what_compares_other_columns_is_refused(session, sql, code):
    with pytest.raises(ShoalError) as refused:
        session.query(sql)
    assert refused.value.code == code
