"""One process of a service that is told what to do, and what goes wrong in it; for `service_faults.py`.

It is forked from a process without threads, and told one line of JSON for each act. Acts run beside each other, as requests do.
"""

from __future__ import annotations

import json
import os
import random
import select
import threading
import time
import traceback
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.stores import files
from shoal.errors import ShoalError
from shoal.params import budget
from shoal.service import datasets, desk, jobs, running
from shoal.service.allowances import Grant
from shoal.service.questions import Question
from shoal.service.service import OPERATOR, Limits, Service
from shoal.service.stores import sqlite
from shoal.service.upkeep import openings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIMITS = Limits(slots=3, answer_time=0.0, rates=False)
LEASE_SECONDS = 3
"""A fifth of the real ones, so that a process which is stopped for some seconds is taken for dead."""


class Faults:
    """What goes wrong in this process: kinds of store ('ledger', 'store') by when ('before', 'after' a commit), and pauses."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.kinds: dict[str, str] = {}
        self.pause = 0.0

    def strikes(self, what: str, when: str) -> bool:
        """An outage strikes always; a connection that is lost after a commit, now and then."""
        if self.kinds.get(what) != when:
            return False
        return when == "before" or self._random.random() < 0.5

    def rest(self) -> None:
        """Runs are slow enough to be met by something."""
        if self.pause:
            time.sleep(self._random.random() * self.pause)


def lost(what: str) -> ShoalError:
    return ShoalError("E_LEDGER", f"The {what} cannot be reached.")


def plant(faults: Faults) -> None:
    """Short times, and what may go wrong."""
    jobs.LEASE_SECONDS = LEASE_SECONDS
    running.HEARTBEAT_SECONDS, running.KEEP_SECONDS, running.IDLE_SECONDS, running.SOON_SECONDS = 0.5, 0.1, 0.1, 0.02
    openings.PATIENCE_SECONDS, datasets.MOMENT_SECONDS = 1.0, 0.1
    files.BUSY_SECONDS = sqlite.BUSY_SECONDS = 0.3
    for owner, name in ((files.FileStore, "ledger"), (sqlite.SqliteStore, "store")):
        _fails(owner, name, faults)
    for owner, method in (
        (desk.Desk, "reserve"),
        (desk.DeskReservation, "commit"),
        (running.Slots, "_answered"),
        (running.Slots, "_refused"),
    ):
        _is_slow(owner, method, faults)


def _fails(owner: Any, what: str, faults: Faults) -> None:
    writing, reading = owner.writing, owner.reading

    @contextmanager
    def writes(self: Any, **options: Any) -> Iterator[Any]:
        if faults.strikes(what, "before"):
            raise lost(what)
        with writing(self, **options) as rows:
            yield rows
        if faults.strikes(what, "after"):
            raise lost(what)

    @contextmanager
    def reads(self: Any) -> Iterator[Any]:
        if faults.strikes(what, "before"):
            raise lost(what)
        with reading(self) as rows:
            yield rows

    owner.writing, owner.reading = writes, reads


def _is_slow(owner: Any, name: str, faults: Faults) -> None:
    original = getattr(owner, name)

    def slow(*args: Any, **options: Any) -> Any:
        faults.rest()
        try:
            return original(*args, **options)
        finally:
            faults.rest()

    setattr(owner, name, slow)


class Acts:
    """What this process is told to do."""

    def __init__(self, service: Service, faults: Faults) -> None:
        self._service, self._faults = service, faults

    def _caller(self, who: str) -> Any:
        return self._service.people.trusted(who, "test")

    def ask(self, who: str, sql: str, key: str | None, fresh: bool) -> dict[str, Any]:
        return seen(self._service.ask(self._caller(who), "visits", Question(sql, fresh=fresh), key))

    def cancel(self, who: str, job: str) -> dict[str, Any]:
        return seen(self._service.cancel(self._caller(who), job))

    def read(self, who: str, answer: str) -> int:
        return len(self._service.answer(self._caller(who), answer)[1])

    def allow(self, to: str, per: str, epsilon: str | None, most: str | None, approve: str | None) -> None:
        limits = {
            "budget": None if epsilon is None else budget((Fraction(epsilon), Fraction(1, 10**5))),
            "max_epsilon": None if most is None else Fraction(most),
            "approve_above": None if approve is None else Fraction(approve),
        }
        self._service.allow(OPERATOR, Grant("visits", to, per, **limits))

    def withdraw(self, to: str, per: str) -> None:
        self._service.withdraw(OPERATOR, "visits", to, per)

    def refresh(self) -> None:
        self._service.refresh(OPERATOR, "visits")

    def retire(self, who: str) -> None:
        self._service.retire_user(OPERATOR, who)

    def decide(self, who: str, decision: str) -> int:
        """All that is waiting for them."""
        found = [one for one in self._service.approvals(self._caller(who)) if one["asker"] != who]
        for one in found:
            self._service.decide(self._caller(who), one["id"], decision)
        return len(found)

    def lift(self) -> None:
        for one in self._service.datasets.ledger("visits").suspensions():
            if one.lifted_at is None:
                self._service.lift(OPERATOR, "visits", one.user, "a test")

    def runners(self) -> list[int]:
        """Processes that may run something now."""
        return [runner.pid for runner in self._service._slots.runners if runner.pid]

    def faults(self, what: str, when: str) -> None:
        self._faults.kinds[what] = when

    def pause(self, seconds: float) -> None:
        self._faults.pause = seconds


def seen(job: jobs.Job) -> dict[str, Any]:
    """What whoever asked hears."""
    return {"id": job.id, "state": job.state, "charged": job.charged, "answer": job.answer}


def serve(place: Path, seed: int, channel: socket.socket) -> None:
    """Until it is told to end, or killed."""
    faults = Faults(seed)
    plant(faults)
    service = Service.open(place, LIMITS)
    acts = Acts(service, faults)
    lock = threading.Lock()

    def say(said: dict[str, Any]) -> None:
        with lock:
            channel.sendall(json.dumps(said).encode() + b"\n")

    def do(number: int, act: Callable[..., Any], words: dict[str, Any]) -> None:
        try:
            say({"n": number, "value": act(**words)})
        except ShoalError as error:
            say({"n": number, "error": error.code})
        except Exception:  # noqa: BLE001 - told to whoever started it
            say({"n": number, "error": "bug", "told": traceback.format_exc()})

    service.start()
    say({"n": 0, "value": os.getpid()})
    for line in channel.makefile("rb"):
        said = json.loads(line)
        if said["act"] == "end":
            say({"n": said["n"], "value": service.close(30.0)})
            return
        threading.Thread(target=do, args=(said["n"], getattr(acts, said["act"]), said["words"]), daemon=True).start()


class Process:
    """The other end of one."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid, self._channel = pid, channel
        self._heard = b""
        self._number = 0
        self.replies: dict[int, dict[str, Any]] = {}
        self.asleep = False

    def send(self, act: str, **words: Any) -> int:
        """The number under which its reply comes."""
        self._number += 1
        self._channel.sendall(json.dumps({"n": self._number, "act": act, "words": words}).encode() + b"\n")
        return self._number

    def hear(self, number: int, seconds: float) -> dict[str, Any] | None:
        """Its reply, if it comes within this time."""
        ends = time.monotonic() + seconds
        while number not in self.replies:
            watched = select.poll()
            watched.register(self._channel, select.POLLIN)
            if not watched.poll(max(0.0, ends - time.monotonic()) * 1000):
                return None
            heard = self._channel.recv(1 << 16)
            if not heard:
                return None
            *lines, self._heard = (self._heard + heard).split(b"\n")
            for said in map(json.loads, lines):
                self.replies[said["n"]] = said
        return self.replies[number]

    def close(self) -> None:
        self._channel.close()
