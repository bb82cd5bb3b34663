"""Randomness inside functions: what Python and NumPy draw follows from the query's key and the owner, and from nothing else.

Without it the generators of a process would carry state from one owner to the next. Python's generator is reseeded when somebody
draws, NumPy's before every owner, where a function may know NumPy. No private answer depends on this randomness being good: noise
and sampling are drawn elsewhere (`mechanisms/entropy`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

_MASK = (1 << 64) - 1


class Draws:
    """The seeds of one pass: whose records a function is looking at decides what it draws."""

    def __init__(self) -> None:
        self._seeds: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._seed = self._step = 0
        self._fresh = False
        self._watched: tuple[NDArray[np.int64], Iterator[Any]] | None = None
        self._last = -1
        self.apart = False
        self._make_lazy(import_module("random"))

    def take(self, seeds: NDArray[np.uint64]) -> None:
        """The seeds of the owners in a batch."""
        self._seeds = seeds

    def begin(self, owner: int, step: int) -> int:
        """From here on an owner's records; the same owner draws other numbers in every step."""
        seed = int(self._seeds[owner])
        self._seed, self._fresh, self._watched = _mixed(seed, step), True, None
        if self.apart:
            sys.modules["numpy.random"].seed(self._seed & 0xFFFFFFFF)
        return seed

    def watch(self, owner: NDArray[np.int64], step: int, waiting: Iterator[Any]) -> None:
        """From here on the records of all owners: whose is looked at is only asked when somebody draws."""
        self._watched, self._step, self._last = (owner, waiting), step, -1

    def look_at(self, functions: Iterable[bytes], modules_before: set[str]) -> None:
        """NumPy's generator matters where a function names NumPy, or brings modules that may."""
        brought = {name.partition(".")[0] for name in set(sys.modules) - modules_before}
        known = sys.stdlib_module_names | {"cloudpickle", "shoal"}
        named = any(b"numpy" in function for function in functions)
        self.apart = named or bool({name for name in brought if not name.startswith("_")} - known)
        if self.apart:
            import_module("numpy.random")

    def _make_lazy(self, module: Any) -> None:
        """The module's own generator seeds itself at the first draw for an owner."""
        draws = self

        class Lazy(module.Random):  # type: ignore[misc]
            def random(self) -> float:
                draws.seed(self)
                return float(super().random())

            def getrandbits(self, k: int) -> int:
                draws.seed(self)
                return int(super().getrandbits(k))

        own, ours = module._inst, Lazy(0)  # noqa: SLF001 - the module offers no other way to its generator
        for name, value in list(vars(module).items()):
            if getattr(value, "__self__", None) is own:
                setattr(module, name, getattr(ours, name))
        module._inst = ours  # noqa: SLF001 - same

    def seed(self, generator: Any) -> None:
        """Seeds a generator that is about to draw, once for each owner."""
        if self._watched is not None:
            owners, waiting = self._watched
            owner = int(owners[len(owners) - 1 - length_hint(waiting)])
            if owner != self._last:
                self._last = owner
                generator.seed(_mixed(int(self._seeds[owner]), self._step))
        elif self._fresh:
            self._fresh = False
            generator.seed(self._seed)


def _mixed(seed: int, step: int) -> int:
    return (seed + 0x9E3779B97F4A7C15 * (step + 1)) & _MASK
