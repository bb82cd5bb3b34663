"""The answers last given or requested, as stored: they need not be read again for the next request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property

from shoal.result import Result

MOST = 256
LARGEST = 128 * 1024
MOST_LARGE = 100_000


class KeptBytes:
    """An answer's bytes, decoded only when needed."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def result(self) -> Result:
        """The answer itself."""
        return Result.from_bytes(self.data)


class RecentAnswers:
    """Keyed by the answer's name, which is random and never reused. The least recently used one is forgotten first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, KeptBytes] = OrderedDict()
        self._large: OrderedDict[str, None] = OrderedDict()

    def find(self, name: str) -> KeptBytes | None:
        """What is cached under this name."""
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                self._known.move_to_end(name)
            return known

    def note(self, name: str, data: bytes) -> KeptBytes:
        """The bytes that the ledger or the store keeps under this name; large ones are not cached."""
        made = KeptBytes(data)
        with self._lock:
            if len(data) <= LARGEST:
                self._known[name] = made
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
            else:
                self._large[name] = None
                while len(self._large) > MOST_LARGE:
                    self._large.popitem(last=False)
        return made

    def is_large(self, name: str) -> bool:
        """Whether this answer was seen, and is too large to be cached."""
        with self._lock:
            return name in self._large
