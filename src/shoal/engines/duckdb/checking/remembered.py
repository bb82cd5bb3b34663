"""The last this many things that were found to be in order, with what was found."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Key = TypeVar("Key")
Found = TypeVar("Found")


class Hashed(Generic[Key]):
    """A key whose hash is computed once, or from a part of it alone: a plan is a large tree."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: Key, part: Hashable = None) -> None:
        self._key = key
        self._hash = hash(key if part is None else part)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and (self._key is other._key or self._key == other._key)


class Remembered(Generic[Key, Found]):
    """The last this many keys that were asked about; several threads may ask."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Key, Found] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            return self._asked_for(key)

    def get(self, key: Key) -> Found | None:
        """What was found, as long as it is remembered."""
        with self._lock:
            return self._known[key] if self._asked_for(key) else None

    def _asked_for(self, key: Key) -> bool:
        if key not in self._known:
            return False
        self._known.move_to_end(key)
        return True

    def add(self, key: Key, found: Found) -> None:
        """Forgets the one that was not asked for the longest, where there are too many."""
        with self._lock:
            self._known[key] = found
            self._known.move_to_end(key)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
