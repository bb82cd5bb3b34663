"""What all acts share: the store, who sees which data set, and who is waiting for a job."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from shoal.service import allowances
from shoal.service.acts.planned import Plans
from shoal.service.browser.sessions import Sessions
from shoal.service.datasets import DataSets
from shoal.service.people import Caller, People, not_found
from shoal.service.rates import OwnBuckets, Rates
from shoal.service.runners import memory
from shoal.service.runners.bells import A_JOB_WAITS, Bell
from shoal.service.runners.planners import WAITING_PER_PERSON, Planners, number_of_planners
from shoal.service.runners.recent import RecentAnswers
from shoal.service.running import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.accounting.allowances import Allowance
    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet
    from shoal.service.jobs import Job
    from shoal.service.limits import Limits
    from shoal.service.rates import Buckets
    from shoal.service.store import Store

OPERATOR = Caller(
    "operator", frozenset({"custodian"}), frozenset(), frozenset({"admin", "audit", "tune"}), None, via="command line"
)
"""The person at the machine's command line: may administer, but has no name to ask questions under."""


class Core:
    """One store, its people and data sets, and the slots that run jobs."""

    def __init__(self, store: Store, limits: Limits, bell: Bell | None = None, buckets: Buckets | None = None) -> None:
        self.store = store
        self._bell = bell or Bell()
        self.people = People(store)
        self.datasets = DataSets(store)
        self._rates = Rates(limits.rates, buckets or OwnBuckets())
        self.sessions = Sessions(store, self.people, self._rates)
        self._listeners: dict[str, list[Callable[[Job | None], None]]] = {}
        self._lock = threading.Lock()
        self._started = False
        self.bugs = 0
        """Requests in this process that hit one of our bugs."""
        self._ending = False
        share = limits.memory_share or memory.share(limits.number_of_slots + number_of_planners())
        waiting = WAITING_PER_PERSON if limits.rates else sys.maxsize
        self._planners = Planners(share, number_of_planners(), waiting)
        self._plans = Plans(self._planners, limits.time_limit)
        self._recent = RecentAnswers()
        self._slots = Slots(
            *(store, self.people, self.datasets, limits, self._changed, share, self._plans, self._recent, self._bell)
        )

    @property
    def ending(self) -> bool:
        """Whether new work is refused."""
        return self._ending

    def _sees(self, caller: Caller, name: str) -> bool:
        if not caller.reaches(name):
            return False
        if caller.scope & {"admin", "audit"}:
            return True
        return any(grant.applies_to(caller) for grant in allowances.grants(self.store, name))

    def _dataset(self, caller: Caller, name: str) -> DataSet:
        """The same refusal for what does not exist and for what is not the caller's."""
        if not isinstance(name, str) or not self._sees(caller, name):
            raise not_found("data set")
        return self.datasets.get(name)

    def _opened_to(self, caller: Caller, name: str) -> tuple[DataSet, list[Grant]]:
        """A data set that the caller may query: an allowance names them, or they are a custodian. Auditors see only totals.

        Also returns the allowances that apply. The refusal is the same for what does not exist and for what is not the caller's.
        """
        if not isinstance(name, str) or not caller.reaches(name):
            raise not_found("data set")
        granted = self._grants(caller, name)
        if not granted and not caller.is_custodian:
            raise not_found("data set")
        return self.datasets.get(name), granted

    def _grants(self, caller: Caller, name: str) -> list[Grant]:
        return [grant for grant in allowances.grants(self.store, name) if grant.applies_to(caller)]

    def _accounts(self, caller: Caller, name: str) -> list[Allowance]:
        found = (grant.account(caller) for grant in self._grants(caller, name))
        return [account for account in found if account is not None]

    def _changed(self, identifier: str, ended: Job | None = None) -> None:
        """Tells whoever waits for a job, here or, if nobody does, in the other processes; how it `ended`, where that is known."""
        if not self._tell(identifier, ended):
            self._bell.ring(identifier)

    def _tell(self, identifier: str, ended: Job | None = None) -> bool:
        with self._lock:
            told = list(self._listeners.get(identifier, ()))
        for each in told:
            each(ended)
        return bool(told)

    def _hear(self, word: str) -> None:
        """What another process of this service says."""
        if word == A_JOB_WAITS:
            self._slots.hear_of_waiting()
        else:
            self._tell(word)
