"""Rows under a policy are counted batch by batch, and drawn by an engine of our own; nothing holds them all."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from shoal.engines import domain_records
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import Deadline
from shoal.engines.domain_records import Inside, read_counts, read_records
from shoal.engines.duckdb import filled
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.mechanisms.entropy import seeded_entropy
from shoal.policies.domain import Domain

DOMAIN = Domain({"age": range(101), "ward": ["A", "B", "C"], "old": [False, True]})
AGES, WARDS, BOTH = ("age",), ("ward",), ("age", "ward")


def people(rows, owners, seed=0):
    rng = np.random.default_rng(seed)
    ages = rng.integers(-20, 140, rows) + rng.choice([0.0, 0.5, 0.999], rows)
    ages[:: max(1, rows // 9)] = np.nan
    wards = rng.choice(["A", "B", "C", "D"], rows).astype(object)
    wards[1 :: max(1, rows // 7)] = None
    uid = np.array([f"owner {i}" for i in range(owners)], dtype=object)[rng.integers(0, owners, rows)]
    uid[2 :: max(1, rows // 5)] = None
    return pa.table({"uid": uid, "age": ages, "ward": pa.array(wards, pa.string()), "old": ages > 60})


def engine_of(table):
    return DuckDBEngine(duckdb.connect(), ours=True, frames={"people": table})


def counted(table, rows, inside=None, seed=1, wanted=(AGES, WARDS, BOTH)):
    asked = "people", DOMAIN, "uid", rows, wanted, Deadline(60), inside, seeded_entropy(seed)
    return read_counts(engine_of(table), *asked)


@pytest.mark.parametrize("rows", [0, 1, 5_000, 200_000])
def test_where_nobody_has_too_many_rows_the_counts_are_those_of_all_rows(rows):
    table = people(rows, max(1, rows // 3))
    every, kept = counted(table, 10**6)
    whole = read_records(engine_of(table), "people", DOMAIN, "uid", 10**6)
    assert every.n == kept.n == whole.n
    for names in (AGES, WARDS, BOTH):
        assert (every.counts(names) == whole.counts(names)).all()


@pytest.mark.parametrize("most", [1, 2, 7])
def test_every_owner_keeps_as_many_rows_as_it_may(most):
    table = people(3_000, 400)
    every, _ = counted(table, most)
    whole = read_records(engine_of(table), "people", DOMAIN, "uid", most)
    assert every.n == whole.n
    assert every.counts(AGES).sum() == every.counts(WARDS).sum() == every.n


def test_rows_of_an_owner_are_equally_likely():
    """1 row of 3 for each of 3,000 owners: each share within 0.06 of 1/3, which a fair draw misses with a chance under 1e-10."""
    rows = 9_000
    table = pa.table(
        {"uid": np.arange(rows) // 3, "age": np.arange(rows) % 3.0, "ward": ["A"] * rows, "old": [True] * rows}
    )
    every, _ = counted(table, 1, seed=5)
    assert every.n == 3_000
    assert (abs(every.counts(AGES)[:3] / 3_000 - 1 / 3) < 0.06).all()


def test_what_is_drawn_looks_at_no_value():
    """With the same random numbers the same rows stay: one that moves along an edge takes no other with it."""
    table = people(2_000, 100)
    moved = table.set_column(1, "age", pa.array(np.clip(np.nan_to_num(table.column("age").to_numpy()), 0, 99) + 1))
    table = table.set_column(1, "age", pa.array(np.clip(np.nan_to_num(table.column("age").to_numpy()), 0, 99)))
    one, other = (counted(each, 3, seed=9)[0] for each in (table, moved))
    assert (one.counts(AGES)[:-1] == other.counts(AGES)[1:]).all()
    assert (one.counts(WARDS) == other.counts(WARDS)).all()


def test_rows_inside_are_those_for_which_a_condition_holds():
    table = people(4_000, 4_000)
    passes = np.array([True, False, True])
    every, kept = counted(table, 2, Inside(WARDS, passes))
    assert kept.counts(WARDS).tolist() == np.where(passes, every.counts(WARDS), 0).tolist()
    assert (kept.counts(AGES) == every.counts(BOTH).reshape(101, 3)[:, passes].sum(axis=1)).all()
    assert kept.n < every.n


def test_no_more_than_a_batch_is_held(monkeypatch):
    """Neither rows nor owners are put together in memory: what arrives is written away at once."""
    sizes, written = [], filled.write

    def remembered(connection, name, rows, *how):
        sizes.append(rows.num_rows)
        written(connection, name, rows, *how)

    monkeypatch.setattr(filled, "write", remembered)
    monkeypatch.setattr(domain_records, "sampled_rows", lambda *_: pytest.fail("all rows at once"))
    every, _ = counted(people(300_000, 1_000), 5)
    assert len(sizes) > 20
    assert max(sizes) <= 1 << 12
    assert 4_000 < every.n <= 5_000


def test_rows_beyond_the_memory_of_the_engine_go_to_disk(monkeypatch):
    """42 MB of rows with their owners' names, half of them of one owner, in an engine that has 40 MB."""
    from shoal.engines.duckdb import settings

    monkeypatch.setattr(settings, "_share", [40 << 20])
    rows = 600_000
    names = [f"{'x' * 40}{i if i % 2 else 0}" for i in range(rows)]
    table = pa.table({"uid": names, "age": np.arange(rows) % 101.0, "ward": ["A"] * rows, "old": [True] * rows})
    every, _ = counted(table, 3)
    assert every.n == rows // 2 + 3


def test_a_deadline_ends_the_reading():
    deadline = Deadline(1)
    deadline.spend(1)  # as the watch does at its next tick; a fast machine would have finished by then
    with pytest.raises(EngineFailure):
        read_counts(engine_of(people(50_000, 10)), "people", DOMAIN, "uid", 1, [AGES], deadline)


def test_names_that_are_too_long_are_missing():
    table = pa.table(
        {
            "uid": ["a", "b" * (1 << 16), "c" * (1 + (1 << 16))],
            "age": [1.0, 2.0, 3.0],
            "ward": ["A"] * 3,
            "old": [True] * 3,
        }
    )
    every, _ = counted(table, 1)
    assert np.flatnonzero(every.counts(AGES)).tolist() == [1, 2]
