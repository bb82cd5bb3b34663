"""What the console says about an explanation: how exact a number will be, and how much of each person counts."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.web.console.explaining import columns_of, for_people, limits_of, with_epsilon

VISITS = pa.table({"uid": [1, 2, 3], "site": ["a", "b", "a"], "spend": [1.0, 2.0, 3.0]})
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {}, delta = 1e-6{})"


@pytest.fixture(scope="module")
def explained():
    with shoal.connect({"visits": VISITS}, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        yield lambda *clause, rest: session.explain(f"{CLAUSE.format(*clause)} {rest}").to_dict()


def said(found):
    return [line for select in found["selects"] for line in limits_of(select)]


def test_a_private_number_is_never_called_exact(explained):
    (column,) = columns_of(explained(9, "", rest="COUNT(DISTINCT uid) AS n FROM visits"))
    assert (column["error"], column["level"]) == ("± 0", "at 95%")


def test_groups_are_an_example_only_where_there_are_groups(explained):
    (one,) = said(explained(1, "", rest="COUNT(*) AS n FROM visits"))
    assert one.startswith("How much of each person counts is found")
    _, example = said(explained(1, "", rest="site, COUNT(*) AS n FROM visits GROUP BY site"))
    assert example.startswith("The figures here are an example, with 5 groups for each person")


def test_given_limits_are_said_in_english(explained):
    counted = "site, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM visits GROUP BY site"
    groups = explained(1, ", max_groups_contributed = 1", rest=counted)
    assert said(groups) == ["Each person counts in at most 1 group, chosen at random."]
    rows = explained(1, ", max_rows_contributed = 2", rest="site, COUNT(*) AS n FROM visits GROUP BY site")
    assert said(rows) == ["At most 2 rows of each person count, chosen at random."]


def test_a_person_adds_to_a_sum_and_not_to_an_average(explained):
    (summed,) = columns_of(explained(1, "", rest="SUM(spend, contribution_bounds_per_group => (0, 9)) FROM visits"))
    (average,) = columns_of(explained(1, "", rest="AVG(spend, contribution_bounds_per_group => (0, 9)) FROM visits"))
    assert summed["bounds"].startswith("one person adds between 0 and 9: ")
    assert average["bounds"].startswith("values are taken to be between 0 and 9: ")


def test_an_epsilon_that_was_found_is_written_short_and_is_enough():
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) AS n FROM visits"
    assert "(epsilon = 0.655)" in with_epsilon(sql, 0.6540420037821)
    assert "(epsilon = 0.0000124)" in with_epsilon(sql, 0.00001234)
    assert "(epsilon = 20)" in with_epsilon(sql, 20.0)


def test_notes_say_person_where_an_owner_is_one_and_leave_sql_alone():
    notes = [
        "COUNT(DISTINCT owner): each owner counts, of 76 owners.",
        '"owner" and owner_id stay; the owners\' do not.',
    ]
    assert for_people(notes, "one person") == [
        "COUNT(DISTINCT owner): each person counts, of 76 people.",
        '"owner" and owner_id stay; the people\'s do not.',
    ]
    assert for_people([*notes, notes[0]], "one household") == notes
