"""Where noise decides which rows come first, the answer says so; where it does not, it does not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.session import connect

OWNERS, TEAMS = 600, 12
PEOPLE = pa.table(
    {
        "uid": list(range(OWNERS)),
        "team": [n % TEAMS for n in range(OWNERS)],
        "pay": [50.0 + n % TEAMS for n in range(OWNERS)],
    }
)
CATALOG = {
    "tables": {
        "people": {
            "owner": "uid",
            "one_row_per_owner": True,
            "columns": {"team": {"values": list(range(TEAMS))}, "pay": {"bounds": [0, 1000]}},
        }
    },
    "defaults": {"epsilon": 1.0, "delta": 1e-6},
}
MEANS = "SELECT team, AVG(pay) AS pay FROM people GROUP BY team"
FIRST = [
    f"{MEANS} ORDER BY pay DESC LIMIT 3",
    f"{MEANS} ORDER BY 2 LIMIT 3",
    f"{MEANS} QUALIFY ROW_NUMBER() OVER (ORDER BY AVG(pay) DESC) <= 3",
    f"SELECT team, pay FROM (SELECT team, pay, RANK() OVER (ORDER BY pay DESC) AS r FROM ({MEANS}) AS m) AS n WHERE r <= 3",
    "SELECT team, ROUND(AVG(pay)) AS pay FROM people GROUP BY team ORDER BY pay DESC LIMIT 3",
]


@pytest.fixture(scope="module")
def session():
    return connect({"people": PEOPLE}, catalog=CATALOG)


def says_so(session, sql, epsilon):
    return any(
        note.startswith("pay: noise may decide which rows") for note in session.query(sql, epsilon=epsilon).notes
    )


@pytest.mark.parametrize("sql", FIRST)
def test_the_first_rows_by_a_number_that_strays_have_a_word(session, sql):
    # At ε = 0.1 an average of 50 values in [0, 1000] has noise of hundreds: more than a tenth of it in some row, all but surely.
    assert says_so(session, sql, 0.1)


@pytest.mark.parametrize("sql", FIRST)
def test_numbers_that_are_nearly_exact_have_none(session, sql):
    assert not says_so(session, sql, 1e5)


@pytest.mark.parametrize(
    "sql",
    [
        MEANS,
        f"{MEANS} ORDER BY pay DESC",
        f"{MEANS} ORDER BY team LIMIT 3",
        f"{MEANS} ORDER BY pay DESC LIMIT 50",
        "SELECT team, AVG(pay) AS pay, COUNT(*) AS n FROM people GROUP BY team ORDER BY n DESC LIMIT 3",
        f"SELECT pay, RANK() OVER (ORDER BY pay) AS r FROM ({MEANS}) AS m",
    ],
)
def test_rows_that_noise_did_not_choose_have_none(session, sql):
    assert not says_so(session, sql, 0.1)
