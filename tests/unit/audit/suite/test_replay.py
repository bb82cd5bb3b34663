"""Record and replay: what enters each mechanism, on two databases that differ by one owner."""

import numpy as np
import pyarrow as pa
import pytest

from shoal.accounting.events import Shift
from shoal.audit.suite.replay import Entry, Neighbours, replay, without_owner
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.release import execute

CATALOG = {
    "tables": {
        "visits": {"owner": "uid"},
        "customers": {"owner": "uid"},
        "regions": {"public": True},
    }
}
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.01, max_groups_contributed=2)"
QUERIES = {
    "count, sum and mean of unknown groups": f"""{OPTIONS} site,
        COUNT(*, contribution_bounds_per_group => (0, 3)) AS n,
        SUM(spend, contribution_bounds_per_group => (-5, 50)) AS total,
        AVG(spend, contribution_bounds_per_group => (0, 50)) AS mean
        FROM visits GROUP BY site""",
    "owners of unknown groups": f"{OPTIONS} site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site",
    "variance, quantile, extreme and distinct values": f"""{OPTIONS} site,
        VAR_POP(spend, contribution_bounds_per_row => (0, 50), max_contributions_per_group => 3) AS spread,
        MEDIAN(spend, contribution_bounds_per_row => (0, 50), max_contributions_per_group => 2) AS middle,
        MAX(spend, contribution_bounds_per_row => (0, 50)) AS most,
        COUNT(DISTINCT kind, max_contributions_per_group => 2) AS kinds
        FROM visits GROUP BY site""",
    "bounds found privately": f"{OPTIONS} site, SUM(spend) AS total, COUNT(*) AS n FROM visits GROUP BY site",
    "a join of two owned tables": f"""{OPTIONS} region, SUM(spend, contribution_bounds_per_group => (0, 50)) AS total
        FROM visits JOIN customers USING (uid) GROUP BY region""",
    "public groups": """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=2,
        group_selection_strategy=PUBLIC_GROUPS) regions.region, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n
        FROM customers RIGHT JOIN (SELECT DISTINCT region FROM regions) AS regions
          ON customers.region = regions.region GROUP BY regions.region""",
    "no groups": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(DISTINCT uid) AS n FROM visits",
}


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    rows = 60
    return {
        "visits": pa.table(
            {
                "uid": np.append(rng.integers(0, 8, rows), [8] * 9),
                "site": np.append(rng.choice(list("abcde"), rows), list("abcdefghi")),
                "spend": np.append(np.round(rng.normal(20, 30, rows), 2), [1e9, -1e9, np.nan, np.inf, 0, 1, 2, 3, 4]),
                "kind": np.append(rng.integers(0, 9, rows), np.arange(9)),
            }
        ),
        "customers": pa.table({"uid": np.arange(9), "region": rng.choice(["north", "south"], 9)}),
        "regions": pa.table({"region": ["north", "south", "east"]}),
    }


@pytest.mark.parametrize("name", QUERIES)
def test_no_owner_moves_a_mechanism_by_more_than_it_declared(name, tables):
    for owner in (0, 8):
        found = replay(QUERIES[name], tables, without_owner(tables, CATALOG, owner), CATALOG, seed=owner)
        assert found.passed, found.problems
        assert found.entries


READ_AGAIN = f"""WITH busy AS ({OPTIONS} site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site)
    {OPTIONS} COUNT(DISTINCT uid) AS n FROM visits WHERE site IN (SELECT site FROM busy)"""


@pytest.mark.parametrize(("sql", "released"), [(QUERIES["no groups"], 0), (READ_AGAIN, 1)])
def test_noise_is_drawn_for_rows_that_a_later_select_reads_and_for_no_others(sql, released, tables, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "shoal.audit.suite.replay.release", lambda *taken: drawn.append(taken) or execute.release(*taken)
    )
    with Neighbours(tables, without_owner(tables, CATALOG, 8), CATALOG) as pair:
        assert pair.replay(sql, ask=False).passed
    assert len(drawn) == released


def test_an_owner_of_many_groups_is_seen_in_as_many_as_declared(tables):
    found = replay(QUERIES["owners of unknown groups"], tables, without_owner(tables, CATALOG, 8), CATALOG)
    owners = next(entry for entry in found.entries if entry.mechanism == "owners of a group")
    assert (owners.l1, owners.touched) == (2, 2)


def test_two_owners_at_once_move_too_much(tables):
    neighbour = without_owner(without_owner(tables, CATALOG, 0), CATALOG, 8)
    found = replay(QUERIES["no groups"], tables, neighbour, CATALOG)
    assert not found.passed
    assert any("OwnerCount" in problem for problem in found.problems)


def test_a_refusal_is_the_same_on_both_sides(tables):
    found = replay("SELECT uid FROM visits", tables, without_owner(tables, CATALOG, 0), CATALOG)
    assert found.passed
    assert found.entries == ()


def test_a_schema_that_depends_on_the_data_is_a_difference(tables):
    neighbour = {**tables, "visits": tables["visits"].drop_columns(["spend"])}
    found = replay(QUERIES["a join of two owned tables"], tables, neighbour, CATALOG)
    assert found.problems == ("the plan, or the refusal, depends on the data",)


def test_an_entry_holds_only_within_all_three_norms():
    declared = Shift(3, 2)
    assert Entry("sum", declared, 6, 18, 2).holds
    assert not Entry("sum", declared, 7, 18, 2).holds
    assert not Entry("sum", declared, 6, 20, 2).holds
    assert not Entry("sum", declared, 6, 12, 3).holds


def test_removing_an_owner_touches_private_tables_only(tables):
    kept = without_owner(tables, CATALOG, 8)
    assert 8 not in kept["visits"].column("uid").to_pylist()
    assert 8 not in kept["customers"].column("uid").to_pylist()
    assert kept["regions"] == tables["regions"]


def test_an_engine_that_fails_is_told_and_not_raised(monkeypatch):
    def fails(*_):
        raise EngineFailure

    monkeypatch.setattr(DuckDBEngine, "totals", fails)
    tables = {"visits": pa.table({"uid": [1, 2], "site": ["a", "b"], "spend": [1.0, 2.0], "kind": ["x", "y"]})}
    catalog = {"tables": {"visits": {"owner": "uid"}}}
    replayed = replay(QUERIES["owners of unknown groups"], tables, without_owner(tables, catalog, 1), catalog)
    assert not replayed.passed
    assert "the engine fails where data is read" in replayed.problems
