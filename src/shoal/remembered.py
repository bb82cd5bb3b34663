"""Results that are remembered, for each person apart.

Calibrations and plans take long and are the same for everybody, so they are kept. A process that works for several people must not
let one notice what another asked: what somebody computed makes nothing faster for anybody else.
"""

from __future__ import annotations

from functools import lru_cache, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

NOBODY = ""
MOST_PEOPLE = 32
SHARE_OF_ONE = 8
"""Where several people are served, each has this part of the room that one alone has."""


class Remembering(Generic[Arguments, Value]):
    """A function that remembers its results for whoever is served now."""

    def __init__(self, function: Callable[Arguments, Value], most: int) -> None:
        update_wrapper(self, function)
        self._function: Any = function
        self._most = most
        self._kept: dict[str, Any] = {}
        self._now: Any = None
        self.serve(_served[0])
        _everything.append(self)

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
        """The result, computed or remembered."""
        found: Value = self._now(*arguments, **named)
        return found

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)

    def serve(self, person: str) -> None:
        """What this person's earlier questions computed, and nothing of others; who was served least lately is forgotten."""
        most = self._most if person == NOBODY else max(1, self._most // SHARE_OF_ONE)
        self._now = self._kept.pop(person, None) or lru_cache(maxsize=most)(self._function)
        self._kept[person] = self._now
        while len(self._kept) > MOST_PEOPLE:
            del self._kept[next(iter(self._kept))]

    def cache_clear(self) -> None:
        """Forgets everything, for everybody."""
        self._kept.clear()
        self.serve(_served[0])

    def cache_info(self) -> Any:
        """What `functools.lru_cache` tells, of the person who is served now."""
        return self._now.cache_info()


_served = [NOBODY]
_everything: list[Remembering[..., Any]] = []


def remembered(most: int) -> Callable[[Callable[Arguments, Value]], Remembering[Arguments, Value]]:
    """As `functools.lru_cache`, for each person apart."""

    def decorate(function: Callable[Arguments, Value]) -> Remembering[Arguments, Value]:
        return Remembering(function, most)

    return decorate


def remember_for(person: str) -> None:
    """From now on, this process works for this person. For processes that serve one at a time."""
    _served[0] = person
    for function in _everything:
        function.serve(person)
