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
    assert owners.codes.tolist() == [0, 1, 5]
    assert owners.canonical(owners.codes.astype(np.uint64)).view(np.int64).tolist() == [-(2**63), 1 - 2**63, 5 - 2**63]
