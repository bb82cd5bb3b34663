"""Limits for all groups of an owner together: the same integers by SQL and in memory, and never more than the limit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from test_memory_path import BothPaths, nasty_table

from shoal.engines.deadline import Deadline
from shoal.mechanisms.entropy import SeededEntropy
from shoal.plan.limits.sought import Limits
from shoal.plan.measures import TotalRows, TotalSum
from shoal.release.execute import fresh_sampling_key, measure
from shoal.rewrite.limits.open_limits import positions_in_all, with_limits
from shoal.rewrite.pipeline import plan_select
from shoal.session import connect

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon}, delta = 1e-6)"
SITES = ["", "a", "A", "é", "日本", *map(str, range(20))]
FACTS = {
    "site": {"values": SITES},
    "number": {"values": [0, -1, 7, *range(100, 125)]},
    "k": {"values": list(range(30))},
}


def catalog_of(table):
    columns = {name: facts for name, facts in FACTS.items() if name in table.column_names}
    return {"tables": {"t": {"owner": "uid", "columns": columns}}}


@cache
def searched(session, select, epsilon):
    """A plan that finds limits: it takes a while, as all that it may choose from is planned too."""
    return session.plan(f"{CLAUSE.format(epsilon=epsilon)} {select}").selects[0]


def second_step(session, select, groups, limits, epsilon=1):
    """The plan of step two that has these limits, of which the aggregates sought for all groups have theirs in all."""
    plan = searched(session, select, epsilon)
    in_all = positions_in_all(plan.search.sought)
    found = Limits(groups, tuple(Fraction(limit) for limit in limits), in_all=in_all)
    return plan_select(with_limits(plan.select, found, plan.search.epsilon), "basic")


def both_ways(session, plan, seed=5, *, in_memory=True):
    entropy = SeededEntropy(seed)
    with session._engine.snapshot(Deadline(600)) as engine:
        both = BothPaths(engine)
        measured = measure(plan, both, fresh_sampling_key(entropy), entropy)
    assert all(both.in_memory) == in_memory
    return measured.measurement


@pytest.fixture(scope="module")
def session():
    with connect({"t": nasty_table()}, catalog_of(nasty_table())) as opened:
        yield opened


@pytest.mark.parametrize("groups", [1, 4, 1000])
@pytest.mark.parametrize("limit", ["1", "37/4", "250"])
@pytest.mark.parametrize("key", ["site", "number"])
def test_both_paths_cut_alike(session, key, limit, groups):
    whole = max(1, int(Fraction(limit)))
    select = f"{key}, COUNT(*), COUNT(spend), SUM(spend), SUM(tiny), SUM(price) FROM t GROUP BY {key}"
    plan = second_step(session, select, groups, [whole, whole, limit, whole, limit])
    assert {type(release.measure) for release in plan.releases} == {TotalRows, TotalSum}
    assert both_ways(session, plan)


@pytest.mark.parametrize("epsilon", ["0.001", "100"])
def test_what_is_too_wide_for_memory_is_cut_by_sql(session, epsilon):
    plan = second_step(session, "site, SUM(wild), SUM(far) FROM t GROUP BY site", 50, [3, 2**30], epsilon)
    measured = both_ways(session, plan, in_memory=False)
    for release, total in zip(plan.releases, measured.totals, strict=True):
        assert abs(total).sum() <= 100 * release.noise.shift.l1  # of a hundred owners


def parts_of_one_owner(rows, limits, select="k, COUNT(*), SUM(v)", groups=1000):
    """What a single owner adds to every group, in steps of the grid, and the releases."""
    keys, values = zip(*rows, strict=True)
    table = pa.table({"uid": [1] * len(rows), "k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.float64())})
    with connect({"t": table}, catalog_of(table)) as opened:
        plan = second_step(opened, f"{select} FROM t GROUP BY k", groups, limits)
        measured = both_ways(opened, plan)
    place = {
        row["k0"] if "k0" in row else next(iter(row.values())): i for i, row in enumerate(measured.keys.to_pylist())
    }
    return plan, [{key: int(total[i]) for key, i in place.items()} for total in measured.totals]


def test_an_owner_within_the_limit_loses_nothing():
    plan, (rows, sums) = parts_of_one_owner([(1, 2.0), (1, 3.0), (2, -4.0)], [3, 9])
    grid = plan.releases[1].noise.grid
    assert {k: n for k, n in rows.items() if n} == {1: 2, 2: 1}
    assert {k: v * grid for k, v in sums.items() if v} == {1: 5, 2: -4}


def test_parts_add_up_to_the_limit_and_are_in_proportion():
    rng = np.random.default_rng(3)
    rows = [(int(k), float(v)) for k, v in zip(rng.integers(0, 12, 400), rng.normal(3, 20, 400), strict=True)]
    plan, (counted, summed) = parts_of_one_owner(rows, [50, 64])
    exact_rows, exact_sums = dict.fromkeys(range(30), 0), dict.fromkeys(range(30), 0.0)
    for key, value in rows:
        exact_rows[key] += 1
        exact_sums[key] += value
    assert sum(counted.values()) == 50
    assert all(abs(counted[k] - min(n, 50) * 50 / 400) < 1 for k, n in exact_rows.items())
    steps = plan.releases[1].noise.shift.per_coordinate
    assert sum(map(abs, summed.values())) == steps
    clamped = {k: max(-64.0, min(64.0, v)) for k, v in exact_sums.items()}
    whole = sum(map(abs, clamped.values()))
    assert all(abs(summed[k] / steps - v / whole) < 1e-6 for k, v in clamped.items())


@pytest.mark.parametrize("limit", [1, 2, 5, 7])
def test_no_owner_moves_the_vector_of_groups_further_than_its_noise_is_made_for(limit):
    rng = np.random.default_rng(limit)
    rows = [(int(k), float(v)) for k, v in zip(rng.integers(0, 30, 90), rng.standard_cauchy(90), strict=True)]
    plan, totals = parts_of_one_owner(rows, [limit, limit])
    assert {type(release.measure) for release in plan.releases} == {TotalRows, TotalSum}
    for release, total in zip(plan.releases, totals, strict=True):
        assert sum(map(abs, total.values())) <= release.noise.shift.l1
        assert sum(v**2 for v in total.values()) <= release.noise.shift.l2_squared


def test_which_rows_are_kept_depends_on_no_other_owner():
    rows = [(k, float(v)) for k in range(8) for v in range(5)]
    alone = pa.table({"uid": [1] * 40, "k": [k for k, _ in rows], "v": [v for _, v in rows]})
    among = pa.concat_tables([alone, pa.table({"uid": [2] * 3, "k": [20, 21, 22], "v": [1.0, 2.0, 3.0]})])
    found = []
    for table in (alone, among):
        with connect({"t": table}, catalog_of(table)) as opened:
            measured = both_ways(opened, second_step(opened, "k, COUNT(*), SUM(v) FROM t GROUP BY k", 6, [9, 20]))
        keys = [next(iter(row.values())) for row in measured.keys.to_pylist()]
        totals = [total.tolist() for total in measured.totals]
        found.append({key: [t[i] for t in totals] for i, key in enumerate(keys) if key < 20})
    assert found[0] == found[1]


def test_noise_is_made_for_the_limit_and_not_for_every_group(session):
    select = "site, COUNT(*), SUM(spend) FROM t GROUP BY site"
    few, many = (second_step(session, select, groups, [8, 16]) for groups in (2, 20))
    for plan, groups in ((few, 2), (many, 20)):
        for release in plan.releases:
            shift = release.noise.shift
            assert (shift.coordinates, shift.touched) == (1, groups)
    assert [r.noise.shift.l1 for r in few.releases] == [r.noise.shift.l1 for r in many.releases]


def test_a_limit_of_one_row_in_all_is_not_a_count_of_owners(session):
    plan = second_step(session, "site, COUNT(*), SUM(spend) FROM t GROUP BY site", 4, [1, 16])
    assert isinstance(plan.releases[0].measure, TotalRows)
    counted = both_ways(session, plan).totals[0]
    owners = both_ways(session, replace(plan)).owners
    assert counted.sum() < owners.sum()
