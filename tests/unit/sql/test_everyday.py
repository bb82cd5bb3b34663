"""SQL as tutorials write it, answered with next to no noise and compared with what DuckDB says."""

from __future__ import annotations

import datetime as dt
import functools

import duckdb
import pyarrow as pa
import pytest

import shoal

MIDNIGHT = dt.datetime.fromisoformat("2024-03-01T00:00:00")
TRIPS = pa.table(
    {
        "uid": list(range(1, 61)),
        "color": ["green" if i % 3 else "yellow" for i in range(60)],
        "borough": [("Bronx", "Queens", None)[i % 5 % 3] for i in range(60)],
        "fare": [float(i % 7) + 2 for i in range(60)],
        "tip": [i % 4 for i in range(60)],
        "pickup": [MIDNIGHT.replace(2024, 3, 1 + i % 9, i % 24, 7 * i % 60) for i in range(60)],
        "minutes": [5 + i % 3 for i in range(60)],
        "card": [i % 2 == 0 for i in range(60)],
    }
)
TRIPS = TRIPS.append_column(
    "dropoff",
    pa.array(
        [
            p + dt.timedelta(minutes=m)
            for p, m in zip(TRIPS["pickup"].to_pylist(), TRIPS["minutes"].to_pylist(), strict=True)
        ]
    ),
)
ZONES = pa.table({"borough": ["Bronx", "Queens"], "tags": ["north|big", "east"]})
CATALOG = {
    "tables": {
        "trips": {
            "owner": "uid",
            "max_rows_per_owner_and_group": 1,
            "columns": {"fare": {"bounds": [0, 10]}, "tip": {"bounds": [0, 5]}, "minutes": {"bounds": [0, 10]}},
        },
        "zones": {"public": True},
    },
    "defaults": {"epsilon": 10**6, "delta": 1e-3, "max_groups_per_owner": 1},
}


@pytest.fixture(scope="module")
def session():
    with shoal.connect({"trips": TRIPS, "zones": ZONES}, catalog=CATALOG) as opened:
        yield opened


@pytest.fixture(scope="module")
def truth():
    with duckdb.connect() as connection:
        connection.register("trips", TRIPS)
        connection.register("zones", ZONES)
        yield connection


def rounded(rows):
    return sorted((tuple(round(v, 3) if isinstance(v, float) else v for v in row) for row in rows), key=repr)


TAGS = "(SELECT borough AS b, UNNEST(string_split(tags, '|')) AS g FROM zones)"
ALIKE = [
    "SELECT color, COUNT(*) FROM trips GROUP BY ALL",
    "SELECT color, card, SUM(tip) AS t FROM trips GROUP BY ALL ORDER BY ALL DESC",
    "SELECT COUNT(*) FROM trips GROUP BY ALL",
    "SELECT tip // 2 AS h, h * 10 AS tens, COUNT(*) FROM trips GROUP BY ALL",
    "SELECT tip // 2 AS h, COUNT(*) FROM trips WHERE h > 0 GROUP BY h",
    "SELECT tip // 2 AS h, SUM(h) FROM trips GROUP BY h",
    "SELECT h FROM (SELECT tip // 2 AS h, h + 1 AS i, COUNT(*) FROM trips WHERE i > 1 GROUP BY ALL)",
    "FROM trips SELECT color, COUNT(*) GROUP BY color",
    "FROM trips SELECT COUNT(*) WHERE tip > 1",
    "SELECT n + 1 FROM (FROM trips SELECT COUNT(*) AS n)",
    "SELECT color, card, COUNT(*) FROM trips GROUP BY ROLLUP (color, card)",
    "SELECT color, card, COUNT(*) FROM trips GROUP BY CUBE (color, card)",
    "SELECT color, card, COUNT(*) FROM trips GROUP BY GROUPING SETS ((color), (card), ())",
    "SELECT color, card, COUNT(*), GROUPING(card) AS total FROM trips GROUP BY color, ROLLUP (card)",
    "SELECT upper(color) AS c, SUM(tip) FROM trips GROUP BY ROLLUP (c)",
    "SELECT upper(t.color) AS c, SUM(t.tip) FROM trips t GROUP BY GROUPING SETS ((upper(color)), ())",
    "SELECT tip, SUM(tip) FROM trips GROUP BY ROLLUP (tip) HAVING COUNT(*) > 14 ORDER BY tip LIMIT 3",
    "SELECT COUNT(*) FROM trips WHERE fare > (SELECT AVG(fare) FROM trips)",
    "SELECT color, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM trips) AS share FROM trips GROUP BY color",
    "SELECT tip, COUNT(*) AS n, SUM(fare) AS f FROM trips GROUP BY tip QUALIFY row_number() OVER (ORDER BY f DESC) <= 2",
    "SELECT color, COUNT(*) AS n FROM trips GROUP BY color HAVING COUNT(*) > 5 QUALIFY rank() OVER (ORDER BY n) = 1 ORDER BY n",
    "SELECT color, COUNT(*) AS n, SUM(tip) AS s, ROUND(100.0 * s / n, 1) AS pct FROM trips GROUP BY color",
    "SELECT SUM(b) FROM (SELECT fare + tip AS a, a * 2 AS b FROM trips) WHERE b > 10",
    "SELECT COUNT(*) - COUNT(borough) AS missing FROM trips",
    "SELECT color, COUNT(*) - COUNT(tip) AS missing FROM trips GROUP BY color HAVING COUNT(*) - COUNT(tip) < 5",
    "SELECT COUNT(*) AS n, COUNT(*) - COUNT(borough) AS missing FROM trips",
    "SELECT COUNT(*) FROM trips WHERE tip > '1' AND fare <= '4.5' AND tip IN ('1', '2')",
    "SELECT COUNT(*) FROM trips WHERE color LIKE 'g%' AND color <> 'a\\b'",
    "SELECT time_bucket(INTERVAL '1 day', pickup) AS day, COUNT(*) FROM trips GROUP BY day",
    "SELECT time_bucket(INTERVAL '36 hours', pickup) AS h, COUNT(*) FROM trips GROUP BY 1",
    "SELECT time_bucket(INTERVAL '1 week', pickup) AS w, COUNT(*) FROM trips GROUP BY 1",
    "SELECT time_bucket(INTERVAL '1 month', pickup) AS m, COUNT(*) FROM trips GROUP BY 1",
    "SELECT borough, UNNEST(string_split(tags, '|')) AS tag FROM zones",
    f"SELECT g, COUNT(*) FROM trips JOIN {TAGS} ON b = borough WHERE g <> 'big' GROUP BY g",
    "SELECT COUNT(*) FROM trips WHERE dropoff - pickup > INTERVAL '5 minutes'",
    "SELECT COUNT(*) FROM trips WHERE EXTRACT(EPOCH FROM (dropoff - pickup)) / 60 >= 6",
    "SELECT COUNT(*) FROM trips WHERE EPOCH(dropoff - pickup) > 300",
]


@pytest.mark.parametrize("sql", ALIKE)
def test_it_means_what_it_means_elsewhere(session, truth, sql):
    expected = truth.execute(sql).fetchall()
    answer = session.query(sql).to_arrow()
    assert rounded(tuple(row.values()) for row in answer.to_pylist()) == rounded(expected)


def test_a_part_of_what_lies_between_two_times_is_told_what_it_is(session):
    with pytest.raises(shoal.ShoalError, match="number of seconds") as refusal:
        session.query("SELECT AVG(EXTRACT(MINUTE FROM dropoff - pickup)) FROM trips")
    assert "DATE_DIFF" in (refusal.value.hint or "")


def test_timestamps_are_subtracted_in_seconds(session):
    sql = "SELECT AVG(x, contribution_bounds_per_group => (0, 600)) FROM (SELECT dropoff - pickup AS x FROM trips)"
    (row,) = session.query(sql).to_dicts()
    assert row["avg"] == pytest.approx(360, abs=0.1)


def test_truths_are_compared_with_words(session):
    for word, expected in (("Yes", 30), ("no", 30), ("TRUE", 30)):
        (row,) = session.query(f"SELECT COUNT(*) AS n FROM trips WHERE card = '{word}'").to_dicts()
        assert row["n"] == expected
    with pytest.raises(shoal.ShoalError, match="boolean and text"):
        session.query("SELECT COUNT(*) FROM trips WHERE card = 'perhaps'")
    with pytest.raises(shoal.ShoalError, match="integer and text"):
        session.query("SELECT COUNT(*) FROM trips WHERE tip > 'many'")


def test_groupings_share_what_the_query_costs(session):
    plan = session.plan("SELECT color, card, COUNT(*) FROM trips GROUP BY CUBE (color, card)")
    assert len(plan.selects) == 4
    assert {select.select.options.epsilon for select in plan.selects} == {10**6 / 4}
    assert plan.epsilon == 10**6
    assert all("4 groupings" in " ".join(select.select.notes) for select in plan.selects)
    total = plan.selects[-1]
    assert total.selection is None
    assert total.contribution.groups == 1


def test_a_clause_with_groupings_is_charged_once(session):
    plan = session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) color, COUNT(*) FROM trips GROUP BY ROLLUP (color)"
    )
    assert plan.epsilon == 1
    assert float(plan.delta) == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (
            "SELECT uid, tip, color, card, borough, COUNT(*) FROM trips GROUP BY CUBE (uid, tip, color, card, borough)",
            "E_LIMITS",
        ),
        ("SELECT uid, COUNT(*) FROM trips GROUP BY ROLLUP (uid)", "E_UID_EXPOSED"),
        ("SELECT * FROM trips GROUP BY ALL", "E_GROUPING"),
        ("SELECT uid, COUNT(*) FROM trips GROUP BY ALL", "E_UID_EXPOSED"),
        ("FROM trips", "E_RAW_OUTPUT"),
        ("FROM trips |> WHERE tip > 1", "E_PARSE"),
        ("SELECT COUNT(*) FROM trips WHERE fare > (SELECT fare FROM trips)", "E_EXPR_SUBQUERY"),
        (
            "SELECT COUNT(*) FROM trips t WHERE fare > (SELECT AVG(fare) FROM trips u WHERE u.color = t.color)",
            "E_EXPR_SUBQUERY",
        ),
        ("SELECT color, fare AS f, COUNT(*) FROM trips GROUP BY color", "E_RAW_OUTPUT"),
        ("SELECT color, COUNT(*) AS n, later AS x, 1 AS later FROM trips GROUP BY color", "E_UNKNOWN_COLUMN"),
        ("SELECT color, COUNT(*) FROM trips GROUP BY color QUALIFY fare > 1", "E_RAW_OUTPUT"),
        ("SELECT color FROM trips GROUP BY ROLLUP (color)", "E_GROUPING"),
        ("SELECT UNNEST(string_split(color, 'e')) AS part FROM trips", "E_RAW_OUTPUT"),
        ("SELECT UNNEST(tags) FROM zones", "E_UNSUPPORTED"),
        ("SELECT UNNEST(string_split(tags, borough)) FROM zones", "E_UNSUPPORTED"),
        ("SELECT COUNT(*) FROM trips WHERE color = 'it\\'s'", "E_PARSE"),
    ],
)
def test_what_would_show_or_mix_people_is_refused_as_before(session, sql, code):
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(sql)
    assert refused.value.code == code


def test_a_column_of_from_comes_before_an_alias(session):
    with pytest.raises(shoal.ShoalError) as refused:
        session.query("SELECT color, COUNT(*) AS fare, fare + 1 AS x FROM trips GROUP BY color")
    assert refused.value.code == "E_RAW_OUTPUT"


def test_names_of_the_select_list_are_keys_by_position_and_by_name(session):
    """DuckDB takes them in GROUP BY ALL alone."""
    sql = "SELECT tip // 2 AS h, h * 10 AS tens, COUNT(*) AS n FROM trips GROUP BY "
    answers = [
        rounded(tuple(row.values()) for row in session.query(sql + keys).to_dicts())
        for keys in ("ALL", "1, 2", "tens, h")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 2


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT uid AS u, u % 2 AS h, COUNT(*) FROM trips GROUP BY ALL", "E_UID_EXPOSED"),
        ("SELECT uid AS u, u AS v, COUNT(*) FROM trips GROUP BY v", "E_UID_EXPOSED"),
        ("SELECT nothing + 1 AS nothing, COUNT(*) FROM trips GROUP BY ALL", "E_UNKNOWN_COLUMN"),
        ("SELECT b + 1 AS a, a + 1 AS b, COUNT(*) FROM trips GROUP BY ALL", "E_UNKNOWN_COLUMN"),
        ("SELECT tip AS h, fare AS h, COUNT(*) FROM trips WHERE h > 1 GROUP BY ALL", "E_UNKNOWN_COLUMN"),
        ("SELECT color, COUNT(*) AS n FROM trips WHERE n > 1 GROUP BY color", "E_UNKNOWN_COLUMN"),
        ("SELECT tip + 1 AS h, SUM(h) FROM trips", "E_RAW_OUTPUT"),
    ],
)
def test_a_name_shows_nothing_that_its_value_would_not(session, sql, code):
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(sql)
    assert refused.value.code == code


def test_a_scalar_subquery_over_private_rows_is_a_release_of_its_own(session):
    plan = session.plan("SELECT COUNT(*) FROM trips WHERE fare > (SELECT AVG(fare) FROM trips)")
    assert len(plan.selects) == 2
    assert plan.epsilon == 2 * 10**6


# ---- parameters and the catalog --------------------------------------------------------------------------------------


def test_parameters_are_constants(session):
    sql = "SELECT COUNT(*) AS n FROM trips WHERE color = ? AND tip >= ? AND pickup < ? AND borough IN ?"
    given = ["green", 1, MIDNIGHT.replace(2024, 3, 8), ["Bronx", "Queens"]]
    written = (
        "SELECT COUNT(*) AS n FROM trips WHERE color = 'green' AND tip >= 1 AND pickup < TIMESTAMP '2024-03-08 00:00:00' "
        "AND borough IN ('Bronx', 'Queens')"
    )
    assert session.query(sql, given).to_dicts() == session.query(written).to_dicts()
    assert str(session.explain(sql, given)) == str(session.explain(written))


@pytest.mark.parametrize(
    "text", ["' OR TRUE --", "a'; DROP TABLE trips; --", "$1", "?", ":name", '"', "\\n", "é\u2028"]
)
def test_no_text_leaves_its_quotes(session, text):
    (row,) = session.query("SELECT COUNT(*) AS n FROM trips WHERE color = $c", {"c": text}).to_dicts()
    assert row["n"] == 0


def test_placeholders_inside_texts_names_and_comments_are_left_alone():
    from shoal.sql.grammar.parameters import with_parameters

    sql = "SELECT '?', \"$1\", x::INT /* ? */ -- :a\n, ?"
    assert with_parameters(sql, [None]) == sql.removesuffix("?") + "NULL"


NESTED = functools.reduce(lambda inner, _: [inner], range(3000), 1)
BEFORE_THE_YEAR_1 = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT ?", []),
        ("SELECT ?", [1, 2]),
        ("SELECT $a", {"b": 1}),
        ("SELECT $a", [1]),
        ("SELECT ?", {"a": 1}),
        ("SELECT $0", [1]),
        ("SELECT ?", [float("nan")]),
        ("SELECT ?", [object()]),
        ("SELECT ?", "x"),
        ("SELECT ?", ["ends in \\"]),
        ("SELECT ?", [NESTED]),
        ("SELECT ?", [BEFORE_THE_YEAR_1]),
    ],
)
def test_values_that_do_not_fit_are_refused(session, sql, params):
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(sql, params)
    assert refused.value.code == "E_USAGE"


def test_the_catalog_answers_free_of_charge(session):
    before = session.spent
    tables = session.query("SHOW TABLES;").to_dicts()
    assert {(t["table"], t["owner"]) for t in tables} == {("trips", "uid"), ("zones", "(public)")}
    columns = session.query("describe TRIPS").to_dicts()
    assert [c["column"] for c in columns] == TRIPS.column_names
    with pytest.raises(shoal.ShoalError) as refused:
        session.query("DESCRIBE secrets")
    assert refused.value.code == "E_UNKNOWN_TABLE"
    for other in ("SHOW ALL", "SHOW DATABASES", "DESCRIBE SELECT 1", "DESC"):
        with pytest.raises(shoal.ShoalError) as refused:
            session.query(other)
        assert refused.value.code == "E_STATEMENT"
    assert session.spent == before


def test_missing_values_are_counted_as_such(session):
    """All rows less those that are present is one number with the noise of one, unless the others are shown, too."""
    alone = session.plan("SELECT COUNT(*) - COUNT(tip) AS missing FROM trips")
    beside = session.plan("SELECT COUNT(*) AS n, COUNT(*) - COUNT(tip) AS missing FROM trips")
    assert [len(plan.selects[0].select.aggregates) for plan in (alone, beside)] == [1, 2]
