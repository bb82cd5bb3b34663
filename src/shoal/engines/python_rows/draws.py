"""Randomness inside functions: what Python and NumPy draw follows from the query's key and the owner, and from nothing else.

Without it the generators of a process would carry state from one owner to the next. Python's generator is reseeded when somebody
draws, NumPy's before every owner, where a function may know NumPy. No private answer depends on this randomness being good: noise
and sampling are drawn elsewhere (`mechanisms/entropy`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_MASK = (1 << 64) - 1


class Draws:
    """The seeds of one pass: `begin` says whose records come next."""

    def __init__(self) -> None:
        self._seed = 0
        self._fresh = False
        self._numpy = False
        self._make_lazy(import_module("random"))

    def begin(self, seed: int, step: int) -> None:
        """From here on an owner's records; the same owner draws other numbers in every step."""
        self._seed, self._fresh = (seed + 0x9E3779B97F4A7C15 * (step + 1)) & _MASK, True
        if self._numpy:
            sys.modules["numpy.random"].seed(self._seed & 0xFFFFFFFF)

    def look_at(self, functions: Iterable[bytes], modules_before: set[str]) -> None:
        """NumPy's generator matters where a function names NumPy, or brings modules that may."""
        brought = {name.partition(".")[0] for name in set(sys.modules) - modules_before}
        known = sys.stdlib_module_names | {"cloudpickle", "shoal"}
        named = any(b"numpy" in function for function in functions)
        self._numpy = named or bool({name for name in brought if not name.startswith("_")} - known)
        if self._numpy:
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
        if self._fresh:
            self._fresh = False
            generator.seed(self._seed)
