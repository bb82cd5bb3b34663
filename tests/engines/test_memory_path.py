"""The in-memory path and the SQL path give the same integers for the same question, rows and sampling key."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from shoal.engines.deadline import Deadline
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.memory import path as memory
from shoal.engines.memory.packed import Packed
from shoal.engines.owners_in_turn import can_take_turns
from shoal.mechanisms.entropy import SeededEntropy
from shoal.plan.totals import LeafCounts, SamplingKey
from shoal.release.bounds_per_group import release_by_group
from shoal.release.execute import fresh_sampling_key, measure
from shoal.session import connect

ROWS = 1500
WEIGHED = "group_selection_strategy = WEIGHTED"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, {limit}) "


def drawn(rng, values, size=ROWS):
    """Values with a skewed chance each, NULL among them where it is listed."""
    chances = 1 / np.arange(1, len(values) + 1)
    return [values[i] for i in rng.choice(len(values), size, p=chances / chances.sum())]


@cache
def nasty_table():
    rng = np.random.default_rng(1)
    day = dt.date(2026, 3, 1)
    return pa.table(
        {
            "uid": rng.integers(1, 100, ROWS),
            "name": [f"owner {i}" for i in rng.zipf(1.4, ROWS) % 200],
            "wide_id": [int(i) * 0x9E3779B97F4A7C15 % 2**63 for i in rng.integers(0, 200, ROWS)],
            "huge_id": pa.array([Decimal(int(i)) * 10**30 for i in rng.integers(0, 200, ROWS)], pa.decimal128(38, 0)),
            "site": drawn(rng, [None, "", "a", "A", "é", "日本", "b" * 300, *map(str, range(40))]),
            "number": pa.array(drawn(rng, [0, None, -1, 7, *range(100, 130)]), pa.int64()),
            "far": drawn(rng, [2**62 - 3, -(2**62), 5, -7, 2**61 + 1, 0, 12, 99]),
            "day": drawn(rng, [None, *(day + dt.timedelta(i) for i in range(20))]),
            "moment": drawn(
                rng, [None, *(dt.datetime.fromisoformat(f"2026-01-01 05:04:03.{i:06}") for i in range(20))]
            ),
            "flag": drawn(rng, [True, None, False]),
            "ratio": drawn(rng, [0.0, None, -0.0, 0.5, math.nan, math.inf, -math.inf, 1e-300, -2.25]),
            "spend": drawn(rng, [None, math.nan, -0.0, 0.125, -3.0, *rng.lognormal(2, 1, 300).tolist()]),
            "wild": drawn(rng, [1.0, None, math.inf, -math.inf, 1e300, -1e300, 5e-324, 2.5, -2.5]),
            "price": pa.array(
                drawn(rng, [None, *(Decimal(int(i)) / 100 for i in rng.integers(-500, 90000, 100))]),
                pa.decimal128(9, 2),
            ),
            "tiny": pa.array(drawn(rng, [3, None, -100, 100, 0]), pa.int8()),
            "same": [4.5] * ROWS,
        }
    )


class BothPaths:
    """Asks both paths and compares; remembers whether memory sufficed."""

    def __init__(self, engine):
        self.engine = engine
        self.in_memory = []

    def totals(self, query, key):
        by_sql = self.engine.measure_by_sql(query, key)
        try:
            here = self.engine.measure_in_memory(query, key)
        except memory.NEEDS_SQL:
            self.in_memory.append(False)
            here = self.engine.totals(query, key)
        else:
            self.in_memory.append(True)
        assert by_keys(here) == by_keys(by_sql)
        assert here.keys.schema.types == by_sql.keys.schema.types
        return by_sql


def by_keys(measurement):
    """All integers of a measurement, by group: the order of groups means nothing."""
    keys = [tuple(row.values()) for row in measurement.keys.to_pylist()] or [()] * len(measurement.owners)
    plain = {key: [int(measurement.owners[i])] for i, key in enumerate(keys)}
    leaves = []
    for total in measurement.totals:
        if isinstance(total, LeafCounts):
            cells = zip(total.groups.tolist(), total.leaves.tolist(), total.counts.tolist(), strict=True)
            leaves.append({(keys[group], leaf): count for group, leaf, count in cells})
        else:
            for i, key in enumerate(keys):
                plain[key].append(int(total[i]))
    bins = [
        sorted(zip([str(keys[g]) for g in h.groups.tolist()], h.leaves.tolist(), h.counts.tolist(), strict=True))
        if isinstance(h, LeafCounts)
        else h
        for h in measurement.histograms
    ]
    return plain, leaves, bins


OPEN = {}
"""Sessions over the nasty table, one for each way to own it."""


@pytest.fixture(autouse=True)
def rows_are_many(monkeypatch):
    """Small tables as large ones are bounded: by several threads."""
    monkeypatch.setattr(memory, "FEW_ROWS", 0)


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end():
    yield
    while OPEN:
        OPEN.popitem()[1].close()


def compare(select, *, kappa=3, limit=None, options=None, owner="uid", table=None, columns=None, seed=5):
    """Runs one private SELECT both ways; True when memory sufficed throughout."""
    catalog = {"tables": {"t": {"owner": owner, "columns": columns or {}}}}
    if table is not None:
        with connect({"t": table}, catalog) as session:
            return compare_in(session, select, kappa, limit, options, seed)
    about = owner, repr(columns)
    if about not in OPEN:
        OPEN[about] = connect({"t": nasty_table()}, catalog)
    return compare_in(OPEN[about], select, kappa, limit, options, seed)


def compare_in(session, select, kappa, limit, options, seed):
    chosen = options or f"epsilon = 1, delta = 1e-6, {limit or f'max_groups_contributed = {kappa}'}"
    plan = session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({chosen}) {select}")
    entropy = SeededEntropy(seed)
    with session._engine.snapshot(Deadline(600)) as engine:
        both = BothPaths(engine)
        for part in plan.selects:
            if part.finds_bounds_per_group:
                release_by_group(part, both, fresh_sampling_key(entropy), entropy)
            else:
                measure(part, both, fresh_sampling_key(entropy), entropy)
    assert both.in_memory
    return all(both.in_memory)


AGGREGATES = [
    "COUNT(*)",
    "COUNT(*, contribution_bounds_per_group => (0, 3))",
    "COUNT(spend, contribution_bounds_per_group => (0, 2))",
    "COUNT(DISTINCT uid)",
    "SUM(spend, contribution_bounds_per_group => (-5, 20))",
    "SUM(spend)",
    "SUM(spend, contribution_bounds_per_group => (2, 20))",
    "SUM(number, contribution_bounds_per_group => (-9, -2))",
    "SUM(number, contribution_bounds_per_group => (-10, 200))",
    "SUM(number)",
    "SUM(tiny)",
    "SUM(price, contribution_bounds_per_group => (0, 500.5))",
    "SUM(price)",
    "AVG(spend, contribution_bounds_per_group => (0, 20))",
    "AVG(spend)",
    "AVG(number, contribution_bounds_per_group => (-3, 120))",
    "AVG(price)",
    "AVG_ROWS(spend, contribution_bounds_per_row => (0, 30), max_contributions_per_group => 2)",
    "AVG_ROWS(price)",
    "VAR_POP(spend, contribution_bounds_per_row => (0, 30))",
    "VARIANCE(number, contribution_bounds_per_row => (0, 130), max_contributions_per_group => 4)",
    "STDDEV(price)",
    "MEDIAN(spend, contribution_bounds_per_row => (0, 30))",
    "MEDIAN(price, contribution_bounds_per_row => (0, 900), max_contributions_per_group => 3)",
    "PERCENTILE_CONT(number, 0.9)",
    "MIN(spend, contribution_bounds_per_row => (-10, 50))",
    "MAX(price)",
    "MAX(number)",
    "COUNT(DISTINCT number, max_contributions_per_group => 2)",
    "COUNT(DISTINCT spend, max_contributions_per_group => 3)",
    "COUNT(DISTINCT site)",
    "COUNT(DISTINCT day, max_contributions_per_group => 5)",
    "MEDIAN(wild, contribution_bounds_per_row => (-1, 2), max_contributions_per_group => 2)",
    "MAX(wild, contribution_bounds_per_row => (1, 1))",
    "VAR_POP(wild, contribution_bounds_per_row => (-1, 2))",
    "MEDIAN(same, contribution_bounds_per_row => (0, 9), max_contributions_per_group => 2)",
]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_few_rows_are_bounded_in_one_thread_with_the_same_integers(aggregate, monkeypatch):
    def starts_threads(*_):
        raise AssertionError

    monkeypatch.setattr(memory, "FEW_ROWS", ROWS)
    monkeypatch.setattr(memory, "ThreadPoolExecutor", starts_threads)
    assert compare(f"site, {aggregate} AS x FROM t GROUP BY site")


def test_what_fails_in_one_thread_fails_where_its_result_is_asked_for():
    with memory._pool(memory.FEW_ROWS) as pool:
        failed = pool.submit(int, "x")
        with pytest.raises(ValueError, match="invalid literal"):
            failed.result()


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("kappa", [1, 4])
def test_every_measure_is_the_same_by_group(aggregate, kappa):
    assert compare(f"site, {aggregate} FROM t GROUP BY site", kappa=kappa)


@pytest.mark.parametrize("kappa", [1, 3])
@pytest.mark.parametrize(
    "aggregates",
    [
        "COUNT(*), SUM(number)",
        "SUM(spend), AVG(price)",
        "STDDEV(price), MEDIAN(spend)",
        "MAX(number), APPROX_BOUNDS(spend)",
    ],
)
def test_bounds_of_each_group_are_found_and_used_the_same_way(aggregates, kappa):
    everyone = f"epsilon = 100000, delta = 0.1, inferred_bounds = PER_GROUP, max_groups_contributed = {kappa}"
    assert compare(f"site, {aggregates} FROM t GROUP BY site", options=everyone)


@pytest.mark.parametrize(
    "limit", ["max_groups_contributed = 1", "max_groups_contributed = 30", "max_rows_contributed = 9"]
)
def test_weights_of_owners_are_the_same(limit):
    assert compare(
        "site, SUM(spend, contribution_bounds_per_group => (0, 9)) FROM t GROUP BY site", limit=f"{limit}, {WEIGHED}"
    )


@pytest.mark.parametrize("aggregate", AGGREGATES[::3])
def test_every_measure_is_the_same_without_groups(aggregate):
    assert compare(f"{aggregate} FROM t")


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(
    "aggregate",
    [
        "COUNT(*)",
        "COUNT(spend)",
        "COUNT(DISTINCT uid)",
        "SUM(spend, contribution_bounds_per_group => (0, 9))",
        "SUM(number), AVG(price)",
        "AVG(wild, contribution_bounds_per_group => (-1, 2)), MEDIAN(same, contribution_bounds_per_row => (0, 9))",
        "VAR_POP(spend), COUNT(DISTINCT site, max_contributions_per_group => 2)",
        "MIN(price), MAX(number, contribution_bounds_per_row => (0, 9))",
    ],
)
def test_rows_bounded_per_owner_are_the_same(aggregate, rows):
    assert compare(f"day, {aggregate} FROM t GROUP BY day", limit=f"max_rows_contributed = {rows}")
    assert compare(f"{aggregate} FROM t", limit=f"max_rows_contributed = {rows}")


@pytest.mark.parametrize("key", ["site", "number", "far % 3", "day", "moment", "flag", "ratio", "price", "tiny"])
def test_groups_of_every_type_are_the_same(key):
    assert compare(f"{key} AS k, COUNT(*), SUM(spend, contribution_bounds_per_group => (0, 9)) FROM t GROUP BY 1")


@pytest.mark.parametrize("owner", ["uid", "name", "wide_id", "huge_id", "site", "day"])
def test_owners_of_every_type_are_the_same(owner):
    assert compare(
        "number, COUNT(*), MEDIAN(spend, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY 1", owner=owner
    )


def test_many_aggregates_and_many_keys_at_once_are_the_same():
    assert compare(
        "site, number, day, flag, COUNT(*), SUM(spend), AVG(price), VARIANCE(spend, contribution_bounds_per_row => (0, 9)), "
        "MEDIAN(spend, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY 1, 2, 3, 4",
        kappa=6,
    )


def test_keys_with_more_combinations_than_a_machine_word_are_the_same():
    keys = ", ".join(f"uid * {7919 + i} + number % 3 AS k{i}" for i in range(8))
    places = ", ".join(str(i + 1) for i in range(8))
    assert compare(f"{keys}, COUNT(*) FROM t GROUP BY {places}")


def test_public_groups_drop_other_rows_before_sampling_on_both_paths():
    columns = {"number": {"values": [0, 7, None, 100, 101, 555]}}
    assert compare(
        "number, COUNT(*), MEDIAN(spend, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY number",
        kappa=2,
        columns=columns,
    )


@pytest.mark.parametrize("found", [0, 7, None])
def test_the_group_of_rows_without_a_match_is_the_same_on_both_paths(found):
    listed = pa.table({"number": pa.array([found, 100, 101, 555], pa.int64()), "name": ["x", None, "y", "z"]})
    tables = {"t": {"owner": "uid"}, "names": {"public": True}}
    catalog = {"tables": tables, "defaults": {"epsilon": 5, "delta": 1e-6, "population": 100}}
    sql = "SELECT n.name, n.number, COUNT(*) AS c, SUM(t.price) AS s FROM t LEFT JOIN names n ON n.number = t.number GROUP BY ALL"
    entropy = SeededEntropy(3)
    with connect({"t": nasty_table(), "names": listed}, catalog) as session:
        (plan,) = session.plan(sql).selects
        with session._engine.snapshot(Deadline(600)) as engine:
            both = BothPaths(engine)
            for part in (*plan.search.histograms, *plan.search.choices[:3]):
                measured = measure(part, both, fresh_sampling_key(entropy), entropy).measurement
    assert all(both.in_memory)
    keys = list(zip(*measured.keys.to_pydict().values(), strict=True))
    owners = dict(zip(keys, measured.owners.tolist(), strict=True))
    assert len(owners) == 5
    assert owners["z", 555] == 0
    assert owners[None, None] > 50


def test_filters_joins_and_subqueries_are_the_same():
    assert compare(
        "k, SUM(n, contribution_bounds_per_group => (0, 50)) FROM (SELECT uid, site AS k, COUNT(*) AS n FROM t "
        "WHERE spend > 1 OR number IS NULL GROUP BY uid, site) GROUP BY k"
    )


def test_an_empty_table_is_the_same():
    empty = nasty_table().slice(0, 0)
    assert compare("COUNT(*), SUM(spend, contribution_bounds_per_group => (0, 1)) FROM t", table=empty)
    assert compare(
        "site, day, COUNT(*), MEDIAN(spend, contribution_bounds_per_row => (0, 1)) FROM t GROUP BY 1, 2", table=empty
    )
    assert compare("number, MAX(price) FROM t GROUP BY 1", table=empty, columns={"number": {"values": [1, 2]}})


def test_a_table_without_any_owner_is_the_same():
    ownerless = nasty_table().set_column(0, "uid", pa.nulls(ROWS, pa.int64()))
    assert compare("site, COUNT(*) FROM t GROUP BY site", table=ownerless)


def test_one_owner_with_all_rows_is_the_same():
    one = nasty_table().set_column(0, "uid", pa.array([7] * ROWS))
    assert compare(
        "site, COUNT(*), VAR_POP(spend, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY site", table=one
    )


def test_numbers_beyond_64_bits_are_left_to_sql():
    assert not compare("site, SUM(wild, contribution_bounds_per_group => (-1, 1)) FROM t GROUP BY site")
    assert not compare("site, AVG(wild) FROM t GROUP BY site")
    assert not compare("site, SUM(far) FROM t GROUP BY site")


def test_equal_picks_of_different_groups_are_left_to_sql():
    table = pa.table({"uid": [1] * 4, "far": [5 + i * 2**62 for i in (-2, -1, 0, 1)]})
    assert not compare("far, COUNT(*) FROM t GROUP BY far", table=table, kappa=2)


def test_equal_picks_of_different_rows_are_left_to_sql():
    table = pa.table({"uid": [1, 1], "far": [5, 5 - 2**62]})
    assert not compare("MEDIAN(far, contribution_bounds_per_row => (0, 9)) FROM t", table=table)


@pytest.mark.parametrize("slice_rows", [1, 16, 700])
def test_slices_of_any_size_are_the_same(slice_rows, monkeypatch):
    monkeypatch.setattr("shoal.engines.memory.packed.SLICE_ROWS", slice_rows)
    assert compare("site, COUNT(*), AVG(spend), COUNT(DISTINCT number) FROM t GROUP BY site")


def test_owners_groups_and_rows_too_wide_for_one_word_are_the_same(monkeypatch):
    monkeypatch.setattr("shoal.engines.memory.layout.WORD_FOR_ROWS", 20)
    assert compare("site, COUNT(*), AVG(spend), COUNT(DISTINCT number) FROM t GROUP BY site")


@pytest.mark.parametrize("pick_bits", [1, 3, 6])
def test_owners_whose_groups_share_leading_bits_of_picks_are_looked_at_again(pick_bits, monkeypatch):
    seen = []
    again = Packed._looked_at_again
    monkeypatch.setattr("shoal.engines.memory.layout.FEWEST_PICK_BITS", 1)
    monkeypatch.setattr("shoal.engines.memory.layout.PICK_BITS_OF_WORDS", pick_bits)
    monkeypatch.setattr(Packed, "_looked_at_again", lambda *all_: seen.append(1) or again(*all_))
    assert compare("site, COUNT(*), AVG(spend), COUNT(DISTINCT number) FROM t GROUP BY site", kappa=2)
    assert seen


@pytest.mark.parametrize("part_rows", [1, 5, 60])
def test_parts_of_any_size_are_the_same(part_rows, monkeypatch):
    monkeypatch.setattr("shoal.engines.memory.layout.PART_ROWS", part_rows)
    monkeypatch.setattr("shoal.engines.memory.packed.BLOCK_ROWS", 7 * part_rows)
    monkeypatch.setattr("shoal.engines.memory.packed.STEP_ROWS", 3 * part_rows)
    assert compare("site, COUNT(*), AVG(spend), COUNT(DISTINCT number) FROM t GROUP BY site")


@pytest.mark.parametrize("free_bits", range(16, 30))
def test_words_with_room_for_picks_but_not_for_groups_are_the_same(free_bits, monkeypatch):
    monkeypatch.setattr("shoal.engines.memory.layout.FEWEST_PICK_BITS", 3)
    monkeypatch.setattr("shoal.engines.memory.layout.WORD_FOR_ROWS", free_bits)
    assert compare("site, COUNT(*), AVG(spend), COUNT(DISTINCT number) FROM t GROUP BY site", kappa=2)


def test_words_that_hold_groups_instead_of_picks_are_the_same(monkeypatch):
    monkeypatch.setattr("shoal.engines.memory.layout.FEWEST_PICK_BITS", 65)
    assert compare("site, COUNT(*), AVG(spend), COUNT(DISTINCT number) FROM t GROUP BY site")


@pytest.mark.parametrize("bounds", ["GLOBAL", "PER_GROUP"])
def test_rows_are_read_once_where_bounds_are_found_first(bounds, monkeypatch):
    read, rows = [], DuckDBEngine._rows
    monkeypatch.setattr(DuckDBEngine, "_rows", lambda *all_: read.append(1) or rows(*all_))
    options = f"epsilon = 3, delta = 1e-6, max_groups_contributed = 3, inferred_bounds = {bounds}"
    answered = (
        "site, SUM(number), AVG(spend, contribution_bounds_per_group => (0, 20)), MEDIAN(price) FROM t GROUP BY site"
    )
    assert compare(answered, options=options)
    assert len(read) == 1


def test_other_rows_are_not_taken_for_those_that_were_read():
    assert compare("site, SUM(number) FROM t WHERE tiny > 0 GROUP BY site")
    with connect({"t": nasty_table()}, {"tables": {"t": {"owner": "uid"}}}) as session:
        clause = CLAUSE.format(limit="max_groups_contributed = 3")
        several = (
            "("
            + ") UNION ALL (".join(f"{clause} site, SUM({x}) FROM t GROUP BY site" for x in ("tiny", "number"))
            + ")"
        )
        plan, entropy = session.plan(several), SeededEntropy(1)
        with session._engine.snapshot(Deadline(600)) as engine:
            key = fresh_sampling_key(entropy)
            for part in plan.selects:
                measure(part, BothPaths(engine), key, entropy)


def test_picks_that_share_their_leading_bits_are_decided_by_all_bits():
    key = SamplingKey((1,) * 160)
    session = connect({"t": nasty_table()}, {"tables": {"t": {"owner": "uid"}}})
    with session:
        plan = session.plan(
            CLAUSE.format(limit="max_groups_contributed = 3") + "number, COUNT(*) FROM t GROUP BY number"
        )
        both = BothPaths(session._engine)
        measure(plan.selects[0], both, key, SeededEntropy(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "select", "by_sql"),
    [
        (
            "uid",
            "site, COUNT(*), SUM(spend, contribution_bounds_per_group => (0, 9)), MEDIAN(spend) FROM t GROUP BY site",
            0,
        ),
        ("name", "site, COUNT(*), SUM(spend) FROM t GROUP BY site", 0),
        ("uid", "COUNT(*), SUM(spend, contribution_bounds_per_group => (0, 9)) FROM t", 0),
        ("one", "site, COUNT(*) FROM t GROUP BY site", 1),
    ],
)
def test_data_larger_than_memory_take_turns_or_are_left_to_sql_with_the_same_answer(
    owner, select, by_sql, tmp_path, monkeypatch
):
    path, asked, turns = str(tmp_path / "big.duckdb"), [], []
    by_statements = DuckDBEngine.measure_by_sql
    monkeypatch.setattr(DuckDBEngine, "measure_by_sql", lambda *all_: asked.append(1) or by_statements(*all_))
    in_turns = DuckDBEngine.measure_in_turns
    monkeypatch.setattr(DuckDBEngine, "measure_in_turns", lambda *all_: turns.append(1) or in_turns(*all_))
    with duckdb.connect(path) as making:
        making.execute(
            "CREATE TABLE t AS SELECT range % 50000 AS uid, 'owner ' || range % 50000 AS name, 1 AS one, "
            "range % 997 AS site, (range % 1000) / 8 AS spend FROM range(1500000)"
        )
    answers = []
    for limit in ("60MB", "8GB"):
        with duckdb.connect(path, read_only=True, config={"memory_limit": limit, "threads": 2}) as connection:
            session = connect(connection, {"tables": {"t": {"owner": owner}}})
            plan = session.plan(CLAUSE.format(limit="max_groups_contributed = 3") + select)
            engine = session._engine
            key = SamplingKey(tuple(range(1, 161)))
            answers.append(by_keys(measure(plan.selects[0], engine, key, SeededEntropy(1)).measurement))
            if limit == "60MB":
                assert bool(asked) == bool(by_sql)
                assert turns
    assert answers[0] == answers[1]


def test_values_that_owners_share_and_joins_take_no_turns():
    tables = {"t": nasty_table(), "u": pa.table({"uid": [1, 2], "w": [1, 2]})}
    with connect(tables, {"tables": {"t": {"owner": "uid"}, "u": {"owner": "uid"}}}) as session:
        for select, takes in (
            ("COUNT(*) FROM t", True),
            ("COUNT(DISTINCT number) FROM t", False),
            ("COUNT(*) FROM t JOIN u USING (uid)", False),
        ):
            seen = []
            plan = session.plan(CLAUSE.format(limit="max_groups_contributed = 1") + select).selects[0]

            class Watched:
                def totals(self, query, key, seen=seen):
                    seen.append(can_take_turns(query))
                    return session._engine.totals(query, key)

            measure(plan, Watched(), fresh_sampling_key())
            assert set(seen) == {takes}
