"""The answers last given or requested, as stored: they need not be read again for the next request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property

from shoal.result import Result

MOST = 256
LARGEST = 128 * 1024


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
        if len(data) <= LARGEST:
            with self._lock:
                self._known[name] = made
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
        return made
