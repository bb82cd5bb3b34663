"""Groups are lined up by their keys, however long the keys are."""

import numpy as np
import pyarrow as pa
import pytest

from shoal.engines.group_keys import find_groups, roomy
from shoal.engines.memory.codes import Groups
from shoal.plan.types import Kind, Type


def test_missing_keys_are_keys_and_unknown_ones_have_no_place():
    groups = pa.table({"k": ["a", None, "b"], "n": [1, 1, 2]})
    asked = pa.table({"k": [None, "b", "b"], "n": [1, 2, 1]})
    assert find_groups(groups, asked).tolist() == [1, 2, -1]
    assert find_groups(groups.slice(0, 0), asked).tolist() == [-1, -1, -1]
    assert find_groups(groups, asked.slice(0, 0)).tolist() == []


@pytest.mark.slow
def test_more_than_two_gib_of_keys_are_lined_up():
    """A column of ordinary texts cannot be joined beyond 2 GiB: the query of whoever has such keys would fail."""
    texts = pa.array([letter * 1_000_000 for letter in "abcdefghijklmnopqrst"])
    keys = pa.chunked_array([texts] * 115)  # the same bytes again and again: 2.3 GB that take 20 MB
    groups = pa.table({"k": keys, "n": np.arange(len(keys))})
    assert find_groups(groups, groups.slice(len(keys) - 3)).tolist() == [2297, 2298, 2299]


def test_the_keys_of_groups_have_room():
    """What is put into one column is a row's key for every combination of keys, so it may be longer than all rows' texts."""
    rows = pa.table({"k0": pa.chunked_array([["a", "b"], ["a"]]), "k1": [1, 2, 3]})
    groups = Groups.of(rows, (Type(Kind.TEXT), Type(Kind.INTEGER)))
    keys = groups.keys(groups.existing())
    assert keys.column("k0").type == pa.large_string()
    # Of few combinations all are listed, also those that no row has; they are left out where owners are counted.
    assert set(keys.column("k0").to_pylist()) == {"a", "b"}
    assert {("a", 1), ("b", 2), ("a", 3)} <= set(zip(*(column.to_pylist() for column in keys.columns), strict=True))
    assert roomy(keys).equals(keys)
