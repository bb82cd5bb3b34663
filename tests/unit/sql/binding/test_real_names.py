"""Hints can be followed to the letter: the suggestion is taken out of the hint, put into the query, and the query runs."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect

DAY = dt.date(2025, 1, 2)
CATALOG = {
    "tables": {
        "clients": {"owner": "client no"},
        "Order Details": {"owner": "client no"},
        "votes": {"owner": "voter"},
        "survey": {"owner": "each row"},
        "towns": {"public": True},
    },
    "defaults": {"epsilon": 1.0, "delta": 1e-6, "max_epsilon_per_query": 2.0},
}
TABLES = {
    "clients": pa.table({"client no": [1, 2, 3], "town": ["a", "b", "a"], "born": [DAY] * 3}),
    "Order Details": pa.table({"client no": [1, 2, 2], "amount": [1.0, 2.0, 3.0], "day": [DAY] * 3}),
    "votes": pa.table({"voter": ["x", "y"], "party": ["p", "q"]}),
    "survey": pa.table({"answer": ["yes", "no"]}),
    "towns": pa.table({"town": ["a", "b"], "size": [1, 2]}),
}
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
ORDERS = '"Order Details"'


@pytest.fixture(scope="module")
def session():
    return connect(TABLES, catalog=CATALOG)


def hint_of(session, sql):
    with pytest.raises(ShoalError) as refused:
        session.query(sql)
    return refused.value.hint


CASES = [
    # (a query that is refused, the suggestion in its hint, the query that follows it)
    (
        'SELECT "client no", COUNT(*) FROM clients GROUP BY 1',
        r"such as (.+) or",
        "SELECT {0}, COUNT(*) FROM clients GROUP BY 1",
    ),
    (
        'SELECT "client no", COUNT(*) FROM clients GROUP BY 1',
        r" or (.+)\.$",
        "SELECT {0}, COUNT(*) FROM clients GROUP BY 1",
    ),
    ("SELECT voter, COUNT(*) FROM votes GROUP BY 1", r"such as (.+)\.$", "SELECT {0}, COUNT(*) FROM votes GROUP BY 1"),
    (f"SELECT CORR(amount, o.amount) FROM {ORDERS} o", r"Write (.+)$", f"SELECT {{0}} FROM {ORDERS} o"),
    (f"SELECT COVAR_POP(amount, amount) FROM {ORDERS}", r"Write (.+)$", f"SELECT {{0}} FROM {ORDERS}"),
    (f"SELECT REGR_SLOPE(amount, amount) FROM {ORDERS}", r"Write (.+)$", f"SELECT {{0}} FROM {ORDERS}"),
    ("SELECT MODE(party) FROM votes", r"Write (.+?):", "SELECT party, COUNT(*) FROM votes {0}"),
    ("SELECT STRING_AGG(party, ', ') FROM votes", r"(GROUP BY party)", "SELECT party, COUNT(*) FROM votes {0}"),
    (
        f"SELECT COUNT(*) FROM clients c JOIN {ORDERS} o ON c.born = o.day",
        r"Write (.+?);",
        f"SELECT COUNT(*) FROM clients c JOIN {ORDERS} o {{0}}",
    ),
    (
        f"SELECT COUNT(*) FROM clients, {ORDERS} WHERE born = day",
        r"Write ON (.+?);",
        f"SELECT COUNT(*) FROM clients, {ORDERS} WHERE {{0}}",
    ),
    (
        f'{CLAUSE}(epsilon = 1) AVG((SELECT COUNT(*) FROM {ORDERS} o WHERE o."client no" >= c."client no")) FROM clients c',
        r"join: (.+)$",
        "SELECT AVG(v.n) FROM clients c {0}",
    ),
    (
        f'SELECT SUM(s) FROM (SELECT "client no", SUM(amount) OVER (ORDER BY day) AS s FROM {ORDERS} o)',
        r"Write (.+?):",
        f'SELECT SUM(s) FROM (SELECT "client no", SUM(amount) {{0}} AS s FROM {ORDERS} o)',
    ),
    (
        f'SELECT COUNT(*) FROM (SELECT town, "client no" FROM clients UNION ALL SELECT "client no", \'x\' FROM {ORDERS})',
        r"(.+)$",
        "SELECT COUNT(*) FROM ({0})",
    ),
    (f"{CLAUSE}(epsilon = '1') COUNT(*) FROM clients", r"quotes: (.+)\.", f"{CLAUSE}({{0}}) COUNT(*) FROM clients"),
    (f"{CLAUSE}(epsilon = 3) COUNT(*) FROM clients", r"Write (.+) or less", f"{CLAUSE}({{0}}) COUNT(*) FROM clients"),
    (
        f"{CLAUSE}(epsilon = 1, delta = 0) town, COUNT(*) FROM clients GROUP BY 1",
        r"Write (.+?) \(",
        f"{CLAUSE}(epsilon = 1, {{0}}) town, COUNT(*) FROM clients GROUP BY 1",
    ),
    (
        f"{CLAUSE}(epsilon = 1, delta = 0, noise = GAUSSIAN) COUNT(*) FROM clients",
        r"Write (.+?),",
        f"{CLAUSE}(epsilon = 1, {{0}}, noise = GAUSSIAN) COUNT(*) FROM clients",
    ),
    (
        f"SELECT PERCENTILE_CONT(amount, 2) FROM {ORDERS}",
        r"Write (.+)\.$",
        f'SELECT {{0}} FROM (SELECT "client no", amount AS x FROM {ORDERS})',
    ),
    (
        f"SELECT QUANTILE_CONT(amount, [2]) FROM {ORDERS}",
        r"Write (.+)\.$",
        f'SELECT {{0}} FROM (SELECT "client no", amount AS x FROM {ORDERS})',
    ),
    (
        f"SELECT APPROX_QUANTILES(amount, 0) FROM {ORDERS}",
        r"Write (.+)\.$",
        f'SELECT {{0}} FROM (SELECT "client no", amount AS x FROM {ORDERS})',
    ),
    ("SELECT tow, COUNT(*) FROM clients GROUP BY 1", r"mean '(.+?)'", "SELECT {0}, COUNT(*) FROM clients GROUP BY 1"),
]


@pytest.mark.parametrize(("sql", "suggestion", "follows"), CASES, ids=lambda value: value[:60])
def test_a_hint_is_followed_to_the_letter(session, sql, suggestion, follows):
    hint = hint_of(session, sql)
    found = re.search(suggestion, hint)
    assert found is not None, hint
    taken = re.sub(r"\(SELECT (.*), … FROM", r"(SELECT \1 FROM", found.group(1)).replace(", …", "")
    session.plan(follows.format(taken))  # all that can be refused is refused here, and nothing is spent


@pytest.mark.parametrize("sql", [sql for sql, _, _ in CASES])
def test_no_hint_speaks_of_tables_that_are_not_there(session, sql):
    assert not re.search(r"\b(uid|visits|customers|regions)\b", hint_of(session, sql))


def test_a_table_whose_rows_are_owners_is_explained_where_it_is_joined(session):
    hint = hint_of(session, "SELECT COUNT(*) FROM clients c JOIN survey s ON c.town = s.answer")
    assert "Each row of survey is its own owner" in hint
    assert "public = true" in hint
