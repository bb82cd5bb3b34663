"""The list of public groups is a function of the query, the catalog and public tables: nobody's rows lengthen or shorten it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.errors import ShoalError

OPTIONS = "epsilon = 1, max_groups_contributed = 2, group_selection_strategy = PUBLIC_GROUPS"
CLAUSE = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({OPTIONS})"
JOINED = "FROM regions r LEFT JOIN customers c ON c.region = r.region"
VISITED = f"{JOINED} LEFT JOIN visits v ON v.uid = c.uid"
ALL = ["east", "north", "south", "west"]
REGIONS = pa.table({"region": ALL, "continent": ["AS", "EU", "EU", "AS"]})
NAMES = pa.table({"name": ["north", "south"]})


def people(numbers: range, age: int = 30) -> dict[str, pa.Table]:
    """Customers in all regions, and a visit of each."""
    uid = pa.array(numbers, pa.int64())
    region = pa.array([ALL[n % 4] for n in numbers], pa.string())
    customers = pa.table({"uid": uid, "region": region, "age": pa.array([age] * len(numbers), pa.int64())})
    visits = pa.table({"uid": uid, "site": region, "spend": pa.array([1.0] * len(numbers), pa.float64())})
    return {"customers": customers, "visits": visits, "regions": REGIONS, "names": NAMES}


WORLDS = {
    "nobody": people(range(0)),
    "one person": people(range(3, 4), age=300),
    "many": people(range(400)),
    "many and one more": people(range(401)),
}
TABLES = {
    "customers": {"owner": "uid"},
    "visits": {"owner": "uid", "columns": {"site": {"values": [*ALL, "moon"]}}},
    "regions": {"public": True},
    "names": {"public": True},
}

# Conditions of WHERE, and which groups appear: whatever the private tables hold.
SHORTENED = {
    f"{JOINED} WHERE r.region <> 'west'": ["east", "north", "south"],
    f"{JOINED} WHERE r.continent = 'EU' AND r.region > 'o'": ["south"],
    f"{JOINED} WHERE r.region <> 'west' AND c.age > 200": ["east", "north", "south"],
    f"{JOINED} WHERE r.region IN (SELECT name FROM names)": ["north", "south"],
    f"{JOINED} WHERE r.region NOT IN (SELECT name FROM names) AND r.region <> 'east'": ["west"],
    f"{JOINED} WHERE LENGTH(r.region) = (SELECT MIN(LENGTH(region)) FROM regions)": ["east", "west"],
    f"{JOINED} WHERE FALSE": [],
    f"{JOINED} WHERE r.region IN (SELECT c.region FROM regions)": ALL,
    f"{JOINED} WHERE EXISTS (SELECT 1 FROM regions a WHERE EXISTS (SELECT 1 FROM names n WHERE n.name = c.region))": ALL,
    f"{VISITED} WHERE r.region <> 'west'": ["east", "north", "south"],
    f"{JOINED} WHERE r.region <> 'west' AND EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid)": ["east", "north", "south"],
    "FROM customers c RIGHT JOIN regions r USING (region) WHERE region <> 'west'": ["east", "north", "south"],
    "FROM customers c RIGHT JOIN regions r USING (region) LEFT JOIN visits v ON v.uid = c.uid WHERE region < 'n'": ["east"],
}  # fmt: skip
LEFT_ALONE = [
    JOINED,
    VISITED,
    f"{JOINED} WHERE c.age > 200",
    f"{JOINED} WHERE c.age < 200",
    f"{JOINED} WHERE c.uid IS NULL",
    f"{JOINED} WHERE c.region IS NOT NULL",
    f"{JOINED} WHERE c.region <> 'west'",
    f"{JOINED} WHERE r.region <> 'west' OR c.age > 200",
    f"{JOINED} WHERE r.region = c.region AND c.uid = 3",
    f"{JOINED} WHERE CASE WHEN c.age > 200 THEN TRUE ELSE r.region = 'west' END",
    f"{JOINED} WHERE COALESCE(c.region, r.region) = 'west'",
    f"{JOINED} WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid)",
    f"{JOINED} WHERE c.uid IN (SELECT uid FROM visits WHERE spend > 100)",
    f"{JOINED} AND r.region <> 'west'",
    f"{VISITED} WHERE v.spend > 100",
    f"{VISITED} AND r.region <> 'west'",
]


@pytest.fixture(scope="module")
def sessions():
    opened = {name: shoal.connect(tables, catalog={"tables": TABLES}) for name, tables in WORLDS.items()}
    yield opened
    for session in opened.values():
        session.close()


def groups(session, sql: str) -> list[str]:
    return sorted(session.query(sql)["k"])


@pytest.mark.parametrize("rows", [*SHORTENED, *LEFT_ALONE])
def test_the_groups_that_appear_are_the_same_whoever_is_there(sessions, rows):
    expected = SHORTENED.get(rows, ALL)
    for session in sessions.values():
        assert (
            groups(session, f"{CLAUSE} r.region AS k, COUNT(DISTINCT c.uid) AS n {rows} GROUP BY r.region") == expected
        )


CATALOG = {
    "FROM visits": [*ALL, "moon"],
    "FROM visits WHERE site <> 'moon'": ALL,
    "FROM visits WHERE site LIKE '%st' AND spend > 100": ["east", "west"],
    "FROM visits WHERE site <> 'moon' OR spend > 100": [*ALL, "moon"],
    "FROM visits WHERE spend > 100": [*ALL, "moon"],
    "FROM (SELECT * FROM visits WHERE site <> 'moon')": [*ALL, "moon"],
    "FROM visits WHERE site IN (SELECT name FROM names)": ["north", "south"],
}


@pytest.mark.parametrize("rows", CATALOG)
def test_so_are_those_that_the_catalog_lists(sessions, rows):
    for session in sessions.values():
        sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2) "
        sql += f"site AS k, COUNT(DISTINCT uid) AS n {rows} GROUP BY site"
        assert groups(session, sql) == sorted(CATALOG[rows])


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (f"{JOINED} JOIN visits v ON v.uid = c.uid", "E_OPTION_INVALID"),
        (f"{JOINED} LEFT JOIN visits v ON v.site = r.region", "E_JOIN_NOT_ON_UID"),
        (f"{JOINED} LEFT JOIN visits v ON v.uid = c.uid OR TRUE", "E_JOIN_NOT_ON_UID"),
        (f"{JOINED} FULL JOIN visits v ON v.uid = c.uid", "E_OPTION_INVALID"),
        (f"{JOINED} RIGHT JOIN visits v ON v.uid = c.uid", "E_OPTION_INVALID"),
        (f"{JOINED} WHERE EXISTS (SELECT 1 FROM visits v WHERE v.site = r.region)", "E_EXPR_SUBQUERY"),
        ("FROM customers c LEFT JOIN regions r ON c.region = r.region", "E_OPTION_INVALID"),
        ("FROM customers c JOIN regions r ON c.region = r.region", "E_OPTION_INVALID"),
    ],
)
def test_joins_that_lose_the_list_or_tie_no_owner_are_refused(sessions, rows, code):
    for session in sessions.values():
        with pytest.raises(ShoalError) as refusal:
            session.query(f"{CLAUSE} r.region AS k, COUNT(*) AS n {rows} GROUP BY r.region")
        assert refusal.value.code == code


def test_rows_of_groups_that_are_not_listed_count_nowhere():
    world = people(range(4000))
    with shoal.connect(world, catalog={"tables": TABLES}) as session:
        head = CLAUSE.replace("epsilon = 1,", "epsilon = 1000,")
        found = session.query(
            f"{head} r.region AS k, COUNT(DISTINCT v.uid) AS n {VISITED} WHERE r.region <> 'west' GROUP BY r.region"
        )
        assert {row["k"]: round(row["n"], -2) for row in found.to_dicts()} == {
            "east": 1000,
            "north": 1000,
            "south": 1000,
        }


PLAIN = {"tables": TABLES, "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": 400}}


@pytest.mark.parametrize("stranger", [None, "moon", "north"])
@pytest.mark.parametrize("world", WORLDS)
def test_in_plain_sql_the_group_of_rows_without_a_match_appears_whoever_has_one(world, stranger):
    uid, region = pa.array([999], pa.int64()), pa.array([stranger], pa.string())
    added = pa.table({"uid": uid, "region": region, "age": pa.array([30], pa.int64())})
    plans, notes = [], []
    sql = "SELECT n.name AS k, COUNT(*) AS n FROM customers c LEFT JOIN names n ON n.name = c.region GROUP BY n.name"
    for customers in (WORLDS[world]["customers"], pa.concat_tables([WORLDS[world]["customers"], added])):
        with shoal.connect({**WORLDS[world], "customers": customers}, catalog=PLAIN) as session:
            plans.append(session.plan(sql))
            answer = session.query(sql)
            notes.append([note for note in answer.notes if "match nothing" in note])
            assert sorted(map(str, answer["k"])) == ["None", "north", "south"]
    assert plans[0] == plans[1]
    assert notes[0] == notes[1] != []


def test_rows_without_a_match_count_in_the_group_of_nulls_and_all_are_those_of_plain_sql():
    world = people(range(400))
    sql = "SELECT n.name AS k, COUNT(*) AS n FROM customers c LEFT JOIN names n ON n.name = c.region GROUP BY n.name"
    with shoal.connect(world, catalog=PLAIN | {"defaults": PLAIN["defaults"] | {"epsilon": 1e4}}) as session:
        found = {row["k"]: row["n"] for row in session.query(sql).to_dicts()}
        assert found == {"north": 100, "south": 100, None: 200}
        everybody = sql.replace("n.name = c.region", "n.name <> 'south' OR TRUE")
        assert {row["k"]: row["n"] for row in session.query(everybody).to_dicts()} == {
            "north": 400,
            "south": 400,
            None: 0,
        }
