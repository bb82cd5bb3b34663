"""How a service runs."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How a service runs."""

    slots: int = 0
    answer_time: float = 1.0
    rates: bool = True

    @property
    def number_of_slots(self) -> int:
        """Twice the cores, unless said otherwise."""
        return self.slots or 2 * (os.cpu_count() or 1)
