"""The service's end of a runner: sends errands, answers on behalf of the ledger, and kills a process that takes too long."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from shoal.engines.deadline import CLOCK_FACTOR
from shoal.errors import InternalError, ShoalError
from shoal.service.runners import nursery, wire
from shoal.service.runners.errand import error_of, loss_of, promise_of
from shoal.service.runners.memory import processor_seconds
from shoal.service.runners.processors import MOMENT_SECONDS, Processors, Turn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from shoal.accounting.spending.asking import Terms
    from shoal.service.desk import Desk, DeskReservation
    from shoal.service.runners.errand import Errand, Place, PlanErrand

GRACE_SECONDS = 5.0
"""A runner ends its own queries at their deadline; one that cannot is killed this much later."""
LOOK_SECONDS = 1.0
OPENING_SECONDS = 10.0
"""A service with short queries may run on a busy machine: opening its data sets may take long, and no query pays for it."""
ALONE_SECONDS = 600.0
GOES_ON = frozenset({"reserve", "commit", "fail", "cancel"})
"""What a runner says in the middle of an errand, and wants to be answered."""


class Died(Exception):  # noqa: N818 - what becomes of it is the ledger's to say
    """The process ended in the middle of an errand."""


class TooLong(Exception):  # noqa: N818 - the same
    """The process was killed after its deadline."""


def nothing() -> None:
    """There is nothing to do while another process works."""


class Hired:
    """One runner, replaced whenever it has died."""

    def __init__(self, share: int, processors: Processors | None = None) -> None:
        self._share = share
        self._processors = processors or Processors(1)
        self._channel: socket.socket | None = None
        self.pid = 0
        self._told: dict[str, int] = {}
        self._alone_until = 0.0
        """Until then it opens what is asked for, and nothing in advance."""
        self._is_open = False
        """Whether everything it was asked to open is open."""
        self._errand = 0
        """The number of what it was asked last; each of its replies has it."""
        self._is_at_work = False
        """Whether it was asked something, and has not said how that ended."""

    def is_ready(self, versions: dict[str, int]) -> bool:
        """Whether a live process was given these data sets and no others."""
        return self._channel is not None and versions == self._told and not _speaks(self._channel, 0.0)

    def make_ready(self, places: list[Place]) -> None:
        """A process that has these data sets open, and no older version of them."""
        if time.monotonic() < self._alone_until:
            places = [place for place in places if place.name in self._told]
        if self._channel is not None and _speaks(self._channel, 0.0):
            self.close()
        versions = {place.name: place.version for place in places}
        with suppress(wire.Gone):
            channel = self._opened()
            wire.send(channel, {"keep": versions})
            for place in places:
                if self._told.get(place.name) != place.version:
                    wire.send(channel, {"open": place.to_dict()})
                    self._is_open = False
            self._told = versions

    def wait_until_open(self, seconds: float) -> None:
        """Waits until everything it was asked to open is open, so that no statement's time is spent on it."""
        try:
            self._heard({"ready": True}, seconds)
            self._is_open = True
        except wire.Gone:
            self.close()
        except TooLong:
            self.kill()

    def _opened(self) -> socket.socket:
        if self._channel is None:
            self._told, self._is_open = {}, False
            self._channel, self.pid = nursery.new_runner(self._share)
        return self._channel

    def close(self) -> None:
        """The process exits by itself once nobody is at the other end."""
        if self._channel is not None:
            self._channel.close()
        self._channel, self.pid, self._is_at_work = None, 0, False

    def kill(self) -> None:
        """Ends the process at once."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.close()

    # ---- one errand ----------------------------------------------------------------------------------------------

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """`Died` if the process is gone. One that takes too long is killed, and so is one whose errand is given up.

        What that would say next would be taken for a word about the next statement, of somebody else.
        """
        try:
            yield
        except wire.Gone:
            self.close()
            raise Died from None
        finally:
            if self._is_at_work:
                self.kill()

    def run(self, errand: Errand, terms: Terms, desk: Desk, plan: bytes = b"") -> bytes:
        """The bytes of the answer, as stored; `Died` or `TooLong` if there is neither an answer nor an error.

        `plan` came from a process that planned the same statement.
        """
        turn = Turn(self._processors)
        try:
            with self._at_work():
                turn.begin()
                self._send_anew({"run": errand.to_dict()}, errand.place, plan)
                desk.keep()  # while the statement is planned there; nothing is charged before
                return self._conversation(errand, terms, desk, turn)
        finally:
            turn.end()

    def plan(
        self, errand: PlanErrand, seconds: float, meanwhile: Callable[[], None] = nothing
    ) -> tuple[dict[str, Any], bytes]:
        """The report about a plan, and the plan for whoever runs it; `Died` or `TooLong` if there is none.

        Opening the data set is not counted.
        """
        with self._at_work():
            self._open_first(errand.place)
            message, plan = self._heard({"plan": errand.to_dict()}, seconds, meanwhile)
        if "refused" in message:
            raise error_of(message["refused"])
        if "broken" in message:
            raise InternalError(str(message["broken"])[:100])
        return dict(message["planned"]), plan

    def _open_first(self, place: Place) -> None:
        """A process that has the data set open, so the next query has all of its time to itself."""
        if not self._has(place):
            wire.send(self._opened(), {"open": place.to_dict()})
            self._told, self._is_open = self._told | {place.name: place.version}, False
        if not self._is_open:
            if self._told.keys() - {place.name}:
                self._end_if_it_hangs(place)
            self._heard({"ready": True}, max(OPENING_SECONDS, place.seconds))
            self._is_open = True

    def _end_if_it_hangs(self, place: Place) -> None:
        """A process that opens other data sets for long, one of which may never open, is replaced by one that opens this alone."""
        channel = self._opened()
        self._send({"ready": True})
        if _speaks(channel, OPENING_SECONDS):
            self._received(channel)
            return
        self.kill()
        self._alone_until = time.monotonic() + ALONE_SECONDS
        wire.send(self._opened(), {"open": place.to_dict()})
        self._told = {place.name: place.version}

    def _has(self, place: Place) -> bool:
        """Whether a live process was given this version of the data set."""
        if self._channel is not None and _speaks(self._channel, 0.0):  # an idle process says nothing but goodbye
            self.close()
        return self._channel is not None and self._told.get(place.name) == place.version

    def _heard(
        self, message: dict[str, Any], seconds: float, meanwhile: Callable[[], None] = nothing
    ) -> tuple[dict[str, Any], bytes]:
        """The one reply to a message."""
        channel = self._opened()
        self._send(message)
        meanwhile()
        if not _speaks(channel, LOOK_SECONDS):  # most replies arrive long before the clock matters
            limits = (processor_seconds(self.pid) + seconds, time.monotonic() + CLOCK_FACTOR * seconds)
            self._await(channel, limits)
        return self._received(channel)

    def _send(self, message: dict[str, Any], body: bytes = b"") -> None:
        """Something to be answered."""
        channel = self._opened()
        self._errand += 1
        self._is_at_work = True
        wire.send(channel, message | {"errand": self._errand}, body)

    def _received(self, channel: socket.socket) -> tuple[dict[str, Any], bytes]:
        """What it says about the last thing that it was asked; a word about anything else is one too many."""
        message, body = wire.receive(channel)
        if message.get("errand") != self._errand:
            raise wire.Gone
        self._is_at_work = bool(message.keys() & GOES_ON)
        return message, body

    def _send_anew(self, message: dict[str, Any], place: Place, body: bytes) -> None:
        """A process that died while idle is silently replaced."""
        try:
            self._open_first(place)
            self._send(message, body)
        except wire.Gone:
            self.close()
            self._open_first(place)
            self._send(message, body)

    def _conversation(self, errand: Errand, terms: Terms, desk: Desk, turn: Turn) -> bytes:
        channel = self._opened()
        limits = (processor_seconds(self.pid) + errand.seconds, time.monotonic() + CLOCK_FACTOR * errand.seconds)
        charge: DeskReservation | None = None
        kept = b""
        while True:
            self._await_in_turn(channel, limits, turn)
            message, body = self._received(channel)
            turn.end()  # the ledger may wait for the disk, and a reply for its time
            if "answered" in message:
                return body if message["answered"] else kept
            if "refused" in message:
                raise error_of(message["refused"])
            if "broken" in message:
                raise InternalError(str(message["broken"])[:100])
            try:
                if "reserve" in message:
                    charge = self._reserved(message["reserve"], errand, terms, desk)
                    kept = charge.answer or b""
                    turn.begin(charged=True)
                    wire.send(channel, {"reserved": charge.sequence, "answer": charge.answer is not None}, kept)
                elif charge is None:
                    raise wire.Gone
                elif "commit" in message:
                    kept = charge.commit(body) or b""
                    wire.send(channel, {"same": kept == body}, b"" if kept == body else kept)
                else:
                    charge.fail(str(message["fail"])) if "fail" in message else charge.cancel()
                    wire.send(channel, {"noted": True})
            except ShoalError as error:
                wire.send(channel, {"error": error.to_dict()})

    def _await_in_turn(self, channel: socket.socket, limits: tuple[float, float], turn: Turn) -> None:
        """The same, and makes room for others once it takes longer than a moment."""
        if not _speaks(channel, MOMENT_SECONDS):
            turn.end()
            self._await(channel, limits)

    def _await(self, channel: socket.socket, limits: tuple[float, float]) -> None:
        """Waits until something arrives. Processor time counts, so a busy machine makes no query fail."""
        while not _speaks(channel, LOOK_SECONDS):
            late = time.monotonic() > limits[1] + GRACE_SECONDS
            if late or processor_seconds(self.pid) > limits[0] + GRACE_SECONDS:
                raise TooLong

    def _reserved(self, said: dict[str, Any], errand: Errand, terms: Terms, desk: Desk) -> DeskReservation:
        if said["loss"] is None:
            raise wire.Gone
        return desk.reserve(
            loss_of(said["loss"]),
            user=errand.person,
            description=errand.sql,
            promise=promise_of(said["promise"]),
            cost=None if said["cost"] is None else loss_of(said["cost"]),
            fingerprint=terms.fingerprint,
            request=terms.request,
            accounts=terms.accounts,
            resume=terms.resume,
        )


def _speaks(channel: socket.socket, seconds: float) -> bool:
    """Whether something arrives within this time."""
    watched = select.poll()
    watched.register(channel, select.POLLIN)
    return bool(watched.poll(seconds * 1000))
