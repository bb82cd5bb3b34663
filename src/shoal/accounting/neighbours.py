"""Between which databases a release is private: the promise that an event is about.

Today's queries know one: all rows of one owner more or less (`OWNER`). A policy is another value of the same kind, carried as
data; sums over releases are sums under one promise only.
"""

from __future__ import annotations

import hashlib

from shoal.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A promise by name, with the canonical text that defines it ("" for owners)."""

    name: str
    canonical: str = ""

    @property
    def sha256(self) -> str:
        """The digest of the definition."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


OWNER = Neighbours("owner")
"""One database has all rows of one more owner."""
