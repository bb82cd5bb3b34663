"""How jobs end: the line of the log, and what askers are told where the ledger does not say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.service import log

if TYPE_CHECKING:
    from shoal.service.jobs import Job
    from shoal.service.store import Rows


def log_charge(
    rows: Rows,
    job: Job,
    ledger: str | None,
    charge: tuple[int, str] | None,
    outcome: str,
    digest: str | None = None,
) -> None:
    """The log line for the end of a job; each charge has one line, whoever wrote it."""
    if charge is not None and ledger is not None and log.has_charge(rows, ledger, charge[0]):
        return
    log.write(
        *(rows, job.person, job.via, "query"),
        dataset=job.dataset,
        outcome=outcome,
        sql=job.sql,
        cost=job.cost if charge is not None else None,
        ledger=ledger if charge is not None else None,
        charge=charge,
        answer_sha256=digest,
    )


def ended_by_death() -> ShoalError:
    """The process of a run died twice."""
    return ShoalError(
        "E_EXECUTION",
        "The query failed. It stays charged, because data may have been read.",
        hint="Details are withheld because they could reveal data. Ask the data custodian.",
    )


def died_uncharged() -> ShoalError:
    """The same before anything was charged: no data was read."""
    return ShoalError(
        "E_EXECUTION",
        "The query could not be run. Nothing was charged.",
        hint="Ask it again. If that does not help, ask the data custodian.",
    )


def not_written() -> ShoalError:
    """An answer is handed out once the ledger has it: without, it is lost."""
    return ShoalError(
        "E_LEDGER",
        "The ledger could not be written when the answer was ready, so it was not given. It stays charged.",
        hint="Ask the data custodian whether the service's database can be reached.",
    )


def changed_meanwhile() -> ShoalError:
    """A question that was priced, and perhaps approved, for a version or for allowances that are gone."""
    return ShoalError(
        "E_POLICY",
        "The data set, or what is allowed on it, changed while the question waited: what was decided about it no longer holds.",
        hint="Ask it again.",
    )


def internal() -> ShoalError:
    """A bug of ours, which never carries data."""
    return ShoalError("E_INTERNAL", "Something went wrong in the service, which is a bug in shoal.", hint="Report it.")
