"""Owners measured apart, in any number of buckets, add up to the integers of the whole table."""

from __future__ import annotations

import zlib
from contextlib import ExitStack, contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from questions import QUESTIONS, by_keys, measured_with, nasty_tables, session_for

from shoal.engines.buckets import add, measure_bucket, partials_of
from shoal.engines.canonical_bytes import from_bytes, to_bytes
from shoal.engines.duckdb.filled import filled
from shoal.engines.partials import limbs_of, numbers_of

COUNTS = (1, 3, 7)


class Buckets:
    """Asks every bucket of the owned tables, cut in several ways, and compares each sum with the whole."""

    def __init__(self, engine, cut):
        self._engine, self._cut = engine, cut
        self.asked = 0

    def totals(self, query, key):
        whole = self._engine.totals(query, key)
        for engines in self._cut:
            here = add([partials_of(query, key, engine) for engine in engines])
            assert by_keys(here) == by_keys(whole), len(engines)
            assert here.keys.schema.types == whole.keys.schema.types
        self.asked += 1
        return whole


@contextmanager
def cut_in_all_ways(question):
    """Open engines over 1, 3 and 7 buckets: questions about the same tables share them, as opening takes longer than asking."""
    tables = nasty_tables(question)
    with ExitStack() as stack:
        yield [
            [stack.enter_context(filled(bucket, threads=1)) for bucket in buckets_of(tables, question, count)]
            for count in COUNTS
        ]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_buckets_add_up_to_the_whole_table(question, kept):
    session = kept(question.about, lambda: session_for(question))
    asked = Buckets(session._engine, kept((question.about, "cut"), lambda: cut_in_all_ways(question)))
    measured_with(session, question, asked)
    assert asked.asked


def test_a_stream_of_rows_is_measured_like_a_table():
    question = QUESTIONS[0]
    with session_for(question) as session:
        tables = nasty_tables(question)

        class Streamed:
            def totals(self, query, key):
                readers = {name: table.to_reader(100) for name, table in tables.items()}
                here = add([measure_bucket(query, key, readers, memory_limit="200MB")])
                assert by_keys(here) == by_keys(session._engine.totals(query, key))
                return here

        measured_with(session, question, Streamed())


def test_an_owner_more_changes_the_answer_of_no_other_bucket():
    question = next(q for q in QUESTIONS if q.name == "bounds and trees")
    tables = nasty_tables(question)
    without = tables | {"t": tables["t"].filter(pc.not_equal(tables["t"].column("uid"), 7))}
    with session_for(question) as session:
        asked = Recorder(session._engine)
        measured_with(session, question, asked)
    query, key = asked.questions[-1]
    answers = [
        [sorted_rows(measure_bucket(query, key, bucket, threads=1)) for bucket in buckets_of(tables_, question, 3)]
        for tables_ in (tables, without)
    ]
    changed = [number for number in range(3) if answers[0][number] != answers[1][number]]
    assert changed == [zlib.crc32(b"7") % 3]


class Recorder:
    """Remembers what an engine is asked."""

    def __init__(self, engine):
        self._engine, self.questions = engine, []

    def totals(self, query, key):
        self.questions.append((query, key))
        return self._engine.totals(query, key)


def buckets_of(tables, question, count):
    """The tables with the owners of one bucket, for each bucket."""
    return [
        {name: rows_of_bucket(table, question.owners.get(name), number, count) for name, table in tables.items()}
        for number in range(count)
    ]


def rows_of_bucket(table, owner, number, count):
    if owner is None:
        return table
    places = [zlib.crc32(str(value).encode()) % count for value in table.column(owner).to_pylist()]
    return table.filter(pa.array(np.array(places) == number) if places else pa.array([], pa.bool_()))


def sorted_rows(partials):
    return sorted(map(str, partials.rows.to_pylist()))


@given(st.lists(st.integers(-(2**120), 2**120), min_size=1, max_size=20))
def test_numbers_of_any_width_survive_being_cut_into_limbs_and_summed(numbers):
    parts = [limbs_of(np.array([number], dtype=object)) for number in numbers]
    sums = [np.array([sum(part[place][0].as_py() for part in parts)]) for place in range(4)]
    assert int(numbers_of(sums)[0]) == sum(numbers)
    assert all(0 <= part[place][0].as_py() < 2**31 for part in parts for place in range(3))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_machine_words_are_cut_into_the_same_limbs_as_wide_numbers(numbers):
    narrow, wide = limbs_of(np.array(numbers, dtype=np.int64)), limbs_of(np.array(numbers, dtype=object))
    assert [limb.to_pylist() for limb in narrow] == [limb.to_pylist() for limb in wide]
    assert numbers_of([np.asarray(limb) for limb in narrow]).tolist() == numbers


def test_keys_of_every_type_come_back_from_bytes_as_they_were():
    for column in nasty_tables(QUESTIONS[0])["t"].columns:
        sliced = column.slice(3)
        back = from_bytes(to_bytes(sliced), column.type)
        if pa.types.is_floating(column.type):
            assert [str(value) for value in back.to_pylist()] == [str(value) for value in sliced.to_pylist()]
        else:
            assert back.to_pylist() == sliced.to_pylist()
        back.validate(full=True)
