"""Who may do what: people with roles and groups, tokens with scopes. Names are never reused.

A token is `shoal_` and 43 characters, shown once; its SHA-256 is kept. There are no passwords.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.service.store import Reading, Rows, Store

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
SCOPES_OF = {
    "analyst": frozenset({"explain", "query", "read"}),
    "custodian": frozenset({"explain", "query", "read", "tune", "admin", "audit"}),
    "auditor": frozenset({"audit"}),
}
SCOPES = frozenset().union(*SCOPES_OF.values())
PREFIX = "shoal_"
NOBODYS = frozenset({"everyone", "operator", "service"})
"""Names that allowances and the log use for others: a line of a user `operator` would look like one of the machine's."""
DEFAULT_DAYS = 90
MOST_DAYS = 366
LINK_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a valid token: what they may do here and now."""

    name: str
    roles: frozenset[str]
    groups: frozenset[str]
    scope: frozenset[str]
    datasets: frozenset[str] | None
    token: str = ""
    via: str = "http"
    expires: str = ""
    """When the token expires; '' for somebody without one."""

    def require(self, scope: str) -> None:
        """E_FORBIDDEN without this scope."""
        if scope not in self.scope and not any(scope in SCOPES_OF[role] for role in self.roles):
            roles = " and ".join(sorted(self.roles))
            raise ShoalError(
                "E_FORBIDDEN",
                f"The role {roles} may not do that: it needs the scope '{scope}'.",
                hint=f"It is for {' and '.join(role + 's' for role in SCOPES_OF if scope in SCOPES_OF[role])}.",
            )
        if scope not in self.scope:
            raise ShoalError(
                "E_FORBIDDEN",
                f"This token may not do that: it needs the scope '{scope}'.",
                hint="Ask the data custodian for a token with it.",
            )

    def require_everywhere(self, scope: str) -> None:
        """E_FORBIDDEN without this scope, or with a token for some data sets: this concerns all of them."""
        self.require(scope)
        if self.datasets is not None:
            raise ShoalError(
                "E_FORBIDDEN",
                "This token may not do that: it is for some data sets only.",
                hint="Ask the data custodian for a token without that limit.",
            )

    def reaches(self, dataset: str) -> bool:
        """Whether the token is for this data set."""
        return self.datasets is None or dataset in self.datasets

    @property
    def is_custodian(self) -> bool:
        """Whether this is a custodian with a token for this data set."""
        return "admin" in self.scope

    @property
    def is_custodian_of_all(self) -> bool:
        """The same, for every data set."""
        return self.is_custodian and self.datasets is None


def checked_name(name: Any, what: str) -> str:
    """A name of a user, a group or a data set."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ShoalError(
            "E_USAGE",
            f"The name of a {what} has 1 to 63 characters: a lower-case letter, then letters, digits, - and _.",
        )
    return name


def random_id(prefix: str, size: int = 16) -> str:
    """A name nobody can guess."""
    return prefix + base64.urlsafe_b64encode(SYSTEM.bytes(size)).decode().rstrip("=")


def not_found(what: str) -> ShoalError:
    """The same message for what does not exist and for what is not yours."""
    return ShoalError("E_NOT_FOUND", f"There is no such {what}, or you may not see it.")


class People:
    """People and their tokens."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, rows: Rows, name: str, roles: Sequence[str], groups: Sequence[str]) -> None:
        """A new person. A name that was ever used is refused."""
        checked_name(name, "user")
        if not roles or any(role not in SCOPES_OF for role in roles):
            raise ShoalError("E_USAGE", "A role is analyst, custodian or auditor.")
        for group in groups:
            checked_name(group, "group")
        if name in NOBODYS or rows.one("SELECT name FROM people WHERE name = ?", name):
            raise ShoalError("E_USAGE", f"There is a user '{name}' already, or there was one; names are never reused.")
        known = (json.dumps(sorted(set(roles))), json.dumps(sorted(set(groups))))
        rows.run("INSERT INTO people VALUES (?, ?, ?, ?, '')", name, *known, rows.now())

    def retire(self, rows: Rows, name: str) -> None:
        """The person's tokens stop working now; the name stays taken."""
        if not rows.run("UPDATE people SET retired = ? WHERE name = ? AND retired = ''", rows.now(), name):
            raise not_found("user")

    def all(self) -> list[dict[str, Any]]:
        """Everybody, by name."""
        with self._store.reading() as rows:
            found = rows.all("SELECT name, roles, groups, created, retired FROM people ORDER BY name")
        return [
            {**p, "roles": json.loads(p["roles"]), "groups": json.loads(p["groups"]), "retired": p["retired"] or None}
            for p in found
        ]

    def has_custodian(self) -> bool:
        """Whether somebody is one already."""
        return any("custodian" in person["roles"] and not person["retired"] for person in self.all())

    # ---- tokens --------------------------------------------------------------------------------------------------

    def create_token(
        self,
        rows: Rows,
        person: str,
        scope: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        days: float = DEFAULT_DAYS,
        before: str = "",
    ) -> dict[str, Any]:
        """A token, shown here and never again; it expires no later than `before`, if given."""
        roles = self._roles(rows, person)
        allowed = frozenset().union(*(SCOPES_OF[role] for role in roles))
        wanted = allowed if scope is None else frozenset(scope)
        if not wanted or not wanted <= SCOPES:
            raise ShoalError("E_USAGE", f"A scope is one of {', '.join(sorted(SCOPES))}.")
        if not wanted <= allowed:
            may, said = ", ".join(sorted(allowed)), " and ".join(sorted(roles))
            raise ShoalError(
                "E_FORBIDDEN",
                "A token cannot do more than the user's roles allow.",
                hint=f"{person} is {said}: a token of theirs may have {may}.",
            )
        if not 0 < days <= MOST_DAYS:
            raise ShoalError("E_USAGE", f"A token is good for at most {MOST_DAYS} days.")
        for name in datasets or ():
            checked_name(name, "data set")
        token, identifier = random_id(PREFIX, 32), random_id("t_", 12)
        now = rows.now()
        expires = later(now, timedelta(days=days))
        expires = min(expires, before) if before else expires
        kept = json.dumps(None if datasets is None else sorted(set(datasets)))
        rows.run(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, '')",
            *(identifier, person, _digest(token), json.dumps(sorted(wanted)), kept, now, expires),
        )
        return {"token": token, "id": identifier, "expires": expires}

    def _roles(self, rows: Rows, person: str) -> list[str]:
        found = rows.one("SELECT roles FROM people WHERE name = ? AND retired = ''", person)
        if found is None:
            raise not_found("user")
        roles: list[str] = json.loads(found["roles"])
        return roles

    def tokens(self, person: str | None = None) -> list[dict[str, Any]]:
        """Valid tokens, of everybody or of one person; never the token itself."""
        with self._store.reading() as rows:
            found = rows.all(
                "SELECT id, person, scope, datasets, created, expires FROM tokens"
                " WHERE revoked = '' AND expires > ? AND (CAST(? AS TEXT) IS NULL OR person = ?) ORDER BY created, id",
                *(rows.now(), person, person),
            )
        return [
            {
                "id": t["id"],
                "user": t["person"],
                "scope": json.loads(t["scope"]),
                "dataset": json.loads(t["datasets"]),
                "created": t["created"],
                "expires": t["expires"],
            }
            for t in found
        ]

    def revoke(self, rows: Rows, identifier: str, person: str | None = None) -> None:
        """Ends a token, in every process at once."""
        if not rows.run(
            "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked = '' AND (CAST(? AS TEXT) IS NULL OR person = ?)",
            *(rows.now(), identifier, person, person),
        ):
            raise not_found("token")

    def caller(self, token: str, via: str = "http") -> Caller:
        """Whose token it is; E_AUTH for any other string."""
        digest = _digest(token)
        found = self._good_token("sha256", digest)
        if not hmac.compare_digest(found["sha256"], digest):
            raise unknown_caller()
        return _caller(found, via)

    def by_token_id(self, identifier: str, via: str) -> Caller:
        """Somebody who signed in with this token; E_AUTH once it is expired or revoked."""
        return _caller(self._good_token("id", identifier), via)

    def _good_token(self, column: Literal["sha256", "id"], value: str) -> dict[str, Any]:
        def read(rows: Reading) -> dict[str, Any] | None:
            return rows.one(
                "SELECT t.*, p.roles, p.groups FROM tokens t JOIN people p ON p.name = t.person"
                f" WHERE t.{column} = ? AND t.revoked = '' AND p.retired = ''",
                value,
            )

        found, now = self._store.known_now(("token", column, value), read)
        if found is None or found["expires"] <= now:
            raise unknown_caller()
        return found

    def trusted(self, name: str, via: str) -> Caller:
        """Somebody named by the machine's operator or by a trusted proxy."""
        found = self._store.known(("person", name), lambda rows: _person(rows, name))
        if found is None:
            raise unknown_caller()
        return _person_as_caller(name, found, via)

    # ---- links that sign in once ---------------------------------------------------------------------------------

    def create_link(self, rows: Rows, person: str) -> str:
        """A secret that signs a person in once and expires after five minutes."""
        secret = random_id("", 32)
        rows.run(
            "INSERT INTO links VALUES (?, ?, ?, '')",
            *(_digest(secret), person, later(rows.now(), timedelta(seconds=LINK_SECONDS))),
        )
        return secret

    def use_link(self, rows: Rows, secret: str) -> str:
        """The person a link is for; it is used up."""
        now = rows.now()
        found = rows.one(
            "SELECT person FROM links WHERE sha256 = ? AND used = '' AND expires > ?", _digest(secret), now
        )
        if found is None:
            raise unknown_caller()
        rows.run("UPDATE links SET used = ? WHERE sha256 = ?", now, _digest(secret))
        return str(found["person"])


def known_person(rows: Reading, name: str, via: str) -> Caller | None:
    """The same inside a transaction; None for whoever was retired."""
    found = _person(rows, name)
    return None if found is None else _person_as_caller(name, found, via)


def _person(rows: Reading, name: str) -> dict[str, Any] | None:
    return rows.one("SELECT roles, groups FROM people WHERE name = ? AND retired = ''", name)


def _person_as_caller(name: str, found: dict[str, Any], via: str) -> Caller:
    roles = frozenset(json.loads(found["roles"]))
    scope = frozenset().union(*(SCOPES_OF[role] for role in roles))
    return Caller(name, roles, frozenset(json.loads(found["groups"])), scope, None, "", via)


def _caller(found: dict[str, Any], via: str) -> Caller:
    """What a token may do: never more than its owner's roles."""
    roles = frozenset(json.loads(found["roles"]))
    allowed = frozenset().union(*(SCOPES_OF[role] for role in roles))
    datasets = json.loads(found["datasets"])
    return Caller(
        found["person"],
        roles,
        frozenset(json.loads(found["groups"])),
        frozenset(json.loads(found["scope"])) & allowed,
        None if datasets is None else frozenset(datasets),
        found["id"],
        via,
        found["expires"],
    )


def unknown_caller() -> ShoalError:
    """The same refusal for every invalid token."""
    return ShoalError(
        "E_AUTH",
        "The token is missing, wrong, expired or revoked.",
        hint="Send it as Authorization: Bearer shoal_…; the data custodian makes a new one.",
    )


def later(moment: str, time: timedelta) -> str:
    """A time after another one."""
    start = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return (start + time).strftime("%Y-%m-%dT%H:%M:%SZ")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
