"""The only source of random bits.

Production draws come from the operating system, block by block, and no state is kept between calls: two processes
after a fork, two threads, two calls never share a bit. A seeded source exists for tests; anything drawn from it is
marked unsafe through `Entropy.safe`.

    >>> SYSTEM.safe, seeded_entropy(7).safe
    (True, False)
    >>> seeded_entropy(7).below(10) == seeded_entropy(7).below(10)
    True
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.errors import InternalError

if TYPE_CHECKING:
    import builtins

Words = npt.NDArray[np.uint64]


class Entropy(ABC):
    """Independent uniform bits, and the few exact draws made from them directly."""

    safe: bool
    """False when the bits can be predicted; a result made from them must say so."""

    @abstractmethod
    def bytes(self, count: int) -> builtins.bytes:
        """This many independent uniform bytes."""

    def uint64(self, count: int) -> Words:
        """This many independent uniform 64-bit words."""
        return np.frombuffer(self.bytes(8 * count), dtype="<u8").astype(np.uint64, copy=False)

    def bits(self, count: int) -> int:
        """A uniform integer in [0, 2^count)."""
        size = (count + 7) // 8
        return int.from_bytes(self.bytes(size), "little") >> (8 * size - count)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), exactly: draws outside are discarded and repeated."""
        if bound < 1:
            raise InternalError("there is no number below this bound")
        width = (bound - 1).bit_length()
        while (candidate := self.bits(width)) >= bound:
            pass
        return candidate

    def permutation(self, count: int) -> npt.NDArray[np.int64]:
        """A uniform order of `count` items: they are sorted by independent 128-bit keys.

        Two keys are equal with a chance below count²·2⁻¹²⁹; only then does the order reveal which item came first.
        """
        keys = self.uint64(2 * count)
        return np.lexsort((keys[:count], keys[count:])).astype(np.int64, copy=False)


class SystemEntropy(Entropy):
    """Bits from the operating system; nothing is buffered, so nothing is shared after a fork."""

    safe = True

    def bytes(self, count: int) -> builtins.bytes:
        """Fresh bytes from the operating system."""
        return os.urandom(count)


class SeededEntropy(Entropy):
    """Reproducible bits, for tests only."""

    safe = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def bytes(self, count: int) -> builtins.bytes:
        """The next bytes of the seeded stream."""
        return self._generator.bytes(count)


SYSTEM: Entropy = SystemEntropy()


def system_entropy() -> Entropy:
    """The operating system's randomness."""
    return SYSTEM


def seeded_entropy(seed: int) -> Entropy:
    """Reproducible bits for a test; `safe` is False, and any result drawn from them is marked unsafe."""
    return SeededEntropy(seed)
