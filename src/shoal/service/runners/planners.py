"""A few processes that plan, separate from those that run queries: planning never waits for a query.

One person has at most half of them at a time, and no statement holds one for long.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.service.runners.hired import Died, Hired, TooLong, nothing
from shoal.service.runners.planning import cannot_be_planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.service.runners.errand import Place, PlanErrand

PLAN_SECONDS = 10.0
"""Processor seconds for one statement: a thousand times what an ordinary one takes."""
WAIT_SECONDS = 30.0
WAITING_PER_PERSON = 40
"""As many as may arrive at once. Each waiting caller holds a thread of the service, and others need some too."""
_LOGGER = logging.getLogger("shoal.service")


def number_of_planners() -> int:
    """One per core, but at least two."""
    return max(2, os.cpu_count() or 1)


class Planners:
    """The planning processes of one service process; each is started when it is first needed."""

    def __init__(self, share: int, number: int, waiting: int = WAITING_PER_PERSON) -> None:
        self._idle = [Hired(share) for _ in range(number)]
        self._number, self._each = number, number - number // 2
        self._most_waiting = waiting
        self._closed = False
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._free = threading.Condition()

    def plan(self, errand: PlanErrand, meanwhile: Callable[[], None] = nothing) -> tuple[dict[str, Any], bytes]:
        """The report about a plan, and the plan; E_LIMITS for a statement that cannot be planned, E_BUSY if too many are waiting.

        `meanwhile` is called while the other process plans, and raises nothing.
        """
        with self._taken(errand.person) as planner:
            try:
                return planner.plan(errand, PLAN_SECONDS, meanwhile)
            except (Died, TooLong) as ended:
                _LOGGER.warning("a statement could not be planned: %s", type(ended).__name__)
                raise cannot_be_planned() from None

    @contextmanager
    def _taken(self, person: str) -> Iterator[Hired]:
        with self._free:
            if self._waiting[person] >= self._most_waiting:
                raise _busy()
            self._waiting[person] += 1
            try:
                if not self._free.wait_for(lambda: self._idle and self._busy[person] < self._each, WAIT_SECONDS):
                    raise _busy()
                planner = self._idle.pop()  # the most recently used one: its memory is warm
            finally:
                _one_less(self._waiting, person)
            self._busy[person] += 1
        try:
            yield planner
        finally:
            with self._free:
                _one_less(self._busy, person)
                self._put_back(planner, len(self._idle))

    def _put_back(self, planner: Hired, place: int) -> None:
        if self._closed:
            planner.close()
        self._idle.insert(place, planner)
        self._free.notify_all()

    def are_ready(self, versions: dict[str, int]) -> bool:
        """Whether every idle process has these data sets open and no others."""
        with self._free:
            return all(planner.is_ready(versions) for planner in self._idle)

    def make_ready(self, places: list[Place]) -> None:
        """Before the first statement: starts the processes, with these data sets open and no older version of them."""
        versions = {place.name: place.version for place in places}
        for _ in range(self._number):
            with self._free:
                late = next((planner for planner in self._idle if not planner.is_ready(versions)), None)
                if late is None or self._closed:
                    return
                self._idle.remove(late)
            try:
                late.make_ready(places)
                late.wait_until_open(max((place.seconds for place in places), default=0.0))
            finally:
                with self._free:
                    self._put_back(late, 0)

    def close(self) -> None:
        """Ends idle processes; one that is planning ends with its statement."""
        with self._free:
            self._closed = True
            for planner in self._idle:
                planner.close()


def _one_less(numbers: Counter[str], person: str) -> None:
    """One fewer; people who have none are forgotten."""
    numbers[person] -= 1
    if not numbers[person]:
        del numbers[person]


def _busy() -> ShoalError:
    return ShoalError("E_BUSY", "Too many statements are waiting to be planned.", hint="Send it again in a moment.")
