"""Flight SQL: the door for other programs. A statement runs and is charged once; its answer can be fetched any number of times.

The token comes as `authorization: Bearer …`, the data set as the header `database`. Every failure becomes one of our Flight
errors: any other exception raised here would reach the client with a traceback.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import pyarrow.flight as fl

from shoal.errors import ShoalError
from shoal.service.people import unknown_caller
from shoal.service.questions import Question
from shoal.web.flight_sql.messages import Message, NotOffered, read_command, written
from shoal.web.flight_sql.streams import Places
from shoal.web.flight_sql.tables import described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from shoal.service.jobs import Job
    from shoal.service.people import Caller
    from shoal.service.service import Service

AT_ONCE = 64
WAIT_SECONDS = 60.0
STATEMENTS = {"CommandStatementQuery", "CommandPreparedStatementQuery"}
CREATE, CLOSE = "CreatePreparedStatement", "ClosePreparedStatement"
NOT_OFFERED = {fl.FlightMethod.GET_SCHEMA}
_LOGGER = logging.getLogger("shoal.web")
_ERRORS = {
    **dict.fromkeys(("E_AUTH",), fl.FlightUnauthenticatedError),
    **dict.fromkeys(
        ("E_FORBIDDEN", "E_POLICY", "E_SUSPENDED", "E_BUDGET", "E_NOT_FOUND", "E_GONE"), fl.FlightUnauthorizedError
    ),
    **dict.fromkeys(("E_BUSY", "E_LEDGER", "E_RATE", "E_SOURCE"), fl.FlightUnavailableError),
    "E_CANCELLED": fl.FlightCancelledError,
    "E_INTERNAL": fl.FlightInternalError,
}


class UnimplementedError(NotImplementedError):
    """UNIMPLEMENTED for the client, without a traceback.

    pyarrow has no Flight error for it: it sends any other exception with its traceback, or with only the name of its class if
    the traceback cannot be formatted. Formatting reads the cause first.
    """

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        """Unavailable."""
        raise LookupError


def _raised(error: ShoalError) -> Exception:
    if isinstance(error, NotOffered):
        return UnimplementedError(str(error))
    kind = _ERRORS.get(error.code, fl.FlightServerError)
    return kind(str(error))  # type: ignore[no-any-return]


def _named(dataset: str) -> str:
    """The data set of a statement."""
    if not dataset:
        raise ShoalError(
            "E_USAGE",
            "No data set is named.",
            hint="Send its name as the header database; ADBC: adbc.flight.sql.rpc.call_header.database.",
        )
    return dataset


def _ours(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Whatever a handler raises becomes one of our errors, without a traceback.

    It runs in one of our threads: gRPC's come and go, and a store keeps a connection for each thread that it has seen.
    """

    @wraps(handler)
    def safe(door: Door, *args: Any) -> Any:
        try:
            return door.threads.submit(handler, door, *args).result()
        except ShoalError as error:
            raised = _raised(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours: counted, never told
            _LOGGER.error("flight %s: %s", handler.__name__, type(error).__name__)  # noqa: TRY400 - same
            raised = fl.FlightInternalError("E_INTERNAL: Something went wrong in the service, which is a bug in shoal.")
        raise raised

    return safe


class _Call(fl.ServerMiddleware):
    """The headers of one call."""

    def __init__(self, headers: dict[str, list[Any]]) -> None:
        super().__init__()
        self.headers = headers

    def one(self, name: str) -> str:
        """A header that appears exactly once; '' otherwise."""
        found = self.headers.get(name, [])
        return found[0] if len(found) == 1 and isinstance(found[0], str) else ""


class _Calls(fl.ServerMiddlewareFactory):
    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> _Call:
        """Nothing is authenticated yet: the handler of the call looks up its caller.

        A handler of these calls cannot refuse with its own message without a traceback, so they are refused here.
        """
        if info.method in NOT_OFFERED:
            raise _raised(NotOffered())
        return _Call({name.lower(): list(values) for name, values in headers.items()})


class Door(fl.FlightServerBase):
    """Flight SQL over a service."""

    def __init__(self, service: Service, location: str) -> None:
        self.threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="shoal-flight")
        super().__init__(location, middleware={"call": _Calls()})
        self._service = service
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._places = Places()

    # ---- who calls -----------------------------------------------------------------------------------------------

    def _caller(self, context: Any) -> tuple[Caller, str]:
        call = context.get_middleware("call")
        authorization = call.one("authorization")
        if not authorization.startswith("Bearer "):
            raise unknown_caller()
        return self._service.people.caller(authorization.removeprefix("Bearer "), "flight"), call.one("database")

    # ---- handlers ------------------------------------------------------------------------------------------------

    @_ours
    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Runs a statement and charges it; a command about tables is only inspected."""
        caller, dataset = self._caller(context)
        asked = read_command(_command(descriptor))
        if asked.name in STATEMENTS:
            table, ticket = self._run(caller, _named(dataset), _sql(asked))
        elif asked.name.startswith("Command"):
            table, ticket = described(self._service, caller, dataset, asked), _command(descriptor)
        else:
            raise NotOffered
        endpoint = fl.FlightEndpoint(ticket, [])
        return fl.FlightInfo(table.schema, descriptor, [endpoint], table.num_rows, table.nbytes)

    @_ours
    def do_get(self, context: Any, ticket: Any) -> Any:
        """The stored answer of the caller's own statement, free; or a table about tables."""
        caller, dataset = self._caller(context)
        if ticket.ticket.startswith(b"j_"):
            job = self._service.job(caller, ticket.ticket.decode("latin-1"))
            if job.state != "answered":
                raise ShoalError("E_USAGE", "There is no answer under this ticket.")
            return self._stream(caller, job)
        return fl.RecordBatchStream(described(self._service, caller, dataset, _about_tables(ticket.ticket)))

    @_ours
    def do_action(self, context: Any, action: Any) -> Any:
        """Prepare: plans the statement, which is free, and returns the columns of its answer; nothing runs."""
        caller, dataset = self._caller(context)
        if action.type not in {CREATE, CLOSE}:
            raise NotOffered
        asked = read_command(action.body.to_pybytes())
        if (action.type, asked.name) == (CLOSE, "ActionClosePreparedStatementRequest"):
            return []
        if (action.type, asked.name) != (CREATE, "ActionCreatePreparedStatementRequest"):
            raise NotOffered
        sql = _sql(asked)
        schema = self._service.answer_schema(caller, _named(dataset), sql)
        return [fl.Result(written("ActionCreatePreparedStatementResult", [(1, sql.encode()), (2, schema)]))]

    @_ours
    def list_actions(self, context: Any) -> Any:
        """Two."""
        self._caller(context)
        return [(CREATE, "Plan a statement."), (CLOSE, "Forget it.")]

    @_ours
    def list_flights(self, context: Any, _: Any) -> Any:
        """Not offered."""
        self._caller(context)
        raise NotOffered

    @_ours
    def do_put(self, context: Any, *_: Any) -> Any:
        """Not offered: nothing is written, and statements have no parameters."""
        self._caller(context)
        raise NotOffered

    @_ours
    def do_exchange(self, context: Any, *_: Any) -> Any:
        """Not offered."""
        self._caller(context)
        raise NotOffered

    # ---- a statement ---------------------------------------------------------------------------------------------

    def _run(self, caller: Caller, dataset: str, sql: str) -> tuple[pa.Table, bytes]:
        """The answer and the ticket for it: a job's id, which is useless to anybody else."""
        with self._one_more():
            job = self._service.ask(caller, dataset, Question(sql), at_once=False)
            job = self._service.wait(job.id, WAIT_SECONDS)
        if job.error is not None:
            raise ShoalError(str(job.error["code"]), str(job.error["message"]), hint=job.error.get("hint"))
        if job.state != "answered":
            what = "waits for a custodian's approval" if job.state == "approval" else "is not answered yet"
            raise ShoalError("E_BUSY", f"The question {what}.", hint="Send it again later: it is charged once.")
        if not self._service.is_large(job.answer):
            return self._table(caller, job), job.id.encode()
        with self._places.one_of(caller.name):
            return self._table(caller, job), job.id.encode()

    def _table(self, caller: Caller, job: Job) -> pa.Table:
        return self._service.answer_of(caller, job).result.to_arrow()

    def _stream(self, caller: Caller, job: Job) -> Any:
        if not self._service.is_large(job.answer):
            return fl.RecordBatchStream(self._table(caller, job))
        return self._places.stream(caller.name, lambda: self._table(caller, job))

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        if not self._room.acquire(blocking=False):
            raise ShoalError("E_BUSY", "Too many statements run at once.", hint="Send it again in a moment.")
        try:
            yield
        finally:
            self._room.release()


def _command(descriptor: Any) -> bytes:
    if descriptor.descriptor_type != fl.DescriptorType.CMD or descriptor.command is None:
        raise NotOffered
    return bytes(descriptor.command)


def _about_tables(ticket: bytes) -> Message:
    asked = read_command(ticket)
    if asked.name in STATEMENTS or not asked.name.startswith("Command"):
        raise NotOffered
    return asked


def _sql(asked: Message) -> str:
    """The statement; a handle is the statement itself, so nothing is kept for clients that only prepare."""
    if asked.said.get("transaction"):
        raise NotOffered
    text = asked.said.get("query", asked.said.get("handle"))
    try:
        return text if isinstance(text, str) else (text or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise ShoalError("E_USAGE", "There is no such prepared statement.") from None
