"""Notes that tell what to write: followed to the letter, they do what they say."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import shoal
from shoal.plan.aggregates.spellings import SPELLINGS, Extra


@pytest.fixture(scope="module")
def session():
    films = pa.table({"film": range(150), "title": [f"film {n}" for n in range(150)]})
    seen = pa.table(
        {"uid": [1, 1, 2], "film": [1, 2, 3], "day": ["12/1/2010", "12/2/2010", None], "n": ["1", "x", "3"]}
    )
    catalog = {
        "tables": {"films": {"public": True}, "seen": {"owner": "uid"}},
        "defaults": {"epsilon": 1.0, "delta": 1e-12},  # so often does a group of one owner appear
    }
    return shoal.connect({"films": films, "seen": seen}, catalog=catalog)


@pytest.mark.parametrize(
    "joined",
    [
        "seen s JOIN films f ON s.film = f.film",
        "films f JOIN seen s ON s.film = f.film",
        'seen JOIN "films" f USING (film)',
        "seen s JOIN films g ON g.film = s.film JOIN films f ON f.film = g.film",
    ],
)
def test_a_statement_that_lists_the_groups_runs_and_shows_all_of_them(session, joined):
    result = session.query(
        f"SELECT f.title, COUNT(DISTINCT s.uid) AS n FROM {joined} GROUP BY f.title".replace("s.uid", "uid")
    )
    assert len(result) == 0
    told = next(note for note in result.notes if note.startswith("No group appears"))
    whole = re.search(r"every group of films, by (SELECT .*)\.$", told)
    assert whole is not None
    assert len(session.query(whole.group(1))) == 150


def test_where_one_word_is_not_enough_no_statement_is_shown(session):
    result = session.query(
        "SELECT f.title, COUNT(DISTINCT uid) FROM (SELECT * FROM seen) s JOIN films f ON s.film = f.film GROUP BY 1"
    )
    told = next(note for note in result.notes if note.startswith("No group appears"))
    assert "outer joins that keep its rows" in told


@pytest.mark.parametrize("key", ["CAST(day AS DATE)", "CAST(day AS TIMESTAMP)"])
def test_a_cast_of_texts_says_which_of_them_are_null_and_what_reads_them(session, key):
    notes = session.query(f"SELECT {key} AS d, COUNT(DISTINCT uid) FROM seen GROUP BY d").notes
    told = next(note for note in notes if note.startswith(f"{key} is NULL where a string is not a"))
    way = re.search(r"\. (.*) reads other forms\.$", told)
    assert way is not None
    assert session.query(f"SELECT {way.group(1)} AS d, COUNT(DISTINCT uid) FROM seen GROUP BY d").columns == [
        "d",
        "count",
    ]


def test_a_cast_to_numbers_says_so_too(session):
    notes = session.query("SELECT AVG(CAST(n AS DOUBLE)) FROM seen").notes
    assert "CAST(n AS DOUBLE) is NULL where a string is not a number." in notes


def test_long_public_lists_appear_where_there_are_as_many_owners():
    films = pa.table({"film": range(150), "title": [f"film {n}" for n in range(150)]})
    seen = pa.table({"uid": [1, 1, 2], "film": [1, 2, 3]})
    sql = "SELECT title, COUNT(*) AS n FROM seen JOIN films USING (film) GROUP BY title"
    for population, groups in ((120, 0), (150, 150)):
        catalog = {
            "tables": {"films": {"public": True}, "seen": {"owner": "uid"}},
            "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": population},
        }
        assert len(shoal.connect({"films": films, "seen": seen}, catalog=catalog).query(sql)) == groups


def test_a_computed_key_is_told_what_lists_its_groups(session):
    notes = session.query("SELECT film % 7 AS f, COUNT(DISTINCT uid) FROM seen GROUP BY f").notes
    told = next(note for note in notes if note.startswith("No group appears"))
    assert "a CASE of constants with ELSE" in told
    assert "catalog" not in told
    listed = session.query(
        "SELECT CASE film % 7 WHEN 1 THEN 'one' ELSE 'other' END AS f, COUNT(DISTINCT uid) FROM seen GROUP BY f"
    )
    assert sorted(listed["f"]) == ["one", "other"]


def test_groupings_say_each_thing_once(session):
    notes = session.query("SELECT film, n, COUNT(*) FROM seen GROUP BY ROLLUP (film, n)").notes
    assert sorted(notes) == sorted(set(notes))


def test_rows_that_are_compared_with_a_noisy_number_are_said_to_be():
    people = pa.table({"uid": range(400), "age": [20 + n % 50 for n in range(400)]})
    catalog = {"tables": {"people": {"owner": "uid"}}, "defaults": {"epsilon": 1.0, "delta": 1e-6}}
    with shoal.connect({"people": people}, catalog=catalog) as session:
        notes = session.query("SELECT COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people)").notes
        assert any(note.startswith("Rows are compared with a noisy number") for note in notes)
        assert not any("noisy number;" in note for note in session.query("SELECT COUNT(*) FROM people").notes)


@pytest.mark.parametrize("key", ["full_name", "email"])
def test_keys_of_single_owners_are_not_to_be_listed(key):
    """The names of customers are as many as customers: to list them would publish who they are."""
    table = pa.table({"uid": range(5), key: [f"person {n}" for n in range(5)], "city": ["a"] * 5})
    catalog = {"tables": {"people": {"owner": "uid"}}, "defaults": {"epsilon": 1.0, "delta": 1e-12}}
    with shoal.connect({"people": table}, catalog=catalog) as opened:
        result = opened.query(f"SELECT {key}, COUNT(*) AS n FROM people GROUP BY {key}")
        coarser = opened.query("SELECT city, COUNT(*) AS n FROM people GROUP BY city")
    told = next(note for note in result.notes if note.startswith("No group appears"))
    assert f"instead of {key}" in told
    assert "values" not in told
    assert "values = […]" in next(note for note in coarser.notes if note.startswith("No group appears"))


@pytest.fixture(scope="module")
def few_owners():
    """Too few to find any bounds."""
    owners = pa.table({"uid": range(30), "x": [float(number % 7) for number in range(30)]})
    catalog = {
        "tables": {"owners": {"owner": "uid"}, "once": {"owner": "uid", "one_row_per_owner": True}},
        "defaults": {"epsilon": 0.01, "delta": 1e-9},
    }
    return shoal.connect({"owners": owners, "once": owners}, catalog=catalog)


CONSTANTS = {None: "", Extra.FRACTION: ", 0.5", Extra.PARTS: ", 4"}
BOUNDED = sorted(
    f"{name}(x{CONSTANTS[row.extra]})"
    for row in SPELLINGS
    if row.bounds is not None and not row.name.startswith("COUNT")
    for name in (row.name, *row.also)
)
WRITTEN = re.compile(r"as the last argument: (\w+ => \(0, 100\))\)")


def without_bounds(session, sql):
    """An answer whose search found nothing; noise alone fills a bin once in twenty."""
    answers = (session.query(sql) for _ in range(20))
    return next(answer for answer in answers if set(answer.to_dicts()[0].values()) == {None})


@pytest.mark.parametrize("call", BOUNDED)
def test_bounds_that_a_note_says_to_write_give_an_answer(few_owners, call):
    empty = without_bounds(few_owners, f"SELECT {call} AS v FROM owners")
    (argument,) = [found[1] for note in empty.notes if (found := WRITTEN.search(note))]
    told = few_owners.query(f"SELECT {call[:-1]}, {argument}) AS v FROM owners")
    assert told.to_dicts()[0]["v"] is not None


def test_aggregates_that_share_a_search_are_told_each_its_own_argument(few_owners):
    result = without_bounds(few_owners, "SELECT SUM(x) AS total, AVG(x) AS mean, MEDIAN(x) AS middle FROM once")
    (note,) = [note for note in result.notes if "no bounds could be found" in note]
    assert "of total, mean: contribution_bounds_per_group => (0, 100); of middle: contribution_bounds_per_row" in note
