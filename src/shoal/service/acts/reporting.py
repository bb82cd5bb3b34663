"""Reports about raw data that a custodian makes on the machine and reads in the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.service import log
from shoal.service.acts.core import Core
from shoal.service.people import not_found

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.service.people import Caller


class Reporting(Core):
    """Not private: for custodians only."""

    def keep_risk_report(self, caller: Caller, name: str, page: str) -> Path:
        """Puts a report next to the store, readable only by its owner."""
        caller.require("tune")
        self._dataset(caller, name)
        place = self._report_place(name)
        if place is None:
            raise ShoalError(
                "E_USAGE",
                "A service in a database keeps no files.",
                hint="shoal risk scan SOURCE --html FILE writes the same report.",
            )
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.touch(mode=0o600)
        place.write_text(page, encoding="utf-8")
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "risk report made", dataset=name)
        return place

    def has_risk_report(self, caller: Caller, name: str) -> bool:
        """Whether there is one."""
        place = self._report_place(name)
        return "tune" in caller.scope and place is not None and place.exists()

    def risk_report(self, caller: Caller, name: str) -> str:
        """The report; each look is a line of the log."""
        caller.require("tune")
        self._dataset(caller, name)
        place = self._report_place(name)
        if place is None or not place.exists():
            raise not_found("report")
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "risk report", dataset=name)
        return place.read_text(encoding="utf-8")

    def _report_place(self, name: str) -> Path | None:
        """Names of data sets are letters, digits, - and _, so none of them escapes the folder."""
        folder: Path | None = getattr(self.store, "folder", None)
        return None if folder is None else folder / "risk" / f"{name}.html"
