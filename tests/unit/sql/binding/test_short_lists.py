"""Small data: groups that everybody knows appear without selection, and an owner with one row counts once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.session import connect

OWNERS = 60
PEOPLE = pa.table({"uid": list(range(OWNERS)), "kind": [n % 3 for n in range(OWNERS)]})
VISITS = pa.table({
    "uid": [n for n in range(OWNERS) for _ in range(3)],
    "kind": [k for _ in range(OWNERS) for k in range(3)],
    "spend": [10.0] * (3 * OWNERS),
})  # fmt: skip
KINDS = pa.table({"kind": [0, 1, 2, 3], "label": ["a", "b", "c", "d"]})
SIZES = pa.table({"kind": [0, 1, 2, 3], "size": ["small", "small", "large", "large"]})
MANY = pa.table({"kind": list(range(101)), "label": [f"l{n}" for n in range(101)]})
CATALOG = {
    "tables": {
        "people": {"owner": "uid", "one_row_per_owner": True},
        "visits": {"owner": "uid"},
        "kinds": {"public": True},
        "sizes": {"public": True},
        "many": {"public": True},
    },
    "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": OWNERS},
}


@pytest.fixture(scope="module")
def session():
    tables = {"people": PEOPLE, "visits": VISITS, "kinds": KINDS, "sizes": SIZES, "many": MANY}
    return connect(tables, catalog=CATALOG)


def groups(session, sql):
    return session.plan(sql).selects[0].select.public_groups


JOINED = "SELECT k.label, COUNT(*) AS n FROM visits v JOIN kinds k ON v.kind = k.kind"


def test_keys_of_a_short_public_table_all_appear_in_plain_sql(session):
    answer = session.query(f"{JOINED} GROUP BY k.label")
    assert sorted(answer.to_arrow().column("label").to_pylist()) == ["a", "b", "c", "d"]
    assert answer.delta == 0


def test_a_condition_on_the_public_table_shortens_the_list(session):
    answer = session.query(f"{JOINED} WHERE k.label <> 'd' AND v.spend > 5 GROUP BY k.label")
    assert sorted(answer.to_arrow().column("label").to_pylist()) == ["a", "b", "c"]


def test_keys_of_two_short_tables_are_combined(session):
    joins = "JOIN kinds k ON v.kind = k.kind JOIN sizes s ON s.kind = k.kind"
    sql = f"SELECT k.label, s.size, COUNT(*) FROM visits v {joins} GROUP BY ALL"
    assert session.query(sql).to_arrow().num_rows == 8  # four labels, two sizes


def test_the_explanation_says_why_every_group_appears(session):
    assert "kinds is public and short" in str(session.explain(f"{JOINED} GROUP BY k.label"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT m.label, COUNT(*) FROM visits v JOIN many m ON v.kind = m.kind GROUP BY m.label",
        "SELECT m.label, COUNT(*) FROM visits v LEFT JOIN (SELECT * FROM many) m ON v.kind = m.kind GROUP BY m.label",
        "SELECT v.kind, COUNT(*) FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY v.kind",
        "SELECT WITH DIFFERENTIAL_PRIVACY k.label, COUNT(*) FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY k.label",
    ],
    ids=["a long list", "a long list with NULL", "a private key", "the clause"],
)
def test_other_groups_are_selected(session, sql):
    assert groups(session, sql) is None
    assert session.plan(sql).selects[0].selection is not None


FILLED = {
    "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind": ["a", "b", "c", "d", None],
    "FROM kinds k RIGHT JOIN visits v ON v.kind = k.kind": ["a", "b", "c", "d", None],
    "FROM visits v LEFT JOIN sizes s ON v.kind = s.kind LEFT JOIN kinds k ON k.kind = s.kind": [
        "a",
        "b",
        "c",
        "d",
        None,
    ],
    "FROM visits v LEFT JOIN (sizes s JOIN kinds k ON k.kind = s.kind) ON v.kind = s.kind": ["a", "b", "c", "d", None],
    "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind AND k.label <> 'a'": ["a", "b", "c", "d", None],
    "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind WHERE k.label <> 'a'": ["b", "c", "d"],
    "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind WHERE k.label IS NULL": [None],
    "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind WHERE v.spend > 5": ["a", "b", "c", "d", None],
    "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind WHERE k.label <> 'a' OR v.spend > 5": [
        "a",
        "b",
        "c",
        "d",
        None,
    ],
}


@pytest.mark.parametrize("rows", FILLED)
def test_where_an_outer_join_may_find_nothing_null_is_listed_too(session, rows):
    answer = session.query(f"SELECT k.label, COUNT(*) AS n {rows} GROUP BY k.label")
    assert sorted(answer["label"], key=str) == sorted(FILLED[rows], key=str)
    assert answer.delta == 0


def test_a_note_tells_of_the_group_of_rows_without_a_match(session):
    rows = "FROM visits v LEFT JOIN kinds k ON v.kind = k.kind"
    said = "Rows that match nothing in kinds have a group of their own."
    assert said in str(session.query(f"SELECT k.label, COUNT(*) AS n {rows} GROUP BY k.label").notes)
    shorter = session.query(f"SELECT k.label, COUNT(*) AS n {rows} WHERE k.label <> 'a' GROUP BY k.label")
    assert said not in str(shorter.notes)


@pytest.mark.parametrize(
    ("keys", "joins", "listed"),
    [
        ("k.label, k.kind", "LEFT JOIN kinds k ON v.kind = k.kind", 5),
        ("COALESCE(k.label, 'none')", "LEFT JOIN kinds k ON v.kind = k.kind", 5),
        ("k.label IS NULL", "LEFT JOIN kinds k ON v.kind = k.kind", 2),
        ("k.label, s.size", "LEFT JOIN kinds k ON v.kind = k.kind LEFT JOIN sizes s ON s.kind = v.kind", 15),
        ("k.label, s.size", "JOIN kinds k ON v.kind = k.kind LEFT JOIN sizes s ON s.kind = v.kind", 12),
    ],
)
def test_keys_of_one_row_are_null_together(session, keys, joins, listed):
    assert len(session.query(f"SELECT {keys}, COUNT(*) AS n FROM visits v {joins} GROUP BY ALL")) == listed


def test_the_group_of_nulls_counts_among_those_that_an_owner_can_be_in(session):
    for kind, most in (("", 4), ("LEFT", 5)):
        sql = f"SELECT k.label, COUNT(*) AS n FROM visits v {kind} JOIN kinds k ON v.kind = k.kind GROUP BY k.label"
        assert [sought.domain for sought in session.plan(sql).selects[0].search.sought] == [most]


def test_a_table_of_the_longest_length_has_no_room_for_null():
    tables = {"visits": VISITS, "many": MANY.slice(0, 100)}
    catalog = {**CATALOG, "tables": {name: CATALOG["tables"][name] for name in tables}}
    with connect(tables, catalog=catalog) as opened:
        for kind, appears in (("", True), ("LEFT", False)):
            sql = f"SELECT m.label, COUNT(*) FROM visits v {kind} JOIN many m ON v.kind = m.kind GROUP BY m.label"
            assert (groups(opened, sql) is not None) is appears


def test_an_owner_with_one_row_counts_once_in_one_group(session):
    plan = session.plan("SELECT kind, COUNT(*) FROM people GROUP BY kind").selects[0]
    assert plan.search is None
    assert plan.contribution.groups == 1
    assert session.plan("SELECT SUM(kind) FROM people").selects[0].search is None


def test_rows_of_owners_who_have_more_than_the_catalog_says_are_cut(session):
    catalog = {**CATALOG, "tables": {**CATALOG["tables"], "visits": {"owner": "uid", "one_row_per_owner": True}}}
    other = connect({"people": PEOPLE, "visits": VISITS, "kinds": KINDS, "sizes": SIZES, "many": MANY}, catalog=catalog)
    answer = other.query("SELECT COUNT(*) AS n FROM visits", epsilon=100)
    assert abs(answer.to_dicts()[0]["n"] - OWNERS) < 2  # 3 rows each; at ε = 100 the noise passes 2 with chance 1e-80


def test_one_row_for_each_owner_is_seen_in_a_subquery_that_groups_by_owner(session):
    sql = "SELECT n, COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) GROUP BY n"
    plan = session.plan(sql).selects[0]
    assert (plan.contribution.groups, plan.guessed) == (1, ())
    both = "SELECT kind, COUNT(*) FROM (SELECT uid, kind, COUNT(*) AS n FROM visits GROUP BY uid, kind) GROUP BY kind"
    assert session.plan(both).selects[0].guessed


def test_few_owners_get_few_groups_each_so_that_some_appear(session):
    plan = session.plan("SELECT kind, COUNT(*) FROM visits GROUP BY kind").selects[0]
    assert plan.contribution.groups == 2  # 5 would need more owners in a group than three fifths of all
    more = connect({"visits": VISITS}, catalog={
        "tables": {"visits": {"owner": "uid"}}, "defaults": {"epsilon": 0.1, "delta": 1e-6, "population": 1900},
    })  # fmt: skip
    assert more.plan("SELECT kind, COUNT(*) FROM visits GROUP BY kind").selects[0].contribution.groups == 5


def test_a_sum_without_bounds_in_groups_that_always_appear_is_null_and_shown(session):
    sql = "SELECT k.label, SUM(v.spend) AS s FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY k.label"
    answer = session.query(sql, epsilon=0.1)
    assert answer.to_arrow().column("s").null_count in {0, 4}
    assert "s" in repr(answer)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("CASE WHEN spend > 5 THEN 'much' WHEN spend > 1 THEN 'some' ELSE 'none' END", {"much", "some", "none"}),
        ("CASE kind WHEN 0 THEN 1 ELSE 2 END", {1, 2}),
        ("kind IS NULL", {True, False}),
    ],
)
def test_what_the_query_itself_lists_appears_in_plain_sql(session, key, values):
    answer = session.query(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY 1")
    assert set(answer.to_arrow().column("k").to_pylist()) == values
    assert answer.delta == 0


@pytest.mark.parametrize(
    "key",
    [
        "CASE WHEN spend > 5 THEN 'much' END",  # NULL is a group too, and not on the list
        "CASE WHEN spend > 5 THEN kind ELSE 7 END",
        "CASE WHEN spend > 5 THEN 'much' ELSE NULL END",
        "spend > 5",  # NULL where spend is
    ],
)
def test_a_key_that_can_be_something_else_is_selected(session, key):
    assert groups(session, f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY 1") is None


def test_with_the_clause_a_case_is_selected(session):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
    assert (
        groups(session, f"{clause} CASE WHEN spend > 5 THEN 'a' ELSE 'b' END AS k, COUNT(*) FROM visits GROUP BY 1")
        is None
    )


def test_long_lists_of_a_query_are_selected(session):
    many = " ".join(f"WHEN {n} THEN 'v{n}'" for n in range(11))
    keys = ", ".join(f"CASE kind + {each} {many} ELSE 'x' END AS k{each}" for each in range(2))
    assert groups(session, f"SELECT {keys}, COUNT(*) AS n FROM visits GROUP BY ALL") is None


@pytest.mark.parametrize(("missing", "one_row"), [("v.uid", True), ("v.kind", False)])
def test_rows_without_a_match_are_counted_once(session, missing, one_row):
    sql = f"SELECT COUNT(*) AS n FROM people p LEFT JOIN visits v ON p.uid = v.uid WHERE {missing} IS NULL"
    assert session.plan(sql).selects[0].select.one_row_per_owner is one_row


def test_rows_that_no_listed_group_has_are_told():
    listed = {**CATALOG["tables"]["people"], "columns": {"kind": {"values": [0, 1]}}}
    catalog = {"tables": {"people": listed}, "defaults": CATALOG["defaults"]}
    answer = connect({"people": PEOPLE}, catalog=catalog).query("SELECT kind, COUNT(*) AS n FROM people GROUP BY kind")
    assert len(answer) == 2
    assert any(
        "lists for kind; rows with another value, or with NULL, are in none of them" in note for note in answer.notes
    )


DATED = pa.table({
    "uid": [n for n in range(OWNERS) for _ in range(2)],
    "day": pa.array([19_723 + 37 * (n % 9) for n in range(2 * OWNERS)], pa.int32()).cast(pa.date32()),
    "town": ["a" if n % 3 else "b" for n in range(2 * OWNERS)],
})  # fmt: skip


def dated(population=OWNERS):
    catalog = {
        "tables": {"dated": {"owner": "uid"}},
        "defaults": {**CATALOG["defaults"], "population": population},
    }
    return connect({"dated": DATED}, catalog=catalog)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("EXTRACT(MONTH FROM day)", set(range(1, 13))),
        ("QUARTER(day)", {1, 2, 3, 4}),
        ("DAYNAME(day)", {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}),
        ("EXTRACT(DAYOFWEEK FROM day)", set(range(1, 8))),
        ("CONCAT('Q', QUARTER(day))", {"Q1", "Q2", "Q3", "Q4"}),
        ("'Q' || QUARTER(day)::VARCHAR", {"Q1", "Q2", "Q3", "Q4"}),
        ("CAST(MONTH(day) AS VARCHAR)", {str(month) for month in range(1, 13)}),
        ("STRFTIME(day, '%m')", {f"{month:02}" for month in range(1, 13)}),
        ("STRFTIME(day, '%a')", {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}),
    ],
)
def test_few_owners_see_every_month_and_weekday(key, values):
    answer = dated().query(f"SELECT {key} AS k, COUNT(*) AS n FROM dated GROUP BY k")
    assert set(answer["k"]) == values
    assert any("rows without a date are in none of them" in note for note in answer.notes)
    assert groups(dated(10_000), f"SELECT {key} AS k, COUNT(*) AS n FROM dated GROUP BY k") is None


@pytest.mark.parametrize(
    ("where", "key", "values"),
    [
        ("town IN ('a', 'c')", "town", {"a", "c"}),
        ("'b' = town AND day > DATE '2024-02-01'", "town", {"b"}),
        ("YEAR(day) = 2024", "YEAR(day)", {2024}),
        ("town = 'a' OR town = 'b'", "town", None),
        ("town <> 'a'", "town", None),
        ("YEAR(day) = 2024.0", "YEAR(day)", None),
        ("NOT (town = 'a')", "town", None),
    ],
)
def test_what_where_compares_a_key_with_are_its_groups(where, key, values):
    session = dated(10_000)
    sql = f"SELECT {key} AS k, COUNT(*) AS n FROM dated WHERE {where} GROUP BY k"
    if values is None:
        assert groups(session, sql) is None
    else:
        assert set(session.query(sql)["k"]) == values
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
    assert groups(session, sql.replace("SELECT", clause)) is None


def test_expressions_over_a_short_public_table_are_listed_too(session):
    sql = "SELECT UPPER(k.label) || '!' AS k, COUNT(*) AS n FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY 1"
    assert set(session.query(sql)["k"]) == {"A!", "B!", "C!", "D!"}
    mixed = "SELECT k.label || v.kind AS k, COUNT(*) AS n FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY 1"
    assert groups(session, mixed) is None
    of_all = "SELECT (SELECT MAX(label) FROM kinds) AS k, COUNT(*) AS n FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY 1"
    assert groups(session, of_all) is None


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ("SUM(CASE WHEN spend > 5 THEN 1 ELSE 0 END)", True),
        ("SUM(CASE WHEN spend > 5 THEN 1 END)", True),
        ("SUM(spend > 5)", True),
        ("SUM(CASE WHEN spend > 5 THEN 2 ELSE 0 END)", False),
        ("SUM(CASE WHEN spend > 5 THEN kind ELSE 0 END)", False),
        ("SUM(CASE WHEN spend > 5 THEN 1 ELSE 0 END, contribution_bounds_per_group => (0, 2))", False),
    ],
)
def test_sums_of_ones_are_counts(session, value, counts):
    (select,) = session.plan(f"SELECT {value} AS n FROM visits").selects
    assert (select.columns[0].call.aggregate.name == "COUNT") is counts
    found = session.query(f"SELECT {value} AS n FROM visits", epsilon=100)["n"][0]
    assert found == pytest.approx(180 if counts else found, abs=20)


def test_two_columns_of_one_public_table_have_no_more_groups_than_it_has_rows(session):
    sql = "SELECT k.label, k.kind, COUNT(*) AS n FROM visits v JOIN kinds k ON v.kind = k.kind GROUP BY k.label, k.kind"
    (select,) = session.plan(sql).selects
    assert [sought.domain for sought in select.search.sought] == [4]
