"""What is right by the letter and hardly ever meant is answered, with a word; what tools write around names is understood."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect

PEOPLE = pa.table(
    {"uid": [1, 2, 3], "home-town": ["a", "b", "a"], "age": [30, None, 40], "smokes": [True, False, True]}
)
OTHERS = pa.table({"uid": [1], "size": [2]})
CATALOG = {
    "tables": {"people": {"owner": "uid"}, "Other Ones": {"owner": "uid"}},
    "defaults": {"epsilon": 50.0, "delta": 1e-6},
}


@pytest.fixture(scope="module")
def session():
    return connect({"people": PEOPLE, "Other Ones": OTHERS}, catalog=CATALOG)


def said(session, sql, words):
    return any(words in note for note in session.query(sql).notes)


@pytest.mark.parametrize("test", ["age = NULL", "NULL <> age", "age > 1 AND age >= NULL"])
def test_a_comparison_with_null_has_a_word(session, test):
    assert said(session, f"SELECT COUNT(*) FROM people WHERE {test}", "is never true")


@pytest.mark.parametrize("test", ["age IS NULL", "age = 30", "age IS DISTINCT FROM NULL", "COALESCE(age, NULL) = 30"])
def test_other_comparisons_have_none(session, test):
    assert not said(session, f"SELECT COUNT(*) FROM people WHERE {test}", "is never true")


def test_a_column_in_single_quotes_has_a_word(session):
    sql = "SELECT 'home-town', COUNT(*) FROM people GROUP BY 'home-town'"
    assert said(session, sql, "'home-town' in single quotes is a string")
    assert not said(session, sql.replace("home-town", "everybody"), "single quotes")


@pytest.mark.parametrize("key", ["age / 10", "1", "decade"])
def test_a_quotient_of_whole_numbers_has_a_word(session, key):
    assert said(
        session, f"SELECT age / 10 AS decade, COUNT(*) FROM people GROUP BY {key}", "age // 10 is the whole quotient"
    )


@pytest.mark.parametrize("key", ["age // 10", "age / 10.0", "age % 10", "FLOOR(age / 10)"])
def test_other_quotients_have_none(session, key):
    assert not said(session, f"SELECT {key} AS decade, COUNT(*) FROM people GROUP BY decade", "whole quotient")


@pytest.mark.parametrize(
    "test", ["smokes = 1", "smokes != 0", "smokes IN (1)", "CASE smokes WHEN 1 THEN TRUE ELSE FALSE END"]
)
def test_zero_and_one_beside_booleans_are_false_and_true(session, test):
    assert session.query(f"SELECT COUNT(*) AS n FROM people WHERE {test}").to_dicts()[0]["n"] == 2  # ε = 50


@pytest.mark.parametrize("test", ["smokes = 2", "smokes = age", "age * smokes > 1"])
def test_other_numbers_beside_booleans_are_refused(session, test):
    with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
        session.query(f"SELECT COUNT(*) FROM people WHERE {test}")


@pytest.mark.parametrize("place", ["main.people", "PUBLIC.people", "[dbo].[people]", '"main"."people" AS p'])
def test_the_usual_schemas_are_left_out(session, place):
    assert session.query(f"SELECT COUNT(*) AS n FROM {place}").to_dicts()[0]["n"] == 3  # ε = 50


@pytest.mark.parametrize("place", ["other.people", "x.main.people", "main.nobody"])
def test_other_schemas_are_unknown(session, place):
    with pytest.raises(ShoalError, match="E_UNKNOWN_TABLE"):
        session.query(f"SELECT COUNT(*) FROM {place}")


def test_names_in_brackets_are_names(session):
    sql = "SELECT [home-town] AS [Town], COUNT(*) AS [n of us] FROM [people] WHERE [age] > 1 GROUP BY [home-town]"
    assert session.query(sql).columns == ["Town", "n of us"]
    assert session.query("SELECT COUNT(*) FROM [Other Ones] AS [o] WHERE [o].[size] = 2").columns == ["count"]


@pytest.mark.parametrize("text", ["[1, 2]", "['a']", "[age, 1]", "[]", "[age", "['age']", "[a\nb]", "[a(b)]"])
def test_lists_are_no_names(session, text):
    with pytest.raises(ShoalError, match=r"E_(UNSUPPORTED|PARSE|FUNCTION_NOT_ALLOWED)"):
        session.query(f"SELECT {text} FROM people")
