"""The raw facts of a question, read once: which owner is in which group, with which value of every aggregate."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.aggregates.defaults import OfOwner
from shoal.plan.expressions import Column
from shoal.plan.nodes import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.base import Engine
    from shoal.plan.expressions import Expression
    from shoal.plan.releases import PrivateSelect


@dataclass(frozen=True)
class Pairs:
    """One entry for each owner in each group: parallel arrays of owner, group and number of rows; a value per aggregate."""

    owner: NDArray[np.int64]
    group: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: tuple[NDArray[np.float64] | None, ...]
    """None for aggregates of which only groups are reported."""
    keys: list[tuple[Any, ...]]

    @cached_property
    def groups_of_owner(self) -> NDArray[np.int64]:
        """m: in how many groups the owner of each pair is."""
        found: NDArray[np.int64] = np.bincount(self.owner)[self.owner] if len(self.owner) else self.owner
        return found

    @cached_property
    def members(self) -> list[tuple[tuple[int, int], ...]]:
        """Of each group: (m, how many owners with m groups). The same wherever the sliders are."""
        largest = int(self.groups_of_owner.max(initial=0)) + 1
        packed, counts = _counted(self.group * largest + self.groups_of_owner, len(self.keys) * largest)
        found: list[list[tuple[int, int]]] = [[] for _ in self.keys]
        for code, count in zip(packed.tolist(), counts.tolist(), strict=True):
            found[code // largest].append((code % largest, count))
        return [tuple(each) for each in found]


def _counted(codes: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which codes there are, and how often; without sorting where a table of all codes is small."""
    if most > 4 * len(codes) + 1_000_000:
        found, counts = np.unique(codes, return_counts=True)
        return found, counts
    table = np.bincount(codes, minlength=most)
    there = np.flatnonzero(table)
    return there, table[there]


def read_pairs(engine: Engine, select: PrivateSelect) -> Pairs:
    """Every owned row, grouped by owner and group key."""
    owner = nodes.field_of(select.input, select.input.owner or "")
    arguments = [call.aggregate.argument for call in select.aggregates]
    items: list[tuple[Field, Expression]] = [(Field("", "o", owner.type), Column(owner.symbol, owner.type))]
    items += [(Field("", f"k{i}", value.type), value) for i, (_, value) in enumerate(select.keys)]
    items += [(Field("", f"a{i}", a.type), a) for i, a in enumerate(arguments) if a is not None]
    table = engine.fetch(nodes.Project(select.input, tuple(items), owner="o"))
    table = table.filter(pc.is_valid(table.column("o")))
    owners = _codes(table.column("o"))[0]
    groups, keys = _groups(table, len(select.keys))
    packed = owners.astype(np.int64) * max(1, len(keys)) + groups
    distinct, position = np.unique(packed, return_inverse=True)
    values = tuple(
        _value(call.aggregate, table, i, position, len(distinct)) for i, call in enumerate(select.aggregates)
    )
    counted = np.bincount(position, minlength=len(distinct)).astype(np.int64)
    owner_codes = np.unique(distinct // max(1, len(keys)), return_inverse=True)[1]
    return Pairs(owner_codes, distinct % max(1, len(keys)), counted, values, keys)


def _codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[Any]]:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()


def _groups(table: pa.Table, number: int) -> tuple[NDArray[np.int64], list[tuple[Any, ...]]]:
    codes = np.zeros(table.num_rows, dtype=np.int64)
    parts: list[tuple[NDArray[np.int64], list[Any]]] = [_codes(table.column(f"k{i}")) for i in range(number)]
    for each, values in parts:
        codes = codes * max(1, len(values)) + each
    distinct, first, position = np.unique(codes, return_index=True, return_inverse=True)
    keys = [tuple(values[each[row]] for each, values in parts) for row in first]
    return position.astype(np.int64), keys if len(distinct) else []


def _value(aggregate: Any, table: pa.Table, number: int, position: NDArray[np.int64], pairs: int) -> Any:
    """x: the partial aggregate of each pair."""
    if aggregate.of_owner is None or aggregate.of_owner is OfOwner.ONE:
        return np.ones(pairs) if aggregate.of_owner else None
    if aggregate.counts_all_rows:
        return np.bincount(position, minlength=pairs).astype(np.float64)
    column = table.column(f"a{number}")
    present = pc.is_valid(column).to_numpy(zero_copy_only=False)
    counted = np.bincount(position[present], minlength=pairs).astype(np.float64)
    if aggregate.of_owner is OfOwner.ROWS:
        return counted
    reals = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)[present]
    sums = np.bincount(position[present], weights=np.nan_to_num(reals), minlength=pairs)
    return sums if aggregate.of_owner is OfOwner.SUM else sums / np.maximum(counted, 1.0)
