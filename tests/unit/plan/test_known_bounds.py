"""Public bounds carried through expressions: never narrower than the truth, used where nothing has to be found."""

from __future__ import annotations

import random
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

import shoal
from shoal.params import Bounds
from shoal.rewrite.limits.search import STAND_IN

CATALOG = {
    "tables": {
        "visits": {
            "owner": "uid",
            "columns": {"spend": {"bounds": [-2, 9]}, "steps": {"bounds": [0, 100]}, "rate": {"bounds": [0.5, 4]}},
        },
        "counted": {
            "owner": "uid",
            "max_rows_per_owner_and_group": 20,
            "columns": {"spend": {"bounds": [-2, 9]}},
        },
    }
}
ENDS = [(spend, steps, rate) for spend in (-2.0, 0.0, 9.0, None) for steps in (0, 100, None) for rate in (0.5, 4.0)]
VISITS = pa.table(
    {
        "uid": range(len(ENDS)),
        "spend": pa.array([row[0] for row in ENDS], pa.float64()),
        "steps": pa.array([row[1] for row in ENDS], pa.int64()),
        "rate": pa.array([row[2] for row in ENDS], pa.float64()),
        "free": [1.0] * len(ENDS),
    }
)
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1)"


@pytest.fixture(scope="module")
def session():
    with shoal.connect({"visits": VISITS, "counted": VISITS}, catalog=CATALOG) as opened:
        yield opened


NAMED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, kappa=1)"
"""With a limit that is named, no other one is looked for."""


def bounds_of(session, aggregate, source="visits", clause=PRIVATE):
    """The bounds an aggregate is planned with, and where they come from."""
    (select,) = session.explain(f"{clause} {aggregate} AS x FROM {source}").to_dict()["selects"]
    (column,) = select["columns"]
    return column["bounds"] and tuple(column["bounds"]), column["bounds_source"]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("AVG(spend)", (-2, 9)),
        ("AVG(spend) FILTER (WHERE steps > 3)", (-2, 9)),
        ("AVG(CASE WHEN steps > 3 THEN spend WHEN steps > 1 THEN 20 END)", (-2, 20)),
        ("AVG(spend + steps)", (-2, 109)),
        ("AVG(spend - steps)", (-102, 9)),
        ("AVG(spend * -2)", (-18, 4)),
        ("AVG(-spend)", (-9, 2)),
        ("AVG(ABS(spend))", (0, 9)),
        ("AVG(steps / 4)", (0, 25)),
        ("AVG(spend / rate)", (-4, 18)),
        ("MAX(COALESCE(spend, 50))", (-2, 50)),
        ("MEDIAN(GREATEST(spend, steps))", (-2, 100)),
        ("AVG(NULLIF(spend, 0))", (-2, 9)),
        ("AVG(CAST(rate AS INT))", (0, 4)),
        ("AVG(ROUND(rate))", (0, 4)),
        ("AVG(ROUND(rate, 1))", (0, 4)),
        ("AVG(CAST(rate AS DECIMAL(5, 0)))", (0, 4)),
        ("STDDEV(IF(steps > 3, spend, NULL))", (-2, 9)),
    ],
)
def test_bounds_of_the_catalog_reach_through_expressions(session, aggregate, expected):
    assert bounds_of(session, aggregate) == (expected, "catalog")


def test_bounds_of_one_row_are_those_of_a_sum_where_a_limit_is_named_and_shown_as_such_where_it_is_found(session):
    total = "SUM(CASE WHEN steps > 3 THEN spend ELSE 0 END)"
    assert bounds_of(session, total, clause=NAMED) == ((-2, 9), "catalog")
    assert bounds_of(session, total) == ((-2, 9), "one row")
    text = str(session.explain(f"{PRIVATE} {total} AS x FROM visits"))
    assert (
        "bounds [-2, 9] of one row, from the catalog or the expression itself; of an owner's sum, found first" in text
    )


@pytest.mark.parametrize(("total", "lower"), [("SUM(steps + 1)", Fraction(0)), ("SUM(spend)", -STAND_IN)])
def test_a_sum_that_is_never_negative_is_looked_for_above_zero_only(session, total, lower):
    (select,) = session.plan(f"{PRIVATE} {total} AS x FROM visits").selects
    assert {choice.columns[0].call.bounds for choice in select.search.choices} == {Bounds(lower, STAND_IN)}


def test_a_limit_that_too_few_owners_leave_to_a_guess_is_not_called_found():
    few = {"defaults": {"population": 50}, **CATALOG}
    with shoal.connect({"visits": VISITS, "counted": VISITS}, catalog=few) as session:
        assert bounds_of(session, "COUNT(*)") == ((0, 10), "guessed")
        assert "bounds [0, 10] guessed" in str(session.explain(f"{PRIVATE} COUNT(*) AS x FROM visits"))


def test_they_reach_through_subqueries_and_views(session):
    inner = "(SELECT uid, spend * 2 AS twice FROM visits)"
    assert bounds_of(session, "AVG(twice + 1)", inner) == ((-3, 19), "catalog")


def test_a_share_has_the_bounds_of_its_constants(session):
    assert bounds_of(session, "AVG(CASE WHEN steps > 3 THEN 1 ELSE 0 END)") == ((0, 1), "expression")
    assert bounds_of(session, "AVG(CASE WHEN steps > 3 THEN 1 ELSE free END)")[1] == "inferred"


def test_constants_say_nothing_about_the_number_of_rows(session):
    ones = "SUM(CASE WHEN steps > 3 THEN 1 ELSE 0 END)"
    assert bounds_of(session, ones, clause=NAMED) == (None, "inferred")
    assert bounds_of(session, ones) == (None, "found")
    assert bounds_of(session, ones, "counted") == ((0, 20), "catalog")
    assert bounds_of(session, "SUM(spend * 2)", "counted") == ((-80, 360), "catalog")


@pytest.mark.parametrize(
    "value",
    ["spend / steps", "free", "spend * free", "SQRT(steps)", "7", "steps * 1e30", "ROUND(steps, -2)", "rate / 1e300"],
)
def test_what_is_not_known_is_found(session, value):
    assert bounds_of(session, f"AVG({value})")[1] == "inferred"


def test_bounds_that_are_given_come_first(session):
    assert bounds_of(session, "AVG(spend * 2, contribution_bounds_per_group => (0, 1))") == ((0, 1), "query")


def test_a_value_made_of_itself_sixty_times_is_looked_at_once(session):
    steps = ", ".join(f"t{i} AS (SELECT uid, x + x AS x FROM t{i - 1})" for i in range(1, 30))
    sql = f"WITH t0 AS (SELECT uid, spend AS x FROM visits), {steps} {PRIVATE} AVG(x) AS x FROM t29"
    (select,) = session.explain(sql).to_dict()["selects"]
    assert tuple(select["columns"][0]["bounds"]) == (-2 * 2**29, 9 * 2**29)


def written(rng, depth):
    """A random expression over the three columns."""
    if depth == 0:
        return rng.choice(["spend", "steps", "rate", "3", "-0.5", "NULL"])
    a, b = written(rng, depth - 1), written(rng, depth - 1)
    forms = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "(-({a}))", "ABS({a})", "COALESCE({a}, {b})", "({a} / 3)"]
    forms += [
        "GREATEST({a}, {b})",
        "LEAST({a}, {b})",
        "CASE WHEN steps > 3 THEN {a} ELSE {b} END",
        "FLOOR({a})",
        "ROUND({a}, -1)",
        "ROUND({a}, 1)",
    ]
    return rng.choice(forms).format(a=a, b=b)


def test_no_value_lies_outside_of_what_is_known(session):
    rng = random.Random(5)
    connection = duckdb.connect()
    connection.register("visits", VISITS)
    known = 0
    for _ in range(200):
        value = written(rng, rng.randint(1, 4))
        try:
            bounds, source = bounds_of(session, f"AVG(CAST({value} AS DOUBLE))")
        except shoal.ShoalError:
            continue
        if source not in {"catalog", "expression"}:
            continue
        known += 1
        least, most = connection.sql(
            f"SELECT min(v), max(v) FROM (SELECT CAST({value} AS DOUBLE) AS v FROM visits)"
        ).fetchall()[0]
        assert least is None or (bounds[0] <= least + 1e-9 and most - 1e-9 <= bounds[1]), value
    assert known > 60
