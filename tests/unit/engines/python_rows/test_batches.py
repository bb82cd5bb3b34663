"""Rows on their way to functions: cut between owners, by number and by bytes, so that no worker holds too much at one time."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import aggregates as agg
from shoal.engines.python_rows import stages
from shoal.engines.python_rows.pool import Pool
from shoal.engines.python_rows.stages import batches_of, checked, stages_of
from shoal.plan.totals import SamplingKey

KEY = SamplingKey((7,))
LONG, MEMORY = 200_000, 128 << 20


@pytest.fixture(scope="module")
def stage():
    """One function that sees texts."""
    rows = {"t": pa.table({"uid": pa.array([1], pa.int64()), "word": ["a"]})}
    with shoal.connect(rows, {"tables": {"t": {"owner": "uid"}}}) as session:
        made = session.collection("t").map(lambda r: {"n": len(r.word)}, {"n": "integer"})
        (found,) = stages_of(made.planned(s=agg.sum("n", bounds=(0, 9)), epsilon=1))
    return found


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
        patched.setattr(stages, "BATCH_ROWS", most_rows)
        patched.setattr(stages, "BATCH_BYTES", most_bytes)
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
