"""Record and replay: for answered queries of the corpus and nasty data, no owner moves a mechanism by more than it declared.

Noise and sampling keys are frozen; what is compared are the exact integers that get the noise, group by group, the owners per
group that decide which groups appear, and the histograms from which bounds are read.
"""

from __future__ import annotations

import nasty_data
import pyarrow as pa
import pytest
from corpus import ANSWERED, written_out

from shoal.audit.suite.replay import Neighbours, only_owner, without_owner

EVERY = 18
"""In CI each data set sees one answered query in this many, another slice for each; at night it sees all of them."""

DATA_SETS = list(nasty_data.DATA_SETS.items())


def neighbours(made):
    tables = made()
    owner = nasty_data.owner_of(tables)
    without = nasty_data.shuffled(without_owner(tables, nasty_data.CATALOG, owner))
    return Neighbours(tables, without, nasty_data.CATALOG, only_owner(tables, nasty_data.CATALOG, owner))


def replay_all(made, queries, *, ask):
    with neighbours(made) as pair:
        for number, case in enumerate(queries):
            found = pair.replay(case.sql, seed=number, ask=ask)
            assert found.passed, (case.name, case.sql, found.problems)


@pytest.mark.parametrize("number", range(len(DATA_SETS)), ids=[name for name, _ in DATA_SETS])
def test_no_owner_moves_a_mechanism_too_far_on_nasty_data(number):
    replay_all(DATA_SETS[number][1], ANSWERED[number % EVERY :: EVERY], ask=False)


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("number", range(len(DATA_SETS)), ids=[name for name, _ in DATA_SETS])
def test_every_answered_query_on_every_nasty_data_set(number):
    replay_all(DATA_SETS[number][1], ANSWERED, ask=True)


def test_all_answered_queries_are_replayed_in_ci():
    seen = {case.name for number in range(len(DATA_SETS)) for case in ANSWERED[number % EVERY :: EVERY]}
    assert seen == {case.name for case in ANSWERED}
    assert len(DATA_SETS) >= 20


# ---- conditions that a compiler could tear apart ------------------------------------------------------------------

COUNT = "PRIVATE COUNT(*, contribution_bounds_per_group => (0, 500)) FROM customers c"
SUM = "PRIVATE SUM(v.spend, contribution_bounds_per_group => (0, 500)) FROM customers c"
TORN = (
    f"{COUNT} JOIN visits v ON c.uid = v.uid AND (v.spend > 3 OR c.age > 30)",
    f"{COUNT}, visits v WHERE (v.spend > 3 OR c.age > 30) AND c.uid = v.uid",
    f"{COUNT} WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND (v.spend > 1e11 OR v.site = c.region))",
    f"{COUNT} WHERE c.uid IN (SELECT v.uid FROM visits v WHERE v.uid = c.uid AND (v.spend > 1e11 OR v.site = c.region))",
    f"{COUNT} WHERE region NOT IN (SELECT v.site FROM visits v WHERE v.uid = c.uid AND (v.spend > 1e11 OR v.site = c.region))",
    f"{SUM} LEFT JOIN visits v ON c.uid = v.uid AND (NOT v.spend > 3 OR v.spend BETWEEN 3 AND 30 OR v.site IS NULL)",
)


@pytest.mark.parametrize("sql", TORN)
def test_or_beside_the_owner_never_lets_rows_of_others_in(sql):
    """The owner's equality must bind the whole condition, or removing owner 7 changes what the others add."""
    people, trips = nasty_data.ordinary()
    decisive = [
        (nasty_data.OWNER, site, nasty_data.FIRST_DAY, 1e10) for site in ("only7", "north", "south", "east", "west")
    ]
    with Neighbours.of(nasty_data.built(people, trips + decisive), nasty_data.CATALOG, nasty_data.OWNER) as pair:
        found = pair.replay(written_out(sql))
    assert found.passed, found.problems


@pytest.mark.parametrize("column", ["region", "site"])
def test_equal_keys_of_different_spelling_stay_different_and_equal_ones_one(column):
    """−0.0 and 0.0 are one group, NaN is NULL, é composed and decomposed are two."""
    table = "customers" if column == "region" else "visits"
    keys = pa.array(["é", "e\u0301", "A", "a", "é", None, None])
    tables = nasty_data.built(*nasty_data.ordinary())
    owners = pa.array([7, 7, 7, 8, 9, 7, 8], pa.int64())
    fillers = [pa.nulls(7, field.type) for field in list(tables[table].schema)[2:]]
    tables[table] = pa.Table.from_arrays([owners, keys, *fillers], schema=tables[table].schema)
    sql = written_out(f"PRIVATE {column}, COUNT(DISTINCT uid) AS n FROM {table} GROUP BY {column}").replace(
        "contributed=3", "contributed=9"
    )
    with Neighbours(tables, nasty_data.without(tables), nasty_data.CATALOG) as pair:
        found = pair.replay(sql)
    assert found.passed, found.problems
    owners_moved = next(entry for entry in found.entries if entry.mechanism == "owners of a group")
    assert owners_moved.touched == 4
