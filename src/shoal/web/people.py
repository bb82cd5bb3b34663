"""Tokens, users, allowances."""

from __future__ import annotations

from fractions import Fraction

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal import params
from shoal.service.allowances import Grant
from shoal.web.bodies import AllowanceBody, RevokeBody, TokenBody, UserBody, WithdrawBody
from shoal.web.calling import call, caller_of, service_of
from shoal.web.errors import json_reply
from shoal.web.jobs import only

routes = APIRouter(prefix="/v1", tags=["people"])


@routes.get("/tokens")
async def tokens(request: Request) -> Response:
    """My tokens, never the token itself."""
    only(request, set())
    return json_reply({"tokens": await call(service_of(request).tokens, caller_of(request))})


@routes.post("/tokens")
async def create_token(request: Request, body: TokenBody) -> Response:
    """A token, shown here and never again."""
    only(request, set())
    made = await call(
        service_of(request).create_token, caller_of(request), body.user, body.scope, body.dataset, body.days
    )
    return json_reply(made, 201)


@routes.delete("/tokens/{identifier}")
async def revoke_token(request: Request, identifier: str) -> Response:
    """End a token at once, by its id."""
    only(request, set())
    await call(service_of(request).revoke_token, caller_of(request), identifier)
    return json_reply({"revoked": identifier})


@routes.delete("/tokens")
async def revoke_named_token(request: Request, body: RevokeBody) -> Response:
    """The same, with the id in the body."""
    return await revoke_token(request, body.id)


@routes.get("/users")
async def users(request: Request) -> Response:
    """Everybody, for the custodian."""
    only(request, set())
    caller_of(request).require_everywhere("admin")
    return json_reply({"users": await call(service_of(request).people.all)})


@routes.post("/users")
async def add_user(request: Request, body: UserBody) -> Response:
    """A new person."""
    only(request, set())
    await call(service_of(request).add_user, caller_of(request), body.name, body.roles, body.groups)
    return json_reply({"name": body.name}, 201)


@routes.post("/allowances")
async def allow(request: Request, body: AllowanceBody) -> Response:
    """Who may ask a data set, and within which limits."""
    only(request, set())
    limit = None if body.budget is None else params.budget((body.budget.epsilon, body.budget.delta))
    grant = Grant(
        body.dataset, body.to, body.per, limit, _limit(body.max_epsilon_per_query), _limit(body.approve_above)
    )
    await call(service_of(request).allow, caller_of(request), grant)
    return json_reply(grant.to_dict(), 201)


@routes.delete("/allowances")
async def withdraw(request: Request, body: WithdrawBody) -> Response:
    """End an allowance."""
    only(request, set())
    await call(service_of(request).withdraw, caller_of(request), body.dataset, body.to, body.per)
    return json_reply({"withdrawn": {"dataset": body.dataset, "to": body.to, "per": body.per}})


def _limit(value: float | None) -> Fraction | None:
    return None if value is None else params.epsilon(value)
