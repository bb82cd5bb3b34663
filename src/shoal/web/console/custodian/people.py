"""People, what they may spend, and tokens, which are shown once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal import params
from shoal.errors import ShoalError
from shoal.service.allowances import PERIODS, Grant, grants
from shoal.service.people import SCOPES_OF
from shoal.web.calling import call, service_of
from shoal.web.console.forms import FieldError, Refused, about, form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import session_of
from shoal.web.jobs import only

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from shoal.service.people import Caller
    from shoal.service.service import Service

routes = APIRouter(include_in_schema=False)
ROLES = {
    "analyst": "asks the data sets that are open to them",
    "custodian": "tunes, allows, approves; asks and pays like everybody",
    "auditor": "reads the log and the totals, no rows",
}
LIMITS = {"most": "The most for one question", "above": "The ε above which a custodian approves"}
MAY = {
    "admin": "keep people, allowances, approvals and budgets",
    "audit": "read the log and the totals",
    "explain": "see what a question would cost",
    "query": "ask, and pay",
    "read": "open answers",
    "tune": "look at raw data",
}


@routes.get("/people")
async def people(request: Request) -> Response:
    """Everybody, for the custodian."""
    only(request, set())
    return await _people(request)


async def _people(request: Request, refused: Refused | None = None) -> Response:
    service, caller = service_of(request), session_of(request).caller
    caller.require_everywhere("admin")
    names = [each["name"] for each in await call(service.list_datasets, caller)]
    allowed = [grant.to_dict() for name in names for grant in await call(grants, service.store, name)]
    found = await call(service.people.all)
    return await framed(
        request,
        "people.html",
        refused=refused,
        here="people",
        people=found,
        roles=ROLES,
        datasets=names,
        grants=allowed,
        periods=PERIODS,
        groups=sorted({group for person in found for group in person["groups"]}),
    )


@routes.post("/people")
async def add(request: Request) -> Response:
    """A new person; names are never reused."""
    fields = await form_of(request, {"name", "roles", "groups"})
    service, caller = service_of(request), session_of(request).caller
    groups = fields["groups"].replace(",", " ").split()
    try:
        await call(service.add_user, caller, fields["name"].strip(), fields["roles"].split(), groups)
    except ShoalError as error:
        return await _people(request, Refused("add", fields, FieldError(_field_of(error), error)))
    return RedirectResponse("/people", 303)


@routes.post("/people/{name}/retire")
async def retire(request: Request, name: str) -> Response:
    """A person's tokens stop working now."""
    await form_of(request, set())
    await call(service_of(request).retire_user, session_of(request).caller, name)
    return RedirectResponse("/people", 303)


@routes.post("/allowances")
async def allow(request: Request) -> Response:
    """Who may query a data set, and within which limits."""
    fields = await form_of(request, {"dataset", "to", "epsilon", "delta", "per", "most", "above"})
    service, caller = service_of(request), session_of(request).caller
    per, to = fields["per"] or "ever", fields["to"].strip()
    try:
        limit = await call(_budget, service, caller, fields)
        grant = Grant(fields["dataset"], to, per, limit, _limit(fields, "most"), _limit(fields, "above"))
        await call(service.allow, caller, grant)
    except ShoalError as error:
        return await _people(request, Refused("allow", fields, error))
    return RedirectResponse("/people#allowances", 303)


@routes.get("/allowances")
async def allowances(request: Request) -> Response:
    """The address of a refused form, opened again."""
    only(request, set())
    return RedirectResponse("/people#allow", 303)


def _field_of(error: ShoalError) -> str:
    """Which field of a new person was refused: the service names it in its sentence."""
    said = error.message.lower()
    return "roles" if said.startswith("a role") else "groups" if "of a group" in said else "name"


def _budget(service: Service, caller: Caller, fields: dict[str, str]) -> params.Budget | None:
    """The ε and δ of a form. Without a δ the ledger's own is the limit: with none at all, most questions would be refused."""
    epsilon, delta = _number(fields, "epsilon", "ε"), _number(fields, "delta", "δ")
    if epsilon is None:
        if delta is not None:
            with about("epsilon"):
                raise ShoalError("E_USAGE", "An allowance with a δ has an ε, too.", hint="Write both, or neither.")
        return None
    if delta is None:
        whole = service.describe(caller, fields["dataset"])["ledger"]["budget"]
        if whole is None:
            with about("delta"):
                raise ShoalError("E_USAGE", "The ledger has no limit, so δ has to be said.", hint="Write 1e-6.")
        delta = whole["delta"]
    with about("epsilon"):
        return params.budget((epsilon, delta))


@routes.post("/allowances/withdraw")
async def withdraw(request: Request) -> Response:
    """Takes an allowance back."""
    fields = await form_of(request, {"dataset", "to", "per"})
    caller = session_of(request).caller
    await call(service_of(request).withdraw, caller, fields["dataset"], fields["to"], fields["per"])
    return RedirectResponse("/people#allowances", 303)


def _number(
    fields: dict[str, str], name: str, what: str, example: str = "0.5 or 1e-6, with a point and no comma"
) -> float | None:
    if not fields[name].strip():
        return None
    try:
        return float(fields[name])
    except ValueError:
        with about(name):
            raise ShoalError("E_USAGE", f"{what} is a number.", hint=f"Write {example}.") from None


def _limit(fields: dict[str, str], name: str) -> Fraction | None:
    found = _number(fields, name, LIMITS[name])
    with about(name):
        return None if found is None else params.epsilon(found)


# ---- tokens -------------------------------------------------------------------------------------------------------


@routes.get("/tokens")
async def tokens(request: Request) -> Response:
    """One's own tokens; a custodian's list has everybody's."""
    only(request, set())
    return await _tokens(request, None)


@routes.post("/tokens")
async def create(request: Request) -> Response:
    """A token, on this page and never again."""
    fields = await form_of(request, {"user", "scope", "days"})
    service, caller = service_of(request), session_of(request).caller
    person = fields["user"].strip() or caller.name
    scope = fields["scope"].split() or None
    try:
        days = _number(fields, "days", "The number of days", "90")
        made = await call(service.create_token, caller, person, scope, None, 90.0 if days is None else days)
    except FieldError as error:
        return await _tokens(request, None, refused=Refused("token", fields, error))
    except ShoalError as error:
        field = "days" if "days" in error.message else "user" if error.code == "E_NOT_FOUND" else "scope"
        return await _tokens(request, None, refused=Refused("token", fields, FieldError(field, error)))
    return await _tokens(request, made | {"user": person}, 201)


@routes.post("/tokens/{token}/revoke")
async def revoke(request: Request, token: str) -> Response:
    """Ends a token at once."""
    await form_of(request, set())
    await call(service_of(request).revoke_token, session_of(request).caller, token)
    return RedirectResponse("/tokens", 303)


async def _tokens(
    request: Request, made: dict[str, str] | None, status: int = 200, refused: Refused | None = None
) -> Response:
    service, caller = service_of(request), session_of(request).caller
    found = await call(service.tokens, caller)
    everybody = (
        {p["name"]: sorted(_scopes(p["roles"])) for p in await call(service.people.all) if not p["retired"]}
        if caller.is_custodian_of_all
        else {}
    )
    known = _scopes(SCOPES_OF) if caller.is_custodian_of_all else caller.scope
    return await framed(
        request,
        "tokens.html",
        status,
        refused,
        here="tokens",
        tokens=found,
        made=made,
        users=everybody,
        scopes={
            scope: (MAY[scope], [role for role in SCOPES_OF if scope in SCOPES_OF[role]]) for scope in sorted(known)
        },
    )


def _scopes(roles: Iterable[str]) -> frozenset[str]:
    """What people with these roles may do."""
    return frozenset().union(*(SCOPES_OF[role] for role in roles))
