"""BigQuery's words mean what BigQuery says, DuckDB's what DuckDB says; both written out by hand in plain DuckDB."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import shoal
from shoal.errors import ShoalError

DAYS = [dt.date(2023, 12, 20) + dt.timedelta(days=n) for n in range(400)] + [
    dt.date(1969, 12, 28),
    dt.date(1970, 1, 1),
    dt.date(1900, 1, 7),
    dt.date(2000, 12, 31),
    dt.date(9999, 12, 31),
    dt.date(1, 1, 8),
]
OTHERS = [DAYS[(7 * n + 3) % len(DAYS)] for n in range(len(DAYS))]

SUNDAYS = "(DATE '1900-01-07')"
"""A Sunday: days since then, in whole sevens, number the weeks that begin on Sunday."""

BY_HAND = {
    # BigQuery: weeks begin on Sunday, or on the day that is named; ISOWEEK on Monday.
    "DATE_TRUNC(day, WEEK)": "CAST(day - CAST(dayofweek(day) AS INTEGER) AS DATE)",
    "DATE_TRUNC(day, WEEK(SUNDAY))": "CAST(day - CAST(dayofweek(day) AS INTEGER) AS DATE)",
    "DATE_TRUNC(day, WEEK(MONDAY))": "CAST(day - CAST((dayofweek(day) + 6) % 7 AS INTEGER) AS DATE)",
    "DATE_TRUNC(day, week(thursday))": "CAST(day - CAST((dayofweek(day) + 3) % 7 AS INTEGER) AS DATE)",
    "DATE_TRUNC(day, WEEK(SATURDAY))": "CAST(day - CAST((dayofweek(day) + 1) % 7 AS INTEGER) AS DATE)",
    "DATE_TRUNC(day, ISOWEEK)": "CAST(date_trunc('week', day) AS DATE)",
    "TIMESTAMP_TRUNC(TIMESTAMP(day), WEEK)": "CAST(day - CAST(dayofweek(day) AS INTEGER) AS TIMESTAMP)",
    "DATE_DIFF(day, other, WEEK)": (
        f"floor((day - {SUNDAYS}) / 7.0)::BIGINT - floor((other - {SUNDAYS}) / 7.0)::BIGINT"
    ),
    "DATETIME_DIFF(TIMESTAMP(day), TIMESTAMP(other), WEEK(WEDNESDAY))": (
        f"floor((day - 3 - {SUNDAYS}) / 7.0)::BIGINT - floor((other - 3 - {SUNDAYS}) / 7.0)::BIGINT"
    ),
    "DATE_DIFF(day, other, ISOWEEK)": "(date_trunc('week', day)::DATE - date_trunc('week', other)::DATE) // 7",
    "DATE_DIFF(day, other, WEEK(MONDAY))": "(date_trunc('week', day)::DATE - date_trunc('week', other)::DATE) // 7",
    "EXTRACT(DAYOFWEEK FROM day)": "dayofweek(day) + 1",
    "EXTRACT(WEEK FROM day)": "CAST(strftime(day, '%U') AS BIGINT)",
    "EXTRACT(WEEK(SUNDAY) FROM day)": "CAST(strftime(day, '%U') AS BIGINT)",
    "EXTRACT(WEEK(MONDAY) FROM day)": "CAST(strftime(day, '%W') AS BIGINT)",
    "EXTRACT(WEEK(TUESDAY) FROM TIMESTAMP(day))": "(dayofyear(day) + 6 - (dayofweek(day) + 5) % 7) // 7",
    "EXTRACT(ISOWEEK FROM day)": "weekofyear(day)",
    "EXTRACT(ISOYEAR FROM day)": "isoyear(day)",
    "DATE_TRUNC(day, DAY)": "day",
    "DATE_TRUNC(day, MONTH)": "date_trunc('month', day)::DATE",
    # DuckDB: units as texts, and functions; ISO weeks.
    "DATE_TRUNC('week', day)": "date_trunc('week', day)::DATE",
    "DATE_TRUNC(day, 'week')": "date_trunc('week', day)::DATE",
    "DATE_TRUNC('month', week)": "date_trunc('month', week)::DATE",
    "DATE_DIFF('week', other, day)": "date_diff('week', other, day)",
    "DATE_PART('week', day)": "date_part('week', day)",
    "DATE_PART('dayofweek', day)": "date_part('dayofweek', day)",
    "EXTRACT(DOW FROM day)": "extract(dow FROM day)",
    "DAYOFWEEK(day)": "dayofweek(day)",
    "WEEK(day)": "week(day)",
    # Logarithms, as BigQuery writes them.
    "ROUND(LOG(n), 9)": "round(ln(n), 9)",
    "ROUND(LOG(n, 2), 9)": "round(log2(n), 9)",
    "ROUND(LOG(8, n), 9)": "CASE WHEN n <> 1 THEN round(ln(8) / ln(n), 9) END",
    "ROUND(LOG10(n), 9)": "round(log10(n), 9)",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(
        {
            "day": DAYS,
            "other": OTHERS,
            "week": OTHERS,
            "month": list(range(len(DAYS))),
            "n": list(range(1, len(DAYS) + 1)),
        }
    )


@pytest.fixture(scope="module")
def session(table):
    with shoal.connect({"days": table}, catalog={"tables": {"days": {"public": True}}}) as opened:
        yield opened


@pytest.mark.parametrize("written", BY_HAND)
def test_the_words_of_a_query_mean_what_their_language_says(session, table, written):
    with duckdb.connect() as plain:
        plain.register("days", table)
        expected = plain.sql(f"SELECT day, {BY_HAND[written]} AS found FROM days").fetchall()
    found = session.query(f"SELECT day, {written} AS found FROM days")
    answered = [(row["day"], row["found"]) for row in found.to_dicts()]
    assert sorted(answered, key=str) == sorted(expected, key=str)


def test_a_week_that_begins_before_the_calendar_has_no_beginning(session):
    (row,) = session.query(
        "SELECT DATE_TRUNC(DATE '0001-01-03', WEEK) AS a, DATE_TRUNC(DATE '0001-01-03', ISOWEEK) AS b"
    ).to_dicts()
    assert row == {"a": None, "b": dt.date(1, 1, 1)}


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("EXTRACT(WEEK(SOMEDAY) FROM day)", "E_UNSUPPORTED"),
        ("EXTRACT(MONTH(MONDAY) FROM day)", "E_UNSUPPORTED"),
        ("EXTRACT(WEEK(MONDAY, 1) FROM day)", "E_PARSE"),
        ("DATE_TRUNC(day, WEEK(SOMEDAY))", "E_UNSUPPORTED"),
        ("DATE_TRUNC(day, FORTNIGHT)", "E_UNKNOWN_COLUMN"),
        ("TIMESTAMP_DIFF(day, other, WEEK(MONDAY))", "E_UNSUPPORTED"),
        ("DATE_PART('week(sunday)', day)", "E_UNSUPPORTED"),
        ("DATE_TRUNC('week(sunday)', day)", "E_UNSUPPORTED"),
    ],
)
def test_what_is_no_unit_of_time_is_refused(session, written, code):
    with pytest.raises(ShoalError) as refusal:
        session.query(f"SELECT {written} FROM days")
    assert refusal.value.code == code
