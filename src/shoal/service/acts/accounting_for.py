"""The log, what must agree with it, and whether the service is healthy."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.service import jobs, log
from shoal.service.acts.core import Core
from shoal.service.people import later

if TYPE_CHECKING:
    from shoal.service.people import Caller

LINES_AT_ONCE = 500


class AccountingFor(Core):
    """For custodians, auditors and operators."""

    def log(self, caller: Caller, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Lines of the log, for custodians and auditors."""
        caller.require_everywhere("audit")
        return log.lines(self.store, after, limit)

    def log_anchor(self, caller: Caller) -> str:
        """Number and hash of the last line."""
        caller.require_everywhere("audit")
        return log.anchor(self.store)

    def export_log(self, caller: Caller) -> list[str]:
        """The whole log as JSON lines, including a line for the export itself."""
        caller.require_everywhere("audit")
        with self.store.writing() as rows:
            log.write(rows, caller.name, caller.via, "log exported")
        return list(log.export(self.store))

    def check(self) -> tuple[int, int]:
        """Lines of the log and charges of the ledgers, all verified and in agreement; E_LEDGER otherwise."""
        number = log.verify(log.export(self.store), log.anchor(self.store))
        with self.store.reading() as rows:
            logged = {(row["ledger"], row["charge"], row["anchor"]) for row in rows.all("SELECT * FROM logged_charges")}
        found = {
            (name, *ledger.anchor_of(number))
            for name, ledger in self.datasets.ledgers().items()
            for number in ledger.ended()
        }
        if not found <= logged:
            raise ShoalError("E_LEDGER", "A charge is missing in the log.", hint="The next start writes it; look why.")
        return number, len(found)

    def forget_answers(self, caller: Caller, days: int) -> int:
        """Forget the rows of answers older than this; their digests and costs stay."""
        caller.require_everywhere("admin")
        with self.store.reading() as rows:
            before = later(rows.now(), timedelta(days=-days))
        dropped = sum(ledger.drop_answers(before) for ledger in self.datasets.ledgers().values())
        with self.store.writing() as rows:
            rows.run("UPDATE identity SET kept_since = ? WHERE kept_since < ?", before, before)
            log.write(rows, caller.name, caller.via, "answers forgotten", detail=f"{dropped} before {before}")
        return dropped

    def ready(self) -> bool:
        """Whether the store is writable and new work is accepted."""
        if self._ending:
            return False
        try:
            with self.store.writing() as rows:
                rows.tick()
        except ShoalError:
            return False
        return True

    def metrics(self, caller: Caller) -> dict[str, int]:
        """Counts; no durations of private queries."""
        caller.require_everywhere("admin")
        with self.store.reading() as rows:
            states = {
                row["state"]: row["n"] for row in rows.all("SELECT state, count(*) AS n FROM jobs GROUP BY state")
            }
            (lines,) = rows.all("SELECT count(*) AS n FROM log")
        return {
            f"jobs_{state}": states.get(state, 0) for state in ("waiting", "approval", "running", *sorted(jobs.ENDED))
        } | {"log_lines": lines["n"], "internal_errors": self.bugs}

    def _write_missing_lines(self) -> None:
        """Writes charges that a crash left out of the log, from their ledger."""
        for name, ledger in self.datasets.ledgers().items():
            with self.store.reading() as rows:
                logged = {row["charge"] for row in rows.all("SELECT charge FROM logged_charges WHERE ledger = ?", name)}
            left_out = ledger.ended() - logged
            missing = [entry for entry in ledger.entries() if entry.sequence in left_out] if left_out else []
            for start in range(0, len(missing), LINES_AT_ONCE):
                with self.store.writing() as rows:
                    for entry in missing[start : start + LINES_AT_ONCE]:
                        if log.has_charge(rows, name, entry.sequence):
                            continue  # a process that runs has written it since
                        log.write(
                            *(rows, entry.user, "ledger", "query"),
                            outcome=entry.state,
                            sql=entry.description,
                            cost=(entry.epsilon, entry.delta),
                            ledger=name,
                            charge=ledger.anchor_of(entry.sequence),
                            detail="written from the ledger",
                        )
