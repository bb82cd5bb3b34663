"""Collections end in the same numbers, charges and refusals as the SQL of the same meaning."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

import shoal
from shoal import aggregates as agg
from shoal.engines.deadline import Deadline
from shoal.plan.totals import SamplingKey
from shoal.release.execute import measure

if TYPE_CHECKING:
    from shoal.plan.releases import StatementPlan

KEY = SamplingKey(tuple(range(1, 161)))

WIDE = {"epsilon": 10_000, "delta": 1e-6}
"""Noise that rounds away: what is compared is meaning."""


def integers(session: shoal.Session, plan: StatementPlan) -> dict[tuple, tuple[int, ...]]:
    """What enters the mechanisms, group by group, under one sampling key."""
    with session.snapshot(Deadline(300)) as engine:
        found = measure(plan.selects[0], engine, KEY).measurement
    keys = zip(*(column.to_pylist() for column in found.keys.columns), strict=True)
    return {key: tuple(map(int, row)) for key, *row in zip(keys, found.owners, *found.totals, strict=True)}


def rows(result: shoal.Result) -> list[tuple]:
    return sorted(tuple(round(v, 1) if isinstance(v, float) else v for v in row.values()) for row in result.to_dicts())


@pytest.fixture
def session(open_shop):
    return open_shop(budget=(100_000, 1e-3))


def test_filter_and_map_give_what_sql_gives(session):
    spent = (
        session.collection("visits")
        .filter(lambda v: v.items > 1)
        .map(lambda v: {"place": v.site.upper(), "cents": int(v.spend * 100)}, {"place": "text", "cents": "integer"})
        .group_by("place", max_groups_per_owner=4)
    )
    here = spent.planned(n=agg.count(upper=5), cents=agg.sum("cents", bounds=(0, 5000)), epsilon=1, delta=1e-6)
    there = session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 4) "
        "UPPER(site) AS place, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n, "
        "SUM(CAST(spend * 100 AS BIGINT), contribution_bounds_per_group => (0, 5000)) AS cents "
        "FROM visits WHERE items > 1 GROUP BY place"
    )
    assert integers(session, here) == integers(session, there)
    assert here.events == there.events
    assert here.loss == there.loss


def test_a_mean_of_rows_is_the_mean_of_the_rows_that_are_kept(session):
    visits = session.collection("visits")
    mean = agg.mean("spend", bounds_per_row=(0, 100), max_rows=50)
    (row,) = visits.release(mean=mean, epsilon=90_000).to_dicts()
    stored = [v for (v,) in session._engine._connection.sql("SELECT spend FROM visits").fetchall()]
    assert row["mean"] == pytest.approx(sum(stored) / len(stored), abs=0.1)
    of_owners = agg.mean("spend", bounds=(0, 100))
    assert mean.calls("m") != of_owners.calls("m")


def test_the_ledger_says_which_functions_ran(session):
    session.collection("visits").filter(lambda v: v.items > 1).release(n=agg.count(upper=5), epsilon=1)
    (entry,) = session.ledger.entries()
    assert entry.epsilon == 1
    assert "FROM this" in entry.description
    assert "visits; filter <lambda>" in entry.description


def test_a_record_on_which_a_function_fails_is_missing(session):
    def fragile(record):
        if record.items == 3:
            raise ValueError(record.site)
        return {"items": record.items}

    kept = session.collection("visits").map(fragile, {"items": "integer"})
    (row,) = kept.release(n=agg.count(upper=5), epsilon=10_000).to_dicts()
    assert round(row["n"]) == 1600


def test_flat_map_keeps_at_most_so_many(session):
    def endless(record):
        while True:
            yield {"site": record.site}

    several = session.collection("visits").flat_map(endless, {"site": "text"}, most=3)
    (row,) = several.release(n=agg.count(upper=15), epsilon=10_000).to_dicts()
    assert round(row["n"]) == 6000


def test_per_owner_sees_all_records_of_an_owner_in_canonical_order(session):
    def first_and_number(records):
        return [{"number": len(records), "sorted": records == sorted(records)}]

    per_owner = session.collection("visits").per_owner(first_and_number, {"number": "integer", "sorted": "boolean"})
    found = per_owner.group_by("number", "sorted", max_groups_per_owner=1).release(n=agg.count_owners(), **WIDE)
    assert rows(found) == [(5, True, 400)]


def test_per_owner_cuts_owners_with_too_many_records(session):
    lengths = session.collection("visits").per_owner(
        lambda records: [{"number": len(records)}], {"number": "integer"}, max_rows=2
    )
    found = lengths.group_by("number", max_groups_per_owner=1).release(n=agg.count_owners(), **WIDE)
    assert rows(found) == [(2, 400)]


def test_collections_join_on_the_owner_and_nothing_else(session):
    visits = session.collection("visits").map(lambda v: {"site": v.site}, {"site": "text"})
    adults = session.collection("customers").select("region", "age").filter(lambda c: c.age >= 40)
    joined = visits.join(adults).group_by("site", max_groups_per_owner=4)
    there = session.query(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10000, delta = 1e-6, max_groups_contributed = 4) site, "
        "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits v JOIN customers c ON v.uid = c.uid "
        "WHERE age >= 40 GROUP BY site"
    )
    assert rows(joined.release(n=agg.count(upper=5), **WIDE)) == rows(there)


def test_a_left_join_keeps_records_without_a_partner(session):
    nobody = session.collection("customers").select("region").filter(lambda _: False)
    kept = session.collection("visits").select("site").join(nobody, how="left")
    (row,) = kept.release(n=agg.count(upper=5), r=agg.count("region", upper=5), epsilon=10_000).to_dicts()
    assert (round(row["n"]), round(row["r"])) == (2000, 0)


def test_union_matches_fields_by_name(session):
    sites = session.collection("visits").map(lambda v: {"n": 1, "name": v.site}, {"n": "integer", "name": "text"})
    regions = session.collection("customers").sql("SELECT region AS name, 1 AS n FROM this")
    (row,) = sites.union(regions).release(n=agg.sum("n", bounds=(0, 9)), epsilon=10_000).to_dicts()
    assert round(row["n"]) == 2400


def test_a_public_table_is_joined_by_its_keys(session):
    here = session.collection("customers").join_public("regions", on="region").group_by("continent")
    assert rows(here.release(n=agg.count_owners(), **WIDE)) == [("EU", 160)]


def test_public_groups_appear_even_when_they_are_empty(session):
    visits = session.collection("visits").select("site", "items")
    listed = visits.group_by("site", "items", max_groups_per_owner=9, public={"site": ["s1", "moon"], "items": [0, 1]})
    found = rows(listed.release(n=agg.count(upper=5), epsilon=10_000))
    assert [row[:2] for row in found] == [("moon", 0), ("moon", 1), ("s1", 0), ("s1", 1)]
    assert [row[2] for row in found][:2] == [0, 0]


def test_selected_groups_are_public_afterwards(session):
    grouped = session.collection("visits").select("site").group_by("site", max_groups_per_owner=4)
    chosen = grouped.select_groups(epsilon=1000, delta=1e-6, rule="optimal")
    assert chosen.to_arrow().column_names == ["site"]
    again = session.collection("visits").group_by("site", max_groups_per_owner=4, public=chosen)
    assert len(again.release(n=agg.count(upper=5), epsilon=10_000)) == 4


def test_the_owner_is_no_field_and_no_group(session):
    visits = session.collection("visits")
    assert "uid" not in visits.schema
    with pytest.raises(shoal.ShoalError) as error:
        visits.group_by("uid")
    assert error.value.code == "E_UID_EXPOSED"
    hidden = visits.map(lambda v: {"n": getattr(v, "uid", 7)}, {"n": "integer"})
    assert rows(hidden.group_by("n").release(n_=agg.count_owners(), **WIDE)) == [(7, 400)]


def test_nothing_looks_into_a_collection(session):
    visits = session.collection("visits")
    for looked_at in (visits, visits.group_by("site")):
        for name in ("collect", "count", "to_arrow", "to_pandas", "rdd", "head"):
            with pytest.raises(AttributeError, match="release"):
                getattr(looked_at, name)
        with pytest.raises(TypeError):
            iter(looked_at)


def drawn(record):
    """Randomness of both generators that a function may meet."""
    return {"who": record.who, "n": random.randrange(1000) + np.random.randint(1000)}  # noqa: NPY002 - the one that has a state


def test_what_a_function_draws_follows_from_the_owner_and_from_nobody_else():
    parts = []
    for owners in (range(40), [owner for owner in range(40) if owner != 7]):
        data = {"t": {"uid": [*owners] * 3, "who": [*owners] * 3}}
        with shoal.connect(data, catalog={"tables": {"t": {"owner": "uid"}}}) as session:
            made = session.collection("t").map(drawn, {"who": "integer", "n": "integer"}).group_by("who")
            plan = made.planned(n=agg.sum("n", bounds=(0, 10_000)), epsilon=1, delta=1e-6)
            parts.append(integers(session, plan))
    assert {key: part for key, part in parts[0].items() if key != (7,)} == parts[1]
    assert len(set(parts[1].values())) > 30


def test_explain_reads_nothing_and_calls_nothing(session):
    def never(record):
        raise SystemExit

    visits = session.collection("visits").filter(never)
    told = str(visits.group_by("site").explain(n=agg.count(upper=5), epsilon=1, delta=1e-6))
    assert "left out" in told
    assert session.spent == (0, 0)


def test_try_on_runs_functions_here_and_shows_their_errors(session):
    visits = session.collection("visits").filter(lambda v: v.items > 1)
    typed = visits.map(lambda v: {"ratio": 1 / v.items, "site": 5}, {"ratio": "double", "site": "text"})
    assert typed.try_on([{"items": 2}, {"items": 1}]) == [{"ratio": 0.5, "site": None}]
    with pytest.raises(TypeError):
        visits.try_on([{"items": None}])


def test_values_that_do_not_fit_their_type_are_null(session):
    strange = {"a": "integer", "b": "double", "c": "text", "d": "date", "e": "decimal(4, 1)"}
    made = session.collection("customers").map(
        lambda _: {
            "a": 2**70,
            "b": float("nan"),
            "c": 5,
            "d": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            "e": 1000,
            "f": "unknown",
        },
        strange,
    )
    counted = made.release(**{name: agg.count(name, upper=1) for name in strange}, epsilon=50_000)
    assert [round(value) for value in counted.to_dicts()[0].values()] == [0, 0, 0, 0, 0]


def test_utility_compares_candidates_and_charges_nothing(session):
    visits = session.collection("visits").filter(lambda v: v.items > 1).group_by("site")
    told = visits.utility(n=agg.count(upper=[1, 5]), max_groups_per_owner=[1, 4], epsilon=1, delta=1e-6)
    found = [(one.max_groups, one.bounds["n"]) for one in told.settings]
    assert found == [(1, (0, 1)), (1, (0, 5)), (4, (0, 1)), (4, (0, 5))]
    assert {one.groups for one in told.settings} == {4}
    assert told.settings[-1].lost_to_clamping == 0
    assert "Not private, not for release" in told.warning
    shown = str(told).splitlines()
    assert shown[0] == told.warning
    assert [line.split()[:4] for line in shown[3:]] == [
        ["1", str(one.max_groups), "n", f"0…{one.bounds['n'][1]:g}"] for one in told.settings
    ]
    assert all(one.median_relative_error <= one.ninetieth_relative_error for one in told.settings)
    assert session.spent == (0, 0)


def test_utility_of_all_records_together(session):
    visits = session.collection("visits").filter(lambda v: v.items > 1)
    told = visits.utility(n=agg.count(upper=[1, 50]), epsilon=[0.5, 1])
    assert [(one.epsilon, one.bounds["n"]) for one in told.settings] == [
        (0.5, (0, 1)),
        (0.5, (0, 50)),
        (1, (0, 1)),
        (1, (0, 50)),
    ]
    assert {one.groups for one in told.settings} == {1}
    assert told.settings[0].lost_to_clamping > told.settings[1].lost_to_clamping == 0
    assert told.settings[0].noise_standard_deviation < told.settings[1].noise_standard_deviation
    assert session.spent == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda s: s.collection("nowhere"), "E_UNKNOWN_TABLE"),
        (lambda s: s.collection("regions"), "E_USAGE"),
        (lambda s: s.collection("visits").map(lambda _: {}, {"uid": "integer"}), "E_UID_FORGED"),
        (lambda s: s.collection("visits").map(lambda _: {}, {"x": "list"}), "E_USAGE"),
        (lambda s: s.collection("visits").map(lambda _: {}, {}), "E_USAGE"),
        (lambda s: s.collection("visits").map(lambda _: {}, {"x": "text", "X": "text"}), "E_USAGE"),
        (lambda s: s.collection("visits").flat_map(lambda _: [], {"x": "text"}, most=0), "E_OPTION_INVALID"),
        (lambda s: s.collection("visits").filter(7), "E_USAGE"),
        (lambda s: s.collection("visits").where("nowhere > 1"), "E_UNKNOWN_COLUMN"),
        (lambda s: s.collection("visits").sql("SELECT COUNT(*) AS n FROM this"), "E_UID_LOST"),
        (lambda s: s.collection("visits").sql("SELECT 1 AS n"), "E_UID_LOST"),
        (lambda s: s.collection("visits").sql("DROP TABLE this"), "E_STATEMENT"),
        (lambda s: s.collection("visits").sql("SELECT * FROM this LIMIT 3"), "E_CROSS_USER"),
        (lambda s: s.collection("visits").join(s.collection("visits")), "E_USAGE"),
        (lambda s: s.collection("visits").join(s.collection("customers"), how="full"), "E_USAGE"),
        (lambda s: s.collection("visits").union(s.collection("customers")), "E_USAGE"),
        (lambda s: s.collection("visits").join_public("visits", on="site"), "E_USAGE"),
        (lambda s: s.collection("visits").group_by("nowhere"), "E_UNKNOWN_COLUMN"),
        (lambda s: s.collection("visits").group_by("site", public=[("a", "b")]), "E_USAGE"),
        (lambda s: s.collection("visits").release(epsilon=1), "E_USAGE"),
        (lambda s: s.collection("visits").release(n=5, epsilon=1), "E_USAGE"),
        (lambda s: s.collection("visits").release(n=agg.sum("site", bounds=(0, 1)), epsilon=1), "E_UNSUPPORTED"),
        (lambda s: s.collection("visits").release(n=agg.sum("spend", bounds=(2, 1)), epsilon=1), "E_BOUNDS_INVALID"),
        (lambda s: s.collection("visits").release(n=agg.count(upper=5), epsilon="1"), "E_OPTION_INVALID"),
        (lambda s: s.collection("visits").release(n=agg.count(upper=5)), "E_OPTION_INVALID"),
        (lambda s: s.collection("visits").group_by("site").utility(n=agg.count(upper=5), epsilon=1), "E_USAGE"),
        (lambda s: s.collection("visits").release(n=agg.mean("spend", (0, 9), max_rows=2), epsilon=1), "E_USAGE"),
        (lambda s: s.collection("visits", function_timeout=0), "E_USAGE"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_read(session, wrong, code):
    with pytest.raises(shoal.ShoalError) as error:
        wrong(session)
    assert error.value.code == code
    assert session.spent == (0, 0)
