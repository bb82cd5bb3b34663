"""Values of two types that meet: the engine's own casts never decide, and nothing of a row is shown or counted by its place.

Each query looks at one owner through a condition of its own. With and without that owner it must have the same face.
"""

from __future__ import annotations

import nasty_data
import pyarrow as pa
import pytest
from corpus import PRIVATE
from oracles import face_of

import shoal

VICTIM = "CASE WHEN uid = 7 AND income > 0 THEN 100 ELSE 0 END"
NARROW = "CAST(0.5 AS DECIMAL(38, 37))"
FAR_DAY = "CAST(CASE WHEN uid = 7 THEN '99999-01-01' ELSE '2026-01-01' END AS DATE)"
MOMENT = "CAST('2026-01-01 00:00:00' AS TIMESTAMP)"

ORACLES = {
    "IN": f"COUNT(*) FROM customers WHERE {VICTIM} IN (SELECT {NARROW})",
    "NOT IN": f"COUNT(*) FROM customers WHERE {VICTIM} NOT IN (SELECT {NARROW})",
    "= ANY": f"COUNT(*) FROM customers WHERE {VICTIM} = ANY (SELECT {NARROW})",
    "<> ALL": f"COUNT(*) FROM customers WHERE {VICTIM} <> ALL (SELECT {NARROW})",
    "IN below OR": f"COUNT(*) FROM customers WHERE income < 0 OR {VICTIM} IN (SELECT {NARROW})",
    "IN in a SELECT list": f"COUNT(*) FROM (SELECT uid, {VICTIM} IN (SELECT {NARROW}) AS found FROM customers) WHERE found",
    "JOIN ON": f"COUNT(*) FROM customers c JOIN regions r ON CASE WHEN c.uid = 7 THEN 100 ELSE 0 END IN (SELECT {NARROW})",
    "HAVING of an owner subquery": "COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM customers GROUP BY uid "
    f"HAVING CASE WHEN uid = 7 THEN 100 ELSE 0 END IN (SELECT {NARROW}))",
    "a date in timestamps": f"COUNT(*) FROM customers WHERE {FAR_DAY} IN (SELECT {MOMENT})",
    "a date NOT IN timestamps": f"COUNT(*) FROM customers WHERE {FAR_DAY} NOT IN (SELECT {MOMENT})",
    "a correlated comparison": "COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM regions r WHERE "
    f"r.region = c.region AND CASE WHEN c.uid = 7 THEN 100 ELSE 0 END = {NARROW})",
    "the default of LAG": "COUNT(*) FROM (SELECT uid, LAG(100, 1, CASE WHEN uid = 7 THEN 9223372036854775807 ELSE 0 END) "
    "OVER (PARTITION BY uid ORDER BY age) AS x FROM customers) WHERE x > 0",
    "a double in integers": f"COUNT(*) FROM customers WHERE CASE WHEN uid = 7 THEN 1e300 ELSE 0 END IN (SELECT {2**40})",
    "text in a list of numbers": f"COUNT(*) FROM customers WHERE CAST({VICTIM} AS VARCHAR) IN (SELECT 1)",
}


@pytest.mark.parametrize("sql", ORACLES.values(), ids=ORACLES.keys())
def test_a_cast_that_nobody_wrote_tells_nothing_about_one_owner(sql):
    tables = nasty_data.built(*nasty_data.ordinary())
    faces = [
        face_of(shoal.connect(data, catalog=nasty_data.CATALOG), PRIVATE + sql)
        for data in (tables, nasty_data.without(tables))
    ]
    assert faces[0] == faces[1]


@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(12, 2)", "DOUBLE"])
def test_a_value_is_found_among_values_of_another_numeric_type(kind):
    table = pa.table({"uid": range(1000), "x": [i % 4 for i in range(1000)]})
    session = shoal.connect({"t": table}, catalog={"tables": {"t": {"owner": "uid"}}})
    exact = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=100000) COUNT(*) AS n FROM t WHERE x "
    found = session.query(f"{exact} IN (SELECT CAST(3 AS {kind}))").to_dicts()
    missing = session.query(f"{exact} NOT IN (SELECT CAST(3 AS {kind}))").to_dicts()
    assert (found, missing) == ([{"n": 250}], [{"n": 750}])


@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP", "TIME", "BIGINT", "DOUBLE", "BOOLEAN", "DECIMAL(9, 2)"])
def test_a_missing_text_casts_to_a_missing_value(type_):
    session = shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG)
    session.query(PRIVATE + f"COUNT(*) FROM visits WHERE CAST(CAST(NULL AS VARCHAR) AS {type_}) IS NULL")


# ---- raw columns above a release ----------------------------------------------------------------------------------

PARTS = ["day", "month", "year", "hour", "minute", "second", "week", "quarter", "dow", "isoweek", "days"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    "call", ["YEAR({0})", "DATE_TRUNC('month', {0})", "DATE_DIFF('day', {0}, {0})", "MONTHNAME({0})"]
)
def test_a_column_named_like_a_part_of_a_date_is_a_raw_column(name, call):
    visits = nasty_data.built(*nasty_data.ordinary())["visits"].rename_columns(["uid", "site", name, "spend"])
    session = shoal.connect({"visits": visits}, catalog={"tables": {"visits": {"owner": "uid"}}})
    for where in (
        "site, {0} AS x, COUNT(*) FROM visits GROUP BY site",
        "site, COUNT(*) FROM visits GROUP BY site HAVING {0} IS NULL",
    ):
        with pytest.raises(shoal.ShoalError, match="E_RAW_OUTPUT"):
            session.query(PRIVATE + where.format(call.format(name)))
    assert session.spent == (0.0, 0.0)


def test_a_bare_word_is_still_a_unit_where_no_column_has_its_name():
    tables = nasty_data.built(*nasty_data.ordinary())
    session = shoal.connect(tables, catalog=nasty_data.CATALOG)
    assert session.plan(PRIVATE + "DATE_TRUNC(month, visits.day) AS m, COUNT(*) FROM visits GROUP BY 1").selects


# ---- windows that follow physical order ---------------------------------------------------------------------------

FRAMES = [
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
]
PHYSICAL = [
    "SUM(r) FROM (SELECT uid, {1} OVER (PARTITION BY uid {0}) AS r FROM visits)",
    "SUM(r) FROM (SELECT uid, {1} OVER w AS r FROM visits WINDOW w AS (PARTITION BY uid {0}))",
    "SUM(r) FROM (SELECT uid, {1} OVER (w {0}) AS r FROM visits WINDOW w AS (PARTITION BY uid))",
    "COUNT(*) FROM (SELECT uid FROM visits QUALIFY {1} OVER (PARTITION BY uid {0}) > 1)",
    "SUM(r) FROM (SELECT uid, SUM(COUNT(*)) OVER (PARTITION BY uid {0}) AS r FROM visits GROUP BY uid, site)",
    "SUM(r) FROM (SELECT uid, day, {1} OVER (PARTITION BY uid {0}) AS r FROM visits ORDER BY day)",
]


@pytest.mark.parametrize("sql", PHYSICAL)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_without_an_order_would_follow_physical_order(sql, frame):
    session = shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG)
    for call in ("COUNT(*)", "SUM(spend)", "MAX(spend)", "FIRST_VALUE(spend)"):
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(PRIVATE + sql.format(frame, call))
        assert refused.value.code in {"E_UNSUPPORTED", "E_PARSE"}
    assert session.spent == (0.0, 0.0)


def test_nulls_are_never_ignored_by_a_window_that_was_asked_to():
    session = shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG)
    ignored = "LAST_VALUE(spend IGNORE NULLS) OVER (PARTITION BY uid ORDER BY day)"
    with pytest.raises(shoal.ShoalError, match="E_UNSUPPORTED"):
        session.plan(PRIVATE + f"SUM(r) FROM (SELECT uid, {ignored} AS r FROM visits)")


# ---- smaller ------------------------------------------------------------------------------------------------------


def test_owners_of_a_full_join_are_united_with_owners_of_the_same_table():
    session = shoal.connect(nasty_data.built(*nasty_data.ordinary()), catalog=nasty_data.CATALOG)
    both = "(SELECT uid FROM customers FULL JOIN visits USING (uid) UNION {} SELECT uid FROM customers)"
    for how in ("ALL", ""):
        assert session.plan(PRIVATE + f"COUNT(*) FROM {both.format(how)}").selects


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        *(
            (word, kind)
            for word in ("infinity", "-infinity", "99999-01-01", "0001-01-01 (BC)")
            for kind in ("DATE", "TIMESTAMP")
        ),
        ("24:00:00", "TIME"),
    ],
)
def test_a_text_that_no_calendar_has_is_no_date(text, type_):
    table = pa.table({"uid": range(1000), "s": [text] * 1000})
    session = shoal.connect({"t": table}, catalog={"tables": {"t": {"owner": "uid"}}})
    asked = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=100000) COUNT(*) AS n FROM t WHERE CAST(s AS {type_}) IS NOT NULL"
    assert session.query(asked).to_dicts() == [{"n": 0}]
