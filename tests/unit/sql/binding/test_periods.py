"""Keys that are parts of a date: all of them appear where the catalog or WHERE says which days there can be."""

from __future__ import annotations

import contextlib
import datetime as dt

import duckdb
import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.session import connect
from shoal.sql.binding.clauses import periods

DAYS = [dt.date(2023, 11, 20) + dt.timedelta(days=n) for n in range(450)]
ORDERS = pa.table({
    "uid": [n % 40 for n in range(450)],
    "day": DAYS,
    "moment": [dt.datetime.combine(day, dt.time(13, 5)) for day in DAYS],
    "kind": ["a" if n % 2 else "b" for n in range(450)],
})  # fmt: skip
KEYS = [
    "YEAR({t})",
    "EXTRACT(QUARTER FROM {t})",
    "MONTH({t})",
    "WEEK({t})",
    "ISODOW({t})",
    "DAYOFWEEK({t})",
    "DATE_TRUNC('month', {t})",
    "DATE_TRUNC('quarter', {t})",
    "DATE_TRUNC('week', {t})",
    "STRFTIME({t}, '%Y-%m')",
    "STRFTIME({t}, '%b %y')",
    "STRFTIME({t}, '%A')",
    "MONTHNAME({t})",
    "YEAR({t}) * 100 + MONTH({t})",
    "CAST(YEAR({t}) AS VARCHAR) || '-Q' || CAST(QUARTER({t}) AS VARCHAR)",
]


def opened(period=None, population=40, **column):
    facts = {"day": {"bounds": period} if period else {}, "moment": {"bounds": period} if period else {}} | column
    return connect(
        {"orders": ORDERS},
        catalog={
            "tables": {"orders": {"owner": "uid", "columns": facts}},
            "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": population},
        },
    )


@pytest.fixture(scope="module")
def with_period():
    return opened([str(DAYS[0]), str(DAYS[-1])], population=5000)


def listed(session, sql):
    return session.plan(sql).selects[0].select.public_groups


@pytest.mark.parametrize("column", ["day", "moment"])
@pytest.mark.parametrize("key", KEYS)
def test_every_listed_group_is_what_the_engine_computes_in_the_same_order_of_days(with_period, key, column):
    written = key.format(t=column)
    shown = (
        with_period.query(f"SELECT {written} AS k, COUNT(*) AS n FROM orders GROUP BY k").to_arrow()["k"].to_pylist()
    )
    with duckdb.connect() as plain:
        plain.register("orders", ORDERS)
        exact = [row[0] for row in plain.execute(f"SELECT DISTINCT {written} FROM orders").fetchall()]
    as_days = [day.date() if isinstance(day, dt.datetime) else day for day in shown]
    exact_days = [day.date() if isinstance(day, dt.datetime) else day for day in exact]
    assert sorted(as_days) == sorted(exact_days)


@pytest.mark.parametrize(
    "read", ["STRPTIME(written, '%d/%m/%Y')", "CAST(REPLACE(written, '/', '-') AS DATE)", "CAST(iso AS DATE)"]
)
def test_strings_that_are_read_as_dates_have_the_period_of_their_column(read):
    texts = {"written": [day.strftime("%d/%m/%Y") for day in DAYS], "iso": [str(day) for day in DAYS]}
    facts = {name: {"bounds": ["2023-11-20", "2024-02-29"]} for name in texts}
    catalog = {"tables": {"orders": {"owner": "uid", "columns": facts}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    session = connect({"orders": pa.table({"uid": ORDERS["uid"]} | texts)}, catalog=catalog)
    groups = listed(session, f"SELECT STRFTIME({read}, '%Y-%m') AS m, COUNT(*) FROM orders GROUP BY m")
    if "REPLACE" in read:
        assert groups is None  # a string that is changed first may be any day
    else:
        assert [row[0] for row in groups.rows] == ["2023-11", "2023-12", "2024-01", "2024-02"]


def test_a_key_that_also_reads_the_string_itself_is_selected():
    texts = {"iso": [str(day) for day in DAYS]}
    facts = {"iso": {"bounds": ["2023-11-20", "2024-02-29"]}}
    catalog = {"tables": {"orders": {"owner": "uid", "columns": facts}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    session = connect({"orders": pa.table({"uid": ORDERS["uid"]} | texts)}, catalog=catalog)
    sql = "SELECT CAST(YEAR(CAST(iso AS DATE)) AS VARCHAR) || LEFT(iso, 1) AS k, COUNT(*) FROM orders GROUP BY k"
    assert listed(session, sql) is None


def test_two_keys_of_one_date_have_the_combinations_of_the_period_alone(with_period):
    sql = "SELECT YEAR(day) AS y, kind, MONTH(day) AS m, COUNT(*) AS n FROM orders WHERE kind = 'a' GROUP BY ALL"
    answer = with_period.query(sql).to_arrow()
    months = {(day.year, "a", day.month) for day in DAYS}
    assert set(zip(*(answer[name].to_pylist() for name in ["y", "kind", "m"]), strict=True)) == months
    assert answer.column_names == ["y", "kind", "m", "n"]


@pytest.mark.parametrize(
    ("where", "months"),
    [
        ("day >= '2024-03-01' AND day < '2024-06-01'", [3, 4, 5]),
        ("day BETWEEN DATE '2024-03-01' AND DATE '2024-05-31'", [3, 4, 5]),
        ("day > '2024-03-31' AND '2024-05-01' > day", [4]),
        ("moment >= '2024-03-01' AND moment < '2024-06-01'", None),
        ("YEAR(day) = 2024 AND MONTH(day) <= 2", [1, 2]),
        ("YEAR(day) IN (2024)", list(range(1, 13))),
        ("YEAR(day) >= 2024 AND YEAR(day) < 2025", list(range(1, 13))),
        ("CAST(day AS TIMESTAMP) >= '2024-03-01' AND day <= '2024-04-15'", [3, 4]),
    ],
)
def test_where_names_a_period(where, months):
    session = opened(population=5000)
    sql = f"SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders WHERE {where} GROUP BY m"
    if months is None:
        assert listed(session, sql) is None  # a condition on another time says nothing about this one
        return
    answer = session.query(sql)
    assert sorted(answer.to_arrow()["m"].to_pylist()) == months
    assert answer.delta == 0


@pytest.mark.parametrize(
    "where",
    [
        "day >= '2024-03-01'",
        "day < '2024-06-01'",
        "day >= '2024-03-01' OR day < '2024-06-01'",
        "NOT (day >= '2024-03-01' AND day < '2024-06-01')",
        "day >= '2024-06-01' AND day < '2024-03-01'",
        "day >= '1024-03-01' AND day < '2024-06-01'",
        "YEAR(day) > YEAR(moment) AND day < '2024-06-01'",
    ],
)
def test_no_period_where_an_end_is_open_or_too_far(where):
    sql = f"SELECT STRFTIME(day, '%Y-%m') AS m, COUNT(*) AS n FROM orders WHERE {where} GROUP BY m"
    assert listed(opened(population=5000), sql) is None


@pytest.mark.parametrize(
    "key",
    ["moment", "HOUR(moment)", "DATE_TRUNC('hour', moment)", "STRFTIME(moment, '%H')", "LENGTH(kind) + YEAR(day)"],
)
def test_what_a_day_does_not_decide_is_selected(with_period, key):
    assert listed(with_period, f"SELECT {key} AS k, COUNT(*) FROM orders GROUP BY k") is None


def test_days_are_listed_up_to_as_many_as_there_are_owners(with_period):
    sql = "SELECT day, COUNT(*) FROM orders GROUP BY day"
    assert len(listed(with_period, sql).rows) == len(DAYS)
    assert listed(opened([str(DAYS[0]), str(DAYS[-1])], population=400), sql) is None


def test_with_the_clause_nothing_changes(with_period):
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY MONTH(day) AS m, COUNT(*) FROM orders GROUP BY m"
    assert listed(with_period, sql) is None


def test_where_narrows_the_period_of_the_catalog(with_period):
    sql = "SELECT YEAR(day) AS y, COUNT(*) FROM orders WHERE day >= '2024-05-01' GROUP BY y"
    groups = listed(with_period, sql)
    values = [node for node in nodes.walk(groups) if isinstance(node, nodes.Values)]
    assert [row for node in values for row in node.rows] == [(2024,), (2025,)]


def test_the_answer_says_which_rows_are_in_no_group(with_period):
    answer = with_period.query("SELECT YEAR(day) AS y, COUNT(*) FROM orders GROUP BY y")
    assert any("All groups of a public period appear" in note for note in answer.notes)


def test_an_empty_answer_by_month_proposes_a_period():
    rare = pa.table({"uid": list(range(40)), "day": DAYS[::12][:38] + DAYS[:2]})
    session = connect(
        {"rare": rare},
        catalog={"tables": {"rare": {"owner": "uid"}}, "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": 40}},
    )
    answer = session.query("SELECT STRFTIME(day, '%Y-%m') AS m, COUNT(*) AS n FROM rare GROUP BY m")
    assert answer.to_arrow().num_rows == 0
    (said,) = [note for note in answer.notes if note.startswith("No group appears")]
    assert "bounds = [" in said
    helped = session.query(
        "SELECT STRFTIME(day, '%Y-%m') AS m, COUNT(*) AS n FROM rare WHERE day >= '2024-01-01' AND day < '2025-01-01' GROUP BY m"
    )
    assert helped.to_arrow().num_rows == 12


@pytest.mark.parametrize(
    "bounds",
    [
        ["2024-13-01", "2024-12-31"],
        ["2024-12-31", "2024-01-01"],
        ["2024-01-01", 5],
        ["2024-01-01"],
        ["2024-01-01", "soon"],
    ],
)
def test_days_that_are_none_are_refused(bounds):
    with pytest.raises(ShoalError) as refused:
        opened(bounds)
    assert refused.value.code == "E_CATALOG"


def test_the_table_says_its_period(with_period):
    assert with_period.tables()["orders"]["columns"]["day"]["bounds"] == [str(DAYS[0]), str(DAYS[-1])]


NUMBERS = ["MONTH({t})" + " * 100000000000" * 7, "YEAR({t}) * 9223372036854775807", "MONTH({t}) * " + "9" * 38]


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers_beyond_64_bits_are_not_listed(with_period, key):
    """Written into a statement, some were an internal error, and others no value that a row has."""
    key = key.format(t="day")
    assert listed(with_period, f"SELECT {key} AS k, COUNT(*) AS n FROM orders GROUP BY {key}") is None
    with_period.query(f"SELECT {key} AS k, COUNT(*) AS n FROM orders GROUP BY {key}")


def test_what_keys_are_on_each_day_is_computed_as_long_as_a_statement_has_time(monkeypatch):
    """A query of 3 KB, not charged, planned for a minute; one of 64 KB would have for twenty."""
    computed = []
    monkeypatch.setattr(
        periods, "_shown", lambda value, day, shown=periods._shown: computed.append(1) or shown(value, day)
    )
    session = opened(["1902-01-01", "2023-12-31"], population=5000)
    key = " + ".join(["YEAR(day)"] * 20)
    for select in (
        ", ".join(f"{key} + {i} AS k{i}" for i in range(20)) + ", COUNT(*) AS n FROM orders GROUP BY ALL",
        " UNION ALL SELECT ".join(f"YEAR(day) + {i} AS k, COUNT(*) AS n FROM orders GROUP BY 1" for i in range(30)),
    ):
        computed.clear()
        with contextlib.suppress(ShoalError):
            session.plan(f"SELECT {select}")
        assert len(computed) < 300_000


def test_years_of_more_than_a_century_are_listed_as_before():
    session = opened(["1902-01-01", "2023-12-31"], population=5000)
    assert len(listed(session, "SELECT YEAR(day) AS y, COUNT(*) AS n FROM orders GROUP BY y").rows) == 122
