from __future__ import annotations

import json

import pytest

CATALOG = """
[tables.people]
owner = "uid"

[tables.people.policies.nearby_age]
domain = { age = [0, 100], ward = ["A", "B", "C"] }
secret = { distance = { age = 5 } }
known = [["ward"]]
max_rows_per_owner = 2
"""


@pytest.fixture
def catalog(tmp_path):
    path = tmp_path / "shoal.toml"
    path.write_text(CATALOG)
    return str(path)


def words(catalog, verb, *more):
    return ("policy", verb, "--catalog", catalog, "--table", "people", "--policy", "nearby_age", *more)


def test_show_prints_the_promise_the_sensitivities_and_the_stretch(shoal, catalog):
    done = shoal(*words(catalog, "show"))
    assert done.status == 0
    assert done.out.startswith("policy nearby_age: hidden: age up to a distance of 5")
    assert "stretch to hiding the whole value: inf" in done.out
    assert "released exactly" in done.out
    data = json.loads(shoal(*words(catalog, "show", "--json")).out)
    sums = {row["question"]: row["l1"] for row in data["sensitivities"]}
    assert sums["sum of age"] == 10
    assert sums["histogram of ward"] == 0
    assert data["definition"]["secret"] == {"distance": {"age": 5}}


def test_compare_puts_owner_level_privacy_beside_the_policy(shoal, catalog):
    done = shoal(*words(catalog, "compare", "--epsilon", "0.5"))
    assert done.status == 0
    assert "prefer owner-level privacy" in done.out
    data = json.loads(shoal(*words(catalog, "compare", "--json")).out)
    rows = {row["query"]: row for row in data["questions"]}
    assert rows["sum of age"]["expected_error"] < rows["sum of age"]["owner_level_error"] / 300
    assert rows["histogram of ward"]["mechanism"] == "exact"


def test_an_unknown_policy_names_those_there_are(shoal, catalog):
    done = shoal("policy", "show", "--catalog", catalog, "--table", "people", "--policy", "far")
    assert (done.status, "nearby_age" in done.err) == (2, True)
    done = shoal("policy", "show", "--catalog", catalog, "--table", "nobody", "--policy", "far")
    assert (done.status, "people" in done.err) == (2, True)


def test_a_query_under_a_policy_is_explained_without_data(shoal, catalog):
    sql = "SELECT WITH POLICY OPTIONS(policy = 'nearby_age', epsilon = 1) SUM(age) FROM people"
    done = shoal("explain", sql, "--catalog", catalog)
    assert done.out.startswith("PROMISE: policy nearby_age (weaker than owner-level privacy)")
    data = json.loads(shoal("explain", sql, "--catalog", catalog, "--json").out)
    assert data["owner_level_epsilon"] == 20


def test_the_promise_stands_beside_every_format(shoal, catalog, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"uid": [1, 2], "age": [30, 40], "ward": ["A", "B"]}), tmp_path / "people.parquet")
    sql = "SELECT WITH POLICY OPTIONS(policy = 'nearby_age', epsilon = 1) SUM(age) AS s FROM people"
    base = ("query", sql, "--catalog", catalog, "--db", str(tmp_path / "people.parquet"))
    assert shoal(*base).out.startswith("policy nearby_age")
    done = shoal(*base, "--format", "csv")
    assert done.out.startswith('"s"')
    assert done.err.startswith("policy nearby_age")


def test_a_budget_can_be_about_a_policy(shoal, catalog, tmp_path):
    ledger = str(tmp_path / "ledger")
    done = shoal("budget", "--ledger", ledger, "--create", "3,0", "--policy", "people.nearby_age", "--catalog", catalog)
    assert (done.status, "policy" in done.out) == (0, True)
    assert shoal("budget", "--ledger", ledger, "--policy", "people.nearby_age").status == 2
    assert json.loads(shoal("budget", "--ledger", ledger, "--json").out)["promise"]["moves"] == 1
