"""The raw sketch: a matrix of levels × buckets bits, of which every owner sets exactly one.

It is as sensitive as the data: whoever has it and the key can look owners up. It is keyed, it is written for its owner only,
and what leaves the house is `release(epsilon)`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import Entropy, seeded_entropy, system_entropy
from shoal.risk.hashing.encoding import ColumnEncoder
from shoal.risk.hashing.keys import PROCESS_KEY, Key, KeyLike, as_key
from shoal.risk.private import packed
from shoal.risk.private.flips import WORDS, Bits, flip_numerator, flipped
from shoal.risk.private.private_sketch import PrivateSketch
from shoal.risk.sketch.arrays import as_arrow, encode_owners
from shoal.risk.sketch.files import write_owner_only

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shoal.risk.hashing.siphash import Hashes
    from shoal.risk.sketch.owner_sets import OwnerBatch

BATCH_ROWS = 1 << 17


class RepeatedReleaseWarning(UserWarning):
    """A raw sketch was released again: its owners pay again."""


class SeededReleaseWarning(UserWarning):
    """A release was drawn from a seed: it is for tests and keeps no promise."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Buckets and levels that fit each other and a hash of 64 bits."""

    buckets: int = 4096
    levels: int = 24

    def __post_init__(self) -> None:
        for name, value, low, high in (("buckets", self.buckets, 16, 1 << 16), ("levels", self.levels, 1, 48)):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ShoalError("E_USAGE", f"{name} must be a whole number from {low} to {high}.")
        if self.buckets & (self.buckets - 1):
            raise ShoalError("E_USAGE", "buckets must be a power of two.", hint="buckets=4096")


class DistinctSketch:
    """A distinct-count sketch that can be released with differential privacy and merged afterwards.

    `key` is the operator's secret, as for `Sketch`; releases can be merged when they were made under the same one.

    >>> raw = DistinctSketch(key=b"a secret of the operator")
    >>> raw.update(range(100_000))
    >>> released = raw.release(2)
    >>> released.epsilon, released.merged
    (2.0, 1)
    """

    def __init__(self, buckets: int = 4096, levels: int = 24, key: KeyLike = PROCESS_KEY) -> None:
        self.shape = Shape(buckets, levels)
        self._key: Key | None = as_key(key)
        self.key_id = self._key.identity
        self.bits: Bits = np.zeros((levels, buckets), dtype=np.bool_)
        self.releases = 0

    def __repr__(self) -> str:
        return f"DistinctSketch(buckets={self.shape.buckets}, levels={self.shape.levels}, key_id={self.key_id!r})"

    def update(self, owners: Any) -> None:
        """Take in owners, as often as they come: Arrow arrays, NumPy arrays, data frame columns, lists or ranges."""
        for batch in self._batches(owners):
            self.absorb(batch)

    def hashes_of(self, owners: Any) -> Hashes:
        """What owners hash to under the key of this sketch; rows without an owner are left out."""
        return np.concatenate([np.empty(0, np.uint64), *(batch.hashes for batch in self._batches(owners))])

    def _batches(self, owners: Any) -> Iterator[OwnerBatch]:
        if self._key is None:
            raise ShoalError(
                "E_SKETCH", "This sketch was read without its key.", hint="DistinctSketch.from_bytes(data, key=…)"
            )
        array = as_arrow(np.arange(owners.start, owners.stop, owners.step) if isinstance(owners, range) else owners)
        encoder = ColumnEncoder(self._key.owners)
        for start in range(0, len(array), BATCH_ROWS):
            yield encode_owners(array.slice(start, BATCH_ROWS), encoder, self._key.owners)[1]

    def absorb(self, owners: OwnerBatch) -> None:
        """Take in owners that are hashed already: bucket by the first bits, level = rank − 1, capped."""
        buckets, ranks = owners.places(self.shape.buckets.bit_length() - 1)
        levels = np.minimum(ranks.astype(np.int64) - 1, self.shape.levels - 1)
        self.bits.reshape(-1)[levels * self.shape.buckets + buckets] = True

    def merge(self, other: DistinctSketch) -> DistinctSketch:
        """Take in another raw sketch: exactly the sketch of both sets of owners."""
        if not isinstance(other, DistinctSketch):
            raise ShoalError("E_USAGE", "Only a raw sketch can be merged into a raw sketch.")
        if self.shape != other.shape or self.key_id != other.key_id:
            raise ShoalError("E_SKETCH", "The sketches have different sizes or keys.", hint="Make both alike.")
        self.bits |= other.bits
        self.releases = max(self.releases, other.releases)
        return self

    def release(self, epsilon: float, *, seed: int | None = None) -> PrivateSketch:
        """An ε-differentially private sketch: every bit flipped at random (`flips`). Each release costs its ε again.

        `seed` makes it repeatable, for tests; such a release keeps no promise.
        """
        exact = params.epsilon(epsilon)
        numerator = flip_numerator(exact)
        if self.releases:
            told = f"This sketch was released {self.releases} times before: its owners pay for every release."
            warnings.warn(told, RepeatedReleaseWarning, stacklevel=2)
        if seed is not None:
            warnings.warn("A seeded release keeps no promise.", SeededReleaseWarning, stacklevel=2)
        self.releases += 1
        entropy: Entropy = system_entropy() if seed is None else seeded_entropy(seed)
        return PrivateSketch(
            bits=flipped(self.bits, numerator, entropy),
            key_id=self.key_id,
            keep=1 - numerator / WORDS,
            noise=numerator / WORDS,
            epsilons=(float(exact),),
            ids=frozenset({entropy.bytes(16)}),
            safe=entropy.safe,
        )

    def to_bytes(self) -> bytes:
        """The raw sketch as bytes, as sensitive as the data; the key is not in them."""
        return packed.pack_raw(self.bits, self.key_id, self.releases)

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> DistinctSketch:
        """Read a raw sketch; damaged or hostile bytes end in E_SKETCH. With its key, owners can be added."""
        bits, key_id, releases = packed.unpack_raw(data)
        given = key if isinstance(key, Key) else Key(key)
        if key is not None and given.identity != key_id:
            raise ShoalError("E_SKETCH", "The sketch was made with another key.")
        sketch = cls(bits.shape[1], bits.shape[0], key=given)
        sketch._key = given if given.identity == key_id else None
        sketch.key_id, sketch.bits, sketch.releases = key_id, bits, releases
        return sketch

    def write(self, path: str | Path) -> None:
        """Write the raw sketch to a file that only you can read."""
        write_owner_only(path, self.to_bytes())
