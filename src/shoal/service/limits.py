"""How a service runs."""

from __future__ import annotations

import os

from shoal.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How a service runs."""

    slots: int = 0
    answer_time: float = 1.0
    rates: bool = True
    time_limit: float = 300.0
    """Processor seconds of one query, unless its catalog gives it fewer."""
    memory_share: int = 0
    """Bytes for each query that runs; 0: an even share of the machine."""

    @property
    def number_of_slots(self) -> int:
        """Twice the number of cores by default."""
        return self.slots or 2 * (os.cpu_count() or 1)

    @property
    def number_of_places(self) -> int:
        """How many short runs compute at once: as many as there are cores."""
        return os.cpu_count() or 1

    @property
    def free_slots(self) -> int:
        """How many of them questions over public tables may hold at once."""
        return max(1, self.number_of_slots // 2)
