"""The first and the last day that a catalog gives for a column bound its times: nothing is spent to find them."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest

import shoal

FIRST, LAST = dt.date(2024, 3, 1), dt.date(2024, 3, 31)
DAYS = ((FIRST - dt.date(1970, 1, 1)).days, (LAST - dt.date(1970, 1, 1)).days)
SECONDS = (DAYS[0] * 86_400, (DAYS[1] + 1) * 86_400)
OWNERS = 400


@pytest.fixture(scope="module")
def session():
    number = range(OWNERS)
    days = [FIRST + dt.timedelta(days=n % 31) for n in number]
    visits = pa.table(
        {
            "uid": number,
            "day": pa.array([*days[:-1], dt.date(1990, 1, 1)], pa.date32()),
            "at": pa.array([SECONDS[1] - 1] * OWNERS, pa.timestamp("s")),
            "free": pa.array(days, pa.date32()),
            "said": [str(day) for day in days],
        }
    )
    period = {"bounds": [str(FIRST), str(LAST)]}
    columns = {"day": period, "at": period, "said": period}
    catalog = {"tables": {"visits": {"owner": "uid", "columns": columns}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    return shoal.connect({"visits": visits}, catalog=catalog)


def bounds_of(session, value):
    call = session.plan(f"SELECT {value} AS v FROM visits").selects[0].columns[0].call
    return (None if call.bounds is None else (call.bounds.lower, call.bounds.upper)), call.bounds_source


@pytest.mark.parametrize(
    ("value", "bounds"),
    [
        ("MIN(day)", DAYS),
        ("MAX(day)", DAYS),
        ("MEDIAN(day)", DAYS),
        ("MAX(at)", SECONDS),
        ("MIN(COALESCE(day, day))", DAYS),
        ("MIN(day) FILTER (WHERE uid % 2 = 0)", DAYS),
        ("AVG(UNIX_DATE(day))", DAYS),
        ("AVG(EPOCH(at))", SECONDS),
    ],
)
def test_times_of_a_known_period_lie_in_it(session, value, bounds):
    assert bounds_of(session, value) == (bounds, "catalog")


@pytest.mark.parametrize(
    "value", ["MIN(free)", "MIN(COALESCE(day, free))", "MAX(day + 3)", "AVG(day - DATE '2024-01-01')"]
)
def test_what_no_period_is_known_of_is_looked_for(session, value):
    assert bounds_of(session, value) == (None, "inferred")


def test_an_answer_stays_in_the_period_and_says_it_in_days(session):
    """The owner whose day is outside counts as one at its first day."""
    answer = session.query("SELECT MIN(day) AS first, MAX(day) AS last FROM visits")
    (row,) = answer.to_dicts()
    assert FIRST <= row["first"] <= row["last"] <= LAST
    said = " ".join(answer.notes)
    assert "values are clamped to [2024-03-01, 2024-03-31]" in said
    assert "decades" not in said


def test_without_a_period_the_answer_says_what_to_write(session):
    said = " ".join(session.query("SELECT MIN(free) AS first FROM visits").notes)
    assert 'bounds = ["2020-01-01", "2024-12-31"] of the column' in said
    assert re.search(r"bounds \[\d{4}-\d\d-\d\d, \d{4}-\d\d-\d\d\] were found", said)


def test_a_time_that_cannot_be_found_asks_for_days_not_numbers(session):
    said = " ".join(session.query("SELECT MIN(free) AS first FROM visits WHERE uid < 2").notes)
    assert "write the first and the last day into the catalog" in said
    assert "(0, 100)" not in said


def test_notes_about_times_are_said_once_and_name_no_interval_that_is_not_there(session):
    notes = session.query("SELECT MIN(free) AS first, MAX(free) AS last FROM visits").notes
    assert sum("decades apart" in note for note in notes) == 1
    assert "MIN(free): an earlier time of one owner may be hidden by the noise." in notes
    assert "MAX(free): a later time of one owner may be hidden by the noise." in notes
    assert not any("its interval" in note for note in notes)
