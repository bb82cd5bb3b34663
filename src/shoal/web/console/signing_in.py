"""Signing in with a token or a one-time link, and signing out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.errors import ShoalError
from shoal.service.browser.sessions import MOST_SECONDS
from shoal.web.calling import call, service_of
from shoal.web.console.forms import fields_of, form_of
from shoal.web.console.rendering import page
from shoal.web.gate import COOKIES
from shoal.web.jobs import only

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.web.operation.proxy import Proxy

routes = APIRouter(include_in_schema=False)
_OURS = re.compile(r"/(?!/)[A-Za-z0-9_/-]{0,200}")
LONGEST_SECRET = 200


@routes.get("/login")
async def login(request: Request) -> Response:
    """A field for a token; for a link, a button, so that a program that only previews the link does not use it up."""
    only(request, {"link", "to"})
    link = request.query_params.get("link", "")[:LONGEST_SECRET]
    return page(request, "login.html", link=link, to=_ours(request.query_params.get("to", "/")), error=None)


@routes.post("/login")
async def sign_in(request: Request) -> Response:
    """A new session, whatever session there was before."""
    fields = await fields_of(request, {"token", "link", "to"})
    service = service_of(request)
    begin: Callable[[str], str] = (
        service.sessions.begin_with_link if fields["link"] else service.sessions.begin_with_token
    )
    try:
        secret = await call(begin, (fields["link"] or fields["token"]).strip()[:LONGEST_SECRET])
    except ShoalError as error:
        if error.code != "E_AUTH":
            raise
        return page(
            request, "login.html", 401, link="", to=_ours(fields["to"]), error="link" if fields["link"] else "token"
        )
    reply = RedirectResponse(_ours(fields["to"]), 303)
    secure = request.state.secure
    reply.set_cookie(
        COOKIES[secure], secret, max_age=MOST_SECONDS, path="/", secure=secure, httponly=True, samesite="strict"
    )
    return reply


@routes.post("/logout")
async def sign_out(request: Request) -> Response:
    """The end of a session; its cookie stops working. The next page would sign in again whom a proxy names: it goes on there."""
    await form_of(request, set())
    proxy: Proxy | None = request.state.proxy
    if proxy is not None and not proxy.sign_out:
        raise ShoalError("E_USAGE", "You are signed in by the proxy in front of this service.", hint="Sign out there.")
    await call(service_of(request).sessions.end, request.state.secret)
    reply: Response = RedirectResponse("/login", 303)
    if proxy is not None:
        reply = page(request, "signed_out.html", me=None, there=proxy.sign_out)
    secure = request.state.secure
    reply.delete_cookie(COOKIES[secure], path="/", secure=secure, httponly=True, samesite="strict")
    return reply


def _ours(path: str) -> str:
    """A path of this service, never another site."""
    return path if _OURS.fullmatch(path) and path not in {"/login", "/logout"} else "/"
