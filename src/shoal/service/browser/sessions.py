"""Browser sessions: begun with a token or a link, ended by signing out, an idle hour, twelve hours, or the end of the token.

The cookie's secret is shown to the browser once; its SHA-256 is kept. It does not work as a bearer token.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.service import log
from shoal.service.people import later, random_id, unknown_caller

if TYPE_CHECKING:
    from shoal.service.people import Caller, People
    from shoal.service.rates import Rates
    from shoal.service.store import Rows, Store

IDLE_SECONDS = 3600
MOST_SECONDS = 12 * 3600
NOTED_EVERY_SECONDS = 60
VIA = "browser"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """Somebody who is signed in, and the token their forms must carry."""

    caller: Caller
    form: str


class Sessions:
    """The sessions of a service."""

    def __init__(self, store: Store, people: People, rates: Rates) -> None:
        self._store = store
        self._people = people
        self._rates = rates

    def begin_with_token(self, token: str) -> str:
        """The secret of a new session; it can do what the token can, and ends with it."""
        caller = self._people.caller(token, VIA)
        self._rates.take(caller.name, "sign-in")
        with self._store.writing() as rows:
            return self._begin(rows, caller.name, caller.token)

    def begin_with_link(self, link: str) -> str:
        """The secret of a new session for the person a link was made for; the link is used up."""
        with self._store.writing() as rows:
            return self._begin(rows, self._people.use_link(rows, link), "")

    def begin_with_proxy(self, person: str) -> str:
        """The secret of a new session for somebody a proxy names; E_AUTH if they do not exist."""
        self._people.trusted(person, VIA)
        self._rates.take(person, "sign-in")
        with self._store.writing() as rows:
            return self._begin(rows, person, "", "proxy")

    def _begin(self, rows: Rows, person: str, token: str, how: str = "link") -> str:
        secret, now = random_id("", 32), rows.now()
        rows.run("DELETE FROM sessions WHERE created < ?", later(now, timedelta(seconds=-MOST_SECONDS)))
        rows.run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", _digest(secret), person, token, now, now)
        log.write(rows, person, VIA, "sign-in", detail=token or how)
        return secret

    def find(self, secret: str) -> BrowserSession | None:
        """Whose session it is; None if it has ended or never existed."""
        with self._store.reading() as rows:
            now = rows.now()
            found = rows.one(
                "SELECT person, token, seen FROM sessions WHERE sha256 = ? AND seen > ? AND created > ?",
                _digest(secret),
                *(later(now, timedelta(seconds=-seconds)) for seconds in (IDLE_SECONDS, MOST_SECONDS)),
            )
        if found is None:
            return None
        try:
            caller = self._caller(found["person"], found["token"])
        except ShoalError:
            return None
        if found["seen"] < later(now, timedelta(seconds=-NOTED_EVERY_SECONDS)):
            with suppress(ShoalError), self._store.writing() as rows:
                rows.run("UPDATE sessions SET seen = ? WHERE sha256 = ?", now, _digest(secret))
        return BrowserSession(caller, form_token(secret))

    def _caller(self, person: str, token: str) -> Caller:
        return self._people.by_token_id(token, VIA) if token else self._people.trusted(person, VIA)

    def end(self, secret: str) -> None:
        """Signs out."""
        with self._store.writing() as rows:
            found = rows.one("SELECT person FROM sessions WHERE sha256 = ?", _digest(secret))
            if found is None:
                raise unknown_caller()
            rows.run("DELETE FROM sessions WHERE sha256 = ?", _digest(secret))
            log.write(rows, found["person"], VIA, "sign-out")


def form_token(secret: str) -> str:
    """The token in this session's forms: nobody can guess it without reading the cookie or the page."""
    return hashlib.sha256(f"form\x1f{secret}".encode()).hexdigest()


def _digest(secret: str) -> str:
    """Never equal to the digest of a token: a cookie's secret is not recognised as a bearer token."""
    return hashlib.sha256(f"session\x1f{secret}".encode(errors="surrogatepass")).hexdigest()
