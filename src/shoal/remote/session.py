"""The same face as a local session, over HTTP: `shoal.connect("https://host/d/visits", token=…)`.

Every call carries its own key and is sent again when a connection is lost or the service is busy: never charged twice.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from shoal.errors import OTHER_CODES, QUERY_CODES, ShoalError
from shoal.explain import Explanation
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import SYSTEM
from shoal.release.answer_bytes import MEDIA_TYPE
from shoal.result import Result, Rows
from shoal.schema import rows_about
from shoal.sql.grammar.catalog_questions import asked_of_catalog
from shoal.sql.grammar.parameters import with_parameters
from shoal.sql.grammar.tokens import first_word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shoal.remote.connections import Client, Reply

    Params = Sequence[Any] | Mapping[str, Any]

T = TypeVar("T")
ATTEMPTS = 5
WAIT_SECONDS = 30.0
SEND_AGAIN = frozenset({429, 503})
LARGEST = 10**300
"""No amount of a service is as large; larger whole numbers do not fit a float."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,200}", re.ASCII)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
WHAT_TO_CONNECT = "shoal init writes a catalog. A data set of a service is https://host/d/NAME, with its token."
HOW_TO_SIGN_IN = (
    "Give it as token=…, --token-file FILE or in the variable SHOAL_TOKEN; the data custodian makes a new one."
)
STATES = {"approval": "it waits for a custodian's approval", "waiting": "it waits in line", "running": "it runs"}


class ApprovalWarning(UserWarning):
    """A question waits for a person, which may take days."""


class RemoteExplanation(Explanation):
    """An explanation whose text the service wrote."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(self.data["text"])


@dataclass
class Job:
    """A question that was sent; its answer can be asked for later, also by another process (`session.job(id)`)."""

    session: RemoteSession
    id: str

    def _state(self, wait: float = 0.0) -> dict[str, Any]:
        return self.session.get(f"/v1/jobs/{_in_path(self.id)}", {"wait": f"{wait:g}"})

    @property
    def state(self) -> str:
        """waiting, approval, running, answered, failed or cancelled."""
        return told(self._state(), "state", str)

    @property
    def position(self) -> int | None:
        """How many wait before it, itself counted."""
        found = self._state()
        return None if found.get("position") is None else told(found, "position", int)

    def result(self, timeout: float | None = None) -> Result:
        """The answer, once there is one; E_BUSY when the time has passed."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if ends is None else min(WAIT_SECONDS, ends - time.monotonic())
            found = self._state(max(0.0, left))
            if found.get("error") is not None:
                raise raised(_checked(found["error"]) or not_ours())
            if found.get("answer") is not None:
                return self.session.answer(told(found, "answer", str))
            if ends is not None and time.monotonic() >= ends:
                state = told(found, "state", str)
                why = STATES.get(state, state)
                raise ShoalError("E_BUSY", f"The job is not answered yet: {why}.", hint="Ask again later.")
            if told(found, "state", str) == "approval":
                time.sleep(1.0)

    def cancel(self) -> None:
        """Free while it waits, charged once it runs."""
        self.session.send("DELETE", f"/v1/jobs/{_in_path(self.id)}")


class RemoteSession:
    """Private queries over one data set of a service."""

    def __init__(self, url: str, token: str | None = None, client: Client | None = None) -> None:
        from shoal.remote.connections import (
            client_of,  # what it needs takes long to load, and local queries ask if they are remote
        )

        self._base, self.dataset = _parts(url)
        self._client = client or client_of(self._base)
        self._token = token or os.environ.get("SHOAL_TOKEN", "")

    def __repr__(self) -> str:
        return f"<shoal: the data set {self.dataset} of {self._base}>"

    def __enter__(self) -> RemoteSession:  # noqa: PYI034 - a session is not subclassed
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of connections."""
        self._client.close()

    # ---- asking --------------------------------------------------------------------------------------------------

    def query(
        self,
        sql: str,
        params: Params | None = None,
        *,
        epsilon: float | None = None,
        composition: str = "basic",
        fresh: bool = False,
        key: str | None = None,
        reason: str = "",
        answer_time: float | None = None,
        timeout: float | None = None,
    ) -> Result | Rows:
        """The private answer. An answer that was released before comes back and is free, unless it is to be `fresh`.

        A question that needs a custodian's approval waits for it, with an `ApprovalWarning` that names the job. After `timeout`
        seconds it is E_BUSY; the question stays, and `session.job(id)` gets its answer later.

        `EXPLAIN PRIVACY …`, SHOW TABLES and DESCRIBE are answered as by a local session, free.

        `answer_time`: a question that takes long names a longer time than the service's at which its reply leaves.
        """
        sql = sql if params is None else with_parameters(sql, params)
        question = asked_of_catalog(sql)
        if question is not None:
            return Rows(rows_about(self.tables(), *question))
        if (first_word(sql) or [""])[0] == "EXPLAIN":
            return Rows.in_words(self.explain(sql, epsilon=epsilon, composition=composition))
        said = {"epsilon": epsilon, "fresh": fresh, "reason": reason, "answer_time": answer_time}
        found: Result = self._asked(sql, composition, key, WAIT_SECONDS, said, timeout=timeout)
        return found

    def submit(
        self,
        sql: str,
        *,
        composition: str = "basic",
        fresh: bool = False,
        key: str | None = None,
        reason: str = "",
        answer_time: float | None = None,
    ) -> Job:
        """The same without waiting."""
        said = {"fresh": fresh, "reason": reason, "answer_time": answer_time}
        found: Job = self._asked(sql, composition, key, 0.0, said, as_job=True)
        return found

    def _asked(
        self,
        sql: str,
        composition: str,
        key: str | None,
        wait: float,
        said: dict[str, Any],
        *,
        as_job: bool = False,
        timeout: float | None = None,
    ) -> Any:
        ends = None if timeout is None else time.monotonic() + timeout
        body = {"sql": sql, "composition": composition, "wait": wait if timeout is None else min(wait, timeout)}
        body |= {name: value for name, value in said.items() if value is not None}
        headers = {"Idempotency-Key": new_key() if key is None else key}
        kind = "application/json" if as_job else MEDIA_TYPE
        reply = self.send("POST", self._path("query"), body=body, headers=headers | {"Accept": kind})
        if reply.status_code == 202:
            waiting = _object(reply)
            job = Job(self, told(waiting, "job", str))
            if as_job:
                return job
            if told(waiting, "state", str) == "approval":
                warnings.warn(_waits(job.id), ApprovalWarning, stacklevel=3)
            return job.result(None if ends is None else max(0.0, ends - time.monotonic()))
        return _Answered(self, told(_object(reply), "answer", str)) if as_job else Result.from_bytes(reply.content)

    def job(self, identifier: str) -> Job:
        """A job that was submitted earlier."""
        return Job(self, identifier)

    def answer(self, identifier: str) -> Result:
        """A released answer, free."""
        path = f"/v1/answers/{_in_path(identifier)}"
        return Result.from_bytes(self.send("GET", path, headers={"Accept": MEDIA_TYPE}).content)

    def explain(
        self, sql: str, params: Params | None = None, *, epsilon: float | None = None, composition: str = "basic"
    ) -> Explanation:
        """The plan in words and numbers; free."""
        sql = sql if params is None else with_parameters(sql, params)
        body = {"sql": sql, "epsilon": epsilon, "composition": composition}
        return RemoteExplanation(_object(self.send("POST", self._path("explain"), body=body)))

    def epsilon_for(self, sql: str, error: float, level: float = 0.95, owners: int | None = None) -> float:
        """The smallest ε at which no interval is wider than ± error; free."""
        body = {"sql": sql, "error": error, "level": level, "owners": owners}
        return told(_object(self.send("POST", self._path("epsilon_for"), body=body)), "epsilon", float)

    # ---- looking -------------------------------------------------------------------------------------------------

    def budget(self) -> dict[str, Any]:
        """What was spent, by whom the service lets you see; the object of `shoal budget --json`, and `series`."""
        return self.get(self._path("budget"))

    def tables(self) -> dict[str, dict[str, Any]]:
        """What the catalog knows."""
        return told(self.get(self._path()), "tables", dict)

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) that everybody together has spent of the ledger."""
        return _pair(told(told(self.get(self._path()), "ledger", dict), "spent", dict))

    @property
    def remaining(self) -> tuple[float, float] | None:
        """(ε, δ) left of the ledger."""
        found = told(self.get(self._path()), "ledger", dict)
        return None if found.get("remaining") is None else _pair(told(found, "remaining", dict))

    # ---- HTTP ----------------------------------------------------------------------------------------------------

    def _path(self, verb: str = "") -> str:
        return f"/v1/datasets/{self.dataset}" + (f"/{verb}" if verb else "")

    def get(self, path: str, parameters: dict[str, str] | None = None) -> dict[str, Any]:
        """An object of the service."""
        return _object(self.send("GET", path, parameters=parameters))

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        parameters: dict[str, str] | None = None,
        body: object = None,
    ) -> Reply:
        """A reply that is not an error; sent again where that is safe, which the key makes it.

        One that sends us elsewhere is an error too: the token is for this service alone.
        """
        sent = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        reply = _again(lambda: self._client.request(method, path, headers=sent, parameters=parameters, body=body))
        if reply.status_code < 300:
            return reply
        raise raised(_error_of(reply))


def _waits(job: str) -> str:
    return (
        f"This question waits for a custodian's approval, as job {_in_path(job)}. It stays there, and costs nothing, when you stop "
        f"waiting; session.job({job!r}).result() gets its answer later."
    )


class _Answered(Job):
    """A job whose answer was there at once."""

    def __init__(self, session: RemoteSession, answer: str) -> None:
        super().__init__(session, "")
        self._answer = answer

    def _state(self, wait: float = 0.0) -> dict[str, Any]:  # noqa: ARG002 - there is nothing to wait for
        return {"state": "answered", "position": None, "answer": self._answer, "error": None}

    def cancel(self) -> None:
        """There is nothing left to cancel."""


def new_key() -> str:
    """A key that nobody used before."""
    return base64.urlsafe_b64encode(SYSTEM.bytes(18)).decode()


def _again(send: Callable[[], Reply]) -> Reply:
    from shoal.remote.connections import Lost

    reply = None
    for attempt in range(ATTEMPTS):
        with suppress(Lost):
            reply = send()
            if not _is_passing(reply):
                return reply
        if attempt + 1 < ATTEMPTS:
            time.sleep(0.2 * 2**attempt)
    if reply is not None:
        return reply
    raise ShoalError("E_SOURCE", "The service cannot be reached.", hint="Check the address, and that it runs.")


def _is_passing(reply: Reply) -> bool:
    return reply.status_code in SEND_AGAIN or (reply.status_code == 502 and _error_of(reply)["code"] == "E_SOURCE")


def _error_of(reply: Reply) -> dict[str, Any]:
    """The error of a reply; one that is not ours came from something in between."""
    with suppress(ShoalError):
        found = _checked(_object(reply).get("error"))
        if found is not None:
            return found
    return {"code": "E_SOURCE", "message": f"The service replied with status {reply.status_code}.", "hint": None}


def _checked(error: object) -> dict[str, Any] | None:
    """An error as a service writes it; None for anything else."""
    if not isinstance(error, dict) or error.get("code") not in list(QUERY_CODES | OTHER_CODES):
        return None
    position = error.get("position")
    is_place = position is None or (isinstance(position, list) and all(isinstance(part, int) for part in position))
    is_ours = isinstance(error.get("message"), str) and isinstance(error.get("hint"), str | None) and is_place
    return error if is_ours else None


def _object(reply: Reply) -> dict[str, Any]:
    """The object that a reply is; E_SOURCE for anything else, which is no reply of a service, and for halves of characters."""
    with suppress(ValueError, RecursionError):
        found = reply.json()
        if isinstance(found, dict):
            if b"\\u" in reply.content:
                json.dumps(found, ensure_ascii=False).encode()
            return found
    raise raised(not_ours())


def told(found: dict[str, Any], name: str, kind: type[T]) -> T:
    """A field of an object; E_SOURCE if it is missing or something else."""
    value = found.get(name)
    if kind is float and isinstance(value, int):
        value = float(value) if abs(value) < LARGEST else None
    if not isinstance(value, kind):
        raise raised(not_ours())
    return value


def _in_path(identifier: str) -> str:
    """The id of a job or an answer, which becomes part of an address: no service gives out others."""
    if _IDENTIFIER.fullmatch(identifier) is None:
        raise ShoalError(
            "E_NOT_FOUND", "No job and no answer has this id.", hint="Ids have letters, digits, _ and - alone."
        )
    return identifier


def _pair(found: dict[str, Any]) -> tuple[float, float]:
    return told(found, "epsilon", float), told(found, "delta", float)


def not_ours() -> dict[str, Any]:
    """What answers at the address is no service, or something stands in between."""
    return {"code": "E_SOURCE", "message": "The reply is not that of a service.", "hint": "Check the address."}


def raised(error: dict[str, Any]) -> ShoalError:
    """The error that the service's own session raised."""
    position = error.get("position")
    return ShoalError(
        str(error["code"]),
        str(error["message"]),
        hint=HOW_TO_SIGN_IN if error["code"] == "E_AUTH" else error.get("hint"),
        position=tuple(position) if position else None,
    )


def is_remote(source: object) -> bool:
    """Whether a source is a data set of a service."""
    return isinstance(source, str) and source.startswith(("https://", "http://")) and "/d/" in source


def _parts(url: str) -> tuple[str, str]:
    """Where the service is, and the data set's name."""
    parts = urlsplit(url)
    base, _, dataset = parts.path.partition("/d/")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ShoalError("E_USAGE", "A token is sent over https:// only, except on this machine.")
    if not dataset or "/" in dataset.rstrip("/") or parts.query or parts.fragment or parts.username:
        raise ShoalError("E_USAGE", "Write the address of a data set as https://host/d/NAME.")
    return f"{parts.scheme}://{parts.netloc}{base}", dataset.rstrip("/")
