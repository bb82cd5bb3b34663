"""SELECT WITH POLICY: what is refused, with which code and for nothing, in a query and in the catalog."""

from __future__ import annotations

import pytest
from policy_people import CATALOG, POLICIES, TABLES, query

import shoal
from shoal.errors import ShoalError
from shoal.result import OWNER_LEVEL


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (query("SUM(age) FROM people JOIN wards USING (ward)"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM (SELECT * FROM people)"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM people WHERE age IN (SELECT 1)"), "E_UNSUPPORTED"),
        ("WITH a AS (SELECT 1 AS x) " + query("SUM(age) FROM people"), "E_UNSUPPORTED"),
        (f"SELECT * FROM ({query('SUM(age) AS s FROM people')})", "E_UNSUPPORTED"),
        (query("SUM(age) FROM people") + " UNION ALL " + query("SUM(age) FROM people"), "E_UNSUPPORTED"),
        (
            query("SUM(age) AS s FROM people") + " UNION ALL SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM people",
            "E_POLICY",
        ),
        (query("SUM(uid) FROM people"), "E_UNKNOWN_COLUMN"),
        (query("SUM(secret_column) FROM people"), "E_UNKNOWN_COLUMN"),
        (query("uid, COUNT(*) FROM people GROUP BY uid"), "E_UNKNOWN_COLUMN"),
        (query("age FROM people"), "E_RAW_OUTPUT"),
        (query("* FROM people"), "E_RAW_OUTPUT"),
        (query("MAX(age) FROM people"), "E_AGG_NOT_DP"),
        (query("STDDEV(age) FROM people"), "E_AGG_NOT_DP"),
        (query("COUNT(DISTINCT age) FROM people"), "E_UNSUPPORTED"),
        (query("SUM(age, contribution_bounds_per_group => (0, 1)) FROM people"), "E_UNSUPPORTED"),
        (query("SUM(ward) FROM people"), "E_UNSUPPORTED"),
        (query("MEDIAN(age + 1) FROM people"), "E_UNSUPPORTED"),
        (query("MEDIAN(ward) FROM people"), "E_UNSUPPORTED"),
        (query("ward, MEDIAN(age) FROM people GROUP BY ward"), "E_UNSUPPORTED"),
        (query("MEDIAN(age) FROM people WHERE age % 2 = 0"), "E_UNSUPPORTED"),
        (query("PERCENTILE_CONT(age, 2) FROM people"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM people", policy="unknown"), "E_OPTION_INVALID"),
        (query("SUM(age) FROM plain"), "E_OPTION_INVALID"),
        (query("COUNT(*) FROM wards"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM nobody"), "E_UNKNOWN_TABLE"),
        (query("SUM(age) FROM read_csv('x')"), "E_TABLE_FUNCTION"),
        (query("SUM(age) FROM people", epsilon=0), "E_OPTION_INVALID"),
        (query("SUM(age) FROM people", more=", delta = 0.1"), "E_OPTION_UNKNOWN"),
        (query("SUM(age) FROM people", more=", epsilon = 1"), "E_OPTION_INVALID"),
        ("SELECT WITH POLICY OPTIONS(epsilon = 1) SUM(age) FROM people", "E_OPTION_INVALID"),
        ("SELECT WITH POLICY OPTIONS(policy = 'nearby_age') SUM(age) FROM people", "E_OPTION_INVALID"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(policy = 'nearby_age', epsilon = 1) SUM(age) FROM people",
            "E_OPTION_UNKNOWN",
        ),
        (query("random() AS r, COUNT(*) FROM people GROUP BY 1"), "E_FUNCTION_NOT_ALLOWED"),
    ],
)
def test_refusals_carry_their_codes_and_spend_nothing(sql, code):
    with shoal.connect(TABLES, CATALOG, budget=(1000, 0)) as opened:
        for ask in (opened.query, opened.explain):
            with pytest.raises(ShoalError) as refused:
                ask(sql)
            assert refused.value.code == code
        assert opened.spent == (0, 0)
        assert opened.ledger.entries() == []


def test_an_unknown_column_names_the_attributes(session):
    with pytest.raises(ShoalError) as refused:
        session.query(query("SUM(income) FROM people"))
    assert "age, ward" in refused.value.hint


def test_plain_sql_never_uses_a_policy():
    catalog = CATALOG | {"defaults": {"epsilon": 1, "delta": 1e-6}}
    with shoal.connect(TABLES, catalog) as opened:
        assert opened.query("SELECT COUNT(*) AS n FROM people").promise == OWNER_LEVEL


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "half"},
        {"secret": {"distance": {"age": 0}}},
        {"secret": {"distance": {"height": 1}}},
        {"secret": {"partition": {"age": [500]}}},
        {"domain": {}},
        {"domain": {"age": [9, 0]}},
        {"domain": {"age": "all"}},
        {"domain": {"uid": [0, 5], "age": [0, 5]}},
        {"known": [["ward"], ["age"]]},
        {"known": [["height"]]},
        {"max_rows_per_owner": 0},
        {"unknown": 1},
    ],
)
def test_a_wrong_policy_in_the_catalog_is_refused(change):
    written = POLICIES["nearby_age"] | change
    with pytest.raises(ShoalError) as refused:
        shoal.Catalog.from_dict({"tables": {"people": {"owner": "uid", "policies": {"p": written}}}})
    assert refused.value.code == "E_CATALOG"


def test_a_public_table_has_no_policies():
    with pytest.raises(ShoalError, match="nobody to protect"):
        shoal.Catalog.from_dict({"tables": {"t": {"public": True, "policies": {"p": POLICIES["everything"]}}}})


def test_an_attribute_that_is_no_column_is_told_before_anything_is_read():
    policies = {"p": {"domain": {"height": [0, 5]}, "secret": "full"}}
    with shoal.connect(TABLES, {"tables": {"people": {"owner": "uid", "policies": policies}}}) as opened:
        with pytest.raises(ShoalError) as refused:
            opened.query(query("SUM(height) FROM people", policy="p"))
        assert refused.value.code == "E_CATALOG"
