"""`Service`: what people may ask of a budget service. HTTP, the command line and pages call these methods and nothing else.

service = Service.open(home)                     # what is there, or a new one
caller = service.people.caller(token)            # E_AUTH for any other text
job = service.ask(caller, "visits", {"sql": "SELECT …"}, key="k1")
job = service.wait(job.id, 30)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.service.acts.accounting_for import AccountingFor
from shoal.service.acts.admitting import Admitting
from shoal.service.acts.approving import Approving
from shoal.service.acts.asking import Asking
from shoal.service.acts.core import OPERATOR
from shoal.service.acts.explaining import Explaining
from shoal.service.acts.following import Following
from shoal.service.acts.keeping import Keeping
from shoal.service.limits import Limits
from shoal.service.people import random_id
from shoal.service.store import Store

if TYPE_CHECKING:
    from pathlib import Path

END_SECONDS = 30.0


class Service(Explaining, Asking, Following, Approving, Keeping, Admitting, AccountingFor):
    """One budget service over one store; any number of processes may open the same."""

    @classmethod
    def open(cls, home: Path, limits: Limits | None = None) -> Service:
        """The service in a folder, for its owner's eyes only; made where there is none."""
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise ShoalError("E_USAGE", f"The folder {str(home)!r} cannot be made.") from None
        service = cls(Store.create(home / "service.db", random_id("", 16)), home.absolute(), limits or Limits())
        service._write_missing_lines()
        return service

    def start(self) -> None:
        """Begins to run jobs."""
        self._started = True
        self._slots.start()

    def refuse_new_work(self) -> None:
        """From now on E_BUSY; what runs goes on."""
        self._ending = True

    def close(self, seconds: float = END_SECONDS) -> bool:
        """No new work; running queries get this long. What waits stays for the next start. Whether all ended."""
        self._ending = True
        ended = not self._started or self._slots.stop(seconds)
        if ended:
            self._write_counts()
            self.datasets.close()
            self.store.close()
        return ended


__all__ = ["OPERATOR", "Limits", "Service"]
