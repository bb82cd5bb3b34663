"""How the rows of a table are written as machine words: (owner, leading bits of the pick, group, row), high bits first.

The owner of a word is spread first, by a multiplication that has an inverse. The leading bits of the product say which part
a row belongs to and are the same for all words of a part, so that they need no room in the word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.engines.memory.picks import PICK_BITS
from shoal.engines.memory.rows import TooWide
from shoal.engines.memory.segments import WORD, bits_for
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.memory.codes import Groups, Owners

PART_ROWS = 1 << 18
MOST_PART_BITS = 10
FEWEST_PICK_BITS = 8
PICK_BITS_OF_WORDS = PICK_BITS
WORD_FOR_ROWS = WORD
_SPREADING = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Layout:
    """Bits of the part, of the owner below it, of the pick and of the group; the row has the rest."""

    part_bits: int
    owner_bits: int
    pick_bits: int
    group_bits: int

    @classmethod
    def of(cls, owners: Owners, groups: Groups, most: int | None) -> Layout:
        """Picks where at most this many groups of an owner are kept, then groups, each as far as there is room."""
        rows = len(groups.codes)
        row_bits, group_bits = bits_for(rows), bits_for(groups.size)
        part_bits = min(MOST_PART_BITS, bits_for(-(-rows // PART_ROWS)))
        owner_bits = max(bits_for(owners.size) - part_bits, 1)
        if owner_bits + row_bits > WORD:
            raise TooWide
        free = WORD_FOR_ROWS - owner_bits - row_bits
        if most is None or free < FEWEST_PICK_BITS:
            return cls(part_bits, owner_bits, 0, group_bits if free >= group_bits else 0)
        if free - group_bits >= FEWEST_PICK_BITS:
            return cls(part_bits, owner_bits, min(free - group_bits, PICK_BITS_OF_WORDS), group_bits)
        return cls(part_bits, owner_bits, min(free, PICK_BITS_OF_WORDS), 0)

    @property
    def below_owner(self) -> int:
        """Bits that are not the owner's."""
        return WORD - self.owner_bits

    @property
    def below_pick(self) -> int:
        """Bits of group and row."""
        return self.below_owner - self.pick_bits

    @property
    def below_group(self) -> int:
        """Bits of the row, and those that nobody needs."""
        return self.below_pick - self.group_bits

    @property
    def above_row_below_owner(self) -> int:
        """Bits of pick and group."""
        return self.pick_bits + self.group_bits

    def spread(self, owners: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Codes of owners, multiplied: the part in front, the owner within the part behind it."""
        spread: NDArray[np.uint64] = owners * np.uint64(self._factor)
        spread &= np.uint64(self._spread_size - 1)
        return spread

    def codes(self, part: int, owners: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Codes of owners within a part."""
        codes: NDArray[np.uint64] = owners | np.uint64(part << self.owner_bits)
        codes *= np.uint64(pow(self._factor, -1, self._spread_size))
        codes &= np.uint64(self._spread_size - 1)
        return codes

    @property
    def _spread_size(self) -> int:
        return 1 << (self.part_bits + self.owner_bits)

    @property
    def _factor(self) -> int:
        """An odd number near 0.618 of all codes: neighbours come far apart."""
        return _SPREADING >> (WORD - self.part_bits - self.owner_bits) | 1

    def rows(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The rows of some words."""
        return (words & np.uint64((1 << self.below_group) - 1)).view(np.int64)
