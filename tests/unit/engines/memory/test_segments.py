"""Segments against brute force: smallest members, duplicate numbers, sums, logarithmic bins, codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engines.memory.codes import MOST_OWNER_CODES, Groups, Owners, encode
from shoal.engines.memory.segments import (
    EqualPicks,
    Segments,
    bits_for,
    duplicate_numbers,
    first_of_kind,
    keep_smallest,
)
from shoal.engines.memory.totals import log_bins
from shoal.plan.types import INTEGER, TEXT
from shoal.sql import functions

picks_in_segments = st.lists(
    st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=9, unique=True), min_size=1, max_size=9
)


def flat(parts, dtype=np.uint64):
    return np.array([value for part in parts for value in part], dtype=dtype)


def segments_of(parts):
    return Segments.of_lengths(np.array([len(part) for part in parts], dtype=np.int64))


@settings(deadline=None)
@given(parts=picks_in_segments, most=st.integers(1, 6))
def test_the_smallest_members_are_kept_and_no_others(parts, most):
    kept = keep_smallest(flat(parts), segments_of(parts), most)
    assert kept.tolist() == [value in sorted(part)[:most] for part in parts for value in part]


@settings(deadline=None)
@given(
    parts=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=5, unique=True), min_size=1, max_size=2**6),
    most=st.integers(1, 3),
)
def test_picks_that_differ_in_their_last_bits_only_are_still_told_apart(parts, most):
    near = [[2**61 + value for value in part] for part in parts]
    kept = keep_smallest(flat(near), segments_of(near), most)
    assert kept.tolist() == [value in sorted(part)[:most] for part in near for value in part]


def test_equal_picks_where_one_has_to_go_are_not_decided_here():
    with pytest.raises(EqualPicks):
        keep_smallest(flat([[5, 5]]), segments_of([[5, 5]]), 1)
    assert keep_smallest(flat([[5, 5, 4]]), segments_of([[5, 5, 4]]), 1).tolist() == [False, False, True]
    assert keep_smallest(flat([[5, 5]]), segments_of([[5, 5]]), 2).all()


@settings(deadline=None)
@given(
    parts=st.lists(
        st.lists(st.integers(0, 4) | st.integers(0, 2**64 - 1), min_size=1, max_size=8), min_size=1, max_size=8
    )
)
def test_duplicates_are_numbered_from_one_in_each_segment(parts):
    numbers = duplicate_numbers(flat(parts), segments_of(parts))
    assert first_of_kind(flat(parts), segments_of(parts)).tolist() == (numbers == 1).tolist()
    start = 0
    for part in parts:
        own = numbers[start : start + len(part)].tolist()
        for value in set(part):
            found = [number for number, other in zip(own, part, strict=True) if other == value]
            assert sorted(found) == list(range(1, len(found) + 1))
        start += len(part)


def test_identities_whose_hashes_collide_are_compared_themselves():
    crowd = np.arange(60_000, dtype=np.uint64) << np.uint64(40)
    numbers = duplicate_numbers(np.concatenate([crowd, crowd]), Segments.of_lengths(np.array([len(crowd), len(crowd)])))
    assert (numbers == 1).all()


@settings(deadline=None)
@given(parts=st.lists(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4), min_size=1, max_size=40))
def test_sums_of_segments_are_exact_even_where_the_running_total_wraps(parts):
    assert segments_of(parts).sums(flat(parts, np.int64)).tolist() == [sum(part) for part in parts]


@settings(deadline=None)
@given(keys=st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_runs_are_runs_of_equal_neighbours(keys):
    runs = Segments.of_runs(np.array(keys))
    spread = runs.spread(np.array(keys)[runs.starts])
    assert spread.tolist() == keys
    assert runs.size == len(keys)
    assert (np.diff(np.array(keys)[runs.starts]) != 0).all()


@settings(deadline=None)
@given(values=st.lists(st.integers(-(2**62), 2**62), max_size=20), top=st.sampled_from([5, 63, 90]))
def test_logarithmic_bins_are_bit_lengths(values, top):
    expected = [
        (value > 0) * min(value.bit_length(), top) - (value < 0) * min(value.bit_length(), top) for value in values
    ]
    assert log_bins(np.array(values, dtype=np.int64), top).tolist() == expected


@settings(deadline=None)
@given(power=st.integers(1, 61), step=st.integers(-2, 2))
def test_logarithmic_bins_are_exact_beside_powers_of_two(power, step):
    value = 2**power + step
    assert log_bins(np.array([value]), 90).tolist() == [value.bit_length()]


@pytest.mark.parametrize(("count", "bits"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (2**40, 40)])
def test_bits_for_a_number_of_codes(count, bits):
    assert bits_for(count) == bits


@settings(deadline=None)
@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.none() | st.integers(-3, 3), max_size=30),
    most=st.sampled_from([0, 5, 2**22, 2**40]),
)
def test_codes_are_equal_exactly_for_equal_integers(values, most):
    coded = encode(pa.chunked_array([pa.array(values, pa.int64())]), INTEGER, most)
    codes = coded.codes.tolist()
    assert all(0 <= code < coded.size for code in codes)
    assert len(set(codes)) == len(set(values))
    assert len(set(zip(codes, values, strict=True))) == len(set(values))


@settings(deadline=None)
@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_owners_have_the_canonical_integers_of_their_values(values):
    column = pa.chunked_array([pa.array(values, pa.int64())])
    owners = Owners.of(column, INTEGER)
    expected = functions.canonical_integers(column, INTEGER)
    assert ((owners.canonical(owners.codes()) & np.uint64(2**62 - 1)) == expected).all()
    assert owners.size <= MOST_OWNER_CODES


@settings(deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 2**40) | st.none(), st.text(max_size=2) | st.none()), max_size=25))
def test_groups_find_their_keys_again(rows):
    table = pa.table(
        {"k0": pa.array([r[0] for r in rows], pa.int64()), "k1": pa.array([r[1] for r in rows], pa.string())}
    )
    groups = Groups.of(table, (INTEGER, TEXT))
    found = groups.keys(groups.codes.astype(np.int64)).to_pylist()
    assert [(row["k0"], row["k1"]) for row in found] == rows
    assert set(groups.codes.tolist()) <= set(groups.existing().tolist())
