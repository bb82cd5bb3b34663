"""The process that plans statements and runs queries, one at a time. Charges and answers are kept elsewhere.

It ends when the service releases it or dies, in the middle of a query if need be.
"""

from __future__ import annotations

import importlib
import logging
import os
import select
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from shoal.accounting.spending.asking import Terms
from shoal.engines.sources import open_source
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass
from shoal.remembered import remember_for
from shoal.result import Result
from shoal.service.datasets import not_open, read_catalog
from shoal.service.runners import memory, wire
from shoal.service.runners.carried import basis_of, unpacked
from shoal.service.runners.errand import Errand, Place, PlanErrand, error_of, loss_data, promise_of
from shoal.service.runners.planning import cannot_be_planned, planned
from shoal.session import Session
from shoal.stack import one_stack

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from shoal.accounting.accountants import Loss
    from shoal.accounting.ledger import Ledger
    from shoal.accounting.promises import Promise
    from shoal.catalog import Catalog
    from shoal.result import Rows

WARM = (
    "shoal.release.execute",
    "shoal.release.policy_clause.run",
    "shoal.engines.duckdb.engine",
    "shoal.mechanisms.sampling.opendp_samplers",
    "sqlglot.dialects.duckdb",
    "opendp.prelude",
    "pandas",  # the engine loads it with the first rows, if it is installed
)
"""Loaded before the first query needs them: half a second that no answer waits for."""
_LOGGER = logging.getLogger("shoal.service")
KEPT = Terms(fingerprint="the service's own")
"""The answer's bytes are kept; the runner does not know under which key."""
for _name in WARM:
    with suppress(ImportError):
        importlib.import_module(_name)


def serve(channel: socket.socket, share: int) -> None:
    """Runs errands until nobody is at the other end."""
    threading.Thread(target=_end_with, args=(channel,), name="shoal-watch", daemon=True).start()
    memory.keep_within(share)
    wire.send(channel, {"hello": os.getpid()})
    desk = Runner(channel)
    while True:
        message, body = wire.receive(channel)
        if "keep" in message:
            desk.keep(message["keep"])
        elif "open" in message:
            desk.open(Place(**message["open"]))
        else:
            desk.answer(message, body)


@dataclass(frozen=True, slots=True)
class Opened:
    """A version of a data set, and what plans about it depend on."""

    version: int
    session: Session
    basis: str


def _end_with(channel: socket.socket) -> None:
    """A query whose service died has nobody to answer to; another run takes over its charge."""
    watched = select.poll()
    watched.register(channel, getattr(select, "POLLRDHUP", 0) | select.POLLHUP)
    watched.poll()
    os._exit(0)


class Runner:
    """Open data sets, and one errand at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._open: dict[str, Opened] = {}
        self._person: str | None = None
        self._errand = 0

    def answer(self, message: dict[str, Any], body: bytes) -> None:
        """An errand; all that is said about it has its number."""
        self._errand = message["errand"]
        if "ready" in message:
            self._say({"ready": True})
        elif "plan" in message:
            self._plan(PlanErrand.from_dict(message["plan"]))
        else:
            self._run(Errand.from_dict(message["run"]), body)

    def _say(self, message: dict[str, Any], body: bytes = b"") -> None:
        """A word about the errand, for the service."""
        wire.send(self._channel, message | {"errand": self._errand}, body)

    def _asked(self, message: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """What the service replies to a word about the errand."""
        self._say(message, body)
        return wire.receive(self._channel)

    def open(self, place: Place) -> None:
        """Before the first errand; what cannot be opened is reported when somebody asks."""
        try:
            self._session(place)
        except Exception:  # noqa: BLE001 - the same error comes again when it matters
            return

    def keep(self, versions: dict[str, int]) -> None:
        """Closes data sets that are not among these."""
        for name, opened in list(self._open.items()):
            if versions.get(name) != opened.version:
                del self._open[name]
                opened.session.close()

    def _opened(self, place: Place) -> Opened:
        """As shown to the asker, who must not see why a source cannot be read."""
        try:
            return self._session(place)
        except ShoalError as error:
            _LOGGER.error("the data set %s cannot be opened: %s", place.name, error)  # noqa: TRY400 - the text says it
            raise not_open() from None

    def _session(self, place: Place) -> Opened:
        opened = self._open.get(place.name)
        if opened is None or opened.version != place.version:
            if opened is not None:
                self._open.pop(place.name)
                opened.session.close()
            catalog = _held_to(read_catalog(place.catalog)[0], place.seconds)
            session = Session(open_source(place.source, catalog), catalog, cast("Ledger", _NoLedger()))
            opened = self._open[place.name] = Opened(place.version, session, basis_of(session, place))
        return opened

    def _serve(self, person: str) -> None:
        """What was planned for one person makes nothing faster for the next: how long it takes would tell what was asked."""
        if person != self._person:
            remember_for(person)
            self._person = person

    def _plan(self, errand: PlanErrand) -> None:
        """Ends with one message: planned, refused, or broken. Reads no data."""
        try:
            self._serve(errand.person)
            opened = self._opened(errand.place)
            found, plan = planned(opened.session, errand, opened.basis)
        except ShoalError as error:
            self._say({"refused": error.to_dict()})
        except MemoryError:
            self._say({"refused": cannot_be_planned().to_dict()})
        except Exception as error:  # noqa: BLE001 - its text may hold the statement; its name does not
            self._say({"broken": type(error).__name__})
        else:
            self._say({"planned": found}, plan)

    def _run(self, errand: Errand, plan: bytes) -> None:
        """Ends with one message: answered, refused, or broken. With a plan made for the errand, it is not planned again."""
        counter = Counter(self._asked, errand)
        try:
            self._serve(errand.person)
            opened = self._opened(errand.place)
            session = opened.session.for_user(errand.person, cast("Ledger", counter), errand.seconds)
            made = unpacked(plan, opened.basis, session)
            if made is None:
                found = session.query_under(errand.sql, KEPT, composition=errand.composition, epsilon=errand.epsilon)
            else:
                with one_stack():
                    found = session.run(made, KEPT)
            body = b"" if counter.kept else _bytes_of(found)
        except wire.Gone:
            raise
        except ShoalError as error:
            self._say({"refused": error.to_dict()})
        except Exception as error:  # noqa: BLE001 - its text may hold data; its name does not
            self._say({"broken": type(error).__name__})
        else:
            self._say({"answered": bool(body)}, body)


def _bytes_of(found: Rows) -> bytes:
    if not isinstance(found, Result):
        raise InternalError("a job has no answer")
    return found.to_bytes()


def _held_to(catalog: Catalog, seconds: float) -> Catalog:
    """The catalog, with no more time for a query than the service gives."""
    limit = min(catalog.defaults.max_seconds_per_query, Fraction(seconds))
    return replace(catalog, defaults=replace(catalog.defaults, max_seconds_per_query=limit))


class _NoLedger:
    """A session with no user yet."""

    has_budget = True


class Counter:
    """The ledger as a runner sees it: a window through which it asks for a charge, and hands in an answer."""

    def __init__(self, ask: Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]], errand: Errand) -> None:
        self._ask = ask
        self.promise = promise_of(errand.promise)
        self.has_budget = errand.has_budget
        self.kept = False

    def reserve(self, loss: Loss, *, promise: Promise | None = None, cost: Loss | None = None, **_: Any) -> Charged:
        """As `Ledger.reserve`; only the service knows whose charge it is, and under which keys."""
        said = {
            "loss": loss_data(loss),
            "cost": loss_data(cost),
            "promise": None if promise is None else asdict(promise),
        }
        reply, body = self.call({"reserve": said})
        self.kept = reply["answer"]
        return Charged(self, reply["reserved"], body if reply["answer"] else None)

    def call(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """The service's reply; its error is raised here."""
        reply, data = self._ask(message, body)
        if "error" in reply:
            raise error_of(reply["error"])
        return reply, data


class Charged:
    """A charge as a runner sees it."""

    def __init__(self, counter: Counter, sequence: int, answer: bytes | None) -> None:
        self._counter, self.sequence, self.answer = counter, sequence, answer

    def commit(self, answer: bytes | Sequence[bytes] | None = None) -> bytes | None:
        """As `Reservation.commit`."""
        written = b"" if answer is None else answer if isinstance(answer, bytes) else b"".join(answer)
        reply, kept = self._counter.call({"commit": True}, written)
        self._counter.kept = True
        return written if reply["same"] else kept

    def fail(self, why: str = "") -> None:
        """As `Reservation.fail`."""
        self._counter.call({"fail": why})

    def cancel(self) -> None:
        """As `Reservation.cancel`."""
        self._counter.call({"cancel": True})
