"""`Service`: the API of a budget service. HTTP, the command line and pages call these methods and nothing else.

service = Service.open(home)                     # what is there, or a new one
caller = service.people.caller(token)            # E_AUTH for any other string
job = service.ask(caller, "visits", {"sql": "SELECT …"}, key="k1")
job = service.wait(job.id, 30)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.service import log
from shoal.service.acts.accounting_for import AccountingFor
from shoal.service.acts.admitting import Admitting
from shoal.service.acts.approving import Approving
from shoal.service.acts.asking import Asking
from shoal.service.acts.copying import Copying
from shoal.service.acts.core import OPERATOR
from shoal.service.acts.explaining import Explaining
from shoal.service.acts.following import Following
from shoal.service.acts.keeping import Keeping
from shoal.service.acts.reporting import Reporting
from shoal.service.limits import Limits
from shoal.service.people import random_id
from shoal.service.stores.opening import confirm, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.service.rates import Buckets
    from shoal.service.runners.bells import Bell

END_SECONDS = 30.0


class Service(Explaining, Asking, Following, Approving, Keeping, Admitting, AccountingFor, Copying, Reporting):
    """One budget service over one store; any number of processes may open the same."""

    @classmethod
    def open(
        cls,
        place: Path | str,
        limits: Limits | None = None,
        *,
        anchor: str | None = None,
        catch_up: bool = True,
        bell: Bell | None = None,
        buckets: Buckets | None = None,
    ) -> Service:
        """The service in a folder or a PostgreSQL database; created if there is none.

        `anchor` is a line of the log that was noted elsewhere: with it, a database that failed over is opened again.
        `catch_up`: writes lines of the log that a crash left out, which reads every ledger. Code that opens a service briefly,
        before it serves, leaves that to the next opening. `bell`, `buckets`: where processes that were forked together hear each
        other, and count how often each person asks.
        """
        store = open_store(place, random_id("", 16), has_anchor=anchor is not None)
        service = cls(store, limits or Limits(), bell, buckets)
        try:
            if anchor is not None:
                log.verify(log.export(store), anchor)
                service.datasets.confirm_unspent()
                confirm(store)
            if catch_up:
                service._write_missing_lines()
        except BaseException:
            service.close(0.0)
            raise
        return service

    def start(self) -> None:
        """Starts running jobs."""
        self.store.serve()
        self._started = True
        self._slots.start()
        self._bell.listen(self._hear)

    def refuse_new_work(self) -> None:
        """From now on E_BUSY; running jobs continue."""
        self._ending = True

    def close(self, seconds: float = END_SECONDS) -> bool:
        """Takes no new work; running queries get this long. Waiting jobs stay for the next start. Returns whether all ended."""
        self._ending = True
        ended = not self._started or self._slots.stop(seconds)
        self._planners.close()
        if ended:
            self._write_counts()
            self.store.keep()
            self.datasets.close()
            self.store.close()
        return ended


__all__ = ["OPERATOR", "Limits", "Service"]
