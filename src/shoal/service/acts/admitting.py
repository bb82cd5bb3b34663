"""People, their tokens, and one-time sign-in links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.service import log
from shoal.service.acts.core import OPERATOR, Core
from shoal.service.people import not_found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.service.people import Caller

FIRST = "custodian"


class Admitting(Core):
    """Who has access; each act is a line of the log."""

    def first_link(self) -> str | None:
        """A link for the first custodian, available only while there is none."""
        if self.people.has_custodian():
            return None
        with self.store.writing() as rows:
            self.people.add(rows, FIRST, ["custodian"], [])
            log.write(rows, OPERATOR.name, OPERATOR.via, "user added", detail=f"{FIRST}: custodian")
            return self.people.create_link(rows, FIRST)

    def add_user(self, caller: Caller, name: str, roles: Sequence[str], groups: Sequence[str] = ()) -> None:
        """A new person."""
        caller.require_everywhere("admin")
        with self.store.writing() as rows:
            self.people.add(rows, name, roles, groups)
            detail = f"{name}: {', '.join(sorted(set(roles)))}"
            log.write(rows, caller.name, caller.via, "user added", detail=detail)

    def retire_user(self, caller: Caller, name: str) -> None:
        """A person's tokens stop working now."""
        caller.require_everywhere("admin")
        with self.store.writing() as rows:
            self.people.retire(rows, name)
            log.write(rows, caller.name, caller.via, "user retired", detail=name)

    def create_token(
        self,
        caller: Caller,
        person: str | None = None,
        scope: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        days: float = 90,
    ) -> dict[str, Any]:
        """A token: for oneself, with no more scope or lifetime than the calling token; custodians may make one for anybody."""
        whose = person or caller.name
        if whose != caller.name:
            caller.require_everywhere("admin")
        elif scope is None or not frozenset(scope) <= caller.scope:
            if scope is not None:
                raise ShoalError(
                    "E_FORBIDDEN",
                    "A token cannot make one that can do more.",
                    hint=f"This one may {', '.join(sorted(caller.scope))}.",
                )
            scope = sorted(caller.scope)
        if whose == caller.name and caller.datasets is not None:
            datasets = sorted(caller.datasets if datasets is None else caller.datasets & set(datasets))
        if caller is not OPERATOR:
            self._rates.take(caller.name, "token")
        with self.store.writing() as rows:
            before = caller.expires if whose == caller.name else ""
            made = self.people.create_token(rows, whose, scope, datasets, days, before)
            log.write(rows, caller.name, caller.via, "token", detail=f"{made['id']} for {whose}")
        return made

    def tokens(self, caller: Caller) -> list[dict[str, Any]]:
        """One's own tokens that can do no more than the one that asks; a custodian's list has everybody's."""
        if caller.is_custodian_of_all:
            return self.people.tokens()
        return [token for token in self.people.tokens(caller.name) if _can_no_more(token, caller)]

    def revoke_token(self, caller: Caller, identifier: str) -> None:
        """Ends a token at once: one that the caller's list has."""
        if not any(token["id"] == identifier for token in self.tokens(caller)):
            raise not_found("token")
        with self.store.writing() as rows:
            self.people.revoke(rows, identifier, None if caller.is_custodian_of_all else caller.name)
            log.write(rows, caller.name, caller.via, "token revoked", detail=identifier)


def _can_no_more(token: dict[str, Any], caller: Caller) -> bool:
    """Whether a token is the caller's own one, or has no scope and no data set that the caller's does not have."""
    datasets = token["dataset"]
    within = caller.datasets is None or (datasets is not None and caller.datasets.issuperset(datasets))
    return token["id"] == caller.token or (within and caller.scope.issuperset(token["scope"]))
