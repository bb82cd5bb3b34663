"""Rows on their way to functions: cut between owners, by number and by bytes, so that no worker holds too much at one time."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import aggregates as agg
from shoal.engines.python_rows import batches
from shoal.engines.python_rows.batches import batches_of, room_for, rows_of_part
from shoal.engines.python_rows.pool import Pool
from shoal.engines.python_rows.stages import checked, stages_of
from shoal.plan.totals import SamplingKey

KEY = SamplingKey((7,))
LONG, MEMORY = 200_000, 128 << 20


def stage_of(make):
    """Functions over a table of texts."""
    rows = {"t": pa.table({"uid": pa.array([1], pa.int64()), "word": ["a"]})}
    with shoal.connect(rows, {"tables": {"t": {"owner": "uid"}}}) as session:
        (found,) = stages_of(make(session.collection("t")).planned(s=agg.sum("n", bounds=(0, 9)), epsilon=1))
    return found


@pytest.fixture(scope="module")
def stage():
    """One function that sees texts."""
    return stage_of(lambda rows: rows.map(lambda r: {"n": len(r.word)}, {"n": "integer"}))


@pytest.fixture(scope="module")
def of_owner():
    """One function that sees all texts of an owner."""
    return stage_of(lambda rows: rows.per_owner(lambda records: [{"n": len(records)}], {"n": "integer"}))


def batch(owners, texts):
    return pa.record_batch({"o": pa.array(owners, pa.int64()), "a0": pa.array(texts, pa.string())})


@given(
    sizes=st.lists(st.integers(1, 9), max_size=20),
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=9),
    at_once=st.integers(1, 30),
    most_rows=st.integers(1, 12),
    most_bytes=st.integers(1, 400),
)
def test_batches_hold_all_rows_of_whole_owners_and_no_more_than_they_must(
    stage, sizes, lengths, at_once, most_rows, most_bytes
):
    owners = [owner for owner, size in enumerate(sizes) for _ in range(size)]
    texts = ["x" * lengths[place % len(lengths)] for place in range(len(owners))]
    whole = batch(owners, texts)
    pieces = [batch([], []), *(whole.slice(start, at_once) for start in range(0, len(owners), at_once))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "BATCH_ROWS", most_rows)
        patched.setattr(batches, "BATCH_BYTES", most_bytes)
        cut = list(batches_of(stage, pieces, KEY))
    uncut = list(batches_of(stage, pieces, KEY))
    assert [owner for each in cut for owner in each.owners.to_pylist()] == owners
    assert [text for each in cut for text in each.rows.column(0).to_pylist()] == texts
    shown = [set(each.owners.to_pylist()) for each in cut]
    assert sum(map(len, shown)) == len(sizes)
    seeds = [seed for each in cut for seed in each.seeds.tolist()]
    assert seeds == [seed for each in uncut for seed in each.seeds.tolist()]
    for each in cut:
        # without its last owner a batch is not full, or it would have been cut before
        first_rows = int(each.ends[-2]) if len(each.ends) > 1 else 0
        assert first_rows < 2 * most_rows
        assert sum(len(text) + 16 for text in texts_of(each, first_rows)) <= 2 * (most_bytes + 2 * 56 + 40)


def texts_of(each, count):
    return each.rows.column(0).to_pylist()[:count]


def test_texts_that_would_not_fit_a_worker_together_come_one_after_the_other(stage):
    """300 MB of texts in one batch of the engine, and a worker that may have 128."""
    owners = np.arange(1500)
    arriving = [batch(owners, ["x" * (LONG + owner % 7) for owner in owners.tolist()])]
    pool = Pool(stage.work(MEMORY), 1)
    try:
        answers = pool.answers(batches_of(stage, arriving, KEY), None, partial(checked, stage))
        found = pa.concat_tables(list(answers)).sort_by("o")
    finally:
        pool.close()
    assert found.column("o").to_pylist() == owners.tolist()
    assert found.column("m0").to_pylist() == [LONG + owner % 7 for owner in owners.tolist()]


USUAL = 3
"""Rows of an owner that a worker has room for in these tests; of more it gets two at a time."""


def arriving(sizes, at_once):
    """Rows of owners 0, 1, …, so many of each, as they come from an engine."""
    owners = [owner for owner, size in enumerate(sizes) for _ in range(size)]
    whole = batch(owners, [f"{place:04}" for size in sizes for place in range(size)])
    return [whole.slice(start, at_once) for start in range(0, len(owners), at_once)]


def handed(stage, sizes, at_once, most_rows=1 << 15):
    """What functions see of each owner: lists of rows, each with its seed."""
    one = room_for(stage, batch([0], ["0000"]))
    seen = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "ROOM_OF_OWNER", USUAL * one)
        patched.setattr(batches, "ROOM_OF_PART", 2 * one)
        patched.setattr(batches, "LONGEST_TEXT", 4)
        patched.setattr(batches, "BATCH_ROWS", most_rows)
        assert rows_of_part(stage) == 2
        for each in batches_of(stage, arriving(sizes, at_once), KEY):
            words, start = each.rows.column(0).to_pylist(), 0
            for end, seed in zip(each.ends.tolist(), each.seeds.tolist(), strict=True):
                seen.setdefault(each.owners[start].as_py(), []).append((words[start:end], seed))
                start = end
    return seen


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(1, 7), max_size=5), at_once=st.integers(1, 30), most_rows=st.integers(1, 12))
def test_what_functions_see_of_an_owner_follows_from_that_owners_rows_alone(stage, of_owner, sizes, at_once, most_rows):
    """Where rows of a large owner are cut decides what a function draws: nobody else's rows may move it."""
    for asked in (stage, of_owner):
        together = handed(asked, sizes, at_once, most_rows)
        for owner, size in enumerate(sizes):
            alone = handed(asked, [0] * owner + [size], 1)
            assert together.get(owner) == alone.get(owner)


def test_a_large_owner_comes_in_parts_or_not_at_all(stage, of_owner):
    parts = handed(stage, [USUAL, USUAL + 2], 30)
    assert [words for words, _ in parts[0]] == [["0000", "0001", "0002"]]
    assert [words for words, _ in parts[1]] == [["0000", "0001"], ["0002", "0003"], ["0004"]]
    assert len({seed for _, seed in parts[1]}) == 3
    assert list(handed(of_owner, [USUAL, USUAL + 2], 30)) == [0]


def test_texts_of_one_owner_that_would_not_fit_a_worker_come_one_after_the_other(stage):
    """The same texts, all of one owner: the release ended, after its charge, if that owner was there."""
    arrives = [batch([5] * 1500, ["x" * (LONG // 4)] * 1500)]
    pool = Pool(stage.work(MEMORY // 2), 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "ROOM_OF_OWNER", MEMORY // 4)
        patched.setattr(batches, "ROOM_OF_PART", MEMORY // 8)
        try:
            answers = pool.answers(batches_of(stage, arrives, KEY), None, partial(checked, stage))
            assert sum(each.num_rows for each in answers) == 1500
        finally:
            pool.close()
