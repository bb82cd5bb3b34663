"""A released sketch: differentially private, mergeable with others, and it knows how wrong it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import Entropy, system_entropy
from shoal.risk.private import packed
from shoal.risk.private.flips import Bits, flip_numerator
from shoal.risk.private.likelihood import Likelihood, relative_error
from shoal.risk.private.merging import Flips, merge_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.sketch.estimate import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class PrivateSketch:
    """Bits that were flipped, and with which chances: `keep` = P[1 | 1], `noise` = P[1 | 0].

    An owner who is in d of the merged releases pays for d of them; owners who are in one pay once.
    """

    bits: Bits
    key_id: str | None
    keep: float
    noise: float
    epsilons: tuple[float, ...]  # of every release in it
    ids: frozenset[bytes]  # of every release in it
    safe: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.noise < self.keep <= 1 or len(self.ids) != len(self.epsilons) or not self.ids:
            raise ShoalError("E_SKETCH", "This is not a released sketch: its chances are impossible.")

    def __repr__(self) -> str:
        return f"PrivateSketch(epsilon={self.epsilon:g}, merged={self.merged}, buckets={self.buckets}, levels={self.levels})"

    @property
    def buckets(self) -> int:
        """Bits of a level."""
        return int(self.bits.shape[1])

    @property
    def levels(self) -> int:
        """Rows of bits."""
        return int(self.bits.shape[0])

    @property
    def epsilon(self) -> float:
        """The ε of an owner who is in one of the merged releases: the largest."""
        return max(self.epsilons)

    @property
    def epsilon_in_all(self) -> float:
        """The ε of an owner who is in all of the merged releases: the sum."""
        return sum(self.epsilons)

    @property
    def merged(self) -> int:
        """How many releases are in it."""
        return len(self.epsilons)

    @property
    def flips(self) -> Flips:
        """P and q."""
        return Flips(self.keep, self.noise)

    def merge(self, other: PrivateSketch) -> PrivateSketch:
        """A sketch of the owners of both, less accurate than either; nothing private is spent by it."""
        return self.merged_with(other, system_entropy())

    def merged_with(self, other: PrivateSketch, entropy: Entropy) -> PrivateSketch:
        """The same with coins from a named source."""
        self._check_fits(other)
        flips = self.flips.then(other.flips)
        if flips.noise >= flips.keep:
            raise ShoalError(
                "E_SKETCH",
                "Too many releases were merged: nothing can be counted any more.",
                hint="Merge fewer, or release at a larger ε; risk.sketch_error gives the error in advance.",
            )
        return PrivateSketch(
            merge_bits(self.bits, self.flips, other.bits, other.flips, entropy),
            self.key_id,
            flips.keep,
            flips.noise,
            self.epsilons + other.epsilons,
            self.ids | other.ids,
            self.safe and other.safe,
        )

    def _check_fits(self, other: PrivateSketch) -> None:
        if not isinstance(other, PrivateSketch):
            raise ShoalError("E_USAGE", "Only released sketches can be merged with each other.", hint="raw.release(1)")
        if self.bits.shape != other.bits.shape or self.key_id != other.key_id:
            raise ShoalError("E_SKETCH", "The sketches have different sizes or keys.", hint="Make both alike.")
        if self.ids & other.ids:
            raise ShoalError(
                "E_SKETCH",
                "The same release is in both sketches, and a release cannot be merged with itself.",
                hint="Merge every release once.",
            )

    def estimate(self, level: float = 0.95) -> Estimate:
        """How many owners there are, with an interval at this level."""
        wanted = float(params.confidence_level(level))
        ones = self.bits.sum(axis=1).astype(np.float64)
        return Likelihood(ones, self.buckets, self.flips).estimate(wanted)

    def to_bytes(self) -> bytes:
        """The released sketch as bytes; safe to hand on."""
        return packed.pack_released(
            self.bits, self.key_id, (self.keep, self.noise), self.epsilons, self.ids, safe=self.safe
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> PrivateSketch:
        """Read a released sketch; damaged or hostile bytes end in E_SKETCH."""
        bits, key_id, (keep, noise), epsilons, ids, safe = packed.unpack_released(data)
        return cls(bits, key_id, keep, noise, epsilons, ids, safe)


def merge_private(sketches: Sequence[PrivateSketch]) -> PrivateSketch:
    """All of these releases in one; the order does not matter."""
    if not sketches:
        raise ShoalError("E_USAGE", "There is nothing to merge.", hint="Give one released sketch or more.")
    total, *others = sketches
    for other in others:
        total = total.merge(other)
    return total


def sketch_error(epsilon: float, owners: float, *, merged: int = 1, buckets: int = 4096, levels: int = 24) -> float:
    """The relative standard error of an estimate, before anything is spent.

    >>> round(sketch_error(1, 100_000), 4), round(sketch_error(1, 100_000, merged=4), 4)
    (0.0274, 0.1038)
    """
    noise = flip_numerator(params.epsilon(epsilon)) / 2**64
    times = params.whole_number(merged, option="merged", largest=10_000)
    return relative_error(float(owners), levels, buckets, Flips(1 - noise, noise).merged(times))
