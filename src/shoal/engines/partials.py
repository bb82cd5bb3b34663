"""Answers for some owners, as rows that can be added up: those of all owners are the answer for the whole table.

The answer for a bucket of owners is rows of

    k0 …       the keys of a group, as canonical bytes
    slot       0 for owners, then one for every task, then one for every histogram
    leaf       the leaf or the bin, where the slot has some; else 0
    value      for COUNT(DISTINCT x) a value that is kept, as canonical bytes: values do not add up, since owners share them
    l0 … l3    Σ lᵢ·2³¹ⁱ is the integer; l0 to l2 lie in [0, 2³¹), l3 has the sign. Sums of 2³² of them fit 64 bits each.

Zeros are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engines.canonical_bytes import BYTES, from_bytes, to_bytes
from shoal.engines.group_keys import match_groups, roomy
from shoal.engines.statements.sum_owners import VALUE
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan.totals import ExactTotals, LeafCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from shoal.plan.totals import TotalsQuery

LIMB_BITS = 31
LIMBS = ("l0", "l1", "l2", "l3")
_LIMB = (1 << LIMB_BITS) - 1
TOTAL, LEAVES, VALUES, BINS, GROUP_BINS = "total", "leaves", "values", "bins", "bins of groups"
"""What a slot holds: an integer for each group; one for each leaf of it; values; one for each bin, of all groups or of each."""


@dataclass(frozen=True, slots=True)
class Partials:
    """What one bucket answers: its rows, the types of the keys, what every slot holds, and the public groups if there are any."""

    rows: pa.Table
    keys: pa.Schema
    slots: tuple[str, ...]
    listed: pa.Table | None = None

    def __post_init__(self) -> None:
        wanted = [*self.keys.names, "slot", "leaf", "value", *LIMBS]
        if self.rows.column_names != wanted:
            raise InternalError("a bucket's answer has other columns than its keys and numbers")


def partials_from(question: TotalsQuery, totals: ExactTotals, values: Mapping[int, pa.Table]) -> Partials:
    """Exact totals as rows that can be added up; `values` are those that owners keep, where they are counted."""
    keys = roomy(totals.keys)
    coded = pa.table({f"k{i}": to_bytes(column) for i, column in enumerate(keys.columns)})
    slots = slots_of(question)
    parts = [_of_groups(coded, 0, totals.owners)]
    for index, total in enumerate(totals.totals):
        if index in values:
            parts.append(_of_values(values[index], len(keys.columns), index + 1))
        else:
            parts.append(_of_slot(coded, index + 1, total))
    first = 1 + len(totals.totals)
    parts += [_of_slot(coded, first + number, found) for number, found in enumerate(totals.histograms)]
    named = pa.schema([pa.field(f"k{i}", column.type) for i, column in enumerate(keys.columns)])
    listed = coded if question.public_groups is not None else None
    return Partials(pa.concat_tables(parts), named, slots, listed)


def slots_of(question: TotalsQuery) -> tuple[str, ...]:
    """What the slots of a question hold."""
    tasks = [
        VALUES if not task.measure.additive else LEAVES if task.measure.is_tree else TOTAL for task in question.tasks
    ]
    return (TOTAL, *tasks, *(GROUP_BINS if histogram.per_group else BINS for histogram in question.histograms))


# ---- one bucket's rows ---------------------------------------------------------------------------------------------


def _of_slot(coded: pa.Table, slot: int, found: NDArray[Any] | LeafCounts | dict[int, int]) -> pa.Table:
    if isinstance(found, LeafCounts):
        groups = coded.take(pa.array(found.groups)) if coded.num_columns else coded
        return _rows(groups, len(found.counts), slot, found.leaves, found.counts)
    if isinstance(found, dict):
        bins, counts = np.array(list(found), dtype=np.int64), np.array(list(found.values()), dtype=np.int64)
        nothing = pa.table({name: pa.nulls(len(bins), BYTES) for name in coded.column_names})
        return _rows(nothing, len(bins), slot, bins, counts)
    return _of_groups(coded, slot, found)


def _of_groups(coded: pa.Table, slot: int, numbers: NDArray[Any]) -> pa.Table:
    there = np.flatnonzero(numbers)
    kept = coded.take(pa.array(there)) if coded.num_columns else coded
    return _rows(kept, len(there), slot, np.zeros(len(there), dtype=np.int64), numbers[there])


def _of_values(found: pa.Table, keys: int, slot: int) -> pa.Table:
    coded = pa.table({f"k{i}": to_bytes(found.column(f"k{i}")) for i in range(keys)})
    nothing, ones = np.zeros(found.num_rows, dtype=np.int64), np.ones(found.num_rows, dtype=np.int64)
    return _rows(coded, found.num_rows, slot, nothing, ones, to_bytes(found.column(VALUE)))


def _rows(
    coded: pa.Table, count: int, slot: int, leaves: NDArray[np.int64], numbers: NDArray[Any], values: Any = None
) -> pa.Table:
    columns = {name: coded.column(name) for name in coded.column_names}
    columns["slot"] = pa.array(np.full(count, slot, dtype=np.int32))
    columns["leaf"] = pa.array(leaves.astype(np.int64, copy=False))
    columns["value"] = pa.nulls(count, BYTES) if values is None else values
    return pa.table(columns | dict(zip(LIMBS, limbs_of(numbers), strict=True)))


def limbs_of(numbers: NDArray[Any]) -> list[pa.Array]:
    """Whole numbers of at most 128 bits as four numbers of 31 bits, the last one with the sign.

    >>> [limb.to_pylist() for limb in limbs_of(np.array([2**31 + 5, -1]))]
    [[5, 2147483647], [1, 2147483647], [0, 2147483647], [0, -1]]
    """
    top = numbers >> 63 if numbers.dtype != object else numbers >> 3 * LIMB_BITS
    low = [(numbers >> position * LIMB_BITS) & _LIMB for position in range(3)]
    return [pa.array(limb.astype(np.int64)) for limb in (*low, top)]


def numbers_of(limbs: list[NDArray[np.int64]]) -> NDArray[Any]:
    """The numbers that sums of limbs represent; as machine words if all of them fit.

    >>> numbers_of([np.array([5, 2**31 - 1]), np.array([1, 2**31 - 1]), np.array([0, 2**31 - 1]), np.array([0, -1])])
    array([2147483653,         -1])
    """
    carried = [limb.copy() for limb in limbs]
    for position in range(3):
        carried[position + 1] += carried[position] >> LIMB_BITS
        carried[position] &= _LIMB
    low, middle, high, top = carried
    if (((top == 0) & (high < 2)) | ((top == -1) & (high >= _LIMB - 1))).all():
        # what passes 64 bits is the sign
        return np.asarray(low + (middle << LIMB_BITS) + (high << 2 * LIMB_BITS))
    wide = [limb.astype(object) << position * LIMB_BITS for position, limb in enumerate(carried)]
    return np.asarray(wide[0] + wide[1] + wide[2] + wide[3])


# ---- adding --------------------------------------------------------------------------------------------------------


def add(partials: Iterable[Partials]) -> ExactTotals:
    """The answer for all owners together; every one of them was in one bucket."""
    buckets = list(partials)
    if not buckets:
        raise InternalError("no bucket was measured")
    return total_of(added(pa.concat_tables([bucket.rows for bucket in buckets])), buckets[0])


def added(rows: pa.Table) -> pa.Table:
    """One row for every slot of a group, limbs summed; of values that occur in several buckets one is counted."""
    keys = [name for name in rows.column_names if name not in {"value", *LIMBS}]
    with_value = rows.column("value").is_valid()
    different = rows.filter(with_value).group_by([*keys, "value"], use_threads=False).aggregate([])
    counted = different.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    nothing = pa.array(np.zeros(counted.num_rows, dtype=np.int64))
    values = counted.rename_columns([*keys, "l0"])
    for limb in LIMBS[1:]:
        values = values.append_column(limb, nothing)
    summed = rows.filter(pa.compute.invert(with_value)).group_by(keys, use_threads=False)
    plain = summed.aggregate([(limb, "sum") for limb in LIMBS]).rename_columns([*keys, *LIMBS])
    return pa.concat_tables([plain, values])


def merged(rows: pa.Table) -> pa.Table:
    """Fewer rows that say the same: limbs summed, values that occur more than once kept once. Merged rows may be merged again."""
    keys = [name for name in rows.column_names if name not in LIMBS]
    with_value = rows.column("value").is_valid()
    summed = rows.filter(pa.compute.invert(with_value)).group_by(keys, use_threads=False)
    plain = summed.aggregate([(limb, "sum") for limb in LIMBS]).rename_columns([*keys, *LIMBS])
    different = rows.filter(with_value).group_by(keys, use_threads=False)
    values = different.aggregate([(limb, "max") for limb in LIMBS]).rename_columns([*keys, *LIMBS])
    return pa.concat_tables([plain, values])


def total_of(rows: pa.Table, like: Partials) -> ExactTotals:
    """Rows that were added up, as the answer to the question; `like` is the answer of any bucket."""
    names, slots = like.keys.names, np.asarray(rows.column("slot"))
    numbers = numbers_of([np.asarray(rows.column(limb), dtype=np.int64) for limb in LIMBS])
    leaves = np.asarray(rows.column("leaf"), dtype=np.int64)
    coded = rows.select(names)
    groups = like.listed if like.listed is not None else coded.filter(pa.array(slots == 0))
    count = groups.num_rows if names else 1

    def positions(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return match_groups(groups, coded.take(pa.array(chosen))) if names else np.zeros(len(chosen), dtype=np.int64)

    def of_slot(slot: int, kind: str) -> Any:
        chosen = np.flatnonzero(slots == slot)
        if kind == BINS:
            return dict(zip(leaves[chosen].tolist(), numbers[chosen].tolist(), strict=True))
        if kind in {LEAVES, GROUP_BINS}:
            return LeafCounts(positions(chosen), leaves[chosen], numbers[chosen].astype(np.int64))
        spread = np.zeros(count, dtype=numbers.dtype)
        spread[positions(chosen)] = numbers[chosen]
        return spread

    owners, *found = (of_slot(slot, kind) for slot, kind in enumerate(like.slots))
    tasks = sum(kind in {TOTAL, LEAVES, VALUES} for kind in like.slots[1:])
    keys = pa.table([from_bytes(groups.column(field.name), field.type) for field in like.keys], schema=like.keys)
    return ExactTotals(keys, owners.astype(np.int64), tuple(found[:tasks]), tuple(found[tasks:]))
