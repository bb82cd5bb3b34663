"""KHyperLogLog: how many owners the values of a column have, in one pass and bounded memory.

Level 1 keeps the K smallest value hashes, a uniform sample of the *distinct* values; level 2 keeps for each of them
the set of its owners. Whatever was in the final sample was in the sample of every shard, so sketches of shards merge,
in any order, to the bytes one pass over everything would have given.

    >>> sketch = Sketch(key=b"a secret of the operator")
    >>> sketch.update(["Oslo", "Oslo", "Riga", None], ["ann", "bob", "ann", "ann"])
    >>> sketch.distinct_values()
    Estimate(value=3, low=3, high=3)
    >>> sketch.share_below(2)
    Estimate(value=0.6667, low=0.6667, high=0.6667)
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError
from shoal.risk.hashing.encoding import ColumnEncoder, Encoded, combine
from shoal.risk.hashing.keys import PROCESS_KEY, Key, KeyLike, as_key
from shoal.risk.sketch import binary_format as file_format
from shoal.risk.sketch import measures
from shoal.risk.sketch.arrays import as_arrow, encode_owners
from shoal.risk.sketch.binary_format import COLUMN_REGISTERS, SketchFields
from shoal.risk.sketch.candidates import Candidates, find_candidates, places_of
from shoal.risk.sketch.estimate import Estimate, exactly, share_of_trials
from shoal.risk.sketch.owner_sets import OwnerBatch, OwnerSets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.hashing.siphash import Hashes, Positions

BATCH_ROWS = 1 << 17
"""Rows taken in at a time."""

_EVERYTHING = np.uint64(2**64 - 1)


class OwnedBy(IntEnum):
    """Who the owners of a sketch are."""

    NOBODY_YET = 0
    OWNERS = 1
    ROWS = 2


class Sketch:
    """A KHyperLogLog sketch of one column, or of one combination of columns.

    `k` values are sampled (16 to 2²⁰) and `m` registers (16 to 65536, a power of two) count the owners of each. `key`
    is the operator's secret; without one, sketches are keyed by a secret of this process and can be compared within
    it only. `key=None` makes a sketch that anybody can test guesses against, and warns.
    """

    def __init__(self, k: int = 2048, m: int = 512, key: KeyLike = PROCESS_KEY) -> None:
        file_format.check_sizes(k, m)
        self.k, self.m = int(k), int(m)
        self._key: Key | None = as_key(key)
        self.key_id = self._key.identity
        self.rows = 0
        self.owned_by = OwnedBy.NOBODY_YET
        self.hashes = np.empty(0, np.uint64)
        self.rows_of_value = np.empty(0, np.int64)
        self.shapes = np.empty(0, np.uint16)
        self.owners_of_value = OwnerSets(self.m)
        self.owners_of_column = OwnerSets(COLUMN_REGISTERS, count=1)

    def __repr__(self) -> str:
        return f"Sketch(k={self.k}, m={self.m}, key_id={self.key_id!r}, rows={self.rows}, kept={len(self.hashes)})"

    # taking rows in

    def update(self, values: Any, owners: Any = None) -> None:
        """Take in rows: Arrow arrays, NumPy arrays, data frame columns or lists, of any length.

        Without `owners` every row is a separate owner. Rows whose owner is NULL belong to nobody and are left out.
        """
        self._update([values], owners)

    def update_combination(self, columns: Sequence[Any], owners: Any = None) -> None:
        """Take in rows of several columns whose values are one combined value; ("a", "bc") and ("ab", "c") differ."""
        if len(columns) < 2:
            raise ShoalError("E_USAGE", "A combination has two or more columns.")
        self._update(columns, owners)

    def _update(self, columns: Sequence[Any], owners: Any) -> None:
        key = self._hash_functions()
        arrays = [as_arrow(column) for column in columns]
        owner_array = None if owners is None else as_arrow(owners)
        if len({len(array) for array in arrays} | ({len(owner_array)} if owner_array is not None else set())) != 1:
            raise ShoalError("E_USAGE", "Values and owners have different lengths.")
        encoders = [ColumnEncoder(key.values) for _ in arrays]
        for start in range(0, max(len(arrays[0]), 1), BATCH_ROWS):
            parts = [
                encoder.encode(array.slice(start, BATCH_ROWS)) for encoder, array in zip(encoders, arrays, strict=True)
            ]
            values = parts[0] if len(parts) == 1 else combine(parts, key.values)
            if owner_array is None:
                self.absorb(values, None)
            else:
                kept, batch = encode_owners(owner_array.slice(start, BATCH_ROWS), ColumnEncoder(key.owners), key.owners)
                self.absorb(values if kept is None else values.take(kept), batch)

    def _hash_functions(self) -> Key:
        if self._key is None:
            raise ShoalError(
                "E_SKETCH",
                "This sketch was read without its key, so nothing can be added to it.",
                hint="Sketch.from_bytes(data, key=…)",
            )
        return self._key

    def hash_of_owner(self, owner: Any) -> Hashes:
        """What an owner hashes to under the key of this sketch; one hash."""
        return ColumnEncoder(self._hash_functions().owners).encode(as_arrow([owner])).by_row()

    def hash_of_value(self, value: Any) -> Hashes:
        """What a value hashes to under the key of this sketch; several columns are a tuple."""
        hasher = self._hash_functions().values
        parts = [
            ColumnEncoder(hasher).encode(as_arrow([part])) for part in (value if isinstance(value, tuple) else (value,))
        ]
        return (parts[0] if len(parts) == 1 else combine(parts, hasher)).by_row()

    def absorb(self, values: Encoded, owners: OwnerBatch | None) -> None:
        """Take in a batch whose values and owners are hashed already."""
        self._belongs_to(OwnedBy.ROWS if owners is None else OwnedBy.OWNERS)
        self.rows += values.length
        found = find_candidates(values, self.hashes[-1] if len(self.hashes) == self.k else _EVERYTHING, self.k)
        slots = np.append(self._admit(found, values), -1)  # the last one for rows without a candidate
        if owners is None or not values.length:
            return
        self.owners_of_column.merge(owners.as_one_set(COLUMN_REGISTERS), np.zeros(1, np.int64))
        row_slots = slots[found.of_row]
        kept = np.flatnonzero(row_slots >= 0)
        if len(kept) == values.length:
            self.owners_of_value.add(row_slots, owners)
        elif len(kept):
            self.owners_of_value.add(row_slots[kept], owners.take(kept if found.rows is None else found.rows[kept]))

    def _belongs_to(self, owned_by: OwnedBy) -> None:
        if OwnedBy.NOBODY_YET not in {self.owned_by, owned_by} and self.owned_by != owned_by:
            raise ShoalError(
                "E_SKETCH", "A sketch counts owners or rows, not both.", hint="Name the owners every time."
            )
        self.owned_by = max(self.owned_by, owned_by)

    def _admit(self, found: Candidates, values: Encoded) -> Positions:
        """Put candidates into the sample; the position of each in it, −1 for those that are not among the K smallest."""
        known = np.isin(found.hashes, self.hashes, assume_unique=True)
        self._make_room(found.hashes[~known])
        slots = places_of(found.hashes, self.hashes)
        kept = slots >= 0
        self.rows_of_value[slots[kept]] += found.counts[kept]
        new = kept & ~known
        self.shapes[slots[new]] = values.shaped.shapes(found.examples[new])
        return slots

    def _make_room(self, new: Hashes) -> None:
        """Insert hashes, and let the largest go when there are more than K."""
        if not len(new):
            return
        old, self.hashes = self.hashes, np.sort(np.concatenate([self.hashes, new]))[: self.k]
        slots = places_of(old, self.hashes)
        kept = slots >= 0
        rows, shapes = np.zeros(len(self.hashes), np.int64), np.zeros(len(self.hashes), np.uint16)
        rows[slots[kept]], shapes[slots[kept]] = self.rows_of_value[kept], self.shapes[kept]
        self.rows_of_value, self.shapes = rows, shapes
        self.owners_of_value.rename(slots, len(self.hashes))

    # merging

    def merge(self, other: Sketch) -> Sketch:
        """Take in another sketch of the same key and sizes: union of the samples cut to K, union of the owners.

        Values and owners merge idempotently. Rows are counted, so they add: shards must not overlap. A sketch that is
        equal to this one to the last byte is taken for the same shard handed in twice, and changes nothing.
        """
        self._check_fits(other)
        if other is not self and not self._equals(other):
            self.absorb_sketch(other)
        return self

    def _check_fits(self, other: Sketch) -> None:
        if not isinstance(other, Sketch):
            raise ShoalError("E_USAGE", "Only a sketch can be merged into a sketch.")
        if self.key_id != other.key_id:
            raise ShoalError(
                "E_SKETCH", "The two sketches have different keys.", hint="Make both with the same key=… or --key FILE."
            )
        if (self.k, self.m) != (other.k, other.m):
            raise ShoalError(
                "E_SKETCH", "The two sketches have different sizes.", hint="Make both with the same k and m."
            )
        if {self.owned_by, other.owned_by} == {OwnedBy.OWNERS, OwnedBy.ROWS}:
            raise ShoalError("E_SKETCH", "One sketch counts owners, the other rows.", hint="Name the owner for both.")

    def _equals(self, other: Sketch) -> bool:
        same_sample = self.rows == other.rows and np.array_equal(self.hashes, other.hashes)
        return same_sample and self.to_bytes() == other.to_bytes()

    def absorb_sketch(self, other: Sketch) -> None:
        """Merge a disjoint shard."""
        self._belongs_to(other.owned_by)
        self._make_room(np.setdiff1d(other.hashes, self.hashes, assume_unique=True))
        slots = places_of(other.hashes, self.hashes)
        kept = slots >= 0
        self.rows += other.rows
        self.rows_of_value[slots[kept]] += other.rows_of_value[kept]
        self.shapes[slots[kept]] = other.shapes[kept]
        self.owners_of_value.merge(other.owners_of_value, slots)
        self.owners_of_column.merge(other.owners_of_column, np.zeros(1, np.int64))

    # storing

    def to_bytes(self) -> bytes:
        """The sketch in the binary format of docs/reference/sketch-format.md; the key is not in it."""
        return file_format.pack_sketch(
            SketchFields(
                self.k, self.m, self.key_id, self.rows, int(self.owned_by), self.hashes, self.rows_of_value,
                self.shapes, self.owners_of_value, self.owners_of_column,
            )
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> Sketch:
        """Read a sketch; damaged or hostile bytes end in E_SKETCH. With its key, rows can be added to it."""
        fields = file_format.unpack_sketch(data)
        given = key if isinstance(key, Key) else Key(key)
        if key is not None and given.identity != fields.key_id:
            raise ShoalError("E_SKETCH", "The sketch was made with another key.")
        sketch = cls(fields.k, fields.m, key=given)
        sketch._key = given if given.identity == fields.key_id else None
        sketch.key_id, sketch.rows, sketch.owned_by = fields.key_id, fields.rows, OwnedBy(fields.owned_by)
        sketch.hashes, sketch.rows_of_value, sketch.shapes = fields.hashes, fields.rows_of_value, fields.shapes
        sketch.owners_of_value, sketch.owners_of_column = fields.owners_of_value, fields.owners_of_column
        return sketch

    def to_dict(self) -> dict[str, object]:
        """What the sketch says, for people: sizes, key id and measures; no hash is in it."""
        described = measures.measure(self.sample()).to_dict()
        return {"k": self.k, "m": self.m, "key_id": self.key_id, "owned_by": self.owned_by.name.lower(), **described}

    # reading

    def sample(self) -> measures.Sample:
        """The sampled values with what is known of each, for the estimators."""
        if self.owned_by == OwnedBy.ROWS:
            owners, exact = self.rows_of_value.astype(np.float64), np.ones(len(self.hashes), np.bool_)
        else:
            owners, exact = self.owners_of_value.sizes()
        return measures.Sample(
            rows_of_value=self.rows_of_value,
            owners_of_value=owners,
            exact=exact,
            relative_error=self.owners_of_value.relative_error,
            fraction=self.fraction(),
            rows=self.rows,
            owners=self.owners(),
            counts_rows=self.owned_by == OwnedBy.ROWS,
        )

    def distinct_values(self) -> Estimate:
        """How many different values there are: (K − 1)/(h_K/2⁶⁴), exact while there are fewer than K."""
        return measures.distinct_values(len(self.hashes), self.fraction())

    def fraction(self) -> float | None:
        """θ, the share of the hash space up to the K-th hash; None while every value is kept."""
        return float(self.hashes[-1]) / 2.0**64 if len(self.hashes) == self.k else None

    def owners(self) -> Estimate:
        """How many owners the column has."""
        if self.owned_by == OwnedBy.ROWS:
            return exactly(self.rows)
        return measures.owners_of_one_set(self.owners_of_column)

    def uniqueness(self) -> Estimate:
        """The share of values that single one owner out: `share_below(2)`, without estimating larger sets."""
        alone = self.rows_of_value if self.owned_by == OwnedBy.ROWS else self.owners_of_value.list_lengths()
        hits, kept = float((alone == 1).sum()), len(self.hashes)
        if self.fraction() is None:
            return exactly(hits / kept if kept else 0)
        return share_of_trials(hits, kept)

    def share_below(self, k: int, of: measures.Whole = "values") -> Estimate:
        """The share of values with fewer than k owners, or of the owners or rows that dropping these loses."""
        return measures.share_below(self.sample(), k, of)
