"""Hints can be followed to the letter: the suggestion is taken out of the hint, put into the query, and the query runs."""

from __future__ import annotations

import ast
import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pytest

import shoal
from shoal.errors import QUERY_CODES, ShoalError
from shoal.session import connect

DAY = dt.date(2025, 1, 2)
CATALOG = {
    "tables": {
        "clients": {"owner": "client no"},
        "Order Details": {"owner": "client no"},
        "votes": {"owner": "voter"},
        "survey": {"owner": "each row"},
        "ballots": {"owner": "voter", "one_row_per_owner": True},
        "guests": {"owner": "guest_id"},
        "staff": {"owner": "each row", "columns": {"team": {"values": ["red", "blue"]}}},
        "towns": {"public": True},
        "two-towns": {"public": True},
    },
    "defaults": {"epsilon": 1.0, "delta": 1e-6, "max_epsilon_per_query": 2.0, "max_groups_per_owner": 3},
}
TABLES = {
    "clients": pa.table({"client no": [1, 2, 3], "town": ["a", "b", "a"], "born": [DAY] * 3}),
    "Order Details": pa.table({"client no": [1, 2, 2], "amount": [1.0, 2.0, 3.0], "day": [DAY] * 3}),
    "votes": pa.table({"voter": ["x", "y"], "party": ["p", "q"]}),
    "survey": pa.table({"answer": ["yes", "no"]}),
    "ballots": pa.table({"voter": ["x", "y"], "party": ["p", "q"]}),
    "guests": pa.table({"guest_id": [1], "Full Name": ["Ann Lee"], "E-mail": ["a@b.c"], "Room type": ["single"]}),
    "staff": pa.table({"city": ["Ulm"], "team": ["red"]}),
    "two-towns": pa.table({"birth-day": ["mon"]}),
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
    ("SELECT * FROM clients LIMIT 5", r"can: (.+?)\. DESCRIBE", "{0}"),
    (f"SELECT * FROM {ORDERS}", r"can: (.+?)\. DESCRIBE", "{0}"),
    ('SELECT "Full Name" FROM guests', r"shown: (.+?)\. DESCRIBE", "{0}"),
    ("SELECT guest_id, COUNT(*) FROM guests GROUP BY 1", r" or (.+)\.$", "SELECT {0}, COUNT(*) FROM guests GROUP BY 1"),
    (f"SELECT amount FROM {ORDERS}", r"Write (.+?), or", f"SELECT {{0}} FROM {ORDERS}"),
    (f"SELECT amount FROM {ORDERS}", r", or (.+)\.$", "{0}"),
    ("SELECT town, COUNT(*) FROM clients", r"Add (GROUP BY town),", "SELECT town, COUNT(*) FROM clients {0}"),
    ("SELECT town, born FROM clients GROUP BY town", r"write (.+)\.$", "SELECT town, {0} FROM clients GROUP BY town"),
    (
        f'SELECT COUNT(*) FROM (SELECT "client no", NTILE(4) OVER (ORDER BY amount) AS q FROM {ORDERS})',
        r"first: (.+?)\. A second",
        "{0}",
    ),
    (
        'SELECT COUNT(*) FROM (SELECT "client no", COUNT(*) OVER (PARTITION BY town) AS n FROM clients)',
        r"group: (.+)\.$",
        "{0}",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY party ORDER BY party) AS n FROM ballots) WHERE n = 1",
        r"ranked: (.+)\.$",
        "{0}",
    ),
    ("SELECT SUM(town) FROM clients", r"Write (.+?):", "SELECT {0} FROM clients"),
    (
        "SELECT YEAR(town), COUNT(*) FROM clients GROUP BY 1",
        r"first: (.+?\)),",
        "SELECT YEAR({0}), COUNT(*) FROM clients GROUP BY 1",
    ),
    ("SELECT COUNT(*) FROM two-towns", r"Write (.+)\.$", "SELECT COUNT(*) FROM {0}"),
    (
        'SELECT birth-day, COUNT(*) FROM "two-towns" GROUP BY 1',
        r"mean (\S+)\?",
        'SELECT {0}, COUNT(*) FROM "two-towns" GROUP BY 1',
    ),
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
    ("SELECT BOOL_OR(town = 'a') FROM clients", r"Write (.+?),", "SELECT {0} FROM clients"),
    (
        "SELECT town, SUM(COUNT(*)) OVER (ORDER BY town RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM clients GROUP BY 1",
        r"Write (ROWS .+)\.$",
        "SELECT town, SUM(COUNT(*)) OVER (ORDER BY town {0}) FROM clients GROUP BY 1",
    ),
    (
        "SELECT COUNT(*) FROM towns WHERE (size, size) IN (1, 2)",
        r"Write (.+)\.$",
        "SELECT COUNT(*) FROM (SELECT size AS a, size AS b FROM towns) WHERE {0}",
    ),
    (
        f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT town, x => 1) FROM clients",
        r"takes .*(max_contributions_per_group)",
        f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT town, {{0}} => 1) FROM clients",
    ),
    (
        f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT town, contribution_bounding_strategy => 'GREEDY') FROM clients",
        r"Write (AUTO)",
        f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT town, contribution_bounding_strategy => '{{0}}') FROM clients",
    ),
    (
        f"SELECT SUM(amount, contribution_bounds_per_group => (1)) FROM {ORDERS}",
        r"Write (.+?), or",
        f"SELECT SUM(amount, contribution_bounds_per_group => {{0}}) FROM {ORDERS}",
    ),
    (
        f"SELECT SUM(amount, contribution_bounds_per_group => (5, 1)) FROM {ORDERS}",
        r"as in (.+)\.$",
        f"SELECT SUM(amount, contribution_bounds_per_group => {{0}}) FROM {ORDERS}",
    ),
    (
        f"SELECT SUM(amount, 0, 5) FROM {ORDERS}",
        r"Write bounds as (.+?) => \(lower",
        f"SELECT SUM(amount, {{0}} => (0, 5)) FROM {ORDERS}",
    ),
    (
        "SELECT COUNT(*, contribution_bounds_per_group => (-5, -1)) FROM clients",
        r"such as (.+)\.$",
        "SELECT COUNT(*, contribution_bounds_per_group => {0}) FROM clients",
    ),
    (
        f"SELECT MEDIAN(0.5) WITHIN GROUP (ORDER BY amount) FROM {ORDERS}",
        r"Write (.+)\.$",
        f'SELECT {{0}} FROM (SELECT "client no", amount AS x FROM {ORDERS})',
    ),
    (
        "SELECT UNNEST(town) AS part FROM towns",
        r"Write (.+)\.$",
        "SELECT {0} AS part FROM (SELECT town AS x FROM towns)",
    ),
    ("SELECT COUNT(DISTINCT *) FROM clients", r"Write (.+)\.$", "SELECT {0} FROM (SELECT *, town AS x FROM clients)"),
    (
        "SELECT COUNT(*) FROM clients WHERE born < DATE '2025-01-01' + INTERVAL '1 moon'",
        r": (.+?),",
        "SELECT COUNT(*) FROM clients WHERE born < DATE '2025-01-01' + {0}",
    ),
    (
        "SELECT COUNT(*) FROM clients WHERE born < DATE '2025-01-01' + INTERVAL 'x' DAY",
        r"Write (.+?) or",
        "SELECT COUNT(*) FROM clients WHERE born < DATE '2025-01-01' + {0}",
    ),
    ("SELECT COUNT(*) FROM clients WHERE town IN 'a'", r"Write (.+?) or", "SELECT COUNT(*) FROM towns WHERE size {0}"),
    (
        "SELECT COUNT(*) FROM clients WHERE EXTRACT('x' FROM born) = 1",
        r"Write (.+)\.$",
        'SELECT COUNT(*) FROM (SELECT "client no", born AS day FROM clients) WHERE {0} = 1',
    ),
    ("SELECT CAST(size AS DECIMAL(a)) FROM towns", r"Write (.+?) or", "SELECT CAST(size AS {0}) FROM towns"),
    ("SELECT CAST(size AS DECIMAL(a)) FROM towns", r" or (.+)\.$", "SELECT CAST(size AS {0}) FROM towns"),
    ("SELECT COUNT(*) FROM clients WHERE town ISNULL", r"Write (.+)\.$", "SELECT COUNT(*) FROM clients WHERE town {0}"),
    (
        "SELECT COUNT(*) FROM clients WHERE town NOTNULL",
        r"Write (.+)\.$",
        "SELECT COUNT(*) FROM clients WHERE town {0}",
    ),
    ("SELECT town FROM towns LIMIT 1, 2", r"Write (.+)\.$", "SELECT town FROM towns {0}"),
    ("SELECT town FROM towns LIMIT 10 PERCENT", r"Write (.+)\.$", "SELECT town FROM towns {0}"),
    ("SELECT town FROM towns FETCH FIRST 3 PERCENT", r"Write (.+)\.$", "SELECT town FROM towns {0}"),
    ("SELECT TOP 3 PERCENT town FROM towns", r"Write (.+)\.$", "SELECT {0} town FROM towns"),
    (
        "SELECT WITH AGGREGATION_THRESHOLD COUNT(*) FROM clients",
        r"Write (.+)\.$",
        "SELECT {0} OPTIONS(epsilon = 1) COUNT(*) FROM clients",
    ),
    ("SELECT WITH PRIVACY COUNT(*) FROM clients", r"Write (.+?) …", "{0} COUNT(*) FROM clients"),
    ("SELECT size AS 'n' FROM towns", r"Write (.+)\.$", "SELECT size {0} FROM towns"),
    ("SELECT COUNT(*) FROM towns t JOIN towns s", r"or (.+)\.$", "SELECT COUNT(*) FROM towns t {0} towns s"),
    ("SELECT COUNT(*) FROM towns WHERE size <=> 1", r"Write (.+)\.$", "SELECT COUNT(*) FROM towns WHERE size {0} 1"),
    (
        "SELECT COUNT(*) FROM towns WHERE !(size = 1)",
        r"Write (\w+),",
        "SELECT COUNT(*) FROM towns WHERE {0} (size = 1)",
    ),
    (
        "SELECT COUNT(*) FROM towns WHERE size ^ 2 > 1",
        r"Use (.+)\.$",
        "SELECT COUNT(*) FROM (SELECT size AS x, 2 AS y FROM towns) WHERE {0} > 1",
    ),
    (
        "SELECT COUNT(*) FROM towns WHERE town SIMILAR TO 'a'",
        r"Use (.+?) with",
        "SELECT COUNT(*) FROM (SELECT town AS text FROM towns) WHERE {0}",
    ),
    (
        "SELECT COUNT(*) FROM towns WHERE town GLOB 'a*'",
        r"Use (.+?),",
        "SELECT COUNT(*) FROM towns WHERE town {0} 'a%'",
    ),
    (
        "SELECT town[1:2] FROM towns",
        r"Use (.+)\.$",
        "SELECT {0} FROM (SELECT town AS text, 1 AS start, 2 AS length FROM towns)",
    ),
    (
        "SELECT PERCENTILE_CONT(amount, 0.5)[1] FROM " + ORDERS,
        r"write (.+?) or",
        f'SELECT {{0}} FROM (SELECT "client no", amount AS x FROM {ORDERS})',
    ),
    (
        "SELECT SUM(born) FROM clients",
        r"Count days: (.+)\.$",
        'SELECT SUM({0}) FROM (SELECT "client no", born AS x FROM clients)',
    ),
    (
        f"SELECT COUNT(*) FROM clients c JOIN {ORDERS} c ON c.born = c.day",
        r": c (AS other)[.]$",
        "SELECT COUNT(*) FROM clients {0}",
    ),
    ("SELECT COUNT(*) FROM read_csv('x')", r"written (.+)\.$", "SELECT name FROM {0}"),
    (
        "SELECT MAX(n) FROM (SELECT town, size, COUNT(*) AS n FROM towns GROUP BY town)",
        r"(GROUP BY)",
        "SELECT MAX(n) FROM (SELECT town, size, COUNT(*) AS n FROM towns {0} town, size)",
    ),
    (
        "SELECT LEFTT(town, 1), COUNT(*) FROM clients GROUP BY 1",
        r"mean (.+?)[?]",
        "SELECT {0}(town, 1), COUNT(*) FROM clients GROUP BY 1",
    ),
    (
        "SELECT COUNT(*) FROM clients GROUP BY CUBE(town, born, town || 'a', town || 'b', town || 'c')",
        r": (GROUPING SETS) ",
        "SELECT town, born, COUNT(*) FROM clients GROUP BY {0} ((town, born), (town), ())",
    ),
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


BARE = {
    # the same, where the catalog has no default ε
    "SELECT COUNT(*) FROM clients": (r"Write (.+?) …", "{0} COUNT(*) FROM clients"),
    f"{CLAUSE}() COUNT(*) FROM clients": (r"Write OPTIONS(.+?):", f"{CLAUSE}{{0}} COUNT(*) FROM clients"),
}


@pytest.mark.parametrize("sql", BARE)
def test_without_defaults_the_hint_has_the_clause(sql):
    bare = connect({"clients": TABLES["clients"]}, catalog={"tables": {"clients": {"owner": "client no"}}})
    suggestion, follows = BARE[sql]
    found = re.search(suggestion, hint_of(bare, sql))
    assert found is not None
    bare.plan(follows.format(found.group(1)))


IN_WORDS = {
    # what hints say that no query could follow: words without code, or code for somebody else
    "Write JOIN … ON a.uid = b.uid AND …; other conditions may follow, but not OR.": "replaced by the real names",
    "Write OVER (PARTITION BY uid ORDER BY day).": "replaced by the real names",
    "Write GROUP BY ROLLUP (a, b), or GROUP BY a, b.": "GROUPING() of what is no key",
    "Write only one of them.": "options that exclude each other",
    "Write the steps out, or ask for a view.": "recursion",
    "Write a regular expression without backslashes: [0-9] for digits, [.] for a dot.": "patterns",
    "Write the whole window, or OVER name.": "windows",
    "Write the whole window out.": "windows",
    "Write table.column.": "names",
    "Write the name bare.": "names",
    "Write catalog.schema.table.": "names",
    "Write one aggregate per column, each with its own FILTER (WHERE …).": "PIVOT",
    "Write a UNION ALL of the columns.": "UNPIVOT",
    "Write a SELECT.": "other statements",
    "Write SELECT … FROM … WHERE … GROUP BY ….": "pipes",
    "Write [INNER | LEFT | RIGHT | FULL | CROSS] JOIN.": "joins that do not exist",
    "Write the constant, strings in single quotes.": "prefixes",
    "Write the constant in place of the ?.": "parameters",
    "Write the constant in place of the variable.": "parameters",
    "Write plain '…' for strings and \"…\" for names.": "quotes",
    "Write plain numbers such as 12, 0.5 or 1e-6.": "numbers",
    "Write bounds as ": "followed with the name of the argument",
}


NO_CODE = {
    # refusals whose hints have nothing to take over
    "E_BOUNDS_REQUIRED": "asked for by the accuracy of a query, where bounds would have to be known",
    "E_BUDGET": "another ε, which tests of budgets follow",
    "E_MULTI_STATEMENT": "one query at a time",
    "E_NO_DP_CLAUSE": "followed without defaults, above",
    "E_RECURSION": "words",
    "E_STATEMENT": "words",
    "E_UID_FORGED": "words",
    "E_UID_LOST": "words",
}


def test_every_code_has_a_hint_that_is_followed_or_says_words_alone(session):
    codes = set()
    for sql, _, _ in CASES:
        with pytest.raises(shoal.ShoalError) as refused:
            session.plan(sql)
        codes.add(refused.value.code)
    assert codes | NO_CODE.keys() == set(QUERY_CODES)
    assert not codes & NO_CODE.keys()


def test_every_hint_that_says_what_to_write_is_followed(session):
    """A new one joins the table above, or says in `IN_WORDS` why nothing can be followed."""
    said = [hint_of(session, sql) for sql, _, _ in CASES]
    folder = Path(shoal.__file__).parent
    files = [
        path
        for room in ("sql/grammar", "sql/binding", "sql/functions", "rewrite")
        for path in (folder / room).rglob("*.py")
    ]
    constants = {
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "Write " in node.value
    }
    hints = {text for text in constants if "\n" not in text and text not in IN_WORDS}
    bare = {
        "Write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) … or set defaults in the catalog."
    }
    bare |= {text for text in hints if text.startswith("Write OPTIONS(")}
    assert {text for text in hints - bare if not any(text in hint for hint in said)} == set()


def test_a_table_whose_rows_are_owners_is_explained_where_it_is_joined(session):
    hint = hint_of(session, "SELECT COUNT(*) FROM clients c JOIN survey s ON c.town = s.answer")
    assert "Each row of survey is its own owner" in hint
    assert "public = true" in hint


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT * FROM guests", '"Room type"'),
        ('SELECT "Full Name" FROM guests', '"Room type"'),
        ("SELECT guest_id FROM guests", '"Room type"'),
        ("SELECT * FROM staff", "team"),
    ],
)
def test_a_group_that_is_suggested_has_many_people(session, sql, key):
    assert key in hint_of(session, sql)
