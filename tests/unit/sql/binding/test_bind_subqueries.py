"""Subqueries in expressions: what they may look at, and what ANY, ALL and rows of values mean."""

from __future__ import annotations

import pytest

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
PUBLIC = "SELECT MAX(LENGTH(r.continent)) FROM regions r WHERE r.region"
NESTED = "SELECT COUNT(*) FROM regions a WHERE a.region IN (SELECT b.region FROM regions b WHERE b.region ="

REFUSED = {
    "a private value for each row": (
        "c.age > (SELECT COUNT(*) FROM visits v WHERE v.uid = c.uid AND v.spend > c.age)",
        "E_EXPR_SUBQUERY",
        "GROUP BY uid",
    ),
    "a private value through a bare name": (
        "c.age > (SELECT MAX(spend) FROM visits WHERE age > 3)",
        "E_EXPR_SUBQUERY",
        "GROUP BY uid",
    ),
    "HAVING inside of EXISTS": (
        "EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid HAVING COUNT(*) > 3)",
        "E_EXPR_SUBQUERY",
        "GROUP BY uid",
    ),
    "EXISTS under OR": (
        "c.age > 3 OR EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid)",
        "E_EXPR_SUBQUERY",
        "GROUP BY uid",
    ),
    "a public value for each row": (f"c.age > ({PUBLIC} = c.region)", "E_UNSUPPORTED", "LEFT JOIN"),
    "a public value two levels down": (f"c.age > ({NESTED} c.region))", "E_UNSUPPORTED", "LEFT JOIN"),
    "a name that nobody knows": (f"c.age > ({PUBLIC} = d.region)", "E_UNKNOWN_TABLE", "Available"),
    "a column that nobody knows": (f"c.age > ({PUBLIC} = c.regoin)", "E_UNKNOWN_COLUMN", "region"),
    "> ALL": ("c.age > ALL (SELECT LENGTH(region) FROM regions)", "E_UNSUPPORTED", "MAX(y)"),
    "= ALL": ("c.age = ALL (SELECT LENGTH(region) FROM regions)", "E_UNSUPPORTED", "MAX(y)"),
    "= ANY of a value": ("c.age = ANY (3)", "E_UNSUPPORTED", "MAX(y)"),
    "= ANY over private rows": ("c.age = ANY (SELECT age FROM customers)", "E_EXPR_SUBQUERY", "EXISTS"),
    "rows of too few values": ("(c.region, c.age) IN (('north', 1), ('south'))", "E_UNSUPPORTED", "(a, b) IN"),
    "rows that are none": ("(c.region, c.age) IN ('north', 1)", "E_UNSUPPORTED", "(a, b) IN"),
    "rows of a subquery": ("(c.region, c.age) IN (SELECT region, 1 FROM regions)", "E_UNSUPPORTED", "EXISTS"),
    "equal rows": ("(c.region, c.age) = ('north', 1)", "E_UNSUPPORTED", "one by one"),
    "rows of other types": ("(c.region, c.age) IN ((1, 'north'))", "E_UNSUPPORTED", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_subquery_may_not_look_at_is_said(quiet_shop, refusal, name):
    condition, code, hint = REFUSED[name]
    error = refusal(quiet_shop, f"{CLAUSE} COUNT(*) FROM customers c WHERE {condition}")
    assert error.code == code, str(error)
    assert hint is None or hint in error.hint


SAME = [
    ("region = ANY (SELECT region FROM regions)", "region IN (SELECT region FROM regions)"),
    ("region = SOME (SELECT region FROM regions)", "region IN (SELECT region FROM regions)"),
    ("region <> ALL (SELECT region FROM regions)", "region NOT IN (SELECT region FROM regions)"),
    ("uid = ANY (SELECT uid FROM visits)", "uid IN (SELECT uid FROM visits)"),
    ("uid <> ALL (SELECT uid FROM visits)", "uid NOT IN (SELECT uid FROM visits)"),
    ("(region, age) IN (('north', 30))", "region = 'north' AND age = 30"),
    (
        "(region, age) IN (('north', 30), ('south', age))",
        "(region = 'north' AND age = 30) OR (region = 'south' AND age = age)",
    ),
    ("(region, age) NOT IN (('north', 30))", "NOT (region = 'north' AND age = 30)"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_any_all_and_rows_are_other_words_for_plain_conditions(quiet_shop, one, other):
    first, second = (quiet_shop.plan(f"{CLAUSE} COUNT(*) FROM customers WHERE {c}") for c in (one, other))
    assert first.selects == second.selects


def test_deep_subqueries_with_an_unknown_name_are_refused_at_once(quiet_shop, refusal, quickest):
    inner = "SELECT 1 FROM regions WHERE nobody = 1"
    for _ in range(20):
        inner = f"SELECT 1 FROM regions WHERE 1 = ({inner})"
    sql = f"{CLAUSE} COUNT(*) FROM customers WHERE 1 = ({inner})"
    assert refusal(quiet_shop, sql).code == "E_UNKNOWN_COLUMN"
    assert quickest(lambda: refusal(quiet_shop, sql), below=0.5) < 0.5
