"""How jobs end: the line of the log, who else gets the answer, and what askers are told where the ledger does not say it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.service import allowances, jobs, log
from shoal.service.datasets import not_open, shares_answers_now

if TYPE_CHECKING:
    from shoal.service.datasets import DataSet
    from shoal.service.desk import Desk
    from shoal.service.jobs import Job
    from shoal.service.store import Rows

_LOGGER = logging.getLogger("shoal.service")


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


def taken_over() -> ShoalError:
    """Nobody hears of it: another process runs the job."""
    return ShoalError("E_BUSY", "Another process has taken the job over.")


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


def may_have(rows: Rows, follower: Job, job: Job, dataset: DataSet) -> bool:
    """Whether the answer of a job is still for whoever waits behind it. If not, theirs runs, or is refused, as any other."""
    if follower.person != job.person and not shares_answers_now(rows, dataset):
        return False  # answers were shared when they asked
    return allowances.may_still_ask(rows, job.dataset, follower.person)


def require_may_have(rows: Rows, job: Job, dataset: DataSet) -> None:
    """Somebody's earlier answer is no longer for whoever lost their allowance meanwhile, or where answers ceased to be shared."""
    allowances.require_may_still_ask(rows, job.dataset, job.person)
    if dataset.share_answers and not shares_answers_now(rows, dataset):
        raise changed_meanwhile()


def ended_with(desk: Desk | None, error: ShoalError) -> ShoalError:
    """The error for a run that did not end by itself, once its charge is ended; the ledger may report another one."""
    try:
        if desk is not None:
            desk.end_open_charge()
    except ShoalError as said:
        return said
    return error


def as_told(job: Job, error: ShoalError, *, was_charged_here: bool, charged: bool) -> ShoalError:
    """What the asker sees: nothing of ours, and never that nothing was charged when something was."""
    if was_charged_here and error.code == "E_LEDGER":
        return not_written()
    if charged and error.code not in {"E_EXECUTION", "E_CANCELLED", "E_SUSPENDED", "E_LIMITS"}:
        return internal() if was_charged_here else ended_by_death()
    if error.code == "E_SOURCE":
        _LOGGER.error("job %s: %s", job.id, error.message)
        return not_open()
    return error


def kept_answer(rows: Rows, job: Job, dataset: DataSet, desk: Desk, data: bytes) -> str:
    """The answer's id. Charged bytes are in the ledger; free ones are kept here."""
    known = None
    if desk.charge:
        known = rows.one("SELECT id FROM answers WHERE ledger = ? AND charge = ?", dataset.ledger_name, desk.charge)
    elif desk.replayed:
        known = rows.one(
            "SELECT id FROM answers WHERE fingerprint = ? AND created >= (SELECT kept_since FROM identity)"
            " ORDER BY created, id LIMIT 1",
            job.fingerprint,
        )
    if known is not None:
        return str(known["id"])
    identifier = jobs.answer_id(job.id)
    is_older = desk.replayed and job.question["version"] != dataset.version  # an earlier run read the data as it was
    key = "" if job.question["fresh"] or is_older else job.fingerprint
    rows.run(
        "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        *(identifier, job.dataset, job.person, key, dataset.ledger_name, desk.charge),
        *(None if desk.charge else data, rows.now()),
    )
    return identifier
