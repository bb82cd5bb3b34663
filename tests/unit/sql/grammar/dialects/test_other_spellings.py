"""What people bring from other databases means the same here: each spelling is compared with DuckDB's own, row by row."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect

ROWS = pa.table(
    {
        "uid": [1, 2, 3, 4],
        "name": ["Ann Lee", "Bob", None, "Cy Old Rd"],
        "kind": ["a", "b", "a", None],
        "n": [1, 7, None, 12],
        "x": [0.5, 9.99, 25.0, -1.0],
        "day": [dt.date(2025, 1, 31), dt.date(2024, 2, 1), None, dt.date(2025, 12, 31)],
        "seen": pa.array([1738314300, 1738454399, None, 1735603200], pa.int64()).cast(pa.timestamp("s")),
    }
)
CATALOG = {"tables": {"t": {"owner": "uid"}, "p": {"public": True}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}

SAME = {
    # as it is written elsewhere: as DuckDB writes it
    "ISNULL(kind, '?')": "coalesce(kind, '?')",
    "ISNULL(kind)": "kind IS NULL",
    "NVL2(kind, 1, 0)": "CASE WHEN kind IS NOT NULL THEN 1 ELSE 0 END",
    "ZEROIFNULL(n)": "coalesce(n, 0)",
    "NULLIFZERO(n - 1)": "nullif(n - 1, 0)",
    "DECODE(kind, 'a', 1, 'b', 2, 0)": "CASE kind WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 0 END",
    "DECODE(kind, 'a', 1)": "CASE kind WHEN 'a' THEN 1 END",
    "CHOOSE(n, 'one', 'two')": "CASE n WHEN 1 THEN 'one' WHEN 2 THEN 'two' END",
    "DIV0(x, n - 1)": "CASE WHEN n - 1 = 0 THEN 0 ELSE x / (n - 1) END",
    "WIDTH_BUCKET(x, 0, 10, 5)": "CASE WHEN x < 0 THEN 0 WHEN x >= 10 THEN 6 ELSE floor(x / 2)::INT + 1 END",
    "n DIV 2": "n // 2",
    "CHARINDEX('o', name)": "strpos(name, 'o')",
    "LOCATE('o', name)": "strpos(name, 'o')",
    "CONCAT_WS('-', kind, name, n)": "concat_ws('-', kind, name, n)",
    "SUBSTRING_INDEX(name, ' ', 1)": "split_part(name, ' ', 1)",
    "SUBSTRING(name FROM '^[A-Z]([a-z]+)')": "nullif(regexp_extract(name, '^[A-Z]([a-z]+)', 1), '')",
    "SUBSTRING(name FROM 2 FOR 3)": "substring(name, 2, 3)",
    "[n] + [x]": "n + x",
    "COALESCE([kind], [name])": "coalesce(kind, name)",
    "CASE WHEN [n] BETWEEN 1 AND 7 THEN [kind] ELSE [name] END": "CASE WHEN n BETWEEN 1 AND 7 THEN kind ELSE name END",
    "SPLIT(name, ' ')[2]": "string_split(name, ' ')[2]",
    "SPLIT(name, ' ')[OFFSET(0)]": "string_split(name, ' ')[1]",
    "SPLIT(name, ' ')[ORDINAL(3)]": "string_split(name, ' ')[3]",
    "name + '!'": "name || '!'",
    "name ~ 'O'": "regexp_matches(name, 'O')",
    "name ~* 'o'": "regexp_matches(name, '(?i)o')",
    "name RLIKE '^B'": "regexp_matches(name, '^B')",
    "name NOT REGEXP '^B'": "NOT regexp_matches(name, '^B')",
    "name LIKE ANY ('A%', 'B%')": "name LIKE 'A%' OR name LIKE 'B%'",
    "name NOT LIKE ALL ('%n%', '%e%')": "NOT (name LIKE '%n%' AND name LIKE '%e%')",
    "kind == 'a'": "kind = 'a'",
    r"REGEXP_EXTRACT(name, '^(\w+)')": "nullif(regexp_extract(name, '^([0-9A-Za-z_]+)', 1), '')",
    r"name ~ '\s[A-Z\.]'": "regexp_matches(name, '[ ][A-Z.]')",
    "CONVERT(VARCHAR(10), n)": "n::VARCHAR",
    "CONVERT(x, SIGNED)": "x::BIGINT",
    "CAST(n > 5 AS DOUBLE)": "(n > 5)::INT::DOUBLE",
    "DATEPART(weekday, day)": "dayofweek(day) + 1",
    "DATEPART(dw, seen)": "dayofweek(seen) + 1",
    "DATEPART('weekday', day)": "dayofweek(day)",
    "DATEPART(qq, day)": "quarter(day)",
    "DATEPART(hh, seen)": "hour(seen)",
    "DATEPART(year, day)": "year(day)",
    "TO_CHAR(seen, 'YYYY-MM HH24:MI')": "strftime(seen, '%Y-%m %H:%M')",
    "TO_CHAR(day, 'Day')": "dayname(day)",
    "DATE_FORMAT(seen, '%M %H:%i')": "strftime(seen, '%B %H:%M')",
    "DATE_FORMAT(seen, 'yyyy-MM')": "strftime(seen, '%Y-%m')",
    "FORMAT(day, 'dd.MM.yyyy')": "strftime(day, '%d.%m.%Y')",
    "STR_TO_DATE(DATE_FORMAT(seen, '%d/%m/%Y'), '%d/%m/%Y')": "seen::DATE",
    "TO_DATE(TO_CHAR(day, 'DD.MM.YYYY'), 'DD.MM.YYYY')": "day",
    "TO_DATE('2025-01-31') = day": "day = DATE '2025-01-31'",
    "DATENAME(month, day)": "monthname(day)",
    "EOMONTH(day)": "last_day(day)",
    "DATEADD(day, 3, day)": "(day + INTERVAL 3 DAY)::DATE",
    "DATEDIFF(seen, day)": "date_diff('day', day, seen::DATE)",
    "TIMESTAMPDIFF(HOUR, day, seen)": "date_sub('hour', day::TIMESTAMP, seen)",
    "TIME_BUCKET('1 day', seen)": "date_trunc('day', seen)",
    "TIME_SLICE(seen, 1, 'HOUR')": "date_trunc('hour', seen)",
    "UNIX_TIMESTAMP(seen) > 0": "epoch(seen) > 0",
    "JULIANDAY(seen) - JULIANDAY(day)": "julian(seen) - julian(day)",
    "JULIAN(seen)": "julian(seen)",
    "GETDATE() > seen": "now() > seen::TIMESTAMPTZ",
}


@pytest.fixture(scope="module")
def session():
    return connect({"t": ROWS, "p": ROWS}, catalog=CATALOG)


@pytest.fixture(scope="module")
def plain():
    connection = duckdb.connect()
    connection.register("t", ROWS)
    return connection


@pytest.mark.parametrize(("written", "meant"), SAME.items(), ids=SAME)
def test_it_means_what_duckdb_spells_otherwise(session, plain, written, meant):
    """Over public rows, so that answers are exact."""
    ours = [row["v"] for row in session.query(f"SELECT uid, {written} AS v FROM p ORDER BY uid").to_dicts()]
    theirs = [row[0] for row in plain.execute(f"SELECT {meant} FROM t ORDER BY uid").fetchall()]
    assert [_plain(value) for value in ours] == [_plain(value) for value in theirs]
    session.plan(f"SELECT {written} AS v, COUNT(*) FROM t GROUP BY 1")


def _plain(value: object) -> object:
    return dt.datetime.combine(value, dt.time()) if type(value) is dt.date else value


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TOP 2 kind, COUNT(*) AS n FROM p GROUP BY kind ORDER BY n DESC, kind",
        "SELECT TOP (2) kind, COUNT(*) AS n FROM p GROUP BY kind ORDER BY n DESC, kind",
    ],
)
def test_top_takes_the_first_rows_in_order(session, sql):
    assert [row["n"] for row in session.query(sql).to_dicts()] == [2, 1]


def test_top_beside_limit_is_that_of_the_inner_query(session):
    assert len(session.query("SELECT TOP 2 uid FROM p ORDER BY uid LIMIT 1").to_dicts()) == 1


def test_words_of_other_databases_are_names_where_nothing_follows(session):
    assert len(session.query("SELECT n AS div, n div FROM p").to_dicts()) == 4
    with pytest.raises(ShoalError, match="no column 'TOP'"):
        session.query("SELECT TOP FROM p")


@pytest.mark.parametrize(
    "aggregate",
    [
        "SUM(n > 5)",
        "AVG(n > 5)",
        "COUNT(*) FILTER (n > 5)",
        "COUNT(DISTINCT kind, n)",
        "COUNT(DISTINCT (kind, n))",
        "QUANTILE(x, 0.5)",
        "PERCENTILE(x, 0.5)",
        "APPROX_PERCENTILE(x, 0.5)",
        "APPROX_QUANTILES(x, 100)[OFFSET(50)]",
        "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY x DESC)",
        "STDEV(x)",
        "STD(x)",
        "VAR(x)",
        "VARP(x)",
        "MIN(day)",
        "MAX(seen)",
        "MEDIAN(day)",
    ],
)
def test_aggregates_of_other_databases_have_a_private_form(session, aggregate):
    session.plan(f"SELECT {aggregate} FROM t")


def test_shares_of_the_whole(session):
    shares = session.query("SELECT n, RATIO_TO_REPORT(SUM(n)) OVER () AS s FROM p GROUP BY n ORDER BY n").to_dicts()
    assert [row["s"] for row in shares[:3]] == pytest.approx([1 / 20, 7 / 20, 12 / 20])


def test_a_truth_has_the_bounds_0_and_1_without_looking(session):
    assert "found privately" not in str(session.explain("SELECT SUM(n > 5), AVG((n > 5)::INT) FROM t"))


def test_nested_calls_do_not_grow_without_end(session):
    value = "n"
    for _ in range(30):
        value = f"DIV0(1, {value})"
    with pytest.raises(ShoalError) as refused:
        session.query(f"SELECT {value} FROM p")
    assert refused.value.code in {"E_FUNCTION_NOT_ALLOWED", "E_LIMITS"}


def test_dates_come_back_as_dates():
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=number % 300) for number in range(3000)]
    rows = pa.table({"uid": list(range(3000)), "day": days})
    session = connect({"t": rows}, catalog={"tables": {"t": {"owner": "uid"}}})
    options = "OPTIONS(epsilon = 200, delta = 1e-6)"
    [found] = session.query(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {options} MIN(day) AS a, MAX(day) AS b FROM t"
    ).to_dicts()
    # how far they are off is drawn; found bounds of days from 16,384 to 32,768 are the widest that either can be in
    assert type(found["a"]) is type(found["b"]) is dt.date
    assert dt.date(1970, 1, 1) <= found["a"] <= found["b"] <= dt.date(2149, 6, 6)


def test_a_pattern_with_an_unknown_backslash_is_refused(session):
    with pytest.raises(ShoalError, match="without backslashes"):
        session.query(r"SELECT REGEXP_EXTRACT(name, '\bA') FROM p")


def test_a_string_where_a_time_is_meant_is_told_how_to_be_read(session):
    with pytest.raises(ShoalError) as refused:
        session.query("SELECT YEAR(kind), COUNT(*) FROM t GROUP BY 1")
    assert "STRPTIME" in (refused.value.hint or "")


def test_rows_without_an_owner_are_said_to_be_in_no_answer(session):
    assert "are in no answer" in str(session.explain("SELECT COUNT(*) FROM t WHERE uid IS NULL"))


def test_one_moment_is_now(session):
    session.plan("SELECT NOW() > seen AS past, COUNT(*) FROM t GROUP BY NOW() > seen")
