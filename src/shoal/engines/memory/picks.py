"""Keyed numbers that decide what is kept of an owner: small ones stay. The same numbers as `statements.bound_owners` computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass
from shoal.plan.totals import MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.memory.codes import Codes, Groups, Owners
    from shoal.plan.totals import SamplingKey

PICK_BITS = 62
_LOW_62 = np.uint64(MASK)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Picks:
    """The keyed numbers of owners and groups: (mixed(a·u + b) | 1)·mixed(Σ mᵢ·gᵢ + d) mod 2⁶², in words that wrap around."""

    key: SamplingKey
    owners: Owners
    groups: NDArray[np.uint64]

    @classmethod
    def of(cls, key: SamplingKey, owners: Owners, groups: Groups) -> Picks:
        """The keyed numbers of all groups, and what is needed for those of owners."""
        hashed = np.full(groups.size, key.number(2), dtype=np.uint64)
        for index, integers in enumerate(groups.canonical()):
            hashed += integers * np.uint64(key.odd(3 + index))
        return cls(key, owners, mixed(hashed))

    def of_owners(self, codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The odd number of each owner."""
        keyed = self.owners.canonical(codes) * np.uint64(self.key.odd(0))
        keyed += np.uint64(self.key.number(1))
        keyed = mixed(keyed)
        keyed |= _ONE
        return keyed

    def of_pairs(self, owners: NDArray[np.uint64], groups: NDArray[np.int64] | Codes) -> NDArray[np.uint64]:
        """One pick for each pair, from the odd number of its owner and the code of its group."""
        picks: NDArray[np.uint64] = owners * self.groups.take(groups)
        picks &= _LOW_62
        return picks

    def of_rows(
        self, pairs: NDArray[np.uint64], canonical: list[NDArray[np.uint64]], duplicates: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """One pick for each row, from the pick of its owner and group, its values and its duplicate number."""
        content = duplicates * np.uint64(self.key.odd(19))
        content += np.uint64(self.key.number(20))
        for index, integers in enumerate(canonical):
            content += integers * np.uint64(self.key.odd(21 + index))
        picks = mixed(content)
        picks *= pairs | _ONE
        picks &= _LOW_62
        return picks


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """x·(⌊x/2³¹⌋ | 1) mod 2⁶² of the low 62 bits."""
    low = numbers & _LOW_62
    high = low >> np.uint64(31)
    high |= _ONE
    high *= low
    high &= _LOW_62
    return high
