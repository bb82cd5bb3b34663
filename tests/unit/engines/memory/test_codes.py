"""Keys come back from the codes of groups as they were."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from shoal.engines.memory import codes
from shoal.engines.memory.codes import Groups, Owners
from shoal.plan.types import Kind, Type

COLUMNS = {
    "small": (pa.array([3, None, -7, 3, 0], pa.int64()), Kind.INTEGER),
    "far apart": (pa.array([-(2**63), None, 2**63 - 1, 0, 5], pa.int64()), Kind.INTEGER),
    "least": (pa.array([-(2**63), None, -(2**63) + 4, -(2**63), None], pa.int64()), Kind.INTEGER),
    "days": (pa.array([dt.date(1, 1, 1), None, dt.date(1, 1, 9), dt.date(1, 1, 1), None]), Kind.DATE),
    "flags": (pa.array([True, None, False, False, True]), Kind.BOOLEAN),
    "texts": (pa.array(["a", None, "", "A", "a"]), Kind.TEXT),
    "decimals": (pa.array([Decimal("1.50"), None, Decimal("-3.25"), Decimal("1.50"), Decimal(0)]), Kind.DECIMAL),
}


def keys_of(*names):
    rows = pa.table({f"k{i}": COLUMNS[name][0] for i, name in enumerate(names)})
    groups = Groups.of(rows, tuple(Type(COLUMNS[name][1], 4, 2) for name in names))
    found = groups.keys(groups.codes.astype(np.int64))
    return [column.to_pylist() for column in rows.columns], [column.to_pylist() for column in found.columns]


@pytest.mark.parametrize("name", COLUMNS)
def test_keys_of_one_column_come_back(name):
    stored, found = keys_of(name)
    assert found == stored


@pytest.mark.parametrize("most", [1 << 22, 4])
def test_keys_of_several_columns_come_back_by_products_and_by_dictionaries(most, monkeypatch):
    monkeypatch.setattr(codes, "MOST_GROUP_CODES", most)
    stored, found = keys_of("days", "small", "texts", "least")
    assert found == stored


@pytest.mark.parametrize("few", [0, 1 << 16])
def test_codes_of_rows_are_among_those_that_exist(few, monkeypatch):
    monkeypatch.setattr(codes, "FEW_CODES", few)
    groups = Groups.of(pa.table({"k0": pa.chunked_array([COLUMNS["small"][0]])}), (Type(Kind.INTEGER),))
    assert set(groups.codes.tolist()) <= set(groups.existing().tolist())
    assert few or set(groups.codes.tolist()) == set(groups.existing().tolist())


def test_owners_around_the_smallest_number_are_told_apart():
    owners = Owners.of(pa.chunked_array([[-(2**63), -(2**63) + 1, 0 - 2**63 + 5]]), Type(Kind.INTEGER))
    assert owners.codes().tolist() == [0, 1, 5]
    assert owners.canonical(owners.codes()).view(np.int64).tolist() == [-(2**63), 1 - 2**63, 5 - 2**63]


@pytest.mark.parametrize("days", [False, True])
def test_columns_that_are_ours_are_coded_where_they_lie(days):
    numbers = np.array([5, -(2**31), 2**31 - 1, 5], dtype=np.int32)
    if days:
        numbers = np.array([5, -40, 900, 5], dtype=np.int32)
    type_ = pa.date32() if days else pa.int32()
    rows = pa.table({"k0": pa.Array.from_buffers(type_, 4, [None, pa.py_buffer(numbers.copy())])})
    before = rows.column("k0").cast(pa.int64() if not days else type_).to_pylist()
    plan_type = Type(Kind.DATE if days else Kind.INTEGER)
    coded = codes.encode(rows.column("k0"), plan_type, 1 << 40, ours=True)
    assert coded.values(coded.codes.astype(np.int64)).to_pylist() == before
    assert coded.codes.base is not None  # no memory of its own


def test_owners_that_are_ours_leave_room_for_words_and_others_do_not():
    numbers = np.array([7, 9, 7], dtype=np.int64)
    column = pa.chunked_array([pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(numbers)])])
    assert Owners.of(column, Type(Kind.INTEGER)).room() is None
    owners = Owners.of(column, Type(Kind.INTEGER), ours=True)
    assert owners.codes().tolist() == [0, 2, 0]
    assert owners.codes(1, 3).tolist() == [2, 0]
    room = owners.room()
    assert room is not None
    room[:] = 1
    assert numbers.tolist() == [1, 1, 1]
    narrow = Owners.of(pa.chunked_array([pa.array([3, 4], pa.int32())]), Type(Kind.INTEGER))
    assert narrow.room() is not None  # its numbers were made wider here
    assert narrow.codes().tolist() == [0, 1]
